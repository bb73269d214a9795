//! What bridges, their members and their VLANs are, and where they have their place.

use super::*;
use crate::kind::tests::{attribute, place, told};
use crate::kind::{Vlan, Vrf};
use crate::netlink::vlan::{VlanEntry, VlansMessage};
use crate::netlink::vtep::{Vtep, VtepMessage};

fn bridge() -> Link {
    Link { ifindex: 1, name: "br0".to_owned(), mtu: 1500, is: Bridge::default().into(), ..Link::default() }
}

fn member(ifindex: u32) -> Link {
    Link {
        ifindex,
        name: format!("eth{ifindex}"),
        mtu: 1500,
        up: true,
        running: true,
        master: Some(1),
        bridged: Some(Bridged { forwarding: true, learns: true, locked: false }),
        ..Link::default()
    }
}

fn of(ports: &[&str], bridge: Link, members: &[Link]) -> Result<Vec<u32>, String> {
    let links: Vec<Link> = members.iter().cloned().chain([bridge]).collect();
    place(ports, &links).map(|(_, ports, _)| ports)
}

#[test]
fn a_bridge_says_whether_it_tells_vlans_apart_and_a_member_its_state() {
    let aware = Bridge { vlans: true, ..Bridge::default() };
    assert_eq!(told("bridge", &[(IFLA_BR_VLAN_FILTERING, &[1])]), aware.into());
    assert_eq!(told("bridge", &[(IFLA_BR_VLAN_FILTERING, &[0])]), Bridge::default().into());
    assert_eq!(told("bridge", &[(IFLA_BR_VLAN_PROTOCOL, &[0x81, 0])]), Bridge::default().into());
    let service = Bridge { service: true, ..Bridge::default() };
    assert_eq!(told("bridge", &[(IFLA_BR_VLAN_PROTOCOL, &[0x88, 0xa8])]), service.into());
    // Of the multicast snooping of each VLAN, and of spanning trees.
    let of = |bits: u32| told("bridge", &[(IFLA_BR_MULTI_BOOLOPT, &[bits.to_ne_bytes(), [0xff; 4]].concat())]);
    assert_eq!(of(1 << 1), Bridge::default().into());
    assert_eq!(of(1 << 2), Bridge { trees: true, ..Bridge::default() }.into());
    assert_eq!(told("bridge", &[]), Bridge::default().into());
    // BR_STATE_DISABLED, LISTENING, LEARNING, FORWARDING, BLOCKING.
    for state in 0..=4 {
        let read = Bridged::read(&attribute(IFLA_BRPORT_STATE, &[state]));
        assert_eq!(read.forwarding, state == FORWARDING);
    }
    assert!(!Bridged::read(&[]).forwarding && Bridged::read(&[]).learns);
    for (kind, value, learns) in [
        (IFLA_BRPORT_LEARNING, 0, false),
        (IFLA_BRPORT_LEARNING, 1, true),
        (IFLA_BRPORT_LOCKED, 0, true),
        (IFLA_BRPORT_LOCKED, 1, false),
    ] {
        assert_eq!(Bridged::read(&attribute(kind, &[value])).learns, learns);
    }
}

#[test]
fn a_bridge_is_ours_by_those_of_its_members_that_are_ports() {
    let both = [member(2), member(3)];
    assert_eq!(of(&["eth2", "eth3"], bridge(), &both), Ok(vec![2, 3]));
    assert_eq!(of(&["eth3"], bridge(), &both), Ok(vec![3]));
    assert_eq!(of(&["br0", "eth3"], bridge(), &both), Ok(vec![1]), "it is a port itself");
    let memif = Link { name: "memif0".to_owned(), ..member(4) };
    assert_eq!(of(&["eth2", "memif0"], bridge(), &[member(2), memif]), Ok(vec![2]));
    let vlan = Link { is: Vlan::default().into(), ..member(4) };
    assert_eq!(of(&["eth2", "eth4"], bridge(), &[member(2), vlan.clone()]), Ok(vec![2]));
    let links: Links = [bridge(), member(2), vlan].into_iter().collect();
    let whole = |ifindex| links.whole_of(links.by_index(ifindex).unwrap()).map(|whole| whole.ifindex);
    assert_eq!((whole(1), whole(2), whole(4)), (None, Some(1), None));
}

