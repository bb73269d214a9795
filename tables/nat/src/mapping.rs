//! Mappings: which endpoint outside stands for an endpoint inside, for as long as any flow of it
//! lives.
//!
//! A mapping does not depend on where its flows lead (endpoint-independent: RFC 4787, REQ-1; RFC
//! 5382, REQ-1), and no endpoint outside ever stands for two inside (no overloading: RFC 4787,
//! REQ-3). It counts its flows; with the last one it ends, and its port is free.
//!
//! Several workers make mappings at once. They take locks, for all this happens once a flow, off
//! the path of established packets, and a lock is held for some hundred nanoseconds:
//! - 64 shards by the address inside, each with its mappings and with what its hosts have; all that
//!   concerns one host is in one shard, so its limit and its one address (paired pooling) need
//!   nothing else;
//! - a space for each address outside and class of protocols, with its ports and, behind each port,
//!   the number of its mapping: that is the way back, from outside in.
//!
//! A shard's lock may be held while a space's is taken, never the reverse.
//!
//! Memory: 64 bytes a mapping and some 10 for its index, 25 KiB for a space in use; bounded by the
//! number of mappings allowed and by the addresses of the pools.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::addresses::Addresses;
use crate::space::{Class, Space};
use hashbrown::HashTable;

pub(crate) const SHARDS: usize = 64;
/// Addresses of a pool that are tried for one mapping.
const TRIES: u64 = 64;

/// An address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    pub address: [u8; 16],
    pub port: u16,
}

/// Whose endpoint it is, and by which rule it is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Inside {
    pub endpoint: Endpoint,
    pub class: Class,
    pub table: u16,
    pub scope: Scope,
}

/// What mappings are made by. Another scope, another mapping: one is not found again when its rule
/// says something else, or when the port that leased its address has another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    /// Stands for a rule, as long as it says the same.
    pub rule: u32,
    /// Stands for the leased address of a port, where the rule takes that.
    pub leased: u32,
}

/// One mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub inside: Inside,
    pub outside: Endpoint,
    pub flows: u32,
    /// When it was made, in seconds of the caller's clock.
    pub since: u32,
    /// Flows that have been released so far.
    pub released: u32,
}

/// Where a mapping may be, and how.
pub(crate) struct Wanted<'a> {
    pub pool: Pool<'a>,
    pub ports: RangeInclusive<u16>,
    /// Whether all mappings of a host have one address.
    pub paired: bool,
    pub host_limit: Option<u32>,
}

/// Addresses outside.
#[derive(Clone, Copy)]
pub(crate) enum Pool<'a> {
    One([u8; 16]),
    Many(&'a Addresses),
}

impl Pool<'_> {
    /// The address at a position, counted around.
    pub fn get(&self, position: u64) -> Option<[u8; 16]> {
        match self {
            Pool::One(address) => Some(*address),
            Pool::Many(addresses) => addresses.get(position % addresses.len()),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Pool::One(_) => 1,
            Pool::Many(addresses) => addresses.len(),
        }
    }
}

/// Why there is no mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Ports,
    Host,
    Table,
}

/// What is known of a host: by rule, table and address.
#[derive(Clone, Copy)]
struct Host {
    address: [u8; 16],
    mappings: u32,
}

#[derive(Default)]
struct Shard {
    slots: Vec<Mapping>,
    free: Vec<u32>,
    index: HashTable<u32>,
    hosts: HashMap<(Scope, u16, [u8; 16]), Host>,
}

/// Ports in use of one address and class.
pub(crate) struct SpaceUse {
    pub address: [u8; 16],
    pub class: Class,
    /// Taken, those reserved included.
    pub taken: u32,
}

type Spaces = HashMap<([u8; 16], Class), Arc<Mutex<Space>>>;

/// All mappings.
pub(crate) struct Mappings {
    shards: Box<[Mutex<Shard>]>,
    spaces: RwLock<Spaces>,
    hasher: RandomState,
    draws: AtomicU64,
    live: AtomicUsize,
    capacity: AtomicUsize,
}

