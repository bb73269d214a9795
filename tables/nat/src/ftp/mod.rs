//! FTP through a translation: the control connection says, in its text, which address and port to
//! call for the data.
//!
//! Three things follow. The text is changed to what the other end can call, so the segment may
//! become longer or shorter; from then on the two ends count differently, and sequence and
//! acknowledgement numbers (and selective ones, RFC 2018) are corrected in every segment; and the
//! data connection is expected ([`Nat::expect`](crate::Nat::expect)), so that it is let in and led
//! to the right host.
//!
//! Both ways are one: whoever announces stands on a side where it is called `seen.source`, and on
//! the other it is called `to.source`. A client behind masquerading that says PORT, and a server
//! behind a port forward that answers PASV, are the same case.
//!
//! Into the other family (RFC 6384) the text goes as well: a client of IPv6 that says EPRT says
//! PORT to a server of IPv4, and one that says EPSV says PASV, for not every server knows EPSV, and
//! gets 229 where the server says 227.
//!
//! An announcement of another host than the one that speaks is left alone (RFC 2577, 3).

mod announcement;

use std::ops::Range;

use flow::{Direction, Tuple};
use wire::{Headers, protocol, tcp};

use announcement::{Announcement, Question};

use crate::addresses::address;
use crate::delta::Delta;
use crate::expect::Expectation;
use crate::nat::Refusal;

/// The port of FTP's control connections.
pub const PORT: u16 = 21;
/// Most bytes by which the text of an announcement grows: `EPRT` of the shortest to one of the
/// longest IPv6 address, with its port.
pub const GROWTH: usize = 48;

/// What is remembered of one control connection, beside its flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ftp {
    /// Of what each direction sends.
    shifts: [Shift; 2],
    /// What a client of the other family asked last.
    asked: Option<Question>,
}

/// How the counts of one direction differ behind the translation. Segments still under way from
/// before the last change count as they did; earlier changes are forgotten, for their segments are
/// long acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shift {
    /// Sequence number, as sent, of the segment that changed last.
    at: u32,
    before: i32,
    after: i32,
}

fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Shift {
    fn none(&self) -> bool {
        self.before == 0 && self.after == 0
    }

    /// A sequence number of this direction, as the other side counts.
    fn forward(&self, sequence: u32) -> u32 {
        let by = if is_after(sequence, self.at) { self.after } else { self.before };
        sequence.wrapping_add_signed(by)
    }

    /// An acknowledgement of this direction's data, as its sender counts.
    fn back(&self, acknowledged: u32) -> u32 {
        let sent = acknowledged.wrapping_add_signed(-self.before);
        let by = if is_after(sent, self.at) { self.after } else { self.before };
        acknowledged.wrapping_add_signed(-by)
    }

    /// The segment at `sequence` became longer by `by`. Sent again it becomes so again, and is not
    /// counted twice.
    fn change(&mut self, sequence: u32, by: i32) {
        if by != 0 && (self.before == self.after || is_after(sequence, self.at)) {
            *self = Shift { at: sequence, before: self.after, after: self.after + by };
        }
    }
}

impl Ftp {
    /// Whether a flow is a control connection.
    pub fn is_control(original: &Tuple) -> bool {
        original.protocol == protocol::TCP && original.destination_port == PORT
    }

