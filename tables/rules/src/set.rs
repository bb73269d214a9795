//! Address sets: from a handful to a million addresses and prefixes, both families in one.
//!
//! Threat feeds are mostly single addresses, scattered over all of the address space, so a trie
//! with nodes of 256 words (`fib::Lpm`) would take a kilobyte for each. Whether an address is in a
//! set asks for no longest prefix: the prefixes melt into disjoint ranges, sorted, 8 bytes each in
//! IPv4 and 32 in IPv6, with an index over the part of the space that they lie in, about one index
//! entry for four ranges. A lookup reads one word of the index and searches the few ranges behind
//! it.
//!
//! A set is a value and never changes; [`Set::change`] makes the next one in one pass over it (a
//! few milliseconds with a million members), and workers go over to it as they do to new rules,
//! without a lock. Members are kept as they were given, beside the ranges: taking a prefix out
//! leaves what another one covers.

use std::net::IpAddr;
use std::ops::{Shr, Sub};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The most members of one set.
pub const MOST_MEMBERS: usize = 16_000_000;

/// A set of addresses. Clones share their memory.
#[derive(Clone, Debug, Default)]
pub struct Set(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    members4: Vec<Ipv4Net>,
    members6: Vec<Ipv6Net>,
    ranges4: Ranges<u32>,
    ranges6: Ranges<u128>,
}

impl PartialEq for Set {
    fn eq(&self, other: &Set) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.members4 == other.0.members4 && self.0.members6 == other.0.members6)
    }
}

impl FromIterator<IpNet> for Set {
    fn from_iter<I: IntoIterator<Item = IpNet>>(members: I) -> Set {
        let (mut members4, mut members6) = (Vec::new(), Vec::new());
        for member in members {
            match member.trunc() {
                IpNet::V4(net) => members4.push(net),
                IpNet::V6(net) => members6.push(net),
            }
        }
        members4.sort_unstable();
        members4.dedup();
        members6.sort_unstable();
        members6.dedup();
        Set::of(members4, members6)
    }
}

impl Set {
    fn of(members4: Vec<Ipv4Net>, members6: Vec<Ipv6Net>) -> Set {
        let range4 = |net: &Ipv4Net| (u32::from(net.network()), u32::from(net.broadcast()));
        let range6 = |net: &Ipv6Net| (u128::from(net.network()), u128::from(net.broadcast()));
        let ranges4 = Ranges::new(members4.iter().map(range4));
        let ranges6 = Ranges::new(members6.iter().map(range6));
        Set(Arc::new(Inner { members4, members6, ranges4, ranges6 }))
    }

    /// The set after some members came and others went. What comes and goes at once is there
    /// afterwards.
    #[must_use]
    pub fn change(&self, come: &[IpNet], go: &[IpNet]) -> Set {
        let (come, go): (Set, Set) = (come.iter().copied().collect(), go.iter().copied().collect());
        Set::of(
            merge(&self.0.members4, &come.0.members4, &go.0.members4),
            merge(&self.0.members6, &come.0.members6, &go.0.members6),
        )
    }

    /// How many members it has.
    pub fn len(&self) -> usize {
        self.0.members4.len() + self.0.members6.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its members as they were given: IPv4 first, each family in order.
    pub fn members(&self) -> impl Iterator<Item = IpNet> + '_ {
        let members4 = self.0.members4.iter().copied().map(IpNet::V4);
        members4.chain(self.0.members6.iter().copied().map(IpNet::V6))
    }

    /// Whether it holds an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.contains4(address.into()),
            IpAddr::V6(address) => self.contains6(address.into()),
        }
    }

    /// Whether it holds an IPv4 address.
    #[inline]
    pub fn contains4(&self, address: u32) -> bool {
        self.0.ranges4.contains(address)
    }

    /// Whether it holds an IPv6 address.
    #[inline]
    pub fn contains6(&self, address: u128) -> bool {
        self.0.ranges6.contains(address)
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        let inner = &*self.0;
        inner.members4.capacity() * size_of::<Ipv4Net>()
            + inner.members6.capacity() * size_of::<Ipv6Net>()
            + inner.ranges4.bytes()
            + inner.ranges6.bytes()
    }

    /// The disjoint ranges of IPv4 addresses that it holds, in order.
    pub(crate) fn ranges4(&self) -> &[(u32, u32)] {
        &self.0.ranges4.ranges
    }

    /// As [`Set::ranges4`], of IPv6.
    pub(crate) fn ranges6(&self) -> &[(u128, u128)] {
        &self.0.ranges6.ranges
    }
}

/// Sorted members, with others, sorted as well, come and gone.
fn merge<N: Ord + Copy>(members: &[N], come: &[N], go: &[N]) -> Vec<N> {
    let mut all = Vec::with_capacity(members.len() + come.len());
    let (mut come, mut go) = (come.iter().copied().peekable(), go.iter().copied().peekable());
    for &member in members {
        while let Some(new) = come.next_if(|new| *new < member) {
            all.push(new);
        }
        while go.next_if(|gone| *gone < member).is_some() {}
        let stays = come.next_if(|new| *new == member).is_some() || go.peek() != Some(&member);
        all.extend(stays.then_some(member));
    }
    all.extend(come);
    all
}

/// What ranges are made of.
trait Number: Copy + Ord + Sub<Output = Self> + Shr<u32, Output = Self> {
    const BITS: u32;
    fn leading_zeros(self) -> u32;
    /// The number, which is small.
    fn index(self) -> usize;
    /// The number, or `most` if it is more.
    fn index_to(self, most: usize) -> usize;
    /// One more, unless it is the last.
    fn next(self) -> Option<Self>;
}

