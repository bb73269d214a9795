//! Where a key is found: buckets of one cache line with twelve slots each, two buckets a key.
//!
//! ```text
//! tags 12 x 8 bits | lock 32 bits | slots 12 x (entry 28 bits, tag 3 more bits, weak 1 bit)
//! ```
//!
//! A lookup reads at most two lines here, whatever happens, and one of them two times out of three:
//! a new key goes into the first bucket while that has nine keys or fewer, and into the emptier one
//! then. At eight tenths full one insertion in some thousand finds no room. Eleven bits of tag make
//! one candidate in a hundred lookups a wrong one.
//!
//! Readers take no lock. A slot is written before its tag; entries are live before they have a
//! slot, and stay what they are until all readers have let go of them; keys never move. Inserting
//! locks the first bucket of the key, so that two workers who insert the same key meet; slots,
//! which in the second bucket they may both want, are taken by exchange. Removing takes no lock: it
//! empties the slot by exchange, then its tag, and a slot is free when both are empty.
//!
//! *Weak* is a hint that the flow may be evicted. The entry itself decides; the hint saves reading
//! twelve of them.

pub(crate) use abi::flow::{ENTRY, SLOTS};

use crate::hash::Spot;
use std::hint::select_unpredictable;
use std::ops::Deref;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::compiler_fence;

/// The first bucket is preferred up to here.
const PREFERRED: u32 = 9;
/// Those that are more of the tag.
const MORE: u32 = 7 << 28;
const WEAK: u32 = 1 << 31;
/// A bit for each slot.
const ALL: u32 = (1 << SLOTS) - 1;

/// One cache line.
#[repr(transparent)]
#[derive(Default)]
pub(crate) struct Bucket(abi::flow::Bucket);

impl Deref for Bucket {
    type Target = abi::flow::Bucket;

    #[inline(always)]
    fn deref(&self) -> &abi::flow::Bucket {
        &self.0
    }
}

const _: () = assert!(size_of::<Bucket>() == 64);

/// Where a slot is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    pub(crate) const NONE: Place = Place(0);

    #[inline(always)]
    pub(crate) fn new(bucket: u32, slot: usize) -> Place {
        Place(bucket << 4 | slot as u32)
    }

    pub(crate) fn bucket(self) -> usize {
        (self.0 >> 4) as usize
    }

    pub(crate) fn slot(self) -> usize {
        self.0 as usize & 15
    }
}

/// Slots whose tag is the one sought, lowest first: a bit each.
#[derive(Clone, Copy)]
pub(crate) struct Candidates(u32);

impl Iterator for Candidates {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let slot = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (slot < SLOTS).then_some(slot)
    }
}

/// Which of eight bytes and four bytes are this one.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn equal_bytes(eight: u64, four: u32, byte: u8) -> u32 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const REST: u64 = 0x7f * LOW;
    let [low, high] = [eight, u64::from(four)].map(|word| {
        let x = word ^ u64::from(byte) * LOW;
        // The high bit of every byte that is 0; then those bits side by side.
        let zeros = !(((x & REST) + REST) | x | REST);
        (zeros.wrapping_mul(0x0002_0408_1020_4081) >> 56) as u32
    });
    low | high << 8
}

impl Bucket {
    #[inline(always)]
    pub(crate) fn candidates(&self, spot: Spot) -> Candidates {
        Candidates(self.tagged(spot.tag()))
    }

    /// The slots with this tag, 0 for those that are free: a bit each.
    #[inline(always)]
    fn tagged(&self, tag: u8) -> u32 {
        self.equal(tag) & ALL
    }

