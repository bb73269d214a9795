//! Packets to groups: a copy for each interface that wants one, and everything else to Linux as it
//! came. Random packets meet random entries, and a model that does what Linux does, plainly.

mod rig;

use std::net::IpAddr;
use std::sync::Arc;

use chance::Random;
use fib::{
    GroupCount, GroupEntry, Groups, InterfaceEntry, InterfaceFlags, InterfaceId, Leaving, PortId, TableId,
    Tag, Tags,
};
use rig::{HOST_A, PORT_1, PORT_2, Rig, udp4, udp6};
use wire::{Reason, ethernet};

/// On port 2, with a tag.
const VLAN: InterfaceId = InterfaceId(300);
const VLAN_MAC: [u8; 6] = [2, 0, 0, 0, 1, 0xa];
const TAG: Tag = Tag { service: false, id: 7 };
const PORTS: [InterfaceId; 2] = [InterfaceId(1), InterfaceId(2)];
const FROM: [&str; 2] = ["10.99.1.2", "2001:db8:1::2"];
const TO: [&str; 2] = ["239.1.2.3", "ff0e::101"];

fn rig() -> Rig {
    let mut rig = Rig::new();
    let flags =
        InterfaceFlags::UP | InterfaceFlags::QUEUE | InterfaceFlags::FORWARD4 | InterfaceFlags::FORWARD6;
    let entry = InterfaceEntry {
        ifindex: 300,
        mtu: 1300,
        mac: VLAN_MAC,
        flags,
        port: PortId(2),
        tags: Tags::One(TAG),
        table: TableId::MAIN,
        priorities: fib::Priorities::default(),
    };
    rig.tables.set_interface(VLAN, Some(entry)).unwrap();
    rig
}

fn entry(source: &str, group: &str, outputs: &[(InterfaceId, u8)]) -> GroupEntry {
    let outputs = outputs.iter().map(|&(interface, threshold)| Leaving { interface, threshold });
    GroupEntry {
        source: source.parse().unwrap(),
        group: group.parse().unwrap(),
        inputs: vec![PORTS[0]],
        outputs: outputs.collect(),
        count: Arc::default(),
    }
}

/// Puts these in force, each router's counted apart; Linux has been shown their packets if `shown`.
fn follow(rig: &Rig, entries: &[GroupEntry], shown: bool) {
    for multicast in &rig.multicast {
        let own = entries.iter().map(|entry| {
            let count = GroupCount::default();
            // The rig's time stands still.
            assert!(!shown || count.is_due(0));
            GroupEntry { count: Arc::new(count), ..entry.clone() }
        });
        multicast.change(Groups::new(own));
    }
}

/// A UDP packet to a group, in a frame to its link address.
fn frame(source: &str, group: &str, ttl: u8, data: usize) -> Vec<u8> {
    let (to, ether_type, packet) = match (source.parse().unwrap(), group.parse().unwrap()) {
        (IpAddr::V4(source), IpAddr::V4(group)) => {
            let [_, b, c, d] = group.octets();
            let repr = wire::ipv4::Repr { ttl, ..wire::ipv4::Repr::new(source, group) };
            ([1, 0, 0x5e, b & 0x7f, c, d], ethernet::IPV4, udp4(repr, data))
        }
        (IpAddr::V6(source), IpAddr::V6(group)) => {
            let [.., a, b, c, d] = group.octets();
            let repr = wire::ipv6::Repr { hop_limit: ttl, ..wire::ipv6::Repr::new(source, group) };
            ([0x33, 0x33, a, b, c, d], ethernet::IPV6, udp6(repr, data))
        }
        other => panic!("{other:?}"),
    };
    [&to[..], &HOST_A.0, &ether_type.to_be_bytes(), &packet].concat()
}

