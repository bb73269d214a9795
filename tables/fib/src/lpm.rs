//! A table for one owner: longest-prefix match that costs kilobytes while it has few routes.
//!
//! [`Tables`](crate::Tables) is for a router's full table, read by all workers at once, and takes
//! 64 MiB before its first route. A routing element of a user's graph has a dozen routes, and the
//! graph has it to itself. So here is a trie with one level for each byte of the address, four or
//! sixteen, that has only the nodes that some route needs. A node is 256 words, each a route word
//! (`word::route`) or `POINTER | where the node begins`; every word decides, as shorter prefixes
//! are copied into the nodes below them. A full Internet table takes about as much as in DIR-24-8.
//!
//! Many addresses are looked up level by level, all of them one level at a time, without a branch
//! that depends on an address: nothing is mispredicted, cache misses overlap, and levels that no
//! address of the batch needs are left out. With a dozen routes that is 2 cycles for an address and
//! level (batches of 64, Sapphire Rapids): 9 where there are prefixes of 32 bits, 2 where there is
//! only a default route.

use crate::NextHopId;
use crate::routes::{Address, Routes};
use crate::word::{Change, ID, MAX_NEXT_HOPS, POINTER};

/// Words of a node.
const NODE: usize = 256;
/// How many addresses are looked up together.
const TOGETHER: usize = 64;

/// IPv4 longest-prefix match.
pub type Lpm = Trie<u32>;
/// IPv6 longest-prefix match.
pub type Lpm6 = Trie<u128>;

/// Longest-prefix match from prefixes to numbers. Owned by whoever looks up; a change takes effect
/// at once.
pub struct Trie<A: Address> {
    words: Vec<u32>,
    /// By node: routes that end in it or below it. Without any, it is given back.
    members: Vec<u32>,
    /// Where nodes begin that are not in use.
    free: Vec<u32>,
    routes: Routes<A>,
}

impl<A: Address> Trie<A> {
    /// Values are 1 to this.
    pub const MAX_VALUE: u32 = MAX_NEXT_HOPS as u32 - 1;

    /// No routes.
    pub fn new() -> Trie<A> {
        Trie { words: vec![0; NODE], members: vec![0], free: Vec::new(), routes: Routes::new() }
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        4 * (self.words.capacity() + self.members.capacity() + self.free.capacity()) + self.routes.bytes()
    }

    /// The value of exactly this prefix. Bits of `prefix` behind `length` don't count; neither does
    /// a length beyond the address's.
    pub fn get(&self, prefix: A, length: u8) -> Option<u32> {
        let length = length.min(A::BITS);
        self.routes.get(prefix.network(length), length).map(|id| id.0)
    }

    /// Adds a prefix or changes its value; says which one it had. A value beyond
    /// [`Trie::MAX_VALUE`] counts as that, and 0, which means no route, as 1.
    pub fn insert(&mut self, prefix: A, length: u8, value: u32) -> Option<u32> {
        let length = length.min(A::BITS);
        let prefix = prefix.network(length);
        let id = NextHopId(value.clamp(1, Self::MAX_VALUE));
        let old = self.routes.insert(prefix, length, id);
        let mut node = 0;
        for level in 0..last_level(length) {
            let at = node + prefix.byte(level);
            let word = self.words[at];
            node = if word & POINTER != 0 { (word & !POINTER) as usize } else { self.grow(at) };
            self.members[node / NODE] += u32::from(old.is_none());
        }
        self.change_within(node, prefix, length, Change::insert(length, id));
        old.map(|id| id.0)
    }

    /// Removes a prefix; says which value it had.
    pub fn remove(&mut self, prefix: A, length: u8) -> Option<u32> {
        let length = length.min(A::BITS);
        let prefix = prefix.network(length);
        let old = self.routes.remove(prefix, length)?;
        let below = self.routes.covering(prefix, length);
        let mut node = 0;
        for level in 0..last_level(length) {
            let at = node + prefix.byte(level);
            node = (self.words[at] & !POINTER) as usize;
            self.members[node / NODE] -= 1;
            if self.members[node / NODE] == 0 {
                // Nothing longer than what covers all of it is left in this node.
                self.words[at] = below;
                self.give_back(node, prefix, level + 1, last_level(length));
                return Some(old.0);
            }
        }
        self.change_within(node, prefix, length, Change::remove(length, below));
        Some(old.0)
    }

