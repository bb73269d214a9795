//! Which interfaces to take, and keeping the plane told about them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use ::firewall::{Adopted, Reverse};
use config::{PortRule, Router};
use fib::{Locality, PortId, Priorities, TableId};
use ipnet::IpNet;
use mirror::kind::{Is, Place};
use mirror::model::{Link, Links, Station};
use mirror::{Plane as Listener, union};
use plane::{Bridging, Interface, Plane, ReversePath};
use tracing::{debug, warn};
use wire::Class;

use super::bridges::Senders;
use super::firewall::Firewall;
use super::foreign::Foreign;
use super::forwarding::Forwarding;
use super::interfaces;
use super::section::{Change, Section};
use super::settings;
use super::tunnels;

/// How long the control thread takes ports that came, or tells of others what changed, before it
/// looks for other work.
const SLICE: Duration = Duration::from_millis(2);

/// What the mirror heard that concerns the plane, until the control thread has time for it.
#[derive(Default)]
pub(crate) struct News {
    /// Interfaces that came or changed, and are to be looked at.
    changed: BTreeSet<u32>,
    /// The same, for whoever makes interfaces.
    pub(super) to_own: BTreeSet<u32>,
    gone: Vec<u32>,
    locals: BTreeMap<IpAddr, Locality>,
    /// Hosts on bridges.
    stations: HashSet<Station>,
}

impl Listener for News {
    fn link(&mut self, link: &Link) {
        self.changed.insert(link.ifindex);
        self.to_own.insert(link.ifindex);
    }

    fn link_gone(&mut self, ifindex: u32) {
        self.gone.push(ifindex);
    }

    fn local(&mut self, address: IpAddr, of: Locality) {
        self.locals.insert(address, of);
    }

    fn station(&mut self, station: Station) {
        self.stations.insert(station);
    }
}

/// `[[port]]`, `linux_filter`, `linux_rules` and `[police]`: the interfaces that are taken, and
/// what is heard of them.
#[derive(Default)]
pub(crate) struct Ports {
    pub(crate) news: News,
    /// What Linux does and the plane does not.
    pub(crate) foreign: Foreign,
    /// What of it the plane does as well.
    pub(crate) firewall: Firewall,
    /// What interfaces were told that it asks of sources.
    reverse: [Option<Reverse>; 2],
    senders: Senders,
}

impl Ports {
    /// Makes the ports known that the configuration names outright, whether they are there or not.
    pub(super) fn expect(&self, forwarding: &mut Forwarding) {
        for rule in forwarding.router.ports.clone() {
            let Some(name) = rule.name.literal() else { continue };
            match forwarding.plane.expect(name, settings::port(&rule, &forwarding.router)) {
                Ok(id) => share(forwarding, id, &rule),
                Err(error) => warn!("{error}"),
            }
        }
    }

    /// Takes every interface that the configuration matches, unless it is told to stop; `before`
    /// each.
    pub(super) fn take(&mut self, forwarding: &mut Forwarding, before: impl Fn(&Forwarding)) {
        self.respect_linux(forwarding);
        self.apply_news(forwarding);
        let links: Vec<u32> = forwarding.mirror.model().links.iter().map(|link| link.ifindex).collect();
        for ifindex in links {
            if forwarding.stop.is_asked() {
                return;
            }
            before(forwarding);
            self.look_at(ifindex, forwarding);
            if has_begun(ifindex, forwarding) {
                self.look_at(ifindex, forwarding);
            }
        }
        self.tell_members(forwarding);
        tell_sources(forwarding);
    }

    /// Tells the driver who is behind which member of a bridge, after members changed.
    fn tell_members(&mut self, forwarding: &mut Forwarding) {
        if std::mem::take(&mut forwarding.members_are_due) {
            self.senders.tell_all(forwarding);
        }
    }

    /// Follows what Linux's own rules could touch; what changes for a port takes effect at once.
    pub(super) fn respect_linux(&mut self, forwarding: &mut Forwarding) {
        if let Some(adopted) = self.firewall.changed(forwarding) {
            // What is not judged by it any more is Linux's before workers forget its rules.
            let [four, six] = forwarding.firewall.families;
            let stays = [four && adopted.families[0], six && adopted.families[1]];
            if stays == [four, six] {
                self.firewall.adopt(adopted, forwarding);
            } else {
                forwarding.firewall.families = stays;
                self.firewall.adopt_later(adopted);
            }
        }
        self.leave_to_linux(forwarding, forwarding.firewall.families);
    }

