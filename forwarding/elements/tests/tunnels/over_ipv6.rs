//! Tunnels over IPv6: the same both ways, and what is only in IPv6's header.

use std::net::Ipv6Addr;

use super::*;

const EITHER: InterfaceId = InterfaceId(310);
const FOUR: InterfaceId = InterfaceId(311);
const GRE6: InterfaceId = InterfaceId(312);
const KEYED6: InterfaceId = InterfaceId(313);
const LOCAL6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);

/// The other end of a tunnel, behind host B.
fn remote(id: InterfaceId) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xf, 0, 0, 0, 0, id.0)
}

fn tunnel6(id: InterfaceId, label: Option<u32>, limit: Option<u8>) -> Tunnel {
    let payload = match id {
        EITHER => Payload::Any,
        FOUR => Payload::Ipv4,
        GRE6 => PLAIN,
        _ => KEYS,
    };
    Tunnel {
        payload,
        ttl: 0,
        tos: None,
        over: Over::Ipv6 { local: LOCAL6, remote: remote(id), label, limit },
    }
}

/// The rig with a tunnel of each kind, and routes by them.
fn rig6(label: Option<u32>, limit: Option<u8>) -> Rig {
    let mut rig = Rig::new();
    for id in [EITHER, FOUR, GRE6, KEYED6] {
        set(&mut rig, id, tunnel6(id, label, limit));
        lead(&mut rig, id, [0; 6]);
    }
    rig
}

/// What was sent, without its link header, which must be the one to host B.
fn sent6(rig: &mut Rig, packet: &[u8]) -> Vec<u8> {
    let mut sent = rig.run(1, &[frame(packet)]).sent;
    assert_eq!(sent.len(), 1, "{:?}", rig.reasons());
    let (port, mut bytes) = sent.remove(0);
    assert_eq!((port, &bytes[..14]), (2, &[&HOST_B.0[..], &PORT_2.0, &[0x86, 0xdd]].concat()[..]));
    bytes.split_off(14)
}

fn outer6(id: InterfaceId, next: u8, tos: u8, label: u32, hop_limit: u8, rest: &[u8]) -> Vec<u8> {
    let first = 6 << 28 | u32::from(tos) << 20 | label;
    let [a, b] = (rest.len() as u16).to_be_bytes();
    let header = [&first.to_be_bytes()[..], &[a, b, next, hop_limit]].concat();
    [&header[..], &LOCAL6.octets(), &remote(id).octets(), rest].concat()
}

fn four(id: InterfaceId, ttl: u8, tos: u8) -> Vec<u8> {
    udp4(ipv4::Repr { ttl, tos, ..to(id) }, 40)
}

fn six(id: InterfaceId, hop_limit: u8, traffic_class: u8, flow_label: u32) -> Vec<u8> {
    let mut packet = udp6(ipv6::Repr { hop_limit, ..to_six(id) }, 40);
    let first = 6 << 28 | u32::from(traffic_class) << 20 | flow_label;
    packet[..4].copy_from_slice(&first.to_be_bytes());
    packet
}

#[test]
fn what_leaves_has_a_header_of_ipv6() {
    let mut rig = rig6(Some(0x12345), None);
    let gre = |kind: [u8; 2], packet: Vec<u8>| [&[0, 0][..], &kind, &packet].concat();
    let keyed = |packet: Vec<u8>| [&[0x20, 0, 8, 0, 1, 2, 3, 4][..], &packet].concat();
    for (tos, told) in [(0, 0), (0xb8, 0xb8), (0xb9, 0xb9), (0xbb, 0xba)] {
        let packet = four(EITHER, 63, tos);
        let wanted = outer6(EITHER, 4, told, 0x12345, 63, &packet);
        assert_eq!(sent6(&mut rig, &four(EITHER, 64, tos)), wanted);
        let wanted = outer6(EITHER, 41, told, 0x12345, 8, &six(EITHER, 8, tos, 7));
        assert_eq!(sent6(&mut rig, &six(EITHER, 9, tos, 7)), wanted);
        // In GRE Linux takes it as it is, congestion and all.
        let wanted = outer6(GRE6, 47, tos, 0x12345, 63, &gre([8, 0], four(GRE6, 63, tos)));
        assert_eq!(sent6(&mut rig, &four(GRE6, 64, tos)), wanted);
        let wanted = outer6(GRE6, 47, tos, 0x12345, 8, &gre([0x86, 0xdd], six(GRE6, 8, tos, 7)));
        assert_eq!(sent6(&mut rig, &six(GRE6, 9, tos, 7)), wanted);
    }
    let wanted = outer6(KEYED6, 47, 0, 0x12345, 63, &keyed(four(KEYED6, 63, 0)));
    assert_eq!(sent6(&mut rig, &four(KEYED6, 64, 0)), wanted);
    // As set.
    for (id, told) in [(EITHER, 0x21), (GRE6, 0x20)] {
        set(&mut rig, id, Tunnel { ttl: 77, tos: Some(0x20), ..tunnel6(id, Some(0), Some(4)) });
        let sent = sent6(&mut rig, &four(id, 64, 0xb9));
        assert_eq!((sent[0] << 4 | sent[1] >> 4, sent[7]), (told, 77));
    }
}

