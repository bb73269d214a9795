//! The writer of next hops, buckets and adjacencies.

use super::buckets::{MAX_BUCKETS, Ranges, assign};
use super::{Adjacency, AdjacencyId, NextHop, NextHopId, Path};
use crate::FibError;
use crate::grace::{Grace, Retired};
use crate::memory::{Arrays, Capacity, Pair};
use crate::word::{AdjacencyWord, Hop, HopKind};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Ids 1..=limit, each given out, given back and given out again.
struct Ids {
    given: Vec<bool>,
    limit: usize,
    free: Vec<u32>,
    name: &'static str,
}

impl Ids {
    fn new(limit: usize, name: &'static str) -> Ids {
        Ids { given: vec![false], limit, free: Vec::new(), name }
    }

    fn take(&mut self) -> Result<u32, FibError> {
        if let Some(id) = self.free.pop() {
            self.given[id as usize] = true;
            return Ok(id);
        }
        if self.given.len() > self.limit {
            return Err(FibError::Full { table: self.name, limit: self.limit, unit: "entries" });
        }
        self.given.push(true);
        Ok(self.given.len() as u32 - 1)
    }

    fn has(&self, id: u32) -> bool {
        self.given.get(id as usize).copied().unwrap_or(false)
    }

    fn bytes(&self) -> usize {
        self.given.capacity() + self.free.capacity() * 4
    }
}

/// What a next hop with several paths shares its flows by.
struct Group {
    paths: Vec<Path>,
    base: u32,
    log2: u8,
}

/// The writer.
pub(crate) struct Table {
    nexthops: Pair<AtomicU64>,
    buckets: Pair<AtomicU32>,
    adjacencies: Pair<AtomicU64>,
    used: Pair<AtomicU32>,
    next_hop_ids: Ids,
    adjacency_ids: Ids,
    ranges: Ranges,
    groups: HashMap<u32, Group>,
    /// Routes that name each next hop.
    references: Vec<u32>,
}

impl Table {
    pub(crate) fn new(worker: &Arrays, driver: Option<&Arrays>, capacity: &Capacity) -> Table {
        let pair64 = |of: fn(&Arrays) -> crate::memory::Array<AtomicU64>| Pair {
            worker: of(worker),
            driver: driver.map(of),
        };
        let pair32 = |of: fn(&Arrays) -> crate::memory::Array<AtomicU32>| Pair {
            worker: of(worker),
            driver: driver.map(of),
        };
        Table {
            nexthops: pair64(|arrays| arrays.nexthops),
            buckets: pair32(|arrays| arrays.buckets),
            adjacencies: pair64(|arrays| arrays.adjacencies),
            used: pair32(|arrays| arrays.used),
            next_hop_ids: Ids::new(capacity.next_hops, "next-hop"),
            adjacency_ids: Ids::new(capacity.next_hops, "adjacency"),
            ranges: Ranges::new(capacity.bucket_words()),
            groups: HashMap::new(),
            references: vec![0; capacity.next_hop_words()],
        }
    }

    pub(crate) fn add_next_hop(
        &mut self,
        next_hop: &NextHop,
        grace: &mut Grace,
    ) -> Result<NextHopId, FibError> {
        let id = NextHopId(self.next_hop_ids.take()?);
        if let Err(error) = self.set_next_hop(id, next_hop, grace) {
            self.free_next_hop(id.0);
            return Err(error);
        }
        Ok(id)
    }

