//! Neighbours that the plane needs are asked for, and kept.

mod world;

use fib::Tables;
use mirror::Options;
use std::net::UdpSocket;
use std::time::Duration;
use world::{World, ip, ip_says, quiet};

#[test]
fn a_gateway_is_resolved_before_any_packet_comes() {
    let mut world = World::small(quiet());
    // The host's end of the link moves to a namespace of its own, where it can answer.
    let far = format!("mirror-far-{}", std::process::id());
    ip(&format!("netns add {far}"));
    ip(&format!("link set h0 netns {far}"));
    for command in ["link set h0 up", "addr add 10.0.0.2/24 dev h0", "addr add 2001:db8::2/64 dev h0 nodad"] {
        ip(&format!("-n {far} {command}"));
    }
    ip("route add 198.51.100.0/24 via 10.0.0.2");
    ip("route add 2001:db8:f::/48 via 2001:db8::2");
    ip("route add 203.0.113.0/24 via 10.0.0.99");
    let resolved = |world: &World, address: &str| world.ways(address).iter().any(|(_, mac)| mac.is_some());
    world.until("the gateways answered", |world| {
        resolved(world, "198.51.100.1") && resolved(world, "2001:db8:f::1")
    });
    assert!(!resolved(&world, "203.0.113.1"));
    assert!(world.mirror.status().unresolved == 1);
    // In use while Linux thinks it stale: it is probed, and found reachable.
    ip("neigh change 10.0.0.2 nud stale dev p0");
    let state = |world: &World| {
        let ifindex = world.ifindex("p0");
        let neighbour = world.mirror.model().neighbours.find(ifindex, "10.0.0.2".parse().unwrap());
        neighbour.map_or("gone", |neighbour| neighbour.state_name())
    };
    world.until("it is stale", |world| state(world) == "stale");
    use_it(&world.tables);
    world.until("it is refreshed", |world| ["delay", "probe", "reachable"].contains(&state(world)));
    ip(&format!("netns del {far}"));
}

#[test]
fn entries_that_linux_makes_without_telling_are_no_difference() {
    let options = Options { audit_interval: Some(Duration::from_millis(50)), ..Options::default() };
    let mut world = World::small(options);
    ip("link set x0 arp off");
    let rounds = |world: &World| world.mirror.status().audit.unwrap().rounds;
    let before = rounds(&world);
    world.until("a round", |world| rounds(world) > before);
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_broadcast(true).unwrap();
    for to in ["127.0.0.1", "10.0.0.1", "10.0.0.255", "10.9.0.7", "10.9.0.255"] {
        socket.send_to(b"x", (to, 9)).unwrap();
    }
    let socket = UdpSocket::bind("[::]:0").unwrap();
    for to in ["::1".to_string(), "2001:db8::1".to_string(), format!("ff02::1%{}", world.ifindex("p0"))] {
        socket.send_to(b"x", format!("[{to}]:9")).unwrap();
    }
    let linux = ip_says("neigh show nud noarp").unwrap();
    assert!(linux.contains("0.0.0.0 dev lo") && linux.contains("10.9.0.7 dev x0"), "{linux}");
    let before = rounds(&world);
    world.until("two rounds", |world| rounds(world) > before + 2);
    assert_eq!(world.mirror.status().audit.unwrap().differences, 0);
    let ifindex = world.ifindex("x0");
    let neighbours = &world.mirror.model().neighbours;
    assert!(neighbours.find(ifindex, "10.9.0.7".parse().unwrap()).is_some(), "it is taken in all the same");
    let everybody = neighbours.iter().find(|(_, address, _)| address.is_unspecified());
    assert!(everybody.is_none(), "{everybody:?}");
}

/// What a worker does when it sends to the gateway.
fn use_it(tables: &Tables) {
    let view = tables.view();
    let hop = view.hop(view.lookup4(u32::from_be_bytes([198, 51, 100, 1])));
    view.mark_used(view.select(hop, 0));
}
