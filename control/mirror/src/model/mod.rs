//! What Linux says, kept as Linux says it: interfaces, addresses, neighbours, next-hop objects and
//! routes.
//!
//! The model knows nothing of the plane's tables. It takes in messages, and notes in [`Changes`]
//! what they changed; the programmer turns that into tables.

mod gateways;
mod link;
mod neighbour;
mod route;
mod routes;
mod stations;
mod target;
mod vlans;
mod vteps;

pub use gateways::{Gateway, Gateways};
pub use link::{Link, Links};
pub use neighbour::{Neighbour, Neighbours};
pub use route::{Kind, Route, Table};
pub(crate) use routes::host;
pub use routes::{Counts, Effect, Routes};
pub use stations::{Outlet, Station, Stations};
pub use target::{Objects, Path, SourceId, Target, TargetId, Targets, Ways};
pub use vlans::{MemberVlans, Passage};
pub use vteps::Remote;

use crate::netlink::address::Address;
use crate::netlink::link::{BridgedMessage, LinkMessage};
use crate::netlink::neighbour::NeighbourMessage;
use crate::netlink::netconf::NetconfMessage;
use crate::netlink::nexthop::Object;
use crate::netlink::request::What;
use crate::netlink::station::StationMessage;
use crate::netlink::vlan::VlansMessage;
use crate::netlink::vtep::VtepMessage;
use fib::Locality;
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use vteps::Moved;
use wire::Mac;

/// See the module's description.
#[derive(Default)]
pub struct Model {
    /// Interfaces.
    pub links: Links,
    /// Neighbours.
    pub neighbours: Neighbours,
    /// Hosts on bridges.
    pub stations: Stations,
    /// Next-hop objects.
    pub objects: Objects,
    /// Routes.
    pub routes: Routes,
    /// Gateways that are lost, and their backups.
    pub gateways: Gateways,
    addresses: BTreeMap<(u32, IpNet), Address>,
    /// Tables that routing rules look into.
    ruled: BTreeSet<u32>,
}

/// What messages changed, for the programmer.
#[derive(Default)]
pub struct Changes {
    /// Prefixes whose routes changed, each with the table.
    pub prefixes: Vec<(IpNet, Table)>,
    /// Interfaces that are new or changed.
    pub links: Vec<u32>,
    /// Interfaces that are gone.
    pub links_gone: Vec<u32>,
    /// Members of bridges, and bridges, with other VLANs than before.
    pub vlans: Vec<u32>,
    /// Neighbours that are new, changed or gone.
    pub neighbours: Vec<(u32, IpAddr)>,
    /// Hosts on bridges, or behind ends of VXLANs, that are new, elsewhere or gone.
    pub stations: Vec<Station>,
    /// Next-hop objects that are new, changed or gone.
    pub objects: Vec<(SourceId, u32)>,
    /// Targets that were retired.
    pub retired: Vec<TargetId>,
    /// Addresses of which this machine has one more, or one less.
    pub locals: Vec<IpAddr>,
    /// There are other tables to be followed: VRFs', and those of rules.
    pub vrfs: bool,
    /// Linux deletes routes on such an event without telling: read again what it has.
    pub suspect: Suspect,
}

/// What must be read again, because an event changed it silently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Suspect {
    /// IPv4 routes.
    pub routes4: bool,
    /// IPv6 routes.
    pub routes6: bool,
    /// Next-hop objects.
    pub objects: bool,
}

impl Suspect {
    /// Whether anything is suspect.
    pub fn any(self) -> bool {
        self.routes4 || self.routes6 || self.objects
    }

    /// What is to be read.
    pub(crate) fn tables(self) -> impl Iterator<Item = What> {
        let all =
            [(self.objects, What::Objects), (self.routes4, What::Routes4), (self.routes6, What::Routes6)];
        all.into_iter().filter(|(suspect, _)| *suspect).map(|(_, what)| what)
    }
}

