//! What happens at the edges of the tables' room: many hosts, full tables, ids that come back.

use chance::Random;
use fib::{Adjacency, Capacity, FibError, InterfaceId, NextHop, NextHopId, Tables};
use ipnet::{Ipv4Net, Ipv6Net};

#[test]
fn thirty_thousand_dual_stack_hosts_each_have_their_own_next_hop() {
    let mut tables = Tables::new(Capacity::default(), None).unwrap();
    let mut random = Random(1);
    let mut hosts = Vec::new();
    // 120 networks of 250 hosts, with random interface identifiers.
    for host in 0..30_000u32 {
        let network = host / 250;
        let four = u32::from_be_bytes([10, 1, network as u8, (host % 250) as u8 + 1]);
        let six = 0x2001_0db8_0001_0000_u128 << 64 | u128::from(network) << 64 | u128::from(random.next());
        let ids = [0; 2].map(|_| tables.add_next_hop(&NextHop::Local).unwrap());
        tables.insert4(Ipv4Net::new(four.into(), 32).unwrap(), ids[0]).unwrap();
        tables.insert6(Ipv6Net::new(six.into(), 128).unwrap(), ids[1]).unwrap();
        hosts.push((four, six, ids));
    }
    let view = tables.view();
    for (four, six, ids) in hosts {
        assert_eq!([view.lookup4(four), view.lookup6(six)], ids);
        assert_eq!(view.lookup6(six ^ 1 << 63), NextHopId::NONE);
    }
}

#[test]
fn a_full_internet_table_and_its_next_hops_fit() {
    let mut tables = Tables::new(Capacity::default(), None).unwrap();
    let ids: Vec<NextHopId> = (0..16_000).map(|_| tables.add_next_hop(&NextHop::Local).unwrap()).collect();
    let four = |i: u32| (0x0100_0000 + ((i * 7) << 8), 24);
    let six = |i: u128| ((0x2001 << 112) + ((i * 0x1_0003) << 80), 48);
    for i in 0..1_050_000 {
        let (bits, length) = four(i);
        tables.insert4(Ipv4Net::new(bits.into(), length).unwrap(), ids[i as usize % 16_000]).unwrap();
    }
    for i in 0..240_000 {
        let (bits, length) = six(i);
        tables.insert6(Ipv6Net::new(bits.into(), length).unwrap(), ids[i as usize % 16_000]).unwrap();
    }
    assert_eq!((tables.len4(), tables.len6()), (1_050_000, 240_000));
    let view = tables.view();
    assert!((0..1_050_000).all(|i| view.lookup4(four(i).0 | 9) == ids[i as usize % 16_000]));
    assert!((0..240_000).all(|i| view.lookup6(six(i).0 | 9) == ids[i as usize % 16_000]));
    let memory = tables.memory();
    assert!(memory.worker_bytes + memory.writer_bytes < 160_000_000, "{memory:?}");
}

#[test]
fn an_ipv4_table_that_is_full_refuses_and_keeps_what_it_has() {
    // A block for each network of 24 bits; and one more for each of 16 bits, where few routes are
    // to fit.
    fills(Capacity { ipv4: 128 * 300, ipv6: 100, next_hops: 10 }, 8, 300 + 1024);
    fills(Capacity { ipv4: 128 * 20, ipv6: 100, next_hops: 10 }, 16, (128 * 20 + 20 + 1024) / 2);
}

fn fills(capacity: Capacity, apart: u32, hosts: u32) {
    let mut tables = Tables::new(capacity, None).unwrap();
    let view = tables.view();
    let id = tables.add_next_hop(&NextHop::Local).unwrap();
    let host = |i: u32| Ipv4Net::new((0x0a00_0001 + (i << apart)).into(), 32).unwrap();
    let error = (0..).find_map(|i| tables.insert4(host(i), id).err().map(|error| (i, error)));
    let (held, error) = error.unwrap();
    assert!(matches!(error, FibError::Full { table: "IPv4", .. }), "{error}");
    assert_eq!((held, tables.len4()), (hosts, held as usize));
    assert_eq!(view.lookup4(host(held).network().to_bits()), NextHopId::NONE);
    assert!((0..held).all(|i| view.lookup4(host(i).network().to_bits()) == id));
    // Room comes back with the first removal.
    tables.remove4(host(0)).unwrap();
    tables.insert4(host(held), id).unwrap();
    assert_eq!(view.lookup4(host(held).network().to_bits()), id);
    // Nothing is left of what was refused.
    assert!((1..=held).all(|i| tables.remove4(host(i)).is_some()));
    assert!((0..=held).all(|i| view.lookup4(host(i).network().to_bits()) == NextHopId::NONE));
    assert!((0..held).all(|i| tables.insert4(host(i), id).unwrap().is_none()));
    // And the number of routes is limited, too.
    let mut tables = Tables::new(Capacity { ipv4: 3, ..capacity }, None).unwrap();
    let id = tables.add_next_hop(&NextHop::Local).unwrap();
    assert_eq!((0..9).filter(|&i| tables.insert4(host(i), id).is_ok()).count(), 3);
    tables.insert4(host(1), id).expect("a replacement needs no room");
}

