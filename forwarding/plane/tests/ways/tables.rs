//! The tables of the test's router: a route of every kind.

use std::sync::Arc;

use elements::router::steer::Lists;
use fib::{
    Adjacency, Capacity, DriverMemory, InterfaceEntry, InterfaceFlags, NextHop, Path, PortId, TableId, Tables,
};

use rules::{Action, RoutingRule, RoutingRules, Selector, Span};

use crate::corpus::{HOST, IN, Kind, MACS, OTHER, OUT, OWN, PRIORITIES, interface, tags};

pub const CAPACITY: Capacity = Capacity { ipv4: 200, ipv6: 200, next_hops: 64 };

/// Prefixes that are in the main table whatever table routes.
const MAINS: [&str; 2] = ["10.3.0.0/24", "2001:db8:3::/64"];
/// A port that is down.
const DOWN: PortId = PortId(3);

/// Sets the flags of both interfaces, besides those that they always have.
pub fn open(tables: &mut Tables, more: InterfaceFlags, kind: Kind) {
    let usual = InterfaceFlags::UP
        | InterfaceFlags::TARGET
        | InterfaceFlags::QUEUE
        | InterfaceFlags::FORWARD4
        | InterfaceFlags::FORWARD6;
    let more = match kind.bridge {
        Some(_) if kind.tagged => more | InterfaceFlags::BRIDGED | InterfaceFlags::VLANS,
        Some(_) => more | InterfaceFlags::BRIDGED,
        None => more,
    };
    for (port, mac, mtu) in [(IN, MACS[0], 1500), (OUT, MACS[1], 1400)] {
        let entry = InterfaceEntry::of_port(port, u32::from(port.0), mtu, mac.0, usual | more);
        let priorities = PRIORITIES;
        let entry = InterfaceEntry { tags: tags(port, kind), table: kind.table(), priorities, ..entry };
        tables.set_interface(interface(port, kind), Some(entry)).unwrap();
    }
    let entry = InterfaceEntry::of_port(DOWN, 3, 1500, [2, 0, 0, 0, 1, 3], InterfaceFlags::empty());
    let entry = InterfaceEntry { tags: tags(DOWN, kind), table: kind.table(), ..entry };
    tables.set_interface(interface(DOWN, kind), Some(entry)).unwrap();
}

/// With routes of every kind, in the driver's memory or without.
pub fn filled(memory: Option<DriverMemory>, kind: Kind) -> Tables {
    let mut tables = Tables::new(CAPACITY, memory).unwrap();
    open(&mut tables, InterfaceFlags::empty(), kind);
    let mut to = |port: PortId, mtu, macs: &[Option<[u8; 6]>]| {
        let mut path = |mac: &Option<[u8; 6]>| {
            let adjacency = Adjacency { interface: interface(port, kind), mtu, mac: *mac };
            let adjacency = tables.add_adjacency(&adjacency).unwrap();
            Path { adjacency, weight: 1 }
        };
        NextHop::Forward(macs.iter().map(&mut path).collect())
    };
    let (host, other) = (Some(HOST.0), Some(OTHER.0));
    let hops = [
        (to(IN, 1500, &[host]), &["10.1.0.0/24", "10.3.0.0/24", "2001:db8:1::/64", "2001:db8:3::/64"][..]),
        (to(OUT, 1400, &[host, other]), &["198.18.0.0/15", "2001:db8:f::/48"]),
        (to(OUT, 1400, &[None]), &["198.18.9.0/24", "2001:db8:f:9::/64"]),
        (to(DOWN, 1500, &[host]), &["198.18.15.0/24", "2001:db8:f:15::/64"]),
        (to(OUT, 1000, &[host]), &["198.18.16.0/24", "2001:db8:f:16::/64"]),
        (to(IN, 1500, &[other]), &["198.18.17.0/24", "2001:db8:f:17::/64"]),
        (NextHop::Local, &[]),
        (NextHop::Glean(interface(OUT, kind)), &["198.18.10.0/24", "2001:db8:f:10::/64"]),
        (NextHop::Blackhole, &["198.18.11.0/24", "2001:db8:f:11::/64"]),
        (NextHop::Unreachable, &["198.18.12.0/24", "2001:db8:f:12::/64"]),
        (NextHop::Prohibit, &["198.18.13.0/24", "2001:db8:f:13::/64"]),
        (NextHop::Punt, &["198.18.14.0/24", "2001:db8:f:14::/64"]),
    ];
    let wrong = tables.add_next_hop(&NextHop::Blackhole).unwrap();
    for (hop, prefixes) in hops {
        let id = tables.add_next_hop(&hop).unwrap();
        let own =
            OWN.iter().flatten().map(|own| format!("{own}/{}", if own.contains(':') { 128 } else { 32 }));
        let own = own.filter(|_| hop == NextHop::Local);
        for prefix in own.chain(prefixes.iter().map(|prefix| (*prefix).to_owned())) {
            let net = prefix.parse().unwrap();
            // What the VRF's table does not say, the main one does; what it says, nobody asks the
            // main one.
            let table = if MAINS.contains(&prefix.as_str()) { TableId::MAIN } else { kind.routes() };
            tables.insert(table, net, id).unwrap();
            if table != TableId::MAIN {
                // Whatever rules say, this machine's addresses are its own.
                let local = kind.ruled && hop == NextHop::Local;
                tables.insert(TableId::MAIN, net, if local { id } else { wrong }).unwrap();
            }
        }
    }
    tables
}

/// What destinations are before they are translated, or with a port that is: nobody is there.
pub const ASTRAY: [&str; 4] = ["192.0.2.0/24", "192.0.3.0/24", "2001:db8:ab::/64", "2001:db8:ac::/64"];

/// Routing rules by which what is translated goes where its destination really is, and all other
/// packets where they would go without.
pub fn rules() -> Lists {
    [false, true].map(|ipv6| {
        let refused = |to: &str, port: Option<u16>| RoutingRule {
            selector: Selector {
                to: Some(to.parse().unwrap()),
                ports: [None, port.map(|port| Span { first: port, last: port })],
                ..Selector::ALL
            },
            action: Action::Refuse,
        };
        let look = |table: TableId| RoutingRule {
            selector: Selector::ALL,
            action: Action::Look { table: table.0, longer: None },
        };
        let astray = ASTRAY.iter().filter(|prefix| prefix.contains(':') == ipv6).map(|to| refused(to, None));
        let web = refused(["10.3.0.9/32", "2001:db8:3::9/128"][usize::from(ipv6)], Some(8080));
        let list = [web, look(TableId(7)), look(TableId::MAIN)];
        Arc::new(RoutingRules::new(ipv6, astray.chain(list).collect()))
    })
}
