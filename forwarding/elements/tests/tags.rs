//! Interfaces with tags: a frame enters by the one that has its tags, and leaves with those of
//! another, the short way and element by element.

mod rig;

use fib::{
    Adjacency, Count, InterfaceEntry, InterfaceFlags, InterfaceId, NextHop, Path, PortId, Priorities,
    TableId, Tag, Tags, Traffic,
};
use rig::{HOST_A, HOST_B, PORT_1, PORT_2, Rig};
use wire::{Class, ethernet, ipv4, protocol};

/// The VLAN's own address: that of its port is another.
const VLAN: [u8; 6] = [2, 0, 0, 0, 1, 0xa];
const IN: InterfaceId = InterfaceId(300);
const OUT: InterfaceId = InterfaceId(301);

fn tag(service: bool, id: u16) -> Tag {
    Tag { service, id }
}

/// The rig with 802.1Q's 10 on port 1, and 802.1ad's 300 with 7 inside on port 2, where
/// 198.19.0.0/16 leads.
fn rig() -> Rig {
    let mut rig = Rig::new();
    let flags =
        InterfaceFlags::UP | InterfaceFlags::QUEUE | InterfaceFlags::FORWARD4 | InterfaceFlags::FORWARD6;
    for (id, port, mac, tags) in
        [(IN, 1, VLAN, Tags::One(tag(false, 10))), (OUT, 2, PORT_2.0, Tags::Two(tag(true, 300), 7))]
    {
        let entry = InterfaceEntry {
            ifindex: id.0.into(),
            mtu: 1500,
            mac,
            flags,
            port: PortId(port),
            tags,
            table: TableId::MAIN,
            priorities: fib::Priorities::default(),
        };
        rig.tables.set_interface(id, Some(entry)).unwrap();
    }
    let adjacency = Adjacency { interface: OUT, mtu: 1500, mac: Some(HOST_B.0) };
    let adjacency = rig.tables.add_adjacency(&adjacency).unwrap();
    let id = rig.tables.add_next_hop(&NextHop::Forward(vec![Path { adjacency, weight: 1 }])).unwrap();
    rig.tables.insert4("198.19.0.0/16".parse().unwrap(), id).unwrap();
    rig
}

fn frame(tags: Tags, ether_type: u16, packet: &[u8]) -> Vec<u8> {
    let to = if tags == Tags::None { PORT_1.0 } else { VLAN };
    framed(to, tags, ether_type, packet)
}

fn framed(to: [u8; 6], tags: Tags, ether_type: u16, packet: &[u8]) -> Vec<u8> {
    [&to[..], &HOST_A.0, &tags.bytes(), &ether_type.to_be_bytes(), packet].concat()
}

fn packet4(ttl: u8) -> Vec<u8> {
    let repr = ipv4::Repr {
        ttl,
        protocol: protocol::UDP,
        ..ipv4::Repr::new([10, 99, 1, 2].into(), [198, 19, 0, 1].into())
    };
    [&repr.header(16)[..], &[0, 9, 0, 9, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]].concat()
}

#[test]
fn tags_say_priorities_by_the_type_of_service() {
    let mut rig = rig();
    let entry = rig.tables.interface(OUT).unwrap();
    let priorities = Priorities([[6, 1, 0, 7], [0, 2, 3, 0]]);
    rig.tables.set_interface(OUT, Some(InterfaceEntry { priorities, ..entry })).unwrap();
    let said = |rig: &mut Rig, ether_type, packet: &[u8]| {
        let sent = rig.run(1, &[frame(Tags::One(tag(false, 10)), ether_type, packet)]).sent;
        let (_, frame) = &sent[0];
        assert_eq!((frame[14] & 0x1f, frame[15], frame[18] & 0x1f, frame[19]), (0x01, 0x2c, 0, 7));
        [frame[14] >> 5, frame[18] >> 5]
    };
    // 0x18 of it counts, as in Linux.
    for (tos, wanted) in
        [(0, [6, 0]), (0x07, [6, 0]), (0x08, [1, 2]), (0x10, [0, 3]), (0xb8, [7, 0]), (0x28, [1, 2])]
    {
        let repr =
            ipv4::Repr { tos, ttl: 64, ..ipv4::Repr::new([10, 99, 1, 2].into(), [198, 19, 0, 1].into()) };
        assert_eq!(said(&mut rig, ethernet::IPV4, &rig::udp4(repr, 20)), wanted, "{tos:#x}");
    }
    // Of IPv6 it does not.
    let repr = wire::ipv6::Repr { traffic_class: 0xb8, ..rig::to6("2001:db8:77::1") };
    let hop = rig.tables.get4("198.19.0.0/16".parse().unwrap()).unwrap();
    rig.tables.insert6("2001:db8:77::/48".parse().unwrap(), hop).unwrap();
    assert_eq!(said(&mut rig, ethernet::IPV6, &rig::udp6(repr, 20)), [6, 0]);
}

