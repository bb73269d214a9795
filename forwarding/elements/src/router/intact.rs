//! Whether a packet is as its sender made it: the checksum of its upper layer.
//!
//! Forwarding does not ask, for the receiver does. But what a damaged segment does to its flow the
//! receiver could not undo: a RST with a flipped bit would end the translation of a connection that
//! goes on. So it is asked of packets that open a flow or change how far one is, and of ICMP errors
//! (RFC 5508, REQ-3). Checksums that a sender left to its NIC are finished before a worker sees
//! them (`wire::partial`).

use port::Packet;
use wire::checksum::Sum;
use wire::{Fragment, Headers, ipv6, protocol};

/// Whether the checksum of the upper layer holds, as far as that can be seen. A fragment shows
/// none, and the sum of a packet that IPv6's routing header leads on is over a destination that it
/// does not have yet.
#[cold]
pub(super) fn is_intact(headers: &Headers, packet: &Packet) -> bool {
    let at = usize::from(headers.transport);
    let ip = packet.network();
    if headers.fragment != Fragment::Whole || headers.version == 6 && is_led_on(&ip[..at.min(ip.len())]) {
        return true;
    }
    let length = usize::from(headers.length).saturating_sub(at);
    let upper = ip.get(at..).unwrap_or_default();
    let covered = match (headers.version, headers.protocol) {
        (_, protocol::SCTP) => return is_intact_sctp(parts(packet, at, length)),
        (4, protocol::ICMP) => return Sum::new().with_parts(parts(packet, at, length)).fold() == 0xffff,
        // The sender did without (RFC 768).
        (_, protocol::UDP) if upper.get(6..8) == Some(&[0; 2]) => return true,
        (_, protocol::TCP | protocol::UDP) | (6, protocol::ICMP6) => Some(length),
        (_, protocol::UDP_LITE) => covered_of_udp_lite(upper, length),
        (_, protocol::DCCP) => covered_of_dccp(upper, length),
        _ => return true,
    };
    let adds_up = |covered| {
        let sum = headers.pseudo(length).with_parts(parts(packet, at, covered));
        sum.fold() == 0xffff
    };
    covered.is_some_and(adds_up)
}

/// Whether a routing header says that there are stations to come; `extensions` is an IPv6 header
/// with its extension headers.
fn is_led_on(extensions: &[u8]) -> bool {
    let (mut kind, mut at) = (extensions.get(6).copied(), ipv6::HEADER);
    while let Some([next, units, _, left]) = extensions.get(at..).and_then(<[u8]>::first_chunk) {
        if kind == Some(protocol::ROUTING) && *left != 0 {
            return true;
        }
        at += if kind == Some(protocol::FRAGMENT) { 8 } else { (usize::from(*units) + 1) * 8 };
        kind = Some(*next);
    }
    false
}

/// CRC32c over all, its own field being 0 (RFC 9260, 6.8).
fn is_intact_sctp<'a>(parts: impl Iterator<Item = &'a [u8]>) -> bool {
    const FIELD: std::ops::Range<usize> = 8..12;
    let (mut at, mut stated) = (0, 0u32);
    let sum = parts.fold(0, |sum, part| {
        let within = |border: usize| border.saturating_sub(at).min(part.len());
        let field = within(FIELD.start)..within(FIELD.end);
        at += part.len();
        let before = crc32c::crc32c_append(sum, &part[..field.start]);
        stated = part[field.clone()].iter().fold(stated, |stated, byte| stated << 8 | u32::from(*byte));
        let zero = crc32c::crc32c_append(before, &[0; FIELD.end - FIELD.start][..field.len()]);
        crc32c::crc32c_append(zero, &part[field.end..])
    });
    // On the wire the lowest byte is the first.
    at >= FIELD.end && stated.swap_bytes() == sum
}

