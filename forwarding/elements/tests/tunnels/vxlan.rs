//! VXLAN: frames of Ethernet in UDP, both ways, over both families; a link with hosts, some of
//! which Linux has yet to learn of.

use std::net::Ipv6Addr;

use fib::Vxlan;

use super::*;

const ONE: InterfaceId = InterfaceId(320);
const SIX: InterfaceId = InterfaceId(321);
/// The VXLANs' own address, and that of a host in them.
const OWN: [u8; 6] = [2, 0, 0, 0, 7, 1];
const HOST: [u8; 6] = [2, 0, 0, 0, 7, 2];
const LOCAL6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
const REMOTE6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xf, 0, 0, 0, 0, 7);
const PORT: u16 = 4789;
const VNI: u32 = 0x12_3456;

const PLAIN: Vxlan =
    Vxlan { vni: VNI, port: PORT, sources: (5000, 5100), sum: false, unsummed: false, learns: false };

fn over(id: InterfaceId) -> Over {
    match id {
        ONE => Over::Ipv4 { local: LOCAL, remote: REMOTE, dont_fragment: false, ignore_df: true },
        _ => Over::Ipv6 { local: LOCAL6, remote: REMOTE6, label: Some(0x54321), limit: None },
    }
}

fn set(rig: &mut Rig, id: InterfaceId, vxlan: Vxlan) {
    let tunnel = Tunnel { payload: Payload::Vxlan(vxlan), ttl: 64, tos: None, over: over(id) };
    super::set(rig, id, tunnel);
    let entry = rig.tables.interface(id).unwrap();
    rig.tables.set_interface(id, Some(InterfaceEntry { mac: OWN, ..entry })).unwrap();
}

/// The rig with a VXLAN over each family, and routes by them to a host.
fn rig(vxlan: Vxlan) -> Rig {
    let mut rig = Rig::new();
    for id in [ONE, SIX] {
        set(&mut rig, id, vxlan);
        lead(&mut rig, id, HOST);
    }
    let local = rig.next_hop(&NextHop::Local);
    rig.tables.insert4("10.99.1.1/32".parse().unwrap(), local).unwrap();
    rig.tables.insert6(format!("{LOCAL6}/128").parse().unwrap(), local).unwrap();
    rig
}

/// VXLAN's header and the frame behind it.
fn inside(packet: &[u8], to: [u8; 6], from: [u8; 6]) -> Vec<u8> {
    let kind = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    [&[8, 0, 0, 0][..], &(VNI << 8).to_be_bytes(), &to, &from, &kind, packet].concat()
}

fn pseudo(id: InterfaceId, length: usize) -> checksum::Sum {
    match id {
        ONE => checksum::pseudo4(LOCAL.into(), REMOTE.into(), 17, length as u16),
        _ => checksum::pseudo6(LOCAL6.to_bits(), REMOTE6.to_bits(), 17, length as u32),
    }
}

/// A packet from the other end, as a frame of host B's.
fn from_there(id: InterfaceId, tos: u8, data: &[u8], sum: bool) -> Vec<u8> {
    let mut udp =
        [&[0x9c, 0x40][..], &PORT.to_be_bytes(), &(data.len() as u16 + 8).to_be_bytes(), &[0; 2], data]
            .concat();
    if sum {
        let sum = pseudo(id, udp.len()).with(&udp).finish();
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
    }
    let (ether_type, header) = match id {
        ONE => {
            let repr = ipv4::Repr { tos, protocol: 17, ..ipv4::Repr::new(REMOTE, LOCAL) };
            (wire::ethernet::IPV4, repr.header(udp.len()).to_vec())
        }
        _ => {
            let repr = ipv6::Repr { traffic_class: tos, ..ipv6::Repr::new(REMOTE6, LOCAL6) };
            (wire::ethernet::IPV6, repr.header(udp.len()).to_vec())
        }
    };
    let frame = wire::ethernet::Repr { destination: PORT_2, source: HOST_B, ether_type };
    [&frame.header()[..], &header, &udp].concat()
}

