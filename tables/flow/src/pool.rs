//! Entries that are free.
//!
//! Each worker has a few of its own, last freed first used, while they are still in its cache. What
//! it has too many of goes to the others in groups of nine, eight of them written down in the
//! memory of the ninth: so a group costs its taker one cache miss, and the pool no memory at all.
//! Entries that were never used are counted out, so that memory which is never needed is never
//! touched.

use crate::entry::Hot;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Entries of a group besides the one they are written in.
const LISTED: usize = 8;
/// Never used entries a worker takes at once.
const FRESH: u32 = 32;
/// What a worker keeps at most, and what it is left with when it has given away the rest.
pub(crate) const KEPT: usize = 128;
const LEFT: usize = 64;

/// The entries that belong to no worker.
pub(crate) struct Pool {
    /// The first that was never used.
    fresh: AtomicU32,
    entries: u32,
    /// The first group's entry, and in the upper half a number that changes whenever it does, so
    /// that a group that was taken and has come back is not mistaken for one that stayed.
    head: AtomicU64,
    /// Entries in groups.
    grouped: AtomicU32,
}

impl Pool {
    pub(crate) fn new(entries: usize) -> Pool {
        // Entry 0 stands for none.
        Pool {
            fresh: AtomicU32::new(1),
            entries: entries as u32,
            head: AtomicU64::new(0),
            grouped: AtomicU32::new(0),
        }
    }

    /// Entries that no worker has.
    pub(crate) fn available(&self) -> u32 {
        self.entries - self.used() + self.grouped.load(Relaxed)
    }

    /// All entries from this one on were never used.
    pub(crate) fn used(&self) -> u32 {
        self.fresh.load(Relaxed)
    }

    /// Gives a worker that has none some entries, if there are any.
    #[cold]
    pub(crate) fn take(&self, hot: &[Hot], free: &mut Vec<u32>) {
        let mut head = self.head.load(Acquire);
        while head as u32 != 0 {
            let node = &hot[head as u32 as usize];
            let next = self.follow(head, node.ports.load(Relaxed));
            // The list may be another's by now; then the exchange fails, and what was read is
            // forgotten.
            let listed = [0, 1, 2, 3].map(|word| node.addresses[word].load(Relaxed));
            match self.head.compare_exchange_weak(head, next, AcqRel, Acquire) {
                Ok(_) => {
                    let before = free.len();
                    free.extend(listed.iter().flat_map(|pair| [*pair as u32, (*pair >> 32) as u32]));
                    free.push(head as u32);
                    free.retain(|entry| *entry != 0);
                    self.grouped.fetch_sub((free.len() - before) as u32, Relaxed);
                    return;
                }
                Err(now) => head = now,
            }
        }
        let taken = self.fresh.fetch_update(Relaxed, Relaxed, |fresh| {
            (fresh < self.entries).then(|| (fresh + FRESH).min(self.entries))
        });
        if let Ok(first) = taken {
            free.extend((first..(first + FRESH).min(self.entries)).rev());
        }
    }

    /// Takes from a worker what it has too many of; everything, when it leaves.
    #[cold]
    pub(crate) fn give(&self, hot: &[Hot], free: &mut Vec<u32>, everything: bool) {
        let left = if everything { 0 } else { LEFT };
        while free.len() > left {
            let count = (free.len() - left).min(LISTED + 1);
            // The oldest, which are no longer in the cache.
            let mut group = free.drain(..count);
            let Some(first) = group.next() else { return };
            let node = &hot[first as usize];
            for word in &node.addresses {
                let [low, high] = [group.next(), group.next()].map(|entry| entry.unwrap_or(0));
                word.store(u64::from(high) << 32 | u64::from(low), Relaxed);
            }
            drop(group);
            self.grouped.fetch_add(count as u32, Relaxed);
            let mut head = self.head.load(Acquire);
            loop {
                node.ports.store(head as u32, Relaxed);
                match self.head.compare_exchange_weak(head, self.follow(head, first), AcqRel, Acquire) {
                    Ok(_) => break,
                    Err(now) => head = now,
                }
            }
        }
    }

    /// The head after this one, at that entry.
    fn follow(&self, head: u64, entry: u32) -> u64 {
        ((head >> 32).wrapping_add(1)) << 32 | u64::from(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_entry_is_there_once() {
        let hot: Vec<Hot> = (0..1000).map(|_| Hot::default()).collect();
        let pool = Pool::new(hot.len());
        let mut free = Vec::new();
        for round in 0..4 {
            let mut all = HashSet::new();
            while {
                pool.take(&hot, &mut free);
                !free.is_empty()
            } {
                for entry in free.drain(..) {
                    assert!(entry != 0 && all.insert(entry), "{entry} twice in round {round}");
                }
            }
            assert_eq!((all.len(), pool.available()), (999, 0));
            free.extend(all);
            pool.give(&hot, &mut free, round % 2 == 0);
            assert_eq!(free.len(), if round % 2 == 0 { 0 } else { LEFT });
            pool.give(&hot, &mut free, true);
            assert_eq!(pool.available(), 999);
        }
    }

    #[test]
    fn workers_never_have_the_same_entry() {
        let hot: Vec<Hot> = (0..2000).map(|_| Hot::default()).collect();
        let pool = Pool::new(hot.len());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut free = Vec::new();
                    for round in 0..20_000usize {
                        pool.take(&hot, &mut free);
                        for entry in &free {
                            // An owner's mark; two owners would see each other's.
                            assert_eq!(hot[*entry as usize].state.swap(1, AcqRel), 0);
                        }
                        free.iter().for_each(|entry| hot[*entry as usize].state.store(0, Relaxed));
                        if round % 3 == 0 || free.len() > 500 {
                            pool.give(&hot, &mut free, true);
                        }
                    }
                    pool.give(&hot, &mut free, true);
                });
            }
        });
        assert_eq!(pool.available(), 1999);
    }
}
