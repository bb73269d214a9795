//! The driver's program, frame by frame: every decision of the classifier and the express lane.

mod rig;

use std::net::IpAddr;
use std::time::Duration;

use fib::{Adjacency, Capacity, InterfaceEntry, InterfaceFlags, Locality, NextHop, Path, PortId, Tables};
use port::driver::TestRun;
use port::{Driver, Extra, FlowMatch, Lane, RoutingPeer};
use rig::{HOST_MAC, ROUTER_MAC, checksum, frame, ipv4, ipv6};
use wire::{Class, Reason};

const IN: PortId = PortId(0);
const OUT: PortId = PortId(1);
const MAC: [u8; 6] = HOST_MAC[1];
const SOURCE: [u8; 4] = [10, 0, 0, 5];

fn flags() -> InterfaceFlags {
    InterfaceFlags::UP
        | InterfaceFlags::TARGET
        | InterfaceFlags::FORWARD4
        | InterfaceFlags::FORWARD6
        | InterfaceFlags::EXPRESS
}

/// Port 0 with the program, port 1 to send by; routes for each kind.
struct Bench {
    driver: Driver,
    tables: Tables,
}

impl Bench {
    fn new() -> Bench {
        wire::set_flow_key("what both lanes know");
        let capacity = Capacity { ipv4: 1000, ipv6: 1000, next_hops: 1000 };
        let mut driver = Driver::new(&capacity.sizes()).unwrap();
        let mut tables = Tables::new(capacity, Some(driver.table_memory().unwrap())).unwrap();
        driver.load(IN).unwrap();
        // Any interface will do: nothing is sent in a test run.
        driver.set_target(OUT, port::device::Device::named("lo").unwrap().ifindex).unwrap();
        let mut hops = Vec::new();
        for (port, mtu, mac) in [
            (OUT, 1500, Some(MAC)),
            (OUT, 1500, None),
            (IN, 1500, Some(MAC)),
            (OUT, 1000, Some(MAC)),
            (PortId(2), 1500, Some(MAC)),
        ] {
            let adjacency =
                tables.add_adjacency(&Adjacency { interface: port.interface(), mtu, mac }).unwrap();
            hops.push(NextHop::Forward(vec![Path { adjacency, weight: 1 }]));
        }
        let both = [OUT, PortId(3)].map(|port| {
            let mac = Some([2, 0, 0, 0, 9, port.0 as u8]);
            let adjacency =
                tables.add_adjacency(&Adjacency { interface: port.interface(), mtu: 1500, mac }).unwrap();
            Path { adjacency, weight: 1 }
        });
        driver.set_target(PortId(3), port::device::Device::named("lo").unwrap().ifindex).unwrap();
        hops.extend([
            NextHop::Local,
            NextHop::Glean(OUT.interface()),
            NextHop::Blackhole,
            NextHop::Unreachable,
            NextHop::Prohibit,
            NextHop::Punt,
            NextHop::Forward(both.to_vec()),
        ]);
        // 198.18.n.0/24 and 2001:db8:n::/48 lead to hop n.
        for (n, hop) in hops.iter().enumerate() {
            let id = tables.add_next_hop(hop).unwrap();
            tables.insert4(format!("198.18.{n}.0/24").parse().unwrap(), id).unwrap();
            tables.insert6(format!("2001:db8:{n}::/48").parse().unwrap(), id).unwrap();
            if n == 2 {
                // The way back to the sources.
                tables.insert4("10.0.0.0/8".parse().unwrap(), id).unwrap();
                tables.insert6("2001:db8:aaaa::/48".parse().unwrap(), id).unwrap();
            }
        }
        let mut bench = Bench { driver, tables };
        bench.port(IN, flags());
        bench.port(OUT, flags());
        bench.port(PortId(2), flags() - InterfaceFlags::TARGET);
        bench.port(PortId(3), flags());
        bench
    }

    fn port(&mut self, port: PortId, flags: InterfaceFlags) {
        self.port_of(1 + u32::from(port.0), port, flags);
    }

    /// A port that is, or is a member of, Linux's interface of this index.
    fn port_of(&mut self, ifindex: u32, port: PortId, flags: InterfaceFlags) {
        let mut mac = ROUTER_MAC[0];
        mac[5] = port.0 as u8;
        let entry = InterfaceEntry::of_port(port, ifindex, 1500, mac, flags);
        self.tables.set_interface(port.interface(), Some(entry)).unwrap();
    }

    fn run(&self, frame: &[u8]) -> TestRun {
        self.driver.test_run(IN, frame).unwrap()
    }
}

/// The frame as it must leave: new MACs, one hop less, no padding.
fn forwarded(frame: &[u8], out: u8, mac: [u8; 6]) -> Vec<u8> {
    let mut expected = frame.to_vec();
    expected[..6].copy_from_slice(&mac);
    expected[6..12].copy_from_slice(&ROUTER_MAC[0]);
    expected[11] = out;
    if frame[12] == 8 {
        expected.truncate(14 + u16::from_be_bytes([frame[16], frame[17]]) as usize);
        expected[22] -= 1;
        expected[24..26].fill(0);
        let sum = checksum(&expected[14..34]);
        expected[24..26].copy_from_slice(&sum.to_be_bytes());
    } else {
        expected.truncate(54 + u16::from_be_bytes([frame[18], frame[19]]) as usize);
        expected[21] -= 1;
    }
    expected
}

#[track_caller]
fn assert_lane(run: &TestRun, lane: Lane, what: &str) {
    assert_eq!(run.counted.lane(lane).packets, 1, "{what}: {:?}", run.counted);
    assert_eq!(run.counted.lanes.iter().map(|count| count.packets).sum::<u64>(), 1, "{what}");
}