/// The same as it leaves by an interface.
fn leaves(frame: &[u8], interface: InterfaceId) -> (u16, Vec<u8>) {
    let mut frame = frame.to_vec();
    let ipv6 = frame[14] >> 4 == 6;
    if ipv6 {
        frame[21] -= 1;
    } else {
        frame[22] -= 1;
        wire::ipv4::set_checksum(&mut frame[14..34]);
    }
    let (port, mac, tags) = match interface {
        VLAN => (2, VLAN_MAC, Tags::One(TAG)),
        InterfaceId(1) => (1, PORT_1.0, Tags::None),
        _ => (2, PORT_2.0, Tags::None),
    };
    frame[6..12].copy_from_slice(&mac);
    (port, [&frame[..12], &tags.bytes(), &frame[12..]].concat())
}

#[test]
fn a_copy_leaves_by_each_interface_whose_threshold_the_ttl_exceeds() {
    for (from, to) in FROM.into_iter().zip(TO) {
        let mut rig = rig();
        let outputs = [(PORTS[0], 1), (PORTS[1], 5), (VLAN, 10)];
        follow(&rig, &[entry(from, to, &outputs)], true);
        for (ttl, count) in [(0, 0), (1, 0), (2, 1), (5, 1), (6, 2), (10, 2), (11, 3), (255, 3)] {
            let sent = frame(from, to, ttl, 100);
            let outcome = rig.run(1, std::slice::from_ref(&sent));
            let expected: Vec<_> =
                outputs[..count].iter().map(|(interface, _)| leaves(&sent, *interface)).collect();
            let mut got = outcome.sent;
            got.sort_by_key(|(port, frame)| (*port, frame.len()));
            assert_eq!(got, expected, "{to} with {ttl}");
            assert!(outcome.punted.is_empty());
        }
        assert_eq!(rig.reasons(), [(Reason::Unwanted, 2)]);
        let groups = rig.multicast[0].groups();
        let count = groups.iter().next().unwrap().count.read();
        let total = if to.contains(':') { 148 } else { 128 };
        assert_eq!(count, [6, 6 * total], "what left is counted once");
    }
}

#[test]
fn the_first_packet_in_a_while_is_linuxs() {
    let mut rig = rig();
    follow(&rig, &[entry(FROM[0], TO[0], &[(PORTS[1], 1)])], false);
    let sent = frame(FROM[0], TO[0], 9, 20);
    let outcome = rig.run(1, &vec![sent.clone(); 100]);
    assert_eq!(outcome.punted, [(sent, wire::Class::Transit)]);
    assert_eq!(outcome.sent.len(), 99);
}

