//! What a packet of a translated IPv4 flow says as it leaves.
//!
//! An entry holds both tuples of such a flow, and room is left: what becomes of a checksum when one
//! takes the place of the other is kept beside them, since it is the same for all packets of the
//! flow (RFC 1624, equation 3, of which ~m + m' is known beforehand). The opposite direction needs
//! the opposite.
//!
//! All of it is put into the order in which it lies in a packet while it stands in columns, so that
//! a packet only takes it over; ones' complement does not ask for the order of bytes.

use crate::BATCH;
use crate::entry::{Hot, REPLY_SWAPPED, SWAPPED};
use crate::plain::Faces;
use std::hint::select_unpredictable;
use std::sync::atomic::Ordering::Relaxed;
use wire::checksum::Sum;

/// Source and destination and both their ports as a packet is to have them, and what its checksums
/// must learn of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving4 {
    /// Source and destination.
    pub addresses: [u8; 8],
    /// Their ports.
    pub ports: [u8; 4],
    /// What is added to checksums.
    pub correction: Correction,
}

/// What packets of a batch say as they leave, in columns, each as it lies in memory.
pub struct Leavings4 {
    /// Source and destination.
    ends: [u64; BATCH],
    ports: [u32; BATCH],
    /// [`Correction::from_word`].
    corrections: [u32; BATCH],
}

impl Default for Leavings4 {
    fn default() -> Leavings4 {
        Leavings4 { ends: [0; BATCH], ports: [0; BATCH], corrections: [0; BATCH] }
    }
}

impl Leavings4 {
    /// Of one.
    #[inline(always)]
    pub fn get(&self, n: usize) -> Leaving4 {
        let n = n % BATCH;
        Leaving4 {
            addresses: self.ends[n].to_ne_bytes(),
            ports: self.ports[n].to_ne_bytes(),
            correction: Correction::from_word(self.corrections[n]),
        }
    }

    /// Where one really goes.
    #[inline(always)]
    pub fn destination(&self, n: usize) -> u32 {
        u64::from_be(self.ends[n % BATCH]) as u32
    }

    /// Whether a packet that comes with this source and destination and both their ports (the
    /// source's in the upper half) says so already: it came as if its flow were not translated, and
    /// no correction is for it.
    #[inline(always)]
    pub fn says(&self, n: usize, [source, destination]: [u32; 2], ports: u32) -> bool {
        let ends = u64::from(source) << 32 | u64::from(destination);
        (self.ends[n % BATCH] == ends.to_be()) & (self.ports[n % BATCH] == ports.to_be())
    }

    /// Takes down what an entry has beside its key.
    #[inline(always)]
    pub(crate) fn note(&mut self, n: usize, hot: &Hot) {
        let [ends, ports, change] = [1, 2, 3].map(|word| hot.addresses[word].load(Relaxed));
        (self.ends[n], self.ports[n], self.corrections[n]) = (ends, (ports >> 32) as u32, change as u32);
    }

    /// Makes of that what packets say as they leave, some of which are replies (bits).
    #[inline(always)]
    pub(crate) fn turn(&mut self, faces: &Faces, replies: u64) {
        for n in 0..BATCH {
            let reply = 0u64.wrapping_sub(replies >> n & 1);
            let ends = self.ends[n] ^ (self.ends[n] ^ faces.ends[n]) & reply;
            let ports = self.ports[n] ^ (self.ports[n] ^ faces.ports[n]) & reply as u32;
            let swapped = REPLY_SWAPPED ^ (REPLY_SWAPPED ^ SWAPPED) & reply as u32;
            // The reverse of what the other side sends.
            let straight = faces.metas[n] & swapped == 0;
            self.ends[n] = (if straight { ends.rotate_left(32) } else { ends }).to_be();
            self.ports[n] = (if straight { ports.rotate_left(16) } else { ports }).to_be();
            self.corrections[n] = correction(self.corrections[n], reply as u32);
        }
    }
}

