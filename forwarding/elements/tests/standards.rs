//! What the standards ask of a router beyond what `linux.rs` compares, one sentence a test.

mod rig;

use fib::{Adjacency, InterfaceFlags, NextHop, Path, PortId};
use port::{Packet, Pool};
use proptest::prelude::*;
use rig::{HOST_A, Rig, frame, to4, to6, udp4, udp6};
use wire::{Class, Mac, Reason, ethernet, ipv4, ipv6, protocol};

fn run(rig: &mut Rig, packet: Vec<u8>) -> rig::Outcome {
    rig.run(1, &[frame(&packet)])
}

#[test]
fn what_only_linux_can_complete_goes_there_untouched() {
    let mut rig = Rig::new();
    let mut options = udp4(to4("198.18.0.1"), 20);
    options[0] = 0x46;
    options[3] += 4;
    options.splice(20..20, [0x94, 4, 0, 0]);
    options[10..12].fill(0);
    let sum = wire::checksum::of(&options[..24]);
    options[10..12].copy_from_slice(&sum.to_be_bytes());
    let hop_by_hop = ipv6::Repr { next_header: protocol::HOP_BY_HOP, ..to6("2001:db8:f::1") };
    let link_local = ipv6::Repr { source: "fe80::1".parse().unwrap(), ..to6("2001:db8:f::1") };
    let cases = [
        ("unresolved neighbour", udp4(to4("10.99.2.3"), 8), Class::Unresolved),
        ("connected network", udp4(to4("10.99.2.77"), 8), Class::Unresolved),
        ("a port that is Linux's", udp4(to4("203.0.113.1"), 8), Class::Transit),
        ("options", options, Class::Transit),
        ("multicast", udp4(to4("239.1.2.3"), 8), Class::Transit),
        ("link-local", udp4(to4("169.254.0.1"), 8), Class::Rest),
        ("this machine", udp4(to4("10.99.2.1"), 8), Class::Rest),
        ("unresolved neighbour 6", udp6(to6("2001:db8:2::3"), 8), Class::Unresolved),
        ("connected network 6", udp6(to6("2001:db8:2::77"), 8), Class::Unresolved),
        (
            "hop-by-hop options",
            [&hop_by_hop.header(8)[..], &[59, 0, 1, 4, 0, 0, 0, 0]].concat(),
            Class::Transit,
        ),
        ("link-local 6", udp6(link_local, 8), Class::Rest),
        ("this machine 6", udp6(to6("2001:db8:1::1"), 8), Class::Rest),
    ];
    for (name, packet, class) in cases {
        let frame = frame(&packet);
        let outcome = rig.run(1, std::slice::from_ref(&frame));
        assert_eq!(outcome, rig::Outcome { sent: vec![], punted: vec![(frame, class)] }, "{name}");
    }
    assert_eq!(rig.dropped(), 0, "{:?}", rig.reasons());
}

#[test]
fn frames_not_addressed_to_the_port_are_linux_s() {
    let mut rig = Rig::new();
    let vrrp = Mac([0, 0, 0x5e, 0, 1, 7]);
    for (destination, ether_type) in
        [(vrrp, ethernet::IPV4), (Mac::BROADCAST, ethernet::ARP), (rig::PORT_1, 0x88cc)]
    {
        let header = ethernet::Repr { destination, source: HOST_A, ether_type };
        let frame = [&header.header()[..], &udp4(to4("198.18.0.1"), 8)].concat();
        let outcome = rig.run(1, std::slice::from_ref(&frame));
        assert_eq!((outcome.sent.len(), &outcome.punted[0].0), (0, &frame));
    }
}

#[test]
fn an_answer_whose_way_back_is_unresolved_is_left_to_linux() {
    let mut rig = Rig::new();
    for source in ["10.99.1.99", "10.99.2.3", "203.0.113.9"] {
        let repr = ipv4::Repr { ttl: 1, source: source.parse().unwrap(), ..to4("198.18.0.1") };
        let frame = frame(&udp4(repr, 8));
        let outcome = rig.run(1, std::slice::from_ref(&frame));
        assert_eq!(outcome.punted, [(frame, Class::Unresolved)], "{source}");
    }
    let nowhere = ipv4::Repr { ttl: 1, source: [172, 16, 0, 1].into(), ..to4("198.18.0.1") };
    assert_eq!(run(&mut rig, udp4(nowhere, 8)), rig::Outcome::default());
    assert_eq!(rig.reasons(), [(Reason::TtlExpired, 1)]);
}