    /// Removes all prefixes.
    pub fn clear(&mut self) {
        *self = Trie::new();
    }

    /// The value of the longest prefix that covers an address; 0 when none does.
    #[inline]
    pub fn lookup(&self, address: A) -> u32 {
        let mut word = self.words[address.byte(0)];
        let mut level = 1;
        while word & POINTER != 0 && level < levels::<A>() {
            word = self.words[(word & !POINTER) as usize + address.byte(level)];
            level += 1;
        }
        word & ID
    }

    /// [`Trie::lookup`] for many addresses: as many as both slices have.
    pub fn lookup_batch(&self, addresses: &[A], values: &mut [u32]) {
        for (addresses, values) in addresses.chunks(TOGETHER).zip(values.chunks_mut(TOGETHER)) {
            let mut pointers = 0;
            for (word, &address) in values.iter_mut().zip(addresses) {
                *word = self.words[address.byte(0)];
                pointers |= *word;
            }
            for level in 1..levels::<A>() {
                if pointers & POINTER == 0 {
                    break;
                }
                pointers = 0;
                for (word, &address) in values.iter_mut().zip(addresses) {
                    // A word that has decided reads from the first node, and doesn't mind what.
                    let decided = *word & POINTER == 0;
                    let node = if decided { 0 } else { *word & !POINTER };
                    let below = self.words[node as usize + address.byte(level)];
                    *word = if decided { *word } else { below };
                    pointers |= *word;
                }
            }
            values.iter_mut().for_each(|word| *word &= ID);
        }
    }

    /// All prefixes with their lengths and values, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (A, u8, u32)> + '_ {
        self.routes.iter().map(|(prefix, length, id)| (prefix, length, id.0))
    }

    /// Puts a node in the place of a route word, deciding as that one did; returns where it begins.
    fn grow(&mut self, at: usize) -> usize {
        let word = self.words[at];
        let node = match self.free.pop() {
            Some(node) => {
                self.words[node as usize..node as usize + NODE].fill(word);
                node as usize
            }
            None => {
                let node = self.words.len();
                self.words.resize(node + NODE, word);
                self.members.push(0);
                node
            }
        };
        self.words[at] = POINTER | node as u32;
        node
    }

    /// Gives back a node at `level`, and those below it on the way of a prefix that ends at level
    /// `last`.
    fn give_back(&mut self, mut node: usize, prefix: A, level: usize, last: usize) {
        self.free.push(node as u32);
        for level in level..last {
            node = (self.words[node + prefix.byte(level)] & !POINTER) as usize;
            self.members[node / NODE] = 0;
            self.free.push(node as u32);
        }
    }

    /// Applies a change to the words of a prefix that ends in a node, and to all nodes below them.
    fn change_within(&mut self, node: usize, prefix: A, length: u8, change: Change) {
        let level = last_level(length);
        self.change(node + prefix.byte(level), 1 << (8 * (level + 1) - usize::from(length)), change);
    }

    fn change(&mut self, first: usize, count: usize, change: Change) {
        for at in first..first + count {
            let word = self.words[at];
            if word & POINTER != 0 {
                self.change((word & !POINTER) as usize, NODE, change);
            } else {
                self.words[at] = change.apply(word);
            }
        }
    }
}

impl<A: Address> Default for Trie<A> {
    fn default() -> Trie<A> {
        Trie::new()
    }
}

/// The level in whose nodes prefixes of a length end.
fn last_level(length: u8) -> usize {
    usize::from(length.saturating_sub(1) / 8)
}