#[test]
fn a_member_receives_and_sends_while_it_forwards() {
    let blocked = Link { bridged: Some(Bridged { forwarding: false, learns: true, locked: false }), ..member(3) };
    let links: Links =
        [bridge(), member(2), blocked, Link { running: false, ..member(4) }].into_iter().collect();
    let ports: &dyn super::super::Ports = &&["eth2", "eth3", "eth4"][..];
    let place = Around { links: &links, ports }.place(links.by_index(1).unwrap()).unwrap();
    let legs: Vec<_> = place.legs.iter().map(|leg| (leg.port.ifindex, leg.receives, leg.sends)).collect();
    assert_eq!(legs, [(2, true, true), (3, false, false), (4, true, false)]);
    assert_eq!(place.whole().map(|whole| whole.ifindex), Some(1));
}

#[test]
fn what_the_plane_cannot_do_is_linuxs() {
    let both = [member(2), member(3)];
    let refused = |why: Why| Err(why.to_string());
    let ports = &["eth2", "eth3"][..];
    assert_eq!(of(&["nic"], bridge(), &both), refused(Why::Unnamed));
    assert_eq!(of(ports, Link { master: Some(9), ..bridge() }, &both), refused(Why::Enslaved));
    let vrf = Link { ifindex: 9, is: Vrf { table: 9 }.into(), ..Link::default() };
    let inside = Link { master: Some(9), ..bridge() };
    assert_eq!(of(ports, inside, &[member(2), vrf]), Ok(vec![2]));
    let narrow = Link { mtu: 1400, ..member(3) };
    assert_eq!(of(ports, bridge(), &[member(2), narrow]), refused(Why::Narrow("eth3".to_owned())));
    let strict = || Link { rp_filter: STRICT, ..bridge() };
    assert_eq!(of(ports, strict(), &both), Ok(vec![2, 3]));
    assert_eq!(of(&["eth2"], strict(), &both), refused(Why::Strict("eth3".to_owned())));
}
/// `bridge vlan` of each: identifier, without a tag in and out, state.
fn with_vlans(links: Vec<Link>, vlans: &[(u32, u16, [bool; 2], bool)]) -> Links {
    let mut links: Links = links.into_iter().collect();
    for &(ifindex, vlan, [untagged_in, untagged_out], forwarding) in vlans {
        let entry = VlanEntry { vlans: (vlan, vlan), untagged_in, untagged_out, forwarding };
        links.change_vlans(&VlansMessage { ifindex, entries: vec![entry] }, true);
    }
    links
}

/// The legs of one of them, as (port, VLAN of its tag there, receives, sends).
type Shown = Vec<(u32, Option<u16>, bool, bool)>;

fn legs(links: &Links, ifindex: u32) -> Result<Shown, String> {
    let ports: &dyn super::super::Ports = &&["eth2", "eth3", "eth4"][..];
    let place = Around { links, ports }.place(links.by_index(ifindex).unwrap());
    let shown = |leg: &Leg<'_>| match leg.tags {
        Tags::None => (leg.port.ifindex, None, leg.receives, leg.sends),
        Tags::One(tag) => (leg.port.ifindex, Some(tag.id), leg.receives, leg.sends),
        other => panic!("{other:?}"),
    };
    place.map(|place| place.legs.iter().map(shown).collect()).map_err(|why| why.to_string())
}

const TAGGED: [bool; 2] = [false; 2];
const ACCESS: [bool; 2] = [true; 2];

fn aware() -> Link {
    Link { is: Bridge { vlans: true, ..Bridge::default() }.into(), ..bridge() }
}

fn vlan(ifindex: u32, id: u16) -> Link {
    Link { ifindex, mtu: 1500, is: Vlan { on: Some(1), id, ..Vlan::default() }.into(), ..Link::default() }
}

