//! What `ip` does to Linux's routes is in the tables.

mod world;

use fib::{InterfaceId, NextHop};
use world::{World, batch, ip, quiet};

const MAC: &str = "02:00:00:00:00:02";
const MAC_BYTES: [u8; 6] = [2, 0, 0, 0, 0, 2];

#[test]
fn connected_networks_glean_and_own_addresses_are_local() {
    let mut world = World::small(quiet());
    assert_eq!(world.decision("10.0.0.77"), NextHop::Glean(InterfaceId(0)));
    assert_eq!(world.decision("2001:db8:1::77"), NextHop::Glean(InterfaceId(1)));
    assert_eq!(world.decision("10.0.0.1"), NextHop::Local);
    assert_eq!(world.decision("10.0.0.255"), NextHop::Local);
    assert_eq!(world.decision("2001:db8::1"), NextHop::Local);
    assert_eq!(world.decision("127.0.0.5"), NextHop::Local);
    assert_eq!(world.decision("10.9.0.7"), NextHop::Foreign(1500));
    assert_eq!(world.decision("192.0.2.1"), NextHop::None);
    assert!(world.told.locals.contains(&"10.0.1.1".parse().unwrap()));
    world.assert_equal_to_linux();
}

#[test]
fn a_known_neighbour_has_its_own_entry_until_it_is_lost() {
    let mut world = World::small(quiet());
    ip(&format!("neigh add 10.0.0.2 lladdr {MAC} dev p0"));
    ip(&format!("neigh add 2001:db8::2 lladdr {MAC} dev p0"));
    world.settle();
    assert_eq!(world.ways("10.0.0.2"), [(0, Some(MAC_BYTES))]);
    assert_eq!(world.ways("2001:db8::2"), [(0, Some(MAC_BYTES))]);
    ip("neigh change 10.0.0.2 lladdr 02:00:00:00:00:03 dev p0");
    world.settle();
    assert_eq!(world.ways("10.0.0.2"), [(0, Some([2, 0, 0, 0, 0, 3]))]);
    ip("neigh del 10.0.0.2 dev p0");
    ip("neigh del 2001:db8::2 dev p0");
    world.settle();
    assert_eq!(world.decision("10.0.0.2"), NextHop::Glean(InterfaceId(0)));
    assert_eq!(world.decision("2001:db8::2"), NextHop::Glean(InterfaceId(0)));
}

#[test]
fn a_neighbour_on_the_wrong_link_gets_no_entry() {
    let mut world = World::small(quiet());
    ip(&format!("neigh add 10.0.1.5 lladdr {MAC} dev p0"));
    ip(&format!("neigh add 10.0.0.6 lladdr {MAC} dev p0"));
    world.settle();
    assert_eq!(world.decision("10.0.1.5"), NextHop::Glean(InterfaceId(1)));
    assert_eq!(world.ways("10.0.0.6").len(), 1);
    // A route between the network and the host takes the host away, and gives it back.
    ip("route add 10.0.0.4/30 via 10.0.1.9");
    world.settle();
    assert_eq!(world.ways("10.0.0.6"), [(1, None)]);
    ip("route del 10.0.0.4/30");
    world.settle();
    assert_eq!(world.ways("10.0.0.6"), [(0, Some(MAC_BYTES))]);
}

#[test]
fn routes_by_one_gateway_share_a_next_hop_that_follows_the_neighbour() {
    let mut world = World::small(quiet());
    batch("route add 198.51.100.0/24 via 10.0.0.2\nroute add 203.0.113.0/24 via 10.0.0.2\n");
    world.settle();
    assert_eq!(world.id("198.51.100.0/24"), world.id("203.0.113.0/24"));
    assert_eq!(world.ways("203.0.113.9"), [(0, None)]);
    ip(&format!("neigh replace 10.0.0.2 lladdr {MAC} dev p0"));
    world.settle();
    assert_eq!(world.ways("203.0.113.9"), [(0, Some(MAC_BYTES))]);
}