    /// Corrects what a segment acknowledges: from then on it speaks of what the other end has
    /// really sent. To be called for each segment of the control connection before the flow table
    /// tracks it, whose windows would find it out of bounds otherwise.
    pub fn acknowledge(&self, ip: &mut [u8], headers: &Headers, direction: Direction) {
        let theirs = self.shifts[direction.reversed() as usize];
        if theirs.none() || headers.fragment != wire::Fragment::Whole {
            return;
        }
        let (transport, length) = (usize::from(headers.transport), usize::from(headers.length));
        let Some(segment) = ip.get_mut(transport..length) else { return };
        let Ok(parsed) = tcp::Segment::parse(segment) else { return };
        // The SYN that these answer was passed on as it came.
        let refuses = parsed.flags() & tcp::flag::RST != 0 && parsed.sequence() == 0;
        if parsed.flags() & tcp::flag::ACK == 0 || parsed.flags() & tcp::flag::SYN != 0 || refuses {
            return;
        }
        let header = parsed.header_len();
        let mut delta = Delta::new();
        delta.take(&segment[..header]);
        correct(&mut segment[..header], theirs);
        delta.add(&segment[..header]);
        // The checksum itself was taken and added alike.
        let checksum = delta.apply([segment[16], segment[17]]);
        segment[16..18].copy_from_slice(&checksum);
    }

    /// What a client asks a server of the other family: notes it, and how it is put there.
    fn ask(&mut self, payload: &[u8]) -> Option<(Range<usize>, String)> {
        let asked = Question::read(payload).filter(|_| self.asked != Some(Question::OnlyExtended))?;
        self.asked = Some(asked);
        (asked == Question::Extended).then(|| (0..4, "PASV".to_owned()))
    }

    /// What is announced, in the words that the other end expects.
    fn announced(&self, payload: &[u8], direction: Direction, across: bool) -> Option<Announcement> {
        let found = announcement::read(payload, direction)?;
        let extended = across && direction == Direction::Reply && self.asked == Some(Question::Extended);
        Some(if extended { found.extended(payload) } else { found })
    }

    /// Passes on a segment of the control connection that came as `seen` and will leave as `to`; to
    /// be called for each when it has been tracked, before [`rewrite`](crate::rewrite()). `ip`
    /// begins at the IP header and may be longer than the packet: the text may grow into the rest
    /// (by [`GROWTH`] at most). `expect` is [`Nat::expect`](crate::Nat::expect). Returns the length
    /// of the IP packet from now on.
    ///
    /// Refused segments ([`Refusal::Exhausted`]: no port could be had to announce;
    /// [`Refusal::NoRoom`]) are unchanged and to be dropped: TCP sends them again.
    pub fn pass(
        &mut self,
        ip: &mut [u8],
        headers: &Headers,
        direction: Direction,
        [seen, to]: [&Tuple; 2],
        expect: impl FnOnce(&Expectation) -> Option<u16>,
    ) -> Result<usize, Refusal> {
        let (transport, length) = (usize::from(headers.transport), usize::from(headers.length));
        let Some(segment) = ip.get(transport..length) else { return Ok(length) };
        let whole = headers.protocol == protocol::TCP && headers.fragment == wire::Fragment::Whole;
        let Ok(parsed) = tcp::Segment::parse(segment) else { return Ok(length) };
        // One in a connection that there is begins another, if both ends have lost this one: that
        // counts from anew.
        if parsed.flags() & tcp::flag::SYN != 0 {
            return Ok(length);
        }
        let mine = self.shifts[direction as usize];
        let across = seen.is_ipv4() != to.is_ipv4();
        let mut change = None;
        if whole && across && direction == Direction::Original {
            change = self.ask(parsed.payload());
        }
        let announcement = self.announced(parsed.payload(), direction, across);
        let announcement = announcement.filter(|found| whole && found.can_go(seen, to));
        if !whole || announcement.is_none() && change.is_none() && mine.none() {
            return Ok(length);
        }
        let (sequence, header) = (parsed.sequence(), parsed.header_len());
        if let Some(found) = announcement
            && found.address.is_none_or(|announced| announced == address(&seen.source))
        {
            // A port alone is called at the address that the other side knows already, whatever
            // becomes of that.
            let called = found.address.is_none() && across;
            let wanted = Expectation {
                peer: to.destination,
                inside: if called { to.source } else { seen.source },
                inside_port: found.port,
                outside: to.source,
                control_port: to.source_port,
                table: to.table,
            };
            let port = match expect(&wanted) {
                Some(port) => port,
                // Untranslated it can be called as it is, expected or not.
                None if to.source == wanted.inside => found.port,
                None => return Err(Refusal::Exhausted),
            };
            let (place, text) = found.written(address(&to.source), port);
            let end = length + text.len() - place.len();
            if end > ip.len() || end > 65_535 {
                return Err(Refusal::NoRoom);
            }
            change = Some((place, text));
        }
        let segment = &mut ip[transport..];
        let mut delta = Delta::new();
        delta.take(&segment[..length - transport]);
        let mut new_length = length;
        if let Some((place, text)) = change {
            let (start, end) = (header + place.start, header + place.end);
            segment.copy_within(end..length - transport, start + text.len());
            segment[start..start + text.len()].copy_from_slice(text.as_bytes());
            new_length = length + text.len() - place.len();
            self.shifts[direction as usize].change(sequence, text.len() as i32 - place.len() as i32);
        }
        let forward = mine.forward(sequence);
        segment[4..8].copy_from_slice(&forward.to_be_bytes());
        delta.add(&segment[..new_length - transport]);
        delta.take(&((length - transport) as u16).to_be_bytes());
        delta.add(&((new_length - transport) as u16).to_be_bytes());
        // The checksum itself was taken and added alike.
        let checksum = delta.apply([segment[16], segment[17]]);
        segment[16..18].copy_from_slice(&checksum);
        set_length(ip, headers, length, new_length);
        Ok(new_length)
    }
}