#[test]
fn each_vlan_passes_members_as_linux_says() {
    let all = vec![aware(), member(2), member(3), member(4), vlan(8, 10), vlan(9, 20)];
    let links = with_vlans(all, &[
        (1, 1, ACCESS, true),
        (1, 10, TAGGED, true),
        // Of VLAN 10 without a tag, a trunk with 1 without one, and one that waits in 10.
        (2, 10, ACCESS, true),
        (3, 1, ACCESS, true),
        (3, 10, TAGGED, true),
        (4, 10, TAGGED, false),
    ]);
    assert_eq!(legs(&links, 1), Ok(vec![(3, None, true, true)]));
    let ten = vec![(2, None, true, true), (3, Some(10), true, true), (4, Some(10), false, false)];
    assert_eq!(legs(&links, 8), Ok(ten));
    let untagged = [2, 3, 4].map(|member| {
        links.untagged_of(links.by_index(member).unwrap()).map(|link| link.ifindex)
    });
    assert_eq!(untagged, [Some(8), Some(1), None]);
    let within = [1, 8, 9, 2].map(|index| {
        links.within_bridge(links.by_index(index).unwrap()).map(|(bridge, vlan)| (bridge.ifindex, vlan))
    });
    assert_eq!(within, [Some((1, 1)), Some((1, 10)), Some((1, 20)), None]);
}

#[test]
fn vlans_that_the_plane_cannot_do_are_linuxs() {
    let refused = |why: Why| Err(why.to_string());
    let below = |why: Why| Err(format!("br0: {why}"));
    let all = || vec![aware(), member(2), vlan(8, 10)];
    let name = || "br0".to_owned();
    let none = with_vlans(all(), &[(2, 1, ACCESS, true), (2, 10, TAGGED, true)]);
    assert_eq!(legs(&none, 1), refused(Why::Untagged(name())));
    assert_eq!(legs(&none, 8), below(Why::Tagged { name: name(), vlan: 10 }));
    // What leaves the bridge itself has a tag, but what comes to it has none, or the other way.
    for (own, is) in [([true, false], TAGGED), ([false, true], ACCESS)] {
        let links = with_vlans(all(), &[(1, 1, own, true), (2, 1, is, true)]);
        assert_eq!(legs(&links, 1), refused(Why::Untagged(name())));
    }
    let untagged = with_vlans(all(), &[(1, 10, ACCESS, true), (2, 10, TAGGED, true)]);
    assert_eq!(legs(&untagged, 8), below(Why::Tagged { name: name(), vlan: 10 }));
    assert_eq!(legs(&untagged, 1), Ok(vec![(2, Some(10), true, true)]));
    let waits = with_vlans(all(), &[(1, 10, TAGGED, false), (2, 10, TAGGED, true)]);
    assert_eq!(legs(&waits, 8), below(Why::Tagged { name: name(), vlan: 10 }));
    let nowhere = with_vlans(all(), &[(1, 10, TAGGED, true), (2, 1, ACCESS, true)]);
    assert_eq!(legs(&nowhere, 8), below(Why::Nowhere(10)));
    let one_way = with_vlans(all(), &[(1, 10, TAGGED, true), (2, 10, [false, true], true)]);
    let why = Why::OneWay { name: "eth2".to_owned(), vlan: 10 };
    assert_eq!(legs(&one_way, 8), below(why));
    let own = [(1, 10, TAGGED, true), (2, 10, TAGGED, true)];
    for (is, why) in [
        (Bridge { service: true, vlans: true, trees: false }, Why::Protocol),
        (Bridge { trees: true, vlans: true, service: false }, Why::Trees),
    ] {
        let other = Link { is: is.into(), ..bridge() };
        assert_eq!(legs(&with_vlans(vec![other, member(2), vlan(8, 10)], &own), 8), below(why));
    }
    let mut inner = vlan(9, 20);
    inner.is = Vlan { on: Some(8), id: 20, ..Vlan::default() }.into();
    let deep = with_vlans([all(), vec![inner]].concat(), &own);
    assert!(legs(&deep, 9).is_err_and(|why| why.starts_with("it has two tags")));
    assert_eq!(legs(&deep, 8), Ok(vec![(2, Some(10), true, true)]));
}

/// A VXLAN that is a member, with these ends.
fn vxlan(ifindex: u32, id: u8) -> Link {
    let is = told("vxlan", &[(1, &[id, 0, 0, 0]), (4, &[192, 0, 2, 1]), (15, &[0x12, 0xb5])]);
    Link { is, ..member(ifindex) }
}

