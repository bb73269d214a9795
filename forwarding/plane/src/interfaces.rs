//! Logical interfaces: what lies on a port with tags of its own, as a VLAN does, or is a tunnel,
//! which is on none.
//!
//! A port's own interface has the port's number. Those here have the numbers behind. An interface
//! keeps its number while there is room, as a port does: rules and flows name it by that.
//!
//! What Linux has as one interface may be several here, which have its name and index: a bond or
//! bridge is the own interface of each of its members' ports, and a VLAN on a bond is one on each.
//! A VXLAN is one for each of its other ends. So both lanes know of ports, tags and interfaces
//! only, and whoever asks by name or index is given all.

use std::collections::HashMap;
use std::net::IpAddr;

use fib::{InterfaceEntry, InterfaceId, PortId, Tables, Tags, Traffic, Tunnel};
use tracing::warn;

use crate::port::{Bridging, Interface, Port};
use crate::{Plane, PlaneError, totals};

/// A logical interface.
pub struct LogicalInterface {
    /// Its number.
    pub id: InterfaceId,
    /// What Linux says of it; `None` while it is gone.
    pub interface: Option<Interface>,
    /// The port that it is on; `NONE` of a tunnel.
    pub port: PortId,
    /// Its tags there, or its header.
    pub tags: Tags,
    /// Linux's index and the port of what was counted before it came to be there, by the same
    /// number.
    before: (u32, PortId, Traffic),
}

/// Where an interface is: its port, and of a tunnel the other end.
pub type At = (PortId, Option<IpAddr>);

/// The place of what has these tags on a port, or is a tunnel.
pub fn at(port: PortId, tags: &Tags) -> At {
    (port, tags.tunnel().map(|tunnel| tunnel.over.remote()))
}

/// All of them, by name: one, or one for each port that it is on.
#[derive(Default)]
pub(crate) struct Interfaces {
    by_name: HashMap<String, Vec<LogicalInterface>>,
    /// The name of what has this index of Linux's, if it is there.
    names: HashMap<u32, String>,
    /// Numbers that are given out, each for as long as there is room for others.
    given: usize,
}

impl Interfaces {
    fn iter(&self) -> impl Iterator<Item = &LogicalInterface> {
        self.by_name.values().flatten()
    }

    /// Those that are Linux's interface of this index.
    fn of(&self, ifindex: u32) -> impl Iterator<Item = &LogicalInterface> {
        let named = self.names.get(&ifindex).and_then(|name| self.by_name.get(name));
        named.into_iter().flatten().filter(move |logical| logical.is(ifindex))
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut LogicalInterface> {
        self.by_name.values_mut().flatten()
    }

    /// That of a name at a place: the one that is there, else one of the name that is gone or was
    /// reserved, else a new one.
    fn placed(&mut self, name: &str, port: PortId, tags: Tags) -> Result<&mut LogicalInterface, PlaneError> {
        let known = self.by_name.get(name).map_or(&[][..], |known| known);
        let is = |logical: &LogicalInterface| logical.at() == at(port, &tags);
        let there = known.iter().position(|logical| logical.interface.is_some() && is(logical));
        let same = || known.iter().position(|logical| logical.interface.is_none() && is(logical));
        let free = || known.iter().position(|logical| logical.interface.is_none());
        let at = match there.or_else(same).or_else(free) {
            Some(at) => at,
            None => {
                let id = self.number(name)?;
                let known = self.by_name.entry(name.to_owned()).or_default();
                let before = (0, PortId::NONE, Traffic::default());
                known.push(LogicalInterface { id, interface: None, port, tags, before });
                known.len() - 1
            }
        };
        // It has just been found or put there.
        let known = self.by_name.entry(name.to_owned()).or_default();
        (known[at].port, known[at].tags) = (port, tags);
        Ok(&mut known[at])
    }

    /// A number that is free.
    fn number(&mut self, name: &str) -> Result<InterfaceId, PlaneError> {
        let first = usize::from(InterfaceId::FIRST_LOGICAL.0);
        if first + self.given < InterfaceId::COUNT {
            self.given += 1;
            return Ok(InterfaceId((first + self.given - 1) as u16));
        }
        // One that is gone makes room.
        let gone = self.iter().find(|logical| logical.interface.is_none()).map(|logical| logical.id);
        let id = gone.ok_or(PlaneError::TooManyInterfaces {
            name: name.to_owned(),
            most: InterfaceId::COUNT - first,
        })?;
        self.by_name.retain(|_, known| {
            known.retain(|logical| logical.id != id);
            !known.is_empty()
        });
        Ok(id)
    }
}

impl Plane {
    /// The interfaces that are no port's own, also those that are gone.
    pub fn logical(&self) -> impl Iterator<Item = &LogicalInterface> {
        self.interfaces.iter()
    }

