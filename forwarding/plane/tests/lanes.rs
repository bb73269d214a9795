//! The express lane, the worker lane and Linux agree on every packet.
//!
//! ```text
//! hosts 10.96.0.0/16, 2001:db8:1::2 --- r0 (.1, ::1)  router  r1 (.1, ::1), MTU 1400 --- host B 10.99.2.2, 2001:db8:2::2
//! ```
//!
//! Thousands of generated frames, each through all three: the driver's program by
//! BPF_PROG_TEST_RUN, the worker's graph by a packet tracer, and Linux, on the same addresses and
//! routes, by real frames on real interfaces. What must agree is the verdict, the out port and the
//! bytes. A marker sent behind each frame tells when Linux is through with it. Linux limits
//! unreachables by the address that they go to (redirects use up the same allowance), so two
//! thousand hosts send, and redirects are off.
//!
//! Not compared: the identification of IPv4 answers, the flow label of IPv6 answers, and the
//! checksum over the former. Left out, because Bifrost keeps to the RFC where Linux does not:
//! destination `::`, and martian IPv6 sources of what leaves by the port it came from.

#[path = "../../port/tests/rig/mod.rs"]
mod rig;

use std::net::{Ipv4Addr, Ipv6Addr};

use chance::Random;
use elements::router::standard::{self, Hooks, Stages};
use elements::router::{RouterContext, Sources};
use fib::{
    Adjacency, Capacity, InterfaceEntry, InterfaceFlags, Locality, NextHop, Path, PortId, TableId, Tables,
};
use plane::packet_tracer::{What, trace_packet};
use port::{Driver, Lane};
use rig::{HOST_MAC, ROUTER_MAC, Rig, Wire, checksum, frame};
use wire::{Class, Reason};

const IN: PortId = PortId(0);
const OUT: PortId = PortId(1);
const CASES: usize = 8000;

const HOSTS: usize = 2000;

fn host(number: usize) -> [u8; 4] {
    [10, 96, 1 + (number / 256) as u8, number as u8]
}

/// Addresses, neighbours and routes as Linux has them.
fn linux(rig: &Rig) {
    let router = &rig.router;
    router.exec(
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0 \
         net.ipv4.icmp_ratemask=0 net.ipv4.icmp_msgs_per_sec=1000000 net.ipv4.icmp_msgs_burst=1000000 \
         net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.r0.send_redirects=0 \
         net.ipv6.icmp.ratelimit=0 net.ipv4.conf.r0.rp_filter=0 net.ipv4.conf.r1.rp_filter=0 \
         net.ipv6.conf.r0.disable_ipv6=0 net.ipv6.conf.r1.disable_ipv6=0",
    );
    router.ip("link set r1 mtu 1400");
    for i in 0..2 {
        // Frame after frame in the order they were sent, each by itself.
        router.exec(&format!("ethtool -K r{i} gro off"));
        router.ip(&format!("addr add 2001:db8:{}::1/64 dev r{i} nodad", i + 1));
    }
    router.ip("addr add 10.96.0.1/16 dev r0");
    router.ip("addr add 10.99.2.1/24 dev r1");
    let mut neighbours =
        vec![("10.99.2.2".to_string(), 1), ("2001:db8:2::2".into(), 1), ("2001:db8:1::2".into(), 0)];
    neighbours.extend((0..HOSTS).map(|number| (Ipv4Addr::from(host(number)).to_string(), 0)));
    let line =
        |(host, i)| format!("neigh replace {host} lladdr 02:00:00:00:02:0{i} nud permanent dev r{i}\n");
    let batch: String = neighbours.into_iter().map(line).collect();
    let file = format!("/tmp/{}.batch", router.0);
    std::fs::write(&file, batch).unwrap();
    router.ip(&format!("-batch {file}"));
    std::fs::remove_file(file).unwrap();
    for route in [
        "198.18.0.0/15 via 10.99.2.2",
        "240.0.0.0/8 via 10.99.2.2",
        "unreachable 198.51.100.0/25",
        "prohibit 198.51.100.128/25",
        "blackhole 192.0.2.0/25",
        "2001:db8:f::/48 via 2001:db8:2::2",
        "unreachable 2001:db8:dead:1::/64",
        "prohibit 2001:db8:dead:2::/64",
        "blackhole 2001:db8:dead:3::/64",
    ] {
        router.ip(&format!("route add {route}"));
    }
}

