//! The writer's own record of the routes: an exact-match hash table from prefix to next hop.
//!
//! The lookup tables know which next hop an address has, not which prefixes exist. Removing a
//! prefix needs the longest remaining one that covers it; that is one probe here for each shorter
//! length in use (few: a full table has about twenty). Open addressing with linear probing and 8
//! bytes (IPv4) or 20 bytes (IPv6) a slot: a trie that could find the covering prefix directly
//! would cost 40 bytes a route and a chain of cache misses for every update.

use crate::NextHopId;
use crate::word::{ID, length, route};

/// An address of either family, as a number with the first bit on the wire as its highest.
pub trait Address: Copy + Eq {
    /// How many bits it has.
    const BITS: u8;
    /// How the number is kept in a slot (without padding).
    type Stored: Copy + Eq + Default;
    fn stored(self) -> Self::Stored;
    fn from_stored(stored: Self::Stored) -> Self;
    /// The first `length` bits, the others zero.
    fn network(self, length: u8) -> Self;
    /// 64 bits of it, well mixed.
    fn hash(self) -> u64;
    /// One of its bytes, in the order on the wire.
    fn byte(self, index: usize) -> usize;
}

impl Address for u32 {
    const BITS: u8 = 32;
    type Stored = u32;
    fn stored(self) -> u32 {
        self
    }
    fn from_stored(stored: u32) -> u32 {
        stored
    }
    fn network(self, length: u8) -> u32 {
        self & u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
    }
    fn hash(self) -> u64 {
        u64::from(self).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
    #[inline(always)]
    fn byte(self, index: usize) -> usize {
        (self >> (24 - 8 * index) & 255) as usize
    }
}

impl Address for u128 {
    const BITS: u8 = 128;
    type Stored = [u32; 4];
    fn stored(self) -> [u32; 4] {
        [96, 64, 32, 0].map(|shift| (self >> shift) as u32)
    }
    fn from_stored(stored: [u32; 4]) -> u128 {
        stored.iter().fold(0, |number, &part| number << 32 | u128::from(part))
    }
    fn network(self, length: u8) -> u128 {
        self & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
    }
    fn hash(self) -> u64 {
        let high = ((self >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (high ^ high >> 32 ^ self as u64).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    }
    #[inline(always)]
    fn byte(self, index: usize) -> usize {
        (self >> (120 - 8 * index) & 255) as usize
    }
}

/// A slot: the prefix, and its route word (length and next hop). A route word is never 0, as id 0
/// is no route.
#[derive(Clone, Copy, Default)]
struct Slot<S> {
    prefix: S,
    word: u32,
}

/// All prefixes of one family.
pub(crate) struct Routes<A: Address> {
    slots: Vec<Slot<A::Stored>>,
    len: usize,
    /// Routes of each length: lengths without any are not probed.
    of_length: [u32; 129],
}

impl<A: Address> Routes<A> {
    pub(crate) fn new() -> Self {
        Routes { slots: vec![Slot::default(); 1024], ..Routes::few() }
    }

    /// For a table of which there may be many: it begins small.
    pub(crate) fn few() -> Self {
        Routes { slots: vec![Slot::default(); 16], len: 0, of_length: [0; 129] }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<A::Stored>>()
    }

    pub(crate) fn get(&self, prefix: A, length: u8) -> Option<NextHopId> {
        let slot = self.slots[self.find(prefix, length)];
        (slot.word != 0).then_some(NextHopId(slot.word & ID))
    }

    /// Inserts or replaces; returns what was there.
    pub(crate) fn insert(&mut self, prefix: A, length: u8, id: NextHopId) -> Option<NextHopId> {
        debug_assert!(id.0 != 0, "id 0 means no route");
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let at = self.find(prefix, length);
        let old =
            std::mem::replace(&mut self.slots[at], Slot { prefix: prefix.stored(), word: route(length, id) });
        if old.word != 0 {
            return Some(NextHopId(old.word & ID));
        }
        self.len += 1;
        self.of_length[usize::from(length)] += 1;
        None
    }

    pub(crate) fn remove(&mut self, prefix: A, length: u8) -> Option<NextHopId> {
        let mut hole = self.find(prefix, length);
        let word = self.slots[hole].word;
        if word == 0 {
            return None;
        }
        self.len -= 1;
        self.of_length[usize::from(length)] -= 1;
        // Move later members of the run into the hole, so that no probe ends early at it.
        let mask = self.slots.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.word == 0 {
                break;
            }
            let home = self.home(A::from_stored(slot.prefix), crate::word::length(slot.word));
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole].word = 0;
        Some(NextHopId(word & ID))
    }

    /// The route word of the longest prefix shorter than `length` that covers `prefix`; 0 when
    /// there is none.
    pub(crate) fn covering(&self, prefix: A, length: u8) -> u32 {
        (0..length)
            .rev()
            .filter(|&shorter| self.of_length[usize::from(shorter)] != 0)
            .map(|shorter| self.slots[self.find(prefix.network(shorter), shorter)].word)
            .find(|&word| word != 0)
            .unwrap_or(0)
    }

    /// All routes, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (A, u8, NextHopId)> + '_ {
        self.slots
            .iter()
            .filter(|slot| slot.word != 0)
            .map(|slot| (A::from_stored(slot.prefix), length(slot.word), NextHopId(slot.word & ID)))
    }

