//! IP tunnels: a packet that leaves by one gets its header, and one that comes in by one loses it,
//! the short way and element by element. What cannot be done so is Linux's, as it came.

mod over_ipv6;
#[path = "../rig/mod.rs"]
mod rig;
mod vxlan;

use std::net::Ipv4Addr;

use chance::Random;
use fib::{
    Adjacency, Gre, InterfaceEntry, InterfaceFlags, InterfaceId, NextHop, Over, Path, Payload, PortId,
    TableId, Tags, Tunnel,
};
use port::Packet;
use rig::{HOST_A, HOST_B, PORT_1, PORT_2, Rig, frame, to4, to6, udp4, udp6, without_id};
use wire::{Reason, checksum, ipv4, ipv6};

const GRE: InterfaceId = InterfaceId(300);
const KEYED: InterfaceId = InterfaceId(301);
const IPIP: InterfaceId = InterfaceId(302);
const SIT: InterfaceId = InterfaceId(303);
const LOCAL: Ipv4Addr = Ipv4Addr::new(10, 99, 1, 1);
/// The other ends, behind host B.
const REMOTE: Ipv4Addr = Ipv4Addr::new(198, 18, 7, 7);
const MTU: u32 = 1300;

fn tunnel(payload: Payload) -> Tunnel {
    Tunnel { payload, ttl: 0, tos: None, over: over(REMOTE, true, false) }
}

fn over(remote: Ipv4Addr, dont_fragment: bool, ignore_df: bool) -> Over {
    Over::Ipv4 { local: LOCAL, remote, dont_fragment, ignore_df }
}

const PLAIN: Payload = Payload::Gre { enters: Gre::PLAIN, leaves: Gre::PLAIN };
const KEYS: Payload = Payload::Gre {
    enters: Gre { key: Some(7), sum: false },
    leaves: Gre { key: Some(0x0102_0304), sum: false },
};

fn set(rig: &mut Rig, id: InterfaceId, tunnel: Tunnel) {
    let flags = InterfaceFlags::UP | InterfaceFlags::FORWARD4 | InterfaceFlags::FORWARD6;
    let entry = InterfaceEntry {
        ifindex: id.0.into(),
        mtu: MTU,
        mac: [0; 6],
        flags,
        port: PortId::NONE,
        tags: Tags::Tunnel(tunnel),
        table: TableId::MAIN,
        priorities: fib::Priorities::default(),
    };
    rig.tables.set_interface(id, Some(entry)).unwrap();
}

/// Routes by a tunnel, to whoever has this address in it: 172.16.N.0/24 and 2001:db8:7N::/48, where
/// N is its number - 300.
fn lead(rig: &mut Rig, id: InterfaceId, mac: [u8; 6]) {
    let adjacency = Adjacency { interface: id, mtu: MTU, mac: Some(mac) };
    let adjacency = rig.tables.add_adjacency(&adjacency).unwrap();
    let hop = rig.next_hop(&NextHop::Forward(vec![Path { adjacency, weight: 1 }]));
    let n = id.0 - 300;
    rig.tables.insert4(format!("172.16.{n}.0/24").parse().unwrap(), hop).unwrap();
    rig.tables.insert6(format!("2001:db8:7{n}::/48").parse().unwrap(), hop).unwrap();
}

/// The rig with a tunnel of each kind, and routes by them.
fn rig() -> Rig {
    let mut rig = Rig::new();
    for (id, payload) in [(GRE, PLAIN), (KEYED, KEYS), (IPIP, Payload::Ipv4), (SIT, Payload::Ipv6)] {
        set(&mut rig, id, tunnel(payload));
        lead(&mut rig, id, [0; 6]);
    }
    let local = rig.next_hop(&NextHop::Local);
    rig.tables.insert4("10.99.1.1/32".parse().unwrap(), local).unwrap();
    rig
}

fn to(id: InterfaceId) -> ipv4::Repr {
    to4(&format!("172.16.{}.9", id.0 - 300))
}

fn to_six(id: InterfaceId) -> ipv6::Repr {
    to6(&format!("2001:db8:7{}::9", id.0 - 300))
}

/// What was sent, without its link header, which must be the one to host B.
fn sent(rig: &mut Rig, frame: Vec<u8>) -> Vec<u8> {
    let mut sent = rig.run(1, &[frame]).sent;
    assert_eq!(sent.len(), 1, "{:?}", rig.reasons());
    let (port, mut bytes) = sent.remove(0);
    assert_eq!((port, &bytes[..14]), (2, &[&HOST_B.0[..], &PORT_2.0, &[8, 0]].concat()[..]));
    assert!(checksum::verify(&bytes[14..34]));
    without_id(&mut bytes);
    bytes.split_off(14)
}