#[test]
fn the_lowest_metric_wins_and_the_next_takes_over() {
    let mut world = World::small(quiet());
    for family in ["198.51.100.0/24 via 10.0.0.2|10.0.1.2", "2001:db8:f::/48 via 2001:db8::2|2001:db8:1::2"] {
        let (prefix, gateways) = family.split_once(" via ").unwrap();
        let (first, second) = gateways.split_once('|').unwrap();
        let inside = prefix.replace(".0/24", ".9").replace("::/48", "::9");
        ip(&format!("route add {prefix} via {first} metric 100"));
        ip(&format!("route add {prefix} via {second} metric 50"));
        world.settle();
        assert_eq!(world.ways(&inside)[0].0, 1);
        ip(&format!("route del {prefix} via {second} metric 50"));
        world.settle();
        assert_eq!(world.ways(&inside)[0].0, 0);
        ip(&format!("route del {prefix}"));
        world.settle();
        assert_eq!(world.id(prefix), None);
    }
    world.assert_equal_to_linux();
}

#[test]
fn route_kinds_become_what_they_are() {
    let mut world = World::small(quiet());
    for (kind, expected) in [
        ("blackhole", NextHop::Blackhole),
        ("unreachable", NextHop::Unreachable),
        ("prohibit", NextHop::Prohibit),
        ("throw", NextHop::None),
    ] {
        ip(&format!("route add {kind} 198.18.0.0/15"));
        ip(&format!("-6 route add {kind} 2001:db8:9::/48"));
        world.settle();
        assert_eq!(world.decision("198.18.0.1"), expected);
        assert_eq!(world.decision("2001:db8:9::1"), expected);
        ip(&format!("route del {kind} 198.18.0.0/15"));
        ip(&format!("-6 route del {kind} 2001:db8:9::/48"));
    }
    ip("route add 198.18.0.0/15 encap ip6 dst 2001:db8::9 via 10.0.0.2 dev p0");
    ip("route add 198.51.100.0/24 via 10.9.0.2");
    world.settle();
    assert_eq!(world.decision("198.18.0.1"), NextHop::Foreign(1500));
    assert_eq!(world.decision("198.51.100.1"), NextHop::Foreign(1500));
    ip("route change 198.51.100.0/24 via 10.9.0.2 mtu lock 1400");
    world.settle();
    assert_eq!(world.decision("198.51.100.1"), NextHop::Foreign(1400));
    world.assert_equal_to_linux();
}

#[test]
fn an_ipv4_route_by_an_ipv6_gateway_forwards() {
    let mut world = World::small(quiet());
    ip("route add 198.51.100.0/24 via inet6 2001:db8::2 dev p0");
    ip(&format!("neigh replace 2001:db8::2 lladdr {MAC} dev p0"));
    world.settle();
    assert_eq!(world.ways("198.51.100.1"), [(0, Some(MAC_BYTES))]);
}

#[test]
fn a_route_mtu_makes_an_adjacency_of_its_own() {
    let mut world = World::small(quiet());
    ip("route add 198.51.100.0/24 via 10.0.0.2 mtu 1300");
    ip("route add 203.0.113.0/24 via 10.0.0.2");
    world.settle();
    let mtu = |world: &World, address| match world.decision(address) {
        NextHop::Forward(paths) => world.tables.adjacency(paths[0].adjacency).unwrap().mtu,
        other => panic!("{other:?}"),
    };
    assert_eq!((mtu(&world, "198.51.100.1"), mtu(&world, "203.0.113.1")), (1300, 1500));
    ip("link set p0 mtu 1280");
    world.settle();
    assert_eq!((mtu(&world, "198.51.100.1"), mtu(&world, "203.0.113.1")), (1280, 1280));
}

#[test]
fn routes_with_a_source_of_their_own_are_told_from_others() {
    let mut world = World::small(quiet());
    for (gateway, prefix) in [("10.0.0.2", "198.51.100.0/24"), ("2001:db8::2", "2001:db8:a::/48")] {
        ip(&format!("neigh replace {gateway} lladdr {MAC} dev p0"));
        ip(&format!("route add {prefix} via {gateway}"));
    }
    ip("route add 203.0.113.0/24 via 10.0.0.2 src 10.0.1.1");
    ip("route add 2001:db8:b::/48 via 2001:db8::2 src 2001:db8:1::1");
    world.settle();
    let sourced = |world: &World, address| match world.decision(address) {
        NextHop::Forward(paths) => (false, paths.len()),
        NextHop::Sourced(paths) => (true, paths.len()),
        other => panic!("{other:?}"),
    };
    assert_eq!(sourced(&world, "203.0.113.1"), (true, 1));
    assert_eq!(sourced(&world, "2001:db8:b::1"), (true, 1));
    for address in ["198.51.100.1", "2001:db8:a::1", "10.0.0.2", "2001:db8::2"] {
        assert_eq!(sourced(&world, address), (false, 1), "{address}");
    }
    world.assert_equal_to_linux();
    // Linux keeps the route, and tells nobody that it has no source any more.
    ip("addr del 2001:db8:1::1/64 dev p1");
    world.until("the source is gone", |world| !sourced(world, "2001:db8:b::1").0);
}

