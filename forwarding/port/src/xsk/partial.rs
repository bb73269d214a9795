//! What a sender left to its NIC, done where the NIC would have done it: checksums that are partial
//! are finished ([`wire::partial`]), and TCP segments longer than the MTU are cut
//! ([`wire::joined`]). One frame may become forty, more than somebody wants at once: the rest waits
//! here.

use std::collections::VecDeque;

use wire::checksum::Sum;
use wire::partial::{self, ChecksumKind};
use wire::{ethernet, joined};

use crate::Packet;

/// Frames as they come in by a device that passes such on.
pub(super) struct Partial {
    mtu: usize,
    waiting: VecDeque<Packet>,
    /// Pieces for which there was no packet memory.
    lost: u64,
}

impl Partial {
    pub(super) fn new(mtu: u32) -> Partial {
        Partial { mtu: mtu as usize, waiting: VecDeque::new(), lost: 0 }
    }

    /// Pieces that were lost for want of packet memory.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Gives out so many packets at most, the oldest first, and says how many.
    pub(super) fn give(&mut self, into: &mut Vec<Packet>, quota: usize) -> usize {
        let count = quota.min(self.waiting.len());
        into.extend(self.waiting.drain(..count));
        count
    }

    /// Takes a frame, to be given out as it should be.
    pub(super) fn take(&mut self, mut packet: Packet) {
        if packet.total_len() <= ethernet::HEADER + self.mtu || !self.cut(&packet) {
            finish(&mut packet);
            self.waiting.push_back(packet);
        }
    }

    #[inline(never)]
    fn cut(&mut self, packet: &Packet) -> bool {
        joined::cut(&packet.to_vec(), self.mtu, |segment| match Packet::new(segment) {
            Some(mut piece) => {
                piece.input = packet.input;
                self.waiting.push_back(piece);
            }
            None => self.lost += 1,
        })
    }
}

/// Finishes the checksum of a frame, if that is partial. One that is shorter than it says stays as
/// it is.
#[inline(never)]
fn finish(packet: &mut Packet) {
    let Some(partial) = partial::find(packet.data()).filter(|partial| partial.end <= packet.total_len())
    else {
        return;
    };
    let partial::Partial { field, kind, .. } = partial;
    let parts = parts(packet, &partial);
    match kind {
        ChecksumKind::Internet => {
            // 0 would say that there is none (RFC 768), and 0xffff is as right.
            let sum = Sum::new().with_parts(parts).finish();
            write(packet, field, if sum == 0 { [0xff; 2] } else { sum.to_be_bytes() });
        }
        ChecksumKind::Crc32c => {
            let sum = parts.fold(0, crc32c::crc32c_append);
            write(packet, field, sum.to_le_bytes());
        }
    }
}

/// The bytes that a checksum is over.
fn parts<'a>(packet: &'a Packet, partial: &partial::Partial) -> impl Iterator<Item = &'a [u8]> {
    let (mut skip, mut left) = (partial.start, partial.end - partial.start);
    packet.segments().map(move |segment| {
        let rest = segment.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(segment.len());
        let part = &rest[..left.min(rest.len())];
        left -= part.len();
        part
    })
}