/// The header of a tunnel, without identification and checksum.
fn outer(protocol: u8, tos: u8, ttl: u8, dont_fragment: bool, rest: &[u8]) -> Vec<u8> {
    let length = (20 + rest.len()) as u16;
    let flags = if dont_fragment { 0x40 } else { 0 };
    let [a, b] = length.to_be_bytes();
    let header = [0x45, tos, a, b, 0, 0, flags, 0, ttl, protocol, 0, 0];
    [&header[..], &LOCAL.octets(), &REMOTE.octets(), rest].concat()
}

#[test]
fn what_leaves_by_a_tunnel_has_its_header() {
    let mut rig = rig();
    let four = |id, ttl, tos| udp4(ipv4::Repr { ttl, tos, ..to(id) }, 40);
    let six = |id, hop_limit| udp6(ipv6::Repr { hop_limit, ..to_six(id) }, 40);
    let gre = |kind: [u8; 2], packet: Vec<u8>| [&[0, 0][..], &kind, &packet].concat();
    let keyed = |packet: Vec<u8>| [&[0x20, 0, 8, 0, 1, 2, 3, 4][..], &packet].concat();
    for tos in [0, 0xb8, 0xb9, 0xba] {
        assert_eq!(
            sent(&mut rig, frame(&four(GRE, 64, tos))),
            outer(47, tos, 63, true, &gre([8, 0], four(GRE, 63, tos)))
        );
    }
    // Congestion that was met before the tunnel is not met in it (RFC 6040, 4.1).
    assert_eq!(
        sent(&mut rig, frame(&four(GRE, 64, 0xbb))),
        outer(47, 0xba, 63, true, &gre([8, 0], four(GRE, 63, 0xbb)))
    );
    assert_eq!(sent(&mut rig, frame(&six(GRE, 9))), outer(47, 0, 8, true, &gre([0x86, 0xdd], six(GRE, 8))));
    assert_eq!(
        sent(&mut rig, frame(&four(KEYED, 64, 0))),
        outer(47, 0, 63, true, &keyed(four(KEYED, 63, 0)))
    );
    assert_eq!(sent(&mut rig, frame(&four(IPIP, 64, 0))), outer(4, 0, 63, true, &four(IPIP, 63, 0)));
    assert_eq!(sent(&mut rig, frame(&six(SIT, 64))), outer(41, 0, 63, true, &six(SIT, 63)));
    // As set: TTL, TOS; and what the packet says of fragments, or not.
    let fixed = Tunnel { ttl: 77, tos: Some(0x20), over: over(REMOTE, false, false), ..tunnel(PLAIN) };
    set(&mut rig, GRE, fixed);
    assert_eq!(
        sent(&mut rig, frame(&four(GRE, 64, 0xb9))),
        outer(47, 0x21, 77, false, &gre([8, 0], four(GRE, 63, 0xb9)))
    );
    let whole = |ttl| udp4(ipv4::Repr { ttl, fragment: ipv4::DONT_FRAGMENT, ..to(GRE) }, 40);
    assert_eq!(sent(&mut rig, frame(&whole(64))), outer(47, 0x20, 77, true, &gre([8, 0], whole(63))));
    set(&mut rig, GRE, Tunnel { over: over(REMOTE, false, true), ..fixed });
    assert_eq!(sent(&mut rig, frame(&whole(64))), outer(47, 0x20, 77, false, &gre([8, 0], whole(63))));
}

/// A packet from the other end, as a frame of host B's.
fn from_there(protocol: u8, tos: u8, rest: &[u8]) -> Vec<u8> {
    let repr = ipv4::Repr { tos, protocol, ..ipv4::Repr::new(REMOTE, LOCAL) };
    let header =
        wire::ethernet::Repr { destination: PORT_2, source: HOST_B, ether_type: wire::ethernet::IPV4 };
    [&header.header()[..], &repr.header(rest.len()), rest].concat()
}

fn home(ttl: u8, tos: u8) -> Vec<u8> {
    udp4(ipv4::Repr { ttl, tos, ..ipv4::Repr::new([172, 16, 0, 9].into(), [10, 99, 1, 2].into()) }, 40)
}

fn home6(hop_limit: u8) -> Vec<u8> {
    let from = "2001:db8:70::9".parse().unwrap();
    udp6(ipv6::Repr { hop_limit, ..ipv6::Repr::new(from, "2001:db8:1::2".parse().unwrap()) }, 40)
}

