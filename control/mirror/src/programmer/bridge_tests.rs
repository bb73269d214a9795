//! Ways over bridges, against what Linux would do with the same words.

use crate::kind::{Bridge, Bridged, Is, Vlan};
use crate::model::{Changes, Model, Path, SourceId, Station, Table};
use crate::netlink::EXCLUSIVE;
use crate::netlink::link::{BridgedMessage, LinkMessage};
use crate::netlink::neighbour::NeighbourMessage;
use crate::netlink::route::RouteMessage;
use crate::netlink::station::StationMessage;
use crate::netlink::vlan::{VlanEntry, VlansMessage};
use crate::programmer::{Legs, Programmer};
use fib::{Capacity, HopKind, InterfaceId, Tables};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Linux's indexes: a bridge, its members that are ports, and one that is none. The plane's
/// interfaces have the same numbers.
const BRIDGE: u32 = 100;
/// A VLAN on it.
const VLAN: u32 = 101;
const PORTS: [u32; 2] = [1, 2];
const OTHER: u32 = 3;
const UP: u32 = (libc::IFF_UP | libc::IFF_RUNNING) as u32;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A neighbour is at this Ethernet address, or at none.
    Neighbour(u8, Option<u8>),
    /// A host of this Ethernet address is behind this member, or nobody knows where.
    Host(u8, Option<u32>),
    /// A member forwards, or does not.
    State(u32, bool),
    /// A member has its link, or has not.
    Link(u32, bool),
    /// Frames of the VLAN pass a member, wait in it, or it has the VLAN no more.
    Passage(u32, Option<bool>),
    /// A host of this Ethernet address is behind this member, in another VLAN.
    Elsewhere(u8, u32),
}

/// What is known, as simply as can be.
#[derive(Default)]
struct Naive {
    neighbours: BTreeMap<u8, u8>,
    hosts: BTreeMap<u8, u32>,
    blocked: [bool; 4],
    dark: [bool; 4],
    without: [bool; 4],
}

/// What becomes of packets to a neighbour.
#[derive(Debug, PartialEq)]
enum Fate {
    /// They leave by this interface, to this address.
    Leave(InterfaceId, [u8; 6]),
    /// Linux looks for it, and says so.
    Sought,
    /// Linux has it.
    Linux,
}

fn mac(last: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, last]
}

impl Naive {
    fn fate(&self, last: u8) -> Fate {
        let Some(at) = self.neighbours.get(&last) else { return Fate::Sought };
        match self.hosts.get(at) {
            None => Fate::Sought,
            Some(&OTHER) => Fate::Linux,
            Some(&member) if self.is_shut(member as usize) => Fate::Sought,
            Some(&member) => Fate::Leave(InterfaceId(member as u16), mac(*at)),
        }
    }

    fn is_shut(&self, member: usize) -> bool {
        self.blocked[member] || self.dark[member] || self.without[member]
    }
}

struct World {
    tables: Tables,
    model: Model,
    changes: Changes,
    programmer: Programmer,
    naive: Naive,
    /// The interface that neighbours are on: the bridge, or the VLAN.
    on: u32,
    /// The VLAN of the bridge's that this is; 0: the bridge tells none apart.
    vlan: u16,
}

fn link(ifindex: u32) -> LinkMessage {
    LinkMessage {
        ifindex,
        name: format!("e{ifindex}"),
        mac: None,
        mtu: 1500,
        flags: UP,
        kind: None,
        master: None,
        is: Is::default(),
        member: None,
        bridged: None,
    }
}

impl World {
    fn new(on: u32, tells_apart: bool) -> World {
        let tables = Tables::new(Capacity { ipv4: 100, ipv6: 100, next_hops: 100 }, None).unwrap();
        let (model, changes, programmer) = (Model::default(), Changes::default(), Programmer::new());
        let vlan = match tells_apart {
            false => 0,
            true if on == BRIDGE => 1,
            true => 5,
        };
        let mut world = World { tables, model, changes, programmer, naive: Naive::default(), on, vlan };
        world.programmer.prepare(&mut world.model, &mut world.tables).unwrap();
        let is = Bridge { vlans: tells_apart, ..Bridge::default() }.into();
        world.model.set_link(&LinkMessage { is, ..link(BRIDGE) }, &mut world.changes);
        let vlan = Vlan { on: Some(BRIDGE), id: 5, ..Vlan::default() };
        world.model.set_link(&LinkMessage { is: vlan.into(), ..link(VLAN) }, &mut world.changes);
        PORTS.iter().chain(&[OTHER]).for_each(|member| world.link(*member, true));
        for of in PORTS.iter().chain(&[OTHER, BRIDGE]) {
            world.vlan(*of, 1, Some(true));
            world.vlan(*of, 5, Some(true));
        }
        let World { tables, model, programmer, .. } = &mut world;
        let legs = PORTS.map(|member| (InterfaceId(member as u16), member));
        programmer.bind(on, Some(Legs::of_members(BRIDGE, legs)), model, tables);
        // Routes by gateways on the bridge, which have next hops of their own.
        (1..=3).for_each(|last| world.route(&format!("10.9.{last}.0/24"), Some(last)));
        world.route("10.0.0.0/24", None);
        world.settle();
        world
    }

