//! How a next hop with several paths shares its flows: 2^n buckets, each an adjacency; the flow
//! hash picks the bucket.
//!
//! Each path gets buckets in proportion to its weight (largest remainder). When weights or members
//! change, a bucket keeps its adjacency wherever the new shares allow, so that only the flows that
//! must move do: losing one of four equal paths moves a quarter of the flows. A group never gets
//! fewer buckets than it had, because halving them would move flows too.

use super::{AdjacencyId, Path};
use std::collections::BTreeSet;

/// Buckets, and so paths, of one next hop.
pub(crate) const MAX_BUCKETS: usize = 256;

/// Fills the buckets of a next hop. `paths` are at least one and at most 256 adjacencies, each
/// once, with weights of at least 1; `before` are its buckets so far (a power of two; empty for a
/// new one).
pub(super) fn assign(paths: &[Path], before: &[AdjacencyId]) -> Vec<AdjacencyId> {
    let count = bucket_count(paths).max(before.len());
    let mut missing = shares(paths, count);
    let mut buckets: Vec<Option<AdjacencyId>> = vec![None; count];
    let number = |adjacency: AdjacencyId| paths.iter().position(|path| path.adjacency == adjacency);
    for (i, bucket) in buckets.iter_mut().enumerate().filter(|_| !before.is_empty()) {
        // With twice the buckets, bucket i and bucket i + n hold the flows that bucket i held.
        let adjacency = before[i % before.len()];
        if let Some(path) = number(adjacency).filter(|&path| missing[path] > 0) {
            missing[path] -= 1;
            *bucket = Some(adjacency);
        }
    }
    // Taken in turns, so that a weight's buckets lie spread over the range.
    let mut path = 0;
    buckets
        .into_iter()
        .map(|bucket| {
            bucket.unwrap_or_else(|| {
                while missing[path % paths.len()] == 0 {
                    path += 1;
                }
                let turn = path % paths.len();
                missing[turn] -= 1;
                path += 1;
                paths[turn].adjacency
            })
        })
        .collect()
}

/// Exact when the weights' sum is a power of two; else at least eight buckets a path, for shares
/// within about a tenth.
fn bucket_count(paths: &[Path]) -> usize {
    let sum: usize = paths.iter().map(|path| usize::from(path.weight)).sum();
    let wanted = if sum.is_power_of_two() { sum } else { sum.max(paths.len() * 8) };
    wanted.next_power_of_two().clamp(paths.len().next_power_of_two(), MAX_BUCKETS)
}

/// Each path's number of buckets: in proportion, by largest remainder, and at least one.
fn shares(paths: &[Path], count: usize) -> Vec<usize> {
    let sum: usize = paths.iter().map(|path| usize::from(path.weight)).sum();
    let mut shares: Vec<usize> =
        paths.iter().map(|path| (usize::from(path.weight) * count / sum).max(1)).collect();
    // How far a path is below its due, in parts of a bucket.
    let owed = |i: usize, share: usize| (usize::from(paths[i].weight) * count) as i64 - (share * sum) as i64;
    loop {
        let given: usize = shares.iter().sum();
        let due = (0..paths.len()).map(|i| (owed(i, shares[i]), i));
        match given.cmp(&count) {
            std::cmp::Ordering::Equal => return shares,
            std::cmp::Ordering::Less => {
                let (_, most) = due.max_by_key(|&(owed, i)| (owed, usize::MAX - i)).unwrap_or_default();
                shares[most] += 1;
            }
            std::cmp::Ordering::Greater => {
                let (_, least) = due.filter(|&(_, i)| shares[i] > 1).min().unwrap_or_default();
                shares[least] -= 1;
            }
        }
    }
}

/// Free ranges of the bucket array: a buddy allocator of ranges of 2..=256.
pub(super) struct Ranges {
    /// Free ranges of 2^n, at n.
    free: [BTreeSet<u32>; 9],
}

impl Ranges {
    /// All of an array of `len` buckets.
    pub(super) fn new(len: usize) -> Ranges {
        let mut free: [BTreeSet<u32>; 9] = Default::default();
        free[8] = (0..(len / MAX_BUCKETS) as u32).map(|i| i * MAX_BUCKETS as u32).collect();
        Ranges { free }
    }