fn ends(links: &Links, ifindex: u32) -> Result<(Vec<u8>, Option<u32>), String> {
    let around = Around { links, ports: &&["eth2"][..] };
    let place = around.place(links.by_index(ifindex).unwrap()).map_err(|why| why.to_string())?;
    let last = |tunnel: &fib::Tunnel| match tunnel.over.remote() {
        std::net::IpAddr::V4(end) => end.octets()[3],
        std::net::IpAddr::V6(_) => 0,
    };
    Ok((place.tunnels.iter().map(last).collect(), place.vxlan))
}

#[test]
fn a_vxlan_is_a_member_that_nobody_names() {
    let known = |links: &mut Links, vxlan, last: u8| {
        let end = Vtep { address: Some([192, 0, 2, last].into()), by: 0 };
        links.set_remote(&VtepMessage { vxlan, mac: wire::Mac([2, 0, 0, 0, 0, last]), end });
    };
    let mut links: Links = [bridge(), vxlan(5, 7), vxlan(6, 8)].into_iter().collect();
    assert!(ends(&links, 1).unwrap_err().contains("port of Bifrost"), "none of them has an end");
    known(&mut links, 6, 3);
    assert_eq!(ends(&links, 1), Ok((vec![3], Some(6))));
    known(&mut links, 5, 2);
    known(&mut links, 5, 4);
    assert_eq!(ends(&links, 1), Ok((vec![2, 4], Some(5))), "one of several");
    let around = Around { links: &links, ports: &&["eth2"][..] };
    assert_eq!(around.place(links.by_index(1).unwrap()).unwrap().whole().map(|whole| whole.ifindex), Some(1));
    let bridged = |forwarding, learns, locked| Some(Bridged { forwarding, learns, locked });
    for (bridged, learns) in [(bridged(true, true, false), true), (bridged(true, false, false), false)] {
        let mut links: Links = [bridge(), Link { bridged, ..vxlan(5, 7) }].into_iter().collect();
        known(&mut links, 5, 2);
        let place = Around { links: &links, ports: &&[][..] }.place(links.by_index(1).unwrap()).unwrap();
        assert_eq!(place.tunnels[0].payload.vxlan().map(|vxlan| vxlan.learns), Some(learns));
    }
    for bridged in [bridged(false, true, false), bridged(true, false, true)] {
        let mut links: Links = [bridge(), member(2), Link { bridged, ..vxlan(5, 7) }].into_iter().collect();
        known(&mut links, 5, 2);
        assert_eq!(ends(&links, 1), Ok((vec![], None)), "its frames do not pass, or not all of them");
    }
}

#[test]
fn a_vxlan_has_the_vlan_that_passes_it_without_a_tag() {
    let links = vec![aware(), member(2), vxlan(5, 7), vlan(11, 10), vlan(12, 20)];
    let mut links = with_vlans(
        links,
        &[
            (1, 10, [false, false], true),
            (1, 20, [false, false], true),
            (2, 20, [false, false], true),
            (5, 10, [true, true], true),
            (5, 20, [false, false], true),
        ],
    );
    let end = Vtep { address: Some([192, 0, 2, 2].into()), by: 0 };
    links.set_remote(&VtepMessage { vxlan: 5, mac: wire::Mac([2, 0, 0, 0, 0, 2]), end });
    assert_eq!(ends(&links, 11), Ok((vec![2], Some(5))));
    assert_eq!(ends(&links, 12), Ok((vec![], None)), "with a tag inside it is Linux's");
}

#[test]
fn only_members_with_the_vlan_must_be_ports_for_strict_checks() {
    let foreign = Link { name: "nic".to_owned(), ..member(5) };
    let strict = Link { rp_filter: STRICT, ..vlan(8, 10) };
    let all = vec![aware(), member(2), foreign, strict];
    let own = vec![(1, 10, TAGGED, true), (2, 10, TAGGED, true), (5, 1, ACCESS, true)];
    assert_eq!(legs(&with_vlans(all.clone(), &own), 8), Ok(vec![(2, Some(10), true, true)]));
    let both = [own, vec![(5, 10, TAGGED, true)]].concat();
    assert_eq!(legs(&with_vlans(all, &both), 8), Err(format!("br0: {}", Why::Strict("nic".to_owned()))));
}