    fn home(&self, prefix: A, length: u8) -> usize {
        let hash = prefix.hash() ^ u64::from(length).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((hash ^ hash >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & (self.slots.len() - 1)
    }

    /// The slot that holds the prefix, or the empty one where it would go. There always is an empty
    /// one.
    fn find(&self, prefix: A, length: u8) -> usize {
        let stored = prefix.stored();
        let mut at = self.home(prefix, length);
        loop {
            let slot = &self.slots[at];
            if slot.word == 0 || (slot.prefix == stored && crate::word::length(slot.word) == length) {
                return at;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    fn grow(&mut self) {
        let doubled = vec![Slot::default(); self.slots.len() * 2];
        for slot in std::mem::replace(&mut self.slots, doubled) {
            if slot.word != 0 {
                let at = self.find(A::from_stored(slot.prefix), length(slot.word));
                self.slots[at] = slot;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn behaves_as_a_map(operations in prop::collection::vec((any::<bool>(), 0u32..64, 0u8..=32, 1u32..100), 1..4000)) {
            let (mut routes, mut model) = (Routes::<u32>::new(), HashMap::new());
            for (insert, prefix, length, id) in operations {
                let prefix = (prefix * 0x0404_0404).network(length);
                if insert {
                    let old = routes.insert(prefix, length, NextHopId(id));
                    prop_assert_eq!(old, model.insert((prefix, length), NextHopId(id)));
                } else {
                    prop_assert_eq!(routes.remove(prefix, length), model.remove(&(prefix, length)));
                }
                prop_assert_eq!(routes.len(), model.len());
                let covering = (0..length).rev().find_map(|shorter| {
                    model.get(&(prefix.network(shorter), shorter)).map(|&id| route(shorter, id))
                });
                prop_assert_eq!(routes.covering(prefix, length), covering.unwrap_or(0));
            }
            let all: HashMap<_, _> = routes.iter().map(|(p, l, id)| ((p, l), id)).collect();
            prop_assert_eq!(all, model);
        }
    }

    #[test]
    fn ipv6_addresses_survive_storage() {
        let address = 0x2001_0db8_0000_0001_1234_5678_9abc_def0_u128;
        assert_eq!(u128::from_stored(address.stored()), address);
        assert_eq!(address.network(0), 0);
        assert_eq!(address.network(128), address);
        assert_eq!(size_of::<Slot<[u32; 4]>>(), 20);
    }
}