    fn link(&mut self, member: u32, up: bool) {
        let flags = if up { UP } else { libc::IFF_UP as u32 };
        let bridged =
            Some(Bridged { forwarding: !self.naive.blocked[member as usize], learns: true, locked: false });
        let message = LinkMessage { master: Some(BRIDGE), bridged, flags, ..link(member) };
        self.model.set_link(&message, &mut self.changes);
        self.naive.dark[member as usize] = !up;
    }

    /// Frames of a VLAN pass, wait, or there are none.
    fn vlan(&mut self, ifindex: u32, vlan: u16, passes: Option<bool>) {
        let (untagged, forwarding) = (vlan == 1, passes == Some(true));
        let (untagged_in, untagged_out) = (untagged, untagged);
        let entry = VlanEntry { vlans: (vlan, vlan), untagged_in, untagged_out, forwarding };
        let message = VlansMessage { ifindex, entries: vec![entry] };
        self.model.change_vlans(&message, passes.is_some(), &mut self.changes);
    }

    fn station(&self, vlan: u16, last: u8) -> Station {
        Station { bridge: BRIDGE, vlan, mac: wire::Mac(mac(last)) }
    }

    fn route(&mut self, prefix: &str, by: Option<u8>) {
        let gateway = by.map(|last| IpAddr::from([10, 0, 0, last]));
        let path = Path { ifindex: self.on, gateway, weight: 1, encap: false };
        let message = RouteMessage {
            prefix: prefix.parse().unwrap(),
            table: 254,
            protocol: 4,
            kind: 1,
            scope: 0,
            tos: 0,
            metric: 0,
            preference: 0,
            mtu: 0,
            sourced: false,
            from: None,
            expires: None,
            object: None,
            paths: [path].into_iter().collect(),
        };
        self.model.routes.announce(SourceId::Netlink, &message, EXCLUSIVE);
        self.changes.prefixes.push((message.prefix, Table::Main));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Neighbour(last, at) => {
                let address = IpAddr::from([10, 0, 0, last]);
                let (mac, state) = (at.map(mac), if at.is_some() { 2 } else { 1 });
                let message = NeighbourMessage { ifindex: self.on, address, mac, state, flags: 0 };
                self.model.set_neighbour(&message, &mut self.changes);
                self.naive.neighbours.remove(&last);
                self.naive.neighbours.extend(at.map(|at| (last, at)));
            }
            Event::Host(last, Some(member)) => {
                let message = StationMessage { station: self.station(self.vlan, last), member: Some(member) };
                self.model.set_station(&message, &mut self.changes);
                self.naive.hosts.insert(last, member);
            }
            Event::Host(last, None) => {
                self.model.remove_station(self.station(self.vlan, last), &mut self.changes);
                self.naive.hosts.remove(&last);
            }
            Event::State(ifindex, forwarding) => {
                let bridged = Bridged { forwarding, learns: true, locked: false };
                let message = BridgedMessage { ifindex, bridge: BRIDGE, bridged };
                self.model.set_bridged(&message, &mut self.changes);
                self.naive.blocked[ifindex as usize] = !forwarding;
            }
            Event::Link(member, up) => self.link(member, up),
            Event::Passage(member, passes) if self.vlan != 0 => {
                self.vlan(member, self.vlan, passes);
                self.naive.without[member as usize] = passes != Some(true);
            }
            Event::Passage(..) => {}
            Event::Elsewhere(last, member) => {
                let message = StationMessage { station: self.station(9, last), member: Some(member) };
                self.model.set_station(&message, &mut self.changes);
            }
        }
    }

    fn settle(&mut self) {
        let World { tables, model, changes, programmer, .. } = self;
        programmer.take(changes, model, tables);
        *changes = Changes::default();
        while programmer.work(model, tables, Instant::now() + Duration::from_secs(1)) {}
    }

    fn fate(&self, address: [u8; 4]) -> Fate {
        let view = self.tables.view();
        let hop = view.hop(view.lookup4(u32::from_be_bytes(address)));
        match hop.kind() {
            HopKind::Forward => {
                let adjacency = view.adjacency(view.select(hop, 0));
                // Sources behind it must seem to come from the bridge.
                assert!(PORTS.contains(&u32::from(adjacency.interface().0)));
                if adjacency.resolved() {
                    Fate::Leave(adjacency.interface(), adjacency.mac())
                } else {
                    Fate::Sought
                }
            }
            HopKind::Glean => Fate::Sought,
            HopKind::Punt => Fate::Linux,
            kind => panic!("{kind:?}"),
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    let (last, port) = (1u8..4, prop_oneof![Just(1u32), Just(2)]);
    let member = prop_oneof![Just(1u32), Just(2), Just(OTHER)];
    prop_oneof![
        (last.clone(), prop::option::weighted(0.8, 1u8..4)).prop_map(|(l, at)| Event::Neighbour(l, at)),
        (last, prop::option::weighted(0.8, member)).prop_map(|(l, member)| Event::Host(l, member)),
        (port.clone(), any::<bool>()).prop_map(|(port, is)| Event::State(port, is)),
        (port.clone(), any::<bool>()).prop_map(|(port, is)| Event::Link(port, is)),
        (port.clone(), any::<Option<bool>>()).prop_map(|(port, passes)| Event::Passage(port, passes)),
        (1u8..4, port).prop_map(|(l, port)| Event::Elsewhere(l, port)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever is told in which order, together or apart.
    #[test]
    fn packets_leave_by_the_member_that_linux_says(
        events in prop::collection::vec((event(), any::<bool>()), 1..40),
        on in prop_oneof![Just(BRIDGE), Just(VLAN)],
        tells_apart: bool,
    ) {
        let mut world = World::new(on, tells_apart);
        for (event, settle) in events {
            world.happen(event);
            if settle {
                world.settle();
                for last in 1..=3 {
                    let is = world.naive.fate(last);
                    prop_assert_eq!(&world.fate([10, 9, last, 1]), &is, "by gateway {}", last);
                    prop_assert_eq!(&world.fate([10, 0, 0, last]), &is, "to host {}", last);
                }
            }
        }
    }
}

/// Of one that is behind no port, nothing is asked again and again.
#[test]
fn who_is_linuxs_is_not_sought() {
    let mut world = World::new(BRIDGE, false);
    world.happen(Event::Neighbour(1, Some(1)));
    world.settle();
    let sought = |world: &World| {
        world
            .programmer
            .hops
            .adjacencies
            .unresolved()
            .filter(|(_, to)| *to == IpAddr::from([10, 0, 0, 1]))
            .count()
    };
    assert_eq!((world.fate([10, 0, 0, 1]), sought(&world)), (Fate::Sought, 1));
    world.happen(Event::Host(1, Some(OTHER)));
    world.settle();
    assert_eq!((world.fate([10, 0, 0, 1]), sought(&world)), (Fate::Linux, 0));
}

/// Not even between the two steps in which the tables follow.
#[test]
fn nothing_leaves_by_a_member_that_the_host_has_left() {
    let mut world = World::new(BRIDGE, false);
    world.happen(Event::Neighbour(1, Some(1)));
    world.happen(Event::Host(1, Some(1)));
    world.settle();
    assert_eq!(world.fate([10, 0, 0, 1]), Fate::Leave(InterfaceId(1), mac(1)));
    world.happen(Event::Host(1, Some(2)));
    let World { tables, model, programmer, .. } = &mut world;
    let users = programmer.hops.adjacencies.refresh_neighbour(BRIDGE, [10, 0, 0, 1].into(), model, tables);
    assert!(!users.unwrap().is_empty());
    assert_eq!(world.fate([10, 0, 0, 1]), Fate::Sought);
    world.settle();
    assert_eq!(world.fate([10, 0, 0, 1]), Fate::Leave(InterfaceId(2), mac(1)));
}