#[test]
fn a_limit_of_tunnels_stands_in_front() {
    let mut rig = rig6(Some(1), Some(4));
    let limit = |next: u8, rest: Vec<u8>| [&[next, 0, 4, 1, 4, 1, 1, 0][..], &rest].concat();
    let keyed = |packet: Vec<u8>| [&[0x20, 0, 8, 0, 1, 2, 3, 4][..], &packet].concat();
    let wanted = outer6(EITHER, 60, 0, 1, 63, &limit(4, four(EITHER, 63, 0)));
    assert_eq!(sent6(&mut rig, &four(EITHER, 64, 0)), wanted);
    let wanted = outer6(EITHER, 60, 0, 1, 63, &limit(41, six(EITHER, 63, 0, 0)));
    assert_eq!(sent6(&mut rig, &six(EITHER, 64, 0, 0)), wanted);
    let wanted = outer6(KEYED6, 60, 0, 1, 63, &limit(47, keyed(four(KEYED6, 63, 0))));
    assert_eq!(sent6(&mut rig, &four(KEYED6, 64, 0)), wanted);
}

#[test]
fn each_flow_has_a_label_where_none_is_set() {
    let label = |sent: &[u8]| u32::from_be_bytes([0, sent[1] & 15, sent[2], sent[3]]);
    let mut rig = rig6(Some(0), None);
    let one = label(&sent6(&mut rig, &four(EITHER, 64, 0)));
    assert_eq!(one, label(&sent6(&mut rig, &four(EITHER, 64, 0))), "a flow keeps it");
    let other = udp4(to4("172.16.10.10"), 40);
    assert!(one != 0 && one != label(&sent6(&mut rig, &other)));
    assert_ne!(label(&sent6(&mut rig, &six(EITHER, 64, 0, 0x777))), 0x777, "it is not inherited");
    let mut rig = rig6(None, None);
    assert_eq!(label(&sent6(&mut rig, &six(EITHER, 64, 0, 0x777))), 0x777);
    assert_ne!(label(&sent6(&mut rig, &six(EITHER, 64, 0, 0))), 0);
    assert_ne!(label(&sent6(&mut rig, &four(EITHER, 64, 0))), 0);
}

/// A packet from the other end of a tunnel, as a frame of host B's.
fn from_there6(id: InterfaceId, next: u8, tos: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = outer6(id, next, tos, 9, 60, rest);
    packet[8..24].copy_from_slice(&remote(id).octets());
    packet[24..40].copy_from_slice(&LOCAL6.octets());
    let header =
        wire::ethernet::Repr { destination: PORT_2, source: HOST_B, ether_type: wire::ethernet::IPV6 };
    [&header.header()[..], &packet].concat()
}

