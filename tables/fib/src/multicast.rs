//! Multicast: by which interfaces packets to groups come in and leave.
//!
//! Entries are few (thousands, where routes are a million) and change together, when a receiver
//! joins or a tree moves. So the writer makes a new table beside the one in force, and readers go
//! over to it with their next batch: none of them ever sees half of a change. What an entry has
//! counted goes with it from table to table.
//!
//! An entry of a source and a group (S,G) comes before that of all sources to the group (*,G).

use crate::InterfaceId;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Log2 of the nanoseconds between two packets of an entry that Linux is shown: about a second.
const SHOWN_EVERY: u32 = 30;

/// An interface that packets leave by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Which.
    pub interface: InterfaceId,
    /// Packets with a larger TTL or hop limit leave by it.
    pub threshold: u8,
}

/// What passed by an entry, and when Linux was last shown a packet of it.
#[derive(Debug, Default)]
pub struct GroupCount {
    packets: AtomicU64,
    bytes: AtomicU64,
    shown: AtomicU64,
}

impl GroupCount {
    /// Adds packets, and their bytes.
    #[inline]
    pub fn add(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Packets and bytes.
    pub fn read(&self) -> [u64; 2] {
        [&self.packets, &self.bytes].map(|word| word.load(Ordering::Relaxed))
    }

    /// Whether Linux is to be shown a packet now, in steady nanoseconds: for one caller in about a
    /// second. Linux sees by its own counts whether a source is still there.
    #[inline]
    pub fn is_due(&self, now: u64) -> bool {
        let (turn, last) = ((now >> SHOWN_EVERY) + 1, self.shown.load(Ordering::Relaxed));
        turn != last && self.shown.compare_exchange(last, turn, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// Where packets to a group come in and leave.
#[derive(Clone, Debug)]
pub struct GroupEntry {
    /// Where they come from; the unspecified address: from wherever.
    pub source: IpAddr,
    /// The group.
    pub group: IpAddr,
    /// The interfaces that they come in by: several are members of a bond.
    pub inputs: Vec<InterfaceId>,
    /// Those that they leave by.
    pub outputs: Vec<Leaving>,
    /// What passed.
    pub count: Arc<GroupCount>,
}

/// An address as a number, by which entries are found: IPv4 addresses are mapped into IPv6.
#[inline(always)]
pub const fn mapped(address: u32) -> u128 {
    0xffff << 32 | address as u128
}

fn number(address: IpAddr) -> u128 {
    match address {
        address if address.is_unspecified() => 0,
        IpAddr::V4(address) => mapped(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Source (0: whatever it is) and group.
type Key = [u128; 2];

/// Entries, found by source and group.
#[derive(Debug)]
pub struct Groups {
    /// Places in `entries` plus 1; 0: nothing. A power of two of them, half of them empty at least.
    slots: Box<[u32]>,
    entries: Vec<(Key, GroupEntry)>,
    /// What nobody outside knows, so that nobody can have many entries begin at one slot.
    secret: [u64; 4],
}

impl Default for Groups {
    fn default() -> Groups {
        Groups::new([])
    }
}

impl Groups {
    /// A table of these. Of several with the same source and group the last one counts.
    pub fn new(entries: impl IntoIterator<Item = GroupEntry>) -> Groups {
        let state = RandomState::new();
        let keyed = entries.into_iter().map(|entry| ([number(entry.source), number(entry.group)], entry));
        let keyed: Vec<(Key, GroupEntry)> = keyed.collect();
        let mut groups = Groups {
            slots: vec![0; (2 * keyed.len()).next_power_of_two().max(2)].into_boxed_slice(),
            entries: Vec::with_capacity(keyed.len()),
            secret: [0, 1, 2, 3].map(|n: u8| state.hash_one(n) | 1),
        };
        for (key, entry) in keyed {
            let slot = groups.slot(&key);
            match groups.slots[slot] as usize {
                0 => {
                    groups.entries.push((key, entry));
                    groups.slots[slot] = groups.entries.len() as u32;
                }
                known => groups.entries[known - 1].1 = entry,
            }
        }
        groups
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &GroupEntry> {
        self.entries.iter().map(|(_, entry)| entry)
    }

    /// The entry of a packet's source and group, else that of all sources to the group.
    #[inline]
    pub fn find(&self, source: u128, group: u128) -> Option<&GroupEntry> {
        self.get(&[source, group]).or_else(|| self.get(&[0, group]))
    }

    #[inline]
    fn get(&self, key: &Key) -> Option<&GroupEntry> {
        let at = self.slots[self.slot(key)] as usize;
        at.checked_sub(1).map(|at| &self.entries[at].1)
    }

    /// The slot of a key: the one that has it, or the empty one where it would be.
    #[inline]
    fn slot(&self, key: &Key) -> usize {
        let (last, mut at) = (self.slots.len() - 1, self.hash(key) as usize);
        loop {
            at &= last;
            match self.slots[at] as usize {
                0 => return at,
                known if self.entries[known - 1].0 == *key => return at,
                _ => at += 1,
            }
        }
    }

    #[inline]
    fn hash(&self, [source, group]: &Key) -> u64 {
        let fold = |one: u64, other: u64| {
            let product = u128::from(one) * u128::from(other);
            product as u64 ^ (product >> 64) as u64
        };
        let [a, b, c, d] = self.secret;
        let source = fold(*source as u64 ^ a, (source >> 64) as u64 ^ b);
        fold(fold(*group as u64 ^ c, (group >> 64) as u64 ^ d) ^ source, b)
    }
}

/// The table in force, as all workers share it.
#[derive(Debug, Default)]
pub struct Multicast {
    generation: AtomicU32,
    groups: Mutex<Arc<Groups>>,
}

impl Multicast {
    /// No entries.
    pub fn new() -> Arc<Multicast> {
        Arc::default()
    }

    /// Puts others in force: every worker goes over to them with its next batch.
    pub fn change(&self, groups: Groups) {
        *self.groups.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(groups);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Those in force.
    pub fn groups(&self) -> Arc<Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A worker's sight of them.
#[derive(Debug)]
pub struct GroupReader {
    multicast: Arc<Multicast>,
    generation: u32,
    groups: Arc<Groups>,
}

impl GroupReader {
    /// Of these.
    pub fn new(multicast: Arc<Multicast>) -> GroupReader {
        let generation = multicast.generation.load(Ordering::Acquire);
        GroupReader { generation, groups: multicast.groups(), multicast }
    }

    /// Those in force now; to be asked once a batch.
    #[inline]
    pub fn groups(&mut self) -> &Groups {
        if self.multicast.generation.load(Ordering::Acquire) != self.generation {
            *self = GroupReader::new(self.multicast.clone());
        }
        &self.groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(source: IpAddr, group: IpAddr, output: u16) -> GroupEntry {
        let outputs = vec![Leaving { interface: InterfaceId(output), threshold: 1 }];
        GroupEntry { source, group, inputs: vec![InterfaceId(0)], outputs, count: Arc::default() }
    }

    /// Few addresses, so that they meet.
    fn address(ipv6: bool, group: bool, n: u8) -> IpAddr {
        let (first4, first6) = if group { (239u32, 0xff0eu128) } else { (10, 0x2001) };
        match ipv6 {
            true => IpAddr::V6((first6 << 112 | u128::from(n) << (n % 3 * 32)).into()),
            false => IpAddr::V4((first4 << 24 | u32::from(n)).into()),
        }
    }

    fn source(ipv6: bool, n: u8) -> IpAddr {
        match n {
            0 if ipv6 => IpAddr::V6(0.into()),
            0 => IpAddr::V4(0.into()),
            n => address(ipv6, false, n),
        }
    }

    proptest! {
        #[test]
        fn the_entry_of_a_source_comes_before_that_of_all(
            keys in prop::collection::vec((any::<bool>(), 0u8..20, 0u8..20), 0..200),
        ) {
            let entries = keys.iter().enumerate().map(|(n, (ipv6, from, to))| {
                entry(source(*ipv6, *from), address(*ipv6, true, *to), n as u16)
            });
            let groups = Groups::new(entries);
            for ipv6 in [false, true] {
                for (from, to) in (1..25).flat_map(|from| (0..25).map(move |to| (from, to))) {
                    let last = |from| keys.iter().rposition(|key| *key == (ipv6, from, to));
                    let expected = last(from).or_else(|| last(0));
                    let (from, to) = (source(ipv6, from), address(ipv6, true, to));
                    let found = groups.find(number(from), number(to));
                    let found = found.map(|entry| usize::from(entry.outputs[0].interface.0));
                    prop_assert_eq!(found, expected, "{} to {}", from, to);
                }
            }
            let mut known: Vec<_> = keys.clone();
            known.sort();
            known.dedup();
            prop_assert_eq!(groups.iter().count(), known.len());
        }
    }

    #[test]
    fn readers_go_over_to_another_table_and_counts_go_with_it() {
        let multicast = Multicast::new();
        let mut reader = GroupReader::new(multicast.clone());
        assert!(reader.groups().is_empty());
        let (from, to) = (address(false, false, 1), address(false, true, 1));
        let first = entry(from, to, 1);
        multicast.change(Groups::new([first.clone()]));
        let found = |reader: &mut GroupReader| {
            let entry = reader.groups().find(number(from), number(to)).unwrap();
            entry.count.add(2, 100);
            entry.outputs[0].interface
        };
        assert_eq!(found(&mut reader), InterfaceId(1));
        multicast.change(Groups::new([GroupEntry { count: first.count.clone(), ..entry(from, to, 2) }]));
        assert_eq!(found(&mut reader), InterfaceId(2));
        assert_eq!(first.count.read(), [4, 200]);
    }

    #[test]
    fn linux_is_shown_one_packet_a_second() {
        let count = GroupCount::default();
        let due = (0..3500u64).filter(|ms| count.is_due(ms * 1_000_000)).count();
        assert_eq!(due, 4);
    }
}
