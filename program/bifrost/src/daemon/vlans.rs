//! VLANs of Linux's. Each becomes an interface of the plane's as soon as the port that it is on is one: nothing configures it here.
//! On a bond it becomes one on each member's port.
//!
//! A VLAN on a port has one tag, and one on such a VLAN has two. What the plane cannot do for a VLAN as Linux does it leaves that
//! one to Linux, with the reason.

use fib::{Tables, Tag, Tags};
use mirror::model::{Link, Links};
use plane::{Interface, Plane};
use tracing::{info, warn};

use super::forwarding::Forwarding;

/// Identifiers of VLANs: 0 is no VLAN, and 4,095 is reserved (IEEE 802.1Q, 9.6).
const IDENTIFIERS: std::ops::RangeInclusive<u16> = 1..=4094;

/// Where a VLAN is.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The interface without tags that it is on.
    pub(crate) base: &'a Link,
    pub(crate) tags: Tags,
}

/// Why a VLAN stays with Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotOurs {
    #[error("the interface that it is on is in another network namespace")]
    Elsewhere,
    #[error("its identifier is not one of 1 to 4094")]
    Identifier,
    #[error("it has a map of priorities (ingress-qos-map, egress-qos-map)")]
    Priorities,
    #[error("its tag is of 802.1ad and inside another one")]
    ServiceInside,
    #[error("it has more than two tags")]
    Deep,
    #[error("it belongs to a bond or bridge, or the interface that it is on does")]
    Enslaved,
}

/// Where a link is, if it is a VLAN: `None` if it is none.
pub(crate) fn place<'a>(link: &'a Link, links: &'a Links) -> Option<Result<Place<'a>, NotOurs>> {
    link.vlan.map(|_| descend(link, links))
}

/// Whether something else than a VRF has an interface: a VRF says only which table routes what comes in by it.
pub(super) fn is_enslaved(link: &Link, links: &Links) -> bool {
    let master = link.master.and_then(|master| links.by_index(master));
    link.master.is_some() && master.is_none_or(|master| master.vrf.is_none())
}

fn descend<'a>(link: &'a Link, links: &'a Links) -> Result<Place<'a>, NotOurs> {
    // The inner one first.
    let (mut base, mut tags) = (link, [None; 2]);
    for tag in &mut tags {
        let Some(vlan) = base.vlan else { break };
        if !IDENTIFIERS.contains(&vlan.id) {
            return Err(NotOurs::Identifier);
        }
        if vlan.maps_priorities {
            return Err(NotOurs::Priorities);
        }
        if is_enslaved(base, links) {
            return Err(NotOurs::Enslaved);
        }
        *tag = Some(Tag { service: vlan.service, id: vlan.id });
        base = vlan.on.and_then(|on| links.by_index(on)).ok_or(NotOurs::Elsewhere)?;
    }
    if base.vlan.is_some() {
        return Err(NotOurs::Deep);
    }
    if is_enslaved(base, links) {
        return Err(NotOurs::Enslaved);
    }
    let tags = match tags {
        [Some(inner), Some(_)] if inner.service => return Err(NotOurs::ServiceInside),
        [Some(inner), Some(outer)] => Tags::Two(outer, inner.id),
        [Some(tag), None] => Tags::One(tag),
        [None, _] => Tags::None,
    };
    Ok(Place { base, tags })
}

/// The interface without tags that packets of this one come by: itself, unless it is a VLAN.
pub(super) fn base<'a>(link: &'a Link, links: &'a Links) -> &'a Link {
    place(link, links).and_then(Result::ok).map_or(link, |place| place.base)
}

impl Forwarding {
    /// Whether an interface is an adopted VLAN.
    pub(super) fn is_adopted(&self, ifindex: u32) -> bool {
        let mut interfaces = self.plane.logical().filter_map(|logical| logical.interface.as_ref());
        interfaces.any(|interface| interface.ifindex == ifindex)
    }

