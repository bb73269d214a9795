//! Where an FTP control connection says which port is to be called (RFC 959: PORT, 227; RFC 2428:
//! EPRT, 229).
//!
//! Only what begins a segment is read, and only if its end is in the segment as well: that is how
//! every client and server sends it. What is cut up or hidden behind other commands passes unread,
//! and its data connection does not come about; to guess would be worse.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

use flow::{Direction, Tuple};

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `10,0,0,1,4,210`
    Commas,
    /// `|1|10.0.0.1|1234|`, with any delimiter.
    Extended(u8),
    /// `1234`, between delimiters: the address is that of the connection.
    Port,
    /// The whole of 227, for who has asked for 229: a port alone is told.
    Answer,
}

/// An address and a port that the other end is to call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Announcement {
    pub form: Form,
    /// `None`: that of the connection.
    pub address: Option<IpAddr>,
    pub port: u16,
    /// Which bytes of the payload say it.
    pub place: Range<usize>,
}

/// Reads what begins a payload. In the original direction the client speaks.
pub(super) fn read(payload: &[u8], direction: Direction) -> Option<Announcement> {
    let begins =
        |word: &[u8]| payload.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    match direction {
        Direction::Original if begins(b"PORT ") => commas(payload, 5),
        Direction::Original if begins(b"EPRT ") => extended(payload, 5),
        // The text before the numbers is free, and the parentheses are not everywhere (RFC 1123,
        // 4.1.2.6).
        Direction::Reply if begins(b"227 ") => {
            let digit = payload[4..].iter().position(u8::is_ascii_digit)?;
            commas(payload, 4 + digit)
        }
        Direction::Reply if begins(b"229 ") => {
            let open = payload[4..].iter().position(|byte| *byte == b'(')?;
            let rest = &payload[4 + open + 1..];
            let delimiter = *rest.first()?;
            if rest.get(..3)? != [delimiter; 3] || !(33..=126).contains(&delimiter) {
                return None;
            }
            let at = 4 + open + 4;
            let (port, end) = number(payload, at, 65_535)?;
            let closed = payload.get(end) == Some(&delimiter) && port != 0;
            closed.then_some(Announcement { form: Form::Port, address: None, port, place: at..end })
        }
        _ => None,
    }
}

/// How a client asks to be told what to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// `PASV`
    Passive,
    /// `EPSV`
    Extended,
    /// `EPSV ALL`: and never otherwise from now on.
    OnlyExtended,
}

impl Question {
    /// Reads a payload that is nothing but one.
    pub fn read(payload: &[u8]) -> Option<Question> {
        let line = payload.trim_ascii_end();
        let is = |text: &[u8]| line.eq_ignore_ascii_case(text).then_some(());
        let passive = is(b"PASV").map(|()| Question::Passive);
        let extended = || is(b"EPSV").map(|()| Question::Extended);
        passive.or_else(extended).or_else(|| is(b"EPSV ALL").map(|()| Question::OnlyExtended))
    }
}

/// A number of at most `most`, and where it ends: before another byte, so that none of its digits
/// is still to come.
fn number(payload: &[u8], at: usize, most: u32) -> Option<(u16, usize)> {
    let (mut value, mut end) = (0u32, at);
    while let Some(digit) = payload.get(end)?.checked_sub(b'0').filter(|digit| *digit < 10) {
        value = value * 10 + u32::from(digit);
        end += 1;
        if value > most {
            return None;
        }
    }
    (end > at).then_some((value as u16, end))
}

fn commas(payload: &[u8], start: usize) -> Option<Announcement> {
    let start = start + payload[start..].iter().position(|byte| *byte != b' ')?;
    let (mut numbers, mut at) = ([0u8; 6], start);
    for (n, place) in numbers.iter_mut().enumerate() {
        let (value, end) = number(payload, at, 255)?;
        *place = value as u8;
        if n < 5 && payload.get(end) != Some(&b',') {
            return None;
        }
        at = end + usize::from(n < 5);
    }
    let [a, b, c, d, high, low] = numbers;
    let port = u16::from_be_bytes([high, low]);
    let address = Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d)));
    (port != 0).then_some(Announcement { form: Form::Commas, address, port, place: start..at })
}