/// Corrects the acknowledgements in a TCP header, the selective ones as well.
fn correct(header: &mut [u8], theirs: Shift) {
    let back = |header: &mut [u8], at: usize| {
        if let Some(place) = header[at..].first_chunk_mut() {
            *place = theirs.back(u32::from_be_bytes(*place)).to_be_bytes();
        }
    };
    back(header, 8);
    let mut at = tcp::HEADER;
    while at < header.len() {
        let length = match (header[at], header.get(at + 1)) {
            (0, _) | (_, None) => return,
            (1, _) => 1,
            (_, Some(length)) => usize::from(*length).max(2),
        };
        if header[at] == SACK {
            let end = (at + length).min(header.len());
            for edge in (at + 2..end).step_by(4).filter(|edge| edge + 4 <= end) {
                back(header, edge);
            }
        }
        at += length;
    }
}

/// Kind of the option of selective acknowledgements (RFC 2018).
const SACK: u8 = 5;

/// Writes the length of a packet into its IP header.
fn set_length(ip: &mut [u8], headers: &Headers, old: usize, new: usize) {
    if headers.version == 4 {
        let mut delta = Delta::new();
        crate::rewrite::write_at(ip, 2, &(new as u16).to_be_bytes(), &mut delta);
        let checksum = delta.apply([ip[10], ip[11]]);
        ip[10..12].copy_from_slice(&checksum);
    } else {
        let payload = u16::from_be_bytes([ip[4], ip[5]]);
        let payload = payload.wrapping_add(new as u16).wrapping_sub(old as u16);
        ip[4..6].copy_from_slice(&payload.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::{Plan, checksums_hold};
    use proptest::prelude::*;
    use tcp::flag::{ACK, RST, SYN};

    const CLIENT: &str = "10.0.0.1";
    const OUTSIDE: &str = "203.0.113.200";
    const SERVER: &str = "198.51.100.9";

    fn octets(text: &str) -> [u8; 16] {
        crate::octets(text.parse().unwrap())
    }

    /// How the control connection seems outside.
    fn leaving() -> Tuple {
        Tuple {
            source: octets(OUTSIDE),
            destination: octets(SERVER),
            source_port: 4000,
            destination_port: 21,
            protocol: protocol::TCP,
            table: 0,
        }
    }

    /// A segment with numbers and options.
    fn segment(from: (&str, u16), to: (&str, u16), numbers: [u32; 2], options: &[u8], text: &str) -> Vec<u8> {
        let plan = Plan {
            version: if from.0.contains(':') { 6 } else { 4 },
            protocol: protocol::TCP,
            source: octets(from.0),
            destination: octets(to.0),
            ports: [from.1, to.1],
            payload: [options, text.as_bytes()].concat(),
            bare: false,
            options: false,
            ttl: 64,
            tos: 0,
        };
        let mut packet = plan.packet();
        let headers = Headers::parse(&packet).unwrap();
        let at = usize::from(headers.transport);
        let mut delta = Delta::new();
        delta.take(&packet[at..at + 20]);
        packet[at + 4..at + 8].copy_from_slice(&numbers[0].to_be_bytes());
        packet[at + 8..at + 12].copy_from_slice(&numbers[1].to_be_bytes());
        packet[at + 12] = 0x50 + options.len() as u8 * 4;
        delta.add(&packet[at..at + 20]);
        let checksum = delta.apply([packet[at + 16], packet[at + 17]]);
        packet[at + 16..at + 18].copy_from_slice(&checksum);
        checksums_hold(&packet);
        packet
    }

    /// Sequence, acknowledgement, options and text of what leaves, or is yet to be taken into the
    /// other family.
    fn pass(ftp: &mut Ftp, packet: &[u8], direction: Direction, to: &Tuple) -> ([u32; 2], Vec<u8>, String) {
        let headers = Headers::parse(packet).unwrap();
        let seen = Tuple::of(&headers, 0);
        let mut buffer = [packet, &[0xee; GROWTH][..]].concat();
        ftp.acknowledge(&mut buffer, &headers, direction);
        checksums_hold(&buffer[..packet.len()]);
        let length = ftp
            .pass(&mut buffer, &headers, direction, [&seen, to], |wanted| {
                assert_eq!(
                    (wanted.inside, wanted.outside, wanted.peer),
                    (seen.source, to.source, to.destination)
                );
                Some(wanted.inside_port + 1)
            })
            .unwrap();
        buffer.truncate(length);
        if seen.is_ipv4() == to.is_ipv4() {
            crate::rewrite(&mut buffer, &headers, to).unwrap();
        }
        checksums_hold(&buffer);
        let headers = Headers::parse(&buffer).unwrap();
        let segment = tcp::Segment::parse(&buffer[usize::from(headers.transport)..]).unwrap();
        let options = buffer[usize::from(headers.transport) + 20..][..segment.header_len() - 20].to_vec();
        let text = String::from_utf8(segment.payload().to_vec()).unwrap();
        ([segment.sequence(), segment.acknowledgement()], options, text)
    }

    #[test]
    fn the_ends_count_differently_from_then_on() {
        let mut ftp = Ftp::default();
        let client = ((CLIENT, 4000), (SERVER, 21));
        let server = ((SERVER, 21), (OUTSIDE, 4000));
        let out = leaving();
        let back = Tuple { destination: octets(CLIENT), ..out.reversed() };
        let text = "PORT 10,0,0,1,4,210\r\n";
        let port = segment(client.0, client.1, [1000, 500], &[], text);
        let (numbers, _, sent) = pass(&mut ftp, &port, Direction::Original, &out);
        assert_eq!((numbers, &sent[..]), ([1000, 500], "PORT 203,0,113,200,4,211\r\n"));
        let grown = (sent.len() - text.len()) as u32;
        // Sent again: the same, and not counted twice.
        assert_eq!(pass(&mut ftp, &port, Direction::Original, &out), (numbers, vec![], sent.clone()));
        // The server has got more than the client has sent.
        let acknowledged = 1000 + sent.len() as u32;
        let sack =
            [&[1u8, 1, 5, 10][..], &acknowledged.to_be_bytes(), &(acknowledged + 50).to_be_bytes()].concat();
        let answer = segment(server.0, server.1, [500, acknowledged], &sack, "200 ok\r\n");
        let (numbers, options, _) = pass(&mut ftp, &answer, Direction::Reply, &back);
        assert_eq!(numbers, [500, acknowledged - grown]);
        assert_eq!(options[4..8], (acknowledged - grown).to_be_bytes());
        assert_eq!(options[8..12], (acknowledged + 50 - grown).to_be_bytes());
        // An old acknowledgement is that of before.
        let old = segment(server.0, server.1, [500, 1000], &[], "");
        assert_eq!(pass(&mut ftp, &old, Direction::Reply, &back).0, [500, 1000]);
        // The client goes on where it was, and the server sees it go on where it is.
        let next = segment(client.0, client.1, [1000 + text.len() as u32, 508], &[], "LIST\r\n");
        assert_eq!(pass(&mut ftp, &next, Direction::Original, &out).0, [acknowledged, 508]);
        // A second announcement adds to the first.
        let second = 1006 + text.len() as u32;
        let port = segment(client.0, client.1, [second, 508], &[], "EPRT |1|10.0.0.1|9|\r\n");
        let (numbers, _, sent) = pass(&mut ftp, &port, Direction::Original, &out);
        assert_eq!((numbers, &sent[..]), ([second + grown, 508], "EPRT |1|203.0.113.200|10|\r\n"));
        let next = segment(client.0, client.1, [second + 21, 508], &[], "");
        assert_eq!(
            pass(&mut ftp, &next, Direction::Original, &out).0,
            [second + grown + sent.len() as u32, 508]
        );
    }

    #[test]
    fn who_has_lost_the_connection_counts_from_anew() {
        let flagged = |from: (&str, u16), to: (&str, u16), numbers: [u32; 2], flags: u8| {
            let mut packet = segment(from, to, numbers, &[], "");
            let (mut delta, flag, checksum) = (Delta::new(), 20 + 13, 20 + 16..20 + 18);
            delta.take(&packet[flag - 1..=flag]);
            packet[flag] = flags;
            delta.add(&packet[flag - 1..=flag]);
            let sum = delta.apply([packet[checksum.start], packet[checksum.start + 1]]);
            packet[checksum].copy_from_slice(&sum);
            packet
        };
        let out = leaving();
        let back = Tuple { destination: octets(CLIENT), ..out.reversed() };
        let (client, server) = (((CLIENT, 4000), (SERVER, 21)), ((SERVER, 21), (OUTSIDE, 4000)));
        let mut ftp = Ftp::default();
        let port = segment(client.0, client.1, [1000, 500], &[], "PORT 10,0,0,1,4,210\r\n");
        pass(&mut ftp, &port, Direction::Original, &out);
        let syn = flagged(client.0, client.1, [9000, 0], SYN);
        assert_eq!(pass(&mut ftp, &syn, Direction::Original, &out).0, [9000, 0]);
        for (sequence, flags) in [(700, SYN | ACK), (0, RST | ACK)] {
            let answer = flagged(server.0, server.1, [sequence, 9001], flags);
            assert_eq!(pass(&mut ftp, &answer, Direction::Reply, &back).0, [sequence, 9001]);
        }
        // What there was goes on as it did.
        let answer = segment(server.0, server.1, [500, 9001], &[], "");
        assert_ne!(pass(&mut ftp, &answer, Direction::Reply, &back).0, [500, 9001]);
    }

    #[test]
    fn a_server_behind_a_forward_announces_what_can_be_called() {
        let seen = ("2001:db8::5", 2121);
        let packet = segment(seen, ("2001:db8:9::1", 999), [1, 2], &[], "229 ok (|||9999|)\r\n");
        let headers = Headers::parse(&packet).unwrap();
        let to = Tuple { source: octets("2001:db8:1::5"), source_port: 21, ..Tuple::of(&headers, 0) };
        let (_, _, text) = pass(&mut Ftp::default(), &packet, Direction::Reply, &to);
        assert_eq!(text, "229 ok (|||10000|)\r\n");
    }

    #[test]
    fn into_the_other_family_goes_what_is_understood_there() {
        let (host, far) = ("2001:db8::5", "64:ff9b::c633:6409");
        let to = leaving();
        let mut ftp = Ftp::default();
        let text = "EPRT |2|2001:db8::5|1234|\r\n";
        let packet = segment((host, 4000), (far, 21), [1000, 500], &[], text);
        let (_, _, sent) = pass(&mut ftp, &packet, Direction::Original, &to);
        assert_eq!(sent, "PORT 203,0,113,200,4,211\r\n");
        // From then on both ends count differently.
        let next = segment((host, 4000), (far, 21), [1000 + text.len() as u32, 500], &[], "LIST\r\n");
        assert_eq!(pass(&mut ftp, &next, Direction::Original, &to).0, [1000 + sent.len() as u32, 500]);
        // A port alone is called where the server is known already, and nothing is to be mapped for
        // it.
        let packet = segment((SERVER, 21), (OUTSIDE, 4000), [1, 2], &[], "229 ok (|||9999|)\r\n");
        let (headers, known) = (Headers::parse(&packet).unwrap(), octets(far));
        let back = Tuple { source: known, destination: octets(host), ..to.reversed() };
        let mut copy = packet.clone();
        let expect = |wanted: &Expectation| {
            assert_eq!((wanted.inside, wanted.outside, wanted.peer), (known, known, octets(host)));
            Some(wanted.inside_port)
        };
        let passed =
            Ftp::default().pass(&mut copy, &headers, Direction::Reply, [&to.reversed(), &back], expect);
        assert_eq!((passed, copy), (Ok(packet.len()), packet));
        // What names an address of the one family means nothing in the other.
        let packet = segment((SERVER, 21), (OUTSIDE, 4000), [1, 2], &[], "227 ok 198,51,100,9,4,210\r\n");
        assert_eq!(
            pass(&mut Ftp::default(), &packet, Direction::Reply, &back).2,
            "227 ok 198,51,100,9,4,210\r\n"
        );
    }

    #[test]
    fn who_asks_a_server_of_the_other_family_by_epsv_asks_it_by_pasv() {
        let (host, far, to) = ("2001:db8::5", "64:ff9b::c633:6409", leaving());
        let known = octets(far);
        let back = Tuple { source: known, destination: octets(host), ..to.reversed() };
        let asks = |ftp: &mut Ftp, text: &str| {
            let packet = segment((host, 4000), (far, 21), [1000, 500], &[], text);
            pass(ftp, &packet, Direction::Original, &to).2
        };
        let answered = |ftp: &mut Ftp, sequence: u32, text: &str| {
            let packet = segment((SERVER, 21), (OUTSIDE, 4000), [sequence, 1006], &[], text);
            let (headers, mut buffer) = (Headers::parse(&packet).unwrap(), packet.clone());
            buffer.resize(packet.len() + GROWTH, 0);
            let expect = |wanted: &Expectation| {
                assert_eq!((wanted.inside, wanted.outside, wanted.peer), (known, known, octets(host)));
                Some(wanted.inside_port)
            };
            let seen = to.reversed();
            let length = ftp.pass(&mut buffer, &headers, Direction::Reply, [&seen, &back], expect).unwrap();
            checksums_hold(&buffer[..length]);
            let text = String::from_utf8(buffer[40..length].to_vec()).unwrap();
            (u32::from_be_bytes(*buffer[24..].first_chunk().unwrap()), text)
        };
        let (passive, extended) = (
            "227 Entering Passive Mode (198,51,100,9,4,210).\r\n",
            "229 Entering Extended Passive Mode (|||1234|).\r\n",
        );
        let mut ftp = Ftp::default();
        assert_eq!(asks(&mut ftp, "epsv\r\n"), "PASV\r\n");
        for _ in 0..2 {
            // Sent again it is changed again.
            assert_eq!(answered(&mut ftp, 500, passive), (500, extended.to_owned()));
        }
        let shorter = (passive.len() - extended.len()) as u32;
        let after = 500 + passive.len() as u32;
        assert_eq!(answered(&mut ftp, after, "150 ok\r\n"), (after - shorter, "150 ok\r\n".to_owned()));
        // Where the server says no more than it must, the answer grows by most.
        let bare = "227 198,51,100,9,4,210\r\n";
        let told = "229 Entering Extended Passive Mode (|||1234|)\r\n";
        assert_eq!(answered(&mut ftp, after + 8, bare), (after + 8 - shorter, told.to_owned()));
        // Only the port counts: the host is the one that was called already.
        let third = "227 ok (198,51,100,8,4,210)\r\n";
        assert_eq!(answered(&mut ftp, 700, third).1, told);
        // Who asks by PASV wants 227, and who has said that nothing else will come is taken at its
        // word.
        assert_eq!(asks(&mut ftp, "PASV\r\n"), "PASV\r\n");
        assert_eq!(answered(&mut ftp, 800, passive).1, passive);
        for text in ["EPSV 2\r\n", "EPSV ALL\r\n", "EPSV\r\n"] {
            assert_eq!(asks(&mut ftp, text), text);
        }
        // In one family nothing is put otherwise.
        let mut ftp = Ftp::default();
        let packet = segment((CLIENT, 4000), (SERVER, 21), [1000, 500], &[], "EPSV\r\n");
        assert_eq!(pass(&mut ftp, &packet, Direction::Original, &to).2, "EPSV\r\n");
    }

    #[test]
    fn nobody_is_sent_to_a_third() {
        let packet = segment((CLIENT, 4000), (SERVER, 21), [1, 2], &[], "PORT 10,0,0,2,4,210\r\n");
        let headers = Headers::parse(&packet).unwrap();
        let seen = Tuple::of(&headers, 0);
        let to = Tuple { source: octets(OUTSIDE), ..seen };
        let mut copy = packet.clone();
        let passed =
            Ftp::default().pass(&mut copy, &headers, Direction::Original, [&seen, &to], |_| unreachable!());
        assert_eq!((passed, &copy), (Ok(packet.len()), &packet));
        // No port to announce: nothing happens.
        let packet = segment((CLIENT, 4000), (SERVER, 21), [1, 2], &[], "PORT 10,0,0,1,4,210\r\n");
        let mut copy = packet.clone();
        let passed = Ftp::default().pass(&mut copy, &headers, Direction::Original, [&seen, &to], |_| None);
        assert_eq!((passed, &copy), (Err(Refusal::Exhausted), &packet));
        let passed = Ftp::default().pass(&mut copy, &headers, Direction::Original, [&seen, &to], |_| Some(1));
        assert_eq!((passed, &copy), (Err(Refusal::NoRoom), &packet));
    }

    proptest! {
        #[test]
        fn mutated_segments_never_panic(
            text in "(PORT 10,0,0,1,4,210|EPRT \\|1\\|10.0.0.1\\|9\\||LIST)\r\n",
            mutations in proptest::collection::vec((0usize..80, any::<u8>()), 0..4),
            room in 0usize..60,
            shift in any::<(u32, i16, i16)>(),
        ) {
            let mut packet = segment((CLIENT, 4000), (SERVER, 21), [1000, 500], &[5, 10, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0], &text);
            for (at, byte) in mutations {
                if let Some(place) = packet.get_mut(at) {
                    *place = byte;
                }
            }
            if let Ok(headers) = Headers::parse(&packet) {
                let shift = Shift { at: shift.0, before: shift.1.into(), after: shift.2.into() };
                let mut ftp = Ftp { shifts: [shift; 2], asked: None };
                let seen = Tuple::of(&headers, 0);
                let to = Tuple { source: octets(OUTSIDE), ..seen };
                packet.resize(packet.len() + room, 0);
                ftp.acknowledge(&mut packet, &headers, Direction::Original);
                let _ = ftp.pass(&mut packet, &headers, Direction::Original, [&seen, &to], |_| Some(65_535));
            }
        }
    }
}