    pub(crate) fn set_next_hop(
        &mut self,
        id: NextHopId,
        next_hop: &NextHop,
        grace: &mut Grace,
    ) -> Result<(), FibError> {
        self.check(id)?;
        let (word, group) = match next_hop {
            NextHop::None => (Hop::NONE, None),
            NextHop::Forward(paths) => self.forward(id, paths)?,
            NextHop::Sourced(paths) => {
                let (hop, group) = self.forward(id, paths)?;
                (hop.with_source(), group)
            }
            NextHop::Local => (Hop::new(HopKind::Local, 0, 0), None),
            NextHop::Glean(interface) => (Hop::new(HopKind::Glean, 0, interface.0.into()), None),
            NextHop::Blackhole => (Hop::new(HopKind::Blackhole, 0, 0), None),
            NextHop::Unreachable => (Hop::new(HopKind::Unreachable, 0, 0), None),
            NextHop::Prohibit => (Hop::new(HopKind::Prohibit, 0, 0), None),
            NextHop::Punt => (Hop::new(HopKind::Punt, 0, 0), None),
            NextHop::Foreign(mtu) => (Hop::new(HopKind::Punt, 0, *mtu), None),
        };
        self.nexthops.store(id.0 as usize, word.0);
        let old = match group {
            Some(group) => self.groups.insert(id.0, group),
            None => self.groups.remove(&id.0),
        };
        if let Some(old) = old {
            grace.retire(Retired::Buckets { base: old.base, log2: old.log2 });
        }
        Ok(())
    }

    /// Its routes have no route from now on; the id is used again when the last of them is gone.
    pub(crate) fn remove_next_hop(&mut self, id: NextHopId, grace: &mut Grace) {
        if self.set_next_hop(id, &NextHop::None, grace).is_err() {
            return;
        }
        self.next_hop_ids.given[id.0 as usize] = false;
        if self.references[id.0 as usize] == 0 {
            grace.retire(Retired::NextHop(id.0));
        }
    }

    pub(crate) fn next_hop(&self, id: NextHopId) -> NextHop {
        if !self.next_hop_ids.has(id.0) {
            return NextHop::None;
        }
        let hop = Hop(self.nexthops.worker[id.0 as usize].load(Ordering::Relaxed));
        match hop.kind() {
            HopKind::None => NextHop::None,
            HopKind::Forward => {
                let paths = match self.groups.get(&id.0) {
                    Some(group) => group.paths.clone(),
                    None => vec![Path { adjacency: AdjacencyId(hop.base()), weight: 1 }],
                };
                if hop.sourced() { NextHop::Sourced(paths) } else { NextHop::Forward(paths) }
            }
            HopKind::Local => NextHop::Local,
            HopKind::Glean => NextHop::Glean(hop.glean_interface()),
            HopKind::Blackhole => NextHop::Blackhole,
            HopKind::Unreachable => NextHop::Unreachable,
            HopKind::Prohibit => NextHop::Prohibit,
            HopKind::Punt => hop.foreign_mtu().map_or(NextHop::Punt, NextHop::Foreign),
        }
    }

    pub(crate) fn check(&self, id: NextHopId) -> Result<(), FibError> {
        if self.next_hop_ids.has(id.0) { Ok(()) } else { Err(FibError::NoSuchNextHop(id)) }
    }

    /// A route changed from naming `old` to naming `new`.
    pub(crate) fn count_route(&mut self, old: Option<NextHopId>, new: Option<NextHopId>, grace: &mut Grace) {
        if let Some(new) = new {
            self.references[new.0 as usize] += 1;
        }
        if let Some(NextHopId(old)) = old {
            self.references[old as usize] -= 1;
            if self.references[old as usize] == 0 && !self.next_hop_ids.has(old) {
                grace.retire(Retired::NextHop(old));
            }
        }
    }

    pub(crate) fn add_adjacency(&mut self, adjacency: &Adjacency) -> Result<AdjacencyId, FibError> {
        let id = self.adjacency_ids.take()?;
        self.used.store(id as usize, 0);
        self.store_adjacency(id, adjacency);
        Ok(AdjacencyId(id))
    }

    pub(crate) fn set_adjacency(&mut self, id: AdjacencyId, adjacency: &Adjacency) -> Result<(), FibError> {
        match self.adjacency(id) {
            None => Err(FibError::NoSuchAdjacency(id)),
            Some(old) if old.interface != adjacency.interface => Err(FibError::AdjacencyMoved(id)),
            Some(_) => {
                self.store_adjacency(id.0, adjacency);
                Ok(())
            }
        }
    }

    /// Unresolved from now on; the id is used again after a grace period. Redirect its next hops
    /// before.
    pub(crate) fn remove_adjacency(&mut self, id: AdjacencyId, grace: &mut Grace) {
        if let Some(old) = self.adjacency(id) {
            self.store_adjacency(id.0, &Adjacency { mac: None, ..old });
            self.adjacency_ids.given[id.0 as usize] = false;
            grace.retire(Retired::Adjacency(id.0));
        }
    }

