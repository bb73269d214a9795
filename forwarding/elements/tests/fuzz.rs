//! Random, mutated and truncated packets by the hundred thousand through the whole graph: no panic,
//! every packet accounted for, no packet memory lost.

mod rig;

use chance::Random;
use fib::{InterfaceFlags, NextHop, Path};
use rig::{Rig, frame, to4, to6, udp4, udp6};
use wire::{ipv4, ipv6};

const DESTINATIONS4: [&str; 10] = [
    "198.18.0.1",
    "198.51.100.1",
    "198.51.100.200",
    "192.0.2.1",
    "10.99.2.3",
    "10.99.1.2",
    "10.99.2.1",
    "172.16.0.1",
    "100.64.0.1",
    "203.0.113.1",
];
const DESTINATIONS6: [&str; 8] = [
    "2001:db8:f::1",
    "2001:db8:dead:1::1",
    "2001:db8:dead:2::1",
    "2001:db8:dead:3::1",
    "2001:db8:2::3",
    "2001:db8:1::2",
    "2001:db8:1::1",
    "2001:dead::1",
];

fn some_frame(random: &mut Random) -> Vec<u8> {
    let data = [0, 8, 100, 1372, 1400, 3000][random.below(6)];
    let ttl = [0, 1, 2, 64, 255][random.below(5)];
    let protocol = [17, 6, 1, 58, 0, 43, 44, 51, 60][random.below(9)];
    let packet = if random.one_in(2) {
        let fragment =
            [0, ipv4::DONT_FRAGMENT, ipv4::MORE_FRAGMENTS, 0x1fff, 0x2001, 0x8000][random.below(6)];
        udp4(ipv4::Repr { ttl, protocol, fragment, ..to4(DESTINATIONS4[random.below(10)]) }, data)
    } else {
        udp6(
            ipv6::Repr { hop_limit: ttl, next_header: protocol, ..to6(DESTINATIONS6[random.below(8)]) },
            data,
        )
    };
    let mut frame = frame(&packet);
    if random.one_in(3) {
        for _ in 0..1 + random.below(4) {
            let at =
                if random.one_in(2) { random.below(54.min(frame.len())) } else { random.below(frame.len()) };
            frame[at] = random.next() as u8;
        }
    }
    if random.one_in(4) && frame[14] >> 4 == 4 {
        // Whatever the mutation made, let it pass the checksum.
        let header = (usize::from(frame[14] & 15) * 4).min(frame.len() - 14);
        if header >= 12 {
            frame[24..26].fill(0);
            let sum = wire::checksum::of(&frame[14..14 + header]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
    }
    if random.one_in(8) {
        // As short packets are on the wire.
        frame.extend(vec![0xee; 1 + random.below(20)]);
    }
    if random.one_in(8) {
        frame.truncate(random.below(frame.len() + 1));
    }
    if random.one_in(20) {
        let length = random.below(200);
        frame = (0..length).map(|_| random.next() as u8).collect();
    }
    frame
}

/// The rig compares.
#[test]
fn the_short_way_and_the_long_come_to_the_same() {
    let mut rig = Rig::new();
    let paths = [rig.a, rig.b].map(|adjacency| Path { adjacency, weight: 1 }).to_vec();
    let both = rig.next_hop(&NextHop::Forward(paths));
    rig.tables.insert4("100.64.0.0/10".parse().unwrap(), both).unwrap();
    let mut random = Random(0x0f0f_1234_5678_9abc);
    for round in 0..4000 {
        match round {
            2000 => rig.set_flags(1, InterfaceFlags::RPF4_STRICT),
            3000 => rig.set_flags(1, InterfaceFlags::RPF6_LOOSE),
            _ => {}
        }
        let mut frames: Vec<_> = (0..1 + random.below(64)).map(|_| some_frame(&mut random)).collect();
        if random.one_in(4) {
            // Most batches are plain packets all, or all but one.
            let odd = frames.pop();
            let plain = |n: usize| frame(&udp4(to4("198.18.0.1"), 100 + n));
            frames = (0..64).map(plain).collect();
            frames[random.below(64)] = odd.filter(|_| random.one_in(2)).unwrap_or_else(|| plain(64));
        }
        rig.run(1, &frames);
    }
    assert!(rig.short() > 30_000, "{} took the short way", rig.short());
}

#[test]
fn every_packet_is_sent_dropped_or_left_to_linux() {
    let mut rig = Rig::with_icmp(elements::router::IcmpSettings::default());
    let paths = [rig.a, rig.b].map(|adjacency| Path { adjacency, weight: 1 }).to_vec();
    let both = rig.next_hop(&NextHop::Forward(paths));
    rig.tables.insert4("100.64.0.0/10".parse().unwrap(), both).unwrap();
    let mut random = Random(0x1234_5678_9abc_def1);
    let (mut given, mut forwarded, mut punted) = (0, 0, 0);
    let mut answers = 0;
    for round in 0..5000 {
        match round {
            2000 => rig.set_flags(1, InterfaceFlags::RPF4_STRICT | InterfaceFlags::RPF6_LOOSE),
            3000 => rig.set_flags(1, InterfaceFlags::RPF4_LOOSE | InterfaceFlags::RPF6_STRICT),
            _ => {}
        }
        let frames: Vec<_> = (0..1 + random.below(64)).map(|_| some_frame(&mut random)).collect();
        given += frames.len() as u64;
        let outcome = rig.run(1, &frames);
        punted += outcome.punted.len() as u64;
        for (frame, _) in &outcome.punted {
            assert!(
                frames.iter().any(|given| given.starts_with(frame)),
                "handed over as it came, padding aside"
            );
        }
        for (_, frame) in &outcome.sent {
            let ip = &frame[14..];
            let answer = ip[0] >> 4 == 4 && ip[12..16] == [10, 99, 1, 1]
                || ip[0] >> 4 == 6
                    && ip[8..24] == "2001:db8:1::1".parse::<std::net::Ipv6Addr>().unwrap().octets();
            let later_fragment = ip[0] >> 4 == 4 && is_later(ip, &frames);
            answers += u64::from(answer);
            forwarded += u64::from(!answer && !later_fragment);
        }
        assert_eq!(port::pool::available(), rig::CHUNKS);
    }
    assert!(given > 100_000 && forwarded > 10_000 && punted > 10_000 && answers > 50);
    assert_eq!(given, forwarded + punted + rig.dropped(), "{:?}", rig.reasons());
}

/// Whether a packet sent is a fragment that was made here, and not the first.
fn is_later(ip: &[u8], frames: &[Vec<u8>]) -> bool {
    let offset = |ip: &[u8]| (u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff) as usize;
    // A packet given at this very offset was forwarded (or is the first fragment of one); otherwise
    // it was made here.
    let (id, addresses) = (&ip[4..6], &ip[12..20]);
    !frames.iter().filter(|given| given.len() >= 34 && given[14] >> 4 == 4).any(|given| {
        let given = &given[14..];
        &given[4..6] == id && &given[12..20] == addresses && offset(given) == offset(ip) && given[9] == ip[9]
    })
}
