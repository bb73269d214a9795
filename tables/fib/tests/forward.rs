//! Next hops and adjacencies as readers see them.

use fib::{Adjacency, AdjacencyId, Capacity, FibError, HopKind, InterfaceId, NextHop, Path, Tables};
use std::collections::BTreeMap;

const CAPACITY: Capacity = Capacity { ipv4: 1000, ipv6: 1000, next_hops: 1000 };

fn neighbour(tables: &mut Tables, interface: u16, last: u8) -> AdjacencyId {
    let adjacency =
        Adjacency { interface: InterfaceId(interface), mtu: 1500, mac: Some([2, 0, 0, 0, 0, last]) };
    tables.add_adjacency(&adjacency).unwrap()
}

fn paths(adjacencies: &[AdjacencyId]) -> NextHop {
    NextHop::Forward(adjacencies.iter().map(|&adjacency| Path { adjacency, weight: 1 }).collect())
}

#[test]
fn one_store_redirects_all_routes_of_a_next_hop() {
    let mut tables = Tables::new(CAPACITY, None).unwrap();
    let (one, two) = (neighbour(&mut tables, 1, 1), neighbour(&mut tables, 2, 2));
    let id = tables.add_next_hop(&paths(&[one])).unwrap();
    for third in 0..=255u8 {
        tables.insert4(ipnet::Ipv4Net::new([198, 18, third, 0].into(), 24).unwrap(), id).unwrap();
    }
    let view = tables.view();
    let by = |address: u32| {
        let hop = view.hop(view.lookup4(address));
        (hop.kind(), view.adjacency(view.select(hop, 12345)).interface())
    };
    assert!((0..=255).all(|third| by(0xc612_0001 | third << 8) == (HopKind::Forward, InterfaceId(1))));
    tables.set_next_hop(id, &paths(&[two])).unwrap();
    assert!((0..=255).all(|third| by(0xc612_0001 | third << 8) == (HopKind::Forward, InterfaceId(2))));
    tables.set_next_hop(id, &NextHop::Unreachable).unwrap();
    assert_eq!(view.hop(view.lookup4(0xc612_0001)).kind(), HopKind::Unreachable);
    assert_eq!(tables.next_hop(id), NextHop::Unreachable);
}

#[test]
fn every_kind_of_next_hop_reads_back() {
    let mut tables = Tables::new(CAPACITY, None).unwrap();
    let adjacencies: Vec<_> = (1..4).map(|i| neighbour(&mut tables, i, i as u8)).collect();
    let kinds = [
        NextHop::None,
        paths(&adjacencies[..1]),
        paths(&adjacencies),
        NextHop::Local,
        NextHop::Glean(InterfaceId(3)),
        NextHop::Blackhole,
        NextHop::Unreachable,
        NextHop::Prohibit,
        NextHop::Punt,
        NextHop::Foreign(1420),
    ];
    for next_hop in &kinds {
        let id = tables.add_next_hop(next_hop).unwrap();
        assert_eq!(&tables.next_hop(id), next_hop);
        for other in &kinds {
            tables.set_next_hop(id, other).unwrap();
            assert_eq!(&tables.next_hop(id), other);
        }
        tables.remove_next_hop(id);
        assert_eq!(tables.next_hop(id), NextHop::None);
    }
}