    fn leave_to_linux(&mut self, forwarding: &mut Forwarding, adopted: [bool; 2]) {
        let (reverse, left) = (forwarding.firewall.reverse, self.foreign.reach.clone());
        let checks = std::mem::replace(&mut self.reverse, reverse) != reverse;
        if !self.foreign.look(forwarding, adopted) && !checks {
            return;
        }
        let taken = forwarding.plane.ports().iter().filter_map(|port| Some(port.interface.as_ref()?.ifindex));
        let links = forwarding.mirror.model().links.iter();
        let tunnels = links.filter(|link| link.is.kind().is_tunnel()).map(|link| link.ifindex);
        let bridges = forwarding.mirror.model().links.iter().filter(|link| link.is_bridge());
        let all = taken.chain(tunnels).chain(bridges.map(|link| link.ifindex)).collect::<Vec<_>>();
        all.into_iter().for_each(|ifindex| self.look_at(ifindex, forwarding));
        forwarding.flows_are_stale |= left.exceeds(&self.foreign.reach);
    }

    /// Tells the plane what the mirror heard. True: there is more, for a slice of time is over.
    pub(super) fn apply_news(&mut self, forwarding: &mut Forwarding) -> bool {
        let News { changed, to_own, gone, locals, stations } = std::mem::take(&mut self.news);
        let any_gone = !gone.is_empty();
        forwarding.members_are_due |= any_gone;
        for ifindex in gone {
            if let Some(id) = forwarding.plane.port_of(ifindex).map(|port| port.id) {
                forwarding.plane.give_back(id, &mut forwarding.tables);
            }
            forwarding.plane.forget_interface(ifindex, &mut forwarding.tables);
        }
        let new = !changed.is_empty();
        forwarding.vrfs_are_due |= new || any_gone;
        (self.news.changed, self.news.to_own) = (changed, to_own);
        if any_gone {
            forwarding.tell_ends();
            // One that had the same ends as one that is gone may be the plane's now.
            let links = forwarding.mirror.model().links.iter();
            // And what came by a bridge's member without a tag may have been a VLAN's that is gone.
            let concerned = |link: &&Link| link.is.kind().is_tunnel() || link.is_bridge();
            self.news.changed.extend(links.filter(concerned).map(|link| link.ifindex));
        }
        // While Linux's tables are still being read they wait: see `Control::load`.
        let may =
            forwarding.mirror.ready() || forwarding.plane.ports().iter().any(|port| port.taken.is_some());
        let begun = Instant::now();
        while may && begun.elapsed() < SLICE && !forwarding.stop.is_asked() {
            let Some(ifindex) = self.news.changed.pop_first() else { break };
            self.look_at(ifindex, forwarding);
            if has_begun(ifindex, forwarding) {
                self.news.changed.insert(ifindex);
            }
        }
        if may && new {
            // Rules name interfaces.
            self.respect_linux(forwarding);
        }
        self.senders.tell(stations, forwarding);
        self.tell_members(forwarding);
        let more = may && !self.news.changed.is_empty();
        let due = !more && std::mem::take(&mut forwarding.sources_are_due);
        if locals.is_empty() && !due {
            return more;
        }
        forwarding.tell_local(locals);
        tell_sources(forwarding);
        more
    }