#[track_caller]
fn assert_express(run: &TestRun, frame: &[u8]) {
    assert_lane(run, Lane::Express, "express");
    assert_eq!(run.action, 4);
    assert_eq!(run.bytes, forwarded(frame, 1, MAC));
}

#[track_caller]
fn assert_dropped(run: &TestRun, frame: &[u8], reason: Reason) {
    assert_lane(run, Lane::Drop, reason.name());
    assert_eq!((run.action, run.counted.reason(reason)), (1, 1), "{reason:?}: {:?}", run.counted);
    assert_eq!(run.bytes, frame);
}

#[track_caller]
fn assert_linux(run: &TestRun, frame: &[u8], class: Class) {
    assert_lane(run, Lane::Pass, class.name());
    assert_eq!((run.action, run.counted.passed[class as usize]), (2, 1), "{class:?}: {:?}", run.counted);
    assert_eq!(run.bytes, frame, "what Linux gets is whole and as it came");
}

/// For the worker; no socket is there, so it is left to Linux without being policed.
#[track_caller]
fn assert_worker(run: &TestRun, frame: &[u8]) {
    assert_lane(run, Lane::Pass, "worker");
    assert_eq!((run.action, run.counted.passed), (2, [0; Class::COUNT]));
    assert_eq!(run.bytes, frame);
}

fn v4(destination: [u8; 4]) -> Vec<u8> {
    frame(0x0800, &ipv4(SOURCE, destination, 64, b"hello"))
}

fn v6(destination: &str) -> Vec<u8> {
    frame(0x86dd, &ipv6("2001:db8:aaaa::5", destination, 64, b"hello"))
}