#[test]
fn what_leaves_is_a_frame_in_udp() {
    for sum in [false, true] {
        let mut rig = rig(Vxlan { sum, ..PLAIN });
        for (id, upper) in [(ONE, 20), (SIX, 40)] {
            let packets = [
                (
                    udp4(ipv4::Repr { tos: 0xbb, ..to(id) }, 41),
                    udp4(ipv4::Repr { tos: 0xbb, ttl: 63, ..to(id) }, 41),
                ),
                (udp6(to_six(id), 40), udp6(ipv6::Repr { hop_limit: 63, ..to_six(id) }, 40)),
            ];
            for (packet, aged) in packets {
                let mut sent = rig.run(1, &[frame(&packet)]).sent;
                assert_eq!(sent.len(), 1, "{:?}", rig.reasons());
                let (port, bytes) = sent.remove(0);
                assert_eq!((port, &bytes[..12]), (2, &[HOST_B.0, PORT_2.0].concat()[..]));
                let outer = &bytes[14..];
                let ecn = if packet[0] >> 4 == 4 { 0xba } else { 0 };
                match id {
                    ONE => {
                        assert_eq!((outer[1], &outer[6..10]), (ecn, &[0, 0, 64, 17][..]));
                        assert!(checksum::verify(&outer[..20]));
                        assert_eq!(outer[12..20], [LOCAL.octets(), REMOTE.octets()].concat());
                    }
                    _ => {
                        let first = 6 << 28 | u32::from(ecn) << 20 | 0x54321;
                        assert_eq!((&outer[..4], &outer[6..8]), (&first.to_be_bytes()[..], &[17, 64][..]));
                        assert_eq!(outer[8..40], [LOCAL6.octets(), REMOTE6.octets()].concat());
                    }
                }
                let udp = &outer[upper..];
                let source = u16::from_be_bytes([udp[0], udp[1]]);
                assert!((5000..5100).contains(&source), "{source}");
                let length = udp.len() as u16;
                assert_eq!(udp[2..6], [PORT.to_be_bytes(), length.to_be_bytes()].concat());
                assert_eq!(udp[8..], inside(&aged, HOST, OWN));
                match sum {
                    true => assert_eq!(pseudo(id, udp.len()).with(udp).fold(), 0xffff),
                    false => assert_eq!(udp[6..8], [0, 0]),
                }
            }
        }
    }
}

#[test]
fn a_flow_has_one_source_port_and_others_have_others() {
    let mut rig = rig(PLAIN);
    let mut port = |last: u8| {
        let repr = ipv4::Repr { destination: [172, 16, 20, last].into(), ..to(ONE) };
        let sent = rig.run(1, &[frame(&udp4(repr, 20))]).sent;
        u16::from_be_bytes([sent[0].1[34], sent[0].1[35]])
    };
    assert_eq!(port(1), port(1));
    let all: std::collections::BTreeSet<u16> = (0..200).map(port).collect();
    assert!(all.len() > 60 && all.iter().all(|port| (5000..5100).contains(port)), "{all:?}");
}

#[test]
fn what_comes_in_goes_on_as_a_frame_of_the_link() {
    let mut rig = rig(PLAIN);
    let link = |kind: [u8; 2]| [&HOST_A.0[..], &PORT_1.0, &kind].concat();
    for (id, sum) in [(ONE, false), (ONE, true), (SIX, true)] {
        let sent = rig.run(2, &[from_there(id, 0, &inside(&home(64, 0), OWN, HOST), sum)]).sent;
        assert_eq!(sent, [(1, [link([8, 0]), home(63, 0)].concat())], "{id:?} {:?}", rig.reasons());
        let sent = rig.run(2, &[from_there(id, 0, &inside(&home6(64), OWN, HOST), sum)]).sent;
        assert_eq!(sent, [(1, [link([0x86, 0xdd]), home6(63)].concat())], "{id:?}");
    }
    let sent = rig.run(2, &[from_there(ONE, 3, &inside(&home(64, 1), OWN, HOST), false)]).sent;
    assert_eq!(sent[0].1[14..], home(63, 3), "congestion in the tunnel");
    let received = [ONE, SIX].map(|id| rig.counts[0].read(id).received.packets);
    assert_eq!(received, [5, 2]);
}

fn is_linuxs(rig: &mut Rig, frame: &[u8], why: &str) {
    let outcome = rig.run(2, &[frame.to_vec()]);
    assert_eq!((outcome.sent.len(), outcome.punted.len()), (0, 1), "{why} {:?}", rig.reasons());
    assert_eq!(outcome.punted[0].0, frame, "{why}");
}