#[test]
fn tags_are_changed_on_the_way() {
    let mut rig = rig();
    let sent = rig.run(1, &[frame(Tags::One(tag(false, 10)), ethernet::IPV4, &packet4(64))]).sent;
    let addresses = [&HOST_B.0[..], &PORT_2.0].concat();
    let tags = [0x88, 0xa8, 0x01, 0x2c, 0x81, 0x00, 0, 7, 8, 0];
    assert_eq!(sent, [(2, [&addresses[..], &tags, &packet4(63)].concat())]);
    let untagged = rig.run(1, &[frame(Tags::None, ethernet::IPV4, &packet4(64))]).sent;
    assert_eq!(untagged, sent, "the way in does not matter for the way out");
}

#[test]
fn packets_are_counted_for_the_interface_that_has_their_tags() {
    let mut rig = rig();
    let frames: Vec<_> =
        (0..70).map(|_| frame(Tags::One(tag(false, 10)), ethernet::IPV4, &packet4(64))).collect();
    // Of others: without tags, and with those of nobody.
    let others =
        [Tags::None, Tags::One(tag(false, 11))].map(|tags| frame(tags, ethernet::IPV4, &packet4(64)));
    rig.run(1, &frames);
    rig.run(1, &others);
    let bytes = frames[0].len() as u64;
    let count = |packets, bytes| Count { packets, bytes: packets * bytes };
    for counts in &rig.counts {
        let wanted = Traffic { received: count(70, bytes), sent: Count::default() };
        assert_eq!(counts.read(IN), wanted);
        // One without tags leaves there too.
        let wanted = Traffic { received: Count::default(), sent: count(71, bytes + 4) };
        assert_eq!(counts.read(OUT), wanted);
        assert_eq!(counts.read(PortId(1).interface()), Traffic::default(), "its queues count a port's own");
    }
}

#[test]
fn tags_of_nobody_are_for_linux_as_they_came() {
    let mut rig = rig();
    for tags in [Tags::One(tag(false, 11)), Tags::One(tag(true, 10)), Tags::Two(tag(false, 11), 10)] {
        let frame = frame(tags, ethernet::IPV4, &packet4(64));
        let outcome = rig.run(1, std::slice::from_ref(&frame));
        assert_eq!((outcome.sent.len(), outcome.punted.len()), (0, 1), "{tags:?}");
        assert_eq!(outcome.punted[0].0, frame, "{tags:?}");
    }
}

#[test]
fn what_linux_is_handed_of_a_vlan_has_no_tag() {
    let mut rig = rig();
    let arp = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &[0; 20]].concat();
    let outcome = rig.run(1, &[frame(Tags::One(tag(false, 10)), ethernet::ARP, &arp)]);
    let expected = framed(VLAN, Tags::None, ethernet::ARP, &arp);
    assert_eq!(outcome.punted, [(expected, Class::Neighbour)]);
}

#[test]
fn an_answer_goes_back_by_the_vlan() {
    let mut rig = rig();
    // The way back to the sender is by the VLAN.
    let adjacency = Adjacency { interface: IN, mtu: 1500, mac: Some(HOST_A.0) };
    let adjacency = rig.tables.add_adjacency(&adjacency).unwrap();
    let id = rig.tables.add_next_hop(&NextHop::Forward(vec![Path { adjacency, weight: 1 }])).unwrap();
    rig.tables.insert4("10.99.1.2/32".parse().unwrap(), id).unwrap();
    rig.sources.set_interface(IN, TableId::MAIN, vec!["10.99.1.1/24".parse().unwrap()], vec![]);
    let sent = rig.run(1, &[frame(Tags::One(tag(false, 10)), ethernet::IPV4, &packet4(1))]).sent;
    assert_eq!(sent.len(), 1);
    let (port, bytes) = &sent[0];
    assert_eq!((*port, &bytes[..6], &bytes[12..18]), (1, &HOST_A.0[..], &[0x81, 0, 0, 10, 8, 0][..]));
    assert_eq!(bytes[18 + 20..18 + 22], [11, 0], "time exceeded");
}

#[test]
fn what_a_vlan_may_do_is_its_own() {
    let mut rig = rig();
    let tags = Tags::One(tag(false, 10));
    let to_port = framed(PORT_1.0, tags, ethernet::IPV4, &packet4(64));
    assert_eq!(rig.run(1, &[to_port]).sent, [], "the port's address is not the VLAN's");
    let mut entry = rig.tables.interface(IN).unwrap();
    entry.flags -= InterfaceFlags::FORWARD4;
    rig.tables.set_interface(IN, Some(entry)).unwrap();
    let before = rig.dropped();
    assert_eq!(rig.run(1, &[frame(tags, ethernet::IPV4, &packet4(64))]).sent, []);
    assert_eq!(rig.dropped(), before + 1, "it does not forward, though its port does");
}