#[test]
fn answers_are_limited_but_path_mtu_discovery_is_not() {
    let mut rig = Rig::with_icmp(elements::router::IcmpSettings::default());
    let expired = frame(&udp4(ipv4::Repr { ttl: 1, ..to4("198.18.0.1") }, 8));
    assert_eq!(rig.run(1, &vec![expired; 64]).sent.len(), 6);
    assert_eq!(rig.reasons(), [(Reason::TtlExpired, 64), (Reason::IcmpLimited, 58)]);
    let big = frame(&udp4(ipv4::Repr { fragment: ipv4::DONT_FRAGMENT, ..to4("198.18.0.1") }, 1400));
    assert_eq!(rig.run(1, &vec![big; 64]).sent.len(), 64);
    let mut rig = Rig::with_icmp(elements::router::IcmpSettings::default());
    let expired = frame(&udp6(ipv6::Repr { hop_limit: 1, ..to6("2001:db8:f::1") }, 8));
    assert_eq!(rig.run(1, &vec![expired; 64]).sent.len(), 6);
}

#[test]
fn forwarding_off_drops_transit_and_nothing_else() {
    let mut rig = Rig::new();
    let mut entry = rig.tables.interface(fib::InterfaceId(1)).unwrap();
    entry.flags = InterfaceFlags::UP | InterfaceFlags::QUEUE;
    rig.tables.set_interface(fib::InterfaceId(1), Some(entry)).unwrap();
    let frames = [
        udp4(to4("198.18.0.1"), 8),
        udp4(to4("172.16.0.1"), 8),
        udp6(to6("2001:db8:f::1"), 8),
        udp4(to4("10.99.1.1"), 8),
    ];
    let outcome = rig.run(1, &frames.map(|packet| frame(&packet)));
    assert_eq!((outcome.sent.len(), outcome.punted.len()), (0, 1));
    assert_eq!(rig.reasons(), [(Reason::ForwardingOff, 3)]);
}

#[test]
fn a_port_that_is_down_leaves_its_packets_to_linux() {
    let mut rig = Rig::new();
    let mut entry = rig.tables.interface(fib::InterfaceId(2)).unwrap();
    entry.flags -= InterfaceFlags::UP;
    rig.tables.set_interface(fib::InterfaceId(2), Some(entry)).unwrap();
    assert_eq!(run(&mut rig, udp4(to4("198.18.0.1"), 8)).punted.len(), 1);
    rig.set_flags(2, InterfaceFlags::empty());
    drop(rig.sinks.close(PortId(2)));
    assert_eq!(run(&mut rig, udp4(to4("198.18.0.1"), 8)), rig::Outcome::default());
    assert_eq!(rig.reasons(), [(Reason::PortDown, 1)]);
}

#[test]
fn strict_and_loose_reverse_path() {
    let from = |source: &str| udp4(ipv4::Repr { source: source.parse().unwrap(), ..to4("198.18.0.1") }, 8);
    let from6 =
        |source: &str| udp6(ipv6::Repr { source: source.parse().unwrap(), ..to6("2001:db8:f::1") }, 8);
    // host A itself; a neighbour on A's network; host B; routed nowhere; unreachable; blackhole
    let sources = ["10.99.1.2", "10.99.1.50", "10.99.2.2", "172.16.0.1", "198.51.100.1", "192.0.2.1"];
    let sources6 = [
        "2001:db8:1::2",
        "2001:db8:1::50",
        "2001:db8:2::2",
        "2001:dead::1",
        "2001:db8:dead:1::1",
        "2001:db8:dead:3::1",
    ];
    let cases = [
        (InterfaceFlags::empty(), [true; 6]),
        (InterfaceFlags::RPF4_STRICT | InterfaceFlags::RPF6_STRICT, [true, true, false, false, false, false]),
        (InterfaceFlags::RPF4_LOOSE | InterfaceFlags::RPF6_LOOSE, [true, true, true, false, false, false]),
    ];
    for (flags, expected) in cases {
        let mut rig = Rig::new();
        rig.set_flags(1, flags);
        let passes = sources.map(|source| !run(&mut rig, from(source)).sent.is_empty());
        assert_eq!(passes, expected, "{flags:?}");
        let passes = sources6.map(|source| !run(&mut rig, from6(source)).sent.is_empty());
        assert_eq!(passes, expected, "{flags:?}");
        let wrong = expected.iter().filter(|passes| !**passes).count() as u64;
        let expected = if wrong == 0 { vec![] } else { vec![(Reason::ReversePath, 2 * wrong)] };
        assert_eq!(rig.reasons(), expected);
    }
}