#[test]
fn what_comes_in_loses_a_header_of_ipv6() {
    let mut rig = rig6(Some(0), Some(4));
    let gre = |kind: [u8; 2], packet: Vec<u8>| [&[0, 0][..], &kind, &packet].concat();
    let keyed = |packet: Vec<u8>| [&[0x20, 0, 8, 0, 0, 0, 0, 7][..], &packet].concat();
    let limit = |next: u8, rest: Vec<u8>| [&[next, 0, 4, 1, 2, 1, 1, 0][..], &rest].concat();
    for (id, next, rest, version) in [
        (EITHER, 4, home(64, 0), 4),
        (EITHER, 41, home6(64), 6),
        (EITHER, 60, limit(4, home(64, 0)), 4),
        (EITHER, 60, limit(41, home6(64)), 6),
        (FOUR, 4, home(64, 0), 4),
        (GRE6, 47, gre([8, 0], home(64, 0)), 4),
        (GRE6, 60, limit(47, gre([0x86, 0xdd], home6(64))), 6),
        (KEYED6, 47, keyed(home(64, 0)), 4),
    ] {
        let sent = rig.run(2, &[from_there6(id, next, 0, &rest)]).sent;
        let (kind, packet) = if version == 4 { ([8, 0], home(63, 0)) } else { ([0x86, 0xdd], home6(63)) };
        let link = [&HOST_A.0[..], &PORT_1.0, &kind].concat();
        assert_eq!(sent, [(1, [&link[..], &packet].concat())], "{id:?} {next} {:?}", rig.reasons());
    }
    for (outer, inner, left) in [(3, 2, 3), (3, 1, 3), (1, 2, 1), (2, 1, 1), (2, 0, 0)] {
        let sent = rig.run(2, &[from_there6(EITHER, 4, outer, &home(64, 0xb8 | inner))]).sent;
        assert_eq!(sent[0].1[14..], home(63, 0xb8 | left), "{outer} {inner}");
    }
    let received: Vec<_> =
        [EITHER, FOUR, GRE6, KEYED6].map(|id| rig.counts[0].read(id).received.packets).into();
    assert_eq!(received, [9, 1, 2, 1]);
}

#[test]
fn what_is_not_opened_is_linuxs_as_it_came() {
    let mut rig = rig6(Some(0), None);
    let home = home(64, 0);
    let option = |bytes: [u8; 8]| [&bytes[..], &home].concat();
    let mut fragment = [4, 0, 0, 1, 0, 0, 0, 9].to_vec();
    fragment.extend(&home);
    for (why, frame) in [
        ("another option", from_there6(EITHER, 60, 0, &option([4, 0, 5, 1, 4, 1, 1, 0]))),
        ("two options' room", from_there6(EITHER, 60, 0, &option([4, 1, 4, 1, 4, 1, 1, 0]))),
        ("half an option", from_there6(EITHER, 60, 0, &[4, 0, 4, 1, 4, 1, 1])),
        ("another key", from_there6(KEYED6, 47, 0, &[&[0x20, 0, 8, 0, 0, 0, 0, 8][..], &home].concat())),
        ("IPv6 where IPv4 is", from_there6(FOUR, 41, 0, &home6(64))),
        ("the wrong family", from_there6(EITHER, 41, 0, &home)),
        ("congestion that cannot be told", from_there6(EITHER, 4, 3, &home)),
        ("a fragment", from_there6(EITHER, 44, 0, &fragment)),
        ("another end", from_there6(InterfaceId(7), 4, 0, &home)),
        ("half a header", from_there6(EITHER, 4, 0, &home[..19])),
    ] {
        let outcome = rig.run(2, std::slice::from_ref(&frame));
        assert_eq!((outcome.sent.len(), outcome.punted.len()), (0, 1), "{why} {:?}", rig.reasons());
        assert_eq!(outcome.punted[0].0, frame, "{why}");
    }
    // What is behind the packet is no part of it.
    let bare = from_there6(EITHER, 4, 0, &[]);
    let outcome = rig.run(2, &[[&bare[..], &home].concat()]);
    assert_eq!((outcome.sent.len(), outcome.punted.len()), (0, 1), "{:?}", rig.reasons());
    assert_eq!(outcome.punted[0].0, bare);
}

