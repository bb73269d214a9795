//! The programmer against a model of one page: lists that are searched from end to end.

use super::*;
use crate::model::Gateway;
use crate::netlink::link::LinkMessage;
use crate::netlink::neighbour::NeighbourMessage;
use crate::netlink::route::RouteMessage;
use crate::netlink::{EXCLUSIVE, REPLACE};
use fib::Capacity;
use proptest::prelude::*;
use smallvec::smallvec;
use std::cmp::Ordering;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const STALE: u16 = 4;
const FAILED: u16 = 0x20;

#[derive(Clone, Debug)]
enum Operation {
    Announce { key: Key, way: Naive },
    Withdraw { key: Key },
    Link { ifindex: u32, up: bool },
    Neighbour { ifindex: u32, address: IpAddr, state: Option<u16> },
    Bind { ifindex: u32, bound: bool },
    Enslave { ifindex: u32, in_vrf: bool },
    Gateways { lost: Vec<(Option<u32>, IpAddr)>, backups: Vec<(IpAddr, (u32, IpAddr))> },
}

/// The interface that is a VRF, and its table.
const VRF: u32 = 9;
const RED: u32 = 1001;

/// Table (255 local, 254 main, that of the VRF), prefix, metric.
type Key = (u32, IpNet, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naive {
    Gateway(u32, IpAddr),
    Link(u32),
    Blackhole,
    Local,
    Throw,
}

/// Few addresses, so that operations meet: 10.0.{0..3}.{0..3}.
fn address() -> impl Strategy<Value = IpAddr> {
    (0u8..4, 0u8..4).prop_map(|(c, d)| Ipv4Addr::new(10, 0, c, d).into())
}

fn prefix() -> impl Strategy<Value = IpNet> {
    let length = prop_oneof![Just(0u8), Just(8), Just(16), Just(22), Just(24), Just(30), Just(31), Just(32)];
    (address(), length).prop_map(|(address, length)| IpNet::new(address, length).unwrap().trunc())
}

/// The same in IPv6: 2001:db8::a00:{0..3}{0..3}.
fn six(address: IpAddr) -> IpAddr {
    let IpAddr::V4(address) = address else { return address };
    Ipv6Addr::from_bits((0x2001_0db8 << 96) | u128::from(address.to_bits())).into()
}

impl Operation {
    fn in_ipv6(self) -> Operation {
        let prefix =
            |prefix: IpNet| IpNet::new(six(prefix.addr()), 96 + prefix.prefix_len()).unwrap().trunc();
        let key = |(table, of, metric): Key| (table, prefix(of), metric);
        match self {
            Operation::Announce { key: of, way } => {
                let way = match way {
                    Naive::Gateway(ifindex, gateway) => Naive::Gateway(ifindex, six(gateway)),
                    other => other,
                };
                Operation::Announce { key: key(of), way }
            }
            Operation::Withdraw { key: of } => Operation::Withdraw { key: key(of) },
            Operation::Neighbour { ifindex, address, state } => {
                Operation::Neighbour { ifindex, address: six(address), state }
            }
            Operation::Gateways { lost, backups } => Operation::Gateways {
                lost: lost.into_iter().map(|(ifindex, gateway)| (ifindex, six(gateway))).collect(),
                backups: (backups.into_iter())
                    .map(|(gateway, (ifindex, by))| (six(gateway), (ifindex, six(by))))
                    .collect(),
            },
            other => other,
        }
    }
}

fn operation() -> impl Strategy<Value = Operation> {
    let way = prop_oneof![
        (1u32..4, address()).prop_map(|(ifindex, gateway)| Naive::Gateway(ifindex, gateway)),
        (1u32..4).prop_map(Naive::Link),
        Just(Naive::Blackhole),
        Just(Naive::Local),
        Just(Naive::Throw),
    ];
    let table = prop_oneof![1 => Just(255u32), 3 => Just(254), 3 => Just(RED)];
    let key = (table, prefix(), 0u32..3).boxed();
    let state = prop_oneof![Just(None), Just(Some(STALE)), Just(Some(STALE)), Just(Some(FAILED))];
    let lost = prop::collection::vec((prop::option::of(1u32..4), address()), 0..20);
    let backups = prop::collection::vec((address(), (1u32..4, address())), 0..40);
    prop_oneof![
        2 => (lost, backups).prop_map(|(lost, backups)| Operation::Gateways { lost, backups }),
        4 => (key.clone(), way).prop_map(|(key, way)| Operation::Announce { key, way }),
        2 => key.prop_map(|key| Operation::Withdraw { key }),
        1 => (1u32..4, any::<bool>()).prop_map(|(ifindex, up)| Operation::Link { ifindex, up }),
        3 => (1u32..4, address(), state)
            .prop_map(|(ifindex, address, state)| Operation::Neighbour { ifindex, address, state }),
        1 => (1u32..4, any::<bool>()).prop_map(|(ifindex, bound)| Operation::Bind { ifindex, bound }),
        1 => (1u32..4, any::<bool>()).prop_map(|(ifindex, in_vrf)| Operation::Enslave { ifindex, in_vrf }),
    ]
}

#[derive(Default)]
struct Lists {
    routes: Vec<(Key, Naive)>,
    /// What went silently.
    gone: Vec<(Key, Naive)>,
    up: [bool; 4],
    bound: [bool; 4],
    in_vrf: [bool; 4],
    local_first: bool,
    neighbours: Vec<(u32, IpAddr, u16)>,
    lost: Vec<(Option<u32>, IpAddr)>,
    backups: Vec<(IpAddr, (u32, IpAddr))>,
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
    fn link(&self, ifindex: u32) -> LinkMessage {
        let master = self.in_vrf[ifindex as usize].then_some(VRF);
        LinkMessage { master, ..link(ifindex, self.up[ifindex as usize]) }
    }

    fn decide(&self, to: IpAddr) -> Decision {
        let ipv6 = to.is_ipv6();
        let (local, main) = (self.best(255, to), self.best(254, to));
        let (_, way) = match (local, main) {
            (None, None) => return Decision::None,
            (None, Some(main)) => main,
            (Some((_, Naive::Throw)), None) => return Decision::Linux,
            (Some((thrown, Naive::Throw)), Some(main)) => match main.0.prefix_len().cmp(&thrown.prefix_len())
            {
                Ordering::Greater => main,
                Ordering::Equal if ipv6 => main,
                // Known hosts have entries of their own.
                Ordering::Less if ipv6 && thrown.prefix_len() < 128 => {
                    return self.known_host(main.1, to, false).unwrap_or(Decision::Linux);
                }
                _ => return Decision::Linux,
            },
            (Some(local), Some(main)) if !ipv6 && main.0.prefix_len() > local.0.prefix_len() => {
                return Decision::Linux;
            }
            (Some(local), _) => local,
        };
        self.by(way, to, &[255, 254], Some(false))
    }

    /// What a VRF's table comes to, and behind it the main one.
    fn decide_in_vrf(&self, to: IpAddr) -> Decision {
        let says = |table| self.best(table, to).map(|(_, way)| way).filter(|way| **way != Naive::Throw);
        let local = says(255).filter(|_| self.local_first);
        let thrown = self.best(255, to).filter(|(_, way)| self.local_first && **way == Naive::Throw);
        if let Some((thrown, _)) = thrown {
            match self.best(RED, to) {
                Some((own, way)) if own.prefix_len() < thrown.prefix_len() => {
                    return self.known_host(way, to, true).unwrap_or(Decision::Linux);
                }
                None => return Decision::Linux,
                Some(_) => {}
            }
        }
        match local.or_else(|| says(RED)) {
            Some(way) if local.is_some() => self.by(way, to, &[255, RED], None),
            Some(way) => self.by(way, to, &[RED], Some(true)),
            None => self.decide(to),
        }
    }

    /// What a way comes to where routes of these tables may be a host's, and hosts of a VRF's
    /// interfaces or of others have entries of their own.
    fn by(&self, way: &Naive, to: IpAddr, tables: &[u32], hosts: Option<bool>) -> Decision {
        match way {
            Naive::Throw => Decision::None,
            Naive::Local => Decision::Local,
            Naive::Blackhole => Decision::Blackhole,
            Naive::Gateway(ifindex, _) | Naive::Link(ifindex) if !self.bound[*ifindex as usize] => {
                Decision::Linux
            }
            Naive::Gateway(ifindex, gateway) => {
                // Of two backups of one gateway the later counts.
                let backup = self.backups.iter().rev().find(|(of, _)| of == gateway).map(|(_, by)| *by);
                let open = |(by, address): &(u32, IpAddr)| {
                    self.bound[*by as usize] && self.up[*by as usize] && !self.fails(*by, *address)
                };
                let by = match backup.filter(open) {
                    Some(backup) if self.fails(*ifindex, *gateway) => backup,
                    _ => (*ifindex, *gateway),
                };
                Decision::Send(by.0 as u16, self.mac(by.0, by.1))
            }
            Naive::Link(ifindex) => match self.mac(*ifindex, to) {
                mac if self.has_host_route(to, tables) => Decision::Send(*ifindex as u16, mac),
                // The hosts of another table's interface are Linux's to know.
                Some(mac) if hosts == Some(self.in_vrf[*ifindex as usize]) => {
                    Decision::Send(*ifindex as u16, Some(mac))
                }
                _ => Decision::Glean(*ifindex as u16),
            },
        }
    }

    fn known_host(&self, way: &Naive, to: IpAddr, in_vrf: bool) -> Option<Decision> {
        let Naive::Link(ifindex) = way else { return None };
        let known = self.bound[*ifindex as usize] && self.in_vrf[*ifindex as usize] == in_vrf;
        let mac = self.mac(*ifindex, to).filter(|_| known);
        mac.map(|mac| Decision::Send(*ifindex as u16, Some(mac)))
    }

    /// A host with a route of its own has an adjacency of its own, resolved or not.
    fn has_host_route(&self, to: IpAddr, tables: &[u32]) -> bool {
        tables.iter().any(|table| {
            self.best(*table, to).is_some_and(|(prefix, _)| prefix.prefix_len() == prefix.max_prefix_len())
        })
    }

    fn best(&self, table: u32, to: IpAddr) -> Option<(IpNet, &Naive)> {
        let alive = |way: &Naive| match way {
            Naive::Gateway(ifindex, _) | Naive::Link(ifindex) => self.up[*ifindex as usize],
            Naive::Blackhole | Naive::Local | Naive::Throw => true,
        };
        let fits = |((t, prefix, _), way): &&(Key, Naive)| *t == table && prefix.contains(&to) && alive(way);
        let usable = self.routes.iter().filter(fits);
        let best = usable.max_by_key(|((_, prefix, metric), _)| (prefix.prefix_len(), u32::MAX - metric))?;
        Some((best.0.1, &best.1))
    }

    /// Whether a gateway is lost, or Linux knows that it does not answer.
    fn fails(&self, ifindex: u32, address: IpAddr) -> bool {
        let lost = |(by, of): &(Option<u32>, IpAddr)| *of == address && by.is_none_or(|by| by == ifindex);
        self.lost.iter().any(lost) || self.neighbours.contains(&(ifindex, address, FAILED))
    }

    fn mac(&self, ifindex: u32, address: IpAddr) -> Option<[u8; 6]> {
        let known =
            self.neighbours.iter().find(|(index, known, _)| (*index, *known) == (ifindex, address))?;
        (known.2 == STALE).then(|| mac_of(ifindex, address))
    }
}

fn mac_of(ifindex: u32, address: IpAddr) -> [u8; 6] {
    match address {
        IpAddr::V4(address) => [2, ifindex as u8, 4, 0, address.octets()[2], address.octets()[3]],
        IpAddr::V6(address) => [2, ifindex as u8, 6, 0, address.octets()[14], address.octets()[15]],
    }
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
        is: crate::kind::Is::default(),
        member: None,
        bridged: None,
    }
}

