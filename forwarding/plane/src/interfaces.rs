//! Logical interfaces: what lies on a port with tags of its own, as a VLAN does.
//!
//! A port's own interface has the port's number. Those here have the numbers behind. An interface
//! keeps its number while there is room, as a port does: rules and flows name it by that.

use std::collections::HashMap;

use fib::{InterfaceEntry, InterfaceId, PortId, Tables, Tags};
use tracing::warn;

use crate::port::{Interface, Port};
use crate::{Plane, PlaneError};

/// A logical interface.
pub struct LogicalInterface {
    /// Its number.
    pub id: InterfaceId,
    /// What Linux says of it; `None` while it is gone.
    pub interface: Option<Interface>,
    /// The port that it is on.
    pub port: PortId,
    /// Its tags there.
    pub tags: Tags,
}

/// All of them, by name.
#[derive(Default)]
pub(crate) struct Interfaces {
    by_name: HashMap<String, LogicalInterface>,
}

impl Interfaces {
    fn of(&self, ifindex: u32) -> Option<&LogicalInterface> {
        let is = |logical: &&LogicalInterface| {
            logical.interface.as_ref().is_some_and(|has| has.ifindex == ifindex)
        };
        self.by_name.values().find(is)
    }

    /// The number of a name, which it has already or gets now.
    fn number(&mut self, name: &str) -> Result<InterfaceId, PlaneError> {
        if let Some(logical) = self.by_name.get(name) {
            return Ok(logical.id);
        }
        let first = usize::from(InterfaceId::FIRST_LOGICAL.0);
        let next = first + self.by_name.len();
        if next < InterfaceId::COUNT {
            return Ok(InterfaceId(next as u16));
        }
        // One that is gone makes room.
        let gone = self.by_name.iter().find(|(_, logical)| logical.interface.is_none());
        let gone = gone.map(|(name, logical)| (name.clone(), logical.id));
        let (old, id) = gone.ok_or(PlaneError::TooManyInterfaces {
            name: name.to_owned(),
            most: InterfaceId::COUNT - first,
        })?;
        self.by_name.remove(&old);
        Ok(id)
    }
}

impl Plane {
    /// The interfaces that are no port's own, also those that are gone.
    pub fn logical(&self) -> impl Iterator<Item = &LogicalInterface> {
        self.interfaces.by_name.values()
    }

    /// The number of an interface that is there, a port's own or another.
    pub fn interface_of(&self, ifindex: u32) -> Option<InterfaceId> {
        let port = self.port_of(ifindex).map(|port| port.id.interface());
        port.or_else(|| self.interfaces.of(ifindex).map(|logical| logical.id))
    }

    /// What Linux says of the interfaces that packets enter and leave by now.
    pub fn in_use(&self) -> impl Iterator<Item = &Interface> {
        let taken = |id: PortId| self.ports.get(usize::from(id.0)).is_some_and(|port| port.taken.is_some());
        let ports = self.ports().iter().map(|port| (port.id, &port.interface));
        let logical = self.logical().map(|logical| (logical.port, &logical.interface));
        ports.chain(logical).filter(move |(port, _)| taken(*port)).filter_map(|(_, is)| is.as_ref())
    }

    /// Names of the interfaces that have ever been there, with their numbers.
    pub fn interface_names(&self) -> impl Iterator<Item = (&str, InterfaceId)> {
        let ports = self.ports().iter().map(|port| (port.name.as_str(), port.id.interface()));
        ports.chain(self.interfaces.by_name.iter().map(|(name, logical)| (name.as_str(), logical.id)))
    }

    /// The interface that is there and called so.
    pub fn interface_named(&self, name: &str) -> Option<InterfaceId> {
        self.interface_names().find(|(known, _)| *known == name).map(|(_, id)| id)
    }

    /// The port that an interface is on, and what Linux says of the interface, while it is there.
    pub fn place(&self, id: InterfaceId) -> Option<(&Port, &Interface, Tags)> {
        if id < InterfaceId::FIRST_LOGICAL {
            let port = self.ports.get(usize::from(id.0))?;
            return Some((port, port.interface.as_ref()?, Tags::None));
        }
        let logical = self.logical().find(|logical| logical.id == id)?;
        let port = self.ports.get(usize::from(logical.port.0))?;
        Some((port, logical.interface.as_ref()?, logical.tags))
    }

    /// The number of an interface that may not be there yet, which it has from now on.
    ///
    /// # Errors
    /// Where there is no room for it.
    pub fn reserve_interface(&mut self, name: &str) -> Result<InterfaceId, PlaneError> {
        let id = self.interfaces.number(name)?;
        self.stale |= !self.interfaces.by_name.contains_key(name);
        let unknown = || LogicalInterface { id, interface: None, port: PortId::NONE, tags: Tags::None };
        self.interfaces.by_name.entry(name.to_owned()).or_insert_with(unknown);
        Ok(id)
    }

    /// Takes an interface with these tags on a port, or takes note of what changed about it. Says
    /// whether packets enter and leave by it now: they do while its port is taken.
    ///
    /// # Errors
    /// Where there is no room for it, or another one has the same tags. Linux has it then, as before.
    pub fn adopt_interface(
        &mut self,
        interface: Interface,
        port: PortId,
        tags: Tags,
        tables: &mut Tables,
    ) -> Result<bool, PlaneError> {
        let name = interface.name.clone();
        let id = self.reserve_interface(&name)?;
        let logical = LogicalInterface { id, interface: Some(interface), port, tags };
        let entry = self.ports.get(usize::from(port.0)).and_then(|port| logical.entry(port));
        let there = entry.is_some();
        self.open_vrfs(entry.as_ref());
        if let Err(error) = tables.set_interface(id, entry) {
            // What was there is no more what Linux has.
            let _ = tables.set_interface(id, None);
            self.interfaces.by_name.insert(name, LogicalInterface { interface: None, ..logical });
            return Err(PlaneError::Tables(error));
        }
        self.interfaces.by_name.insert(name, logical);
        Ok(there)
    }

    /// Forgets an interface that is gone, or that Linux shall have again; whether it was known.
    pub fn forget_interface(&mut self, ifindex: u32, tables: &mut Tables) -> bool {
        let Some(id) = self.interfaces.of(ifindex).map(|logical| logical.id) else { return false };
        for logical in self.interfaces.by_name.values_mut().filter(|logical| logical.id == id) {
            logical.interface = None;
        }
        // To take one out is never refused.
        let _ = tables.set_interface(id, None);
        true
    }

    /// Writes anew what the tables have of the interfaces on a port.
    pub(crate) fn publish_logical(&self, port: PortId, tables: &mut Tables) {
        let Some(of) = self.ports.get(usize::from(port.0)) else { return };
        for (name, logical) in self.interfaces.by_name.iter().filter(|(_, logical)| logical.port == port) {
            if let Err(error) = tables.set_interface(logical.id, logical.entry(of)) {
                warn!("{name}: not in the tables: {error}");
            }
        }
    }
}

impl LogicalInterface {
    /// What both lanes read of it.
    fn entry(&self, port: &Port) -> Option<InterfaceEntry> {
        let interface = self.interface.as_ref()?;
        let below = port.interface.as_ref()?;
        let both = Interface { up: interface.up && below.up, ..interface.clone() };
        port.entry_of(&both, self.tags)
    }
}
