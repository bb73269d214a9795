//! The adjacencies in use: one for each way out that next hops name, with the neighbour's Ethernet
//! address.
//!
//! An adjacency is known by what does not change about it: port, interface, gateway and the route's
//! own MTU. What changes (the neighbour's address, the interface's MTU) is its content, and a
//! change is one write for all routes that lead there.

use crate::model::{Model, Outlet};
use fib::{Adjacency, AdjacencyId, FibError, InterfaceId, NextHopId, Tables};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use wire::Mac;

/// No port: packets go to Linux.
pub(crate) const FOREIGN: InterfaceId = InterfaceId(0xffff);

/// What identifies an adjacency. The default one is for ways that are not Bifrost's: never
/// resolved, so that Linux gets the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub ifindex: u32,
    pub gateway: Option<IpAddr>,
    pub mtu: u32,
    pub interface: InterfaceId,
    pub behind: Behind,
}

/// Where on the link the neighbour must be, or packets to it are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Behind {
    /// Wherever.
    Any,
    /// Behind this member of the bridge, or this end of the VXLAN.
    This(Outlet),
    /// Linux has it, or looks for it.
    Linux,
}

/// For the log.
impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.gateway {
            Some(gateway) => write!(f, "{gateway}"),
            None => write!(f, "interface number {}", self.ifindex),
        }
    }
}

impl Key {
    pub const FOREIGN: Key =
        Key { ifindex: 0, gateway: None, mtu: 0, interface: FOREIGN, behind: Behind::Linux };

    /// Whether packets are Linux's by an interface that is not the plane's.
    pub fn is_foreign(&self) -> bool {
        self.interface == FOREIGN
    }
}

struct Slot {
    id: AdjacencyId,
    content: Adjacency,
    users: BTreeMap<NextHopId, u32>,
}

/// All adjacencies.
#[derive(Default)]
pub(crate) struct Adjacencies {
    slots: BTreeMap<Key, Slot>,
    by_id: HashMap<AdjacencyId, Key>,
    unresolved: BTreeSet<(u32, IpAddr)>,
}

impl Adjacencies {
    /// The adjacency's number, made if there is none. `user` uses it once more.
    pub fn acquire(
        &mut self,
        key: Key,
        user: NextHopId,
        model: &Model,
        tables: &mut Tables,
    ) -> Result<AdjacencyId, FibError> {
        if let Some(slot) = self.slots.get_mut(&key) {
            *slot.users.entry(user).or_default() += 1;
            return Ok(slot.id);
        }
        let content = wanted(&key, model);
        let id = tables.add_adjacency(&content)?;
        self.note_resolution(&key, &content);
        self.by_id.insert(id, key);
        self.slots.insert(key, Slot { id, content, users: BTreeMap::from([(user, 1)]) });
        Ok(id)
    }