#[test]
fn what_is_not_sent_is_linuxs_as_it_came() {
    let mut rig = rig6(Some(0), Some(4));
    let linux = |rig: &mut Rig, packet: &[u8], why: &str| {
        let frame = frame(packet);
        let outcome = rig.run(1, std::slice::from_ref(&frame));
        assert_eq!((outcome.sent.len(), outcome.punted.len()), (0, 1), "{why} {:?}", rig.reasons());
        assert_eq!(outcome.punted[0].0, frame, "{why}");
    };
    linux(&mut rig, &six(FOUR, 64, 0, 0), "IPv6 where IPv4 is");
    let long = udp4(to(EITHER), 1000);
    assert_eq!(sent6(&mut rig, &long).len(), 48 + 1028);
    rig.tables.set_path_mtu(EITHER, 48 + 1027);
    linux(&mut rig, &long, "longer than the path");
    rig.tables.set_path_mtu(EITHER, 48 + 1028);
    assert_eq!(sent6(&mut rig, &long).len(), 48 + 1028);
    // It may say how many tunnels it enters.
    let repr = ipv6::Repr { next_header: 60, ..to_six(EITHER) };
    let options = [17, 0, 4, 1, 0, 1, 1, 0];
    let rest = [&options[..], &[0x13, 0x88, 0, 9, 0, 8, 0x12, 0x34]].concat();
    linux(&mut rig, &[&repr.header(rest.len())[..], &rest].concat(), "an extension header");
    // Linux does not send it where it is from.
    let repr = ipv6::Repr { ..ipv6::Repr::new(remote(EITHER), to_six(EITHER).destination) };
    linux(&mut rig, &udp6(repr, 40), "from the other end");
    let by_itself = rig.tables.get6("2001:db8:710::/48".parse().unwrap()).unwrap();
    rig.tables.insert6(format!("{}/128", remote(EITHER)).parse().unwrap(), by_itself).unwrap();
    linux(&mut rig, &long, "round and round");
}

#[test]
fn headers_in_headers_end_here_too() {
    let mut rig = rig6(Some(0), None);
    let mut packet = home(64, 0);
    for _ in 0..25 {
        let protocol = if packet[0] >> 4 == 6 { 41 } else { 4 };
        packet = from_there6(EITHER, protocol, 0, &packet).split_off(14);
    }
    let outcome = rig.run(2, &[from_there6(EITHER, 41, 0, &packet)]);
    assert_eq!((outcome.sent.len(), outcome.punted.len()), (0, 0), "{:?}", rig.reasons());
    assert_eq!(rig.reasons().iter().map(|(_, n)| n).sum::<u64>(), 1);
}

#[test]
fn any_bytes_are_forwarded_dropped_or_linuxs() {
    let mut rig = rig6(Some(0), Some(4));
    let mut chance = Random(11);
    let mut below = |n: usize| chance.below(n);
    let (mut forwarded, mut linux, mut dropped) = (0, 0, 0);
    for round in 0..600 {
        let frames: Vec<Vec<u8>> = (0..40)
            .map(|_| {
                let inner = if below(2) == 0 { home(below(3) as u8 + 1, below(4) as u8) } else { home6(2) };
                let is_four = inner[0] == 0x45;
                let (id, mut next, mut packet) = match below(3) {
                    0 => (EITHER, if is_four { 4 } else { 41 }, inner),
                    n => {
                        let kind = if is_four { [8, 0] } else { [0x86, 0xdd] };
                        let (id, flags) = if n == 2 { (KEYED6, 0x20) } else { (GRE6, 0) };
                        let key = if n == 2 { &[0, 0, 0, 7][..] } else { &[] };
                        (id, 47, [&[flags, 0][..], &kind, key, &inner].concat())
                    }
                };
                if below(2) == 0 {
                    packet = [&[next, 0, 4, 1, below(9) as u8, 1, 1, 0][..], &packet].concat();
                    next = 60;
                }
                for _ in 0..below(3) {
                    let at = below(packet.len().min(56));
                    packet[at] ^= 1 << below(8);
                }
                if below(3) == 0 {
                    packet.truncate(below(packet.len()));
                }
                let padding = vec![0x45; if below(3) == 0 { below(60) } else { 0 }];
                [from_there6(id, next, below(4) as u8, &packet), padding].concat()
            })
            .collect();
        let before = rig.dropped();
        let outcome = rig.run(2, &frames);
        let lost = rig.dropped() - before;
        // Answers besides.
        assert!(outcome.sent.len() + outcome.punted.len() + lost as usize >= frames.len(), "round {round}");
        forwarded += outcome.sent.len();
        linux += outcome.punted.len();
        dropped += lost;
    }
    assert!(forwarded > 2000 && linux > 2000 && dropped > 1000, "{forwarded} {linux} {dropped}");
}
