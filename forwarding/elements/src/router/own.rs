//! A set of IPv4 addresses that workers ask of every packet, without a lock, while the control
//! thread changes it.
//!
//! Nearly all packets are from others, so a filter says so first: bits that never deny an address
//! that is there. Of 1,000 addresses it takes one other in thirty for one of them. Those are looked
//! up in the set itself, which is in buckets of one cache line each. So a sender whose address
//! collides with one of the router's in the filter costs a few cycles, and not the long way.
//!
//! An address that stays keeps its place when others come and go, so it is there at any moment.
//! Beyond 15 addresses a bucket knows no more, and takes every address for one that is there; with
//! 2,000 addresses, evenly spread, there is none such.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// 4 KB of the first cache.
const FILTER_BITS: u32 = 15;
const BUCKET_BITS: u32 = 9;
const BUCKET: usize = 16;
/// The last place of a bucket that has too many. No packet is forwarded from 255.255.255.255.
const FULL: u32 = u32::MAX;
/// A place that is free. No packet is forwarded from 0.0.0.0.
const FREE: u32 = 0;

/// Addresses, as they lie in headers.
#[derive(Debug)]
pub(super) struct Own {
    filter: [AtomicU64; 1 << FILTER_BITS >> 6],
    buckets: Box<[Bucket]>,
    near: [AtomicU32; 2],
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket([AtomicU32; BUCKET]);

impl Own {
    /// None.
    pub(super) fn new() -> Own {
        Own {
            filter: std::array::from_fn(|_| AtomicU64::new(0)),
            buckets: (0..1 << BUCKET_BITS).map(|_| Bucket::default()).collect(),
            near: Default::default(),
        }
    }

    /// Sets all of them. For one thread at a time.
    pub(super) fn set(&self, addresses: impl IntoIterator<Item = [u8; 4]>) {
        let (mut filter, mut near) = (vec![0u64; self.filter.len()], [0u32; 2]);
        let mut buckets = vec![Vec::new(); self.buckets.len()];
        for address in addresses {
            let (word, bit) = place(address);
            filter[word] |= bit;
            for (near, bit) in near.iter_mut().zip(near_bits(address)) {
                *near |= 1 << bit;
            }
            let bucket = &mut buckets[bucket(address)];
            let address = u32::from_ne_bytes(address);
            if !bucket.contains(&address) {
                bucket.push(address);
            }
        }
        for (bucket, wanted) in self.buckets.iter().zip(&buckets) {
            bucket.set(wanted);
        }
        for (word, wanted) in self.filter.iter().zip(filter) {
            word.store(wanted, Relaxed);
        }
        for (word, wanted) in self.near.iter().zip(near) {
            word.store(wanted, Relaxed);
        }
    }

    /// Whether this is one of them.
    #[inline(always)]
    pub(super) fn has(&self, address: [u8; 4]) -> bool {
        self.may_have(address) && self.has_indeed(address)
    }

    /// Whether the filter lets it be one.
    #[inline(always)]
    pub(super) fn may_have(&self, address: [u8; 4]) -> bool {
        let (word, bit) = place(address);
        self.filter[word].load(Relaxed) & bit != 0
    }

    /// Whether it is in its bucket.
    #[inline(never)]
    pub(super) fn has_indeed(&self, address: [u8; 4]) -> bool {
        let Bucket(places) = &self.buckets[bucket(address)];
        let address = u32::from_ne_bytes(address);
        let found = places.iter().fold(false, |found, place| found | (place.load(Relaxed) == address));
        found | (places[BUCKET - 1].load(Relaxed) == FULL)
    }

