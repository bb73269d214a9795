//! ICMP and ICMPv6 messages in each other's words (RFC 7915, 4.2 and 5.2).

use wire::{Reason, icmp4, icmp6, ipv4, ipv6, protocol};

/// MTUs of the ways to the two sides of a NAT64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mtus {
    /// Of the next hop in IPv4.
    pub ipv4: u16,
    /// Of the next hop in IPv6.
    pub ipv6: u16,
}

/// An error in the words of the other family: its fixed header, checksum 0, and how much of what
/// follows is the quote.
pub(crate) struct Message {
    pub header: [u8; 8],
    pub quote: usize,
}

/// IPv6's query for IPv4's.
pub(crate) fn query6(icmp_type: u8) -> Option<u8> {
    match icmp_type {
        icmp4::ECHO => Some(icmp6::ECHO),
        icmp4::ECHO_REPLY => Some(icmp6::ECHO_REPLY),
        _ => None,
    }
}

/// IPv4's query for IPv6's.
pub(crate) fn query4(icmp_type: u8) -> Option<u8> {
    match icmp_type {
        icmp6::ECHO => Some(icmp4::ECHO),
        icmp6::ECHO_REPLY => Some(icmp4::ECHO_REPLY),
        _ => None,
    }
}

/// Sizes that a packet which was too big may have had to be (RFC 1191, 7.1), for routers that don't
/// say.
const PLATEAUS: [u16; 10] = [65_535, 32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 508, 296];

impl Message {
    /// An ICMPv6 error for an ICMP one; `Malformed` for those that have no like. `message` has its
    /// fixed header.
    pub fn from_ipv4(message: &[u8], mtus: Mtus) -> Result<Message, Reason> {
        let parsed = icmp4::Message::parse(message).map_err(|_| Reason::Truncated)?;
        let (icmp_type, code, word) = match (parsed.icmp_type(), parsed.code()) {
            (icmp4::UNREACHABLE, 2) => (icmp6::PARAMETER_PROBLEM, 1, 6),
            (icmp4::UNREACHABLE, 3) => (icmp6::UNREACHABLE, 4, 0),
            (icmp4::UNREACHABLE, 4) => (icmp6::PACKET_TOO_BIG, 0, too_big6(&parsed, mtus)),
            (icmp4::UNREACHABLE, 0 | 1 | 5..=8 | 11 | 12) => (icmp6::UNREACHABLE, 0, 0),
            (icmp4::UNREACHABLE, 9 | 10 | 13 | 15) => (icmp6::UNREACHABLE, 1, 0),
            (icmp4::TIME_EXCEEDED, code) => (icmp6::TIME_EXCEEDED, code, 0),
            (icmp4::PARAMETER_PROBLEM, 0 | 2) => {
                let pointer = pointer6((parsed.word() >> 24) as u8).ok_or(Reason::Malformed)?;
                (icmp6::PARAMETER_PROBLEM, 0, pointer)
            }
            _ => return Err(Reason::Malformed),
        };
        // RFC 4884: the length of the quote in 32-bit words, when extensions follow it.
        let words = match parsed.icmp_type() {
            icmp4::UNREACHABLE | icmp4::TIME_EXCEEDED | icmp4::PARAMETER_PROBLEM => message[5],
            _ => 0,
        };
        Ok(Message::new(icmp_type, code, word, usize::from(words) * 4))
    }

    /// An ICMP error for an ICMPv6 one, as [`Message::from_ipv4`] does the reverse.
    pub fn from_ipv6(message: &[u8], mtus: Mtus) -> Result<Message, Reason> {
        let parsed = icmp6::Message::parse(message).map_err(|_| Reason::Truncated)?;
        let (icmp_type, code, word) = match (parsed.icmp_type(), parsed.code()) {
            (icmp6::UNREACHABLE, 0 | 2 | 3) => (icmp4::UNREACHABLE, 1, 0),
            (icmp6::UNREACHABLE, 1) => (icmp4::UNREACHABLE, 10, 0),
            (icmp6::UNREACHABLE, 4) => (icmp4::UNREACHABLE, 3, 0),
            (icmp6::PACKET_TOO_BIG, _) => {
                let said = parsed.word().min(u32::from(mtus.ipv6)).saturating_sub(grown(parsed.payload()));
                (icmp4::UNREACHABLE, 4, said.min(u32::from(mtus.ipv4)))
            }
            (icmp6::TIME_EXCEEDED, code) => (icmp4::TIME_EXCEEDED, code, 0),
            (icmp6::PARAMETER_PROBLEM, 0) => {
                let pointer = pointer4(parsed.word()).ok_or(Reason::Malformed)?;
                (icmp4::PARAMETER_PROBLEM, 0, pointer << 24)
            }
            (icmp6::PARAMETER_PROBLEM, 1) => (icmp4::UNREACHABLE, 2, 0),
            _ => return Err(Reason::Malformed),
        };
        // RFC 4884: in 64-bit words, elsewhere than in ICMP, and for two types only.
        let words = match parsed.icmp_type() {
            icmp6::UNREACHABLE | icmp6::TIME_EXCEEDED => message[4],
            _ => 0,
        };
        Ok(Message::new(icmp_type, code, word, usize::from(words) * 8))
    }

    fn new(icmp_type: u8, code: u8, word: u32, quote: usize) -> Message {
        let mut header = [icmp_type, code, 0, 0, 0, 0, 0, 0];
        header[4..].copy_from_slice(&word.to_be_bytes());
        Message { header, quote: if quote == 0 { usize::MAX / 2 } else { quote } }
    }
}

/// By how much what became this packet was shorter in IPv4, where a fragment has no header of its
/// own.
fn grown(ip: &[u8]) -> u32 {
    let fragment = ipv6::Packet::parse(ip).is_ok_and(|ip| ip.next_header() == protocol::FRAGMENT);
    if fragment { 28 } else { 20 }
}

fn too_big6(parsed: &icmp4::Message<'_>, mtus: Mtus) -> u32 {
    let said = match parsed.word() as u16 {
        0 => {
            let length = ipv4::Packet::parse(parsed.payload()).map_or(0, |packet| packet.total_len());
            PLATEAUS.into_iter().find(|plateau| *plateau < length).unwrap_or(0)
        }
        said => said,
    };
    let fits = said.saturating_add(20).min(mtus.ipv6).min(mtus.ipv4.saturating_add(20));
    u32::from(fits).max(ipv6::MINIMUM_MTU as u32)
}

/// RFC 7915, figure 3.
fn pointer6(pointer: u8) -> Option<u32> {
    match pointer {
        0 | 1 => Some(u32::from(pointer)),
        2 | 3 => Some(4),
        8 => Some(7),
        9 => Some(6),
        12..=15 => Some(8),
        16..=19 => Some(24),
        _ => None,
    }
}

/// RFC 7915, figure 6.
fn pointer4(pointer: u32) -> Option<u32> {
    match pointer {
        0 | 1 => Some(pointer),
        4 | 5 => Some(2),
        6 => Some(9),
        7 => Some(8),
        8..=23 => Some(12),
        24..=39 => Some(16),
        _ => None,
    }
}
