//! Interfaces that are no port's own: adopted where their kind says (`mirror::kind`), and given
//! back to Linux. And the ports by which frames of any interface pass, to which routes are led.
//!
//! Of which kind an interface is does not matter here.

use config::{PortRule, Router};
use fib::{PortId, Tables, Tags, Tunnel};
use mirror::kind::{Around, Is, NotOurs, Place, Ports, Queues, port_names};
use mirror::model::{Link, Links, Outlet};
use plane::{Bridging, Interface, Plane};
use tracing::{info, warn};

use super::forwarding::Forwarding;
use super::settings;

/// The configuration, as kinds ask it.
struct Named<'a>(&'a Router);

impl Ports for Named<'_> {
    fn named(&self, name: &str) -> Option<Queues> {
        let rule = self.0.port(name)?;
        Some(if settings::memif(rule).is_some() { Queues::Shared } else { Queues::Driver })
    }
}

/// Where frames of an interface enter and leave, or why Linux has it to itself.
pub(crate) fn place<'a>(link: &'a Link, links: &'a Links, router: &Router) -> Result<Place<'a>, NotOurs> {
    Around { links, ports: &Named(router) }.place(link)
}

/// Whether packets that come in or leave by an interface are the plane's.
pub(super) fn is_ours(name: &str, links: &Links, router: &Router) -> bool {
    match links.by_name(name) {
        Some(link) => place(link, links, router).is_ok(),
        None => router.port(name).is_some(),
    }
}

/// What the configuration says of an interface as a port, by its own name or by that of its bond.
pub(super) fn rule<'a>(link: &Link, links: &Links, router: &'a Router) -> Option<&'a PortRule> {
    port_names(link, links).find_map(|name| router.port(name))
}

/// The bond or bridge of ours that an interface is a member of, or the VLAN on that bridge, which
/// has what passes this member without a tag; and whether it has what comes in by it.
pub(super) fn untagged_of<'a>(link: &Link, links: &'a Links, router: &Router) -> Option<(&'a Link, bool)> {
    let whole = links.untagged_of(link)?;
    let place = place(whole, links, router).ok()?;
    let mut legs = place.legs.iter().filter(|leg| leg.tags == Tags::None);
    let leg = legs.find(|leg| leg.port.ifindex == link.ifindex)?;
    Some((whole, leg.receives))
}

/// What an interface is to a bridge, if its place is on one.
pub(super) fn bridging(place: &Place<'_>) -> Bridging {
    match place.whole().map(|whole| &whole.is) {
        Some(Is::Bridge(bridge)) if bridge.vlans => Bridging::ByVlan,
        Some(Is::Bridge(_)) => Bridging::Plain,
        _ => Bridging::No,
    }
}

impl Forwarding {
    /// Whether an interface that is no port's own is adopted.
    pub(super) fn is_adopted(&self, ifindex: u32) -> bool {
        self.plane.logical_of(ifindex).next().is_some()
    }

    /// Whether an interface is adopted, and has no place any more, or the other way round.
    pub(super) fn is_misplaced(&self, ifindex: u32) -> bool {
        let links = &self.mirror.model().links;
        let has_place = |link| place(link, links, &self.router).is_ok();
        links.by_index(ifindex).is_some_and(has_place) != self.is_adopted(ifindex)
    }

    /// The ports by which frames of an interface pass with something in front of them, with that,
    /// and whether what comes in by each is the plane's. Tunnels have none.
    fn ports_of(&self, link: &Link) -> Vec<(PortId, bool, Tags)> {
        let links = &self.mirror.model().links;
        let Ok(place) = place(link, links, &self.router) else { return Vec::new() };
        let tunnels = place.tunnels.iter().map(|tunnel| (PortId::NONE, true, Tags::Tunnel(*tunnel)));
        // A port that is still a bond's has no frames of its own.
        let own = |port: &&plane::port::Port| place.whole().is_some() || port.whole.is_none();
        let legs = place.legs.iter().filter(|leg| leg.tags != Tags::None);
        let ports = legs.filter_map(|leg| {
            let port = self.plane.port_of(leg.port.ifindex).filter(own)?;
            Some((port.id, leg.receives, leg.tags))
        });
        ports.chain(tunnels).collect()
    }

