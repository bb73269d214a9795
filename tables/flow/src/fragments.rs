//! Fragments follow their first: only that one shows the ports, so they are remembered for the
//! others.
//!
//! The store is small and bounded: sets of four, the oldest of a set makes room. A later fragment
//! that comes before its first is unknown, and so are all if their first never came. No packet is
//! kept here: memory full of other people's packets is what attackers of reassembly are after. Who
//! has a few to spare may ask again a moment later.
//!
//! A packet's fragments are known by addresses, identification and protocol (RFC 791, 3.2); in IPv6
//! without the protocol (RFC 8200, 4.5), which a later fragment need not even show.
//!
//! Shared by all workers, since a NIC may give the first fragment to another than the rest. A set
//! is locked for a few instructions; who finds it locked for long does not wait, but does not know
//! the fragment.

use crate::Tuple;
use crate::hash::Hash;
use crate::key::Key;
use std::sync::Mutex;
use std::sync::TryLockError;
use wire::Headers;

const WAYS: usize = 4;
const TRIES: usize = 64;

/// What a first fragment shows of its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct First {
    key: Key,
    protocol: u8,
    ports: [u16; 2],
    tick: u32,
}

/// The store.
pub(crate) struct Fragments {
    sets: Box<[Mutex<[Option<First>; WAYS]>]>,
}

/// Addresses, identification and, in IPv4, protocol.
fn key(headers: &Headers, table: u16) -> Key {
    Key::of(&Tuple {
        source: headers.source,
        destination: headers.destination,
        source_port: (headers.fragment_id >> 16) as u16,
        destination_port: headers.fragment_id as u16,
        protocol: if headers.version == 4 { headers.protocol } else { 0 },
        table,
    })
}

impl Fragments {
    pub(crate) fn new(packets: usize) -> Fragments {
        Fragments { sets: (0..Self::sets(packets)).map(|_| Mutex::new([None; WAYS])).collect() }
    }

    fn sets(packets: usize) -> usize {
        packets.div_ceil(WAYS).max(1)
    }

    /// What one for so many packets takes.
    pub(crate) fn bytes_of(packets: usize) -> usize {
        Self::sets(packets) * size_of::<Mutex<[Option<First>; WAYS]>>()
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.sets)
    }

    fn with_set<T>(
        &self,
        hash: &Hash,
        key: &Key,
        work: impl FnOnce(&mut [Option<First>; WAYS]) -> T,
    ) -> Option<T> {
        let half = u64::from(hash.spot(key).halves()[0]);
        let set = &self.sets[((half * self.sets.len() as u64) >> 32) as usize];
        for _ in 0..TRIES {
            match set.try_lock() {
                Ok(mut set) => return Some(work(&mut set)),
                Err(TryLockError::Poisoned(set)) => return Some(work(&mut set.into_inner())),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
    }

    /// Remembers a first fragment.
    pub(crate) fn learn(&self, hash: &Hash, headers: &Headers, table: u16, tick: u32) {
        let key = key(headers, table);
        let ports = [headers.source_port, headers.destination_port];
        let first = First { key, protocol: headers.protocol, ports, tick };
        self.with_set(hash, &key, |set| {
            let same = set.iter().position(|way| way.is_some_and(|way| way.key == key));
            let oldest =
                || (0..WAYS).max_by_key(|way| set[*way].map_or(u32::MAX, |way| tick.wrapping_sub(way.tick)));
            if let Some(way) = same.or_else(oldest) {
                set[way] = Some(first);
            }
        });
    }

    /// A later fragment's tuple, if its first came at most `timeout` ticks ago.
    pub(crate) fn tuple(
        &self,
        hash: &Hash,
        headers: &Headers,
        table: u16,
        tick: u32,
        timeout: u32,
    ) -> Option<Tuple> {
        let key = key(headers, table);
        let first = self.with_set(hash, &key, |set| {
            set.iter().flatten().find(|way| way.key == key && tick.wrapping_sub(way.tick) <= timeout).copied()
        })??;
        let [source_port, destination_port] = first.ports;
        let shown = Headers { source_port, destination_port, protocol: first.protocol, ..*headers };
        Some(Tuple::of(&shown, table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Fragment, headers::mapped};

    fn fragment(id: u32, ports: [u16; 2], fragment: Fragment) -> Headers {
        Headers {
            source: mapped([10, 0, 0, 1]),
            destination: mapped([10, 0, 0, 2]),
            version: 4,
            protocol: 17,
            source_port: ports[0],
            destination_port: ports[1],
            fragment_id: id,
            fragment,
            ..Headers::default()
        }
    }

    #[test]
    fn later_fragments_have_the_ports_of_their_first() {
        let (hash, store) = (Hash::new(), Fragments::new(64));
        let (first, later) = (fragment(9, [5, 6], Fragment::First), fragment(9, [0, 0], Fragment::Later));
        assert_eq!(store.tuple(&hash, &later, 0, 100, 50), None);
        store.learn(&hash, &first, 0, 100);
        assert_eq!(store.tuple(&hash, &later, 0, 150, 50), Some(Tuple::of(&first, 0)));
        assert_eq!(store.tuple(&hash, &later, 0, 151, 50), None);
        assert_eq!(store.tuple(&hash, &later, 1, 120, 50), None);
        let back = Headers { source: later.destination, destination: later.source, ..later };
        assert_eq!(store.tuple(&hash, &back, 0, 120, 50), None);
        assert_eq!(store.tuple(&hash, &fragment(8, [0, 0], Fragment::Later), 0, 120, 50), None);
    }

    #[test]
    fn in_ipv6_the_first_alone_shows_the_protocol() {
        let (hash, store) = (Hash::new(), Fragments::new(64));
        let v6 = |headers: Headers, protocol| Headers {
            version: 6,
            source: [7; 16],
            destination: [8; 16],
            protocol,
            ..headers
        };
        store.learn(&hash, &v6(fragment(9, [5, 6], Fragment::First), 17), 0, 1);
        let tuple = store.tuple(&hash, &v6(fragment(9, [0, 0], Fragment::Later), 60), 0, 1, 1).unwrap();
        assert_eq!((tuple.protocol, tuple.source_port, tuple.destination_port), (17, 5, 6));
    }

    #[test]
    fn a_flood_makes_the_oldest_go_and_nothing_grow() {
        let (hash, store) = (Hash::new(), Fragments::new(64));
        let bytes = store.bytes();
        for id in 0..10_000 {
            store.learn(&hash, &fragment(id, [1, 2], Fragment::First), 0, id);
            let later = fragment(id, [0, 0], Fragment::Later);
            assert!(store.tuple(&hash, &later, 0, id, 9).is_some());
        }
        let known = (0..10_000).filter(|id| {
            store.tuple(&hash, &fragment(*id, [0, 0], Fragment::Later), 0, 10_000, 10_000).is_some()
        });
        assert_eq!((known.count(), store.bytes()), (64, bytes));
    }
}
