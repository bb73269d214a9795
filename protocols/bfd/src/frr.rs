//! The messages by which FRR's bfdd hands its sessions to a forwarding plane, and hears of them
//! (`bfdd --dplaneaddr`; FRR's bfdd/bfddp_packet.h). Numbers are in network order; each message has
//! a header of 8 bytes: version, 0, type, number of the question, length.
//!
//! Version 1 (up to FRR 10.5) and version 2, which adds fields for segment routing behind those of
//! version 1: sessions that use them are refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::session::{Session, Settings};

/// Bytes of a header.
const HEADER: usize = 8;
/// Bytes of a session in a message, up to the end of the interface's name.
const SESSION: usize = 132;
/// No message is longer.
const LONGEST: usize = 1024;

const ADD: u16 = 2;
const DELETE: u16 = 3;
const STATE_CHANGE: u16 = 4;
const ASK_COUNTERS: u16 = 5;
const COUNTERS: u16 = 6;

const MULTIHOP: u32 = 1 << 0;
const INDEPENDENT: u32 = 1 << 2;
const ECHO: u32 = 1 << 3;
const IPV6: u32 = 1 << 4;
const PASSIVE: u32 = 1 << 5;
const SHUTDOWN: u32 = 1 << 6;

/// A session that bfdd wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its timers, and its number.
    pub settings: Settings,
    /// The address to send from; none: as Linux chooses.
    pub local: Option<IpAddr>,
    /// The other end.
    pub peer: IpAddr,
    /// The peer is several hops away.
    pub multihop: bool,
    /// The least TTL that its packets may have.
    pub least_ttl: u8,
    /// The interface that it is behind; empty: any.
    pub interface: String,
    /// How long to wait before it begins.
    pub hold: Duration,
    /// Echo packets are wanted as well, which are not sent here.
    pub echo: bool,
}

/// What bfdd says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A session begins, or changes.
    Add(Wanted),
    /// A session ends.
    Delete(u32),
    /// Which packets a session has seen; with the number of the question.
    Counters(u16, u32),
    /// A session that cannot be had, and why.
    Refused(u32, &'static str),
    /// Nothing that concerns a plane.
    Other,
}

/// What cannot be a message: nothing behind it can be read either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// Neither 1 nor 2.
    #[error("bfdd speaks version {0} of its protocol; 1 and 2 are known")]
    Version(u8),
    /// A message is shorter than its header says, or longer than any.
    #[error("bfdd's message of type {0} has {1} bytes, which it cannot have")]
    Length(u16, u16),
}

/// Cuts what comes by a stream into messages.
#[derive(Debug, Default)]
pub struct Reader {
    bytes: Vec<u8>,
    version: u8,
}

impl Reader {
    /// More has come.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The version of the last message: that of the answers.
    pub fn version(&self) -> u8 {
        self.version.max(1)
    }

    /// The next message, once all of it has come.
    ///
    /// # Errors
    /// When there will be none any more.
    #[allow(clippy::should_implement_trait)] // that there is none yet is not the end
    pub fn next(&mut self) -> Result<Option<Message>, Wrong> {
        let Some(&[version, _, kind_high, kind_low, id_high, id_low, high, low]) = self.bytes.first_chunk()
        else {
            return Ok(None);
        };
        let (kind, id) = (u16::from_be_bytes([kind_high, kind_low]), u16::from_be_bytes([id_high, id_low]));
        let length = u16::from_be_bytes([high, low]);
        if !(1..=2).contains(&version) {
            return Err(Wrong::Version(version));
        }
        let wrong = Err(Wrong::Length(kind, length));
        let least = match kind {
            ADD | DELETE => SESSION,
            ASK_COUNTERS => 4,
            _ => 0,
        };
        if usize::from(length) < HEADER + least || usize::from(length) > LONGEST {
            return wrong;
        }
        let Some(message) = self.bytes.get(..usize::from(length)) else { return Ok(None) };
        let message = read(kind, id, &message[HEADER..]);
        self.version = version;
        self.bytes.drain(..usize::from(length));
        Ok(Some(message))
    }
}