/// Bytes that the checksum of UDP-Lite is over (RFC 3828, 3.1), without which there is none. `None`
/// where it cannot be right.
fn covered_of_udp_lite(upper: &[u8], length: usize) -> Option<usize> {
    let [_, _, _, _, high, low, sum @ ..] = upper.first_chunk::<8>()?;
    match usize::from(u16::from_be_bytes([*high, *low])) {
        _ if *sum == [0; 2] => None,
        0 => Some(length),
        covered => (8..=length).contains(&covered).then_some(covered),
    }
}

/// Bytes that the checksum of DCCP is over (RFC 4340, 9.2). `None` where it cannot be right.
fn covered_of_dccp(upper: &[u8], length: usize) -> Option<usize> {
    let [_, _, _, _, offset, coverage, ..] = upper.first_chunk::<8>()?;
    let covered = match usize::from(*coverage & 15) {
        0 => length,
        words => (usize::from(*offset) + words - 1) * 4,
    };
    (covered <= length).then_some(covered)
}

/// `length` bytes from `at` behind the start of the network header, wherever they lie.
fn parts(packet: &Packet, at: usize, length: usize) -> impl Iterator<Item = &[u8]> {
    let mut left = length;
    let first = packet.network().get(at..).unwrap_or_default();
    std::iter::once(first).chain(packet.segments().skip(1)).map(move |part| {
        let part = &part[..left.min(part.len())];
        left -= part.len();
        part
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::Pool;
    use wire::{checksum, ethernet, ipv4};

    /// A frame of IPv4 with so much data, its checksum right, and its headers.
    fn frame(protocol: u8, header: usize, field: usize, data: usize) -> Vec<u8> {
        let (source, destination) = ([10, 1, 0, 2], [10, 2, 0, 2]);
        let mut upper = vec![0x51; header];
        upper[field..field + 2].fill(0);
        upper.extend((0..data).map(|n| (n * 7) as u8));
        let [from, to] = [source, destination].map(u32::from_be_bytes);
        let pseudo = match protocol {
            protocol::ICMP => Sum::new(),
            _ => checksum::pseudo4(from, to, protocol, upper.len() as u16),
        };
        let sum = pseudo.with(&upper).finish().to_be_bytes();
        upper[field..field + 2].copy_from_slice(&sum);
        let repr = ipv4::Repr { protocol, ..ipv4::Repr::new(source.into(), destination.into()) };
        // Frames are padded.
        [&[2; 12][..], &ethernet::IPV4.to_be_bytes(), &repr.header(upper.len()), &upper, &[9; 8]].concat()
    }

    fn asked(bytes: &[u8], segment: usize) -> bool {
        let mut pieces = bytes.chunks(segment).map(|piece| Packet::new(piece).unwrap());
        let mut packet = pieces.next().unwrap();
        pieces.for_each(|piece| assert!(packet.append(piece).is_ok()));
        assert!(packet.set_network(ethernet::HEADER as isize));
        is_intact(&super::super::track::headers(&packet).unwrap(), &packet)
    }

    #[test]
    fn every_flipped_bit_is_seen_in_whichever_segment() {
        Pool::heap(64).install();
        for (protocol, header, field) in
            [(protocol::TCP, 20, 16), (protocol::UDP, 8, 6), (protocol::ICMP, 8, 2)]
        {
            for (data, segment) in [(0, 3000), (31, 3000), (500, 3000), (500, 201), (501, 202)] {
                let bytes = frame(protocol, header, field, data);
                assert!(asked(&bytes, segment), "{protocol}: {data} by {segment}");
                for at in 34..34 + header + data {
                    let mut wrong = bytes.clone();
                    wrong[at] ^= 0x10;
                    // Padding, and an offset that makes no header, are asked elsewhere.
                    if protocol == protocol::TCP && at == 34 + 12 {
                        continue;
                    }
                    assert!(!asked(&wrong, segment), "{protocol}: byte {at} of {data} by {segment}");
                }
            }
        }
    }

    /// A frame of IPv6: a header of destination options, one of routing with so many stations to
    /// come, one of a lone fragment, then TCP.
    fn behind_extensions(left: u8) -> Vec<u8> {
        let (source, destination) = ([0x20; 16], [0x21; 16]);
        let options = [protocol::ROUTING, 0, 1, 4, 0, 0, 0, 0];
        let mut routing = [0; 24];
        routing[..4].copy_from_slice(&[protocol::FRAGMENT, 2, 2, left]);
        let fragment = [protocol::TCP, 0, 0, 0, 0, 0, 0, 7];
        let mut upper = [0x51; 31];
        upper[16..18].fill(0);
        let [from, to] = [source, destination].map(u128::from_be_bytes);
        let sum = checksum::pseudo6(from, to, protocol::TCP, upper.len() as u32).with(&upper).finish();
        upper[16..18].copy_from_slice(&sum.to_be_bytes());
        let repr = ipv6::Repr {
            next_header: protocol::DESTINATION_OPTIONS,
            ..ipv6::Repr::new(source.into(), destination.into())
        };
        let header = repr.header(40 + upper.len());
        [&[2; 12][..], &[0x86, 0xdd], &header, &options, &routing, &fragment, &upper].concat()
    }

    #[test]
    fn it_is_seen_behind_extension_headers_unless_the_way_leads_on() {
        Pool::heap(64).install();
        for (left, seen) in [(0, true), (1, false)] {
            let bytes = behind_extensions(left);
            for (segment, at) in [(3000, 94), (3000, 124), (110, 124)] {
                assert!(asked(&bytes, segment));
                let mut wrong = bytes.clone();
                wrong[at] ^= 0x10;
                assert_eq!(asked(&wrong, segment), !seen, "byte {at} by {segment}, {left} to come");
            }
        }
    }

    #[test]
    fn sctp_has_a_crc() {
        Pool::heap(64).install();
        let mut bytes = frame(protocol::SCTP, 12, 8, 40);
        bytes[42..46].fill(0);
        let sum = crc32c::crc32c(&bytes[34..86]).to_le_bytes();
        bytes[42..46].copy_from_slice(&sum);
        for segment in [3000, 43, 44, 50] {
            assert!(asked(&bytes, segment), "by {segment}");
            for at in 34..86 {
                let mut wrong = bytes.clone();
                wrong[at] ^= 0x10;
                assert!(!asked(&wrong, segment), "byte {at} by {segment}");
            }
        }
    }

    #[test]
    fn a_sum_may_be_over_the_beginning_alone() {
        Pool::heap(64).install();
        // Of UDP-Lite, 12 bytes by its length; of DCCP, a header of 12 bytes alone.
        for (kind, field, marks) in [(protocol::UDP_LITE, 6, [0, 12]), (protocol::DCCP, 6, [3, 1])] {
            let mut bytes = frame(kind, 12, field, 20);
            bytes[38..40].copy_from_slice(&marks);
            bytes[40..42].fill(0);
            let sum = checksum::pseudo4(0x0a01_0002, 0x0a02_0002, kind, 32).with(&bytes[34..46]).finish();
            bytes[40..42].copy_from_slice(&sum.to_be_bytes());
            assert!(asked(&bytes, 3000), "{kind}");
            for (at, seen) in [(34, true), (45, true), (46, false), (65, false)] {
                let mut wrong = bytes.clone();
                wrong[at] ^= 0x10;
                assert_eq!(asked(&wrong, 3000), !seen, "{kind}: byte {at}");
            }
            // Over more than there is.
            bytes[38..40].copy_from_slice(&[15, 15]);
            assert!(!asked(&bytes, 3000), "{kind}");
        }
        let mut without = frame(protocol::UDP_LITE, 8, 6, 20);
        without[38..42].fill(0);
        assert!(!asked(&without, 3000));
    }

    #[test]
    fn a_datagram_may_have_none() {
        Pool::heap(64).install();
        let mut bytes = frame(protocol::UDP, 8, 6, 20);
        bytes[40..42].fill(0);
        assert!(asked(&bytes, 3000));
    }
}
