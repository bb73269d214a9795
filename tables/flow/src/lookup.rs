//! The lookup of a batch: everybody's cache misses at once.
//!
//! A lookup is a chain of two or three misses (bucket, sometimes the other bucket, entry) with a
//! few dozen instructions between them. Alone it would wait for each of them, which is most of a
//! microsecond. So the whole batch goes through four stages, each of which asks for the lines of
//! the next. (Smaller groups, so that several stages overlap, were tried: no gain.)
//!
//! What is as good as random (which bucket, which slot, which way) is chosen without a branch: a
//! branch that is mispredicted costs as much as half a lookup.

use crate::entry::TRANSLATED;
use crate::hash::Spot;
use crate::index::{Place, buckets_of};
use crate::key::Key;
use crate::memory::{prefetch, prefetch_at};
use crate::{BATCH, Hit, Table};
use std::hint::select_unpredictable;
use std::sync::atomic::Ordering::Relaxed;
use wire::which::{lowest, numbers, which};

/// Looks up up to [`BATCH`] keys; returns how many were found, and how many entries were compared.
#[inline]
pub(crate) fn lookup(table: &Table, keys: &[Key], hits: &mut [Option<Hit>]) -> (u64, u64) {
    let hot = table.memory.hot();
    let mut spots = [Spot::default(); BATCH];
    let mut candidates = [0; BATCH];
    let spots = &mut spots[..keys.len()];
    let hits = &mut hits[..keys.len()];
    for (key, spot) in keys.iter().zip(spots.iter_mut()) {
        *spot = table.hash.spot(key);
        table.ask(*spot);
    }
    let mut places = [Place::NONE; BATCH];
    find(table, spots, &mut candidates, |index, bucket, slot| places[index] = Place::new(bucket, slot));
    let (mut found, mut searches) = (0, 0);
    for (index, (hit, key)) in hits.iter_mut().zip(keys).enumerate() {
        let (place, entry) = (places[index], candidates[index]);
        let meta = hot[entry as usize].meta.load(Relaxed);
        searches += u64::from(entry != 0);
        let (is_its, direction) = hot[entry as usize].way(key, meta);
        if is_its {
            // Written where it stays: taken from hand to hand in parts, it costs as much as all the
            // rest.
            *hit = Some(Hit { entry, place, direction, translated: meta & TRANSLATED != 0 });
        } else if entry != 0 {
            *hit = table.search(key, spots[index], &mut searches);
        } else {
            *hit = None;
        }
        found += u64::from(hit.is_some());
    }
    (found, searches)
}

impl Table {
    /// Asks for the line where a key is likely found.
    #[inline(always)]
    pub(crate) fn ask(&self, spot: Spot) {
        let buckets = self.memory.buckets();
        prefetch(&buckets[buckets_of(spot, buckets.len())[0] as usize]);
    }
}

/// The second and the third stage: for each of up to [`BATCH`] spots, whose lines have been
/// [asked](Table::ask) for, the entry that is likely the one; 0 is none. Asks for these entries.
/// `note` is told of each, and again where that changes, in which bucket and slot it was found.
#[inline(always)]
pub(crate) fn find(
    table: &Table,
    spots: &[Spot],
    candidates: &mut [u32; BATCH],
    mut note: impl FnMut(usize, u32, usize),
) {
    let (hot, buckets) = (table.memory.hot(), table.memory.buckets());
    for (index, (spot, candidate)) in spots.iter().zip(candidates.iter_mut()).enumerate() {
        let [first, other] = buckets_of(*spot, buckets.len());
        let (slot, entry) = buckets[first as usize].first(*spot);
        let here = hot.as_ptr().wrapping_add(entry as usize).cast::<u8>();
        let there = buckets.as_ptr().wrapping_add(other as usize).cast::<u8>();
        // To ask for the other bucket only later, of those keys that need it, was tried: the wait
        // costs more.
        prefetch_at(select_unpredictable(entry != 0, here, there));
        note(index, first, slot);
        *candidate = entry;
    }
    // Those that are not in their first bucket.
    for index in numbers(which(|index| candidates[index] == 0) & lowest(spots.len())) {
        let other = buckets_of(spots[index], buckets.len())[1];
        let (slot, entry) = buckets[other as usize].first(spots[index]);
        prefetch(&hot[entry as usize]);
        note(index, other, slot);
        candidates[index] = entry;
    }
}