    /// Takes an interface if the configuration says so, a step of that, or adopts one that lies on
    /// ports, or is made of such; or tells the plane what changed. Then looks at those that lie on
    /// it.
    fn look_at(&self, ifindex: u32, forwarding: &mut Forwarding) {
        let links = &forwarding.mirror.model().links;
        let Some(link) = links.by_index(ifindex).cloned() else { return };
        if let Some(whole) = links.whole_of(&link).map(|whole| whole.ifindex) {
            return self.look_at(whole, forwarding);
        }
        let bridge = links.bridge_of(&link).map(|bridge| bridge.ifindex);
        self.look_at_members(&link, forwarding);
        self.look_at_itself(&link, forwarding);
        // One that is no port is a member all the same.
        if let Some(bridge) = bridge.filter(|bridge| *bridge != ifindex) {
            self.look_at(bridge, forwarding);
        }
        let links = &forwarding.mirror.model().links;
        let twins = tunnels::twins(&link, links);
        let links = links.iter();
        let above = links.filter(|above| above.is.kind().lies_on() == Some(ifindex));
        for above in above.map(|above| above.ifindex).filter(|above| *above != ifindex).collect::<Vec<_>>() {
            self.look_at(above, forwarding);
        }
        // One that takes priorities from tags may matter to this one.
        if matches!(link.is, Is::Vlan(_)) {
            let links = &forwarding.mirror.model().links;
            let changed = links.with_priorities_in().map(|other| other.ifindex);
            let changed = changed.filter(|other| *other != ifindex && forwarding.is_misplaced(*other));
            for other in changed.collect::<Vec<_>>() {
                let other = forwarding.mirror.model().links.by_index(other).cloned();
                other.into_iter().for_each(|other| self.look_at_itself(&other, forwarding));
            }
        }
        for twin in twins {
            let twin = forwarding.mirror.model().links.by_index(twin).cloned();
            // It is Linux's now: packets could be for this one.
            if let Some(twin) = twin.filter(|twin| forwarding.is_adopted(twin.ifindex)) {
                forwarding.look_at_logical(&twin, None);
            }
        }
    }

    /// The same, of nothing but itself.
    fn look_at_itself(&self, link: &Link, forwarding: &mut Forwarding) {
        let links = &forwarding.mirror.model().links;
        let place = interfaces::place(link, links, &forwarding.router).ok();
        let above = place.as_ref().is_some_and(Place::lies_above) || link.is.kind().lies_on().is_some();
        let tunnel = place.as_ref().and_then(|place| place.tunnels.first()).map(|tunnel| tunnel.over);
        let on_bridge = place.as_ref().and_then(|place| place.whole()).filter(|whole| whole.is_bridge());
        let bridging = place.as_ref().map_or(Bridging::No, interfaces::bridging);
        let base = place.as_ref().map_or(link, |place| place.base);
        let priorities = place.as_ref().map(|place| place.priorities).unwrap_or_default();
        // One that was adopted may have become what the plane cannot do.
        if above || forwarding.is_adopted(link.ifindex) {
            let table = self.table_of(link, forwarding);
            let linuxs = match tunnel {
                None => false,
                Some(over) => {
                    let reached = self.foreign.reaches_tunnels()[usize::from(over.local().is_ipv6())];
                    reached || self.foreign.tunnels.barred(link.ifindex).is_some()
                }
            };
            let linuxs = linuxs || on_bridge.is_some_and(|bridge| self.is_barred(bridge, links));
            let interface = interface(link, table, self.reach([link, base], links)).filter(|_| !linuxs);
            let interface = interface.map(|is| Interface { bridge: bridging, priorities, ..is });
            let interface = interface.map(|interface| checked(interface, &forwarding.firewall));
            forwarding.look_at_logical(link, interface);
        } else if link.is.kind().stands_for_members() {
            forwarding.bind_interface(link.ifindex);
        } else {
            self.look_at_port(link, forwarding);
        }
    }

    /// Which transit, of IPv4 and IPv6, is Linux's where packets come in by these interfaces: what
    /// Linux's rules say of them, of their VRF, and of the members of those that are bonds.
    fn reach(&self, interfaces: [&Link; 2], links: &Links) -> [bool; 2] {
        let members = interfaces.iter().flat_map(|link| links.members(link.ifindex));
        let members = members.filter(|member| member.member.is_some()).map(|member| &member.name);
        let own = interfaces.iter().map(|link| &link.name);
        let vrfs = interfaces.iter().filter_map(|link| links.vrf_of(link)).map(|vrf| &vrf.name);
        // Which device Linux's rules see in a VRF depends on its version.
        let in_vrf = interfaces.iter().any(|link| links.vrf_of(link).is_some());
        let each = own.chain(vrfs).chain(members).map(|name| match in_vrf {
            true => union(self.foreign.reach.of(name), self.foreign.steering.concerns.families()),
            false => self.foreign.reach.of(name),
        });
        each.fold([false; 2], union)
    }

    /// The table that routes what comes in by an interface; see [`mirror::Mirror::table_of`].
    fn table_of(&self, link: &Link, forwarding: &Forwarding) -> Option<TableId> {
        let table = forwarding.mirror.table_of(link.ifindex)?;
        let by_rules = self.foreign.steering.concerns.of(&link.name) != [false; 2];
        let in_vrf = forwarding.mirror.model().links.vrf_of(link).is_some();
        Some(if by_rules && !in_vrf { TableId::BY_RULES } else { table })
    }

