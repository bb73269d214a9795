//! The other ends of VXLANs, and behind which of them each host is, by its Ethernet address, as
//! Linux has learnt or was told (`bridge fdb show dev vx0`).

use crate::netlink::vtep::{Vtep, VtepMessage};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::Mac;

/// A host behind an end of a VXLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Remote {
    /// The VXLAN, by Linux's index.
    pub vxlan: u32,
    /// Its Ethernet address; zeros: whoever is not known.
    pub mac: Mac,
    /// Of whoever is not known, for whom there may be several ends: this one.
    pub among: Option<IpAddr>,
}

const ANYBODY: Mac = Mac([0; 6]);

impl Remote {
    /// Of whom a message is.
    pub(crate) fn of(message: &VtepMessage) -> Remote {
        let VtepMessage { vxlan, mac, end } = *message;
        Remote { vxlan, mac, among: end.address.filter(|_| mac == ANYBODY) }
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct Vteps {
    hosts: BTreeMap<Remote, Vtep>,
    /// How many hosts are behind each, by VXLAN.
    ends: BTreeMap<u32, BTreeMap<Vtep, usize>>,
}

/// What a message changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Where a host is.
    pub host: bool,
    /// Which ends there are.
    pub ends: bool,
}

impl Vteps {
    /// The end that a host is behind, if that is known.
    pub fn of_host(&self, vxlan: u32, mac: Mac) -> Option<Vtep> {
        self.hosts.get(&Remote { vxlan, mac, among: None }).copied()
    }

    /// The one end to which all is sent that is for nobody who is known.
    pub fn of_anybody(&self, vxlan: u32) -> Option<Vtep> {
        let first = Remote { vxlan, mac: ANYBODY, among: None };
        let mut all =
            self.hosts.range(first..).take_while(|(host, _)| (host.vxlan, host.mac) == (vxlan, ANYBODY));
        let end = all.next().map(|(_, end)| *end);
        end.filter(|_| all.next().is_none())
    }

    /// Those of a VXLAN.
    pub fn ends(&self, vxlan: u32) -> BTreeSet<Vtep> {
        self.ends.get(&vxlan).into_iter().flat_map(|ends| ends.keys().copied()).collect()
    }

    pub fn all(&self) -> impl Iterator<Item = (Remote, Vtep)> {
        self.hosts.iter().map(|(host, end)| (*host, *end))
    }

    pub fn agrees(&self, message: &VtepMessage) -> bool {
        self.hosts.get(&Remote::of(message)) == Some(&message.end)
    }

    pub fn set(&mut self, message: &VtepMessage) -> Moved {
        if self.agrees(message) {
            return Moved::default();
        }
        let host = Remote::of(message);
        let ends = self.remove(host).ends;
        self.hosts.insert(host, message.end);
        let behind = self.ends.entry(host.vxlan).or_default().entry(message.end).or_default();
        *behind += 1;
        Moved { host: true, ends: ends || *behind == 1 }
    }

    pub fn remove(&mut self, host: Remote) -> Moved {
        let Some(end) = self.hosts.remove(&host) else { return Moved::default() };
        let Some(ends) = self.ends.get_mut(&host.vxlan) else { return Moved { host: true, ends: false } };
        let left = ends.get(&end).map_or(0, |behind| behind - 1);
        match left {
            0 => ends.remove(&end),
            left => ends.insert(end, left),
        };
        if ends.is_empty() {
            self.ends.remove(&host.vxlan);
        }
        Moved { host: true, ends: left == 0 }
    }

    /// Forgets a VXLAN.
    pub fn forget(&mut self, vxlan: u32) {
        self.ends.remove(&vxlan);
        self.hosts.retain(|host, _| host.vxlan != vxlan);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Mac = Mac([2, 0, 0, 0, 0, 9]);

    fn end(last: u8) -> Vtep {
        Vtep { address: Some([192, 0, 2, last].into()), by: 0 }
    }

    fn told(mac: Mac, end: Vtep) -> VtepMessage {
        VtepMessage { vxlan: 7, mac, end }
    }

    #[test]
    fn a_host_is_behind_one_end_and_whoever_is_unknown_behind_the_only_one() {
        let mut vteps = Vteps::default();
        let moved = |host, ends| Moved { host, ends };
        assert_eq!(vteps.set(&told(HOST, end(2))), moved(true, true));
        assert_eq!(vteps.set(&told(HOST, end(2))), moved(false, false));
        assert_eq!(vteps.set(&told(Mac([2; 6]), end(2))), moved(true, false));
        let unknown = Mac([4; 6]);
        let of = |vteps: &Vteps, mac| vteps.of_host(7, mac).or_else(|| vteps.of_anybody(7));
        assert_eq!((of(&vteps, HOST), of(&vteps, unknown)), (Some(end(2)), None));
        assert_eq!(vteps.set(&told(ANYBODY, end(2))), moved(true, false));
        assert_eq!((of(&vteps, unknown), vteps.of_host(8, HOST)), (Some(end(2)), None));
        assert_eq!(vteps.set(&told(ANYBODY, end(3))), moved(true, true), "all is sent to both");
        assert_eq!((of(&vteps, HOST), of(&vteps, unknown)), (Some(end(2)), None));
        assert_eq!(vteps.set(&told(HOST, end(3))), moved(true, false), "it moved");
        assert_eq!((of(&vteps, HOST), vteps.ends(7)), (Some(end(3)), BTreeSet::from([end(2), end(3)])));
        assert_eq!(vteps.remove(Remote::of(&told(ANYBODY, end(3)))), moved(true, false));
        assert_eq!(of(&vteps, unknown), Some(end(2)));
        assert_eq!(
            vteps.remove(Remote::of(&told(HOST, end(9)))),
            moved(true, true),
            "whatever it says of the end"
        );
        assert_eq!(of(&vteps, HOST), Some(end(2)));
        vteps.forget(7);
        assert_eq!((of(&vteps, HOST), vteps.ends(7).len(), vteps.all().count()), (None, 0, 0));
    }

    #[test]
    fn where_only_linux_sends_there_is_an_end_without_an_address() {
        let mut vteps = Vteps::default();
        let group = Vtep { address: None, by: 3 };
        vteps.set(&told(ANYBODY, group));
        vteps.set(&told(HOST, end(2)));
        assert_eq!((vteps.of_host(7, HOST), vteps.of_anybody(7)), (Some(end(2)), Some(group)));
    }
}