/// Reads a message of a known kind, whose payload is long enough for it.
fn read(kind: u16, id: u16, payload: &[u8]) -> Message {
    let word =
        |at: usize| payload.get(at..at + 4).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    match kind {
        ADD => {
            let number = word(36);
            match wanted(payload, word) {
                Ok(wanted) => Message::Add(wanted),
                Err(why) => Message::Refused(number, why),
            }
        }
        DELETE => Message::Delete(word(36)),
        ASK_COUNTERS => Message::Counters(id, word(0)),
        _ => Message::Other,
    }
}

fn wanted(payload: &[u8], word: impl Fn(usize) -> u32) -> Result<Wanted, &'static str> {
    let flags = word(0);
    let address = |at: usize| -> IpAddr {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&payload[at..at + 16]);
        match flags & IPV6 {
            0 => Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into(),
            _ => Ipv6Addr::from(bytes).into(),
        }
    };
    let name = payload[68..SESSION].split(|byte| *byte == 0).next().unwrap_or_default();
    let interface = std::str::from_utf8(name).map_err(|_| "its interface has no name")?.to_owned();
    let settings = Settings {
        id: word(36),
        min_tx: word(40).max(1),
        min_rx: word(44),
        multiplier: payload[61],
        passive: flags & PASSIVE != 0,
        shutdown: flags & SHUTDOWN != 0,
        independent: flags & INDEPENDENT != 0,
    };
    let (local, peer) = (address(4), address(20));
    let segments = payload.get(SESSION..SESSION + 2).is_some_and(|modes| modes != [0, 0]);
    match () {
        () if settings.id == 0 => Err("its discriminator is 0"),
        () if settings.multiplier == 0 => Err("its multiplier is 0"),
        () if peer.is_unspecified() || peer.is_multicast() => Err("its peer is no host"),
        () if segments => Err("it is a seamless session (S-BFD), or one over SRv6"),
        () => Ok(Wanted {
            settings,
            local: Some(local).filter(|local| !local.is_unspecified()),
            peer,
            multihop: flags & MULTIHOP != 0,
            least_ttl: if flags & MULTIHOP != 0 { payload[60] } else { u8::MAX },
            interface,
            hold: Duration::from_millis(word(56).into()),
            echo: flags & ECHO != 0,
        }),
    }
}

fn message(version: u8, kind: u16, id: u16, payload: &[u8]) -> Vec<u8> {
    let length = (HEADER + payload.len()) as u16;
    let numbers = [kind, id, length].map(u16::to_be_bytes).concat();
    [&[version, 0], &numbers[..], payload].concat()
}

/// Tells bfdd of a session's state, and of what the other end says of itself.
pub fn state_change(version: u8, session: &Session) -> Vec<u8> {
    let other = session.other();
    let flags = u32::from(other.independent) | u32::from(other.demand) << 1;
    let words = [session.settings().id, other.id, flags, other.min_tx, other.min_rx, other.min_echo_rx]
        .map(u32::to_be_bytes);
    let bytes = [session.state() as u8, other.diagnostic.0, other.multiplier, 0];
    message(version, STATE_CHANGE, 0, &[&words.concat()[..], &bytes].concat())
}

/// Packets of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Those heard.
    pub received: u64,
    /// Those sent.
    pub sent: u64,
}