    /// Whether it is a bridge that is Linux's, though the plane could do it by itself.
    fn is_barred(&self, whole: &Link, links: &Links) -> bool {
        whole.is_bridge() && self.foreign.why_not_bridge(whole, links).is_some()
    }

    /// The ports whose own interface may be this one: its members, if it stands for such, or those
    /// of the bridge that it is a VLAN of.
    fn look_at_members(&self, link: &Link, forwarding: &mut Forwarding) {
        let links = &forwarding.mirror.model().links;
        if link.is.kind().stands_for_members() {
            let members: Vec<Link> = links.members(link.ifindex).cloned().collect();
            // A bridge may be a port itself.
            self.look_at_ports(members.iter().chain([link]), forwarding);
            forwarding.members_are_due |= link.is_bridge();
        } else if let Some((bridge, vlan)) = links.within_bridge(link).filter(|(_, vlan)| *vlan != 0) {
            let concerned = |member: &&Link| {
                let port = forwarding.plane.port_of(member.ifindex);
                let is = port.and_then(|port| port.whole.as_ref()).map(|whole| whole.ifindex);
                is == Some(link.ifindex) || links.vlans_of(member.ifindex).of_untagged() == Some(vlan)
            };
            let members: Vec<Link> = links.members(bridge.ifindex).filter(concerned).cloned().collect();
            self.look_at_ports(members.iter(), forwarding);
            forwarding.members_are_due = true;
        }
    }

    fn look_at_ports<'a>(&self, ports: impl Iterator<Item = &'a Link>, forwarding: &mut Forwarding) {
        for port in ports {
            self.look_at_port(port, forwarding);
            if has_begun(port.ifindex, forwarding) {
                self.look_at_port(port, forwarding);
            }
        }
    }

    /// As [`Ports::look_at`], for what may be a port.
    fn look_at_port(&self, link: &Link, forwarding: &mut Forwarding) {
        let ifindex = link.ifindex;
        let known = forwarding.plane.port_of(ifindex).map(|port| (port.id, port.name.clone()));
        if let Some((renamed, _)) = known.as_ref().filter(|(_, name)| *name != link.name) {
            forwarding.release(*renamed);
            return self.look_at_port(link, forwarding);
        }
        let Forwarding { router, plane, mirror, .. } = &*forwarding;
        let links = &mirror.model().links;
        let ours = !link.loopback && !plane.is_own(ifindex, &link.name);
        let Some(rule) = interfaces::rule(link, links, router).filter(|_| ours) else { return };
        let bridge = links.bridge_of(link).filter(|bridge| !self.is_barred(bridge, links));
        let joins = bridge.is_some() || links.bridge_of(link).is_none();
        let bond = interfaces::untagged_of(link, links, router).filter(|_| joins);
        // Of a member's VLANs some may be ours and some not, now or after a change: it stays taken,
        // and what comes without a tag is Linux's.
        let told_apart = bridge.and_then(Link::bridge).is_some_and(|bridge| bridge.vlans);
        let linuxs = bond.is_none() && told_apart;
        let free = bond.is_some() || linuxs || links.vrf_of(link).is_some();
        let master = link.master.and_then(|master| links.by_index(master)).filter(|_| !free);
        let left = self.reach([link, link], links).map(|reached| reached || linuxs);
        let Some(own) = interface(link, self.table_of(link, forwarding), left) else {
            debug!("{}: not an Ethernet interface: it stays with Linux", link.name);
            return;
        };
        let master = master.map(|master| format!("{}, which decides where its packets go", master.name));
        let bridging = if linuxs { Bridging::Member } else { Bridging::No };
        let own = checked(Interface { master, bridge: bridging, ..own }, &forwarding.firewall);
        let bond = bond.and_then(|(bond, receives)| {
            let left = union(self.reach([bond, link], links), self.reach([bridge.unwrap_or(bond); 2], links));
            let is = interface(bond, self.table_of(bond, forwarding), left.map(|left| left || !receives))?;
            let is = checked(is, &forwarding.firewall);
            let place = interfaces::place(bond, links, router).ok()?;
            Some(Interface { up: is.up && own.up, bridge: interfaces::bridging(&place), ..is })
        });
        let wanted = settings::port(rule, router);
        let memif = settings::memif(rule).is_some();
        let index = |bond: &Option<Interface>| bond.as_ref().map(|bond| bond.ifindex);
        let before = plane.port_of(ifindex).and_then(|port| index(&port.whole));
        let other = known.is_some() && before != index(&bond);
        if let Some((id, _)) = known.filter(|_| other) {
            forwarding.unbind(id);
        }
        let Forwarding { plane, mirror, tables, .. } = forwarding;
        match plane.expect(&link.name, wanted) {
            // Its shared memory could not be opened, which has been said: the interface alone leads
            // nowhere.
            Ok(id) if memif && !is_shared(plane, id) => {}
            Ok(id) => {
                let bound = plane.port_of(ifindex).is_some_and(|port| port.taken.is_some());
                plane.join(id, bond.clone(), tables);
                let taken = plane.take_step(id, own, tables);
                // It may have been given back on the way.
                plane.join(id, bond, tables);
                match taken {
                    true if !bound || other => {
                        forwarding.bind(id);
                        forwarding.flows_are_stale = true;
                    }
                    false if bound => mirror.unbind(ifindex, tables),
                    _ => {}
                }
            }
            Err(error) => warn!("{error}"),
        }
    }
}