#[test]
fn what_comes_in_by_a_tunnel_loses_its_header() {
    let mut rig = rig();
    let gre = |kind: [u8; 2], packet: &[u8]| [&[0, 0][..], &kind, packet].concat();
    let keyed = |key: u8, packet: &[u8]| [&[0x20, 0, 8, 0, 0, 0, 0, key][..], packet].concat();
    let four = [(47, gre([8, 0], &home(64, 0))), (47, keyed(7, &home(64, 0))), (4, home(64, 0))];
    for (protocol, packet) in four {
        let sent = rig.run(2, &[from_there(protocol, 0, &packet)]).sent;
        let link = [&HOST_A.0[..], &PORT_1.0, &[8, 0]].concat();
        assert_eq!(sent, [(1, [&link[..], &home(63, 0)].concat())], "{protocol}");
    }
    for (protocol, packet) in [(47, gre([0x86, 0xdd], &home6(64))), (41, home6(64))] {
        let sent = rig.run(2, &[from_there(protocol, 0, &packet)]).sent;
        let link = [&HOST_A.0[..], &PORT_1.0, &[0x86, 0xdd]].concat();
        assert_eq!(sent, [(1, [&link[..], &home6(63)].concat())], "{protocol}");
    }
    // Congestion met in the tunnel (RFC 6040, 4.2).
    for (outer, inner, left) in [(3, 2, 3), (3, 1, 3), (1, 2, 1), (2, 1, 1), (2, 0, 0)] {
        let sent = rig.run(2, &[from_there(4, outer, &home(64, 0xb8 | inner))]).sent;
        assert_eq!(sent[0].1[14..], home(63, 0xb8 | left), "{outer} {inner}");
    }
    let received: Vec<_> = [GRE, KEYED, IPIP, SIT].map(|id| rig.counts[0].read(id).received.packets).into();
    assert_eq!(received, [2, 1, 6, 1]);
}

#[test]
fn what_the_plane_does_not_open_is_linuxs_as_it_came() {
    let mut rig = rig();
    let home = home(64, 0);
    let gre = |front: &[u8]| [front, &home].concat();
    let mut fragment = from_there(4, 0, &home);
    fragment[20] = 0x20;
    let sum = u16::from_be_bytes([fragment[24], fragment[25]]) - 0x2000;
    fragment[24..26].copy_from_slice(&sum.to_be_bytes());
    for (why, frame) in [
        ("another key", from_there(47, 0, &gre(&[0x20, 0, 8, 0, 0, 0, 0, 8]))),
        ("a checksum that nobody expects", from_there(47, 0, &gre(&[0x80, 0, 8, 0, 0, 0, 0, 0]))),
        ("a sequence number", from_there(47, 0, &gre(&[0x10, 0, 8, 0, 0, 0, 0, 1]))),
        ("version 1", from_there(47, 0, &gre(&[0, 1, 8, 0]))),
        ("MPLS", from_there(47, 0, &gre(&[0, 0, 0x88, 0x47]))),
        ("the wrong family", from_there(41, 0, &home)),
        ("no header", from_there(47, 0, &[0, 0, 8, 0])),
        ("half a header", from_there(4, 0, &home[..19])),
        ("congestion that cannot be told", from_there(4, 3, &home)),
        ("a fragment", fragment),
    ] {
        let outcome = rig.run(2, std::slice::from_ref(&frame));
        assert_eq!((outcome.sent.len(), outcome.punted.len()), (0, 1), "{why} {:?}", rig.reasons());
        assert_eq!(outcome.punted[0].0, frame, "{why}");
    }
    // What is behind the packet is no part of it.
    let bare = from_there(4, 0, &[]);
    let outcome = rig.run(2, &[[&bare[..], &home].concat()]);
    assert_eq!((outcome.sent.len(), outcome.punted.len()), (0, 1), "{:?}", rig.reasons());
    assert_eq!(outcome.punted[0].0, bare);
    let elsewhere = Tunnel { over: over([198, 18, 7, 8].into(), true, false), ..tunnel(Payload::Ipv4) };
    set(&mut rig, IPIP, elsewhere);
    assert_eq!(rig.run(2, &[from_there(4, 0, &home)]).punted.len(), 1, "another end");
    rig.tables.set_interface(IPIP, None).unwrap();
    assert_eq!(rig.run(2, &[from_there(4, 0, &home)]).punted.len(), 1, "gone");
}