    /// Adopts a VLAN on each port that it is on, tells the plane what changed about it, or leaves it to Linux again.
    pub(super) fn look_at_vlan(&mut self, link: &Link, interface: Option<Interface>) {
        let place = place(link, &self.mirror.model().links).and_then(Result::ok);
        let ports = place.map(|place| self.ports_of(place.base)).unwrap_or_default();
        let tags = place.map(|place| place.tags).unwrap_or_default();
        let Forwarding { plane, mirror, tables, .. } = self;
        let is = |known: &&Interface| known.ifindex == link.ifindex;
        let known = plane.logical().find_map(|logical| logical.interface.as_ref().filter(is));
        let known = known.map(|known| known.name == link.name);
        let stays = !ports.is_empty() && interface.is_some();
        if known.is_some_and(|same| !stays || !same) {
            mirror.unbind(link.ifindex, tables);
            plane.forget_interface(link.ifindex, tables);
            info!("{}: is Linux's again", link.name);
        }
        let Some(interface) = interface.filter(|_| stays) else { return };
        let elsewhere = |port| ports.iter().all(|(on, _)| *on != port);
        plane.forget_interfaces(link.ifindex, elsewhere, tables);
        let there = |plane: &Plane, tables: &Tables| {
            let all = plane.interfaces_of(link.ifindex).map(|(id, _)| id);
            all.filter(|id| tables.interface(*id).is_some()).collect::<Vec<_>>()
        };
        let before = there(plane, tables);
        for (port, receives) in ports {
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
        }
        self.bind_interface(link.ifindex);
        if known != Some(true) {
            info!("{}: adopted", link.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirror::model::Vlan;

    fn link(ifindex: u32, on: Option<(u32, u16, bool)>) -> Link {
        let vlan = on.map(|(on, id, service)| Vlan { on: Some(on), id, service, maps_priorities: false });
        Link { ifindex, name: format!("e{ifindex}"), vlan, ..Link::default() }
    }

    fn tags(links: &[Link]) -> Result<(u32, Tags), NotOurs> {
        let known: Links = links.iter().cloned().collect();
        let place = place(links.last().unwrap(), &known).expect("it is a VLAN")?;
        Ok((place.base.ifindex, place.tags))
    }

    #[test]
    fn tags_are_those_on_the_way_down() {
        let outer = Tag { service: true, id: 300 };
        assert_eq!(tags(&[link(1, None), link(2, Some((1, 300, true)))]), Ok((1, Tags::One(outer))));
        let two = [link(1, None), link(2, Some((1, 300, true))), link(3, Some((2, 7, false)))];
        assert_eq!(tags(&two), Ok((1, Tags::Two(outer, 7))));
        let known: Links = two.iter().cloned().collect();
        assert_eq!(base(&two[2], &known).ifindex, 1);
        assert!(place(&two[0], &known).is_none());
    }

    #[test]
    fn what_the_plane_cannot_do_is_linuxs() {
        let on = |below: u32, id| link(below + 1, Some((below, id, false)));
        assert_eq!(tags(&[link(1, None), on(1, 0)]), Err(NotOurs::Identifier));
        assert_eq!(tags(&[on(1, 10)]), Err(NotOurs::Elsewhere));
        assert_eq!(tags(&[link(1, None), on(1, 1), on(2, 2), on(3, 3)]), Err(NotOurs::Deep));
        let inside = link(3, Some((2, 2, true)));
        assert_eq!(tags(&[link(1, None), on(1, 1), inside]), Err(NotOurs::ServiceInside));
        let member = Link { master: Some(9), ..link(1, None) };
        assert_eq!(tags(&[member, on(1, 1)]), Err(NotOurs::Enslaved));
        let vrf = Link { vrf: Some(1001), ..link(9, None) };
        let known: Links = [link(1, None), vrf, Link { master: Some(9), ..on(1, 1) }].into_iter().collect();
        assert!(place(known.by_index(2).unwrap(), &known).is_some_and(|place| place.is_ok()));
        let mut maps = on(1, 1);
        maps.vlan.iter_mut().for_each(|vlan| vlan.maps_priorities = true);
        assert_eq!(tags(&[link(1, None), maps]), Err(NotOurs::Priorities));
    }

    #[test]
    fn a_link_that_is_on_itself_has_no_place() {
        assert_eq!(tags(&[link(1, Some((1, 5, false)))]), Err(NotOurs::Deep));
    }
}
