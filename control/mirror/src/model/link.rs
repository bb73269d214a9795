//! Interfaces, and the settings of each that decide forwarding.

use super::vlans::{MemberVlans, Vlans};
use super::vteps::{Moved, Remote, Vteps};
use crate::kind::{Bridged, Is, Member};
use crate::netlink::link::{BridgedMessage, LinkMessage};
use crate::netlink::netconf::{ALL, NetconfMessage};
use crate::netlink::vlan::VlansMessage;
use crate::netlink::vtep::{Vtep, VtepMessage};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use wire::Mac;

/// An interface of Linux.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its index: its identity until it is deleted. Recreated under the same name, it has another.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: Option<Mac>,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Switched on by the operator.
    pub up: bool,
    /// Has carrier and can carry packets.
    pub running: bool,
    /// The loopback.
    pub loopback: bool,
    /// What made it: `veth`, `bond`...; `None` for hardware.
    pub kind: Option<String>,
    /// Index of the bond, bridge or VRF that it belongs to.
    pub master: Option<u32>,
    /// What it is, of the kinds that the plane tells apart.
    pub is: Is,
    /// What it is as a member of the bond that is its master, if it is one.
    pub member: Option<Member>,
    /// What it is as a member of the bridge that is its master, if it is one.
    pub bridged: Option<Bridged>,
    /// Linux forwards IPv4 packets that arrive here.
    pub forwarding4: bool,
    /// Linux forwards IPv6 packets (one setting for all interfaces).
    pub forwarding6: bool,
    /// IPv4 reverse-path filter in force: 0 off, 1 strict, 2 loose.
    pub rp_filter: u8,
    /// IPv4 routes by this interface are passed over while it has no carrier.
    pub ignore_linkdown4: bool,
    /// The same for IPv6.
    pub ignore_linkdown6: bool,
}

/// All interfaces.
#[derive(Default)]
pub struct Links {
    links: BTreeMap<u32, Link>,
    settings: HashMap<(bool, i32), Settings>,
    vlans: Vlans,
    vteps: Vteps,
    /// By which address of this machine a VXLAN that has none sends to each end.
    sources: BTreeMap<(u32, IpAddr), IpAddr>,
}

#[derive(Clone, Copy, Default)]
struct Settings {
    forwarding: bool,
    rp_filter: u8,
    ignore_linkdown: bool,
}

impl FromIterator<Link> for Links {
    fn from_iter<I: IntoIterator<Item = Link>>(links: I) -> Links {
        let links = links.into_iter().map(|link| (link.ifindex, link)).collect();
        Links { links, ..Links::default() }
    }
}

impl Links {
    /// The interface with this index.
    pub fn by_index(&self, ifindex: u32) -> Option<&Link> {
        self.links.get(&ifindex)
    }

    /// The interface with this name.
    pub fn by_name(&self, name: &str) -> Option<&Link> {
        self.links.values().find(|link| link.name == name)
    }

    /// All, by index.
    pub fn iter(&self) -> impl Iterator<Item = &Link> {
        self.links.values()
    }

    /// Those that have this one as their master.
    pub fn members(&self, master: u32) -> impl Iterator<Item = &Link> {
        self.links.values().filter(move |link| link.master == Some(master))
    }

    /// Takes in what a message says; whether anything changed.
    pub(crate) fn set(&mut self, message: &LinkMessage) -> bool {
        let link = self.completed(message);
        let changed = self.links.get(&link.ifindex) != Some(&link);
        if changed {
            self.links.insert(link.ifindex, link);
        }
        changed
    }

    /// Whether the message says what is known.
    pub(crate) fn agrees(&self, message: &LinkMessage) -> bool {
        self.links.get(&message.ifindex) == Some(&self.completed(message))
    }

    /// Forgets an interface; whether it was known.
    pub(crate) fn remove(&mut self, ifindex: u32) -> bool {
        self.settings.retain(|(_, index), _| *index != ifindex as i32);
        self.vlans.set(ifindex, MemberVlans::default());
        self.vteps.forget(ifindex);
        self.sources.retain(|(vxlan, _), _| *vxlan != ifindex);
        self.links.remove(&ifindex).is_some()
    }

    /// Takes in settings; the interfaces that they change.
    pub(crate) fn configure(&mut self, message: &NetconfMessage) -> Vec<u32> {
        let settings = self.settings.entry((message.ipv6, message.ifindex)).or_default();
        settings.forwarding = message.forwarding.unwrap_or(settings.forwarding);
        settings.rp_filter = message.rp_filter.unwrap_or(settings.rp_filter);
        settings.ignore_linkdown = message.ignore_linkdown.unwrap_or(settings.ignore_linkdown);
        let mut changed = Vec::new();
        for ifindex in self.links.keys().copied().collect::<Vec<_>>() {
            if message.ifindex != ALL && message.ifindex != ifindex as i32 {
                continue;
            }
            let mut link = self.links[&ifindex].clone();
            self.apply_settings(&mut link);
            if self.links[&ifindex] != link {
                self.links.insert(ifindex, link);
                changed.push(ifindex);
            }
        }
        changed
    }