#[test]
fn multipath_keeps_weights_and_passes_over_a_failed_neighbour() {
    let mut world = World::small(quiet());
    ip("route add 198.51.100.0/24 nexthop via 10.0.0.2 weight 3 nexthop via 10.0.1.2 weight 1");
    ip(&format!("neigh replace 10.0.0.2 lladdr {MAC} dev p0"));
    ip(&format!("neigh replace 10.0.1.2 lladdr {MAC} dev p1"));
    world.settle();
    let NextHop::Forward(paths) = world.decision("198.51.100.1") else { panic!() };
    assert_eq!(paths.iter().map(|path| path.weight).collect::<Vec<_>>(), [3, 1]);
    ip("neigh change 10.0.1.2 nud failed dev p1");
    world.until("the failed one left", |world| world.ways("198.51.100.1").len() == 1);
    assert_eq!(world.ways("198.51.100.1"), [(0, Some(MAC_BYTES))]);
    ip(&format!("neigh replace 10.0.1.2 lladdr {MAC} dev p1"));
    world.settle();
    assert_eq!(world.ways("198.51.100.1").len(), 2);
}

#[test]
fn ipv6_multipath_follows_paths_that_come_and_go_one_by_one() {
    let mut world = World::small(quiet());
    ip("-6 route add 2001:db8:f::/48 via 2001:db8::2");
    ip("-6 route append 2001:db8:f::/48 via 2001:db8:1::2");
    world.settle();
    assert_eq!(world.ways("2001:db8:f::1").len(), 2);
    world.assert_equal_to_linux();
    ip("-6 route append 2001:db8:f::/48 via 2001:db8:1::3");
    world.settle();
    assert_eq!(world.ways("2001:db8:f::1").len(), 3);
    ip("-6 route del 2001:db8:f::/48 via 2001:db8:1::2");
    world.settle();
    assert_eq!(world.ways("2001:db8:f::1").len(), 2);
    world.assert_equal_to_linux();
    ip("-6 route replace 2001:db8:f::/48 via 2001:db8::7");
    world.settle();
    assert_eq!(world.ways("2001:db8:f::1").len(), 1);
    world.assert_equal_to_linux();
}

#[test]
fn next_hop_objects_and_groups_are_followed() {
    let mut world = World::small(quiet());
    ip("nexthop add id 11 via 10.0.0.2 dev p0");
    ip("nexthop add id 12 via 10.0.1.2 dev p1");
    ip("nexthop add id 20 group 11,3/12");
    ip("nexthop add id 30 blackhole");
    ip("route add 198.51.100.0/24 nhid 20");
    ip("route add 203.0.113.0/24 nhid 11");
    ip("route add 192.0.2.0/24 nhid 30");
    world.settle();
    assert_eq!(world.ways("198.51.100.1").len(), 2);
    assert_eq!(world.ways("203.0.113.1"), [(0, None)]);
    assert_eq!(world.decision("192.0.2.1"), NextHop::Blackhole);
    let before = world.id("198.51.100.0/24");
    ip("nexthop replace id 11 via 10.0.1.7 dev p1");
    world.settle();
    assert_eq!(world.ways("203.0.113.1"), [(1, None)]);
    assert_eq!(world.ways("198.51.100.1"), [(1, None), (1, None)]);
    assert_eq!(world.id("198.51.100.0/24"), before);
    ip("nexthop del id 11");
    world.settle();
    assert_eq!(world.decision("203.0.113.1"), NextHop::None);
    assert_eq!(world.ways("198.51.100.1").len(), 1);
    world.assert_equal_to_linux();
    ip("link set p1 down");
    world.settle();
    world.assert_equal_to_linux();
}

