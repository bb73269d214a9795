//! The tables of the router that is measured, and the frames that it forwards.

use std::net::IpAddr;

use ::rules::{Action, RoutingRule, Selector, Span};
use fib::{
    Adjacency, Capacity, Gre, InterfaceEntry, InterfaceFlags, InterfaceId, NextHop, NextHopId, Over, Path,
    Payload, PortId, TableId, Tables, Tags, Tunnel,
};
use ipnet::IpNet;
use lab::prefixes::{Random, inside4, inside6, ipv4, ipv6};
use wire::{Mac, protocol};

use super::case::{Besides, Case, Load, Trunk, Way};
use super::frame::{Frame, HOST, ROUTER};
use super::{IN, OUT};

/// Frames, each to another destination.
pub const DESTINATIONS: usize = 65_536;
pub const GATEWAYS: usize = 16;
/// The table that routing rules lead to.
const STEERED: TableId = TableId(1);
/// The table of VRF number `n`.
fn vrf(n: usize) -> TableId {
    TableId(1 + n as u16)
}

/// The ends of the tunnel.
pub const ENDS: [[u8; 4]; 2] = [[10, 99, 1, 1], [192, 0, 2, 77]];
const TUNNEL: InterfaceId = InterfaceId::FIRST_LOGICAL;

pub fn gateway(index: usize) -> Mac {
    Mac([2, 0, 0, 9, 9, index as u8])
}

fn tunnel() -> InterfaceEntry {
    let [local, remote] = ENDS.map(Into::into);
    let payload = Payload::Gre { enters: Gre::PLAIN, leaves: Gre::PLAIN };
    let over = Over::Ipv4 { local, remote, dont_fragment: true, ignore_df: false };
    let tags = Tags::Tunnel(Tunnel { payload, ttl: 0, tos: Some(0), over });
    let flags = InterfaceFlags::UP | InterfaceFlags::FORWARD4;
    let (ifindex, port, table) = (u32::from(TUNNEL.0), PortId::NONE, TableId::MAIN);
    let priorities = Default::default();
    InterfaceEntry { ifindex, mtu: 1476, mac: [0; 6], flags, port, tags, table, priorities }
}

/// VLAN number `n` on the first port (side 0) or the second (side 1).
fn vlan(n: usize, side: usize) -> InterfaceId {
    InterfaceId(InterfaceId::FIRST_LOGICAL.0 + (2 * n + side) as u16)
}

/// Tables of VRFs stand where IPv6 routes do, and small ones whose prefixes lie far apart take more
/// room than a large one (`[tables] ipv6`).
fn capacity(case: &Case) -> Capacity {
    match case.trunk {
        Trunk::Vrfs(_) => Capacity { ipv6: 4_000_000, ..Capacity::default() },
        _ => Capacity::default(),
    }
}

/// The frames that come in by the first port, and by the second.
pub type Frames = [Vec<Frame>; 2];