fn message((table, prefix, metric): Key, way: Naive) -> RouteMessage {
    let path = |ifindex, gateway| crate::model::Path { ifindex, gateway, weight: 1, encap: false };
    let (kind, paths) = match way {
        Naive::Gateway(ifindex, gateway) => (1, smallvec![path(ifindex, Some(gateway))]),
        Naive::Link(ifindex) => (1, smallvec![path(ifindex, None)]),
        Naive::Local => (2, smallvec![path(1, None)]),
        Naive::Blackhole => (6, smallvec![]),
        Naive::Throw => (9, smallvec![]),
    };
    RouteMessage {
        prefix,
        table,
        protocol: 4,
        kind,
        scope: 0,
        tos: 0,
        metric,
        preference: 0,
        mtu: 0,
        sourced: false,
        from: None,
        expires: None,
        object: None,
        paths,
    }
}

/// Where a key's routes are.
fn place_of((table, prefix, _): Key) -> (IpNet, Table) {
    (prefix, Table::from_number(table).unwrap_or(Table::Vrf(table)))
}

fn apply(operation: Operation, lists: &mut Lists, model: &mut Model, changes: &mut Changes) {
    match operation {
        Operation::Announce { key, way } => {
            let had = lists.routes.iter().any(|(known, _)| *known == key);
            lists.routes.retain(|(known, _)| *known != key);
            lists.routes.push((key, way));
            model.routes.announce(
                SourceId::Netlink,
                &message(key, way),
                if had { REPLACE } else { EXCLUSIVE },
            );
            changes.prefixes.push(place_of(key));
        }
        Operation::Withdraw { key } => {
            let Some(at) = lists.routes.iter().position(|(known, _)| *known == key) else {
                return;
            };
            let (_, way) = lists.routes.remove(at);
            model.routes.withdraw(SourceId::Netlink, &message(key, way));
            changes.prefixes.push(place_of(key));
        }
        Operation::Link { ifindex, up } => {
            let goes = lists.up[ifindex as usize] && !up;
            lists.up[ifindex as usize] = up;
            model.set_link(&lists.link(ifindex), changes);
            // Routes go with it, of which a read tells the model later: perhaps when it is up
            // again.
            let by = |way: &Naive| matches!(way, Naive::Gateway(by, _) | Naive::Link(by) if *by == ifindex);
            let (gone, stay) =
                std::mem::take(&mut lists.routes).into_iter().partition(|(_, way)| goes && by(way));
            lists.routes = stay;
            lists.gone.extend(gone);
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
        Operation::Bind { .. } | Operation::Gateways { .. } => {}
        Operation::Enslave { ifindex, in_vrf } => {
            lists.in_vrf[ifindex as usize] = in_vrf;
            model.set_link(&lists.link(ifindex), changes);
        }
    }
}

fn decision(tables: &Tables, table: TableId, to: IpAddr) -> Decision {
    match tables.next_hop(tables.view().lookup(table, to)) {
        NextHop::None => Decision::None,
        NextHop::Local => Decision::Local,
        NextHop::Blackhole => Decision::Blackhole,
        NextHop::Punt | NextHop::Foreign(_) => Decision::Linux,
        NextHop::Glean(port) => Decision::Glean(port.0),
        NextHop::Forward(paths) => {
            let adjacency = tables.adjacency(paths[0].adjacency).unwrap();
            Decision::Send(adjacency.interface.0, adjacency.mac)
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn every_address_is_decided_as_the_lists_say(operations in prop::collection::vec(operation(), 1..80), ipv6: bool, local_first: bool) {
        let mut tables = Tables::new(Capacity { ipv4: 1000, ipv6: 100, next_hops: 500 }, None).unwrap();
        let (mut model, mut changes) = (Model::default(), Changes::default());
        let (mut programmer, mut lists) = (Programmer::new(), Lists::default());
        programmer.prepare(&mut model, &mut tables).unwrap();
        lists.local_first = local_first;
        programmer.look_into_local_first([local_first; 2]);
        let vrf = LinkMessage { kind: Some("vrf".to_owned()), is: crate::kind::Vrf { table: RED }.into(), ..link(VRF, true) };
        model.set_link(&vrf, &mut changes);
        for ifindex in 1..4 {
            apply(Operation::Link { ifindex, up: true }, &mut lists, &mut model, &mut changes);
        }
        for operation in operations {
            let operation = if ipv6 { operation.in_ipv6() } else { operation };
            if let Operation::Bind { ifindex, bound } = operation {
                lists.bound[ifindex as usize] = bound;
                let port = bound.then(|| InterfaceId(ifindex as u16).into());
                programmer.bind(ifindex, port, &model, &mut tables);
            }
            if let Operation::Gateways { lost, backups } = &operation {
                (lists.lost, lists.backups) = (lost.clone(), backups.clone());
                let named = |(ifindex, address): &(_, _)| Gateway { address: *address, ifindex: *ifindex };
                let backups = backups.iter().map(|(of, by)| (named(&(None, *of)), *by)).collect();
                let gateways = Gateways { lost: lost.iter().map(named).collect(), backups };
                let before = std::mem::replace(&mut model.gateways, gateways);
                programmer.gateways_changed(&before, &model, &mut tables);
            }
            apply(operation, &mut lists, &mut model, &mut changes);
            programmer.take(&mut changes, &model, &mut tables);
            while programmer.work(&mut model, &mut tables, Instant::now() + Duration::from_secs(1)) {}
            tables.reclaim();
            for (c, d) in (0..4).flat_map(|c| (0..4).map(move |d| (c, d))) {
                let to = Ipv4Addr::new(10, 0, c, d).into();
                let to = if ipv6 { six(to) } else { to };
                prop_assert_eq!(decision(&tables, TableId::MAIN, to), lists.decide(to), "{}", to);
                let red = programmer.vrfs.id(RED).unwrap();
                prop_assert_eq!(decision(&tables, red, to), lists.decide_in_vrf(to), "{} in the VRF", to);
            }
            prop_assert_eq!(programmer.written(), tables.len());
        }
        // With the last route and neighbour, the last next hop and adjacency go.
        for (key, way) in std::mem::take(&mut lists.gone) {
            model.routes.withdraw(SourceId::Netlink, &message(key, way));
            changes.prefixes.push(place_of(key));
        }
        for (key, _) in lists.routes.clone() {
            apply(Operation::Withdraw { key }, &mut lists, &mut model, &mut changes);
        }
        programmer.take(&mut changes, &model, &mut tables);
        while programmer.work(&mut model, &mut tables, Instant::now() + Duration::from_secs(1)) {}
        prop_assert_eq!((tables.len().iter().sum::<usize>(), programmer.hops.len(), programmer.hops.adjacencies.len()), (0, 1, 0));
        prop_assert!(model.routes.targets().is_empty());
        prop_assert_eq!(programmer.hops.adjacencies.unresolved().count(), 0);
    }
}

/// A backup that does not answer when it is named leads nowhere, and does when it answers again.
#[test]
fn a_backup_takes_over_when_it_answers_again() {
    let mut tables = Tables::new(Capacity { ipv4: 100, ipv6: 100, next_hops: 100 }, None).unwrap();
    let (mut model, mut changes) = (Model::default(), Changes::default());
    let (mut programmer, mut lists) = (Programmer::new(), Lists::default());
    let [gateway, backup]: [IpAddr; 2] = [[10, 0, 2, 0].into(), [10, 0, 3, 0].into()];
    let key = (254, "10.0.0.0/24".parse().unwrap(), 0);
    let neighbour = |state| Operation::Neighbour { ifindex: 1, address: backup, state: Some(state) };
    apply(Operation::Link { ifindex: 1, up: true }, &mut lists, &mut model, &mut changes);
    programmer.bind(1, Some(InterfaceId(1).into()), &model, &mut tables);
    model.gateways = Gateways {
        lost: [Gateway { address: gateway, ifindex: None }].into(),
        backups: [(Gateway { address: gateway, ifindex: None }, (1, backup))].into(),
    };
    apply(neighbour(FAILED), &mut lists, &mut model, &mut changes);
    apply(Operation::Announce { key, way: Naive::Gateway(1, gateway) }, &mut lists, &mut model, &mut changes);
    for (state, way) in [(FAILED, None), (STALE, Some(mac_of(1, backup))), (FAILED, None)] {
        apply(neighbour(state), &mut lists, &mut model, &mut changes);
        programmer.take(&mut changes, &model, &mut tables);
        while programmer.work(&mut model, &mut tables, Instant::now() + Duration::from_secs(1)) {}
        let decided = decision(&tables, TableId::MAIN, [10, 0, 0, 1].into());
        assert_eq!(decided, Decision::Send(1, way));
    }
}
