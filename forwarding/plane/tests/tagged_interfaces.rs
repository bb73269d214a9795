//! An interface with tags on a port: packets leave by it with its tags, whatever lane they came by. It
//! is gone from the tables once it is forgotten, or its port given back.

mod one_worker;
#[path = "../../port/tests/rig/mod.rs"]
mod rig;

use fib::{Adjacency, NextHop, Path, PortId, Tag, Tags};
use one_worker::interface;
use plane::{Interface, LaneChoice, PolicySettings, PortSettings};
use port::{PacketSocket, SocketOptions};
use rig::{HOST_MAC, ROUTER_MAC, Rig, frame, ipv4, wait};

/// Linux's index of the VLAN, if it had one.
const VLAN: u32 = 9_999;

#[test]
fn packets_leave_with_the_tags_of_their_interface() {
    for lane in [LaneChoice::Express, LaneChoice::Worker] {
        leave(lane);
    }
}

fn leave(lane: LaneChoice) {
    let rig = Rig::new(1);
    let near = rig.wire(0);
    // Linux takes the outer tag off what is received; this socket puts it back.
    let far = rig.hosts[1].inside(|| {
        let ifindex = port::device::Device::named("h1").unwrap().ifindex;
        PacketSocket::open(ifindex, SocketOptions::default()).unwrap()
    });
    rig.router.inside(|| {
        let (mut plane, mut tables) = one_worker::start(PolicySettings::default());
        for i in 0..2 {
            let settings = PortSettings { lane, ..PortSettings::default() };
            let name = format!("r{i}");
            let id = plane.expect(&name, settings).unwrap();
            assert!(plane.take(id, interface(&rig, i), &mut tables));
        }
        let tags = Tags::Two(Tag { service: true, id: 300 }, 7);
        let vlan = Interface { name: "vlan".to_owned(), ifindex: VLAN, ..interface(&rig, 1) };
        assert!(plane.adopt_interface(vlan.clone(), PortId(1), tags, &mut tables).unwrap());
        let id = plane.interface_of(VLAN).unwrap();
        assert_eq!(plane.interface_named("vlan"), Some(id));
        let twin = Interface { name: "twin".to_owned(), ifindex: VLAN + 1, ..interface(&rig, 1) };
        let taken = plane.adopt_interface(twin, PortId(1), tags, &mut tables);
        assert!(taken.is_err() && plane.interface_of(VLAN + 1).is_none(), "its tags are another's");

        let adjacency = Adjacency { interface: id, mtu: 1500, mac: Some(HOST_MAC[1]) };
        let adjacency = tables.add_adjacency(&adjacency).unwrap();
        let hop = tables.add_next_hop(&NextHop::Forward(vec![Path { adjacency, weight: 1 }])).unwrap();
        tables.insert4("198.18.0.0/15".parse().unwrap(), hop).unwrap();
        let sent = |ttl| ipv4([10, 0, 0, 2], [198, 18, 0, 1], ttl, &[7; 30]);
        near.send(&frame(0x0800, &sent(64)));
        let addresses = [HOST_MAC[1], ROUTER_MAC[1]].concat();
        let wanted = [&addresses[..], &tags.bytes(), &[8, 0], &sent(63)].concat();
        arrives(&far, &wanted);
        assert!(plane.forget_interface(VLAN, &mut tables));
        assert_eq!((plane.interface_of(VLAN), tables.interface(id)), (None, None));
        assert!(plane.adopt_interface(vlan, PortId(1), tags, &mut tables).unwrap());
        assert_eq!(plane.interface_of(VLAN), Some(id), "it has its number again");
        plane.give_back(PortId(1), &mut tables);
        assert_eq!(tables.interface(id), None, "its port is Linux's");
        plane.stop(&mut tables);
    });
}

fn arrives(socket: &PacketSocket, wanted: &[u8]) {
    let mut buffer = [0; 2000];
    wait("a packet with two tags", || {
        socket.receive(&mut buffer).is_ok_and(|received| buffer[..received.captured] == *wanted)
    });
}