#[test]
fn flows_spread_by_weight_and_stay_when_another_path_goes() {
    let mut tables = Tables::new(CAPACITY, None).unwrap();
    let adjacencies: Vec<_> = (0..4).map(|i| neighbour(&mut tables, i, i as u8)).collect();
    let weighted = |weights: [u16; 4]| {
        let paths = adjacencies.iter().zip(weights).map(|(&adjacency, weight)| Path { adjacency, weight });
        NextHop::Forward(paths.collect())
    };
    let id = tables.add_next_hop(&weighted([1, 1, 1, 5])).unwrap();
    let view = tables.view();
    let spread = || -> Vec<AdjacencyId> { (0..65536).map(|hash| view.select(view.hop(id), hash)).collect() };
    let before = spread();
    let mut counts = BTreeMap::new();
    before.iter().for_each(|adjacency| *counts.entry(adjacency).or_insert(0) += 1);
    assert_eq!(counts.values().copied().collect::<Vec<_>>(), [8192, 8192, 8192, 40960]);

    tables.set_next_hop(id, &weighted([1, 1, 0, 5])).unwrap();
    let moved = |before: &[AdjacencyId], after: &[AdjacencyId]| {
        before.iter().zip(after).filter(|(a, b)| a != b).map(|(a, _)| *a).collect::<Vec<_>>()
    };
    let after = spread();
    assert!(!after.contains(&adjacencies[2]));
    // Those of the lost path, and a few that the new shares ask for.
    assert!(moved(&before, &after).len() <= 65536 / 8 + 65536 / 32);

    tables.set_next_hop(id, &paths(&adjacencies[..1])).unwrap();
    assert!(spread().iter().all(|&adjacency| adjacency == adjacencies[0]));
}

#[test]
fn mistakes_change_nothing() {
    let mut tables = Tables::new(CAPACITY, None).unwrap();
    let one = neighbour(&mut tables, 1, 1);
    let id = tables.add_next_hop(&paths(&[one])).unwrap();
    let missing = AdjacencyId(999);
    assert!(matches!(tables.set_next_hop(id, &paths(&[one, missing])), Err(FibError::NoSuchAdjacency(_))));
    assert!(matches!(tables.set_next_hop(id, &NextHop::Forward(vec![])), Err(FibError::NoPaths)));
    let none = Path { adjacency: one, weight: 0 };
    assert!(matches!(tables.set_next_hop(id, &NextHop::Forward(vec![none])), Err(FibError::NoPaths)));
    let many: Vec<_> = (0..257).map(|i| neighbour(&mut tables, 1, i as u8)).collect();
    assert!(matches!(tables.set_next_hop(id, &paths(&many)), Err(FibError::TooManyPaths(257))));
    tables.set_next_hop(id, &paths(&many[..256])).unwrap();
    tables.set_next_hop(id, &paths(&[one])).unwrap();
    let moved = Adjacency { interface: InterfaceId(2), mtu: 1500, mac: None };
    assert!(matches!(tables.set_adjacency(one, &moved), Err(FibError::AdjacencyMoved(_))));
    assert!(matches!(tables.set_adjacency(missing, &moved), Err(FibError::NoSuchAdjacency(_))));
    assert_eq!(tables.next_hop(id), paths(&[one]));
    assert_eq!(tables.adjacency(one).unwrap().interface, InterfaceId(1));
}

#[test]
fn a_changed_neighbour_and_a_used_one_are_seen_at_once() {
    let mut tables = Tables::new(CAPACITY, None).unwrap();
    let (one, two) = (neighbour(&mut tables, 1, 1), neighbour(&mut tables, 1, 2));
    let view = tables.view();
    assert!(tables.take_used().is_empty());
    view.mark_used(two);
    assert_eq!(tables.take_used(), [two]);
    assert!(tables.take_used().is_empty());
    tables.set_adjacency(one, &Adjacency { interface: InterfaceId(1), mtu: 9000, mac: None }).unwrap();
    assert!(!view.adjacency(one).resolved());
    let mac = [2, 0, 0, 0, 0, 99];
    tables.set_adjacency(one, &Adjacency { interface: InterfaceId(1), mtu: 9000, mac: Some(mac) }).unwrap();
    assert_eq!((view.adjacency(one).mac(), view.adjacency(one).mtu()), (mac, 9000));
    tables.remove_adjacency(one);
    assert!(!view.adjacency(one).resolved());
    assert_eq!(tables.adjacency(one), None);
}