fn extended(payload: &[u8], start: usize) -> Option<Announcement> {
    let start = start + payload[start..].iter().position(|byte| *byte != b' ')?;
    let delimiter = payload[start];
    if !(33..=126).contains(&delimiter) || delimiter.is_ascii_digit() {
        return None;
    }
    let family = *payload.get(start + 1)?;
    if payload.get(start + 2) != Some(&delimiter) {
        return None;
    }
    let rest = &payload[start + 3..];
    let end = rest.iter().take(46).position(|byte| *byte == delimiter)?;
    let address: IpAddr = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    if family != if address.is_ipv4() { b'1' } else { b'2' } {
        return None;
    }
    let (port, end) = number(payload, start + 3 + end + 1, 65_535)?;
    let closed = payload.get(end) == Some(&delimiter) && port != 0;
    let place = start..end + 1;
    closed.then_some(Announcement { form: Form::Extended(delimiter), address: Some(address), port, place })
}

impl Announcement {
    /// Whether it means something to who gets it, in whose place the sender and the receiver are
    /// called otherwise.
    pub fn can_go(&self, seen: &Tuple, to: &Tuple) -> bool {
        let same = seen.is_ipv4() == to.is_ipv4();
        match self.form {
            Form::Port | Form::Answer => true,
            Form::Commas => same,
            Form::Extended(_) => same || to.is_ipv4(),
        }
    }

    /// The answer to who has asked by [`Question::Extended`] a server that was asked by
    /// [`Question::Passive`] (RFC 6384). The address is left out, as the server would have done,
    /// and is often wrong where that stands behind a translation.
    pub fn extended(self, payload: &[u8]) -> Announcement {
        let end = self.place.end;
        let place = 0..end + usize::from(payload.get(end) == Some(&b')'));
        match self.form {
            Form::Commas => Announcement { form: Form::Answer, address: None, place, ..self },
            _ => self,
        }
    }

    /// The same with another address and port, and which bytes of the payload it stands for.
    pub fn written(&self, address: IpAddr, port: u16) -> (Range<usize>, String) {
        let across = self.address.is_some_and(|announced| announced.is_ipv4() != address.is_ipv4());
        if let (Form::Extended(_), true) = (self.form, across) {
            // What every server understands (RFC 6384, 6.2): with the command, which begins the
            // payload.
            let text = Announcement { form: Form::Commas, ..self.clone() }.text(address, port);
            return (0..self.place.end, format!("PORT {text}"));
        }
        (self.place.clone(), self.text(address, port))
    }

    fn text(&self, address: IpAddr, port: u16) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = match (self.form, address) {
            (Form::Port, _) => write!(text, "{port}"),
            (Form::Answer, _) => write!(text, "229 Entering Extended Passive Mode (|||{port}|)"),
            (Form::Commas, IpAddr::V4(address)) => {
                let [a, b, c, d] = address.octets();
                write!(text, "{a},{b},{c},{d},{},{}", port >> 8, port & 255)
            }
            (Form::Commas, IpAddr::V6(_)) => Ok(()),
            (Form::Extended(delimiter), address) => {
                let (family, delimiter) = (if address.is_ipv4() { 1 } else { 2 }, delimiter as char);
                write!(text, "{delimiter}{family}{delimiter}{address}{delimiter}{port}{delimiter}")
            }
        };
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client(text: &str) -> Option<(Option<IpAddr>, u16, &str)> {
        let found = read(text.as_bytes(), Direction::Original)?;
        Some((found.address, found.port, &text[found.place]))
    }