#[test]
fn what_does_not_fit_or_has_no_way_is_linuxs_as_it_came() {
    let mut rig = rig();
    let linux = |rig: &mut Rig, packet: &[u8], why: &str| {
        let frame = frame(packet);
        let outcome = rig.run(1, std::slice::from_ref(&frame));
        assert_eq!((outcome.sent.len(), outcome.punted.len()), (0, 1), "{why} {:?}", rig.reasons());
        assert_eq!(outcome.punted[0].0, frame, "{why}");
    };
    let long = udp4(ipv4::Repr { fragment: ipv4::DONT_FRAGMENT, ..to(GRE) }, 1000);
    assert_eq!(sent(&mut rig, frame(&long)).len(), 24 + 1028);
    rig.tables.set_path_mtu(GRE, 24 + 1027);
    linux(&mut rig, &long, "longer than the path");
    rig.tables.set_path_mtu(GRE, 24 + 1028);
    assert_eq!(sent(&mut rig, frame(&long)).len(), 24 + 1028);
    linux(&mut rig, &udp6(to_six(IPIP), 40), "IPv6 in IPIP");
    linux(&mut rig, &udp4(to(SIT), 40), "IPv4 in 6in4");
    rig.tables.set_path_mtu(SIT, 1299);
    linux(&mut rig, &udp6(to_six(SIT), 40), "a way that is too narrow for IPv6");
    // The other end behind the tunnel itself, or a neighbour that is not known.
    let by_itself = rig.tables.get4("172.16.0.0/24".parse().unwrap()).unwrap();
    rig.tables.insert4("198.18.7.7/32".parse().unwrap(), by_itself).unwrap();
    linux(&mut rig, &long, "round and round");
    rig.tables.remove4("198.18.7.7/32".parse().unwrap());
    set(&mut rig, GRE, Tunnel { over: over([10, 99, 2, 3].into(), true, false), ..tunnel(PLAIN) });
    linux(&mut rig, &long, "an unresolved neighbour");
}

#[test]
fn what_is_longer_than_the_tunnels_mtu_is_answered_or_fragmented() {
    let mut rig = rig();
    let long = |fragment| udp4(ipv4::Repr { fragment, ..to(GRE) }, MTU as usize);
    let fragments = rig.run(1, &[frame(&long(0))]).sent;
    assert_eq!(fragments.len(), 2);
    assert!(
        fragments.iter().all(|(port, frame)| *port == 2 && frame[23] == 47 && frame.len() <= 14 + 24 + 1300)
    );
    let told = rig.run(1, &[frame(&long(ipv4::DONT_FRAGMENT))]).sent;
    assert_eq!((told.len(), told[0].0), (1, 1));
    assert_eq!(&told[0].1[34..42], [3, 4, told[0].1[36], told[0].1[37], 0, 0, 5, 20], "MTU {MTU}");
}

#[test]
fn a_checksum_is_made_and_checked() {
    let mut rig = rig();
    let gre = |key, sum| Gre { key, sum };
    let inner = home(64, 0);
    let home = |front: &[u8]| from_there(47, 0, &[front, &inner].concat());
    let linux = |rig: &mut Rig, frame: &[u8], why: &str| {
        let outcome = rig.run(2, &[frame.to_vec()]);
        assert_eq!((outcome.sent.len(), outcome.punted.len()), (0, 1), "{why} {:?}", rig.reasons());
        assert_eq!(outcome.punted[0].0, frame, "{why}");
    };
    for (key, front) in [(None, vec![0x80, 0, 8, 0]), (Some(8), vec![0xa0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 8])]
    {
        let both = gre(key, true);
        set(&mut rig, GRE, tunnel(Payload::Gre { enters: both, leaves: both }));
        let sent = sent(&mut rig, frame(&udp4(to(GRE), 41)));
        let length = if key.is_some() { 12 } else { 8 };
        assert_eq!((&sent[20..24], sent.len()), (&front[..4], 20 + length + 69));
        assert!(checksum::verify(&sent[20..]) && sent[26..28] == [0, 0]);
        assert_eq!(sent[28..20 + length], *key.map_or(vec![], |_| vec![0, 0, 0, 8]));
        let mut front = [&front[..4], &[0; 4], &sent[28..20 + length]].concat();
        let sum = checksum::Sum::new().with(&front).with(&inner).finish();
        front[4..6].copy_from_slice(&sum.to_be_bytes());
        let outcome = rig.run(2, &[home(&front)]);
        assert_eq!((outcome.sent.len(), outcome.punted.len()), (1, 0), "{:?}", rig.reasons());
        front[5] ^= 1;
        linux(&mut rig, &home(&front), "a wrong sum");
        let without: Vec<u8> = [&[front[0] & 0x20, 0, 8, 0][..], &front[8..]].concat();
        linux(&mut rig, &home(&without), "no sum");
        front[5] ^= 1;
        set(&mut rig, GRE, tunnel(Payload::Gre { enters: gre(key, false), leaves: both }));
        linux(&mut rig, &home(&front), "a sum that nobody expects");
    }
}

