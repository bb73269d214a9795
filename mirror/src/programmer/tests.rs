//! The programmer against a model of one page: lists that are searched from end to end.

use super::*;
use crate::netlink::link::LinkMessage;
use crate::netlink::neighbour::NeighbourMessage;
use crate::netlink::route::RouteMessage;
use crate::netlink::{EXCLUSIVE, REPLACE};
use fib::Capacity;
use proptest::prelude::*;
use smallvec::smallvec;
use std::net::Ipv4Addr;
use std::time::Duration;

const STALE: u16 = 4;
const FAILED: u16 = 0x20;

#[derive(Clone, Debug)]
enum Operation {
    Announce { prefix: IpNet, metric: u32, way: Naive },
    Withdraw { prefix: IpNet, metric: u32 },
    Link { ifindex: u32, up: bool },
    Neighbour { ifindex: u32, address: IpAddr, state: Option<u16> },
    Bind { ifindex: u32, bound: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naive {
    Gateway(u32, IpAddr),
    Link(u32),
    Blackhole,
    Local,
}

/// Few addresses, so that operations meet: 10.0.{0..3}.{0..3}.
fn address() -> impl Strategy<Value = IpAddr> {
    (0u8..4, 0u8..4).prop_map(|(c, d)| Ipv4Addr::new(10, 0, c, d).into())
}

fn prefix() -> impl Strategy<Value = IpNet> {
    let length = prop_oneof![Just(0u8), Just(8), Just(16), Just(22), Just(24), Just(30), Just(31), Just(32)];
    (address(), length).prop_map(|(address, length)| IpNet::new(address, length).unwrap().trunc())
}

fn operation() -> impl Strategy<Value = Operation> {
    let way = prop_oneof![
        (1u32..4, address()).prop_map(|(ifindex, gateway)| Naive::Gateway(ifindex, gateway)),
        (1u32..4).prop_map(Naive::Link),
        Just(Naive::Blackhole),
        Just(Naive::Local),
    ];
    let state = prop_oneof![Just(None), Just(Some(STALE)), Just(Some(STALE)), Just(Some(FAILED))];
    prop_oneof![
        4 => (prefix(), 0u32..3, way).prop_map(|(prefix, metric, way)| Operation::Announce { prefix, metric, way }),
        2 => (prefix(), 0u32..3).prop_map(|(prefix, metric)| Operation::Withdraw { prefix, metric }),
        1 => (1u32..4, any::<bool>()).prop_map(|(ifindex, up)| Operation::Link { ifindex, up }),
        3 => (1u32..4, address(), state)
            .prop_map(|(ifindex, address, state)| Operation::Neighbour { ifindex, address, state }),
        1 => (1u32..4, any::<bool>()).prop_map(|(ifindex, bound)| Operation::Bind { ifindex, bound }),
    ]
}

#[derive(Default)]
struct Lists {
    routes: Vec<(IpNet, u32, Naive)>,
    up: [bool; 4],
    bound: [bool; 4],
    neighbours: Vec<(u32, IpAddr, u16)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Decision {
    None,
    Local,
    Blackhole,
    Linux,
    Glean(u16),
    Send(u16, Option<[u8; 6]>),
}

impl Lists {
    fn decide(&self, to: IpAddr) -> Decision {
        let alive = |way: &Naive| match way {
            Naive::Gateway(ifindex, _) | Naive::Link(ifindex) => self.up[*ifindex as usize],
            Naive::Blackhole | Naive::Local => true,
        };
        let usable = self.routes.iter().filter(|(prefix, _, way)| prefix.contains(&to) && alive(way));
        let best = usable.max_by_key(|(prefix, metric, _)| (prefix.prefix_len(), u32::MAX - metric));
        let Some((prefix, _, way)) = best else {
            return Decision::None;
        };
        match way {
            Naive::Local => Decision::Local,
            Naive::Blackhole => Decision::Blackhole,
            Naive::Gateway(ifindex, _) | Naive::Link(ifindex) if !self.bound[*ifindex as usize] => {
                Decision::Linux
            }
            Naive::Gateway(ifindex, gateway) => Decision::Send(*ifindex as u16, self.mac(*ifindex, *gateway)),
            Naive::Link(ifindex) => match self.mac(*ifindex, to) {
                None if prefix.prefix_len() < 32 => Decision::Glean(*ifindex as u16),
                mac => Decision::Send(*ifindex as u16, mac),
            },
        }
    }

    fn mac(&self, ifindex: u32, address: IpAddr) -> Option<[u8; 6]> {
        let known =
            self.neighbours.iter().find(|(index, known, _)| (*index, *known) == (ifindex, address))?;
        (known.2 == STALE).then(|| mac_of(ifindex, address))
    }
}

fn mac_of(ifindex: u32, address: IpAddr) -> [u8; 6] {
    let IpAddr::V4(address) = address else { unreachable!("the test has IPv4 addresses only") };
    let [a, b, c, d] = address.octets();
    [2, ifindex as u8, a, b, c, d]
}

fn link(ifindex: u32, up: bool) -> LinkMessage {
    let flags = if up { (libc::IFF_UP | libc::IFF_RUNNING) as u32 } else { 0 };
    LinkMessage {
        ifindex,
        name: format!("e{ifindex}"),
        mac: None,
        mtu: 1500,
        flags,
        kind: None,
        master: None,
    }
}

fn message(prefix: IpNet, metric: u32, way: Naive) -> RouteMessage {
    let path = |ifindex, gateway| crate::model::Path { ifindex, gateway, weight: 1, encap: false };
    let (kind, paths) = match way {
        Naive::Gateway(ifindex, gateway) => (1, smallvec![path(ifindex, Some(gateway))]),
        Naive::Link(ifindex) => (1, smallvec![path(ifindex, None)]),
        Naive::Local => (2, smallvec![path(1, None)]),
        Naive::Blackhole => (6, smallvec![]),
    };
    RouteMessage {
        prefix,
        table: 254,
        protocol: 4,
        kind,
        scope: 0,
        tos: 0,
        metric,
        preference: 0,
        mtu: 0,
        mtu_locked: false,
        from_source: false,
        expires: None,
        object: None,
        paths,
    }
}

fn apply(operation: Operation, lists: &mut Lists, model: &mut Model, changes: &mut Changes) {
    match operation {
        Operation::Announce { prefix, metric, way } => {
            let had = lists.routes.iter().any(|(p, m, _)| (*p, *m) == (prefix, metric));
            lists.routes.retain(|(p, m, _)| (*p, *m) != (prefix, metric));
            lists.routes.push((prefix, metric, way));
            model.routes.announce(&message(prefix, metric, way), if had { REPLACE } else { EXCLUSIVE });
            changes.prefixes.push(prefix);
        }
        Operation::Withdraw { prefix, metric } => {
            let Some(at) = lists.routes.iter().position(|(p, m, _)| (*p, *m) == (prefix, metric)) else {
                return;
            };
            let (.., way) = lists.routes.remove(at);
            model.routes.withdraw(&message(prefix, metric, way));
            changes.prefixes.push(prefix);
        }
        Operation::Link { ifindex, up } => {
            lists.up[ifindex as usize] = up;
            model.set_link(&link(ifindex, up), changes);
        }
        Operation::Neighbour { ifindex, address, state } => {
            lists.neighbours.retain(|(index, known, _)| (*index, *known) != (ifindex, address));
            match state {
                Some(state) => {
                    lists.neighbours.push((ifindex, address, state));
                    let mac = (state == STALE).then(|| mac_of(ifindex, address));
                    model
                        .set_neighbour(&NeighbourMessage { ifindex, address, mac, state, flags: 0 }, changes);
                }
                None => model.remove_neighbour(ifindex, address, changes),
            }
        }
        Operation::Bind { .. } => {}
    }
}

fn decision(tables: &Tables, to: IpAddr) -> Decision {
    let IpAddr::V4(to) = to else { unreachable!("the test has IPv4 addresses only") };
    match tables.next_hop(tables.view().lookup4(to.into())) {
        NextHop::None => Decision::None,
        NextHop::Local => Decision::Local,
        NextHop::Blackhole => Decision::Blackhole,
        NextHop::Punt => Decision::Linux,
        NextHop::Glean(port) => Decision::Glean(port.0),
        NextHop::Forward(paths) => {
            let adjacency = tables.adjacency(paths[0].adjacency).unwrap();
            Decision::Send(adjacency.port.0, adjacency.mac)
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_address_is_decided_as_the_lists_say(operations in prop::collection::vec(operation(), 1..80)) {
        let mut tables = Tables::new(Capacity { ipv4: 1000, ipv6: 100, next_hops: 500 }, None).unwrap();
        let (mut model, mut changes) = (Model::default(), Changes::default());
        let (mut programmer, mut lists) = (Programmer::new(), Lists::default());
        programmer.prepare(&mut model, &mut tables).unwrap();
        for ifindex in 1..4 {
            apply(Operation::Link { ifindex, up: true }, &mut lists, &mut model, &mut changes);
        }
        for operation in operations {
            if let Operation::Bind { ifindex, bound } = operation {
                lists.bound[ifindex as usize] = bound;
                let port = bound.then_some(PortId(ifindex as u16));
                programmer.bind(ifindex, port, &model, &mut tables);
            }
            apply(operation, &mut lists, &mut model, &mut changes);
            programmer.take(&mut changes, &model, &mut tables);
            while programmer.work(&mut model, &mut tables, Instant::now() + Duration::from_secs(1)) {}
            tables.reclaim();
            for (c, d) in (0..4).flat_map(|c| (0..4).map(move |d| (c, d))) {
                let to = Ipv4Addr::new(10, 0, c, d).into();
                prop_assert_eq!(decision(&tables, to), lists.decide(to), "{}", to);
            }
            prop_assert_eq!(programmer.written(), [tables.len4(), tables.len6()]);
        }
        // With the last route and neighbour, the last next hop and adjacency go.
        for (prefix, metric, _) in lists.routes.clone() {
            apply(Operation::Withdraw { prefix, metric }, &mut lists, &mut model, &mut changes);
        }
        programmer.take(&mut changes, &model, &mut tables);
        while programmer.work(&mut model, &mut tables, Instant::now() + Duration::from_secs(1)) {}
        prop_assert_eq!((tables.len4(), programmer.hops.len(), programmer.hops.adjacencies.len()), (0, 1, 0));
        prop_assert!(model.routes.targets().is_empty());
        prop_assert_eq!(programmer.hops.adjacencies.unresolved().count(), 0);
    }
}