    /// Those of them that are Linux's interface of this index, which is there.
    pub fn logical_of(&self, ifindex: u32) -> impl Iterator<Item = &LogicalInterface> {
        self.interfaces.of(ifindex)
    }

    /// The numbers of an interface that is there, a port's own or another, with the ports that it
    /// is on.
    pub fn interfaces_of(&self, ifindex: u32) -> impl Iterator<Item = (InterfaceId, &Port)> {
        let is = move |has: Option<&Interface>| has.is_some_and(|has| has.ifindex == ifindex);
        let own = self.ports.iter().filter(move |port| is(port.own()));
        let logical = self.interfaces.of(ifindex).filter_map(|logical| {
            let port = self.ports.get(usize::from(logical.port.0))?;
            Some((logical.id, port))
        });
        own.map(|port| (port.id.interface(), port)).chain(logical)
    }

    /// The first of them.
    pub fn interface_of(&self, ifindex: u32) -> Option<InterfaceId> {
        self.interfaces_of(ifindex).next().map(|(id, _)| id)
    }

    /// Whether an interface that is there is a bridge or lies on one.
    pub fn is_on_bridge(&self, ifindex: u32) -> bool {
        let own = self.ports.iter().filter_map(|port| port.own()).filter(|own| own.ifindex == ifindex);
        let logical = self.interfaces.of(ifindex).filter_map(|logical| logical.interface.as_ref());
        own.chain(logical).any(|interface| interface.bridge != Bridging::No)
    }

    /// What Linux says of the interfaces that packets enter and leave by now.
    pub fn in_use(&self) -> impl Iterator<Item = &Interface> {
        let taken = |id: PortId| self.ports.get(usize::from(id.0)).is_some_and(|port| port.taken.is_some());
        let ports = self.ports().iter().map(|port| (port.id, port.own()));
        let logical = self.logical().map(|logical| (logical.port, logical.interface.as_ref()));
        let on_ports = ports.chain(logical).filter(move |(port, _)| taken(*port)).filter_map(|(_, is)| is);
        on_ports.chain(self.tunnels().map(|(_, interface, _)| interface))
    }

    /// Names of the interfaces that have ever been there, with their numbers.
    pub fn interface_names(&self) -> impl Iterator<Item = (&str, InterfaceId)> {
        let ports = self.ports().iter().map(|port| (port.own_name(), port.id.interface()));
        let logical = self.interfaces.by_name.iter();
        let logical = logical.flat_map(|(name, all)| all.iter().map(move |one| (name.as_str(), one.id)));
        ports.chain(logical)
    }

    /// The interface that is called so, rather one that is there; or the port, where it is a
    /// bond's.
    pub fn interface_named(&self, name: &str) -> Option<InterfaceId> {
        let named = || self.interface_names().filter(|(known, _)| *known == name).map(|(_, id)| id);
        let port = || self.ports.iter().find(|port| port.name == name).map(|port| port.id.interface());
        named().find(|id| self.place(*id).is_some()).or_else(|| named().next()).or_else(port)
    }

    /// All that are called so, as [`interface_named`](Self::interface_named) finds the first.
    pub fn interfaces_named(&self, name: &str) -> Vec<InterfaceId> {
        let named = self.interface_names().filter(|(known, _)| *known == name).map(|(_, id)| id);
        let there: Vec<InterfaceId> = named.filter(|id| self.place(*id).is_some()).collect();
        if there.is_empty() { self.interface_named(name).into_iter().collect() } else { there }
    }

