//! Next hops: one for each key in use, counted by the prefixes that use it.

use super::adjacency::{Adjacencies, Key};
use super::next_hop_key::{self, NextHopKey, Outcome, Ports};
use crate::model::{Gateway, Gateways, Model, TargetId};
use fib::{FibError, NextHop, NextHopId, Path, Tables};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::net::IpAddr;

struct Hop {
    next_hop_key: NextHopKey,
    prefixes: usize,
    adjacencies: SmallVec<[Key; 1]>,
    content: NextHop,
}

/// All next hops.
#[derive(Default)]
pub(crate) struct Hops {
    by_key: HashMap<NextHopKey, NextHopId>,
    by_target: HashMap<TargetId, SmallVec<[NextHopId; 1]>>,
    hops: HashMap<NextHopId, Hop>,
    pub adjacencies: Adjacencies,
}

impl Hops {
    /// The key's next hop, made if there is none; one prefix more uses it.
    pub fn acquire(
        &mut self,
        next_hop_key: NextHopKey,
        model: &mut Model,
        ports: &Ports,
        tables: &mut Tables,
    ) -> Result<NextHopId, FibError> {
        if let Some(id) = self.by_key.get(&next_hop_key)
            && let Some(hop) = self.hops.get_mut(id)
        {
            hop.prefixes += 1;
            return Ok(*id);
        }
        // Linux takes what is not yet resolved.
        let id = tables.add_next_hop(&NextHop::Punt)?;
        self.by_key.insert(next_hop_key, id);
        if let NextHopKey::Target { target, .. } = next_hop_key {
            model.routes.targets.retain(target);
            self.by_target.entry(target).or_default().push(id);
        }
        let hop = Hop { next_hop_key, prefixes: 1, adjacencies: SmallVec::new(), content: NextHop::Punt };
        self.hops.insert(id, hop);
        self.refresh(id, model, ports, tables)?;
        Ok(id)
    }