/// What checksums must learn: the sums, in ones' complement, of what is new and of the complement
/// of what was there. Never 0, so that no checksum becomes 0xffff that was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    addresses: u16,
    all: u16,
}

impl Change {
    /// From these addresses (in either order) and ports (in either order) to those.
    pub fn between((from, from_ports): (u64, u32), (to, to_ports): (u64, u32)) -> Change {
        let addresses = Sum::new().with(&to.to_be_bytes()).with(&(!from).to_be_bytes());
        let all = addresses.with(&to_ports.to_be_bytes()).with(&(!from_ports).to_be_bytes());
        Change { addresses: addresses.fold(), all: all.fold() }
    }

    /// For packets of the flow's original direction.
    pub fn correction(self) -> Correction {
        Correction::from_word(correction(self.word(), 0))
    }

    pub(crate) fn word(self) -> u32 {
        u32::from(self.addresses) | u32::from(self.all) << 16
    }
}

/// The word of a [`Correction`], from that of a [`Change`]; `reply` is all ones for packets of the
/// opposite direction. A checksum is the complement of a sum, so what is added to one is the
/// complement of what has changed.
#[inline(always)]
fn correction(change: u32, reply: u32) -> u32 {
    let word = change ^ !reply;
    // Both halves into the order of memory.
    let turned = (word & 0x00ff_00ff) << 8 | word >> 8 & 0x00ff_00ff;
    if cfg!(target_endian = "little") { turned } else { word }
}

/// What is added, in ones' complement, to checksums as they lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correction {
    addresses: u16,
    all: u16,
}

impl Correction {
    #[inline(always)]
    fn from_word(word: u32) -> Correction {
        Correction { addresses: word as u16, all: (word >> 16) as u16 }
    }

    /// The checksum of the IP header that was this one, as it stands there.
    #[inline(always)]
    pub fn of_header(self, checksum: [u8; 2]) -> [u8; 2] {
        corrected(checksum, self.addresses)
    }

    /// The checksum of TCP that was this one.
    #[inline(always)]
    pub fn of_segment(self, checksum: [u8; 2]) -> [u8; 2] {
        corrected(checksum, self.all)
    }

    /// The checksum of UDP that was this one: 0, which says that there is none, stays, and never
    /// comes about.
    #[inline(always)]
    pub fn of_datagram(self, checksum: [u8; 2]) -> [u8; 2] {
        let was = u32::from(u16::from_ne_bytes(checksum));
        let sum = was + u32::from(self.all);
        // Of the two forms of nothing this is the other one.
        let sum = (sum + (sum >> 16)) as u16;
        select_unpredictable(was == 0, 0, sum).to_ne_bytes()
    }
}