    /// The same, with bits above them that mean nothing.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn equal(&self, tag: u8) -> u32 {
        use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set1_epi8};
        // SAFETY: every x86-64 has SSE2. The bytes are the bucket's own, and aligned. Who writes
        // them meanwhile does so by whole words: what a volatile read finds is what reading one
        // word after the other would.
        let mask = unsafe {
            let tags = std::ptr::from_ref(self).cast::<__m128i>().read_volatile();
            _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8)))
        };
        // As if by `Acquire`, which is what every load is to the processor.
        compiler_fence(Acquire);
        mask as u32
    }

    /// The same, with bits above them that mean nothing.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    fn equal(&self, tag: u8) -> u32 {
        equal_bytes(self.eight.load(Acquire), self.four.load(Acquire), tag)
    }

    /// The entry in a slot, if the rest of the tag is right as well.
    #[inline(always)]
    pub(crate) fn entry(&self, slot: usize, spot: Spot) -> Option<u32> {
        let word = self.slots[slot].load(Acquire);
        (word != 0 && word >> 28 & 7 == spot.more()).then_some(word & ENTRY)
    }

    /// The first slot with this tag and its entry, which is 0 if there is none. Where tags match is
    /// as good as random, so nothing here branches on it.
    #[inline(always)]
    pub(crate) fn first(&self, spot: Spot) -> (usize, u32) {
        let (equal, more) = (self.equal(spot.tag()), spot.more() << 28);
        let slot = (equal | 1 << (SLOTS - 1)).trailing_zeros() as usize;
        // Where there is none, no entry, of which the rest of the tag is right.
        let word = select_unpredictable(equal & ALL != 0, self.slots[slot].load(Acquire), more);
        if (word ^ more) & MORE != 0 {
            return self.first_of_several(spot);
        }
        (slot, word & ENTRY)
    }

    #[cold]
    fn first_of_several(&self, spot: Spot) -> (usize, u32) {
        let found = self.candidates(spot).find_map(|slot| Some((slot, self.entry(slot, spot)?)));
        found.unwrap_or((0, 0))
    }

    /// Every slot in use, with its entry and whether that is weak.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = (usize, u32, bool)> + '_ {
        self.slots.iter().enumerate().filter_map(|(slot, word)| {
            let word = word.load(Acquire);
            (word != 0).then_some((slot, word & ENTRY, word & WEAK != 0))
        })
    }

    /// Slots in use.
    fn count(&self) -> u32 {
        (self.tagged(0) ^ ALL).count_ones()
    }

    fn lock(&self) {
        let mut spins = 0u32;
        while self.lock.swap(1, Acquire) != 0 {
            spins += 1;
            if spins.is_multiple_of(256) {
                // Its holder was taken off the core in the middle of a few dozen instructions.
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }

    /// Puts an entry into a free slot.
    fn put(&self, spot: Spot, entry: u32, weak: bool) -> Option<usize> {
        let word = if weak { WEAK } else { 0 } | spot.more() << 28 | entry;
        let slot = Candidates(self.tagged(0))
            .find(|slot| self.slots[*slot].compare_exchange(0, word, Release, Relaxed).is_ok())?;
        let tag = spot.tag();
        if slot < 8 {
            self.eight.fetch_or(u64::from(tag) << (slot * 8), Release);
        } else {
            self.four.fetch_or(u32::from(tag) << (slot % 8 * 8), Release);
        }
        Some(slot)
    }

    /// Empties a slot, if it is this entry's.
    pub(crate) fn clear(&self, slot: usize, entry: u32) -> bool {
        let ours = |word: u32| (word != 0 && word & ENTRY == entry).then_some(0);
        if self.slots[slot].fetch_update(Release, Acquire, ours).is_err() {
            return false;
        }
        if slot < 8 {
            self.eight.fetch_and(!(0xff << (slot * 8)), Release);
        } else {
            self.four.fetch_and(!(0xff << (slot % 8 * 8)), Release);
        }
        true
    }

    /// Empties this entry's slot, if it has one here.
    pub(crate) fn remove(&self, spot: Spot, entry: u32) -> bool {
        self.candidates(spot).any(|slot| self.clear(slot, entry))
    }

    /// Says of an entry whether it may be evicted.
    pub(crate) fn hint(&self, slot: usize, entry: u32, weak: bool) {
        let word = self.slots[slot].load(Relaxed);
        let wanted = if weak { word | WEAK } else { word & !WEAK };
        if word & ENTRY == entry && word != wanted && word != 0 {
            // Fails if the slot was cleared meanwhile.
            let _ = self.slots[slot].compare_exchange(word, wanted, Relaxed, Relaxed);
        }
    }
}

/// The buckets of a key, in the order of preference.
#[inline(always)]
pub(crate) fn buckets_of(spot: Spot, buckets: usize) -> [u32; 2] {
    spot.halves().map(|half| ((u64::from(half) * buckets as u64) >> 32) as u32)
}

/// Both buckets of a key, while nobody else inserts it.
pub(crate) struct Locked<'a> {
    pub(crate) numbers: [u32; 2],
    pub(crate) buckets: [&'a Bucket; 2],
}

impl<'a> Locked<'a> {
    pub(crate) fn new(all: &'a [Bucket], spot: Spot) -> Locked<'a> {
        let numbers = buckets_of(spot, all.len());
        let buckets = numbers.map(|number| &all[number as usize]);
        buckets[0].lock();
        Locked { numbers, buckets }
    }

    /// Puts an entry where there is room.
    pub(crate) fn put(&self, spot: Spot, entry: u32, weak: bool) -> Option<Place> {
        let counts = self.buckets.map(Bucket::count);
        let first = usize::from(counts[0] > PREFERRED && counts[1] < counts[0]);
        // Others may take the last free slot of the one meanwhile.
        [first, 1 - first].into_iter().find_map(|which| {
            let slot = self.buckets[which].put(spot, entry, weak)?;
            Some(Place::new(self.numbers[which], slot))
        })
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.buckets[0].lock.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(tag: u8, more: u8) -> Spot {
        Spot::new(more.into(), tag.into())
    }

    #[test]
    fn every_slot_is_found_by_its_tag() {
        let bucket = Bucket::default();
        for entry in 1..=SLOTS as u32 {
            assert_eq!(
                bucket.put(spot(entry as u8, entry as u8 & 7), entry, false),
                Some(entry as usize - 1)
            );
        }
        assert_eq!(bucket.put(spot(77, 0), 77, false), None);
        for entry in 1..=SLOTS as u32 {
            assert_eq!(bucket.first(spot(entry as u8, entry as u8 & 7)), (entry as usize - 1, entry));
            for other in 1..8 {
                assert_eq!(bucket.first(spot(entry as u8, entry as u8 & 7 ^ other)).1, 0);
            }
        }
        assert!(!bucket.clear(3, 5) && !bucket.remove(spot(4, 4), 5));
        assert!(bucket.remove(spot(4, 4), 4) && !bucket.clear(3, 4));
        assert_eq!(bucket.first(spot(4, 4)).1, 0);
        assert_eq!(bucket.count(), 11);
        assert_eq!(bucket.put(spot(255, 7), 99, true), Some(3));
        assert_eq!(bucket.first(spot(255, 7)), (3, 99));
    }

    #[test]
    fn the_same_tag_may_be_there_twelve_times() {
        let bucket = Bucket::default();
        for entry in 1..=SLOTS as u32 {
            bucket.put(spot(1, 1), entry, true);
        }
        assert_eq!(bucket.candidates(spot(1, 1)).collect::<Vec<_>>(), (0..SLOTS).collect::<Vec<_>>());
        bucket.hint(5, 6, false);
        bucket.hint(7, 6, false);
        let strong: Vec<u32> =
            bucket.occupied().filter(|(_, _, weak)| !weak).map(|(_, entry, _)| entry).collect();
        assert_eq!(strong, [6]);
    }
}