impl Model {
    /// Addresses of interfaces, by interface.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.addresses.values()
    }

    /// Those of one interface.
    pub fn addresses_of(&self, ifindex: u32) -> impl Iterator<Item = &Address> {
        let from_there_on = self.addresses.range((ifindex, least())..);
        from_there_on.take_while(move |(key, _)| key.0 == ifindex).map(|(_, address)| address)
    }

    /// Whose `address` is, of this machine's interfaces.
    pub fn locality(&self, address: IpAddr) -> Locality {
        let mut of = Locality::default();
        for own in self.addresses.values().filter(|own| own.net.addr() == address) {
            let vrf = self.vrf_of(own.ifindex).is_some();
            (of.main, of.vrf) = (of.main || !vrf, of.vrf || vrf);
        }
        of
    }

    /// What a host is behind: a member of the bridge that an interface is or lies on, or an end of
    /// the VXLAN that it is.
    pub fn outlet_towards(&self, ifindex: u32, mac: Mac) -> Option<Outlet> {
        let link = self.links.by_index(ifindex)?;
        let behind = |vxlan: &Link| {
            self.links.end_towards(vxlan, mac).map(|end| Outlet::End { vxlan: vxlan.ifindex, end })
        };
        if link.is_vxlan() {
            return behind(link);
        }
        let (bridge, vlan) = self.links.within_bridge(link)?;
        let member = self.stations.member(Station { bridge: bridge.ifindex, vlan, mac })?;
        match self.links.by_index(member).filter(|member| member.is_vxlan()) {
            Some(vxlan) => behind(vxlan),
            None => Some(Outlet::Member(member)),
        }
    }

    /// The number of the table of the VRF that an interface belongs to, or is.
    pub fn vrf_of(&self, ifindex: u32) -> Option<u32> {
        let link = self.links.by_index(ifindex)?;
        link.vrf().or_else(|| self.links.vrf_of(link)?.vrf())
    }

    /// The ways out of a target; none when it is retired, or its object not known.
    pub fn ways(&self, target: TargetId) -> Ways {
        if self.routes.targets.is_retired(target) {
            return Ways::Paths(Default::default());
        }
        self.objects.ways(self.routes.targets.at(target))
    }

    /// Whether packets that go this way are lost, though Linux may not know it.
    pub(crate) fn is_lost(&self, path: &Path) -> bool {
        let vrf = || self.vrf_device(path.ifindex);
        path.gateway.is_some_and(|gateway| self.gateways.is_lost(gateway, path.ifindex, vrf()))
    }

    /// The way that takes the place of this one while it is lost, if there is one.
    pub(crate) fn backup_of(&self, path: &Path) -> Option<Path> {
        let vrf = self.vrf_device(path.ifindex);
        let (ifindex, address) = self.gateways.backup(path.gateway?, path.ifindex, vrf)?;
        Some(Path { ifindex, gateway: Some(address), encap: false, ..*path })
    }

    /// The interface, of this VRF or of none, on whose link an address is.
    pub fn link_towards(&self, address: IpAddr, vrf: Option<u32>) -> Option<u32> {
        let near = |own: &&Address| own.net.contains(&address) && self.vrf_device(own.ifindex) == vrf;
        let nearest = self.addresses.values().filter(near).max_by_key(|own| own.net.prefix_len());
        nearest.map(|own| own.ifindex)
    }

    /// The VRF that an interface belongs to.
    pub fn vrf_device(&self, ifindex: u32) -> Option<u32> {
        self.links.vrf_of(self.links.by_index(ifindex)?).map(|vrf| vrf.ifindex)
    }

    /// Routes of a prefix, in the words of `ip route`; `no route` when there are none.
    pub fn in_words(&self, routes: &[Route]) -> String {
        let words: Vec<String> = routes.iter().map(|route| self.route_in_words(route)).collect();
        if words.is_empty() { "no route".to_owned() } else { words.join(", and ") }
    }

    fn route_in_words(&self, route: &Route) -> String {
        let mut words =
            if route.kind == Kind::Unicast { String::new() } else { format!("{} ", route.kind.name()) };
        if let Target::Object(_, id) = self.routes.targets.at(route.target) {
            words += &format!("nhid {id} ");
        }
        if let Ways::Paths(paths) = self.ways(route.target) {
            for path in &paths {
                words += &path.gateway.map_or(String::new(), |gateway| format!("via {gateway} "));
                let name = self.links.by_index(path.ifindex).map(|link| link.name.clone());
                words += &format!("dev {} ", name.unwrap_or_else(|| path.ifindex.to_string()));
            }
        }
        words += &self.routes.from(route).map_or(String::new(), |from| format!("from {from} "));
        words += &if route.tos == 0 { String::new() } else { format!("tos {:#04x} ", route.tos) };
        words += &format!("metric {}", route.metric);
        words
    }

    pub(crate) fn set_link(&mut self, message: &LinkMessage, changes: &mut Changes) {
        let known = self.links.by_index(message.ifindex);
        let before = known.map(|link| (link.up, link.running));
        let (was, master) = (known.and_then(|link| link.vrf()), known.and_then(|link| link.master));
        let vrf = self.vrf_of(message.ifindex);
        if !self.links.set(message) {
            return;
        }
        changes.links.push(message.ifindex);
        if was != self.links.by_index(message.ifindex).and_then(|link| link.vrf()) {
            self.follow_vrfs(message.ifindex, changes);
        }
        if vrf != self.vrf_of(message.ifindex) {
            changes.locals.extend(self.addresses_of(message.ifindex).map(|own| own.net.addr()));
        }
        // A bond is another without its member, though Linux may say nothing new of it.
        changes.links.extend(master.filter(|master| message.master != Some(*master)));
        let after = self.links.by_index(message.ifindex).map(|link| (link.up, link.running));
        if let (Some((up, running)), Some((now_up, now_running))) = (before, after) {
            self.forget_ways((up && !now_up, running && !now_running), message.ifindex, changes);
        }
    }

    /// The numbers of the tables beside the main one: those of VRFs, and those that rules name.
    pub(crate) fn tables_beside(&self) -> BTreeSet<u32> {
        self.links.iter().filter_map(|link| link.vrf()).chain(self.ruled.iter().copied()).collect()
    }

    /// Rules look into these tables from now on. What Linux has in those that are new is read;
    /// whether there are such.
    pub(crate) fn follow_rules(&mut self, tables: BTreeSet<u32>, changes: &mut Changes) -> bool {
        let before = self.tables_beside();
        self.ruled = tables;
        let numbers = self.tables_beside();
        if before == numbers {
            return false;
        }
        changes.prefixes.extend(self.routes.follow_vrfs(&numbers));
        changes.vrfs = true;
        let new = numbers.difference(&before).next().is_some();
        changes.suspect.routes4 |= new;
        changes.suspect.routes6 |= new;
        new
    }

    /// A VRF came, went, or changed its table: what Linux has in that is read.
    fn follow_vrfs(&mut self, vrf: u32, changes: &mut Changes) {
        changes.prefixes.extend(self.routes.follow_vrfs(&self.tables_beside()));
        changes.vrfs = true;
        (changes.suspect.routes4, changes.suspect.routes6) = (true, true);
        // The interfaces in it, of which nothing is told anew.
        for link in self.links.iter().filter(|link| link.master == Some(vrf)) {
            changes.links.push(link.ifindex);
            changes.locals.extend(self.addresses_of(link.ifindex).map(|own| own.net.addr()));
        }
    }

    /// IPv4 routes vanish with an interface switched off, objects also with the carrier:
    /// fib_sync_down_dev and nexthop_flush_dev send no messages. What they take is taken here as
    /// well, at once; that it is so is read then.
    fn forget_ways(&mut self, (down, dark): (bool, bool), ifindex: u32, changes: &mut Changes) {
        if down || dark {
            for id in self.objects.through(SourceId::Netlink, ifindex) {
                self.remove_object(SourceId::Netlink, id, changes);
            }
            changes.suspect.objects = true;
        }
        if down {
            changes.retired.extend(self.routes.targets.retire_by(ifindex));
            changes.suspect.routes4 = true;
            changes.suspect.routes6 = true;
        }
    }

    pub(crate) fn remove_link(&mut self, ifindex: u32, changes: &mut Changes) {
        let vrf = self.links.by_index(ifindex).is_some_and(|link| link.vrf().is_some());
        let master = self.links.by_index(ifindex).and_then(|link| link.master);
        if !self.links.remove(ifindex) {
            return;
        }
        changes.links.extend(master);
        changes.links_gone.push(ifindex);
        if vrf {
            self.follow_vrfs(ifindex, changes);
        }
        changes.suspect.routes4 = true;
        changes.suspect.routes6 = true;
        changes.suspect.objects = true;
        let own: Vec<_> = self.addresses.range((ifindex, least())..).map(|(key, _)| *key).collect();
        for key in own.into_iter().take_while(|key| key.0 == ifindex) {
            self.remove_address(key, changes);
        }
        let neighbours: Vec<_> =
            self.neighbours.iter().filter(|(index, ..)| *index == ifindex).map(|n| n.1).collect();
        for address in neighbours {
            self.remove_neighbour(ifindex, address, changes);
        }
        for station in self.stations.of(ifindex) {
            self.remove_station(station, changes);
        }
    }

    /// Takes in behind which end of a VXLAN a host is.
    pub(crate) fn set_remote(&mut self, message: &VtepMessage, changes: &mut Changes) {
        let moved = self.links.set_remote(message);
        self.note_remote(Remote::of(message), moved, changes);
    }

    /// Takes in by which address of this machine a VXLAN that has none of its own sends to an end.
    pub(crate) fn set_source(&mut self, of: (u32, IpAddr), source: Option<IpAddr>, changes: &mut Changes) {
        if self.links.set_source(of, source) {
            changes.links.push(of.0);
        }
    }

    pub(crate) fn remove_remote(&mut self, host: Remote, changes: &mut Changes) {
        let moved = self.links.remove_remote(host);
        self.note_remote(host, moved, changes);
    }

    fn note_remote(&self, host: Remote, moved: Moved, changes: &mut Changes) {
        let bridge = self.links.by_index(host.vxlan).and_then(|link| self.links.bridge_of(link));
        if moved.host {
            changes.stations.push(Station { bridge: host.vxlan, vlan: 0, mac: host.mac });
            let tells_apart = |bridge: &&Link| bridge.bridge().is_some_and(|bridge| bridge.vlans);
            let vlan = bridge.filter(tells_apart).and_then(|_| self.links.vlans_of(host.vxlan).of_untagged());
            let on_it = bridge.map(|bridge| Station {
                bridge: bridge.ifindex,
                vlan: vlan.unwrap_or_default(),
                mac: host.mac,
            });
            changes.stations.extend(on_it);
        }
        if moved.ends {
            changes.links.push(host.vxlan);
            changes.links.extend(bridge.map(|bridge| bridge.ifindex));
        }
    }

    pub(crate) fn set_bridged(&mut self, message: &BridgedMessage, changes: &mut Changes) {
        if self.links.set_bridged(message) {
            changes.links.push(message.ifindex);
        }
    }

    pub(crate) fn set_station(&mut self, message: &StationMessage, changes: &mut Changes) {
        if self.stations.set(message) {
            changes.stations.push(message.station);
        }
    }

    pub(crate) fn remove_station(&mut self, station: Station, changes: &mut Changes) {
        if self.stations.remove(station) {
            changes.stations.push(station);
        }
    }

    /// Takes in which VLANs a member of a bridge, or the bridge, has more, or has no more.
    pub(crate) fn change_vlans(&mut self, message: &VlansMessage, there: bool, changes: &mut Changes) {
        if self.links.change_vlans(message, there) {
            changes.links.push(message.ifindex);
            changes.vlans.push(message.ifindex);
        }
    }

    /// The same of all that it has.
    pub(crate) fn set_vlans(&mut self, ifindex: u32, vlans: MemberVlans, changes: &mut Changes) {
        if self.links.set_vlans(ifindex, vlans) {
            changes.links.push(ifindex);
            changes.vlans.push(ifindex);
        }
    }

    pub(crate) fn configure(&mut self, message: &NetconfMessage, changes: &mut Changes) {
        changes.links.extend(self.links.configure(message));
    }

    pub(crate) fn set_address(&mut self, message: &Address, changes: &mut Changes) {
        self.addresses.insert((message.ifindex, message.net), message.clone());
        changes.locals.push(message.net.addr());
    }

    pub(crate) fn address_agrees(&self, message: &Address) -> bool {
        self.addresses.contains_key(&(message.ifindex, message.net))
    }

    pub(crate) fn remove_address(&mut self, key: (u32, IpNet), changes: &mut Changes) {
        if self.addresses.remove(&key).is_none() {
            return;
        }
        // Routes that prefer this source address go silently (fib_sync_down_addr).
        changes.suspect.routes4 |= key.1.addr().is_ipv4();
        // Those of IPv6 stay, and prefer it no more (rt6_remove_prefsrc).
        changes.suspect.routes6 |= key.1.addr().is_ipv6() && self.routes.counts().sourced6 > 0;
        changes.locals.push(key.1.addr());
    }

    pub(crate) fn set_neighbour(&mut self, message: &NeighbourMessage, changes: &mut Changes) {
        let alike = self.neighbours.forwards_alike(message);
        self.neighbours.set(message);
        if !alike {
            changes.neighbours.push((message.ifindex, message.address));
        }
    }

    pub(crate) fn remove_neighbour(&mut self, ifindex: u32, address: IpAddr, changes: &mut Changes) {
        if self.neighbours.remove(ifindex, address) {
            changes.neighbours.push((ifindex, address));
        }
    }

    pub(crate) fn set_object(&mut self, source: SourceId, object: &Object, changes: &mut Changes) {
        if self.objects.set(source, object) {
            changes.objects.push((source, object.id));
            changes
                .objects
                .extend(self.objects.groups_of(source, object.id).into_iter().map(|id| (source, id)));
        }
    }

    pub(crate) fn remove_object(&mut self, source: SourceId, id: u32, changes: &mut Changes) {
        let groups = self.objects.groups_of(source, id);
        if self.objects.remove(source, id) {
            changes.objects.push((source, id));
            changes.objects.extend(groups.iter().map(|id| (source, *id)));
            changes.retired.extend(self.routes.targets.retire(&Target::Object(source, id)));
            // Linux deletes the routes that use it; those of IPv4 silently.
            changes.suspect.routes4 |= source == SourceId::Netlink;
            changes.suspect.routes6 |= source == SourceId::Netlink;
            // A group without members is no more.
            for group in groups {
                if source == SourceId::Netlink && self.objects.is_empty_group(source, group) {
                    self.remove_object(source, group, changes);
                }
            }
        }
    }
}

fn least() -> IpNet {
    IpNet::V4(Default::default())
}
