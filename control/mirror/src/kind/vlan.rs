//! VLANs (`ip link add link eth0 name eth0.10 type vlan id 10`): a tag between the addresses and
//! the type of frames of the interface that one lies on. Each is the plane's as soon as that
//! interface is: nothing configures it.
//!
//! A VLAN on a port has one tag, and one on such a VLAN has two. On a bond it is on each member's
//! port, and on a bridge that does not tell VLANs apart as well: to that a tag is a part of a frame
//! as any other, and a host is behind one member, whatever tags it sends. What it is on a bridge
//! that tells them apart is that one's to say (`bridge`).

use super::bridge::can_check;
use super::priority::PriorityMaps;
use super::{Around, Is, Kind, NotOurs, Place, Said, Told, is_enslaved};
use crate::model::Link;
use crate::netlink::{attributes, u16_at};
use fib::{Priorities, Tag, Tags};
use wire::ethernet;

const IFLA_VLAN_ID: u16 = 1;
const IFLA_VLAN_EGRESS_QOS: u16 = 3;
const IFLA_VLAN_INGRESS_QOS: u16 = 4;
const IFLA_VLAN_PROTOCOL: u16 = 5;

/// Identifiers of VLANs: 0 is no VLAN, and 4,095 is reserved (IEEE 802.1Q, 9.6).
const IDENTIFIERS: std::ops::RangeInclusive<u16> = 1..=4094;

/// What is said of a VLAN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vlan {
    /// Index of the interface that it is on; `None` where that is in another network namespace.
    pub on: Option<u32>,
    /// Its identifier, 0..=4,095.
    pub id: u16,
    /// Its tags are 802.1ad's, else 802.1Q's.
    pub service: bool,
    /// How priorities of tags and packets are made into each other.
    pub priorities: PriorityMaps,
}

/// Why a VLAN stays with Linux.
#[derive(Debug, thiserror::Error)]
enum Why {
    #[error("the interface that it is on is in another network namespace")]
    Elsewhere,
    #[error("its identifier is not one of 1 to 4094")]
    Identifier,
    #[error(
        "{name} tells apart by its egress-qos-map the priority {priority}, which IPv6 has by the ingress-qos-map of {own}"
    )]
    Priorities { name: String, priority: u32, own: String },
    #[error("its tag is of 802.1ad and inside another one")]
    ServiceInside,
    #[error("it has more than two tags")]
    Deep,
    #[error("it belongs to a bond or bridge, or the interface that it is on does")]
    Enslaved,
    #[error("it has two tags, and the bridge below tells VLANs apart")]
    DeepOnBridge,
    #[error("it lies on a VXLAN")]
    OnTunnel,
    #[error("its Ethernet address is not that of the bridge that it is on")]
    OtherAddress,
    #[error("{name}: {why}")]
    Below { name: String, why: NotOurs },
}

impl Vlan {
    pub(super) fn tag(&self) -> Tag {
        Tag { service: self.service, id: self.id }
    }
}

impl Told for Vlan {
    const NAMES: &'static [&'static str] = &["vlan"];

    fn read(said: &Said<'_>) -> Option<Vlan> {
        let mut vlan = Vlan { on: said.below, ..Vlan::default() };
        for (kind, value) in attributes(said.data?) {
            match kind {
                IFLA_VLAN_ID => vlan.id = u16_at(value, 0).unwrap_or_default(),
                IFLA_VLAN_PROTOCOL => vlan.service = value == ethernet::QINQ.to_be_bytes(),
                IFLA_VLAN_EGRESS_QOS => vlan.priorities.read_egress(value),
                IFLA_VLAN_INGRESS_QOS => vlan.priorities.read_ingress(value),
                _ => {}
            }
        }
        Some(vlan)
    }
}

impl Kind for Vlan {
    fn place<'a>(&self, link: &'a Link, around: &Around<'a, '_>) -> Result<Place<'a>, NotOurs> {
        let (base, tags, priorities) = descend(link, around)?;
        let below = |why| Why::Below { name: base.name.clone(), why };
        let bridge = match &base.is {
            Is::Bridge(bridge) if around.port(base).is_none() => Some(bridge),
            _ => None,
        };
        // Others the bridge does not take for its own.
        if bridge.is_some() && link.mac != base.mac {
            return Err(Why::OtherAddress.into());
        }
        if let Some(bridge) = bridge.filter(|bridge| bridge.vlans) {
            let Tags::One(tag) = tags else { return Err(Why::DeepOnBridge.into()) };
            let place = bridge.place_on(base, link, Some(tag), around).map_err(below)?;
            return Ok(Place { priorities, ..place });
        }
        let mut place = around.place(base).map_err(below)?;
        // In a VXLAN tags are Linux's.
        (place.tunnels, place.vxlan) = (Vec::new(), None);
        if place.legs.is_empty() {
            return Err(Why::OnTunnel.into());
        }
        if bridge.is_some() {
            can_check(base, link, (None, None), around).map_err(below)?;
        }
        place.legs.iter_mut().for_each(|leg| leg.tags = tags);
        Ok(Place { tags, priorities, ..place })
    }

    fn lies_on(&self) -> Option<u32> {
        self.on
    }
}