#[test]
fn what_is_not_forwarded_is_linuxs_as_it_came() {
    let mut rig = rig();
    let out = [(PORTS[1], 1)];
    let entries = FROM.into_iter().zip(TO).map(|(from, to)| entry(from, to, &out));
    let any = [entry("0.0.0.0", "239.9.9.9", &out), entry("0.0.0.0", "224.0.0.9", &out)];
    follow(&rig, &entries.chain(any).collect::<Vec<_>>(), true);
    let (four, six) = (frame(FROM[0], TO[0], 9, 20), frame(FROM[1], TO[1], 9, 20));
    let changed = |frame: &[u8], change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = frame.to_vec();
        change(&mut frame);
        if frame[14] == 0x45 {
            wire::ipv4::set_checksum(&mut frame[14..34]);
        }
        frame
    };
    let mut wrong_sum = four.clone();
    wrong_sum[24] ^= 1;
    let odd = [
        ("another source", frame("10.99.1.3", TO[0], 9, 20)),
        ("another group", frame(FROM[0], "239.1.2.4", 9, 20)),
        ("another group of IPv6", frame(FROM[1], "ff0e::102", 9, 20)),
        ("a group of the link", frame(FROM[0], "224.0.0.9", 9, 20)),
        ("the router's own source", frame("10.99.1.1", "239.9.9.9", 9, 20)),
        ("nobody's source", frame("0.0.0.0", "239.9.9.9", 9, 20)),
        ("a link-local source", frame("169.254.1.1", "239.9.9.9", 9, 20)),
        ("larger than the MTU", frame(FROM[0], TO[0], 9, 1380)),
        ("IPv6 larger than the MTU", frame(FROM[1], TO[1], 9, 1380)),
        ("IGMP", changed(&four, &|frame| frame[23] = 2)),
        ("PIM", changed(&four, &|frame| frame[23] = 103)),
        ("ICMPv6", changed(&six, &|frame| frame[20] = 58)),
        ("hop-by-hop options", changed(&six, &|frame| frame[20] = 0)),
        ("a wrong checksum", wrong_sum),
        ("a length beyond the frame", changed(&four, &|frame| frame[17] += 1)),
        ("broadcast", changed(&four, &|frame| frame[..6].fill(0xff))),
        ("options", changed(&four, &|frame| frame[14] = 0x46)),
    ];
    for (what, frame) in odd {
        let outcome = rig.run(1, std::slice::from_ref(&frame));
        assert!(outcome.sent.is_empty(), "{what}");
        let punted: Vec<_> = outcome.punted.into_iter().map(|(frame, _)| frame).collect();
        assert_eq!(punted, [frame], "{what}");
    }
    let by_another = rig.run(2, std::slice::from_ref(&four));
    assert_eq!((by_another.sent.len(), by_another.punted.len()), (0, 1), "by another interface");
    // Forwarding is off, or something of Linux's could touch it.
    let mut entry = rig.tables.interface(PORTS[0]).unwrap();
    entry.flags.remove(InterfaceFlags::FORWARD4);
    rig.tables.set_interface(PORTS[0], Some(entry)).unwrap();
    let outcome = rig.run(1, &[four, six]);
    assert_eq!((outcome.sent.len(), outcome.punted.len()), (1, 1));
    assert_eq!(rig.reasons(), []);
}

#[test]
fn a_source_that_is_not_routed_back_is_linuxs() {
    let mut rig = rig();
    follow(&rig, &[entry("0.0.0.0", TO[0], &[(PORTS[1], 1)])], true);
    rig.set_flags(1, InterfaceFlags::RPF4_STRICT);
    let run = |rig: &mut Rig, source| {
        let outcome = rig.run(1, &[frame(source, TO[0], 9, 20)]);
        (outcome.sent.len(), outcome.punted.len())
    };
    assert_eq!(run(&mut rig, "10.99.1.2"), (1, 0));
    assert_eq!(run(&mut rig, "198.18.0.1"), (0, 1), "it is behind the other port");
    rig.set_flags(1, InterfaceFlags::RPF4_LOOSE);
    assert_eq!(run(&mut rig, "198.18.0.1"), (1, 0));
    assert_eq!(run(&mut rig, "203.0.114.1"), (0, 1), "nowhere");
}

#[test]
fn padding_is_cut_off() {
    let mut rig = rig();
    follow(&rig, &[entry(FROM[0], TO[0], &[(PORTS[1], 1)])], true);
    let sent = frame(FROM[0], TO[0], 9, 4);
    let padded = [&sent[..], &[0; 14]].concat();
    assert_eq!(rig.run(1, &[padded]).sent, [leaves(&sent, PORTS[1])]);
}

#[test]
fn a_port_that_is_down_takes_nothing_and_the_others_do() {
    let mut rig = rig();
    follow(&rig, &[entry(FROM[0], TO[0], &[(PORTS[1], 1), (VLAN, 1)])], true);
    let mut down = rig.tables.interface(PORTS[1]).unwrap();
    down.flags.remove(InterfaceFlags::UP);
    rig.tables.set_interface(PORTS[1], Some(down)).unwrap();
    let sent = frame(FROM[0], TO[0], 9, 4);
    assert_eq!(rig.run(1, std::slice::from_ref(&sent)).sent, [leaves(&sent, VLAN)]);
    assert_eq!(rig.reasons(), [(Reason::PortDown, 1)]);
}