    /// `user` uses it once less; the last use frees it.
    pub fn release(&mut self, key: &Key, user: NextHopId, tables: &mut Tables) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        if let Some(uses) = slot.users.get_mut(&user) {
            *uses -= 1;
            if *uses == 0 {
                slot.users.remove(&user);
            }
        }
        if slot.users.is_empty() {
            tables.remove_adjacency(slot.id);
            self.by_id.remove(&slot.id);
            self.slots.remove(key);
            if let Some(gateway) = key.gateway
                && self.of_neighbour(key.ifindex, gateway).all(Key::is_foreign)
            {
                self.unresolved.remove(&(key.ifindex, gateway));
            }
        }
    }

    /// Brings what is written for a neighbour up to date; the next hops that use it.
    pub fn refresh_neighbour(
        &mut self,
        ifindex: u32,
        address: IpAddr,
        model: &Model,
        tables: &mut Tables,
    ) -> Result<Vec<NextHopId>, FibError> {
        let keys: Vec<Key> = self.of_neighbour(ifindex, address).copied().collect();
        self.refresh(&keys, model, tables)
    }

    /// Brings what is written for all neighbours behind an interface up to date.
    pub fn refresh_link(&mut self, ifindex: u32, model: &Model, tables: &mut Tables) -> Result<(), FibError> {
        let interface = InterfaceId(0);
        let from = Key { ifindex, gateway: None, mtu: 0, interface, behind: Behind::Any };
        let keys: Vec<Key> =
            self.slots.range(from..).map(|(key, _)| *key).take_while(|key| key.ifindex == ifindex).collect();
        self.refresh(&keys, model, tables).map(drop)
    }

    fn refresh(
        &mut self,
        keys: &[Key],
        model: &Model,
        tables: &mut Tables,
    ) -> Result<Vec<NextHopId>, FibError> {
        let mut users = Vec::new();
        for key in keys {
            let content = wanted(key, model);
            self.note_resolution(key, &content);
            let Some(slot) = self.slots.get_mut(key) else {
                continue;
            };
            users.extend(slot.users.keys());
            if slot.content != content {
                tables.set_adjacency(slot.id, &content)?;
                slot.content = content;
            }
        }
        Ok(users)
    }

    /// Compares every adjacency with the tables, behind `after`, at most `limit`; repairs, and
    /// tells each difference.
    pub fn audit(
        &mut self,
        after: Option<Key>,
        limit: usize,
        model: &Model,
        tables: &mut Tables,
        mut differs: impl FnMut(&Key, String),
    ) -> Option<Key> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let mut last = None;
        for (key, slot) in self.slots.range_mut((from, std::ops::Bound::Unbounded)).take(limit) {
            last = Some(*key);
            let content = wanted(key, model);
            let has = tables.adjacency(slot.id);
            if has.as_ref() != Some(&content) {
                differs(key, format!("is {has:?}, must be {content:?}"));
                if tables.set_adjacency(slot.id, &content).is_ok() {
                    slot.content = content;
                }
            }
        }
        last
    }

    /// The neighbour that an adjacency leads to.
    pub fn neighbour(&self, id: AdjacencyId) -> Option<(u32, IpAddr)> {
        let key = self.by_id.get(&id)?;
        Some((key.ifindex, key.gateway?))
    }

    /// The neighbours that programmed next hops need and Linux has not resolved.
    pub fn unresolved(&self) -> impl Iterator<Item = (u32, IpAddr)> {
        self.unresolved.iter().copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    fn of_neighbour(&self, ifindex: u32, address: IpAddr) -> impl Iterator<Item = &Key> {
        let interface = InterfaceId(0);
        let from = Key { ifindex, gateway: Some(address), mtu: 0, interface, behind: Behind::Any };
        let to = Key { mtu: u32::MAX, interface: InterfaceId(u16::MAX), behind: Behind::Linux, ..from };
        self.slots.range(from..=to).map(|(key, _)| key)
    }

    fn note_resolution(&mut self, key: &Key, content: &Adjacency) {
        let Some(gateway) = key.gateway.filter(|_| !key.is_foreign()) else {
            return;
        };
        if content.mac.is_none() {
            self.unresolved.insert((key.ifindex, gateway));
        } else {
            self.unresolved.remove(&(key.ifindex, gateway));
        }
    }
}

/// What the adjacency must hold, by the model.
fn wanted(key: &Key, model: &Model) -> Adjacency {
    let link = model.links.by_index(key.ifindex);
    let link_mtu = link.map_or(0, |link| link.mtu);
    let mtu = if key.mtu == 0 { link_mtu } else { key.mtu.min(link_mtu) };
    let neighbour = key.gateway.and_then(|gateway| model.neighbours.find(key.ifindex, gateway));
    let mac = match link {
        // There is nobody but the other end.
        Some(link) if !link.is.kind().has_neighbours() => Some([0; 6]),
        _ => {
            let is_there = |mac: &Mac| match key.behind {
                Behind::Any => true,
                Behind::This(outlet) => model.outlet_towards(key.ifindex, *mac) == Some(outlet),
                Behind::Linux => false,
            };
            neighbour.and_then(|neighbour| neighbour.usable()).filter(is_there).map(|mac| mac.0)
        }
    };
    Adjacency { interface: key.interface, mtu, mac }
}