    /// Adopts an interface on each port that it is on, tells the plane what changed about it, or
    /// leaves it to Linux again.
    pub(super) fn look_at_logical(&mut self, link: &Link, interface: Option<Interface>) {
        let ports = self.ports_of(link);
        let Forwarding { plane, mirror, tables, .. } = self;
        let known = plane.logical_of(link.ifindex).find_map(|logical| logical.interface.as_ref());
        let known = known.map(|known| known.name == link.name);
        let on_bridge = interface.as_ref().is_some_and(|interface| interface.bridge != Bridging::No);
        let stays = !ports.is_empty() && interface.is_some();
        if known.is_some_and(|same| !stays || !same) {
            mirror.unbind(link.ifindex, tables);
            plane.forget_interface(link.ifindex, tables);
            if plane.interface_of(link.ifindex).is_none() {
                info!("{}: is Linux's again", link.name);
            }
            self.tell_ends();
            self.members_are_due = true;
        }
        let Forwarding { plane, mirror, tables, .. } = self;
        let Some(interface) = interface.filter(|_| stays) else {
            // It may be the own interface of ports.
            return self.bind_interface(link.ifindex);
        };
        let elsewhere = |place| ports.iter().all(|(port, _, tags)| plane::at(*port, tags) != place);
        plane.forget_interfaces(link.ifindex, elsewhere, tables);
        let there = |plane: &Plane, tables: &Tables| {
            let tunnels = plane.tunnels_of(link.ifindex).map(|(id, _)| id);
            let all = plane.interfaces_of(link.ifindex).map(|(id, _)| id).chain(tunnels);
            all.filter(|id| tables.interface(*id).is_some()).collect::<Vec<_>>()
        };
        let before = there(plane, tables);
        for (port, receives, tags) in ports {
            let left_to_linux = interface.left_to_linux.map(|left| left || !receives);
            let interface = Interface { left_to_linux, ..interface.clone() };
            if let Err(error) = plane.adopt_interface(interface, port, tags, tables) {
                mirror.unbind(link.ifindex, tables);
                plane.forget_interface(link.ifindex, tables);
                return warn!("{}: stays with Linux: {error}", link.name);
            }
        }
        if before != there(plane, tables) {
            self.is_new();
            self.tell_ends();
            self.members_are_due |= link.is_vxlan() || on_bridge;
        }
        self.bind_interface(link.ifindex);
        if known != Some(true) {
            self.flows_are_stale = true;
            info!("{}: adopted", link.name);
        }
    }

    /// Lets routes lead to an interface once all of its ports are taken; to none before that.
    pub(super) fn bind_interface(&mut self, ifindex: u32) {
        let Forwarding { plane, mirror, tables, router, .. } = self;
        let links = &mirror.model().links;
        let Some(link) = links.by_index(ifindex) else { return };
        let place = place(link, links, router);
        let vxlan = place.as_ref().ok().and_then(|place| place.vxlan);
        let mut tunnels = plane.tunnels_of(ifindex);
        if vxlan.is_none()
            && let Some((id, _)) = tunnels.next()
        {
            return mirror.bind(ifindex, id, tables);
        }
        let end = |tunnel: &Tunnel| Some(Outlet::End { vxlan: vxlan?, end: tunnel.over.remote() });
        let ends: Vec<_> = tunnels.filter_map(|(id, tunnel)| Some((id, end(tunnel)?))).collect();
        let (whole, wanted) = place.map_or((None, 0), |place| (place.whole(), place.legs.len()));
        let below_all = whole.map(|whole| whole.ifindex).or(vxlan);
        let taken = plane.interfaces_of(ifindex).filter(|(id, port)| {
            // A name leads elsewhere until what it was there has been forgotten.
            port.taken.is_some() && tables.interface(*id).is_some_and(|entry| entry.ifindex == ifindex)
        });
        let below = |port: &plane::port::Port| port.interface.as_ref().map_or(0, |own| own.ifindex);
        let legs = taken.map(|(id, port)| (id, Outlet::Member(below(port))));
        let legs: Vec<_> = legs.collect();
        let are_all = legs.len() == wanted;
        let parts: Vec<_> = legs.into_iter().chain(ends).collect();
        match (below_all, parts.first().filter(|_| are_all)) {
            (_, None) => mirror.unbind(ifindex, tables),
            (None, Some((id, _))) => mirror.bind(ifindex, *id, tables),
            (Some(below), Some(_)) => mirror.bind_parts(ifindex, below, parts, tables),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirror::kind::{Bond, Member, Vlan};

    fn router(ports: &[&str]) -> Router {
        let text: String = ports.iter().map(|name| format!("[[port]]\nname = \"{name}\"\n")).collect();
        Router::read("router.toml", &text, &config::Machine::this())
            .unwrap_or_else(|mistakes| panic!("{mistakes}"))
    }

    #[test]
    fn what_the_configuration_names_by_a_pattern_or_its_bond_is_ours() {
        let is = Bond { mode: Some(2), policy: 0 }.into();
        let bond = Link { ifindex: 1, name: "bond0".to_owned(), is, ..Link::default() };
        let member = |ifindex| {
            let member = Some(Member { active: true, link: true });
            Link { ifindex, name: format!("eth{ifindex}"), master: Some(1), member, ..Link::default() }
        };
        let is = Vlan { on: Some(1), id: 5, ..Vlan::default() }.into();
        let vlan = Link { ifindex: 9, name: "tagged".to_owned(), is, ..Link::default() };
        let links: Links = [bond, member(2), member(3), vlan].into_iter().collect();
        for ports in [&["bond0"][..], &["eth2", "eth3"], &["eth*"], &["eth2", "bond*"]] {
            let router = router(ports);
            for name in ["bond0", "eth2", "eth3", "tagged"] {
                assert!(is_ours(name, &links, &router), "{name} {ports:?}");
            }
            let [bond, member] = [1, 2].map(|ifindex| links.by_index(ifindex).unwrap());
            assert!(rule(bond, &links, &router).is_none(), "a bond has no queues");
            assert!(rule(member, &links, &router).is_some());
            let whole = untagged_of(member, &links, &router);
            assert_eq!(whole.map(|(bond, receives)| (bond.ifindex, receives)), Some((1, true)));
        }
        let router = router(&["eth2", "absent"]);
        assert!(is_ours("eth2", &links, &router) && is_ours("absent", &links, &router));
        assert!(!is_ours("bond0", &links, &router) && !is_ours("tagged", &links, &router));
    }
}