/// The answer to [`Message::Counters`].
pub fn counters(version: u8, id: u16, session: u32, counters: Counters) -> Vec<u8> {
    let bytes = |packets: u64| packets * crate::packet::LENGTH as u64;
    let Counters { received, sent } = counters;
    let numbers = [bytes(received), received, bytes(sent), sent, 0, 0, 0, 0].map(u64::to_be_bytes);
    let session = [session.to_be_bytes(), [0; 4]].concat();
    message(version, COUNTERS, id, &[&session[..], &numbers.concat()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use chance::Random;

    fn add(flags: u32, version: u8, tail: usize) -> Vec<u8> {
        let mut payload = vec![0; SESSION + tail];
        payload[..4].copy_from_slice(&flags.to_be_bytes());
        payload[4..8].copy_from_slice(&[192, 0, 2, 1]);
        payload[20..24].copy_from_slice(&[192, 0, 2, 2]);
        payload[36..40].copy_from_slice(&77u32.to_be_bytes());
        payload[40..44].copy_from_slice(&10_000u32.to_be_bytes());
        payload[44..48].copy_from_slice(&20_000u32.to_be_bytes());
        payload[56..60].copy_from_slice(&5u32.to_be_bytes());
        (payload[60], payload[61]) = (250, 3);
        payload[68..72].copy_from_slice(b"eth0");
        message(version, ADD, 0, &payload)
    }

    fn read_one(bytes: &[u8]) -> Result<Option<Message>, Wrong> {
        let mut reader = Reader::default();
        reader.feed(bytes);
        reader.next()
    }

    #[test]
    fn sessions_are_read_whole_in_pieces_and_of_both_versions() {
        let settings = Settings {
            id: 77,
            min_tx: 10_000,
            min_rx: 20_000,
            multiplier: 3,
            passive: true,
            shutdown: false,
            independent: true,
        };
        let wanted = Wanted {
            settings,
            local: Some([192, 0, 2, 1].into()),
            peer: [192, 0, 2, 2].into(),
            multihop: false,
            least_ttl: 255,
            interface: "eth0".into(),
            hold: Duration::from_millis(5),
            echo: false,
        };
        let one = add(PASSIVE | INDEPENDENT, 1, 0);
        assert_eq!(read_one(&one), Ok(Some(Message::Add(wanted.clone()))));
        assert_eq!(read_one(&add(PASSIVE | INDEPENDENT, 2, 216)), Ok(Some(Message::Add(wanted.clone()))));
        let far = Wanted { multihop: true, least_ttl: 250, ..wanted };
        assert_eq!(read_one(&add(PASSIVE | INDEPENDENT | MULTIHOP, 1, 0)), Ok(Some(Message::Add(far))));

        let mut reader = Reader::default();
        let both = [
            one,
            message(1, DELETE, 0, &add(0, 1, 0)[HEADER..]),
            message(1, ASK_COUNTERS, 9, &[0, 0, 0, 77]),
        ];
        let mut seen = Vec::new();
        for byte in both.concat() {
            reader.feed(&[byte]);
            seen.extend(reader.next().unwrap());
        }
        assert!(
            matches!(seen[..], [Message::Add(_), Message::Delete(77), Message::Counters(9, 77)]),
            "{seen:?}"
        );
    }

    #[test]
    fn what_cannot_be_had_is_refused_and_what_is_no_message_ends_it() {
        let changed = |at: usize, byte: u8| {
            let mut bytes = add(0, 2, 216);
            bytes[HEADER + at] = byte;
            read_one(&bytes).unwrap().unwrap()
        };
        assert!(matches!(changed(61, 0), Message::Refused(77, why) if why.contains("multiplier")));
        assert!(matches!(changed(39, 0), Message::Refused(0, _)));
        assert!(matches!(changed(20, 224), Message::Refused(77, why) if why.contains("host")));
        assert!(matches!(changed(SESSION, 2), Message::Refused(77, why) if why.contains("S-BFD")));
        assert_eq!(read_one(&message(3, ADD, 0, &[0; SESSION])), Err(Wrong::Version(3)));
        assert_eq!(read_one(&message(1, ADD, 0, &[0; SESSION - 1])), Err(Wrong::Length(ADD, 139)));
        assert_eq!(read_one(&message(1, 9, 0, &[])), Ok(Some(Message::Other)));
        assert!(matches!(read_one(&[1, 0, 0, 0, 0, 0, 0, 7]), Err(Wrong::Length(0, 7))));
    }

    #[test]
    fn states_and_counters_have_the_layout_of_bfdd() {
        let settings = Settings {
            id: 77,
            min_tx: 10_000,
            min_rx: 10_000,
            multiplier: 3,
            passive: false,
            shutdown: false,
            independent: false,
        };
        let session = Session::new(settings, Duration::ZERO, Random(1));
        let state = state_change(1, &session);
        assert_eq!(state[..HEADER], [1, 0, 0, 4, 0, 0, 0, 36]);
        assert_eq!((state.len(), &state[8..12], state[32]), (36, &[0, 0, 0, 77][..], 1));
        let counters = counters(2, 513, 77, Counters { received: 2, sent: 1 });
        assert_eq!(counters[..HEADER], [2, 0, 0, 6, 2, 1, 0, 80]);
        assert_eq!((counters.len(), counters[23], counters[31], counters[47]), (80, 48, 2, 1));
    }
}