    /// One prefix less uses it; the last frees it.
    pub fn release(&mut self, id: NextHopId, model: &mut Model, tables: &mut Tables) {
        let Some(hop) = self.hops.get_mut(&id) else {
            return;
        };
        hop.prefixes -= 1;
        if hop.prefixes > 0 {
            return;
        }
        tables.remove_next_hop(id);
        let Some(hop) = self.hops.remove(&id) else {
            return;
        };
        for key in &hop.adjacencies {
            self.adjacencies.release(key, id, tables);
        }
        self.by_key.remove(&hop.next_hop_key);
        if let NextHopKey::Target { target, .. } = hop.next_hop_key {
            if let Some(ids) = self.by_target.get_mut(&target) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    self.by_target.remove(&target);
                }
            }
            model.routes.targets.release(target);
        }
    }

    /// Works out anew what the next hop comes to, and writes it if it changed.
    pub fn refresh(
        &mut self,
        id: NextHopId,
        model: &Model,
        ports: &Ports,
        tables: &mut Tables,
    ) -> Result<(), FibError> {
        let Some(hop) = self.hops.get_mut(&id) else {
            return Ok(());
        };
        let mut keys = SmallVec::new();
        let result = content(hop.next_hop_key, id, &mut keys, &mut self.adjacencies, model, ports, tables);
        let (new, error) = match result {
            Ok(content) => (content, None),
            Err(error) => (NextHop::Punt, Some(error)),
        };
        let mut outcome = error.map_or(Ok(()), Err);
        if new != hop.content {
            match tables.set_next_hop(id, &new) {
                Ok(()) => hop.content = new,
                Err(error) => {
                    // No room to say it: Linux does it. A next hop without paths always fits.
                    tables.set_next_hop(id, &NextHop::Punt)?;
                    hop.content = NextHop::Punt;
                    outcome = Err(error);
                }
            }
        }
        for key in std::mem::replace(&mut hop.adjacencies, keys) {
            self.adjacencies.release(&key, id, tables);
        }
        outcome
    }

    /// The next hops that this interface is a part of.
    pub fn using_link(&self, model: &Model, ifindex: u32) -> Vec<NextHopId> {
        let using = self.hops.iter().filter(|(_, hop)| next_hop_key::uses(&hop.next_hop_key, model, ifindex));
        using.map(|(id, _)| *id).collect()
    }

    /// The next hops that are others by other gateways.
    pub fn differing_by(&self, model: &Model, other: &Gateways) -> Vec<NextHopId> {
        let differs = |hop: &Hop| next_hop_key::differs_by(&hop.next_hop_key, model, other);
        self.hops.iter().filter(|(_, hop)| differs(hop)).map(|(id, _)| *id).collect()
    }

    /// How many lead by a gateway while it is there, and how many of these do without it now.
    pub fn by_gateway(&self, model: &Model, gateway: Gateway) -> (usize, usize) {
        let leads = |hop: &&Hop| next_hop_key::leads_by(&hop.next_hop_key, model, gateway);
        let is = |neighbour: Option<(u32, IpAddr)>| {
            neighbour.is_some_and(|(ifindex, address)| {
                address == gateway.address && gateway.ifindex.is_none_or(|own| own == ifindex)
            })
        };
        let does_without = |hop: &&Hop| match &hop.content {
            NextHop::Forward(paths) | NextHop::Sourced(paths) => {
                !paths.iter().any(|path| is(self.adjacencies.neighbour(path.adjacency)))
            }
            _ => false,
        };
        let all: Vec<&Hop> = self.hops.values().filter(leads).collect();
        (all.len(), all.into_iter().filter(does_without).count())
    }

    /// The next hops made from a target.
    pub fn of_target(&self, target: TargetId) -> Vec<NextHopId> {
        self.by_target.get(&target).map(|ids| ids.to_vec()).unwrap_or_default()
    }

    /// The next hop of a key in use.
    pub fn find(&self, next_hop_key: &NextHopKey) -> Option<NextHopId> {
        self.by_key.get(next_hop_key).copied()
    }

    /// The key of a next hop in use, and how many prefixes use it.
    pub fn next_hop_key(&self, id: NextHopId) -> Option<(NextHopKey, usize)> {
        self.hops.get(&id).map(|hop| (hop.next_hop_key, hop.prefixes))
    }

    /// All in use.
    pub fn ids(&self) -> Vec<NextHopId> {
        self.hops.keys().copied().collect()
    }

    /// What was written for it.
    pub fn content(&self, id: NextHopId) -> Option<&NextHop> {
        self.hops.get(&id).map(|hop| &hop.content)
    }

    /// Forgets what was written, so that the next [`Hops::refresh`] writes it.
    pub fn distrust(&mut self, id: NextHopId, is: NextHop) {
        if let Some(hop) = self.hops.get_mut(&id) {
            hop.content = is;
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.hops.len()
    }
}

/// What the key comes to, its adjacencies acquired and named in `keys`, also those that take no
/// part.
fn content(
    next_hop_key: NextHopKey,
    id: NextHopId,
    keys: &mut SmallVec<[Key; 1]>,
    adjacencies: &mut Adjacencies,
    model: &Model,
    ports: &Ports,
    tables: &mut Tables,
) -> Result<NextHop, FibError> {
    let ways = match next_hop_key::resolve(&next_hop_key, model, ports) {
        Outcome::Fixed(next_hop) => return Ok(next_hop),
        Outcome::Foreign(next_hop, ways) => {
            for key in ways {
                adjacencies.acquire(key, id, model, tables)?;
                keys.push(key);
            }
            return Ok(next_hop);
        }
        Outcome::Ways(ways) => ways,
    };
    let mut paths = Vec::with_capacity(ways.len());
    for (key, weight, takes_part) in ways {
        let adjacency = adjacencies.acquire(key, id, model, tables)?;
        keys.push(key);
        if !takes_part {
            continue;
        }
        match paths.iter_mut().find(|path: &&mut Path| path.adjacency == adjacency) {
            Some(path) => path.weight = path.weight.saturating_add(weight),
            None => paths.push(Path { adjacency, weight }),
        }
    }
    // As the tables tell it back: a single path has no weight to speak of.
    if let [only] = paths.as_mut_slice() {
        only.weight = 1;
    }
    Ok(if next_hop_key.is_sourced() { NextHop::Sourced(paths) } else { NextHop::Forward(paths) })
}
