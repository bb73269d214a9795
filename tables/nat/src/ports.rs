//! The ports of one outside address and one protocol: which are taken, and a free one in bounded
//! time.
//!
//! A bitmap of 65,536 bits, and above it two of 1,024 bits that say which words have no free even
//! port left and which no free odd one. A search looks at no more than the first word, the 16 words
//! of the summary and the last word, twice (once to the end of the range, once from its start),
//! however full the range is.
//!
//! A search starts anywhere (RFC 6056, 3.3.1): whoever calls brings the random number.

use std::ops::RangeInclusive;

/// Which ports a search may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parity {
    /// Those of this low bit: RTP's even and RTCP's odd ports (RFC 4787, REQ-4).
    Like(u16),
    /// Any, those of the random number's low bit first.
    Any,
}

/// A set of 16-bit ports.
pub(crate) struct Ports {
    taken: Box<[u64; 1024]>,
    /// By parity: a bit for each word of `taken` that has no free port of this parity.
    full: [[u64; 16]; 2],
    count: u32,
}

const PARITIES: [u64; 2] = [0x5555_5555_5555_5555, 0xaaaa_aaaa_aaaa_aaaa];

impl Ports {
    /// None taken.
    pub fn new() -> Ports {
        Ports { taken: Box::new([0; 1024]), full: [[0; 16]; 2], count: 0 }
    }

    /// How many are taken.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether this one is.
    pub fn has(&self, port: u16) -> bool {
        self.taken[usize::from(port >> 6)] & 1 << (port & 63) != 0
    }

    /// Takes this one; false if it was taken.
    pub fn insert(&mut self, port: u16) -> bool {
        let free = !self.has(port);
        if free {
            let word = usize::from(port >> 6);
            self.taken[word] |= 1 << (port & 63);
            self.count += 1;
            self.summarise(word);
        }
        free
    }

    /// Gives this one back; false if it was free.
    pub fn remove(&mut self, port: u16) -> bool {
        let taken = self.has(port);
        if taken {
            let word = usize::from(port >> 6);
            self.taken[word] &= !(1 << (port & 63));
            self.count -= 1;
            self.summarise(word);
        }
        taken
    }

    fn summarise(&mut self, word: usize) {
        for (full, parity) in self.full.iter_mut().zip(PARITIES) {
            let bit = 1 << (word & 63);
            if self.taken[word] & parity == parity {
                full[word >> 6] |= bit;
            } else {
                full[word >> 6] &= !bit;
            }
        }
    }

    /// Takes a free port of the range, the first one from a random place on; `None` when there is
    /// none.
    pub fn take(&mut self, range: &RangeInclusive<u16>, parity: Parity, random: u32) -> Option<u16> {
        let port = match parity {
            Parity::Like(port) => self.find(range, port & 1, random),
            Parity::Any => {
                let first = (random >> 31) as u16;
                self.find(range, first, random).or_else(|| self.find(range, first ^ 1, random))
            }
        }?;
        self.insert(port);
        Some(port)
    }

    fn find(&self, range: &RangeInclusive<u16>, parity: u16, random: u32) -> Option<u16> {
        let (low, high) = (*range.start(), *range.end());
        if low > high {
            return None;
        }
        let width = u32::from(high - low) + 1;
        let start = low + (random % width) as u16;
        self.first(start, high, parity).or_else(|| self.first(low, start, parity))
    }

    /// The first free port of a parity from `low` to `high`, both included.
    fn first(&self, low: u16, high: u16, parity: u16) -> Option<u16> {
        let wanted = PARITIES[usize::from(parity)];
        let free_in = |word: usize, from: u16| {
            let free = !self.taken[word] & wanted & u64::MAX << from;
            let port = (word as u16) << 6 | free.trailing_zeros() as u16 & 63;
            (free != 0 && port <= high).then_some(port)
        };
        let word = usize::from(low >> 6);
        if let Some(port) = free_in(word, low & 63) {
            return Some(port);
        }
        // The first later word with a free port. Beyond the end of the range it has none, and then
        // none before it has.
        let next = word + 1;
        let full = &self.full[usize::from(parity)];
        for (at, bits) in full.iter().enumerate().skip(next >> 6) {
            let from = if at == next >> 6 { next & 63 } else { 0 };
            let free = !bits & u64::MAX << from;
            if free != 0 {
                return free_in(at << 6 | free.trailing_zeros() as usize, 0);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_range_is_used_up_to_its_last_port_and_no_further() {
        let mut ports = Ports::new();
        let range = 1000..=1999;
        let mut taken = BTreeSet::new();
        for i in 0..1000u32 {
            let port = ports.take(&range, Parity::Any, i.wrapping_mul(0x9E37_79B9)).unwrap();
            assert!(range.contains(&port) && taken.insert(port));
        }
        assert_eq!(ports.take(&range, Parity::Any, 5), None);
        assert!(ports.remove(1500));
        assert_eq!(ports.take(&range, Parity::Like(1), 7), None);
        assert_eq!(ports.take(&range, Parity::Like(0), 7), Some(1500));
        assert_eq!(ports.count(), 1000);
        let whole = 0..=65535;
        for i in 1000..65536u32 {
            assert!(ports.take(&whole, Parity::Any, i.wrapping_mul(0x9E37_79B9)).is_some());
        }
        assert_eq!(ports.take(&whole, Parity::Any, 5), None);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(u16, u16, u8, u32),
        Insert(u16),
        Remove(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        // Few words, so that they fill up.
        let port = || prop_oneof![900u16..1300, 65400u16..=65535, 0u16..70];
        prop_oneof![
            4 => (port(), port(), 0u8..3, any::<u32>()).prop_map(|(a, b, p, r)| Step::Take(a, b, p, r)),
            1 => port().prop_map(Step::Insert),
            2 => any::<usize>().prop_map(Step::Remove),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn equals_a_naive_set(steps in proptest::collection::vec(step(), 0..1500)) {
            let (mut ports, mut model) = (Ports::new(), BTreeSet::new());
            for step in steps {
                match step {
                    Step::Take(low, high, parity, random) => {
                        let parity = if parity == 2 { Parity::Any } else { Parity::Like(u16::from(parity)) };
                        let fits = |port: &u16| match parity {
                            Parity::Like(like) => port & 1 == like & 1,
                            Parity::Any => true,
                        };
                        let free = (low..=high).filter(fits).find(|port| !model.contains(port));
                        match ports.take(&(low..=high), parity, random) {
                            Some(port) => {
                                prop_assert!((low..=high).contains(&port) && fits(&port));
                                prop_assert!(model.insert(port), "{} was taken", port);
                            }
                            None => prop_assert_eq!(free, None),
                        }
                    }
                    Step::Insert(port) => prop_assert_eq!(ports.insert(port), model.insert(port)),
                    Step::Remove(which) => {
                        let port = model.iter().nth(which % model.len().max(1)).copied().unwrap_or(7);
                        prop_assert_eq!(ports.remove(port), model.remove(&port));
                    }
                }
                prop_assert_eq!(ports.count() as usize, model.len());
            }
        }
    }
}