/// The interface without tags below a VLAN, the tags on the way down, and the priorities in them.
fn descend<'a>(link: &'a Link, around: &Around<'a, '_>) -> Result<(&'a Link, Tags, Priorities), Why> {
    // The inner one first.
    let (mut base, mut tags, mut priorities) = (link, [None; 2], [[0; 4]; 2]);
    for (tag, priorities) in tags.iter_mut().zip(&mut priorities) {
        let Is::Vlan(vlan) = &base.is else { break };
        if !IDENTIFIERS.contains(&vlan.id) {
            return Err(Why::Identifier);
        }
        if let Some((teller, priority)) = around.links.teller_of(&vlan.priorities) {
            let (name, own) = (teller.name.clone(), base.name.clone());
            return Err(Why::Priorities { name, priority, own });
        }
        *priorities = vlan.priorities.of_classes();
        if is_enslaved(base, around.links) {
            return Err(Why::Enslaved);
        }
        *tag = Some(vlan.tag());
        base = vlan.on.and_then(|on| around.links.by_index(on)).ok_or(Why::Elsewhere)?;
    }
    if matches!(base.is, Is::Vlan(_)) {
        return Err(Why::Deep);
    }
    if is_enslaved(base, around.links) {
        return Err(Why::Enslaved);
    }
    let [first, second] = priorities;
    let (tags, priorities) = match tags {
        [Some(inner), Some(_)] if inner.service => return Err(Why::ServiceInside),
        [Some(inner), Some(outer)] => (Tags::Two(outer, inner.id), [second, first]),
        [Some(tag), None] => (Tags::One(tag), [first, second]),
        [None, _] => (Tags::None, [second; 2]),
    };
    Ok((base, tags, Priorities(priorities)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::tests::{attribute, link, place, told};
    use crate::kind::{Bond, Bridge, Vrf};
    use crate::model::Links;
    use wire::Mac;

    fn vlan(ifindex: u32, on: u32, id: u16, service: bool) -> Link {
        let is = Vlan { on: Some(on), id, service, ..Vlan::default() }.into();
        Link { is, ..link(ifindex) }
    }

    fn on(below: u32, id: u16) -> Link {
        vlan(below + 1, below, id, false)
    }

    fn tags(links: &[Link]) -> Result<(u32, Tags), String> {
        place(&["e1"], links).map(|(base, _, tags)| (base, tags))
    }

    #[test]
    fn a_vlan_says_its_tag_and_what_it_is_on() {
        let id = (IFLA_VLAN_ID, &300u16.to_ne_bytes()[..]);
        let plain = Vlan { on: Some(3), id: 300, ..Vlan::default() };
        assert_eq!(told("vlan", &[id, (IFLA_VLAN_PROTOCOL, &[0x81, 0])]), plain.clone().into());
        let service = Vlan { service: true, ..plain };
        assert_eq!(told("vlan", &[id, (IFLA_VLAN_PROTOCOL, &[0x88, 0xa8])]), service.into());
    }

    /// A map as messages have it.
    fn map(pairs: &[(u32, u32)]) -> Vec<u8> {
        let pair = |(from, to): &(u32, u32)| attribute(1, &[from.to_ne_bytes(), to.to_ne_bytes()].concat());
        pairs.iter().flat_map(pair).collect()
    }

    fn mapped(ifindex: u32, on: u32, egress: &[(u32, u32)], ingress: &[(u32, u32)]) -> Link {
        let mut is = Vlan { on: Some(on), id: ifindex as u16, ..Vlan::default() };
        is.priorities.read_egress(&map(egress));
        is.priorities.read_ingress(&map(ingress));
        Link { is: is.into(), ..link(ifindex) }
    }

    fn priorities(links: &[Link]) -> Result<[[u8; 4]; 2], String> {
        let known: Links = links.iter().cloned().collect();
        let around = Around { links: &known, ports: &&["e1"][..] };
        let place = around.place(known.by_index(links.last().unwrap().ifindex).unwrap());
        place.map(|place| place.priorities.0).map_err(|why| why.to_string())
    }

    #[test]
    fn tags_say_priorities_by_the_classes_of_service() {
        assert_eq!(priorities(&[link(1), on(1, 5)]), Ok([[0; 4]; 2]));
        let one = mapped(2, 1, &[(0, 6), (2, 1), (4, 5), (7, 7)], &[]);
        assert_eq!(priorities(&[link(1), one.clone()]), Ok([[6, 1, 0, 5], [0; 4]]));
        let two = mapped(3, 2, &[(6, 3)], &[]);
        assert_eq!(priorities(&[link(1), one, two]), Ok([[6, 1, 0, 5], [0, 0, 3, 0]]), "the outer one first");
    }

    #[test]
    fn a_priority_that_came_in_matters_where_another_vlan_tells_it_apart() {
        let takes = mapped(5, 1, &[], &[(3, 9)]);
        let with = |other: Link| priorities(&[link(1), other, takes.clone()]);
        assert_eq!(with(mapped(4, 1, &[(8, 1), (0, 0)], &[])), Ok([[0; 4]; 2]));
        let why = with(mapped(4, 1, &[(9, 1)], &[])).unwrap_err();
        assert_eq!(why, "e4 tells apart by its egress-qos-map the priority 9, which IPv6 has by the ingress-qos-map of e5");
        assert!(with(mapped(4, 1, &[(0, 1)], &[])).is_err(), "what has no priority has another tag");
        assert_eq!(with(mapped(4, 1, &[(0, 1), (9, 1)], &[])), Ok([[0; 4]; 2]));
        assert!(priorities(&[link(1), mapped(5, 1, &[(9, 1)], &[(3, 9)])]).is_err(), "or itself");
    }

    #[test]
    fn tags_are_those_on_the_way_down() {
        let outer = Tag { service: true, id: 300 };
        assert_eq!(tags(&[link(1), vlan(2, 1, 300, true)]), Ok((1, Tags::One(outer))));
        let two = [link(1), vlan(2, 1, 300, true), vlan(3, 2, 7, false)];
        assert_eq!(tags(&two), Ok((1, Tags::Two(outer, 7))));
    }

    #[test]
    fn what_the_plane_cannot_do_is_linuxs() {
        let refused = |why: Why| Err(why.to_string());
        assert_eq!(tags(&[link(1), on(1, 0)]), refused(Why::Identifier));
        assert_eq!(tags(&[on(1, 10)]), refused(Why::Elsewhere));
        assert_eq!(tags(&[link(1), on(1, 1), on(2, 2), on(3, 3)]), refused(Why::Deep));
        assert_eq!(tags(&[link(1), on(1, 1), vlan(3, 2, 2, true)]), refused(Why::ServiceInside));
        let member = Link { master: Some(9), ..link(1) };
        assert_eq!(tags(&[member, on(1, 1)]), refused(Why::Enslaved));
        let vrf = Link { is: Vrf { table: 1001 }.into(), ..link(9) };
        assert!(tags(&[link(1), vrf, Link { master: Some(9), ..on(1, 1) }]).is_ok());
        let bridge = Link { is: Bridge::default().into(), ..link(1) };
        assert!(tags(&[bridge.clone(), on(1, 5)]).is_ok(), "a port itself");
        let bridge = Link { ifindex: 3, name: "br0".to_owned(), ..bridge };
        let member = Link { master: Some(3), ..link(1) };
        let other = Link { mac: Some(Mac([2, 0, 0, 0, 0, 9])), ..on(3, 5) };
        assert_eq!(tags(&[member.clone(), bridge.clone(), other]), refused(Why::OtherAddress));
        let strict = Link { rp_filter: 1, ..on(3, 5) };
        let foreign = Link { master: Some(3), ..link(2) };
        let five = Tags::One(Tag { service: false, id: 5 });
        let ours = |above: &Link| tags(&[member.clone(), bridge.clone(), above.clone()]);
        let beside = |above: &Link| tags(&[member.clone(), foreign.clone(), bridge.clone(), above.clone()]);
        assert_eq!([ours(&strict), beside(&on(3, 5))], [Ok((3, five)), Ok((3, five))]);
        let why = beside(&strict).unwrap_err();
        assert!(why.starts_with("br0: its member e2 is no port") && why.contains("rp_filter 1"), "{why}");
        // What it lies on says why.
        assert_eq!(tags(&[link(5), on(5, 1)]), Err("e5: it has no Ethernet address".to_owned()));
        let bond = Link { is: Bond { mode: Some(0), policy: 0 }.into(), ..link(1) };
        assert!(tags(&[bond, on(1, 1)]).is_err_and(|why| why.starts_with("e1: a bond with mode balance-rr")));
    }

    #[test]
    fn one_on_a_bond_is_on_each_member() {
        let bond = Link { is: Bond { mode: Some(4), policy: 0 }.into(), ..link(1) };
        let member = |ifindex| Link { master: Some(1), ..link(ifindex) };
        let tag = Tags::One(Tag { service: false, id: 5 });
        let links = [bond, member(7), member(8), vlan(9, 1, 5, false)];
        assert_eq!(place(&["e1"], &links), Ok((1, vec![7, 8], tag)));
    }

    #[test]
    fn a_link_that_is_on_itself_has_no_place() {
        assert_eq!(tags(&[vlan(1, 1, 5, false)]), Err(Why::Deep.to_string()));
    }
}