/// A thread that panicked in here has left at worst a port that is taken by nobody.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mappings {
    pub fn new(capacity: usize) -> Mappings {
        Mappings {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            spaces: RwLock::default(),
            hasher: RandomState::new(),
            draws: AtomicU64::new(0),
            live: AtomicUsize::new(0),
            capacity: AtomicUsize::new(capacity),
        }
    }

    /// None, but a host that is new would get the same address of a pool from them.
    pub fn for_dry_run(&self) -> Mappings {
        Mappings { hasher: self.hasher.clone(), ..Mappings::new(0) }
    }

    /// Takes up a mapping as others have it.
    pub fn adopt(&self, mapping: &Mapping) {
        let Mapping { inside, outside, since, .. } = mapping;
        let (pool, ports) = (Pool::One(outside.address), outside.port..=outside.port);
        // Two hosts do not have the same one, and one that is there already only counts one flow
        // more.
        let _ = self.acquire(inside, &Wanted { pool, ports, paired: false, host_limit: None }, *since);
    }

    pub fn set_capacity(&self, capacity: usize) {
        self.capacity.store(capacity, Relaxed);
    }

    pub fn len(&self) -> usize {
        self.live.load(Relaxed)
    }

    /// A number that cannot be guessed from those before (RFC 6056): SipHash with a key of this
    /// process.
    pub fn random(&self) -> u64 {
        self.hasher.hash_one(self.draws.fetch_add(1, Relaxed))
    }

    fn shard_of(&self, address: &[u8; 16]) -> usize {
        self.hasher.hash_one(address) as usize % SHARDS
    }

    fn existing_space(&self, address: &[u8; 16], class: Class) -> Option<Arc<Mutex<Space>>> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        spaces.get(&(*address, class)).cloned()
    }

    fn space(&self, address: &[u8; 16], class: Class) -> Arc<Mutex<Space>> {
        self.existing_space(address, class).unwrap_or_else(|| {
            let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
            spaces.entry((*address, class)).or_insert_with(|| Arc::new(Mutex::new(Space::new()))).clone()
        })
    }

    /// These ports, and no others, are not given out from now on.
    pub fn reserve(&self, mut reserved: HashMap<([u8; 16], Class), Vec<RangeInclusive<u16>>>) {
        let known: Vec<_> = {
            let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
            spaces.iter().map(|(key, space)| (*key, space.clone())).collect()
        };
        for (key, space) in known {
            lock(&space).reserve(reserved.remove(&key).unwrap_or_default());
        }
        for ((address, class), ranges) in reserved {
            lock(&self.space(&address, class)).reserve(ranges);
        }
    }

    /// Whether the port is of those.
    pub fn is_reserved(&self, outside: &Endpoint, class: Class) -> bool {
        self.existing_space(&outside.address, class)
            .is_some_and(|space| lock(&space).is_reserved(outside.port))
    }

    /// The mapping of an endpoint inside, with one flow more; whether it is new.
    pub fn acquire(&self, inside: &Inside, wanted: &Wanted<'_>, now: u32) -> Result<(Mapping, bool), Full> {
        let at = self.shard_of(&inside.endpoint.address);
        let hash = self.hasher.hash_one(inside);
        let mut shard = lock(&self.shards[at]);
        let shard = &mut *shard;
        if let Some(slot) = shard.index.find(hash, |slot| shard.slots[*slot as usize].inside == *inside) {
            let mapping = &mut shard.slots[*slot as usize];
            mapping.flows += 1;
            return Ok((*mapping, false));
        }
        let key = (inside.scope, inside.table, inside.endpoint.address);
        let host = shard.hosts.get(&key).copied();
        if host.is_some_and(|host| wanted.host_limit.is_some_and(|limit| host.mappings >= limit)) {
            return Err(Full::Host);
        }
        // Counted before, so that no two workers pass the limit together.
        if self.live.fetch_add(1, Relaxed) >= self.capacity.load(Relaxed) {
            self.live.fetch_sub(1, Relaxed);
            return Err(Full::Table);
        }
        let slot = shard.free.last().copied().unwrap_or(shard.slots.len() as u32);
        let id = (at as u32) << 26 | slot;
        let Some(outside) = self.place(inside, wanted, host.filter(|_| wanted.paired), id) else {
            self.live.fetch_sub(1, Relaxed);
            return Err(Full::Ports);
        };
        let mapping = Mapping { inside: *inside, outside, flows: 1, since: now, released: 0 };
        match shard.slots.get_mut(slot as usize) {
            Some(place) => {
                *place = mapping;
                shard.free.pop();
            }
            None => shard.slots.push(mapping),
        }
        let slots = &shard.slots;
        shard.index.insert_unique(hash, slot, |slot| self.hasher.hash_one(slots[*slot as usize].inside));
        let host = shard.hosts.entry(key).or_insert(Host { address: outside.address, mappings: 0 });
        host.mappings += 1;
        Ok((mapping, true))
    }

    /// A port for the mapping `id`.
    fn place(&self, inside: &Inside, wanted: &Wanted<'_>, host: Option<Host>, id: u32) -> Option<Endpoint> {
        let (class, port, random) = (inside.class, inside.endpoint.port, self.random());
        let take = |address: [u8; 16]| {
            let space = self.space(&address, class);
            let mut space = lock(&space);
            let port = space.take(&wanted.ports, class, port, (random >> 32) as u32)?;
            space.set_owner(port, id);
            Some(Endpoint { address, port })
        };
        if let Some(host) = host {
            return take(host.address);
        }
        // A host begins at the same place of the pool each time, other hosts at others.
        let first = if wanted.paired { self.hasher.hash_one(inside.endpoint.address) } else { random };
        let tries = wanted.pool.len().min(TRIES);
        (0..tries).find_map(|n| take(wanted.pool.get(first.wrapping_add(n))?))
    }

    /// Where a host appears with what has no ports: where its mappings are, or where the first of
    /// them would be.
    pub fn address_of(&self, scope: Scope, table: u16, host: &[u8; 16], pool: &Pool<'_>) -> Option<[u8; 16]> {
        let shard = lock(&self.shards[self.shard_of(host)]);
        let known = shard.hosts.get(&(scope, table, *host)).map(|host| host.address);
        known.or_else(|| pool.get(self.hasher.hash_one(host)))
    }

    /// The mapping that stands behind an endpoint outside.
    pub fn behind(&self, outside: &Endpoint, class: Class) -> Option<Mapping> {
        let space = self.existing_space(&outside.address, class)?;
        let id = lock(&space).owner(outside.port)?;
        let shard = lock(&self.shards[(id >> 26) as usize]);
        let mapping = shard.slots.get((id & 0x3ff_ffff) as usize)?;
        (mapping.outside == *outside && mapping.inside.class == class && mapping.flows > 0)
            .then_some(*mapping)
    }

    /// One flow more towards an endpoint outside, if it still stands for this one inside.
    pub fn join(&self, outside: &Endpoint, class: Class, inside: &Endpoint) -> Option<Mapping> {
        let inside = self.behind(outside, class).filter(|found| found.inside.endpoint == *inside)?.inside;
        let mut shard = lock(&self.shards[self.shard_of(&inside.endpoint.address)]);
        let shard = &mut *shard;
        let slots = &mut shard.slots;
        let slot =
            *shard.index.find(self.hasher.hash_one(inside), |slot| slots[*slot as usize].inside == inside)?;
        let mapping = &mut slots[slot as usize];
        if mapping.outside != *outside {
            return None;
        }
        mapping.flows += 1;
        Some(*mapping)
    }

    /// One flow less. The mapping, with the flows that are left to it, if there was one.
    pub fn release(&self, outside: &Endpoint, class: Class, inside: &Endpoint) -> Option<Mapping> {
        let found = self.behind(outside, class).filter(|found| found.inside.endpoint == *inside)?;
        let mut shard = lock(&self.shards[self.shard_of(&inside.address)]);
        let shard = &mut *shard;
        let hash = self.hasher.hash_one(found.inside);
        let slots = &mut shard.slots;
        let entry = shard.index.find_entry(hash, |slot| slots[*slot as usize].inside == found.inside).ok()?;
        let slot = *entry.get();
        let mapping = &mut slots[slot as usize];
        if mapping.outside != *outside {
            return None;
        }
        mapping.flows -= 1;
        mapping.released = mapping.released.wrapping_add(1);
        let mapping = *mapping;
        if mapping.flows == 0 {
            entry.remove();
            shard.free.push(slot);
            let key = (found.inside.scope, found.inside.table, inside.address);
            if let Some(host) = shard.hosts.get_mut(&key) {
                host.mappings -= 1;
                if host.mappings == 0 {
                    shard.hosts.remove(&key);
                }
            }
            lock(&self.space(&outside.address, class)).give(outside.port);
            self.live.fetch_sub(1, Relaxed);
        }
        Some(mapping)
    }

    /// Shows every mapping, a shard at a time; those made or ended meanwhile may be missing.
    pub fn each(&self, mut show: impl FnMut(&Mapping)) {
        // Copied, so that nothing waits for whoever looks.
        (0..SHARDS).for_each(|shard| self.of_shards(shard..shard + 1).iter().for_each(&mut show));
    }

    /// The mappings of a host.
    pub fn of_host(&self, address: &[u8; 16]) -> Vec<Mapping> {
        let shard = self.shard_of(address);
        let mut mappings = self.of_shards(shard..shard + 1);
        mappings.retain(|mapping| mapping.inside.endpoint.address == *address);
        mappings
    }

    /// The mappings of some shards.
    pub fn of_shards(&self, shards: Range<usize>) -> Vec<Mapping> {
        let mut mappings = Vec::new();
        for shard in &self.shards[shards] {
            let shard = lock(shard);
            mappings.extend(shard.index.iter().map(|slot| shard.slots[*slot as usize]));
        }
        mappings
    }

    /// Ports in use of every address that had any.
    pub fn spaces(&self) -> Vec<SpaceUse> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        let show = |(key, space): (&([u8; 16], Class), &Arc<Mutex<Space>>)| {
            let taken = lock(space).taken();
            SpaceUse { address: key.0, class: key.1, taken }
        };
        spaces.iter().map(show).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn address(n: u64) -> [u8; 16] {
        wire::headers::mapped([203, 0, 113, n as u8])
    }

    fn inside(host: u8, port: u16, class: Class) -> Inside {
        let endpoint = Endpoint { address: wire::headers::mapped([10, 0, 0, host]), port };
        Inside { endpoint, class, table: 0, scope: Scope { rule: 1, leased: 0 } }
    }

    fn pool(addresses: u64, ports: RangeInclusive<u16>, paired: bool) -> Wanted<'static> {
        let text = format!("203.0.113.0-203.0.113.{}", addresses - 1);
        let addresses = Box::leak(Box::new(text.parse().unwrap()));
        Wanted { pool: Pool::Many(addresses), ports, paired, host_limit: None }
    }

    #[test]
    fn ports_and_their_parity_are_kept() {
        let mappings = Mappings::new(100);
        let wanted = pool(1, 1..=65_535, true);
        let get = |host, port, class| {
            mappings.acquire(&inside(host, port, class), &wanted, 0).unwrap().0.outside.port
        };
        assert_eq!(get(1, 5000, Class::Udp), 5000);
        assert_eq!(get(1, 5000, Class::Udp), 5000, "for every destination");
        for host in 2..20 {
            let port = get(host, 5000, Class::Udp);
            assert!(port >= 1024 && port % 2 == 0 && port != 5000);
        }
        assert_eq!(get(1, 5000, Class::Tcp), 5000);
        assert_eq!(get(1, 500, Class::Udp), 500);
        for host in 2..20 {
            assert!((1..1024).contains(&get(host, 500, Class::Udp)));
        }
    }

    #[test]
    fn limits_hold_and_are_told_apart() {
        let mappings = Mappings::new(5);
        let limited = Wanted { host_limit: Some(2), ..pool(1, 2000..=2003, true) };
        let get =
            |host, port| mappings.acquire(&inside(host, port, Class::Tcp), &limited, 0).map(|found| found.1);
        assert_eq!(
            (get(1, 1), get(1, 2), get(1, 3), get(1, 2)),
            (Ok(true), Ok(true), Err(Full::Host), Ok(false))
        );
        assert_eq!((get(2, 1), get(2, 2), get(3, 1)), (Ok(true), Ok(true), Err(Full::Ports)));
        let more = pool(1, 3000..=4000, true);
        assert!(mappings.acquire(&inside(4, 1, Class::Tcp), &more, 0).is_ok());
        assert_eq!(
            mappings.acquire(&inside(4, 2, Class::Tcp), &more, 0).map(|found| found.1),
            Err(Full::Table)
        );
        assert_eq!(mappings.len(), 5);
    }

    #[test]
    fn a_host_has_one_address_when_paired() {
        let mappings = Mappings::new(1000);
        let addresses_of = |paired| {
            let wanted = pool(16, 1024..=65_535, paired);
            let host = if paired { 1 } else { 2 };
            let get = |port| {
                mappings.acquire(&inside(host, port, Class::Udp), &wanted, 0).unwrap().0.outside.address
            };
            (0..100).map(get).collect::<std::collections::HashSet<_>>().len()
        };
        assert_eq!(addresses_of(true), 1);
        assert!(addresses_of(false) > 1);
    }

    #[test]
    fn reserved_ports_are_not_given_out_and_live_ones_not_taken_away() {
        let mappings = Mappings::new(1000);
        let wanted = pool(1, 2000..=2001, true);
        let first = inside(1, 2000, Class::Tcp);
        let (mapping, _) = mappings.acquire(&first, &wanted, 0).unwrap();
        mappings.reserve(HashMap::from([((address(0), Class::Tcp), vec![2000..=2000])]));
        assert_eq!(mappings.acquire(&first, &wanted, 0).unwrap().0.outside.port, 2000);
        for _ in 0..2 {
            mappings.release(&mapping.outside, Class::Tcp, &first.endpoint).unwrap();
        }
        let get = |host| {
            mappings.acquire(&inside(host, 2000, Class::Tcp), &wanted, 0).map(|found| found.0.outside.port)
        };
        assert_eq!((get(1), get(2)), (Ok(2001), Err(Full::Ports)));
        mappings.reserve(HashMap::new());
        assert_eq!(get(2), Ok(2000));
    }

    #[test]
    fn workers_together_never_give_a_port_twice() {
        let mappings = Mappings::new(100_000);
        let wanted = || pool(2, 1024..=4095, false);
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let mappings = &mappings;
                scope.spawn(move || {
                    for round in 0..20_000u32 {
                        let me = inside(thread * 8 + (round % 5) as u8, (round % 997) as u16, Class::Tcp);
                        if let Ok((mapping, _)) = mappings.acquire(&me, &wanted(), 0) {
                            let behind = mappings.behind(&mapping.outside, Class::Tcp);
                            assert_eq!(behind.map(|found| found.inside), Some(me));
                            if round % 3 != 0 {
                                mappings.release(&mapping.outside, Class::Tcp, &me.endpoint);
                            }
                        }
                    }
                });
            }
        });
        let mut seen = std::collections::HashSet::new();
        mappings.each(|mapping| assert!(seen.insert(mapping.outside), "{mapping:?}"));
        assert_eq!(seen.len(), mappings.len());
        let taken: u32 = mappings.spaces().iter().map(|space| space.taken).sum();
        assert_eq!(taken as usize, seen.len());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Acquire(u8, u16),
        Join(usize),
        Release(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0u8..12, 0u16..8).prop_map(|(host, port)| Step::Acquire(host, port + 2000)),
            1 => any::<usize>().prop_map(Step::Join),
            3 => any::<usize>().prop_map(Step::Release),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn equals_a_naive_map(steps in proptest::collection::vec(step(), 0..400), paired: bool) {
            let mappings = Mappings::new(60);
            // Inside to outside and flows.
            let mut model: BTreeMap<(u8, u16), (Endpoint, u32)> = BTreeMap::new();
            let wanted = pool(3, 2000..=2015, paired);
            for step in steps {
                let nth = |n: usize| model.iter().nth(n % model.len().max(1)).map(|(k, v)| (*k, *v));
                match step {
                    Step::Acquire(host, port) => {
                        let found = mappings.acquire(&inside(host, port, Class::Udp), &wanted, 0);
                        let taken = |address: [u8; 16]| model.values().filter(|(out, _)| out.address == address).count();
                        let homes = model.iter().find(|((other, _), _)| *other == host).map(|(_, (out, _))| out.address);
                        match (found, model.get(&(host, port)).copied()) {
                            (Ok((mapping, fresh)), Some((outside, flows))) => {
                                prop_assert_eq!((mapping.outside, mapping.flows, fresh), (outside, flows + 1, false));
                                model.insert((host, port), (outside, flows + 1));
                            }
                            (Ok((mapping, fresh)), None) => {
                                prop_assert!(fresh && mapping.flows == 1);
                                prop_assert!((2000..=2015).contains(&mapping.outside.port));
                                prop_assert!(model.values().all(|(outside, _)| *outside != mapping.outside));
                                if let Some(home) = homes.filter(|_| paired) {
                                    prop_assert_eq!(mapping.outside.address, home);
                                }
                                model.insert((host, port), (mapping.outside, 1));
                            }
                            (Err(full), before) => {
                                prop_assert!(before.is_none());
                                let full_pool = (0..3).all(|n| taken(address(n)) == 16);
                                let full_home = paired && homes.is_some_and(|home| taken(home) == 16);
                                prop_assert_eq!(full, Full::Ports);
                                prop_assert!(full_pool || full_home);
                            }
                        }
                    }
                    Step::Join(n) => {
                        if let Some((key, (outside, flows))) = nth(n) {
                            let me = inside(key.0, key.1, Class::Udp).endpoint;
                            prop_assert_eq!(mappings.join(&outside, Class::Udp, &me).unwrap().flows, flows + 1);
                            let other = inside(99, 9, Class::Udp).endpoint;
                            prop_assert_eq!(mappings.join(&outside, Class::Udp, &other), None);
                            model.insert(key, (outside, flows + 1));
                        }
                    }
                    Step::Release(n) => {
                        if let Some((key, (outside, flows))) = nth(n) {
                            let me = inside(key.0, key.1, Class::Udp).endpoint;
                            prop_assert_eq!(mappings.release(&outside, Class::Udp, &me).unwrap().flows, flows - 1);
                            if flows == 1 {
                                prop_assert_eq!(mappings.behind(&outside, Class::Udp), None);
                                prop_assert_eq!(mappings.release(&outside, Class::Udp, &me), None);
                                model.remove(&key);
                            } else {
                                model.insert(key, (outside, flows - 1));
                            }
                        }
                    }
                }
                prop_assert_eq!(mappings.len(), model.len());
            }
            let mut shown = 0;
            mappings.each(|mapping| {
                let endpoint = mapping.inside.endpoint;
                assert_eq!(model[&(endpoint.address[15], endpoint.port)], (mapping.outside, mapping.flows));
                shown += 1;
            });
            prop_assert_eq!(shown, model.len());
        }
    }
}