#[test]
fn strict_reverse_path_accepts_any_of_several_paths() {
    let mut rig = Rig::new();
    rig.set_flags(1, InterfaceFlags::RPF4_STRICT);
    let paths = [rig.a, rig.b].map(|adjacency| Path { adjacency, weight: 1 }).to_vec();
    let both = rig.next_hop(&NextHop::Forward(paths));
    rig.tables.insert4("172.16.0.0/12".parse().unwrap(), both).unwrap();
    let repr = ipv4::Repr { source: [172, 16, 0, 1].into(), ..to4("198.18.0.1") };
    assert_eq!(run(&mut rig, udp4(repr, 8)).sent.len(), 1);
}

#[test]
fn equal_paths_share_the_flows_and_a_flow_keeps_its_path() {
    let mut rig = Rig::new();
    let second = Adjacency { interface: fib::InterfaceId(2), mtu: 1400, mac: Some([2, 0, 0, 0, 0, 0xcc]) };
    let second = rig.tables.add_adjacency(&second).unwrap();
    let paths = vec![Path { adjacency: rig.b, weight: 3 }, Path { adjacency: second, weight: 1 }];
    let both = rig.next_hop(&NextHop::Forward(paths));
    rig.tables.insert4("100.64.0.0/10".parse().unwrap(), both).unwrap();
    rig.tables.insert6("2001:db8:e::/48".parse().unwrap(), both).unwrap();
    let flows4: Vec<_> =
        (0..2000u32).map(|i| frame(&udp4(to4(&format!("100.64.{}.{}", i >> 8, i & 255)), 8))).collect();
    let flows6: Vec<_> = (0..2000u32).map(|i| frame(&udp6(to6(&format!("2001:db8:e::{i:x}")), 8))).collect();
    for flows in [flows4, flows6] {
        let one = rig.run(1, &flows).sent;
        let again = rig.run(1, &flows).sent;
        assert_eq!(one, again);
        let share = one.iter().filter(|(_, frame)| frame[5] == 0xcc).count();
        assert!((400..600).contains(&share), "{share} of 2000 where 500 are expected");
    }
    assert!(rig.tables.take_used().contains(&second));
}

#[test]
fn what_leaves_where_it_came_from_is_forwarded_and_linux_sees_one() {
    let mut rig = Rig::new();
    let back = frame(&udp4(ipv4::Repr { source: [10, 99, 1, 7].into(), ..to4("10.99.1.2") }, 8));
    let outcome = rig.run(1, &vec![back.clone(); 64]);
    assert_eq!((outcome.sent.len(), outcome.punted), (63, vec![(back, Class::Unresolved)]));
    let back =
        frame(&udp6(ipv6::Repr { source: "2001:db8:1::7".parse().unwrap(), ..to6("2001:db8:1::2") }, 8));
    let outcome = rig.run(1, &vec![back.clone(); 64]);
    assert_eq!((outcome.sent.len(), outcome.punted), (63, vec![(back, Class::Unresolved)]));
}

/// A packet whose bytes lie in segments of these sizes, the last taking the rest.
fn chain(bytes: &[u8], sizes: &[usize]) -> Packet {
    let (first, mut rest) = bytes.split_at(sizes[0].min(bytes.len()));
    let mut packet = Packet::new(first).unwrap();
    for (index, size) in sizes.iter().enumerate().skip(1) {
        let size = if index + 1 == sizes.len() { rest.len() } else { (*size).min(rest.len()) };
        let (part, behind) = rest.split_at(size);
        packet.append(Packet::new(part).unwrap()).unwrap();
        rest = behind;
    }
    packet
}