#[inline(always)]
fn corrected(checksum: [u8; 2], by: u16) -> [u8; 2] {
    let sum = u32::from(u16::from_ne_bytes(checksum)) + u32::from(by);
    // The carry is brought round, and of the two forms of nothing it is 0.
    ((sum + u32::from(sum >= 0xffff)) as u16).to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Tuple};
    use proptest::prelude::*;
    use wire::checksum;
    use wire::headers::mapped;

    proptest! {
        #[test]
        fn packets_leave_as_the_other_side_is_answered(
            [inside, outside]: [[[u8; 4]; 2]; 2],
            [from, to]: [[u16; 2]; 2],
            at in 0..BATCH,
        ) {
            let tuple = |[source, destination]: [[u8; 4]; 2], [source_port, destination_port]: [u16; 2]| {
                let (source, destination) = (mapped(source), mapped(destination));
                Tuple { source, destination, source_port, destination_port, protocol: 6, table: 0 }
            };
            let (hot, sides) = (Hot::default(), [tuple(inside, from), tuple(outside, to)]);
            hot.set_key(&Key::of(&sides[0]), 0, Some(&Key::of(&sides[1])));
            let numbers = |[a, b]: [[u8; 4]; 2]| u64::from(u32::from_be_bytes(a)) << 32 | u64::from(u32::from_be_bytes(b));
            let ports = |[a, b]: [u16; 2]| u32::from(a) << 16 | u32::from(b);
            let change = Change::between((numbers(inside), ports(from)), (numbers(outside), ports(to)));
            for (reply, side, correction) in [(0, sides[1], change.correction()), (1 << at, sides[0], back(change))] {
                let (mut faces, mut leavings) = (Faces::default(), Leavings4::default());
                faces.note(at, &hot);
                leavings.note(at, &hot);
                leavings.turn(&faces, reply);
                let Tuple { source, destination, source_port, destination_port, .. } = side.reversed();
                let addresses = [&source[12..], &destination[12..]].concat();
                let leaving = leavings.get(at);
                prop_assert_eq!(&leaving.addresses[..], addresses);
                prop_assert_eq!(leaving.ports, ports([source_port, destination_port]).to_be_bytes());
                prop_assert_eq!(leaving.correction, correction);
                prop_assert_eq!(&leavings.destination(at).to_be_bytes(), &leaving.addresses[4..]);
            }
        }

        #[test]
        fn checksums_are_as_if_made_anew(
            from: (u64, u32),
            to: (u64, u32),
            turned: bool,
            mut rest in prop::collection::vec(any::<u8>(), 20),
        ) {
            let sums = |(addresses, ports): (u64, u32), rest: &[u8]| {
                let header = [&addresses.to_be_bytes()[..], rest].concat();
                let all = [&ports.to_be_bytes()[..], &header].concat();
                [header, all].map(|bytes| checksum::of(&bytes).to_be_bytes())
            };
            // Of nothing but zeros, which is no header, there are two sums.
            rest[0] |= 1;
            // Which end is the source makes no difference.
            let given = if turned { (from.0.rotate_left(32), from.1.rotate_left(16)) } else { from };
            let change = Change::between(given, to);
            let (there, back) = (change.correction(), back(change));
            let [(header, all), (header_after, all_after)] = [from, to].map(|at| {
                let [header, all] = sums(at, &rest);
                (header, all)
            });
            prop_assert_eq!(there.of_header(header), header_after);
            prop_assert_eq!(there.of_segment(all), all_after);
            prop_assert_eq!(back.of_header(header_after), header);
            prop_assert_eq!(back.of_segment(all_after), all);
            // UDP says 0xffff where that would be 0, which says that there is none.
            let stated = |sum: [u8; 2]| if sum == [0, 0] { [0xff, 0xff] } else { sum };
            prop_assert_eq!(there.of_datagram(stated(all)), stated(all_after));
            prop_assert_eq!(back.of_datagram(stated(all_after)), stated(all));
        }
    }

    /// What the opposite direction needs.
    fn back(change: Change) -> Correction {
        Correction::from_word(correction(change.word(), u32::MAX))
    }

    #[test]
    fn nothing_changes_nothing() {
        let same = Change::between((77, 5), (77, 5));
        for checksum in [[0, 1], [0, 0], [0x12, 0x34], [0xff, 0xfe]] {
            for nothing in [same.correction(), back(same)] {
                assert_eq!(nothing.of_header(checksum), checksum);
                assert_eq!(nothing.of_segment(checksum), checksum);
                assert_eq!(nothing.of_datagram(checksum), checksum);
            }
        }
    }

    #[test]
    fn a_datagram_without_a_checksum_stays_so() {
        let change = Change::between((1, 2), (3, 4)).correction();
        assert_eq!(change.of_datagram([0, 0]), [0, 0]);
        let zero = (0..=u16::MAX).map(u16::to_be_bytes).find(|was| change.of_segment(*was) == [0, 0]);
        assert_eq!(zero.map(|was| change.of_datagram(was)), Some([0xff, 0xff]));
    }
}