    pub(crate) fn adjacency(&self, id: AdjacencyId) -> Option<Adjacency> {
        let load = |i: u32| self.adjacencies.worker[i as usize].load(Ordering::Relaxed);
        self.adjacency_ids.has(id.0).then(|| {
            let word = AdjacencyWord([load(id.0 * 2), load(id.0 * 2 + 1)]);
            Adjacency {
                interface: word.interface(),
                mtu: word.mtu(),
                mac: word.resolved().then(|| word.mac()),
            }
        })
    }

    pub(crate) fn take_used(&mut self) -> Vec<AdjacencyId> {
        let mut ids = Vec::new();
        for id in 1..self.adjacency_ids.given.len() {
            let marked = |mark: &AtomicU32| mark.load(Ordering::Relaxed) != 0;
            if marked(&self.used.worker[id]) || self.used.driver.is_some_and(|driver| marked(&driver[id])) {
                self.used.store(id, 0);
                if self.adjacency_ids.given[id] {
                    ids.push(AdjacencyId(id as u32));
                }
            }
        }
        ids
    }

    pub(crate) fn free_next_hop(&mut self, id: u32) {
        self.next_hop_ids.given[id as usize] = false;
        self.next_hop_ids.free.push(id);
    }

    pub(crate) fn free_adjacency(&mut self, id: u32) {
        self.adjacency_ids.free.push(id);
    }

    pub(crate) fn free_buckets(&mut self, base: u32, log2: u8) {
        self.ranges.give(base, log2);
    }

    pub(crate) fn bytes(&self) -> usize {
        let paths: usize = self.groups.values().map(|group| group.paths.capacity()).sum();
        self.next_hop_ids.bytes()
            + self.adjacency_ids.bytes()
            + self.references.capacity() * 4
            + self.groups.capacity() * size_of::<(u32, Group)>()
            + paths * size_of::<Path>()
    }

    /// The word of a forwarding next hop. Its buckets are complete before the word that names them
    /// is stored.
    fn forward(&mut self, id: NextHopId, paths: &[Path]) -> Result<(Hop, Option<Group>), FibError> {
        let mut merged: Vec<Path> = Vec::with_capacity(paths.len());
        for path in paths.iter().filter(|path| path.weight > 0) {
            if !self.adjacency_ids.has(path.adjacency.0) {
                return Err(FibError::NoSuchAdjacency(path.adjacency));
            }
            match merged.iter_mut().find(|other| other.adjacency == path.adjacency) {
                Some(other) => other.weight = other.weight.saturating_add(path.weight),
                None => merged.push(*path),
            }
        }
        match merged.len() {
            0 => return Err(FibError::NoPaths),
            1 => return Ok((merged[0].adjacency.into(), None)),
            2..=MAX_BUCKETS => {}
            many => return Err(FibError::TooManyPaths(many)),
        }
        let before: Vec<AdjacencyId> = self.groups.get(&id.0).map_or_else(Vec::new, |group| {
            let range = &self.buckets.worker[group.base as usize..][..1 << group.log2];
            range.iter().map(|bucket| AdjacencyId(bucket.load(Ordering::Relaxed))).collect()
        });
        let buckets = assign(&merged, &before);
        let log2 = buckets.len().ilog2() as u8;
        let limit = self.buckets.worker.len();
        let base =
            self.ranges.take(log2).ok_or(FibError::Full { table: "bucket", limit, unit: "buckets" })?;
        for (i, adjacency) in buckets.iter().enumerate() {
            self.buckets.store(base as usize + i, adjacency.0);
        }
        Ok((Hop::new(HopKind::Forward, log2, base), Some(Group { paths: merged, base, log2 })))
    }

    fn store_adjacency(&self, id: u32, adjacency: &Adjacency) {
        let AdjacencyWord([mac, path]) =
            AdjacencyWord::new(adjacency.interface, adjacency.mtu, adjacency.mac);
        // A new adjacency becomes resolved last.
        self.adjacencies.store(id as usize * 2 + 1, path);
        self.adjacencies.store(id as usize * 2, mac);
    }
}