/// The same, as Bifrost has it.
fn bifrost(driver: &mut Driver, tables: &mut Tables, sources: &Sources) {
    let flags = InterfaceFlags::UP
        | InterfaceFlags::TARGET
        | InterfaceFlags::QUEUE
        | InterfaceFlags::FORWARD4
        | InterfaceFlags::FORWARD6
        | InterfaceFlags::EXPRESS;
    for (port, mtu) in [(0, 1500), (1, 1400)] {
        let entry = InterfaceEntry::of_port(PortId(port), 1, mtu, ROUTER_MAC[port as usize], flags);
        tables.set_interface(PortId(port).interface(), Some(entry)).unwrap();
        driver.set_target(PortId(port), 1).unwrap();
        let ipv4 = ["10.96.0.1/16", "10.99.2.1/24"][port as usize].parse().unwrap();
        let ipv6 = format!("2001:db8:{}::1/64", port + 1).parse().unwrap();
        sources.set_interface(PortId(port).interface(), TableId::MAIN, vec![ipv4], vec![ipv6]);
    }
    driver.load(IN).unwrap();
    sources.set_local4(["10.96.0.1", "10.99.2.1"].map(|own| (TableId::MAIN, own.parse().unwrap())));
    for local in ["10.96.0.1", "10.99.2.1", "2001:db8:1::1", "2001:db8:2::1"] {
        driver.add_local(local.parse().unwrap(), Locality::MAIN).unwrap();
    }
    let [a, b] = [(IN, 1500), (OUT, 1400)].map(|(port, mtu)| {
        let mac = Some(HOST_MAC[port.0 as usize]);
        let adjacency = tables.add_adjacency(&Adjacency { interface: port.interface(), mtu, mac }).unwrap();
        NextHop::Forward(vec![Path { adjacency, weight: 1 }])
    });
    for (hop, prefixes) in [
        (&a, &["10.96.1.0/24", "10.96.2.0/23", "10.96.4.0/22", "10.96.8.0/24", "2001:db8:1::2/128"][..]),
        (&b, &["10.99.2.2/32", "2001:db8:2::2/128", "198.18.0.0/15", "240.0.0.0/8", "2001:db8:f::/48"]),
        (&NextHop::Local, &["10.96.0.1/32", "10.99.2.1/32", "2001:db8:1::1/128", "2001:db8:2::1/128"]),
        (&NextHop::Glean(IN.interface()), &["10.96.0.0/16", "2001:db8:1::/64"]),
        (&NextHop::Glean(OUT.interface()), &["10.99.2.0/24", "2001:db8:2::/64"]),
        (&NextHop::Unreachable, &["198.51.100.0/25", "2001:db8:dead:1::/64"]),
        (&NextHop::Prohibit, &["198.51.100.128/25", "2001:db8:dead:2::/64"]),
        (&NextHop::Blackhole, &["192.0.2.0/25", "2001:db8:dead:3::/64"]),
    ] {
        let id = tables.add_next_hop(hop).unwrap();
        for prefix in prefixes {
            match prefix.parse() {
                Ok(prefix) => tables.insert4(prefix, id).unwrap(),
                Err(_) => tables.insert6(prefix.parse().unwrap(), id).unwrap(),
            };
        }
    }
}

const DESTINATIONS4: [[u8; 4]; 12] = [
    [198, 18, 0, 9],
    [198, 19, 255, 255],
    [240, 1, 2, 3],
    [10, 99, 2, 2],
    [10, 96, 1, 2],
    [10, 99, 2, 1],
    [198, 51, 100, 1],
    [198, 51, 100, 200],
    [192, 0, 2, 1],
    [203, 0, 113, 1],
    [127, 0, 0, 1],
    [255, 255, 255, 255],
];
const SOURCES4: [[u8; 4]; 5] = [[192, 0, 2, 99], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4], [10, 99, 2, 1]];
const DESTINATIONS6: [&str; 9] = [
    "2001:db8:f::9",
    "2001:db8:f:ffff::1",
    "2001:db8:2::2",
    "2001:db8:1::2",
    "2001:db8:2::1",
    "2001:db8:dead:1::1",
    "2001:db8:dead:2::1",
    "2001:db8:dead:3::1",
    "2001:db9::1",
];
const SOURCES6: [&str; 4] = ["2001:db8:1::2", "::", "::1", "ff02::1"];
/// Bytes above the IP header, around both MTUs.
const SIZES: [usize; 9] = [0, 1, 8, 20, 100, 1000, 1352, 1380, 1460];

/// A header of protocol `number`, and behind it `size` bytes in all.
fn upper(random: &mut Random, number: u8, size: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..size).map(|i| i as u8).collect();
    if size >= 8 {
        bytes[0] = random.pick(&[0x30, 0x80]);
        bytes[2..4].copy_from_slice(&[0x82, 0x9a]);
    }
    match number {
        1 if size >= 8 => bytes[..2].copy_from_slice(&[random.pick(&[8, 0, 3, 5, 11, 13]), 0]),
        58 if size >= 8 => bytes[..2].copy_from_slice(&[random.pick(&[128, 129, 1, 3]), 0]),
        _ => {}
    }
    bytes
}