impl Section for Ports {
    fn effects(&self, change: &Change) -> Vec<String> {
        let names = |router: &Router| -> Vec<String> {
            router.ports.iter().map(|rule| rule.name.as_str().to_owned()).collect()
        };
        let (had, has) = (names(&change.before), names(&change.after));
        let mut effects = Vec::new();
        for rule in &change.after.ports {
            let name = rule.name.as_str();
            let before = change.before.ports.iter().find(|before| before.name == rule.name);
            let settings = |rule, router| settings::port(rule, router);
            let effect = match before {
                None => "it is taken",
                Some(before) if before == rule => continue,
                Some(before) => {
                    let (then, now) = (settings(before, &change.before), settings(rule, &change.after));
                    let anew = now.taken_otherwise(&then) || before.memif != rule.memif;
                    if anew { "it is given back and taken anew" } else { "it changes in place" }
                }
            };
            effects.push(format!("[[port]] {name}: {effect}"));
        }
        let gone = had.iter().filter(|name| !has.contains(name));
        effects.extend(gone.map(|name| format!("[[port]] {name}: it is given back to Linux")));
        if change.differs(|router| &router.police) {
            effects.push("[police]: other limits hold for what is handed to Linux".to_owned());
        }
        for (name, differs) in [
            ("linux_filter", change.differs(|router| &router.linux_filter)),
            ("linux_rules", change.differs(|router| &router.linux_rules)),
        ] {
            if differs {
                effects.push(format!("{name}: transit is left to Linux, or not, by the new value"));
            }
        }
        effects
    }