macro_rules! number {
    ($type:ty) => {
        impl Number for $type {
            const BITS: u32 = <$type>::BITS;
            fn leading_zeros(self) -> u32 {
                self.leading_zeros()
            }
            fn index(self) -> usize {
                self as usize
            }
            #[inline(always)]
            fn index_to(self, most: usize) -> usize {
                self.min(most as $type) as usize
            }
            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }
        }
    };
}
number!(u32);
number!(u128);

/// Disjoint ranges, sorted, with gaps between them.
#[derive(Debug)]
struct Ranges<A> {
    ranges: Vec<(A, A)>,
    /// `index[n]`: how many ranges begin before `first + (n << shift)`.
    index: Vec<u32>,
    shift: u32,
}

impl<A> Default for Ranges<A> {
    fn default() -> Ranges<A> {
        Ranges { ranges: Vec::new(), index: Vec::new(), shift: 0 }
    }
}

impl<A: Number> Ranges<A> {
    /// Of ranges sorted by where they begin.
    fn new(sorted: impl ExactSizeIterator<Item = (A, A)>) -> Ranges<A> {
        let mut ranges: Vec<(A, A)> = Vec::with_capacity(sorted.len());
        for (first, last) in sorted {
            match ranges.last_mut() {
                Some(before) if before.1.next().is_none_or(|next| first <= next) => {
                    before.1 = before.1.max(last);
                }
                _ => ranges.push((first, last)),
            }
        }
        let (Some(&(first, _)), Some(&(last, _))) = (ranges.first(), ranges.last()) else {
            return Ranges::default();
        };
        // At least one, for a shift by all bits of a number is none.
        let wanted = (ranges.len() / 4).next_power_of_two().ilog2().clamp(1, 18);
        let shift = (A::BITS - (last - first).leading_zeros()).saturating_sub(wanted);
        let mut index = vec![0; ((last - first) >> shift).index() + 2];
        for &(begin, _) in &ranges {
            index[((begin - first) >> shift).index() + 1] += 1;
        }
        for n in 1..index.len() {
            index[n] += index[n - 1];
        }
        Ranges { ranges, index, shift }
    }

    #[inline]
    fn contains(&self, address: A) -> bool {
        let Some(&(first, _)) = self.ranges.first().filter(|(first, _)| *first <= address) else {
            return false;
        };
        let bucket = ((address - first) >> self.shift).index_to(self.index.len() - 2);
        let (from, to) = (self.index[bucket] as usize, self.index[bucket + 1] as usize);
        // The last one that begins at or before the address; it may stand before the bucket.
        let behind = from + self.ranges[from..to].partition_point(|(begin, _)| *begin <= address);
        behind > 0 && address <= self.ranges[behind - 1].1
    }

    fn bytes(&self) -> usize {
        self.ranges.capacity() * size_of::<(A, A)>() + self.index.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Prefixes that nest, touch and repeat, at the ends of the space too.
    fn net() -> impl Strategy<Value = IpNet> {
        let v4 = (
            prop_oneof![
                any::<u32>(),
                0u32..8,
                (0u32..64).prop_map(|n| 0x0a00_0000 + n),
                (0u32..4).prop_map(|n| !n)
            ],
            0u8..=32,
        )
            .prop_map(|(address, length)| IpNet::V4(Ipv4Net::new(address.into(), length).expect("length")));
        let v6 = (
            prop_oneof![
                any::<u128>(),
                (0u128..64).prop_map(|n| n << 64 | 1 << 125),
                (0u128..4).prop_map(|n| !n)
            ],
            0u8..=128,
        )
            .prop_map(|(address, length)| IpNet::V6(Ipv6Net::new(address.into(), length).expect("length")));
        prop_oneof![v4, v6]
    }

    proptest! {
        #[test]
        fn holds_what_its_members_hold(
            start in prop::collection::vec(net(), 0..60),
            come in prop::collection::vec(net(), 0..8),
            go in prop::collection::vec(0usize..60, 0..8),
            ask in prop::collection::vec(net(), 0..60),
        ) {
            let go: Vec<IpNet> = go.iter().filter_map(|&n| start.get(n).copied()).collect();
            let set = start.iter().copied().collect::<Set>().change(&come, &go);
            let mut model: Vec<IpNet> = start.iter().map(IpNet::trunc).filter(|net| !go.iter().any(|gone| gone.trunc() == *net)).collect();
            model.extend(come.iter().map(IpNet::trunc));
            model.sort();
            model.dedup();
            prop_assert_eq!(&set.members().collect::<Vec<_>>(), &model);
            for net in ask.iter().chain(&start).chain(&come) {
                for address in [net.addr(), net.network(), net.broadcast()] {
                    prop_assert_eq!(set.contains(address), model.iter().any(|net| net.contains(&address)), "{}", address);
                }
            }
        }
    }

    #[test]
    fn a_million_members_take_little_and_change_quickly() {
        let scattered = |n: u32| IpAddr::V4(n.wrapping_mul(2_654_435_761).into());
        let set: Set = (0..1_000_000).map(|n| IpNet::from(scattered(n))).collect();
        assert_eq!(set.len(), 1_000_000);
        assert!(set.bytes() < 20_000_000, "{}", set.bytes());
        let start = std::time::Instant::now();
        let next = set.change(&[IpNet::from(scattered(2_000_000))], &[IpNet::from(scattered(7))]);
        // A generous bound: tests run on busy machines.
        assert!(start.elapsed().as_millis() < 1000);
        assert!(
            set.contains(scattered(7)) && !next.contains(scattered(7)) && next.contains(scattered(2_000_000))
        );
    }
}
