//! Hosts on bridges: behind which member each is, by its Ethernet address, as Linux has learnt or
//! was told.

use crate::netlink::station::StationMessage;
use std::collections::BTreeMap;
use wire::Mac;

/// All of them.
#[derive(Default)]
pub struct Stations(BTreeMap<(u32, Mac), u32>);

impl Stations {
    /// The member of a bridge that a host is behind.
    pub fn member(&self, bridge: u32, mac: Mac) -> Option<u32> {
        self.0.get(&(bridge, mac)).copied()
    }

    /// All, as (bridge, host, member).
    pub fn iter(&self) -> impl Iterator<Item = (u32, Mac, u32)> {
        self.0.iter().map(|(&(bridge, mac), &member)| (bridge, mac, member))
    }

    /// Whether a message says what is known.
    pub(crate) fn agrees(&self, message: &StationMessage) -> bool {
        self.member(message.bridge, Mac(message.mac)) == message.member
    }

    /// Takes in what a message says; whether anything changed.
    pub(crate) fn set(&mut self, message: &StationMessage) -> bool {
        let key = (message.bridge, Mac(message.mac));
        match message.member {
            Some(member) => self.0.insert(key, member) != Some(member),
            None => self.remove(key.0, key.1),
        }
    }

    /// Forgets a host; whether it was known.
    pub(crate) fn remove(&mut self, bridge: u32, mac: Mac) -> bool {
        self.0.remove(&(bridge, mac)).is_some()
    }

    /// Those on a bridge, or behind a member, that is gone.
    pub(crate) fn of(&self, ifindex: u32) -> Vec<(u32, Mac)> {
        let gone = self.iter().filter(|(bridge, _, member)| *bridge == ifindex || *member == ifindex);
        gone.map(|(bridge, mac, _)| (bridge, mac)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_behind_one_member_of_a_bridge() {
        let said = |bridge, last, member| StationMessage { bridge, mac: [2, 0, 0, 0, 0, last], member };
        let mac = |last| Mac([2, 0, 0, 0, 0, last]);
        let mut stations = Stations::default();
        assert!(stations.set(&said(1, 9, Some(5))) && !stations.set(&said(1, 9, Some(5))));
        assert!(stations.set(&said(2, 9, Some(6))), "another bridge knows it as well");
        assert!(stations.set(&said(1, 9, Some(7))), "it moved");
        assert!(stations.agrees(&said(1, 9, Some(7))) && !stations.agrees(&said(1, 9, Some(5))));
        assert_eq!((stations.member(1, mac(9)), stations.member(1, mac(8))), (Some(7), None));
        assert_eq!((stations.of(7), stations.of(2)), (vec![(1, mac(9))], vec![(2, mac(9))]));
        assert!(stations.set(&said(1, 9, None)), "its address is the bridge's own now");
        assert!(!stations.set(&said(1, 9, None)) && !stations.remove(1, mac(9)));
        assert_eq!(stations.iter().collect::<Vec<_>>(), [(2, mac(9), 6)]);
    }
}