fn write<const N: usize>(packet: &mut Packet, at: usize, sum: [u8; N]) {
    let field = packet.data_mut().get_mut(at..).and_then(<[u8]>::first_chunk_mut::<N>);
    field.into_iter().for_each(|field| *field = sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;
    use wire::{checksum, ethernet, ipv4, protocol};

    /// A frame with so much data; its upper layer's header is all 0x51 but for the field.
    fn frame(protocol: u8, header: usize, field: std::ops::Range<usize>, data: usize) -> Vec<u8> {
        let (source, destination) = ([10, 1, 0, 2], [10, 2, 0, 2]);
        let mut upper = vec![0x51; header];
        upper.extend((0..data).map(|n| (n * 7) as u8));
        upper[field.clone()].fill(0);
        if protocol != protocol::SCTP {
            let [source, destination] = [source, destination].map(u32::from_be_bytes);
            let pseudo = checksum::pseudo4(source, destination, protocol, upper.len() as u16);
            upper[field].copy_from_slice(&pseudo.fold().to_be_bytes());
        }
        let repr = ipv4::Repr { protocol, ..ipv4::Repr::new(source.into(), destination.into()) };
        let kind = ethernet::IPV4.to_be_bytes();
        [&[2; 12][..], &kind, &repr.header(upper.len()), &upper].concat()
    }

    /// As it lies in memory, in segments of at most so many bytes.
    fn packet(bytes: &[u8], segment: usize) -> Packet {
        let mut pieces = bytes.chunks(segment).map(|piece| Packet::new(piece).unwrap());
        let mut packet = pieces.next().unwrap();
        pieces.for_each(|piece| assert!(packet.append(piece).is_ok()));
        packet
    }

    #[test]
    fn checksums_are_finished_in_one_segment_and_in_many() {
        Pool::heap(64).install();
        for data in [0, 1, 2, 63, 1000, 1001, 5000] {
            for segment in [60, 61, 977, 3000] {
                for (protocol, header, field) in [(protocol::TCP, 20, 16..18), (protocol::UDP, 8, 6..8)] {
                    let bytes = frame(protocol, header, field, data);
                    let Some(mut packet) = (bytes.len() <= 17 * segment).then(|| packet(&bytes, segment))
                    else {
                        continue;
                    };
                    finish(&mut packet);
                    let after = packet.to_vec();
                    let pseudo =
                        checksum::pseudo4(0x0a01_0002, 0x0a02_0002, protocol, (header + data) as u16);
                    assert_eq!(pseudo.with(&after[34..]).fold(), 0xffff, "{data} bytes by {segment}");
                    finish(&mut packet);
                    assert_eq!(packet.to_vec(), after);
                }
            }
        }
    }

    #[test]
    fn sctp_gets_its_crc() {
        Pool::heap(64).install();
        for segment in [70, 3000] {
            let bytes = frame(protocol::SCTP, 12, 8..12, 500);
            let mut packet = packet(&bytes, segment);
            finish(&mut packet);
            let mut after = packet.to_vec();
            let sum: Vec<u8> = after[42..46].to_vec();
            after[42..46].fill(0);
            assert_eq!((&after, sum), (&bytes, crc32c::crc32c(&bytes[34..]).to_le_bytes().to_vec()));
        }
    }

    #[test]
    fn a_frame_that_is_cut_short_stays_as_it_is() {
        Pool::heap(64).install();
        let bytes = frame(protocol::UDP, 8, 6..8, 100);
        for end in 0..bytes.len() {
            let mut packet = packet(&bytes, bytes.len());
            packet.truncate(end);
            finish(&mut packet);
            assert_eq!(packet.to_vec(), bytes[..end]);
        }
    }

    #[test]
    fn a_datagram_never_says_that_it_has_no_checksum() {
        Pool::heap(64).install();
        let mut bytes = frame(protocol::UDP, 8, 6..8, 2);
        // Data that make the sum of all 0xffff, and the checksum 0.
        let sum = checksum::Sum::new().with(&bytes[34..42]).fold();
        bytes[42..44].copy_from_slice(&(!sum).to_be_bytes());
        let mut packet = packet(&bytes, 3000);
        finish(&mut packet);
        assert_eq!(packet.data()[40..42], [0xff, 0xff]);
    }

    #[test]
    fn what_was_joined_is_cut_and_given_out_in_turn() {
        Pool::heap(64).install();
        let bytes = frame(protocol::TCP, 20, 16..18, 9000);
        let mut partial = Partial::new(1500);
        let mut first = packet(&bytes, 3000);
        first.input = fib::InterfaceId(7);
        partial.take(first);
        partial.take(packet(&frame(protocol::UDP, 8, 6..8, 9), 100));
        let mut given = Vec::new();
        assert_eq!(
            (partial.give(&mut given, 3), partial.give(&mut given, 3), partial.give(&mut given, 9)),
            (3, 3, 2)
        );
        let lengths: Vec<usize> = given.iter().map(Packet::total_len).collect();
        assert_eq!(lengths, [1514, 1514, 1514, 1514, 1514, 1514, 294, 51]);
        let data: Vec<u8> = given[..7].iter().flat_map(|piece| piece.to_vec().split_off(54)).collect();
        assert_eq!(data, bytes[54..]);
        assert!(given[..7].iter().all(|piece| piece.input == fib::InterfaceId(7)));
    }

    #[test]
    fn pieces_without_memory_are_counted() {
        Pool::heap(8).install();
        let mut partial = Partial::new(600);
        partial.take(packet(&frame(protocol::TCP, 20, 16..18, 6000), 3000));
        let mut given = Vec::new();
        // Three of the eight chunks are the frame's.
        assert_eq!((partial.give(&mut given, 99), partial.lost()), (5, 6));
    }
}