    pub(super) fn take(&mut self, log2: u8) -> Option<u32> {
        let order = (log2..=8).find(|&order| !self.free[usize::from(order)].is_empty())?;
        let base = self.free[usize::from(order)].pop_first()?;
        for order in log2..order {
            self.free[usize::from(order)].insert(base + (1 << order));
        }
        Some(base)
    }

    pub(super) fn give(&mut self, mut base: u32, mut log2: u8) {
        while log2 < 8 && self.free[usize::from(log2)].remove(&(base ^ 1 << log2)) {
            base &= !(1 << log2);
            log2 += 1;
        }
        self.free[usize::from(log2)].insert(base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paths(weights: &[u16]) -> Vec<Path> {
        let path = |(i, &weight): (usize, &u16)| Path { adjacency: AdjacencyId(i as u32 + 1), weight };
        weights.iter().enumerate().map(path).filter(|path| path.weight > 0).collect()
    }

    fn count(buckets: &[AdjacencyId], adjacency: u32) -> usize {
        buckets.iter().filter(|bucket| bucket.0 == adjacency).count()
    }

    #[test]
    fn weights_are_shares() {
        let buckets = assign(&paths(&[1, 2, 1]), &[]);
        assert_eq!((buckets.len(), count(&buckets, 2)), (4, 2));
        let buckets = assign(&paths(&[1, 1, 1]), &[]);
        assert_eq!(buckets.len(), 32);
        assert!((1..=3).all(|path| (10..=11).contains(&count(&buckets, path))));
        let buckets = assign(&paths(&[255, 1]), &[]);
        assert_eq!((count(&buckets, 1), count(&buckets, 2)), (255, 1));
        let buckets = assign(&paths(&[60000, 1]), &[]);
        assert_eq!((count(&buckets, 1), count(&buckets, 2)), (255, 1));
    }

    #[test]
    fn a_lost_path_moves_only_its_own_flows() {
        let before = assign(&paths(&[1, 1, 1, 1]), &[]);
        let after = assign(&paths(&[1, 0, 1, 1]), &before);
        let flows = (0..1 << 16).filter(|hash| before[hash % before.len()] != after[hash % after.len()]);
        let moved = flows.count() as f64 / 65536.0;
        assert!((0.25..0.27).contains(&moved), "{moved}");
    }

    proptest! {
        #[test]
        fn no_bucket_moves_without_need(
            old in prop::collection::vec(0u16..20, 2..12), new in prop::collection::vec(0u16..20, 2..12)
        ) {
            let (old, new) = (paths(&old), paths(&new));
            prop_assume!(!old.is_empty() && !new.is_empty());
            let before = assign(&old, &[]);
            let after = assign(&new, &before);
            prop_assert!(after.len() >= before.len());
            prop_assert!(new.iter().all(|path| count(&after, path.adjacency.0) > 0));
            // What moved is what the old owners had too much of.
            let stretched: Vec<_> = (0..after.len()).map(|i| before[i % before.len()]).collect();
            let moved = stretched.iter().zip(&after).filter(|(a, b)| a != b).count();
            let surplus: usize = old
                .iter()
                .map(|path| path.adjacency.0)
                .map(|path| count(&stretched, path).saturating_sub(count(&after, path)))
                .sum();
            prop_assert_eq!(moved, surplus);
        }

        #[test]
        fn ranges_never_overlap_and_all_come_back(sizes in prop::collection::vec(1u8..=8, 1..200)) {
            let mut ranges = Ranges::new(16 * MAX_BUCKETS);
            let mut owner = vec![false; 16 * MAX_BUCKETS];
            let mut taken = Vec::new();
            for (i, log2) in sizes.into_iter().enumerate() {
                if let Some(base) = ranges.take(log2) {
                    for used in &mut owner[base as usize..][..1 << log2] {
                        prop_assert!(!std::mem::replace(used, true));
                    }
                    taken.push((base, log2));
                }
                if i % 3 == 0 && let Some((base, log2)) = taken.pop() {
                    owner[base as usize..][..1 << log2].fill(false);
                    ranges.give(base, log2);
                }
            }
            taken.into_iter().for_each(|(base, log2)| ranges.give(base, log2));
            prop_assert_eq!(ranges.free[8].len(), 16);
        }
    }
}