#[test]
fn jumbo_packets_in_several_segments_are_packets_like_others() {
    let mut rig = Rig::new();
    rig.tables
        .set_adjacency(
            rig.b,
            &Adjacency { interface: fib::InterfaceId(2), mtu: 9000, mac: Some(rig::HOST_B.0) },
        )
        .unwrap();
    let jumbo = frame(&udp4(to4("198.18.0.1"), 8000));
    let padded = [&jumbo[..], &[0; 3000]].concat();
    let outcome = rig.run_packets(1, vec![chain(&jumbo, &[2000, 3000, 1]), chain(&padded, &[3500, 3500, 1])]);
    assert_eq!(outcome.sent.len(), 2);
    for (_, sent) in &outcome.sent {
        assert_eq!(sent[34..], jumbo[34..]);
        assert_eq!(sent[22], 63);
    }
    // Cut short inside a later segment; headers not in the first segment.
    let outcome =
        rig.run_packets(1, vec![chain(&jumbo[..6000], &[2000, 3000, 1]), chain(&jumbo, &[30, 3000, 1])]);
    assert_eq!(outcome, rig::Outcome::default());
    assert_eq!(rig.reasons(), [(Reason::Truncated, 1), (Reason::BadTotalLength, 1)]);
    // The quote gathers from all segments.
    let expired = frame(&udp6(ipv6::Repr { hop_limit: 1, ..to6("2001:db8:f::1") }, 3000));
    let outcome = rig.run_packets(1, vec![chain(&expired, &[500, 300, 1])]);
    assert_eq!(outcome.sent[0].1[62..], expired[14..14 + 1232]);
}

/// Puts fragments together (RFC 791), with a look at what each must be.
fn reassemble(fragments: &[(u16, Vec<u8>)], mtu: usize) -> Vec<u8> {
    let mut data = Vec::new();
    for (_, frame) in fragments {
        let ip = ipv4::Packet::parse(&frame[14..]).unwrap();
        assert!(
            ip.checksum_ok() && frame.len() - 14 <= mtu && usize::from(ip.total_len()) == frame.len() - 14
        );
        let at = ip.fragment_offset();
        data.resize(data.len().max(at + ip.payload().len()), 0);
        data[at..at + ip.payload().len()].copy_from_slice(ip.payload());
    }
    data
}

#[test]
fn fragments_reassemble_to_the_packet() {
    let rig = std::cell::RefCell::new(Rig::new());
    proptest!(ProptestConfig::with_cases(1000), |(
        mtu in 68u32..3000, length in 0usize..12_000, first in 1usize..3000, second in 1usize..3000, offset in 0u16..500, more: bool,
    )| {
        let mut rig = rig.borrow_mut();
        let b = rig.b;
        rig.tables.set_adjacency(b, &Adjacency { interface: fib::InterfaceId(2), mtu, mac: Some(rig::HOST_B.0) }).unwrap();
        let flags = if more { ipv4::MORE_FRAGMENTS } else { 0 } | offset;
        let length = if more { length & !7 } else { length };
        let packet = udp4(ipv4::Repr { id: 77, fragment: flags, tos: 0x28, ..to4("198.18.0.1") }, length);
        let frame = frame(&packet);
        let sizes = [first.max(40), second, 3000, 3000, 3000, 3000, 3000, 0];
        let outcome = rig.run_packets(1, vec![chain(&frame, &sizes)]);
        let base = usize::from(offset) * 8;
        let data = reassemble(&outcome.sent, mtu as usize);
        prop_assert_eq!(&data[base..], &packet[20..]);
        let pieces = if packet.len() > mtu as usize { (packet.len() - 20).div_ceil((mtu as usize - 20) & !7) } else { 1 };
        prop_assert_eq!(outcome.sent.len(), pieces);
        for (index, (port, frame)) in outcome.sent.iter().enumerate() {
            let ip = ipv4::Packet::parse(&frame[14..]).unwrap();
            prop_assert_eq!((*port, ip.id(), ip.tos(), ip.ttl()), (2, 77, 0x28, 63));
            prop_assert_eq!(ip.more_fragments(), more || index + 1 < pieces);
        }
        drop(outcome);
        prop_assert_eq!(port::pool::available(), rig::CHUNKS);
    });
}

#[test]
fn without_memory_for_all_fragments_none_is_sent() {
    let mut rig = Rig::new();
    rig.tables
        .set_adjacency(
            rig.b,
            &Adjacency { interface: fib::InterfaceId(2), mtu: 68, mac: Some(rig::HOST_B.0) },
        )
        .unwrap();
    Pool::heap(20).install();
    let packet = frame(&udp4(to4("198.18.0.1"), 1400));
    assert_eq!(rig.run(1, &[packet]), rig::Outcome::default());
    assert_eq!(rig.reasons(), [(Reason::NoBuffer, 1)]);
    assert_eq!(port::pool::available(), 20);
}