    fn server(text: &str) -> Option<(Option<IpAddr>, u16, &str)> {
        let found = read(text.as_bytes(), Direction::Reply)?;
        Some((found.address, found.port, &text[found.place]))
    }

    #[test]
    fn announcements_are_read() {
        let four = Some("10.0.0.1".parse().unwrap());
        let six = Some("2001:db8::1".parse().unwrap());
        assert_eq!(client("PORT 10,0,0,1,4,210\r\n"), Some((four, 1234, "10,0,0,1,4,210")));
        assert_eq!(client("port 10,0,0,1,4,210\n"), Some((four, 1234, "10,0,0,1,4,210")));
        assert_eq!(client("EPRT |1|10.0.0.1|1234|\r\n"), Some((four, 1234, "|1|10.0.0.1|1234|")));
        assert_eq!(client("EPRT !2!2001:db8::1!1234!\r\n"), Some((six, 1234, "!2!2001:db8::1!1234!")));
        let passive = "227 Entering Passive Mode (10,0,0,1,4,210).\r\n";
        assert_eq!(server(passive), Some((four, 1234, "10,0,0,1,4,210")));
        assert_eq!(server("227 ok 10,0,0,1,4,210\r\n"), Some((four, 1234, "10,0,0,1,4,210")));
        assert_eq!(server("229 Entering Extended Passive Mode (|||1234|)\r\n"), Some((None, 1234, "1234")));
    }

    #[test]
    fn what_is_none_is_not() {
        for text in [
            "PORT 10,0,0,1,4,210", // A digit may follow in the next segment.
            "PORT 10,0,0,256,4,210\r\n",
            "PORT 10,0,0,1,0,0\r\n",
            "PORT 10,0,0,1,4\r\n",
            "PORT \r\n",
            "PORT ",
            "EPRT |2|10.0.0.1|1234|\r\n",
            "EPRT |1|10.0.0.1|1234\r\n",
            "EPRT |1|10.0.0.1|70000|\r\n",
            "EPRT ",
            "NOOP\r\nPORT 10,0,0,1,4,210\r\n",
            "227 Entering Passive Mode (10,0,0,1,4,210).\r\n",
        ] {
            assert_eq!(client(text), None, "{text}");
        }
        for text in
            ["229 (||1234|)\r\n", "229 (|||1234)\r\n", "229 (|||", "227 none\r\n", "PORT 10,0,0,1,4,210\r\n"]
        {
            assert_eq!(server(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(a: [u8; 4], b: [u8; 16], port in 1u16.., which in 0usize..4) {
            let (verb, direction, address) = [
                ("PORT 1,2,3,4,5,6\r\n", Direction::Original, IpAddr::from(a)),
                ("EPRT |2|::1|9|\r\n", Direction::Original, IpAddr::from(b)),
                ("227 x (1,2,3,4,5,6)\r\n", Direction::Reply, IpAddr::from(a)),
                ("229 x (|||7|)\r\n", Direction::Reply, IpAddr::from(a)),
            ][which];
            let before = read(verb.as_bytes(), direction).unwrap();
            let (place, text) = before.written(address, port);
            let text = [&verb[..place.start], &text, &verb[place.end..]].concat();
            let after = read(text.as_bytes(), direction).unwrap();
            prop_assert_eq!((after.form, after.port), (before.form, port));
            prop_assert_eq!(after.address, if which == 3 { None } else { Some(address) });
        }

        #[test]
        fn no_bytes_panic(start in 0usize..5, rest in "[0-9,|. ():a-f\r\n]{0,40}", bytes in proptest::collection::vec(any::<u8>(), 0..9)) {
            let text = [["PORT ", "EPRT ", "227 ", "229 ", ""][start].as_bytes(), rest.as_bytes(), &bytes].concat();
            for direction in [Direction::Original, Direction::Reply] {
                if let Some(found) = read(&text, direction) {
                    prop_assert!(found.place.end < text.len() && found.port != 0);
                }
            }
        }
    }
}