#[test]
fn copies_leave_memory_for_what_is_received() {
    let mut rig = rig();
    follow(&rig, &[entry(FROM[0], TO[0], &[(PORTS[1], 1), (VLAN, 1), (PORTS[0], 1)])], true);
    let sent = frame(FROM[0], TO[0], 9, 4);
    // Memory for both routers' packets, and little more.
    let held: Vec<_> = (0..port::pool::available() - 300).map(|_| port::Packet::blank(64).unwrap()).collect();
    let outcome = rig.run(1, &vec![sent.clone(); 64]);
    assert!(outcome.sent.len() >= 64 && outcome.sent.len() < 3 * 64, "{}", outcome.sent.len());
    assert!(outcome.sent.contains(&leaves(&sent, PORTS[0])), "the packet itself leaves all the same");
    let missing = 3 * 64 - outcome.sent.len() as u64;
    assert_eq!(rig.reasons(), [(Reason::NoBuffer, missing)]);
    drop(held);
}

/// What is sent of a packet, as Linux does (`ip_mr_forward`), as plainly as can be.
fn plainly(entries: &[GroupEntry], source: &str, group: &str, ttl: u8) -> Option<Vec<InterfaceId>> {
    let of = |from: &str| {
        let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), group.parse().unwrap());
        entries.iter().find(move |entry| entry.source == from && entry.group == to)
    };
    let any = if group.contains(':') { "::" } else { "0.0.0.0" };
    let entry = of(source).or_else(|| of(any))?;
    entry.inputs.contains(&PORTS[0]).then(|| {
        let wanted = entry.outputs.iter().filter(|out| ttl > out.threshold);
        wanted.map(|out| out.interface).collect()
    })
}

#[test]
fn random_packets_meet_random_entries() {
    let mut random = Random(7);
    let mut rig = rig();
    let sources = [["10.99.1.2", "10.99.1.3"], ["2001:db8:1::2", "2001:db8:1::3"]];
    let groups = [["239.1.2.3", "232.0.0.1", "225.129.2.3"], ["ff0e::101", "ff05::1:1", "ff3e::ffff:1"]];
    for _ in 0..200 {
        let mut entries: Vec<GroupEntry> = Vec::new();
        for _ in 0..random.below(8) {
            let family = random.below(2);
            let any = if family == 1 { "::" } else { "0.0.0.0" };
            let source = random.pick(&[sources[family][0], sources[family][1], any]);
            let all = [PORTS[0], PORTS[1], VLAN];
            let outputs = all.into_iter().filter(|_| random.below(2) == 0).collect::<Vec<_>>();
            let outputs: Vec<_> =
                outputs.into_iter().map(|out| (out, random.pick(&[1, 5, 64, 254]))).collect();
            let mut new = entry(source, random.pick(&groups[family]), &outputs);
            let all = [PORTS[1], PORTS[0]];
            new.inputs = random.pick(&[&all[1..], &all[..1], &all]).to_vec();
            entries.retain(|old| (old.source, old.group) != (new.source, new.group));
            entries.push(new);
        }
        follow(&rig, &entries, true);
        let (mut frames, mut expected, mut punted) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..64 {
            let family = random.below(2);
            let (source, group) = (random.pick(&sources[family]), random.pick(&groups[family]));
            let ttl = random.pick(&[1, 2, 5, 6, 64, 65, 255]);
            let frame = frame(source, group, ttl, random.below(200));
            match plainly(&entries, source, group, ttl) {
                Some(out) => expected.extend(out.into_iter().map(|out| leaves(&frame, out))),
                None => punted.push(frame.clone()),
            }
            frames.push(frame);
        }
        let outcome = rig.run(1, &frames);
        let mut sent = outcome.sent;
        sent.sort();
        expected.sort();
        assert_eq!(sent, expected);
        let handed: Vec<_> = outcome.punted.into_iter().map(|(frame, _)| frame).collect();
        assert_eq!(handed, punted);
    }
}