    /// The port that an interface is on, and what Linux says of the interface, while it is there.
    pub fn place(&self, id: InterfaceId) -> Option<(&Port, &Interface, Tags)> {
        if id < InterfaceId::FIRST_LOGICAL {
            let port = self.ports.get(usize::from(id.0))?;
            return Some((port, port.own()?, Tags::None));
        }
        let logical = self.logical().find(|logical| logical.id == id)?;
        let port = self.ports.get(usize::from(logical.port.0))?;
        Some((port, logical.interface.as_ref()?, logical.tags))
    }

    /// What passed an interface of Linux's: each port that it is on, or what it is on those. A
    /// port's own, and so a bond's, has what lies on it among it.
    pub fn traffic(&self, ifindex: u32) -> Traffic {
        let own = self.ports.iter().filter(|port| port.own().is_some_and(|own| own.ifindex == ifindex));
        let own = own.map(|port| self.port_traffic(port));
        let logical = self.interfaces.of(ifindex).map(|logical| {
            let port = self.ports.get(usize::from(logical.port.0));
            let now = totals::passed(&self.driver, &self.worker_pool, logical.id, port);
            totals::since(&now, &logical.before.2)
        });
        own.chain(logical).fold(Traffic::default(), |total, more| totals::both(&total, &more))
    }

    /// What passed a tunnel of this number.
    pub fn tunnel_traffic(&self, id: InterfaceId) -> Traffic {
        let logical = self.logical().find(|logical| logical.id == id);
        let since = |logical: &LogicalInterface| {
            totals::since(&totals::passed(&self.driver, &self.worker_pool, id, None), &logical.before.2)
        };
        logical.map(since).unwrap_or_default()
    }

    /// The tunnels that are there, by number.
    pub fn tunnels(&self) -> impl Iterator<Item = (InterfaceId, &Interface, &Tunnel)> {
        self.logical()
            .filter_map(|logical| Some((logical.id, logical.interface.as_ref()?, logical.tags.tunnel()?)))
    }

    /// The tunnels that are Linux's interface of this index: one, or of a VXLAN one for each other
    /// end.
    pub fn tunnels_of(&self, ifindex: u32) -> impl Iterator<Item = (InterfaceId, &Tunnel)> {
        self.interfaces.of(ifindex).filter_map(|logical| Some((logical.id, logical.tags.tunnel()?)))
    }

    /// Whether Linux's interface of this index is a tunnel that is there.
    pub fn is_tunnel(&self, ifindex: u32) -> bool {
        self.tunnels_of(ifindex).next().is_some()
    }

    /// The number of an interface that may not be there yet, which it has from now on.
    ///
    /// # Errors
    /// Where there is no room for it.
    pub fn reserve_interface(&mut self, name: &str) -> Result<InterfaceId, PlaneError> {
        if let Some(known) = self.interfaces.by_name.get(name).and_then(|known| known.first()) {
            return Ok(known.id);
        }
        self.stale = true;
        self.interfaces.placed(name, PortId::NONE, Tags::None).map(|logical| logical.id)
    }

