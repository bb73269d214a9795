//! What a packet of a translated IPv4 flow says as it leaves.
//!
//! An entry holds both tuples of such a flow, and room is left: what becomes of a checksum when one takes the place of the other is
//! kept beside them, since it is the same for all packets of the flow (RFC 1624, equation 3, of which ~m + m' is known
//! beforehand). The opposite direction needs the opposite.

use crate::BATCH;
use crate::entry::{Hot, REPLY_SWAPPED, SWAPPED};
use crate::plain::Faces;
use std::sync::atomic::Ordering::Relaxed;
use wire::checksum::Sum;

/// Source and destination and both their ports as a packet is to have them, and what its checksums must learn of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving4 {
    /// Source and destination.
    pub addresses: [u8; 8],
    /// Their ports.
    pub ports: [u8; 4],
    /// What has changed.
    pub change: Change,
}

/// What packets of a batch say as they leave, in columns.
pub struct Leavings4 {
    /// Source and destination, as a number.
    ends: [u64; BATCH],
    ports: [u32; BATCH],
    /// [`Change::word`].
    changes: [u32; BATCH],
}

impl Default for Leavings4 {
    fn default() -> Leavings4 {
        Leavings4 { ends: [0; BATCH], ports: [0; BATCH], changes: [0; BATCH] }
    }
}

impl Leavings4 {
    /// Of one.
    #[inline(always)]
    pub fn get(&self, n: usize) -> Leaving4 {
        let n = n % BATCH;
        Leaving4 {
            addresses: self.ends[n].to_be_bytes(),
            ports: self.ports[n].to_be_bytes(),
            change: Change::from_word(u64::from(self.changes[n])),
        }
    }

    /// Where one really goes.
    #[inline(always)]
    pub fn destination(&self, n: usize) -> u32 {
        self.ends[n % BATCH] as u32
    }

    /// Takes down what an entry has beside its key.
    #[inline(always)]
    pub(crate) fn note(&mut self, n: usize, hot: &Hot) {
        let [ends, ports, change] = [1, 2, 3].map(|word| hot.addresses[word].load(Relaxed));
        (self.ends[n], self.ports[n], self.changes[n]) = (ends, (ports >> 32) as u32, change as u32);
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
            self.ends[n] = if straight { ends.rotate_left(32) } else { ends };
            self.ports[n] = if straight { ports.rotate_left(16) } else { ports };
            let change = self.changes[n];
            let back = Change::from_word(u64::from(change)).back().word() as u32;
            self.changes[n] = change ^ (change ^ back) & reply as u32;
        }
    }
}

/// What checksums must learn: the sums, in ones' complement, of what is new and of the complement of what was there. Never 0, so that
/// no checksum becomes 0xffff that was not.
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

    /// The same backwards.
    #[inline(always)]
    pub(crate) fn back(self) -> Change {
        // 0xffff is nothing as well.
        let back = |sum: u16| if sum == 0xffff { sum } else { !sum };
        Change { addresses: back(self.addresses), all: back(self.all) }
    }

    /// The checksum of the IP header that was this one, as it stands there.
    #[inline(always)]
    pub fn of_header(self, checksum: [u8; 2]) -> [u8; 2] {
        changed(self.addresses, checksum)
    }

    /// The checksum of TCP that was this one.
    #[inline(always)]
    pub fn of_segment(self, checksum: [u8; 2]) -> [u8; 2] {
        changed(self.all, checksum)
    }

    /// The checksum of UDP that was this one: 0, which says that there is none, stays, and never comes about.
    #[inline(always)]
    pub fn of_datagram(self, checksum: [u8; 2]) -> [u8; 2] {
        match (checksum, changed(self.all, checksum)) {
            ([0, 0], _) => [0, 0],
            (_, [0, 0]) => [0xff, 0xff],
            (_, new) => new,
        }
    }

    pub(crate) fn word(self) -> u64 {
        u64::from(self.addresses) | u64::from(self.all) << 16
    }

    #[inline(always)]
    pub(crate) fn from_word(word: u64) -> Change {
        Change { addresses: word as u16, all: (word >> 16) as u16 }
    }
}

#[inline(always)]
fn changed(change: u16, checksum: [u8; 2]) -> [u8; 2] {
    let sum = u32::from(!u16::from_be_bytes(checksum)) + u32::from(change);
    (!((sum + (sum >> 16)) as u16)).to_be_bytes()
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
            for (reply, side, change) in [(0, sides[1], change), (1 << at, sides[0], change.back())] {
                let (mut faces, mut leavings) = (Faces::default(), Leavings4::default());
                faces.note(at, &hot);
                leavings.note(at, &hot);
                leavings.turn(&faces, reply);
                let Tuple { source, destination, source_port, destination_port, .. } = side.reversed();
                let addresses = [&source[12..], &destination[12..]].concat();
                let leaving = leavings.get(at);
                prop_assert_eq!(&leaving.addresses[..], addresses);
                prop_assert_eq!(leaving.ports, ports([source_port, destination_port]).to_be_bytes());
                prop_assert_eq!(leaving.change, change);
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
            let change = Change::from_word(Change::between(given, to).word());
            let [(header, all), (header_after, all_after)] = [from, to].map(|at| {
                let [header, all] = sums(at, &rest);
                (header, all)
            });
            prop_assert_eq!(change.of_header(header), header_after);
            prop_assert_eq!(change.of_segment(all), all_after);
            prop_assert_eq!(change.back().of_header(header_after), header);
            prop_assert_eq!(change.back().of_segment(all_after), all);
        }
    }

    #[test]
    fn nothing_changes_nothing() {
        let same = Change::between((77, 5), (77, 5));
        for checksum in [[0, 1], [0, 0], [0x12, 0x34], [0xff, 0xfe]] {
            assert_eq!(same.of_header(checksum), checksum);
            assert_eq!(same.of_segment(checksum), checksum);
        }
        assert_eq!(same.back(), same);
    }

    #[test]
    fn a_datagram_without_a_checksum_stays_so() {
        let change = Change::between((1, 2), (3, 4));
        assert_eq!(change.of_datagram([0, 0]), [0, 0]);
        let zero = (0..=u16::MAX).map(u16::to_be_bytes).find(|was| change.of_segment(*was) == [0, 0]);
        assert_eq!(zero.map(|was| change.of_datagram(was)), Some([0xff, 0xff]));
    }
}
