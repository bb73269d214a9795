//! Neighbours: who is behind an interface, and at which Ethernet address.

use crate::netlink::neighbour::NeighbourMessage;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
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
pub struct Neighbours {
    by_address: BTreeMap<(IpAddr, u32), Neighbour>,
    by_mac: BTreeSet<(u32, Mac, IpAddr)>,
}

impl Neighbours {
    /// The neighbour with this address behind this interface.
    pub fn find(&self, ifindex: u32, address: IpAddr) -> Option<&Neighbour> {
        self.by_address.get(&(address, ifindex))
    }

    /// All, as (interface, address, neighbour).
    pub fn iter(&self) -> impl Iterator<Item = (u32, IpAddr, &Neighbour)> {
        self.by_address.iter().map(|(&(address, ifindex), neighbour)| (ifindex, address, neighbour))
    }

    /// Those whose address is in the range, as (interface, address, neighbour).
    pub fn within(&self, first: IpAddr, last: IpAddr) -> impl Iterator<Item = (u32, IpAddr, &Neighbour)> {
        let range = self.by_address.range((first, 0)..=(last, u32::MAX));
        range.map(|(&(address, ifindex), neighbour)| (ifindex, address, neighbour))
    }

    /// Those behind `after`, in order of address and interface.
    pub fn after(&self, after: Option<(IpAddr, u32)>) -> impl Iterator<Item = (u32, IpAddr, &Neighbour)> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let range = self.by_address.range((from, std::ops::Bound::Unbounded));
        range.map(|(&(address, ifindex), neighbour)| (ifindex, address, neighbour))
    }

    /// The addresses of those with this Ethernet address behind an interface.
    pub fn at(&self, ifindex: u32, mac: Mac) -> impl Iterator<Item = IpAddr> {
        let from = (ifindex, mac, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let from_there_on = self.by_mac.range(from..);
        let at = from_there_on.take_while(move |(of, at, _)| (*of, *at) == (ifindex, mac));
        at.map(|(.., address)| *address)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.by_address.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    pub(crate) fn set(&mut self, message: &NeighbourMessage) -> bool {
        let new = known(message);
        let (ifindex, address) = (message.ifindex, message.address);
        let old = self.by_address.insert((address, ifindex), new);
        let had = old.and_then(|old| old.mac);
        if had != new.mac {
            had.map(|mac| self.by_mac.remove(&(ifindex, mac, address)));
            new.mac.map(|mac| self.by_mac.insert((ifindex, mac, address)));
        }
        old != Some(new)
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
        let old = self.by_address.remove(&(address, ifindex));
        old.and_then(|old| old.mac).map(|mac| self.by_mac.remove(&(ifindex, mac, address)));
        old.is_some()
    }
}

fn known(message: &NeighbourMessage) -> Neighbour {
    Neighbour { mac: message.mac.map(Mac), state: message.state, flags: message.flags }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn neighbours_are_found_by_their_ethernet_addresses(
            changes in prop::collection::vec((0u32..3, 0u8..4, prop::option::of(0u8..3), any::<bool>()), 0..60),
        ) {
            let mut neighbours = Neighbours::default();
            for (ifindex, last, mac, gone) in changes {
                let address = IpAddr::from([10, 0, 0, last]);
                if gone {
                    neighbours.remove(ifindex, address);
                } else {
                    let mac = mac.map(|last| [2, 0, 0, 0, 0, last]);
                    neighbours.set(&NeighbourMessage { ifindex, address, mac, state: REACHABLE, flags: 0 });
                }
            }
            for ifindex in 0..3 {
                for mac in (0..3).map(|last| Mac([2, 0, 0, 0, 0, last])) {
                    let all = neighbours.iter();
                    let naive = all.filter(|(of, _, is)| *of == ifindex && is.mac == Some(mac));
                    let naive: Vec<_> = naive.map(|(_, address, _)| address).collect();
                    prop_assert_eq!(neighbours.at(ifindex, mac).collect::<Vec<_>>(), naive);
                }
            }
            let macs = neighbours.iter().filter(|(.., is)| is.mac.is_some()).count();
            prop_assert_eq!(neighbours.by_mac.len(), macs);
        }
    }
}