    /// Takes an interface with these tags on a port, or takes note of what changed about it. Says
    /// whether packets enter and leave by it now: they do while its port is taken. One that is on
    /// several ports is taken once for each.
    ///
    /// # Errors
    /// Where there is no room for it, or another one has the same tags. Linux has it then, as
    /// before.
    pub fn adopt_interface(
        &mut self,
        interface: Interface,
        port: PortId,
        tags: Tags,
        tables: &mut Tables,
    ) -> Result<bool, PlaneError> {
        if self.interfaces.names.get(&interface.ifindex).is_some_and(|name| *name != interface.name) {
            self.forget_interface(interface.ifindex, tables);
        }
        let known = self.interfaces.given;
        let logical = self.interfaces.placed(&interface.name, port, tags)?;
        let (id, is, of) = (logical.id, interface.ifindex, self.ports.get(usize::from(port.0)));
        if (logical.before.0, logical.before.1) != (is, port) {
            let counted = totals::passed(&self.driver, &self.worker_pool, id, of);
            logical.before = (is, port, counted);
        }
        let name = interface.name.clone();
        logical.interface = Some(interface);
        let entry = logical.entry(of);
        let there = entry.is_some();
        self.interfaces.names.insert(is, name);
        self.open_programs(entry.as_ref());
        if let Err(error) = tables.set_interface(id, entry) {
            // What was there is no more what Linux has.
            let _ = tables.set_interface(id, None);
            let refused = self.interfaces.iter_mut().filter(|logical| logical.id == id);
            refused.for_each(|logical| logical.interface = None);
            return Err(PlaneError::Tables(error));
        }
        self.stale |= known != self.interfaces.given;
        Ok(there)
    }

    /// Forgets an interface that is gone, or that Linux shall have again; whether it was known.
    pub fn forget_interface(&mut self, ifindex: u32, tables: &mut Tables) -> bool {
        self.forget_interfaces(ifindex, |_| true, tables)
    }

    /// Forgets an interface at those of its places that `which` says; whether there were any.
    pub fn forget_interfaces(
        &mut self,
        ifindex: u32,
        which: impl Fn(At) -> bool,
        tables: &mut Tables,
    ) -> bool {
        let Some(name) = self.interfaces.names.get(&ifindex) else { return false };
        let (mut any, mut left) = (false, false);
        for logical in self.interfaces.by_name.get_mut(name).into_iter().flatten() {
            if !logical.is(ifindex) {
                continue;
            }
            if !which(logical.at()) {
                left = true;
                continue;
            }
            logical.interface = None;
            any = true;
            // To take one out is never refused.
            let _ = tables.set_interface(logical.id, None);
        }
        if !left {
            self.interfaces.names.remove(&ifindex);
        }
        any
    }

    /// Says of which bond or bridge a port is a member, or which VLAN on that bridge it has without
    /// a tag: packets enter and leave by it as that one's from now on. What Linux says of it is as
    /// it is for this member.
    pub fn join(&mut self, id: PortId, whole: Option<Interface>, tables: &mut Tables) {
        let Some(port) = self.ports.get_mut(usize::from(id.0)) else { return };
        if port.whole == whole {
            return;
        }
        let renamed = port.own_name() != whole.as_ref().map_or(&port.name, |whole| &whole.name);
        port.whole = whole;
        self.stale |= renamed;
        self.publish(id, tables);
    }

    /// Writes anew what the tables have of the interfaces on a port.
    pub(crate) fn publish_logical(&self, port: PortId, tables: &mut Tables) {
        let Some(of) = self.ports.get(usize::from(port.0)) else { return };
        for logical in self.interfaces.iter().filter(|logical| logical.port == port) {
            if let Err(error) = tables.set_interface(logical.id, logical.entry(Some(of))) {
                let name = logical.interface.as_ref().map_or("an interface", |interface| &interface.name);
                warn!("{name}: not in the tables: {error}");
            }
        }
    }
}

impl LogicalInterface {
    fn is(&self, ifindex: u32) -> bool {
        self.interface.as_ref().is_some_and(|has| has.ifindex == ifindex)
    }

    /// Where it is.
    pub fn at(&self) -> At {
        at(self.port, &self.tags)
    }

    /// What both lanes read of it.
    fn entry(&self, port: Option<&Port>) -> Option<InterfaceEntry> {
        let interface = self.interface.as_ref()?;
        if self.tags.tunnel().is_some() {
            return Some(interface.tunnel_entry(self.tags));
        }
        let port = port?;
        // What the port has without tags may be another VLAN.
        let own = if interface.bridge == Bridging::ByVlan { port.interface.as_ref() } else { port.own() };
        let below = own?;
        let both = Interface { up: interface.up && below.up, ..interface.clone() };
        port.entry_of(&both, self.tags)
    }
}