    /// Takes in what a member of a bridge is now; whether anything changed.
    pub(crate) fn set_bridged(&mut self, message: &BridgedMessage) -> bool {
        let member = self.links.get_mut(&message.ifindex);
        let Some(link) = member.filter(|link| link.master == Some(message.bridge)) else { return false };
        link.bridged.replace(message.bridged) != Some(message.bridged)
    }

    /// The VLANs of a member of a bridge, or a bridge's own.
    pub fn vlans_of(&self, ifindex: u32) -> &MemberVlans {
        self.vlans.of(ifindex)
    }

    /// Whatever has VLANs, by index.
    pub(crate) fn with_vlans(&self) -> impl Iterator<Item = u32> {
        self.vlans.all()
    }

    /// Takes in what a message says of VLANs that are there, or are gone; whether anything changed.
    pub(crate) fn change_vlans(&mut self, message: &VlansMessage, there: bool) -> bool {
        self.vlans.change(message, there)
    }

    /// The same of all that one has.
    pub(crate) fn set_vlans(&mut self, ifindex: u32, vlans: MemberVlans) -> bool {
        self.vlans.set(ifindex, vlans)
    }

    /// The other ends of a VXLAN that are known.
    pub(crate) fn vteps_of(&self, vxlan: u32) -> BTreeSet<Vtep> {
        self.vteps.ends(vxlan)
    }

    /// The end of a VXLAN that a host is behind, if that is known.
    pub(crate) fn vtep_of_host(&self, vxlan: u32, mac: Mac) -> Option<Vtep> {
        self.vteps.of_host(vxlan, mac)
    }

    /// The one end to which a VXLAN sends what is for nobody that it knows.
    pub(crate) fn vtep_of_anybody(&self, vxlan: u32) -> Option<Vtep> {
        self.vteps.of_anybody(vxlan)
    }

    /// The address that a VXLAN without one of its own sends from to an end.
    pub(crate) fn source_of(&self, vxlan: u32, end: IpAddr) -> Option<IpAddr> {
        self.sources.get(&(vxlan, end)).copied()
    }

    /// Takes in which that is; whether it was another.
    pub(crate) fn set_source(&mut self, (vxlan, end): (u32, IpAddr), source: Option<IpAddr>) -> bool {
        match source {
            Some(source) => self.sources.insert((vxlan, end), source) != Some(source),
            None => self.sources.remove(&(vxlan, end)).is_some(),
        }
    }

    /// All hosts behind ends of VXLANs.
    pub fn remotes(&self) -> impl Iterator<Item = Remote> {
        self.vteps.all().map(|(host, _)| host)
    }

    /// Whether a message says what is known.
    pub(crate) fn agrees_remote(&self, message: &VtepMessage) -> bool {
        self.vteps.agrees(message)
    }

    /// Takes in what a message says.
    pub(crate) fn set_remote(&mut self, message: &VtepMessage) -> Moved {
        self.vteps.set(message)
    }

    pub(crate) fn remove_remote(&mut self, host: Remote) -> Moved {
        self.vteps.remove(host)
    }

    fn completed(&self, message: &LinkMessage) -> Link {
        let flag = |flag: i32| message.flags & flag as u32 != 0;
        let mut link = Link {
            ifindex: message.ifindex,
            name: message.name.clone(),
            mac: message.mac.map(Mac),
            mtu: message.mtu,
            up: flag(libc::IFF_UP),
            running: flag(libc::IFF_RUNNING),
            loopback: flag(libc::IFF_LOOPBACK),
            kind: message.kind.clone(),
            master: message.master,
            is: message.is.clone(),
            member: message.member,
            bridged: message.bridged,
            ..Link::default()
        };
        self.apply_settings(&mut link);
        link
    }

    /// Which of `conf/all` and `conf/<interface>` counts is Linux's own choice, setting by setting
    /// (Documentation/networking/ip-sysctl.rst).
    fn apply_settings(&self, link: &mut Link) {
        let of = |ipv6, index| self.settings.get(&(ipv6, index)).copied().unwrap_or_default();
        let own4 = of(false, link.ifindex as i32);
        link.forwarding4 = own4.forwarding;
        link.rp_filter = own4.rp_filter.max(of(false, ALL).rp_filter);
        link.ignore_linkdown4 = own4.ignore_linkdown;
        link.forwarding6 = of(true, ALL).forwarding;
        link.ignore_linkdown6 = of(true, link.ifindex as i32).ignore_linkdown;
    }
}
