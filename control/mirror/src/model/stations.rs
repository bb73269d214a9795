//! Hosts on bridges: behind which member each is, by its Ethernet address, as Linux has learnt or
//! was told.

use crate::netlink::station::StationMessage;
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::Mac;

/// What a host on a link of several parts is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outlet {
    /// A member of a bond or bridge, by Linux's index.
    Member(u32),
    /// An end of a VXLAN, that by Linux's index.
    #[allow(missing_docs)]
    End { vxlan: u32, end: IpAddr },
}

/// A host on a bridge, or behind an end of a VXLAN, which is as a bridge to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Station {
    /// The bridge, by Linux's index.
    pub bridge: u32,
    /// The VLAN of the bridge's that it is in; 0 where the bridge tells none apart.
    pub vlan: u16,
    /// Its Ethernet address.
    pub mac: Mac,
}

/// All of them, with the member that each is behind.
#[derive(Default)]
pub struct Stations(BTreeMap<Station, u32>);

impl Stations {
    /// The member of its bridge that a host is behind.
    pub fn member(&self, station: Station) -> Option<u32> {
        self.0.get(&station).copied()
    }

    /// All, with the member that each is behind.
    pub fn iter(&self) -> impl Iterator<Item = (Station, u32)> {
        self.0.iter().map(|(&station, &member)| (station, member))
    }

    /// Whether a message says what is known.
    pub(crate) fn agrees(&self, message: &StationMessage) -> bool {
        self.member(message.station) == message.member
    }

    /// Takes in what a message says; whether anything changed.
    pub(crate) fn set(&mut self, message: &StationMessage) -> bool {
        match message.member {
            Some(member) => self.0.insert(message.station, member) != Some(member),
            None => self.remove(message.station),
        }
    }

    /// Forgets a host; whether it was known.
    pub(crate) fn remove(&mut self, station: Station) -> bool {
        self.0.remove(&station).is_some()
    }

    /// Those on a bridge, or behind a member, that is gone.
    pub(crate) fn of(&self, ifindex: u32) -> Vec<Station> {
        let gone = self.iter().filter(|(station, member)| station.bridge == ifindex || *member == ifindex);
        gone.map(|(station, _)| station).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_behind_one_member_of_a_bridge_in_a_vlan() {
        let is = |bridge, vlan| Station { bridge, vlan, mac: Mac([2, 0, 0, 0, 0, 9]) };
        let said = |bridge, member| StationMessage { station: is(bridge, 0), member };
        let mut stations = Stations::default();
        assert!(stations.set(&said(1, Some(5))) && !stations.set(&said(1, Some(5))));
        assert!(stations.set(&said(2, Some(6))), "another bridge knows it as well");
        assert!(stations.set(&StationMessage { station: is(1, 10), member: Some(8) }), "and another VLAN");
        assert!(stations.set(&said(1, Some(7))), "it moved");
        assert!(stations.agrees(&said(1, Some(7))) && !stations.agrees(&said(1, Some(5))));
        let members = [is(1, 0), is(1, 10), is(1, 11)].map(|station| stations.member(station));
        assert_eq!(members, [Some(7), Some(8), None]);
        assert_eq!((stations.of(7), stations.of(2)), (vec![is(1, 0)], vec![is(2, 0)]));
        assert!(stations.set(&said(1, None)), "its address is the bridge's own now");
        assert!(!stations.set(&said(1, None)) && !stations.remove(is(1, 0)));
        assert_eq!(stations.iter().collect::<Vec<_>>(), [(is(1, 10), 8), (is(2, 0), 6)]);
    }
}
