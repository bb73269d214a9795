//! ICMP: errors, echo requests and replies. See [the library](crate).

mod check_icmp_header;
mod icmp_error;
mod icmp_ip_encap;
mod icmp_ping_encap;
mod icmp_ping_responder;
mod icmp_ping_source;

use graph::Class;
use graph::arguments::{Arguments, Kind, Scope, Word};
use port::Packet;
use wire::{checksum, icmp4, ipv4};

/// The classes of this folder.
pub const CLASSES: &[&Class] = &[
    &check_icmp_header::CLASS,
    &icmp_error::CLASS,
    &icmp_ip_encap::CLASS,
    &icmp_ping_encap::CLASS,
    &icmp_ping_responder::CLASS,
    &icmp_ping_source::CLASS,
    &icmp_ping_source::OLD_NAME,
];

/// Bytes of an IPv4 header and the fixed part of an ICMP header.
const HEADERS: usize = ipv4::HEADER + icmp4::HEADER;

/// The arguments `TYPE` and `CODE`: numbers of one byte, or names.
fn type_and_code(args: &mut Arguments<'_>) -> Option<(u8, u8)> {
    let number = |kind, text: &str, scope: &Scope<'_>| {
        let named = scope.number(kind, text).map(i128::from).ok_or(());
        let number = named.or_else(|()| graph::arguments::parse_integer(text, 0, 255))?;
        u8::try_from(number).map_err(|_| graph::arguments::parse_error())
    };
    let icmp_type = args.mandatory_with("TYPE", |text, scope| number(Kind::IcmpType, text, scope))?;
    let code = args.optional_with("CODE", |text, scope| {
        let Word(text) = graph::arguments::Argument::parse(text, scope)?;
        number(Kind::IcmpCode(icmp_type), &text, scope)
            .map_err(|_| "takes ICMP code (integer between 0 and 255)".to_owned())
    });
    Some((icmp_type, code.unwrap_or(0)))
}

/// Puts an IPv4 header and a fixed ICMP header in front of a packet, fills in lengths and
/// checksums, and marks the headers and the destination. `word` is the ICMP header's second word.
/// False, and nothing done, without room.
fn encapsulate(packet: &mut Packet, header: &ipv4::Repr, (icmp_type, code): (u8, u8), word: [u8; 4]) -> bool {
    let Some(front) = packet.push(HEADERS).and_then(<[u8]>::first_chunk_mut::<HEADERS>) else { return false };
    front[20..].copy_from_slice(&[icmp_type, code, 0, 0, word[0], word[1], word[2], word[3]]);
    let length = packet.total_len() - ipv4::HEADER;
    let sum = sum_behind(packet, ipv4::HEADER);
    if let Some(front) = packet.data_mut().first_chunk_mut::<HEADERS>() {
        front[..20].copy_from_slice(&header.header(length));
        front[22..24].copy_from_slice(&sum.to_be_bytes());
    }
    packet.set_network(0);
    packet.set_transport(Some(ipv4::HEADER as isize));
    packet.destination = header.destination.octets();
    true
}

/// The checksum of all bytes behind the first `skip` of a packet, in all its segments.
fn sum_behind(packet: &Packet, skip: usize) -> u16 {
    let (mut skip, mut sum, mut odd) = (skip, checksum::Sum::new(), false);
    for segment in packet.segments() {
        let part = segment.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(segment.len());
        // Words go on over the border of segments.
        let part = match part {
            [first, rest @ ..] if odd => {
                sum = sum.with(&[0, *first]);
                odd = false;
                rest
            }
            part => part,
        };
        sum = sum.with(part);
        odd ^= part.len() % 2 == 1;
    }
    sum.finish()
}

/// The bytes of a packet from its network header on, as far as they fit into `room`; returns how
/// many.
fn copy_from_network(packet: &Packet, room: &mut [u8]) -> usize {
    let mut at = 0;
    for part in std::iter::once(packet.network()).chain(packet.segments().skip(1)) {
        let length = part.len().min(room.len() - at);
        room[at..at + length].copy_from_slice(&part[..length]);
        at += length;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::Pool;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_chain_sums_up_as_one_run(bytes in proptest::collection::vec(any::<u8>(), 1..400), cuts in proptest::collection::vec(1usize..100, 3), skip in 0usize..3) {
            Pool::heap(8).install();
            let mut rest = &bytes[..];
            let mut packet: Option<Packet> = None;
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (part, after) = rest.split_at(cut.min(rest.len()));
                rest = after;
                let part = Packet::new(part).unwrap();
                match &mut packet {
                    None => packet = Some(part),
                    Some(packet) => packet.append(part).unwrap(),
                }
            }
            let packet = packet.unwrap();
            let skip = skip.min(packet.len());
            prop_assert_eq!(sum_behind(&packet, skip), checksum::of(&bytes[skip..]));
        }
    }
}