/// Changes bytes of an IPv4 header and sets its checksum right.
fn edited(frame: &[u8], edits: &[(usize, u8)]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    edits.iter().for_each(|&(at, value)| frame[14 + at] = value);
    frame[24..26].fill(0);
    let header = (usize::from(frame[14] & 15) * 4).clamp(20, frame.len() - 14);
    let sum = checksum(&frame[14..14 + header]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[test]
fn plain_packets_are_forwarded() {
    let mut bench = Bench::new();
    for size in [0, 1, 18, 100, 1400] {
        let packet = frame(0x0800, &ipv4(SOURCE, [198, 18, 0, 9], 64, &vec![7; size]));
        assert_express(&bench.run(&packet), &packet);
        let packet = frame(0x86dd, &ipv6("2001:db8:aaaa::5", "2001:db8:0::9", 64, &vec![7; size]));
        assert_express(&bench.run(&packet), &packet);
    }
    for ttl in [2, 255] {
        let packet = edited(&v4([198, 18, 0, 9]), &[(8, ttl)]);
        assert_express(&bench.run(&packet), &packet);
    }
    assert_eq!(bench.tables.take_used().len(), 1);
    let mut padded = v4([198, 18, 0, 9]);
    padded.resize(60, 0xaa);
    assert_express(&bench.run(&padded), &padded);
}

#[test]
fn transit_is_linuxs_once_nobody_keeps_the_tables_unless_it_depends_on_flows() {
    let mut bench = Bench::new();
    let packets = [v4([198, 18, 0, 9]), v6("2001:db8:0::9")];
    bench.driver.pulse().tables_still(Duration::ZERO);
    packets.iter().for_each(|packet| assert_express(&bench.run(packet), packet));
    bench.driver.pulse().tables(Duration::from_secs(100));
    packets.iter().for_each(|packet| assert_express(&bench.run(packet), packet));
    bench.driver.pulse().tables(Duration::ZERO);
    // The clock of the last tick has come by.
    std::thread::sleep(Duration::from_millis(50));
    packets.iter().for_each(|packet| assert_linux(&bench.run(packet), packet, Class::Transit));
    bench.port(IN, flags() - InterfaceFlags::EXPRESS);
    packets.iter().for_each(|packet| assert_linux(&bench.run(packet), packet, Class::Transit));
    bench.port(IN, flags() | InterfaceFlags::TRACKED);
    packets.iter().for_each(|packet| assert_express(&bench.run(packet), packet));
    assert!(bench.driver.pulse().tables(Duration::from_secs(100)).unwrap() >= Duration::from_millis(50));
    bench.port(IN, flags());
    packets.iter().for_each(|packet| assert_express(&bench.run(packet), packet));
}

#[test]
fn every_checksum_survives_the_decrement() {
    let bench = Bench::new();
    for id in (0..=u16::MAX).step_by(257).chain([0xffff]) {
        let [high, low] = id.to_be_bytes();
        for ttl in [2, 3, 64, 128, 255] {
            let packet = edited(&v4([198, 18, 0, 9]), &[(4, high), (5, low), (8, ttl)]);
            assert_express(&bench.run(&packet), &packet);
        }
    }
}

/// A packet of TCP or UDP with so much data, in a frame, and the same as its sender left it to a
/// NIC.
fn finished_and_partial(destination: &str, protocol: u8, data: usize) -> [Vec<u8>; 2] {
    let (header, field) = if protocol == 6 { (20, 16) } else { (8, 6) };
    let payload: Vec<u8> = (0..header - 8 + data).map(|n| (n * n + data) as u8).collect();
    let mut whole = match destination.parse().unwrap() {
        IpAddr::V4(destination) => frame(0x0800, &ipv4(SOURCE, destination.octets(), 64, &payload)),
        IpAddr::V6(_) => frame(0x86dd, &ipv6("2001:db8:aaaa::5", destination, 64, &payload)),
    };
    let (at, addresses, upper) = if whole[12] == 8 { (23, 26, 34) } else { (20, 22, 54) };
    whole[at] = protocol;
    if whole[12] == 8 {
        whole = edited(&whole, &[]);
    }
    whole[upper + field..][..2].fill(0);
    let length = ((whole.len() - upper) as u32).to_be_bytes();
    let pseudo = [&whole[addresses..upper], &length, &[0, 0, 0, protocol]].concat();
    let mut partial = whole.clone();
    partial[upper + field..][..2].copy_from_slice(&(!checksum(&pseudo)).to_be_bytes());
    let sum = checksum(&[&pseudo, &whole[upper..]].concat());
    whole[upper + field..][..2].copy_from_slice(&sum.to_be_bytes());
    [whole, partial]
}

#[test]
fn partial_checksums_are_finished_on_the_way_out() {
    let mut bench = Bench::new();
    for (destination, most) in [("198.18.0.9", 1460), ("2001:db8:0::9", 1440)] {
        for (protocol, data) in (0..=most).flat_map(|data| [(6, data), (17, data)]) {
            let [whole, partial] = finished_and_partial(destination, protocol, data);
            assert_express(&bench.run(&whole), &whole);
            assert_express(&bench.run(&partial), &partial);
            bench.port(IN, flags() | InterfaceFlags::PARTIAL);
            assert_express(&bench.run(&whole), &whole);
            assert_express(&bench.run(&partial), &whole);
            // What Ethernet's least length asks for is no part of it.
            let mut padded = partial.clone();
            padded.resize(partial.len().max(60), 0xaa);
            assert_express(&bench.run(&padded), &whole);
            // One that is right may look like one that is partial, once in 65,536 packets.
            if whole != partial {
                let mut wrong = whole;
                *wrong.last_mut().unwrap() ^= 0x10;
                assert_express(&bench.run(&wrong), &wrong);
            }
            bench.port(IN, flags());
        }
    }
    bench.port(IN, flags() | InterfaceFlags::PARTIAL);
    for destination in ["198.18.5.9", "2001:db8:5::9"] {
        let [_, partial] = finished_and_partial(destination, 6, 100);
        assert_linux(&bench.run(&partial), &partial, Class::Rest);
    }
    for destination in ["198.18.8.9", "2001:db8:8::9"] {
        let [_, partial] = finished_and_partial(destination, 17, 100);
        assert_worker(&bench.run(&partial), &partial);
    }
}

#[test]
fn every_kind_of_next_hop_has_its_way() {
    let bench = Bench::new();
    for (n, check) in [
        (5, Err(Some(Class::Rest))),       // local
        (1, Err(Some(Class::Unresolved))), // unresolved
        (6, Err(Some(Class::Unresolved))), // glean
        (10, Err(Some(Class::Transit))),   // punt
        (2, Err(None)),                    // out where it came in
        (4, Err(None)),                    // out port is no target
        (8, Err(None)),                    // unreachable
        (9, Err(None)),                    // prohibit
        (200, Err(None)),                  // no route
        (7, Ok(Reason::Blackhole)),
    ] {
        for frame in [v4([198, 18, n, 9]), v6(&format!("2001:db8:{n}::9"))] {
            let run = bench.run(&frame);
            match check {
                Ok(reason) => assert_dropped(&run, &frame, reason),
                Err(Some(class)) => assert_linux(&run, &frame, class),
                Err(None) => assert_worker(&run, &frame),
            }
        }
    }
}

#[test]
fn what_does_not_fit_or_has_no_hops_left_is_the_workers() {
    let bench = Bench::new();
    for packet in [
        edited(&v4([198, 18, 0, 9]), &[(8, 1)]),
        edited(&v4([198, 18, 0, 9]), &[(8, 0)]),
        frame(0x0800, &ipv4(SOURCE, [198, 18, 3, 9], 64, &[0; 973])),
        frame(0x0800, &ipv4(SOURCE, [198, 18, 0, 9], 64, &[0; 1473])),
        frame(0x86dd, &ipv6("2001:db8:aaaa::5", "2001:db8:0::9", 1, b"")),
        frame(0x86dd, &ipv6("2001:db8:aaaa::5", "2001:db8:3::9", 64, &[0; 953])),
    ] {
        assert_worker(&bench.run(&packet), &packet);
    }
    for packet in [
        frame(0x0800, &ipv4(SOURCE, [198, 18, 3, 9], 64, &[0; 972])),
        frame(0x0800, &ipv4(SOURCE, [198, 18, 0, 9], 64, &[0; 1472])),
        frame(0x86dd, &ipv6("2001:db8:aaaa::5", "2001:db8:3::9", 64, &[0; 952])),
    ] {
        assert_express(&bench.run(&packet), &packet);
    }
}

#[test]
fn what_is_malformed_is_dropped_with_its_reason() {
    let bench = Bench::new();
    let good = v4([198, 18, 0, 9]);
    let mut wrong_sum = good.clone();
    wrong_sum[24] ^= 1;
    for (packet, reason) in [
        (good[..33].to_vec(), Reason::Truncated),
        (good[..14].to_vec(), Reason::Truncated),
        (edited(&good, &[(0, 0x65)]), Reason::BadVersion),
        (edited(&good, &[(0, 0x44)]), Reason::BadHeaderLength),
        (edited(&good, &[(0, 0x40)]), Reason::BadHeaderLength),
        (edited(&good, &[(2, 0), (3, 19)]), Reason::BadTotalLength),
        (edited(&good, &[(2, 0), (3, 34)]), Reason::BadTotalLength),
        (edited(&good, &[(2, 0xff), (3, 0xff)]), Reason::BadTotalLength),
        (wrong_sum, Reason::BadChecksum),
        (v6("2001:db8:0::9")[..53].to_vec(), Reason::Truncated),
        (v6("2001:db8:0::9")[..60].to_vec(), Reason::BadTotalLength),
    ] {
        assert_dropped(&bench.run(&packet), &packet, reason);
    }
    let mut version5 = v6("2001:db8:0::9");
    version5[14] = 0x50;
    assert_dropped(&bench.run(&version5), &version5, Reason::BadVersion);
}

#[test]
fn martians_are_dropped() {
    let mut bench = Bench::new();
    bench.driver.add_local("10.9.9.9".parse().unwrap(), Locality::MAIN).unwrap();
    for source in [[127, 0, 0, 1], [0; 4], [224, 0, 0, 1], [255; 4], [10, 9, 9, 9]] {
        let packet = frame(0x0800, &ipv4(source, [198, 18, 0, 9], 64, b""));
        assert_dropped(&bench.run(&packet), &packet, Reason::MartianSource);
    }
    for destination in [[127, 0, 0, 1], [0, 0, 0, 0]] {
        let packet = v4(destination);
        assert_dropped(&bench.run(&packet), &packet, Reason::MartianDestination);
    }
    for source in ["::", "::1", "ff02::1"] {
        let packet = frame(0x86dd, &ipv6(source, "2001:db8:0::9", 64, b""));
        assert_dropped(&bench.run(&packet), &packet, Reason::MartianSource);
    }
    for destination in ["::", "::1"] {
        let packet = v6(destination);
        assert_dropped(&bench.run(&packet), &packet, Reason::MartianDestination);
    }
}

#[test]
fn control_and_what_is_ours_goes_to_linux_in_its_class() {
    let mut bench = Bench::new();
    let ospf = edited(&v4([224, 0, 0, 5]), &[(9, 89)]);
    let icmp = edited(&v4([198, 18, 5, 1]), &[(9, 1)]);
    let bgp = {
        let mut packet = edited(&v4([198, 18, 5, 1]), &[(9, 6)]);
        packet[36..38].copy_from_slice(&179u16.to_be_bytes());
        packet
    };
    let ssh = {
        let mut packet = bgp.clone();
        packet[36..38].copy_from_slice(&22u16.to_be_bytes());
        packet
    };
    let mut other_mac = v4([198, 18, 0, 9]);
    other_mac[5] = 0x77;
    let mut multicast_mac = v4([224, 0, 0, 251]);
    multicast_mac[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, 251]);
    let with_options = {
        let mut packet = ipv4(SOURCE, [198, 18, 0, 9], 64, b"options!");
        packet[0] = 0x46;
        edited(&frame(0x0800, &packet), &[])
    };
    let neighbour = {
        let mut packet = ipv6("fe80::1", "ff02::1:ff00:9", 255, b"");
        packet[6] = 58;
        packet[40] = 135;
        frame(0x86dd, &packet)
    };
    let listener = {
        let mut packet = ipv6("fe80::1", "ff02::16", 1, &[0; 8]);
        packet[6] = 0;
        packet[40..48].copy_from_slice(&[58, 0, 5, 2, 0, 0, 1, 0]);
        packet[48] = 143;
        frame(0x86dd, &packet)
    };
    let hop_by_hop = {
        let mut packet = ipv6("2001:db8:aaaa::5", "2001:db8:0::9", 64, &[0; 8]);
        packet[6] = 0;
        frame(0x86dd, &packet)
    };
    let cases = [
        (frame(0x0806, &[0; 28]), Class::Neighbour),
        (frame(0x88cc, &[0; 28]), Class::Routing),
        (frame(0x8100, &[0; 28]), Class::Routing),
        (ospf, Class::Routing),
        (bgp, Class::Routing),
        (ssh, Class::Management),
        (icmp, Class::Icmp),
        (v4([198, 18, 5, 1]), Class::Rest),
        (v4([255; 4]), Class::Rest),
        (v4([169, 254, 1, 1]), Class::Rest),
        (other_mac, Class::Transit),
        (multicast_mac, Class::Rest),
        (with_options.clone(), Class::Transit),
        (neighbour, Class::Neighbour),
        (listener, Class::Routing),
        (hop_by_hop.clone(), Class::Transit),
        (v6("fe80::5"), Class::Rest),
    ];
    for (packet, class) in &cases {
        assert_linux(&bench.run(packet), packet, *class);
    }
    // On the worker lane the same, but for addresses: there it is the list of local addresses that
    // counts.
    bench.port(IN, flags() - InterfaceFlags::EXPRESS);
    bench.driver.add_local("198.18.5.1".parse().unwrap(), Locality::MAIN).unwrap();
    bench.driver.add_local("2001:db8:5::1".parse().unwrap(), Locality::MAIN).unwrap();
    let known = [with_options, hop_by_hop];
    for (packet, class) in cases.iter().filter(|(packet, _)| !known.contains(packet)) {
        assert_linux(&bench.run(packet), packet, *class);
    }
    // Of options it knows whose they are.
    for packet in &known {
        assert_worker(&bench.run(packet), packet);
    }
    let packet = v6("2001:db8:5::1");
    assert_linux(&bench.run(&packet), &packet, Class::Rest);
    bench.driver.remove_local("2001:db8:5::1".parse().unwrap()).unwrap();
    assert_worker(&bench.run(&packet), &packet);
    let packet = v4([198, 18, 0, 9]);
    assert_worker(&bench.run(&packet), &packet);
}

/// Frames for another link address, of everything by which classes differ, cut short now and then.
fn odd_frame(number: u64) -> Vec<u8> {
    let mut random = chance::Random(number);
    let mut any = |choices: &[u8]| random.pick(choices);
    let protocols = [0, 0, 1, 2, 6, 17, 43, 44, 44, 46, 50, 51, 58, 59, 60, 60, 88, 89, 103, 112, 255];
    let mut upper = Vec::new();
    for _ in 0..any(&[0, 0, 0, 0, 0, 1, 2, 3, 4, 5]) {
        let (next, length) = (any(&protocols), any(&[0, 0, 0, 1, 2, 200]));
        upper.extend([next, length, any(&[0, 0, 0, 5]), any(&[0, 0, 1, 8]), 0, 0, 0, 0]);
        upper.resize(upper.len() + 8 * usize::from(length % 3), 0);
    }
    let ports = [179u16, 646, 520, 521, 3784, 4784, 6784, 22, 53, 161, 67, 1813, 443, 5000];
    let indices: Vec<u8> = (0..ports.len() as u8).collect();
    match any(&[0, 1, 2]) {
        0 => upper.extend([any(&[8, 130, 132, 133, 135, 137, 138, 143]), 0, 0, 0]),
        _ => {
            for _ in 0..2 {
                upper.extend(ports[usize::from(any(&indices))].to_be_bytes());
            }
        }
    }
    upper.extend([0; 8]);
    let ttl = any(&[1, 64, 254, 255]);
    let (ether_type, mut packet) = match any(&[4, 6]) {
        4 => {
            let to: [[u8; 4]; 7] = [
                [198, 18, 0, 9],
                [198, 18, 5, 1],
                [224, 0, 0, 5],
                [224, 0, 1, 1],
                [239, 1, 2, 3],
                [255; 4],
                [169, 254, 3, 3],
            ];
            (0x0800, ipv4(SOURCE, to[usize::from(any(&[0, 1, 2, 3, 4, 5, 6]))], ttl, b""))
        }
        _ => {
            let to = ["2001:db8::9", "2001:db8:5::1", "ff02::5", "ff05::2", "ff0e::1:2", "fe80::1"];
            (0x86dd, ipv6("2001:db8:aaaa::5", to[usize::from(any(&[0, 1, 2, 3, 4, 5]))], ttl, b""))
        }
    };
    let (at, header) = if ether_type == 0x0800 { (9, 20) } else { (6, 40) };
    packet.truncate(header);
    packet.extend(upper);
    packet[at] = if any(&[0, 1]) == 0 { any(&[6, 17, 58]) } else { any(&protocols) };
    if ether_type == 0x0800 {
        packet[0] = any(&[0x45, 0x45, 0x45, 0x46, 0x4f]);
        packet[7] = any(&[0, 0, 0, 9]);
    }
    let mut frame = frame(ether_type, &packet);
    frame[5] = 0x77;
    for _ in 0..any(&[0, 0, 1, 2, 3]) {
        let tag = [[0x81, 0x00], [0x88, 0xa8]][usize::from(any(&[0, 1]))];
        frame.splice(12..12, [tag[0], tag[1], 0, 7]);
    }
    let whole = frame.len();
    frame.truncate(
        if any(&[0, 0, 0, 1]) == 1 { whole - usize::from(any(&indices)) * 3 } else { whole }.max(15),
    );
    frame
}

#[test]
fn odd_frames_have_the_same_class_in_both_lanes() {
    let mut bench = Bench::new();
    let local: [IpAddr; 2] = ["198.18.5.1".parse().unwrap(), "2001:db8:5::1".parse().unwrap()];
    local.iter().for_each(|address| bench.driver.add_local(*address, Locality::MAIN).unwrap());
    let mut seen = [0; Class::COUNT];
    for number in 0..40_000 {
        let frame = odd_frame(number);
        let class = wire::class_of_frame(&frame, Some(&|address| local.contains(&address)));
        let run = bench.run(&frame);
        assert_eq!(run.counted.passed[class as usize], 1, "{class}: {:?} {frame:02x?}", run.counted.passed);
        seen[class as usize] += 1;
    }
    println!("{seen:?}");
    assert!(
        seen.iter().enumerate().all(|(class, count)| *count > 30 || class == Class::Unresolved as usize),
        "{seen:?}"
    );
}

#[test]
fn where_linux_does_not_forward_neither_do_we() {
    let mut bench = Bench::new();
    for express in [InterfaceFlags::EXPRESS, InterfaceFlags::empty()] {
        bench.port(IN, InterfaceFlags::UP | InterfaceFlags::FORWARD6 | express);
        let packet = v4([198, 18, 0, 9]);
        assert_linux(&bench.run(&packet), &packet, Class::Transit);
        bench.port(IN, InterfaceFlags::UP | InterfaceFlags::FORWARD4 | express);
        let packet = v6("2001:db8:0::9");
        assert_linux(&bench.run(&packet), &packet, Class::Transit);
    }
}

#[test]
fn reverse_path_checks_are_strict_or_loose() {
    let mut bench = Bench::new();
    let from = |source: [u8; 4]| frame(0x0800, &ipv4(source, [198, 18, 0, 9], 64, b""));
    let from6 = |source: &str| frame(0x86dd, &ipv6(source, "2001:db8:0::9", 64, b""));
    let (back, elsewhere, nowhere, hole) =
        ([10, 0, 0, 5], [198, 18, 0, 77], [172, 16, 0, 1], [198, 18, 7, 1]);
    bench.port(IN, flags() | InterfaceFlags::RPF4_LOOSE | InterfaceFlags::RPF6_LOOSE);
    for packet in [from(back), from(elsewhere), from6("2001:db8:aaaa::1"), from6("2001:db8:0::77")] {
        assert_express(&bench.run(&packet), &packet);
    }
    for packet in [from(nowhere), from(hole), from6("2001:db9::1"), from6("2001:db8:7::1")] {
        assert_dropped(&bench.run(&packet), &packet, Reason::ReversePath);
    }
    bench.port(IN, flags() | InterfaceFlags::RPF4_STRICT | InterfaceFlags::RPF6_STRICT);
    for packet in [from(back), from6("2001:db8:aaaa::1")] {
        assert_express(&bench.run(&packet), &packet);
    }
    let by_others = [from(elsewhere), from6("2001:db8:0::77"), from([198, 18, 11, 1])];
    for packet in by_others.iter().chain([&from(nowhere)]) {
        assert_dropped(&bench.run(packet), packet, Reason::ReversePath);
    }
    // What leads back by another member of its bond is right, whether or not by one of several
    // paths.
    bench.port_of(1, OUT, flags());
    for packet in &by_others {
        assert_express(&bench.run(packet), packet);
    }
    assert_dropped(&bench.run(&from(nowhere)), &from(nowhere), Reason::ReversePath);
}

#[test]
fn equal_paths_are_chosen_by_the_flow_hash_that_workers_use() {
    let bench = Bench::new();
    let view = bench.tables.view();
    let mut ports = [0; 4];
    for flow in 0..200u32 {
        let source = [10, 1, (flow >> 8) as u8, flow as u8];
        let four = frame(0x0800, &ipv4(source, [198, 18, 11, 9], 64, b"x"));
        let six = frame(0x86dd, &ipv6(&format!("2001:db8:aaaa::{flow:x}"), "2001:db8:11::9", 64, b"x"));
        let hop4 = view.hop(view.lookup4(u32::from_be_bytes([198, 18, 11, 9])));
        let hop6 = view.hop(view.lookup6("2001:db8:11::9".parse::<std::net::Ipv6Addr>().unwrap().to_bits()));
        for (packet, hop) in [(four, hop4), (six, hop6)] {
            let adjacency = view.select(hop, wire::flow_hash(&packet[14..]));
            let out = bench.tables.adjacency(adjacency).unwrap().interface.0 as u8;
            let run = bench.run(&packet);
            assert_eq!(run.bytes, forwarded(&packet, out, [2, 0, 0, 0, 9, out]));
            ports[out as usize] += 1;
        }
    }
    assert!(ports[1] > 120 && ports[3] > 120, "{ports:?}");
}

#[test]
fn diverted_flows_leave_the_express_lane() {
    let mut bench = Bench::new();
    let (four, six) = (v4([198, 18, 0, 9]), v6("2001:db8:0::9"));
    let rule = |source: &str, port| FlowMatch {
        source: Some(source.parse().unwrap()),
        protocol: Some(17),
        destination_port: Some(port),
        input: Some(IN.interface()),
        ..Default::default()
    };
    bench.driver.divert(&[rule("192.0.2.0/24", 0x303a), rule("10.0.0.0/8", 0x303a)]).unwrap();
    assert_worker(&bench.run(&four), &four);
    assert_express(&bench.run(&six), &six);
    bench.driver.divert(&[rule("10.0.0.0/8", 99), rule("2001:db8:aaaa::/48", 0x303a)]).unwrap();
    assert_express(&bench.run(&four), &four);
    assert_worker(&bench.run(&six), &six);
    bench.driver.divert(&[FlowMatch::default()]).unwrap();
    assert_worker(&bench.run(&four), &four);
    assert_worker(&bench.run(&six), &six);
    bench.driver.divert(&[]).unwrap();
    assert_express(&bench.run(&four), &four);
    assert!(bench.driver.divert(&vec![FlowMatch::default(); 9]).is_err());
}

#[test]
fn a_flood_of_one_class_leaves_room_for_the_others() {
    let mut bench = Bench::new();
    let rest = v4([198, 18, 5, 1]);
    let arp = frame(0x0806, &[0; 28]);
    bench.driver.police(Class::Rest, 1, 50);
    bench.driver.police(Class::Neighbour, 1000, 100);
    let mut passed = 0;
    for _ in 0..500 {
        passed += u32::from(bench.run(&rest).action == 2);
    }
    assert!((50..=52).contains(&passed), "{passed}");
    assert_dropped(&bench.run(&rest), &rest, Reason::PolicedRest);
    assert_linux(&bench.run(&arp), &arp, Class::Neighbour);
    let counted = bench.driver.counters(IN).unwrap();
    assert!(counted.policed[Class::Rest as usize] >= 448);
    bench.driver.police(Class::Rest, 0, 0);
    assert_linux(&bench.run(&rest), &rest, Class::Rest);
}

#[test]
fn forged_routing_packets_leave_room_for_peers() {
    let mut bench = Bench::new();
    let bgp = |source: [u8; 4], theirs: u16| {
        let mut packet = edited(&frame(0x0800, &ipv4(source, [198, 18, 5, 1], 64, b"hello")), &[(9, 6)]);
        packet[34..36].copy_from_slice(&theirs.to_be_bytes());
        packet[36..38].copy_from_slice(&179u16.to_be_bytes());
        packet
    };
    let ospf =
        |source: [u8; 4]| edited(&frame(0x0800, &ipv4(source, [224, 0, 0, 5], 1, b"hello")), &[(9, 89)]);
    let peer = [10, 9, 8, 7];
    let known = [
        RoutingPeer::Session { address: peer.into(), theirs: 40_000, ours: 179 },
        RoutingPeer::Address(peer.into()),
        RoutingPeer::Address("2001:db8::7".parse().unwrap()),
    ];
    bench.driver.set_peers(known.into_iter().collect()).unwrap();
    bench.driver.police(Class::Routing, 1, 50);
    let exhaust = |bench: &Bench, packet: &[u8]| {
        (0..100).for_each(|_| drop(bench.run(packet)));
        assert_dropped(&bench.run(packet), packet, Reason::PolicedRouting);
    };
    // Strangers' bucket is empty; that of addresses is not, and then that of sessions is not.
    for stranger in [bgp([10, 9, 8, 6], 40_000), ospf([10, 9, 8, 6])] {
        exhaust(&bench, &stranger);
    }
    assert_linux(&bench.run(&ospf(peer)), &ospf(peer), Class::Routing);
    let six = {
        let mut packet = ipv6("2001:db8::7", "ff02::5", 1, b"hello");
        packet[6] = 89;
        frame(0x86dd, &packet)
    };
    assert_linux(&bench.run(&six), &six, Class::Routing);
    let tagged = [&six[..12], &[0x81, 0, 0, 7], &six[12..]].concat();
    assert_linux(&bench.run(&tagged), &tagged, Class::Routing);
    exhaust(&bench, &bgp(peer, 40_001));
    assert_dropped(&bench.run(&ospf(peer)), &ospf(peer), Reason::PolicedRouting);
    let session = bgp(peer, 40_000);
    assert_linux(&bench.run(&session), &session, Class::Routing);
    // The session is over.
    bench.driver.set_peers(Default::default()).unwrap();
    assert_dropped(&bench.run(&session), &session, Reason::PolicedRouting);
}

#[test]
fn random_and_mutated_frames_are_always_accounted_for() {
    let bench = Bench::new();
    let seeds = [v4([198, 18, 0, 9]), v6("2001:db8:0::9"), v4([198, 18, 5, 1]), frame(0x0806, &[0; 28])];
    let mut random = chance::Random(1);
    let mut random = move || random.next();
    for _ in 0..20_000 {
        let mut frame = seeds[random() as usize % seeds.len()].clone();
        for _ in 0..random() % 4 {
            let at = random() as usize % frame.len();
            frame[at] = random() as u8;
        }
        if random() % 4 == 0 {
            frame.truncate(14 + random() as usize % (frame.len() - 13));
        }
        let run = bench.run(&frame);
        assert_eq!(run.counted.lanes.iter().map(|count| count.packets).sum::<u64>(), 1, "{frame:02x?}");
        match run.action {
            1 => assert_eq!(run.counted.reasons.iter().sum::<u64>(), 1, "{frame:02x?}"),
            2 => assert_eq!(run.bytes, frame),
            4 => assert!(run.bytes[..6] == MAC && run.bytes.len() <= frame.len()),
            other => panic!("action {other} for {frame:02x?}"),
        }
    }
}

#[test]
fn frames_to_a_virtual_router_are_the_interfaces_while_its_lease_holds() {
    let bench = Bench::new();
    let virtual_routers = bench.driver.virtual_routers().unwrap();
    let of_4 = [0, 0, 0x5e, 0, 1, 7];
    let of_6 = [0, 0, 0x5e, 0, 2, 7];
    let to = |mac: [u8; 6], frame: &[u8]| [&mac[..], &frame[6..]].concat();
    let long = Duration::from_secs(60);
    for (mac, other, frame) in [(of_4, of_6, v4([198, 18, 0, 1])), (of_6, of_4, v6("2001:db8::1"))] {
        let elsewhere = to(mac, &frame);
        assert_linux(&bench.run(&elsewhere), &elsewhere, Class::Transit);
        virtual_routers.lease(IN.interface(), mac, long).unwrap();
        assert_express(&bench.run(&elsewhere), &frame);
        // To this machine, it looks as any other: Linux takes nothing that is for another link
        // address.
        let local = if mac == of_4 { v4([198, 18, 5, 1]) } else { v6("2001:db8:5::1") };
        assert_linux(&bench.run(&to(mac, &local)), &local, Class::Rest);
        // Another number, the other family's, or on another interface: nobody's.
        for mac in [other, [0, 0, 0x5e, 0, mac[4], 8], [0, 0, 0x5e, 0, 3, 7]] {
            let frame = to(mac, &frame);
            assert_linux(&bench.run(&frame), &frame, Class::Transit);
        }
        virtual_routers.lease(IN.interface(), mac, Duration::ZERO).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert_linux(&bench.run(&elsewhere), &elsewhere, Class::Transit);
        virtual_routers.lease(OUT.interface(), mac, long).unwrap();
        assert_linux(&bench.run(&elsewhere), &elsewhere, Class::Transit);
        virtual_routers.lease(IN.interface(), mac, long).unwrap();
        virtual_routers.end(IN.interface(), mac).unwrap();
        assert_linux(&bench.run(&elsewhere), &elsewhere, Class::Transit);
        virtual_routers.end(IN.interface(), mac).unwrap();
    }
}

#[test]
fn linux_is_not_asked_for_the_address_of_a_virtual_router() {
    let bench = Bench::new();
    let virtual_routers = bench.driver.virtual_routers().unwrap();
    let ask = |operation: u8, target: u8| {
        let body =
            [&[0, 1, 8, 0, 6, 4, 0, operation][..], &HOST_MAC[0], &SOURCE, &[0; 6], &[10, 0, 0, target]];
        [&[0xff; 6][..], &HOST_MAC[0], &[8, 6], &body.concat()].concat()
    };
    let question = ask(1, 1);
    assert_linux(&bench.run(&question), &question, Class::Neighbour);
    virtual_routers.keep_from_linux(IN.interface(), [10, 0, 0, 1].into(), true).unwrap();
    let run = bench.run(&question);
    assert_lane(&run, Lane::Pass, "as a question to somebody else");
    assert_eq!(run.bytes, [&[0, 0, 0x5e, 0, 1, 0][..], &question[6..]].concat());
    for other in [ask(1, 2), ask(2, 1), question[..40].to_vec()] {
        assert_linux(&bench.run(&other), &other, Class::Neighbour);
    }
    virtual_routers.keep_from_linux(IN.interface(), [10, 0, 0, 1].into(), false).unwrap();
    assert_linux(&bench.run(&question), &question, Class::Neighbour);
    // For a time only, as long as others may not be asked instead.
    virtual_routers.lease_address(IN.interface(), [10, 0, 0, 1].into(), Duration::from_secs(60)).unwrap();
    assert_eq!(bench.run(&question).bytes[..6], [0, 0, 0x5e, 0, 1, 0]);
    virtual_routers.lease_address(IN.interface(), [10, 0, 0, 1].into(), Duration::ZERO).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert_linux(&bench.run(&question), &question, Class::Neighbour);
}

/// A veth does not look again for whom a frame is, but a bridge does: there Linux learns from hosts
/// that send to a virtual router, as from others.
#[test]
fn frames_of_a_veth_to_a_virtual_router_are_a_workers_but_on_a_bridge() {
    let mut bench = Bench::new();
    let (mac, frame) = ([0, 0, 0x5e, 0, 1, 7], v4([198, 18, 0, 1]));
    let elsewhere = [&mac[..], &frame[6..]].concat();
    let virtual_routers = bench.driver.virtual_routers().unwrap();
    virtual_routers.lease(IN.interface(), mac, Duration::from_secs(60)).unwrap();
    bench.port(IN, flags() | InterfaceFlags::PARTIAL);
    assert_worker(&bench.run(&elsewhere), &frame);
    bench.port(IN, flags() | InterfaceFlags::PARTIAL | InterfaceFlags::BRIDGED);
    assert_linux(&bench.run(&elsewhere), &frame, Class::Transit);
    bench.driver.know_sender(IN.interface(), HOST_MAC[0], true).unwrap();
    assert_express(&bench.run(&elsewhere), &frame);
}

#[test]
fn a_bridges_member_has_what_known_hosts_send() {
    let mut bench = Bench::new();
    let (bridge, host) = (flags() | InterfaceFlags::BRIDGED, HOST_MAC[0]);
    bench.port_of(9, IN, bridge);
    for frame in [v4([198, 18, 0, 1]), v6("2001:db8::1")] {
        // Linux learns from it.
        assert_linux(&bench.run(&frame), &frame, Class::Transit);
        bench.driver.know_sender(OUT.interface(), host, true).unwrap();
        bench.driver.know_sender(IN.interface(), HOST_MAC[1], true).unwrap();
        assert_linux(&bench.run(&frame), &frame, Class::Transit);
        bench.driver.know_sender(IN.interface(), host, true).unwrap();
        bench.driver.know_sender(OUT.interface(), host, false).unwrap();
        assert_express(&bench.run(&frame), &frame);
        let other = [&HOST_MAC[1][..], &frame[6..]].concat();
        assert_linux(&bench.run(&other), &other, Class::Transit);
        // Back to the bridge, by whichever member: a worker looks who is to be told.
        bench.port_of(9, OUT, bridge);
        assert_worker(&bench.run(&frame), &frame);
        bench.port_of(8, OUT, bridge);
        assert_express(&bench.run(&frame), &frame);
        bench.port(OUT, flags());
        bench.driver.know_sender(IN.interface(), host, false).unwrap();
        bench.driver.know_sender(IN.interface(), host, false).unwrap();
        assert_linux(&bench.run(&frame), &frame, Class::Transit);
    }
    bench.driver.open(Extra::Strangers).unwrap().unwrap().join().unwrap().unwrap();
    // Where transit depends on flows it is a worker's, from whomever; no lane carries a stranger's.
    for more in [InterfaceFlags::empty(), InterfaceFlags::FLOWS] {
        bench.port_of(9, IN, (bridge - InterfaceFlags::EXPRESS) | InterfaceFlags::TRACKED | more);
        for frame in [v4([198, 18, 0, 1]), v6("2001:db8::1")] {
            assert_worker(&bench.run(&frame), &frame);
            let other = [&HOST_MAC[1][..], &frame[6..]].concat();
            assert_linux(&bench.run(&other), &other, Class::Transit);
            let short = &frame[..30];
            assert_lane(&bench.run(short), Lane::Drop, "half a header");
        }
        let arp = [&frame(0x0806, &[])[..], &[0; 28]].concat();
        assert_linux(&bench.run(&arp), &arp, Class::Neighbour);
    }
    bench.port_of(9, IN, bridge);
    // What is for this machine is policed by its class, whoever sends it.
    let local = v4([198, 18, 5, 1]);
    bench.driver.add_local([198, 18, 5, 1].into(), Locality { main: true, vrf: false }).unwrap();
    assert_linux(&bench.run(&local), &local, Class::Rest);
    bench.driver.know_sender(IN.interface(), host, true).unwrap();
    assert_linux(&bench.run(&local), &local, Class::Rest);
    // On other interfaces nobody is asked for.
    bench.driver.know_sender(IN.interface(), host, false).unwrap();
    bench.port_of(9, IN, flags());
    let frame = v4([198, 18, 0, 1]);
    assert_express(&bench.run(&frame), &frame);
}