/// RFC 1812, 5.2.2 and 5.3.7, as their sentences read.
fn judge(packet: &[u8], given: usize) -> Option<Reason> {
    let u32_at = |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().unwrap());
    if given < 20 {
        return Some(Reason::Truncated);
    }
    if packet[0] >> 4 != 4 {
        return Some(Reason::BadVersion);
    }
    let header = usize::from(packet[0] & 15) * 4;
    if header < 20 || header > given {
        return Some(Reason::BadHeaderLength);
    }
    let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    let sum: u32 = packet[..header].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let checksum_ok = sum != 0 && sum.is_multiple_of(0xffff);
    if header == 20 && !checksum_ok {
        return Some(Reason::BadChecksum);
    }
    if total < header {
        return Some(Reason::BadTotalLength);
    }
    if !checksum_ok {
        return Some(Reason::BadChecksum);
    }
    if total > given {
        return Some(Reason::BadTotalLength);
    }
    let (source, destination) = (u32_at(12).to_be_bytes(), u32_at(16).to_be_bytes());
    let linux = |a: [u8; 4]| (224..240).contains(&a[0]) || a == [255; 4] || a[..2] == [169, 254];
    let never = |a: [u8; 4]| (224..240).contains(&a[0]) || a == [255; 4] || a[0] == 127;
    if never(source)
        || !linux(destination)
            && !linux(source)
            && (source == [0; 4] || [[10, 99, 1, 1], [10, 99, 2, 1]].contains(&source))
    {
        return Some(Reason::MartianSource);
    }
    if !linux(source) && !linux(destination) && (destination == [0; 4] || destination[0] == 127) {
        return Some(Reason::MartianDestination);
    }
    None
}

#[test]
fn header_checks_equal_a_naive_checker() {
    let rig = std::cell::RefCell::new(Rig::new());
    proptest!(ProptestConfig::with_cases(20_000), |(
        source in prop_oneof![Just([10, 99, 1, 2]), Just([10, 99, 2, 1]), Just([0; 4]), Just([0, 0, 0, 1]), Just([127, 0, 0, 1]), Just([224, 0, 0, 1]), Just([255; 4]), Just([169, 254, 1, 1]), any::<[u8; 4]>()],
        destination in prop_oneof![Just([198, 18, 0, 1]), Just([0; 4]), Just([0, 0, 0, 1]), Just([127, 0, 0, 1]), Just([224, 0, 0, 1]), Just([255; 4]), Just([169, 254, 1, 1]), any::<[u8; 4]>()],
        first in prop_oneof![5 => Just(0x45u8), 1 => Just(0x46), 1 => Just(0x4f), 1 => Just(0x44), 1 => Just(0x65), 1 => any::<u8>()],
        total in prop_oneof![5 => Just(48u16), 1 => Just(49), 1 => Just(20), 1 => Just(19), 1 => Just(0), 1 => any::<u16>()],
        right in prop_oneof![4 => Just(true), 1 => Just(false)],
        given in prop_oneof![5 => Just(48usize), 1 => 0usize..48],
    )| {
        let mut packet = udp4(ipv4::Repr::new(source.into(), destination.into()), 20);
        packet[0] = first;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        packet[10..12].fill(0);
        let header = (usize::from(first & 15) * 4).clamp(20, 48);
        let sum = wire::checksum::of(&packet[..header]) ^ u16::from(!right);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        let mut rig = rig.borrow_mut();
        let before = rig.reasons();
        let mut frame = frame(&packet)[..14 + given].to_vec();
        frame[12..14].copy_from_slice(&ethernet::IPV4.to_be_bytes());
        let outcome = rig.run(1, &[frame.clone()]);
        let expected = judge(&packet, given);
        let header_reasons = [Reason::Truncated, Reason::BadVersion, Reason::BadHeaderLength, Reason::BadTotalLength, Reason::BadChecksum, Reason::MartianSource, Reason::MartianDestination];
        let counted = |reason| (reason, before.iter().find(|(r, _)| *r == reason).map_or(0, |(_, n)| *n) + 1);
        let found = rig.reasons().into_iter().find(|&(reason, n)| header_reasons.contains(&reason) && counted(reason) == (reason, n));
        let found = found.map(|(reason, _)| reason);
        prop_assert_eq!(found, expected, "{:02x?} {:?}", frame, outcome);
    });
}