/// How many levels there are at most.
const fn levels<A: Address>() -> usize {
    A::BITS as usize / 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::hash::Hash;

    /// The longest of all prefixes that cover an address, by looking at each.
    fn naive<A: Address>(routes: &HashMap<(A, u8), u32>, address: A) -> u32 {
        let covering = routes.iter().filter(|((prefix, length), _)| address.network(*length) == *prefix);
        covering.max_by_key(|((_, length), _)| *length).map_or(0, |(_, &value)| value)
    }

    /// Makes changes (of eight kinds, five of which insert) to a table and to a list, and compares
    /// what they answer.
    fn compare<A: Address + Hash + std::fmt::Debug>(
        changes: Vec<(u8, A, u8, u32)>,
        addresses: Vec<A>,
    ) -> Result<(), TestCaseError> {
        let (mut table, mut model) = (Trie::<A>::new(), HashMap::new());
        for (kind, prefix, length, value) in changes {
            let key = (prefix.network(length), length);
            if kind < 5 {
                prop_assert_eq!(table.insert(prefix, length, value), model.insert(key, value));
            } else {
                // One that is there, as far as there is one.
                let key = model.keys().nth(usize::from(kind)).copied().unwrap_or(key);
                prop_assert_eq!(table.remove(key.0, key.1), model.remove(&key));
            }
            prop_assert_eq!(
                (table.len(), table.get(prefix, length)),
                (model.len(), model.get(&key).copied())
            );
            for (&(prefix, _), _) in model.iter().take(8) {
                prop_assert_eq!(table.lookup(prefix), naive(&model, prefix));
            }
        }
        let mut values = vec![0; addresses.len()];
        table.lookup_batch(&addresses, &mut values);
        for (&address, &value) in addresses.iter().zip(&values) {
            prop_assert_eq!((value, table.lookup(address)), (naive(&model, address), value));
        }
        let all: HashMap<_, _> =
            table.iter().map(|(prefix, length, value)| ((prefix, length), value)).collect();
        prop_assert_eq!(&all, &model);
        // Empty again, it has all its nodes back.
        for (prefix, length) in model.into_keys() {
            table.remove(prefix, length);
        }
        prop_assert_eq!(table.free.len() + 1, table.words.len() / NODE);
        prop_assert!(table.words[..NODE].iter().all(|&word| word == 0));
        prop_assert!(table.members.iter().all(|&members| members == 0));
        Ok(())
    }

    /// Addresses that nest and collide, of all lengths.
    fn address() -> impl Strategy<Value = u32> {
        prop_oneof![any::<u32>(), (0u32..4, 0u32..8).prop_map(|(a, b)| a << 22 | a << 14 | b << 6 | b)]
    }

    /// The same in IPv6.
    fn address6() -> impl Strategy<Value = u128> {
        prop_oneof![any::<u128>(), (0u128..4, 0u128..8).prop_map(|(a, b)| a << 118 | b << 62 | a << 9 | b)]
    }

    proptest! {
        #[test]
        fn answers_as_a_list_does(
            changes in prop::collection::vec((0u8..8, address(), 0u8..=32, 1u32..1000), 1..200),
            addresses in prop::collection::vec(address(), 0..200),
        ) {
            compare(changes, addresses)?;
        }

        #[test]
        fn ipv6_answers_as_a_list_does(
            changes in prop::collection::vec((0u8..8, address6(), 0u8..=128, 1u32..1000), 1..80),
            addresses in prop::collection::vec(address6(), 0..80),
        ) {
            compare(changes, addresses)?;
        }
    }

    #[test]
    fn few_routes_cost_kilobytes() {
        let mut table = Lpm::new();
        for route in 0..8u32 {
            table.insert(0x0a00_0000 | route << 8, 24, 1 + route);
            table.insert(0x0a00_0001 | route << 8, 32, 9);
        }
        table.insert(0, 0, 10);
        assert!(table.bytes() < 40_000, "{}", table.bytes());
        assert_eq!([0x0a00_0302, 0x0a00_0301, 0x0b00_0000].map(|address| table.lookup(address)), [4, 9, 10]);
        table.clear();
        assert!(table.is_empty() && table.lookup(0x0a00_0301) == 0);
    }

    #[test]
    fn what_is_out_of_range_is_brought_into_it() {
        let mut table = Lpm::new();
        table.insert(0x0102_0304, 200, 0);
        table.insert(0x0500_0000, 8, u32::MAX);
        assert_eq!((table.lookup(0x0102_0304), table.lookup(0x0505_0505)), (1, Lpm::MAX_VALUE));
        assert_eq!(table.remove(0x0102_0304, 32), Some(1));
    }
}