/// The tables: the routes by 16 gateways behind the second port, and the senders behind the first.
pub fn tables(case: &Case, random: &mut Random) -> (Tables, Frames) {
    // Invariant of all `expect`s here: a bench that cannot make its tables has nothing to measure.
    let mut tables = Tables::new(capacity(case), None).expect("tables");
    let mut flags =
        InterfaceFlags::UP | InterfaceFlags::QUEUE | InterfaceFlags::FORWARD4 | InterfaceFlags::FORWARD6;
    if case.besides == Besides::ReversePath {
        flags |= InterfaceFlags::RPF4_STRICT | InterfaceFlags::RPF6_STRICT;
    }
    for (port, mac) in [IN, OUT].into_iter().zip(ROUTER) {
        let mut entry = InterfaceEntry::of_port(port, u32::from(port.0), 1500, mac.0, flags);
        if case.steered > 0 {
            entry.table = TableId::BY_RULES;
        }
        tables.set_interface(port.interface(), Some(entry)).expect("a port");
    }
    let trunk = case.trunk.tags();
    for (n, tags) in trunk.iter().enumerate() {
        let table = match case.trunk {
            Trunk::Vrfs(_) => vrf(n),
            _ => TableId::MAIN,
        };
        for (side, port) in [IN, OUT].into_iter().enumerate() {
            let id = vlan(n, side);
            let entry = InterfaceEntry::of_port(port, u32::from(id.0), 1500, ROUTER[side].0, flags);
            let entry = InterfaceEntry { tags: *tags, table, ..entry };
            tables.set_interface(id, Some(entry)).expect("a VLAN");
        }
    }
    if case.tunnel != Way::Plain {
        tables.set_interface(TUNNEL, Some(tunnel())).expect("a tunnel");
    }
    let mut hop = |interface: InterfaceId, mac: Mac| -> NextHopId {
        let adjacency = tables.add_adjacency(&Adjacency { interface, mtu: 1500, mac: Some(mac.0) });
        let path = Path { adjacency: adjacency.expect("an adjacency"), weight: 1 };
        tables.add_next_hop(&NextHop::Forward(vec![path])).expect("a next hop")
    };
    let back = hop(IN.interface(), HOST);
    let far = hop(OUT.interface(), gateway(0));
    let by = |index: usize| match case.trunk {
        _ if case.tunnel == Way::Out => (TUNNEL, Mac([0; 6])),
        Trunk::None => (OUT.interface(), gateway(index)),
        Trunk::Vlan | Trunk::QinQ => (vlan(0, 1), gateway(index)),
        Trunk::Vrfs(_) => (vlan(index, 1), gateway(index % GATEWAYS)),
    };
    let count = GATEWAYS.max(trunk.len());
    let hops: Vec<NextHopId> = (0..count).map(by).map(|(interface, mac)| hop(interface, mac)).collect();
    if case.tunnel != Way::Plain {
        let [local, remote] = ENDS.map(|end| IpNet::from(IpAddr::from(end)));
        let own = tables.add_next_hop(&NextHop::Local).expect("a next hop");
        tables.insert(TableId::MAIN, local, own).expect("room");
        tables.insert(TableId::MAIN, remote, far).expect("room");
    }
    tables.insert4("10.99.1.0/24".parse().expect("a prefix"), back).expect("room");
    tables.insert4("10.64.0.0/16".parse().expect("a prefix"), back).expect("room");
    tables.insert6("2001:db8:1::/64".parse().expect("a prefix"), back).expect("room");
    let mut routes: Vec<IpNet> = match case.version {
        4 => ipv4(case.routes.max(1000), random).into_iter().map(IpNet::from).collect(),
        _ => ipv6(case.routes.max(1000), random).into_iter().map(IpNet::from).collect(),
    };
    routes.truncate(case.routes);
    for (index, net) in routes.iter().enumerate() {
        let table = match case.trunk {
            Trunk::Vrfs(_) => vrf(index % hops.len()),
            _ if case.steered > 0 => STEERED,
            _ => TableId::MAIN,
        };
        tables.insert(table, *net, hops[index % hops.len()]).expect("room");
    }
    tables.reclaim();
    let mut frames = Frames::default();
    for n in 0..DESTINATIONS as u32 {
        let route = random.below(routes.len());
        let frame = match routes[route] {
            IpNet::V4(net) if case.tunnel == Way::In => Frame::enclosed(inside4(net, random)),
            IpNet::V4(net) => Frame::ipv4(case.load, n, inside4(net, random)),
            IpNet::V6(net) => Frame::ipv6(inside6(net, random)),
        };
        // A route of VRF n is reached by VLAN n.
        let frame = match trunk.len() {
            0 => frame,
            vlans => frame.tagged(trunk[route % vlans]),
        };
        match case.load {
            Load::Mixed if n % 2 == 1 => frames[1].push(frame.answered(ROUTER[1])),
            _ => frames[0].push(frame),
        }
    }
    (tables, frames)
}

/// Routing rules by sources, destinations, ports and the interface; the last one matches.
pub fn routing_rules(count: usize) -> Vec<RoutingRule> {
    let net = |n: usize| format!("10.{n}.0.0/16").parse().ok();
    let look = Action::Look { table: STEERED.0, longer: None };
    let other = |n: usize| match n % 4 {
        0 => Selector { from: net(n), ..Selector::ALL },
        1 => Selector { from: net(n), to: net(n + 100), ..Selector::ALL },
        2 => Selector { from: net(n), inputs: Some(vec![OUT.0]), ..Selector::ALL },
        _ => {
            let ports = [None, Some(Span { first: 1000 + n as u16, last: 1100 + n as u16 })];
            Selector { from: net(n), protocol: Some(protocol::TCP), ports, ..Selector::ALL }
        }
    };
    let last = Selector { from: "10.99.0.0/16".parse().ok(), ..Selector::ALL };
    let selectors = (0..count - 1).map(other).chain([last]);
    selectors.map(|selector| RoutingRule { selector, action: look }).collect()
}