fn packet4(random: &mut Random, number: usize) -> Vec<u8> {
    let size = random.pick(&SIZES) + random.below(2);
    let protocol = random.pick(&[17, 17, 6, 1, 132, 47]);
    let flags = random.pick(&[0u16, 0, 0x4000, 0x4000, 0x2000, 0x2003, 0x0007, 0x8000]);
    let ttl = random.pick(&[64, 64, 64, 255, 2, 1, 0]);
    let source = if random.one_in(8) { random.pick(&SOURCES4) } else { host(number % HOSTS) };
    let destination = if random.one_in(3) { random.pick(&DESTINATIONS4) } else { DESTINATIONS4[0] };
    let mut packet = vec![0x45, random.pick(&[0, 0xb9])];
    packet.extend((20 + size as u16).to_be_bytes());
    packet.extend([0x12, 0x34]);
    packet.extend(flags.to_be_bytes());
    packet.extend([ttl, protocol, 0, 0]);
    packet.extend(source);
    packet.extend(destination);
    if random.one_in(12) {
        let (at, value) = random.pick(&[(0, 0x55), (0, 0x44), (0, 0x65), (3, 7), (2, 0xff), (0, 0x4f)]);
        packet[at] = value;
    }
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    if random.one_in(20) {
        packet[10] ^= 0x10;
    }
    packet.extend(upper(random, protocol, size));
    packet
}

fn packet6(random: &mut Random) -> Vec<u8> {
    let size = random.pick(&SIZES) + random.below(2);
    // What would be less than nothing is the most.
    let size = size.wrapping_sub(20 * usize::from(random.one_in(2))).min(1460);
    let next_header = random.pick(&[17, 17, 6, 58, 132, 59]);
    let hop_limit = random.pick(&[64, 64, 64, 255, 2, 1, 0]);
    let source = if random.one_in(6) { random.pick(&SOURCES6) } else { SOURCES6[0] };
    let mut destination = if random.one_in(2) { random.pick(&DESTINATIONS6) } else { DESTINATIONS6[0] };
    if source != SOURCES6[0] && destination == "2001:db8:1::2" {
        destination = DESTINATIONS6[0];
    }
    let mut packet = vec![0x60, 0, 0, 7];
    packet.extend((size as u16).to_be_bytes());
    packet.extend([next_header, hop_limit]);
    packet.extend(source.parse::<Ipv6Addr>().unwrap().octets());
    packet.extend(destination.parse::<Ipv6Addr>().unwrap().octets());
    if random.one_in(12) {
        let (at, value) = random.pick(&[(0, 0x40), (0, 0x50), (4, 0xff), (5, 3)]);
        packet[at] = value;
    }
    packet.extend(upper(random, next_header, size));
    packet
}

fn generate(random: &mut Random, number: usize) -> Vec<u8> {
    let version4 = random.one_in(2);
    let packet = if version4 { packet4(random, number) } else { packet6(random) };
    let mut frame = frame(if version4 { 0x0800 } else { 0x86dd }, &packet);
    if random.one_in(10) {
        frame.truncate(14 + random.below(frame.len() - 13));
    }
    if frame.len() < 60 && random.one_in(2) {
        frame.resize(60, 0x2a);
    }
    frame
}

/// What left, and by which port: 0 is host A's.
type Sent = Vec<(u16, Vec<u8>)>;

/// Without what is a number of no meaning in an answer (one that goes back to host A).
fn masked((port, mut frame): (u16, Vec<u8>)) -> (u16, Vec<u8>) {
    if port == 0 && frame.len() >= 34 && frame[12..14] == [8, 0] {
        assert_eq!(checksum(&frame[14..34]), 0, "an answer's header checksum is right");
        frame[18..20].fill(0);
        frame[24..26].fill(0);
    } else if port == 0 && frame.len() >= 54 {
        frame[15] &= 0xf0;
        frame[16..18].fill(0);
    }
    (port, frame)
}

const MARKER: [u8; 4] = [198, 18, 77, 77];

/// Neighbour discovery and the like, which Linux says on its own.
fn is_own_talk(frame: &[u8]) -> bool {
    match frame[12..14] {
        [8, 0] => false,
        [0x86, 0xdd] => {
            frame[20] == 0 || frame.len() > 54 && frame[20] == 58 && (130..=143).contains(&frame[54])
        }
        _ => true,
    }
}

