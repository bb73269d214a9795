//! Sets of numbers as disjoint ranges: what a sentence or a rule leaves of addresses, ports, types.

use std::sync::Arc;

/// Disjoint ranges, sorted, with gaps between them. Clones share their memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbers(Arc<[(u128, u128)]>);

impl Numbers {
    /// None.
    pub fn none() -> Numbers {
        Numbers(Arc::new([]))
    }

    /// From the first to the last.
    pub fn span(first: u128, last: u128) -> Numbers {
        Numbers(Arc::new([(first, last)]))
    }

    /// One.
    pub fn one(number: u128) -> Numbers {
        Numbers::span(number, number)
    }

    /// What is in any of these ranges.
    pub fn of(ranges: impl IntoIterator<Item = (u128, u128)>) -> Numbers {
        let mut sorted: Vec<(u128, u128)> = ranges.into_iter().collect();
        sorted.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(sorted.len());
        for (first, last) in sorted {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Numbers(merged.into())
    }

    /// The ranges.
    pub fn ranges(&self) -> &[(u128, u128)] {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a number is among them.
    pub fn has(&self, number: u128) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < number);
        self.0.get(at).is_some_and(|(first, _)| *first <= number)
    }

    /// The ranges of these that a range meets.
    fn met(&self, (first, last): (u128, u128)) -> &[(u128, u128)] {
        let begin = self.0.partition_point(|(_, end)| *end < first);
        let rest = &self.0[begin..];
        &rest[..rest.partition_point(|(start, _)| *start <= last)]
    }

    /// Whether these are one range that all of another's are in: told at a glance, however many
    /// ranges that has.
    fn is_around(&self, other: &Numbers) -> bool {
        match (&*self.0, other.0.first(), other.0.last()) {
            ([(first, last)], Some((begin, _)), Some((_, end))) => first <= begin && end <= last,
            _ => false,
        }
    }

    /// Names these among all that live: clones have the same name.
    pub fn name(&self) -> usize {
        self.0.as_ptr().addr()
    }

    /// Whether all of another's are among these.
    fn covers(&self, other: &Numbers) -> bool {
        let within = |range: &(u128, u128)| match self.met(*range) {
            [(first, last)] => *first <= range.0 && range.1 <= *last,
            _ => false,
        };
        Arc::ptr_eq(&self.0, &other.0) || other.0.iter().all(within)
    }

    /// Whether none is in both.
    pub fn is_apart(&self, other: &Numbers) -> bool {
        let (few, many) = if self.0.len() <= other.0.len() { (self, other) } else { (other, self) };
        few.0.iter().all(|range| many.met(*range).is_empty())
    }

    /// Those in both.
    pub fn and(&self, other: &Numbers) -> Numbers {
        let (few, many) = if self.0.len() <= other.0.len() { (self, other) } else { (other, self) };
        if few.is_around(many) {
            return many.clone();
        }
        if many.covers(few) {
            return few.clone();
        }
        let both = few.0.iter().flat_map(|range| {
            many.met(*range).iter().map(|(first, last)| (range.0.max(*first), range.1.min(*last)))
        });
        Numbers(both.collect())
    }

    /// These without the other's.
    pub fn without(&self, other: &Numbers) -> Numbers {
        if other.is_around(self) {
            return Numbers::none();
        }
        let mut left = Vec::new();
        for range in self.0.iter() {
            let mut next = Some(range.0);
            for (first, last) in other.met(*range) {
                if let Some(next) = next.filter(|next| next < first) {
                    left.push((next, first - 1));
                }
                next = last.checked_add(1);
            }
            left.extend(next.filter(|next| *next <= range.1).map(|next| (next, range.1)));
        }
        Numbers(left.into())
    }

    /// All of them so much further on, or back.
    pub fn moved(&self, from: u128, to: u128) -> Numbers {
        let moved = |number: u128| number.wrapping_sub(from).wrapping_add(to);
        Numbers(self.0.iter().map(|(first, last)| (moved(*first), moved(*last))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: u128 = 40;

    fn numbers() -> impl Strategy<Value = Numbers> {
        let range = (0..MOST, 0..8u128).prop_map(|(first, length)| (first, first + length));
        let ends = prop_oneof![range, Just((u128::MAX - 3, u128::MAX)), Just((0, 2))];
        prop::collection::vec(ends, 0..6).prop_map(Numbers::of)
    }

    proptest! {
        #[test]
        fn are_sets(a in numbers(), b in numbers()) {
            let (both, without) = (a.and(&b), a.without(&b));
            for number in (0..MOST + 10).chain(u128::MAX - 9..=u128::MAX) {
                prop_assert_eq!(both.has(number), a.has(number) && b.has(number));
                prop_assert_eq!(without.has(number), a.has(number) && !b.has(number));
            }
            for made in [&both, &without] {
                prop_assert_eq!(&Numbers::of(made.ranges().iter().copied()).0.len(), &made.0.len());
            }
            prop_assert_eq!(both.is_empty(), a.is_apart(&b));
            prop_assert_eq!(a.covers(&b), b.without(&a).is_empty());
            prop_assert_eq!(both.moved(3, 1_000).moved(1_000, 3), both);
        }
    }
}
