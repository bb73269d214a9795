//! Whether a packet is as its sender made it: the checksum of its upper layer.
//!
//! Forwarding does not ask, for the receiver does. But what a damaged segment does to its flow the receiver could not undo: a RST with a
//! flipped bit would end the translation of a connection that goes on. So it is asked of packets that open a flow or change how far one is,
//! and of ICMP errors (RFC 5508, REQ-3). Checksums that a sender left to its NIC are finished before a worker sees them (`wire::partial`).

use port::Packet;
use wire::checksum::Sum;
use wire::{Fragment, Headers, ipv6, protocol};

/// Whether the checksum of TCP, UDP or ICMP holds, as far as that can be seen. A fragment shows none, and behind IPv6's extension headers may
/// be a route that hides the destination which the sum is over.
#[cold]
pub(super) fn is_intact(headers: &Headers, packet: &Packet) -> bool {
    let at = usize::from(headers.transport);
    if headers.fragment != Fragment::Whole || headers.version == 6 && at != ipv6::HEADER {
        return true;
    }
    let mut left = usize::from(headers.length).saturating_sub(at);
    let upper = packet.network().get(at..).unwrap_or_default();
    let pseudo = match (headers.version, headers.protocol) {
        (4, protocol::ICMP) => Sum::new(),
        // The sender did without (RFC 768).
        (_, protocol::UDP) if upper.get(6..8) == Some(&[0; 2]) => return true,
        (_, protocol::TCP | protocol::UDP) | (6, protocol::ICMP6) => headers.pseudo(left),
        _ => return true,
    };
    let parts = std::iter::once(upper).chain(packet.segments().skip(1)).map(|part| {
        let part = &part[..left.min(part.len())];
        left -= part.len();
        part
    });
    pseudo.with_parts(parts).fold() == 0xffff
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

    #[test]
    fn a_datagram_may_have_none() {
        Pool::heap(64).install();
        let mut bytes = frame(protocol::UDP, 8, 6, 20);
        bytes[40..42].fill(0);
        assert!(asked(&bytes, 3000));
    }
}