#[test]
fn what_is_not_as_it_should_be_is_linuxs_as_it_came() {
    let mut rig = rig(PLAIN);
    let right = inside(&home(64, 0), OWN, HOST);
    let changed = |at: usize, byte: u8| {
        let mut data = right.clone();
        data[at] = byte;
        from_there(ONE, 0, &data, false)
    };
    for (why, frame) in [
        ("no number", changed(0, 0)),
        ("another flag", changed(0, 0x88)),
        ("what is reserved", changed(3, 1)),
        ("what is reserved behind the number", changed(7, 1)),
        ("another number", changed(4, 0x13)),
        ("another host's", changed(8, 6)),
        ("a group's", changed(8, 3)),
        ("from a group", changed(14, 3)),
        ("ARP", changed(21, 6)),
        ("the wrong family", from_there(ONE, 0, &[&right[..22], &home6(9)].concat(), false)),
        ("half a header", from_there(ONE, 0, &right[..41], false)),
        ("nothing in it", from_there(ONE, 0, &right[..22], false)),
        ("its own frame", from_there(ONE, 0, &inside(&home(64, 0), OWN, OWN), false)),
        ("congestion that cannot be told", from_there(ONE, 3, &right, false)),
        ("no sum over IPv6", from_there(SIX, 0, &right, false)),
    ] {
        is_linuxs(&mut rig, &frame, why);
    }
    for id in [ONE, SIX] {
        let mut frame = from_there(id, 0, &right, true);
        *frame.last_mut().unwrap() ^= 1;
        is_linuxs(&mut rig, &frame, "a wrong sum");
        let upper = if id == ONE { 34 } else { 54 };
        let mut frame = from_there(id, 0, &right, true);
        frame[upper + 5] -= 1;
        is_linuxs(&mut rig, &frame, "shorter than IP says");
        let mut frame = from_there(id, 0, &right, true);
        frame[upper + 3] += 1;
        is_linuxs(&mut rig, &frame, "another port");
    }
    // From another end, which this link may have as well.
    let mut frame = from_there(ONE, 0, &right, false);
    frame[29] = 8;
    let sum = u16::from_be_bytes([frame[24], frame[25]]) - 1;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    is_linuxs(&mut rig, &frame, "another end");
    set(&mut rig, SIX, Vxlan { unsummed: true, ..PLAIN });
    assert_eq!(rig.run(2, &[from_there(SIX, 0, &right, false)]).sent.len(), 1, "none is needed");
}

#[test]
fn linux_learns_of_hosts_that_it_does_not_know() {
    let mut rig = rig(Vxlan { learns: true, ..PLAIN });
    let frame = from_there(ONE, 0, &inside(&home(64, 0), OWN, HOST), false);
    is_linuxs(&mut rig, &frame, "nobody knows the host");
    assert!(rig.tables.know_host(SIX, HOST, true));
    is_linuxs(&mut rig, &frame, "it is known behind another end");
    assert!(rig.tables.know_host(ONE, HOST, true));
    assert_eq!(rig.run(2, std::slice::from_ref(&frame)).sent.len(), 1);
    assert!(rig.tables.know_host(ONE, HOST, false));
    is_linuxs(&mut rig, &frame, "it is forgotten");
}

#[test]
fn what_goes_back_by_the_link_that_it_came_by_is_linuxs_to_tell() {
    let mut rig = rig(PLAIN);
    let packet = udp4(ipv4::Repr::new([172, 16, 20, 5].into(), [172, 16, 20, 9].into()), 20);
    let frame = from_there(ONE, 0, &inside(&packet, OWN, HOST), false);
    let outcome = rig.run(2, &[frame.clone(), frame]);
    // The first one is handed over as the frame that it is in the link.
    assert_eq!((outcome.sent.len(), outcome.punted.len()), (1, 1), "{:?}", rig.reasons());
    assert_eq!(outcome.punted[0].0, [&OWN[..], &HOST, &[8, 0], &packet].concat());
}

/// Whatever stands in a VXLAN or in front of it: the short way and the elements do the same, and no
/// packet is lost without a reason.
#[test]
fn any_bytes_in_vxlans_are_forwarded_dropped_or_linuxs() {
    let mut rig = rig(PLAIN);
    let mut chance = Random(11);
    let mut below = |n: usize| chance.below(n);
    let (mut forwarded, mut linux) = (0, 0);
    for round in 0..400 {
        let frames: Vec<Vec<u8>> = (0..40)
            .map(|_| {
                let inner = if below(2) == 0 { home(below(3) as u8 + 1, below(4) as u8) } else { home6(2) };
                let mut data = inside(&inner, OWN, HOST);
                for _ in 0..below(3) {
                    let at = below(data.len().min(48));
                    data[at] ^= 1 << below(8);
                }
                if below(3) == 0 {
                    data.truncate(below(data.len()));
                }
                let id = if below(2) == 0 { ONE } else { SIX };
                let mut frame = from_there(id, below(4) as u8, &data, below(2) == 0);
                if below(4) == 0 {
                    let at = 34 + below(frame.len() - 34);
                    frame[at] ^= 1 << below(8);
                }
                frame
            })
            .collect();
        let before = rig.dropped();
        let outcome = rig.run(2, &frames);
        let lost = rig.dropped() - before;
        assert!(outcome.sent.len() + outcome.punted.len() + lost as usize >= frames.len(), "round {round}");
        forwarded += outcome.sent.len();
        linux += outcome.punted.len();
    }
    assert!(forwarded > 1500 && linux > 2000, "{forwarded} {linux}");
    assert!(rig.reasons().iter().all(|(reason, _)| *reason != Reason::PortDown));
}