/// What Linux does with a frame.
fn by_linux(wires: &[Wire; 2], frame: &[u8], number: u32) -> Sent {
    wires[0].send(frame);
    // A marker for each wire: a packet to forward, and a ping that the router answers.
    wires[0].send(&rig::frame(0x0800, &rig::ipv4(host(0), MARKER, 9, &number.to_be_bytes())));
    wires[0].send(&ping(number));
    let mut sent = Vec::new();
    let is_marker = |port: u16, frame: &[u8]| match port {
        1 => frame.get(30..34) == Some(&MARKER),
        _ => frame[34..].first() == Some(&0) && frame.get(38..42) == Some(&number.to_be_bytes()),
    };
    for port in [1, 0] {
        loop {
            let frame = wires[port as usize].expect("marker", |_| true);
            if frame[12..14] == [8, 0] && is_marker(port, &frame) {
                break;
            }
            sent.push((port, frame));
        }
    }
    sent.retain(|(_, frame)| !is_own_talk(frame));
    sent.into_iter().map(masked).collect()
}

/// An echo request to the router.
fn ping(number: u32) -> Vec<u8> {
    let mut packet = rig::ipv4(host(0), [10, 96, 0, 1], 64, b"");
    packet[9] = 1;
    packet[10..12].fill(0);
    let sum = checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet[20..24].copy_from_slice(&[8, 0, 0, 0]);
    packet[24..28].copy_from_slice(&number.to_be_bytes());
    let sum = checksum(&packet[20..]);
    packet[22..24].copy_from_slice(&sum.to_be_bytes());
    rig::frame(0x0800, &packet)
}

#[test]
fn express_worker_and_linux_agree_on_every_packet() {
    let rig = Rig::new(1);
    linux(&rig);
    let wires = [rig.wire(0), rig.wire(1)];
    rig.router.inside(|| {
        // On one core, what is sent first is forwarded first.
        let mut core = nix::sched::CpuSet::new();
        core.set(0).unwrap();
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &core).unwrap();

        let capacity = Capacity { ipv4: 1000, ipv6: 1000, next_hops: 256 };
        let mut driver = Driver::new(&capacity.sizes()).unwrap();
        let mut tables = Tables::new(capacity, Some(driver.table_memory().unwrap())).unwrap();
        let sources = Sources::new();
        bifrost(&mut driver, &mut tables, &sources);
        let environment = standard::environment(RouterContext::new(tables.view(), sources.clone(), 1));
        let program = standard::program(&Hooks::default(), &Stages::default(), &elements::registry(), &environment).unwrap();

        let mut random = Random(0x2026_1121_b1f0_5701);
        let mut lanes = [0; 5];
        let mut disagreements = Vec::new();
        for number in 0..CASES as u32 {
            let frame = generate(&mut random, number as usize);
            let events = trace_packet(&program, &environment, IN.interface(), &frame, &[IN, OUT]).unwrap();
            let mut sent = Sent::new();
            let (mut dropped, mut left) = (None, None);
            for event in events {
                match event.what {
                    What::Sent(bytes) => sent.push(masked((event.output.0, bytes))),
                    What::Dropped(reason) => dropped = Some(reason),
                    What::Linux(class) => left = Some(class),
                    What::Entered => {}
                }
            }
            let linux = by_linux(&wires, &frame, number);
            let mut complain = |what: String| {
                disagreements.push(format!("number {number}: {what}\n  frame {frame:02x?}\n  worker: {sent:02x?} {dropped:?} {left:?}\n  Linux: {linux:02x?}"));
            };

            if left.is_none() && sent != linux {
                complain("worker and Linux differ".into());
            }
            let run = driver.test_run(IN, &frame).unwrap();
            let lane = Lane::ALL.into_iter().find(|lane| run.counted.lane(*lane).packets == 1).unwrap();
            let class = Class::ALL.into_iter().find(|class| run.counted.passed[*class as usize] == 1);
            let reason = Reason::ALL.into_iter().find(|reason| run.counted.reason(*reason) == 1);
            match (lane, class) {
                (Lane::Express, _) if sent != [(1, run.bytes.clone())] => {
                    complain(format!("express sends {:02x?}", run.bytes));
                }
                (Lane::Drop, _) if dropped != reason || !sent.is_empty() => {
                    complain(format!("express drops: {reason:?}"));
                }
                // Left to Linux, it fares as there, and so does what the worker decides.
                (Lane::Pass, None) if left.is_none() && sent.len() == 1 && sent[0].0 == 1 => {
                    complain("express leaves plain forwarding to the worker".into());
                }
                (Lane::Worker, _) => panic!("there is no socket"),
                _ => {}
            }
            lanes[lane as usize + usize::from(lane == Lane::Pass && class.is_none()) * 2] += 1;
        }
        println!("express, -, Linux, drop, worker: {lanes:?}");
        assert!(
            disagreements.is_empty(),
            "{} of {CASES} frames:\n{}",
            disagreements.len(),
            disagreements.iter().take(12).cloned().collect::<Vec<_>>().join("\n")
        );
        let [express, _, linux, drop, worker] = lanes;
        assert!(express > 1600 && linux > 300 && drop > 1600 && worker > 1600, "{lanes:?}");
    });
}