#[test]
fn other_tables_are_counted_and_prefixes_of_restricted_routes_are_linux_s() {
    let mut world = World::small(quiet());
    ip("route add 198.51.100.0/24 via 10.0.0.2 table 77");
    ip("route add 203.0.113.0/24 tos 0x10 via 10.0.0.2");
    world.settle();
    let status = world.mirror.status();
    assert_eq!(status.other_tables.get(&77), Some(&1));
    assert_eq!(status.restricted, 1);
    assert_eq!(world.decision("198.51.100.1"), NextHop::None);
    assert_eq!(world.decision("203.0.113.1"), NextHop::Punt);
    ip("route add 203.0.113.0/24 via 10.0.1.2");
    ip("route add 203.0.113.128/25 via 10.0.1.2");
    ip("route del 198.51.100.0/24 via 10.0.0.2 table 77");
    world.settle();
    assert_eq!(world.decision("203.0.113.1"), NextHop::Punt);
    assert_eq!(world.ways("203.0.113.129"), [(1, None)], "a longer prefix is not concerned");
    ip("route del 203.0.113.0/24 tos 0x10");
    world.settle();
    assert_eq!(world.ways("203.0.113.1"), [(1, None)]);
    assert!(world.mirror.status().other_tables.is_empty());
}

#[test]
fn append_prepend_and_replace_order_equal_routes_as_linux_does() {
    let mut world = World::small(quiet());
    ip("route add 198.51.100.0/24 via 10.0.0.2");
    ip("route append 198.51.100.0/24 via 10.0.1.2");
    world.settle();
    assert_eq!(world.ways("198.51.100.1"), [(0, None)]);
    world.assert_equal_to_linux();
    ip("route prepend 198.51.100.0/24 via 10.0.1.3");
    world.settle();
    assert_eq!(world.ways("198.51.100.1"), [(1, None)]);
    world.assert_equal_to_linux();
    ip("route replace 198.51.100.0/24 via 10.0.0.9");
    world.settle();
    assert_eq!(world.ways("198.51.100.1"), [(0, None)]);
    world.assert_equal_to_linux();
}

#[test]
fn prefixes_of_routes_by_source_are_linux_s_as_long_as_there_is_one() {
    let mut world = World::small(quiet());
    ip("-6 route add 2001:db8:77::/48 via fe80::9 dev p0");
    ip("-6 route add 2001:db8:77::/48 from 2001:db8:1::/64 via fe80::9 dev p1");
    ip("-6 route add 2001:db8:77::/48 from 2001:db8:2::/64 via fe80::9 dev p1");
    world.settle();
    assert_eq!(world.decision("2001:db8:77::1"), NextHop::Punt);
    assert_eq!(world.mirror.status().restricted, 2);
    ip("-6 route del 2001:db8:77::/48 from 2001:db8:1::/64");
    world.settle();
    assert_eq!(world.decision("2001:db8:77::1"), NextHop::Punt);
    ip("-6 route del 2001:db8:77::/48 from 2001:db8:2::/64");
    world.settle();
    assert_eq!(world.ways("2001:db8:77::1").len(), 1);
}

#[test]
fn what_hangs_on_an_object_goes_with_it_though_its_number_returns() {
    let mut world = World::small(quiet());
    ip("nexthop add id 7 via 10.0.0.2 dev p0");
    ip("route add 198.51.100.0/24 nhid 7");
    ip("route add 198.51.100.0/24 via 10.0.1.2 metric 50");
    world.settle();
    assert_eq!(world.ways("198.51.100.1"), [(0, None)]);
    // All of it before anybody looks.
    ip("nexthop del id 7");
    ip("nexthop add id 7 via 10.0.0.2 dev p0");
    (0..5).for_each(|_| _ = world.turn());
    assert_eq!(world.ways("198.51.100.1"), [(1, None)]);
    world.settle();
    world.assert_equal_to_linux();
}

#[test]
fn an_interface_that_goes_takes_objects_and_their_routes() {
    let mut world = World::small(quiet());
    ip("nexthop add id 7 via 10.0.0.2 dev p0");
    ip("nexthop add id 8 group 7");
    ip("route add 198.51.100.0/24 nhid 7");
    ip("route add 203.0.113.0/24 nhid 8");
    ip("route add 198.51.100.0/24 via 10.0.1.2 metric 50");
    world.settle();
    ip("link set p0 down");
    ip("link set p0 up");
    ip("nexthop add id 7 via 10.0.1.2 dev p1");
    world.settle();
    world.assert_equal_to_linux();
    assert_eq!(world.ways("198.51.100.1"), [(1, None)]);
    assert_eq!(world.decision("203.0.113.1"), NextHop::None);
}
