//! Neighbours: who is behind an interface, and at which Ethernet address.

use crate::netlink::neighbour::NeighbourMessage;
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::Mac;

const INCOMPLETE: u16 = 0x01;
const REACHABLE: u16 = 0x02;
const STALE: u16 = 0x04;
const DELAY: u16 = 0x08;
const PROBE: u16 = 0x10;
const FAILED: u16 = 0x20;
const NOARP: u16 = 0x40;
const PERMANENT: u16 = 0x80;

/// A neighbour as Linux knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its Ethernet address, as far as known.
    pub mac: Option<Mac>,
    /// `NUD_*`.
    pub state: u16,
    /// `NTF_*`.
    pub flags: u8,
}

impl Neighbour {
    /// The address to send to: known, and not given up.
    pub fn usable(&self) -> Option<Mac> {
        let usable = self.state & (REACHABLE | STALE | DELAY | PROBE | NOARP | PERMANENT) != 0;
        self.mac.filter(|_| usable)
    }

    /// Linux asked and got no answer.
    pub fn failed(&self) -> bool {
        self.state & FAILED != 0
    }

    /// Linux is about to forget it unless somebody uses it.
    pub fn stale(&self) -> bool {
        self.state & STALE != 0
    }

    /// The state's name, as `ip neighbour` writes it.
    pub fn state_name(&self) -> &'static str {
        match self.state {
            s if s & PERMANENT != 0 => "permanent",
            s if s & NOARP != 0 => "noarp",
            s if s & REACHABLE != 0 => "reachable",
            s if s & STALE != 0 => "stale",
            s if s & DELAY != 0 => "delay",
            s if s & PROBE != 0 => "probe",
            s if s & FAILED != 0 => "failed",
            s if s & INCOMPLETE != 0 => "incomplete",
            _ => "none",
        }
    }
}

/// All neighbours, by address, then interface.
#[derive(Default)]
pub struct Neighbours(BTreeMap<(IpAddr, u32), Neighbour>);

impl Neighbours {
    /// The neighbour with this address behind this interface.
    pub fn find(&self, ifindex: u32, address: IpAddr) -> Option<&Neighbour> {
        self.0.get(&(address, ifindex))
    }

    /// All, as (interface, address, neighbour).
    pub fn iter(&self) -> impl Iterator<Item = (u32, IpAddr, &Neighbour)> {
        self.0.iter().map(|(&(address, ifindex), neighbour)| (ifindex, address, neighbour))
    }

    /// Those whose address is in the range, as (interface, address, neighbour).
    pub fn within(&self, first: IpAddr, last: IpAddr) -> impl Iterator<Item = (u32, IpAddr, &Neighbour)> {
        let range = self.0.range((first, 0)..=(last, u32::MAX));
        range.map(|(&(address, ifindex), neighbour)| (ifindex, address, neighbour))
    }

    /// Those behind `after`, in order of address and interface.
    pub fn after(&self, after: Option<(IpAddr, u32)>) -> impl Iterator<Item = (u32, IpAddr, &Neighbour)> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let range = self.0.range((from, std::ops::Bound::Unbounded));
        range.map(|(&(address, ifindex), neighbour)| (ifindex, address, neighbour))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn set(&mut self, message: &NeighbourMessage) -> bool {
        let new = known(message);
        self.0.insert((message.address, message.ifindex), new) != Some(new)
    }

    /// Whether what is known forwards as the message says.
    pub(crate) fn forwards_alike(&self, message: &NeighbourMessage) -> bool {
        let new = known(message);
        match self.find(message.ifindex, message.address) {
            Some(old) => old.usable() == new.usable() && old.failed() == new.failed(),
            None => new.usable().is_none() && !new.failed(),
        }
    }

    /// Whether what is known agrees with a message that was read, not heard: Linux tells when a
    /// neighbour is found or has failed, but not when it asks again for one that had.
    pub(crate) fn agrees(&self, message: &NeighbourMessage) -> bool {
        let asks_again = known(message).usable().is_none() && !known(message).failed();
        let unusable = self.find(message.ifindex, message.address).is_none_or(|old| old.usable().is_none());
        self.forwards_alike(message) || (asks_again && unusable)
    }

    pub(crate) fn remove(&mut self, ifindex: u32, address: IpAddr) -> bool {
        self.0.remove(&(address, ifindex)).is_some()
    }
}

fn known(message: &NeighbourMessage) -> Neighbour {
    Neighbour { mac: message.mac.map(Mac), state: message.state, flags: message.flags }
}