/// The sum is made over one piece of memory.
#[test]
fn a_packet_in_pieces_has_no_checksum_here() {
    let mut rig = rig();
    for sum in [false, true] {
        let leaves = Gre { key: None, sum };
        set(&mut rig, GRE, tunnel(Payload::Gre { enters: Gre::PLAIN, leaves }));
        let frame = frame(&udp4(to(GRE), 600));
        let (front, rest) = frame.split_at(300);
        let mut packet = Packet::new(front).unwrap();
        packet.append(Packet::new(rest).unwrap()).unwrap();
        let outcome = rig.run_packets(1, vec![packet]);
        let passes = (usize::from(!sum), usize::from(sum));
        assert_eq!((outcome.sent.len(), outcome.punted.len()), passes, "{:?}", rig.reasons());
    }
}

#[test]
fn an_answer_goes_back_by_the_tunnel() {
    let mut rig = rig();
    let by_it = rig.tables.get4("172.16.0.0/24".parse().unwrap()).unwrap();
    rig.sources.set_interface(GRE, TableId::MAIN, vec!["172.16.0.1/24".parse().unwrap()], vec![]);
    assert_ne!(by_it, fib::NextHopId::NONE);
    let gre = [&[0, 0, 8, 0][..], &home(1, 0)].concat();
    let sent = rig.run(2, &[from_there(47, 0, &gre)]).sent;
    assert_eq!(sent.len(), 1, "{:?}", rig.reasons());
    let (port, frame) = &sent[0];
    assert_eq!((*port, frame[23], &frame[30..34]), (2, 47, &REMOTE.octets()[..]));
    assert_eq!((&frame[38 + 12..38 + 16], frame[38 + 20]), (&[172, 16, 0, 1][..], 11), "time exceeded");
}

#[test]
fn headers_in_headers_end() {
    let mut rig = rig();
    let mut packet = home(64, 0);
    for _ in 0..40 {
        let repr = ipv4::Repr { protocol: 4, ..ipv4::Repr::new(REMOTE, LOCAL) };
        packet = [&repr.header(packet.len())[..], &packet].concat();
    }
    let outcome = rig.run(2, &[from_there(4, 0, &packet)]);
    // Those that come out of a tunnel may not claim to come from where they are opened.
    assert_eq!((outcome.sent.len(), outcome.punted.len()), (0, 0), "{:?}", rig.reasons());
}

/// Whatever stands in a tunnel or in front of it: the short way and the elements do the same, and
/// no packet is lost without a reason.
#[test]
fn any_bytes_in_tunnels_are_forwarded_dropped_or_linuxs() {
    let mut rig = rig();
    let mut chance = Random(7);
    let mut below = |n: usize| chance.below(n);
    let (mut forwarded, mut linux, mut dropped) = (0, 0, 0);
    for round in 0..600 {
        let frames: Vec<Vec<u8>> = (0..40)
            .map(|_| {
                let inner = if below(2) == 0 { home(below(3) as u8 + 1, below(4) as u8) } else { home6(2) };
                let (protocol, mut packet) = match below(4) {
                    0 => (4, inner),
                    1 => (41, inner),
                    n => {
                        let kind = if inner[0] == 0x45 { [8, 0] } else { [0x86, 0xdd] };
                        let key = if n == 3 { &[0, 0, 0, 7][..] } else { &[] };
                        let flags = if n == 3 { 0x20 } else { 0 };
                        (47, [&[flags, 0][..], &kind, key, &inner].concat())
                    }
                };
                for _ in 0..below(3) {
                    let at = below(packet.len().min(48));
                    packet[at] ^= 1 << below(8);
                }
                if below(3) == 0 {
                    packet.truncate(below(packet.len()));
                }
                let padding = vec![0x45; if below(3) == 0 { below(60) } else { 0 }];
                [from_there(protocol, below(4) as u8, &packet), padding].concat()
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
    assert!(rig.reasons().iter().all(|(reason, _)| *reason != Reason::PortDown));
}
