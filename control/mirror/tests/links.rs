//! Interfaces and addresses come, change and go, and Linux's silent deletions are noticed.

mod world;

use fib::{InterfaceId, NextHop};
use world::{World, batch, ip, quiet};

#[test]
fn a_link_switched_off_hands_its_routes_to_the_next_best() {
    let mut world = World::small(quiet());
    batch(
        "route add 198.51.100.0/24 via 10.0.0.2 metric 10\n\
         route add 198.51.100.0/24 via 10.0.1.2 metric 20\n\
         route add 203.0.113.0/24 via 10.0.0.2\n\
         route add 2001:db8:f::/48 via 2001:db8::2 metric 10\n\
         route add 2001:db8:f::/48 via 2001:db8:1::2 metric 20\n\
         route add default via 10.0.1.9\n",
    );
    world.settle();
    assert_eq!(world.ways("198.51.100.1"), [(0, None)]);
    ip("link set p0 down");
    world.settle();
    assert_eq!(world.ways("198.51.100.1"), [(1, None)]);
    assert_eq!(world.ways("2001:db8:f::1"), [(1, None)]);
    // Gone from Linux without a message; the default route takes over.
    assert_eq!(world.ways("203.0.113.1"), [(1, None)]);
    assert_eq!(world.id("203.0.113.0/24"), None);
    world.assert_equal_to_linux();
    ip("link set p0 up");
    world.settle();
    world.assert_equal_to_linux();
    assert_eq!(world.decision("10.0.0.9"), NextHop::Glean(InterfaceId(0)));
}

#[test]
fn lost_carrier_matters_only_where_linux_ignores_such_routes() {
    let mut world = World::small(quiet());
    batch(
        "route add 198.51.100.0/24 via 10.0.0.2 metric 10\nroute add 198.51.100.0/24 via 10.0.1.2 metric 20\n",
    );
    ip("link set h0 down");
    world.settle();
    assert_eq!(world.ways("198.51.100.1"), [(0, None)]);
    std::fs::write("/proc/sys/net/ipv4/conf/p0/ignore_routes_with_linkdown", "1").unwrap();
    world.settle();
    assert_eq!(world.ways("198.51.100.1"), [(1, None)]);
    ip("link set h0 up");
    world.settle();
    assert_eq!(world.ways("198.51.100.1"), [(0, None)]);
    world.assert_equal_to_linux();
}

#[test]
fn an_interface_deleted_and_created_again_is_another_one() {
    let mut world = World::small(quiet());
    let old = world.ifindex("p0");
    ip("route add 198.51.100.0/24 via 10.0.0.2");
    world.settle();
    ip("link del p0");
    world.settle();
    assert!(world.told.gone.contains(&old));
    assert_eq!(world.decision("198.51.100.1"), NextHop::None);
    assert!(!world.told.locals.contains(&"10.0.0.1".parse().unwrap()));
    world.assert_equal_to_linux();
    ip("link add name p0 type veth peer name h0");
    ip("link set p0 up");
    ip("link set h0 up");
    ip("addr add 10.0.0.1/24 dev p0");
    ip("route add 198.51.100.0/24 via 10.0.0.2");
    world.settle();
    assert_ne!(world.ifindex("p0"), old);
    assert_eq!(world.decision("198.51.100.1"), NextHop::Foreign(1500));
    world.bind("p0", 0);
    world.settle();
    assert_eq!(world.ways("198.51.100.1"), [(0, None)]);
    world.assert_equal_to_linux();
}

#[test]
fn an_unbound_interface_is_linuxs_again() {
    let mut world = World::small(quiet());
    ip("neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev p0");
    ip("route add 198.51.100.0/24 via 10.0.0.2");
    world.settle();
    assert_eq!(world.ways("10.0.0.2").len(), 1);
    let ifindex = world.ifindex("p0");
    world.mirror.unbind(ifindex, &mut world.tables);
    world.settle();
    assert_eq!(world.decision("198.51.100.1"), NextHop::Foreign(1500));
    assert_eq!(world.decision("10.0.0.2"), NextHop::Foreign(1500));
    assert_eq!(world.decision("10.0.0.3"), NextHop::Foreign(1500));
}

#[test]
fn routes_that_go_with_an_address_are_noticed() {
    let mut world = World::small(quiet());
    ip("addr add 10.5.0.1/24 dev p1");
    ip("route add 198.51.100.0/24 via 10.0.0.2 src 10.5.0.1");
    ip("route add 203.0.113.0/24 via 10.5.0.9");
    world.settle();
    assert_eq!(world.ways("198.51.100.1"), [(0, None)]);
    ip("addr del 10.5.0.1/24 dev p1");
    world.settle();
    assert_eq!(world.decision("198.51.100.1"), NextHop::None);
    assert_eq!(world.decision("10.5.0.1"), NextHop::None);
    world.assert_equal_to_linux();
}

#[test]
fn forwarding_and_reverse_path_settings_are_told() {
    let mut world = World::small(quiet());
    for (file, value) in
        [("ipv4/conf/p0/forwarding", "1"), ("ipv4/conf/p0/rp_filter", "2"), ("ipv6/conf/all/forwarding", "1")]
    {
        std::fs::write(format!("/proc/sys/net/{file}"), value).unwrap();
    }
    world.settle();
    let link = world.mirror.model().links.by_name("p0").unwrap();
    assert!(link.forwarding4 && link.forwarding6);
    assert_eq!(link.rp_filter, 2);
    assert_eq!(world.told.links.iter().rev().find(|link| link.name == "p0"), Some(link));
    world.assert_equal_to_linux();
}