    /// Ports that are new have their numbers from here on, so that the rules prepared after this
    /// are for them as well.
    fn prepare(&mut self, change: &mut Change, forwarding: &mut Forwarding) -> Result<(), String> {
        for name in change.after.ports.iter().filter_map(|rule| rule.name.literal()) {
            forwarding.plane.reserve(name).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Gives back what no rule matches any more, takes what one matches now, and takes anew what is
    /// to be taken in another way.
    fn apply(&mut self, _: &Change, forwarding: &mut Forwarding) {
        let ports: Vec<_> =
            forwarding.plane.ports().iter().map(|port| (port.id, port.name.clone(), port.settings)).collect();
        for (id, name, before) in ports {
            let (router, links) = (&forwarding.router, &forwarding.mirror.model().links);
            let rule = match links.by_name(&name) {
                Some(link) => interfaces::rule(link, links, router),
                None => router.port(&name),
            };
            let wanted = rule.map(|rule| settings::port(rule, router));
            if wanted.is_none_or(|wanted| wanted.taken_otherwise(&before)) {
                // What leads there is Linux's meanwhile, at its own rate.
                forwarding.plane.police(Class::Unresolved, 0, 0);
                forwarding.release(id);
            }
            // Nobody shall connect to a port that is none any more.
            if wanted.is_none()
                && let Err(error) = forwarding.plane.share(id, None)
            {
                warn!("{name}: {error}");
            }
        }
        self.expect(forwarding);
        // Linux has told already of an interface that was made for one of them. What of its news
        // cannot be taken now is an error of netlink's, which the control thread meets again by
        // itself.
        let _ = forwarding.sync(&mut self.news);
        self.take(forwarding, |_| ());
        while !forwarding.stop.is_asked() && forwarding.sync(&mut self.news).unwrap_or_default() {}
        forwarding.apply_limits();
    }

    fn abort(&mut self, _: &mut Forwarding) {}
}

/// Opens the shared memory of a port that is that, or closes what was another.
fn share(forwarding: &mut Forwarding, id: PortId, rule: &PortRule) {
    let wanted = settings::memif(rule);
    let port = forwarding.plane.ports().get(usize::from(id.0));
    let shared = port.and_then(|port| port.shared.as_ref());
    if shared.map(|shared| shared.settings()) == wanted.as_ref() {
        return;
    }
    forwarding.release(id);
    if let Err(error) = forwarding.plane.share(id, wanted) {
        warn!("{}: {error}", rule.name.as_str());
    }
}

/// Whether an interface is taken when it is looked at once more.
fn has_begun(ifindex: u32, forwarding: &Forwarding) -> bool {
    forwarding.plane.port_of(ifindex).is_some_and(plane::port::Port::is_begun)
}

fn is_shared(plane: &Plane, id: PortId) -> bool {
    plane.ports().get(usize::from(id.0)).is_some_and(|port| port.shared.is_some())
}

/// Tells the elements which addresses are this machine's, and which are on which port; and the
/// workers which devices are VRFs.
fn tell_sources(forwarding: &mut Forwarding) {
    let sources = forwarding.plane.sources();
    let model = forwarding.mirror.model();
    let mirror = &forwarding.mirror;
    let members = model.links.iter().filter_map(|link| Some((link, model.links.vrf_of(link)?)));
    let vrfs = members.filter_map(|(link, vrf)| Some((mirror.table_of(link.ifindex)?, vrf.ifindex)));
    forwarding.plane.set_vrfs(vrfs.collect());
    sources.set_local4(model.addresses().filter_map(|address| match address.net.addr() {
        IpAddr::V4(own) => Some((mirror.table_of(address.ifindex)?, own)),
        IpAddr::V6(_) => None,
    }));
    let ports = forwarding.plane.ports().iter().map(|port| (port.id.interface(), port.own()));
    let logical = forwarding.plane.logical().map(|logical| (logical.id, logical.interface.as_ref()));
    for (id, interface) in ports.chain(logical) {
        let Some(interface) = interface else { continue };
        let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
        for address in model.addresses_of(interface.ifindex) {
            match address.net {
                IpNet::V4(net) if address.is_primary() => ipv4.push(net),
                IpNet::V6(net) if address.is_global_source() => ipv6.push(net),
                _ => {}
            }
        }
        sources.set_interface(id, interface.table.of_addresses(), ipv4, ipv6);
    }
    forwarding.translate();
}

/// What the plane must know of an interface that this table routes; `None` when it has no Ethernet
/// address. Where only Linux knows the table, all of its transit is Linux's.
pub(super) fn interface(link: &Link, table: Option<TableId>, left_to_linux: [bool; 2]) -> Option<Interface> {
    let [left4, left6] = left_to_linux;
    let mac = match link.mac {
        Some(mac) => mac.0,
        None if link.is.kind().has_neighbours() => return None,
        None => [0; 6],
    };
    Some(Interface {
        name: link.name.clone(),
        ifindex: link.ifindex,
        master: None,
        table: table.unwrap_or(TableId::MAIN),
        mac,
        mtu: link.mtu,
        up: link.up && link.running,
        forwarding4: link.forwarding4,
        forwarding6: link.forwarding6,
        rp_filter: link.rp_filter,
        firewall: [None; 2],
        left_to_linux: [left4 || table.is_none(), left6 || table.is_none()],
        bridge: Bridging::No,
        priorities: Priorities::default(),
    })
}

/// The same with what Linux's own firewall asks of sources.
fn checked(interface: Interface, firewall: &Adopted) -> Interface {
    let asked = |reverse| match reverse {
        Reverse::Strict => ReversePath::Strict,
        Reverse::Loose => ReversePath::Loose,
    };
    Interface { firewall: firewall.reverse.map(|reverse| reverse.map(asked)), ..interface }
}