    /// A smaller filter, to ask of many addresses at once.
    #[inline(always)]
    pub(super) fn near(&self) -> Near {
        Near([0, 1].map(|word| self.near[word].load(Relaxed)))
    }
}

impl Bucket {
    fn set(&self, wanted: &[u32]) {
        let Bucket(places) = self;
        let (last, places) = places.split_last().expect("a bucket has places");
        if wanted.len() > places.len() {
            return last.store(FULL, Relaxed);
        }
        let mut missing = wanted.iter().filter(|&&address| places.iter().all(|p| p.load(Relaxed) != address));
        for place in places.iter().filter(|place| !wanted.contains(&place.load(Relaxed))) {
            place.store(missing.next().copied().unwrap_or(FREE), Relaxed);
        }
        last.store(FREE, Relaxed);
    }
}

/// Which addresses may be among a few: with a few of them one other in twenty may, with a hundred
/// nearly all. It is in two registers, and of eight addresses it is asked at once.
#[derive(Clone, Copy)]
pub(super) struct Near([u32; 2]);

impl Near {
    /// Whether this may be one.
    #[inline(always)]
    pub(super) fn may_be(self, address: [u8; 4]) -> bool {
        let [one, other] = near_bits(address);
        (self.0[0] >> one) & (self.0[1] >> other) & 1 != 0
    }
}

#[inline(always)]
fn hash(address: [u8; 4]) -> u32 {
    u32::from_ne_bytes(address).wrapping_mul(0x9e37_79b1)
}

/// Its bits in [`Near`].
#[inline(always)]
fn near_bits(address: [u8; 4]) -> [u32; 2] {
    [hash(address) >> 27, hash(address) >> 22 & 31]
}

/// Its word in the filter, and its bit there.
#[inline(always)]
fn place(address: [u8; 4]) -> (usize, u64) {
    let hash = hash(address) >> (32 - FILTER_BITS);
    ((hash >> 6) as usize, 1 << (hash & 63))
}

/// Its bucket. By another hash: addresses that share a bit of the filter are not to share this too.
fn bucket(address: [u8; 4]) -> usize {
    (u32::from_ne_bytes(address).wrapping_mul(0x85eb_ca77) >> (32 - BUCKET_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    /// Few enough that they meet, and in two families of neighbours.
    fn address() -> impl Strategy<Value = [u8; 4]> {
        (any::<bool>(), 1u32..3000)
            .prop_map(|(far, n)| (if far { n << 12 } else { 0x0a00_0000 + n }).to_be_bytes())
    }

    proptest! {
        #[test]
        fn it_has_what_a_set_has(
            changes in proptest::collection::vec(proptest::collection::hash_set(address(), 0..400), 1..6),
            asked in proptest::collection::vec(address(), 200),
        ) {
            let own = Own::new();
            for wanted in changes {
                own.set(wanted.iter().copied());
                for address in wanted.iter().chain(&asked) {
                    prop_assert_eq!(own.has(*address), wanted.contains(address));
                    prop_assert!(own.near().may_be(*address) || !wanted.contains(address));
                }
            }
        }
    }

    #[test]
    fn a_bucket_that_is_full_denies_nothing_and_recovers() {
        let own = Own::new();
        let shared = |n: &u32| bucket(n.to_be_bytes()) == bucket([10, 0, 0, 1]);
        let many: HashSet<[u8; 4]> = (0x0a00_0001..).filter(shared).take(40).map(u32::to_be_bytes).collect();
        own.set(many.iter().copied());
        assert!(many.iter().all(|address| own.has(*address)));
        let few: HashSet<[u8; 4]> = many.iter().copied().take(15).collect();
        own.set(few.iter().copied());
        assert!(many.iter().all(|address| own.has(*address) == few.contains(address)));
    }

    /// Collisions in the filter, which one other address in thirty has with 1,000 of the router's.
    #[test]
    fn of_a_thousand_addresses_none_is_taken_for_another() {
        let own = Own::new();
        own.set((0..1000u32).map(|n| (0x0a00_0000 + n * 256 + 1).to_be_bytes()));
        let others = || (0..65_536u32).map(|n| (0xc612_0000 + n).to_be_bytes());
        let met = others().filter(|address| own.may_have(*address)).count();
        assert!((1000..4000).contains(&met), "{met} of 65,536 meet one in the filter");
        assert_eq!(others().filter(|address| own.has(*address)).count(), 0);
    }

    #[test]
    fn an_address_that_stays_is_there_at_any_moment() {
        let (own, done) = (Own::new(), AtomicBool::new(false));
        let stays = [192, 0, 2, 1];
        let others = |round: u32| (0..600).map(move |n| (0x0a00_0000 + round * 77 + n).to_be_bytes());
        own.set([stays]);
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !done.load(Relaxed) {
                    assert!(own.has(stays));
                }
            });
            for round in 0..200 {
                let front = others(round).take(round as usize * 3);
                own.set(front.chain([stays]).chain(others(round + 1000).take(200)));
            }
            done.store(true, Relaxed);
            reader.join().unwrap();
        });
    }
}
