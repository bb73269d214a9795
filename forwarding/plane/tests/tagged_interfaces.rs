//! An interface with tags on a port: packets leave by it with its tags, whatever lane they came by.
//! It is gone from the tables once it is forgotten, or its port given back. What passes is counted
//! for it.

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

#[test]
fn what_passes_is_counted_for_its_interface() {
    for lane in [LaneChoice::Express, LaneChoice::Worker] {
        count(lane);
    }
}

fn count(lane: LaneChoice) {
    let rig = Rig::new(1);
    let near = rig.wire(0);
    rig.router.inside(|| {
        let (mut plane, mut tables) = one_worker::start(PolicySettings::default());
        for i in 0..2 {
            let settings = PortSettings { lane, ..PortSettings::default() };
            let id = plane.expect(&format!("r{i}"), settings).unwrap();
            assert!(plane.take(id, interface(&rig, i), &mut tables));
        }
        let vlan = |tag: u16| VLAN + u32::from(tag);
        let adopt = |plane: &mut plane::Plane, tables: &mut fib::Tables, port: u16, tag: u16, ifindex| {
            let name = format!("r{port}.{tag}");
            let vlan = Interface { name, ifindex, ..interface(&rig, usize::from(port)) };
            assert!(plane.adopt_interface(vlan, PortId(port), tags(tag), tables).unwrap());
        };
        for (port, tag) in [(0, 10), (0, 20), (0, 30), (1, 40)] {
            adopt(&mut plane, &mut tables, port, tag, vlan(tag));
        }
        let out = plane.interface_of(vlan(40)).unwrap();
        let adjacency = Adjacency { interface: out, mtu: 1500, mac: Some(HOST_MAC[1]) };
        let adjacency = tables.add_adjacency(&adjacency).unwrap();
        let hop = tables.add_next_hop(&NextHop::Forward(vec![Path { adjacency, weight: 1 }])).unwrap();
        tables.insert4("198.18.0.0/15".parse().unwrap(), hop).unwrap();

        let plain = frame(0x0800, &ipv4([10, 0, 0, 2], [198, 18, 0, 1], 64, &[7; 30]));
        let tagged = |tag| [&plain[..12], &tags(tag).bytes(), &plain[12..]].concat();
        let bytes = tagged(10).len() as u64;
        let count = |packets| fib::Count { packets, bytes: packets * bytes };
        let send = |tag, packets| (0..packets).for_each(|_| near.send(&tagged(tag)));
        let sent = |plane: &plane::Plane| plane.traffic(vlan(40)).sent;
        for (tag, packets) in [(10, 3), (20, 5)] {
            send(tag, packets);
        }
        // One that is for Linux came in as well; nobody has the identifier 50.
        near.send(&[&[0xff; 6], &plain[6..12], &tags(10).bytes(), &[8, 6], &[0; 46]].concat());
        send(50, 2);
        wait("all are sent", || sent(&plane).packets == 8);
        let received = |plane: &plane::Plane, tag| plane.traffic(vlan(tag)).received;
        let arp = fib::Count { packets: 1, bytes: 64 };
        let both = fib::Count { packets: 4, bytes: count(3).bytes + arp.bytes };
        wait("all came in", || received(&plane, 10) == both && received(&plane, 20) == count(5));
        assert_eq!((received(&plane, 30), sent(&plane)), (count(0), count(8)), "{lane:?}");
        assert_eq!(plane.traffic(vlan(20)).sent, count(0));

        // Its port has all, and what nobody has.
        wait("the port's own", || plane.traffic(rig.ifindex(0)).received.packets >= 11);

        // What is made anew has passed nothing, what is looked at anew has.
        assert!(plane.forget_interface(vlan(10), &mut tables));
        assert_eq!(received(&plane, 10), count(0), "it is gone");
        adopt(&mut plane, &mut tables, 0, 10, vlan(60));
        adopt(&mut plane, &mut tables, 0, 20, vlan(20));
        assert_eq!((received(&plane, 60), received(&plane, 20)), (count(0), count(5)));
        send(10, 2);
        wait("two came in", || received(&plane, 60) == count(2) && sent(&plane) == count(10));
        plane.stop(&mut tables);
    });
}

fn tags(id: u16) -> Tags {
    Tags::One(Tag { service: false, id })
}

#[test]
fn there_are_as_many_as_the_tables_have_room_for() {
    let rig = Rig::new(1);
    rig.router.inside(|| {
        let (mut plane, mut tables) = one_worker::start(PolicySettings::default());
        let id = plane.expect("r0", PortSettings::default()).unwrap();
        assert!(plane.take(id, interface(&rig, 0), &mut tables));
        // Of four ports, of which one is there.
        let vlan = |n: u32| Interface { name: format!("v{n}"), ifindex: VLAN + n, ..interface(&rig, 0) };
        let mut adopt = |n: u32, id: u16| {
            let port = PortId((n / 4094) as u16);
            plane.adopt_interface(vlan(n), port, tags(id), &mut tables).map(|there| (there, port))
        };
        for n in 0..16_127 {
            let (there, port) = adopt(n, (n % 4094) as u16 + 1).unwrap();
            assert_eq!(there, port == id);
        }
        assert!(adopt(16_127, 4094).is_err_and(|error| error.to_string().contains("16127")));
        assert!(plane.forget_interface(VLAN + 7, &mut tables));
        let known = plane.interface_of(VLAN + 4093).unwrap();
        assert_eq!(plane.place(known).map(|(.., tags)| tags), Some(tags(4094)));
        assert_eq!(plane.interface_of(VLAN + 7), None);
        plane.stop(&mut tables);
    });
}