#[test]
fn an_ipv6_table_that_is_full_refuses_and_keeps_what_it_has() {
    let capacity = Capacity { ipv4: 100, ipv6: 50_000, next_hops: 10 };
    let mut tables = Tables::new(capacity, None).unwrap();
    let view = tables.view();
    let reader = view.reader();
    let id = tables.add_next_hop(&NextHop::Local).unwrap();
    let mut random = Random(2);
    let mut held: Vec<Ipv6Net> = Vec::new();
    // Hosts far from each other take the most lines.
    let refused = loop {
        let host = (0x2001_0db8 << 96) | u128::from(random.next()) << 28 | u128::from(random.next() >> 40);
        let host = Ipv6Net::new(host.into(), 128).unwrap();
        reader.quiescent();
        match tables.insert6(host, id) {
            Ok(_) => held.push(host),
            Err(FibError::Full { table: "IPv6", unit: "lines", .. }) => break host,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(tables.len6(), held.len());
    assert_eq!(view.lookup6(refused.network().to_bits()), NextHopId::NONE);
    assert!(held.iter().all(|host| view.lookup6(host.network().to_bits()) == id));
    // Removal always works, even when the one reader is silent for good.
    for host in held.drain(..) {
        assert_eq!(tables.remove6(host), Some(id));
        assert_eq!(view.lookup6(host.network().to_bits()), NextHopId::NONE);
    }
    reader.quiescent();
    tables.insert6(refused, id).unwrap();
}

#[test]
fn an_odd_network_too_many_is_refused_whole() {
    let capacity = Capacity { ipv4: 100, ipv6: 1000, next_hops: 10 };
    let mut tables = Tables::new(capacity, None).unwrap();
    let id = tables.add_next_hop(&NextHop::Local).unwrap();
    let net = |i: u128| Ipv6Net::new(((0x2000 + i) << 112).into(), 20).unwrap();
    let refused = (0..).find(|&i| tables.insert6(net(i), id).is_err()).unwrap();
    assert_eq!(tables.len6(), refused as usize);
    assert_eq!(tables.view().lookup6((0x2000 + refused) << 112), NextHopId::NONE);
    tables.remove6(net(3)).unwrap();
    tables.insert6(net(refused), id).unwrap();
}

#[test]
fn the_id_of_a_removed_next_hop_comes_back_only_after_its_last_route() {
    let mut tables = Tables::new(Capacity { ipv4: 100, ipv6: 100, next_hops: 1 }, None).unwrap();
    let view = tables.view();
    let id = tables.add_next_hop(&NextHop::Blackhole).unwrap();
    let net: Ipv4Net = "192.0.2.0/24".parse().unwrap();
    tables.insert4(net, id).unwrap();
    tables.remove_next_hop(id);
    assert_eq!(view.hop(view.lookup4(0xc000_0201)).kind(), fib::HopKind::None);
    assert!(matches!(tables.add_next_hop(&NextHop::Local), Err(FibError::Full { .. })));
    assert!(matches!(
        tables.insert4("198.51.100.0/24".parse().unwrap(), id),
        Err(FibError::NoSuchNextHop(_))
    ));
    tables.remove4(net);
    let reader = view.reader();
    tables.reclaim();
    reader.quiescent();
    assert_eq!(tables.add_next_hop(&NextHop::Local).unwrap(), id);
}

#[test]
fn what_does_not_fit_a_word_is_refused() {
    let many = Capacity { ipv4: 1, ipv6: 1, next_hops: 1 << 22 };
    assert!(matches!(Tables::new(many, None), Err(FibError::TooManyNextHops(_))));
    let mut tables = Tables::new(Capacity { ipv4: 1, ipv6: 1, next_hops: 1 }, None).unwrap();
    let adjacency = Adjacency { interface: InterfaceId(0), mtu: 1500, mac: None };
    tables.add_adjacency(&adjacency).unwrap();
    assert!(matches!(tables.add_adjacency(&adjacency), Err(FibError::Full { table: "adjacency", .. })));
    assert!(matches!(
        tables.set_interface(InterfaceId(16_383), None),
        Err(FibError::NoSuchInterface(16_383))
    ));
}

#[test]
fn few_routes_take_little() {
    let sizes = |ipv4| Capacity { ipv4, ipv6: 1000, next_hops: 1000 }.sizes().fib4;
    assert!(sizes(1000) < 3 << 20 && sizes(32_768) < 40 << 20);
    assert!(sizes(32_769) >= 64 << 20);
}
