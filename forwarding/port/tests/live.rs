//! The driver's program and the injector among real interfaces, and Linux as the safety net behind
//! them.

mod rig;

use std::process::{Command, Stdio};

use fib::{Adjacency, Capacity, InterfaceEntry, InterfaceFlags, NextHop, Path, PortId, Tables};
use port::device::{
    FeatureWatch, XdpFeatures, clear_offloads, offloads, restore_offloads, set_gro, xdp_features,
};
use port::{Driver, Injector, Lane, Mode, Packet, Pool};
use rig::{HOST_MAC, ROUTER_MAC, Rig, checksum, frame, ipv4, wait};

/// Both ports in the express lane, and 198.18.0.0/15 behind host 1.
fn express(rig: &Rig, mode: Mode) -> (Driver, Tables) {
    let capacity = Capacity { ipv4: 1000, ipv6: 1000, next_hops: 1000 };
    let mut driver = Driver::new(&capacity.sizes()).unwrap();
    let mut tables = Tables::new(capacity, Some(driver.table_memory().unwrap())).unwrap();
    for i in 0..2 {
        let (port, ifindex) = (PortId(i), rig.ifindex(i.into()));
        driver.attach(port, ifindex, mode).unwrap();
        driver.set_target(port, ifindex).unwrap();
        let flags =
            InterfaceFlags::UP | InterfaceFlags::TARGET | InterfaceFlags::FORWARD4 | InterfaceFlags::EXPRESS;
        let entry = InterfaceEntry::of_port(port, ifindex, 1500, ROUTER_MAC[i as usize], flags);
        tables.set_interface(port.interface(), Some(entry)).unwrap();
    }
    let mac = Some(HOST_MAC[1]);
    let adjacency =
        tables.add_adjacency(&Adjacency { interface: fib::InterfaceId(1), mtu: 1500, mac }).unwrap();
    let hop = tables.add_next_hop(&NextHop::Forward(vec![Path { adjacency, weight: 1 }])).unwrap();
    tables.insert4("198.18.0.0/15".parse().unwrap(), hop).unwrap();
    (driver, tables)
}

/// Addresses, neighbours and the same route for Linux.
fn linux_forwards(rig: &Rig) {
    rig.router.exec("sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0");
    for (i, host) in [(0, "10.0.0.2"), (1, "10.0.1.2")] {
        rig.router.ip(&format!("addr add 10.0.{i}.1/24 dev r{i}"));
        rig.router.ip(&format!("neigh replace {host} lladdr 02:00:00:00:02:0{i} dev r{i}"));
    }
    rig.router.ip("route add 198.18.0.0/15 via 10.0.1.2");
}

fn transit(number: u8) -> Vec<u8> {
    frame(0x0800, &ipv4([10, 0, 0, 2], [198, 18, 0, number], 64, &[number; 30]))
}

fn is_transit(number: u8) -> impl Fn(&[u8]) -> bool {
    move |frame| frame.len() > 33 && frame[30..34] == [198, 18, 0, number]
}

#[test]
fn the_express_lane_forwards_between_interfaces() {
    for mode in [Mode::Native, Mode::Generic] {
        let rig = Rig::new(1);
        let wires = [rig.wire(0), rig.wire(1)];
        rig.router.inside(|| {
            let (driver, mut tables) = express(&rig, mode);
            assert_eq!(driver.is_native(PortId(0)), mode == Mode::Native);
            for number in 1..100 {
                wires[0].send(&transit(number));
                let got = wires[1].expect("forwarded packet", is_transit(number));
                assert_eq!(got[..6], HOST_MAC[1]);
                assert_eq!(got[6..12], ROUTER_MAC[1]);
                assert_eq!((got[22], checksum(&got[14..34])), (63, 0));
            }
            assert_eq!(driver.counters(PortId(0)).unwrap().lane(Lane::Express).packets, 99);
            assert_eq!(tables.take_used().len(), 1);
        });
    }
}

#[test]
fn a_veth_is_a_target_only_while_its_peer_polls_and_changes_are_told() {
    let rig = Rig::new(1);
    rig.router.inside(|| {
        let watch = FeatureWatch::new().unwrap();
        let ifindex = rig.ifindex(1);
        let is_target = || xdp_features(ifindex).unwrap().contains(XdpFeatures::REDIRECT_TARGET);
        assert!(is_target());
        let host = &rig.hosts[1];
        host.inside(|| set_gro("h1", false).unwrap());
        assert!(!host.inside(|| offloads("h1").unwrap().gro));
        assert!(!is_target());
        let mut told = None;
        wait("the change to be told", || {
            while let Some((index, features)) = watch.next().unwrap() {
                told = (index == ifindex).then_some(features).or(told);
            }
            told.is_some()
        });
        assert!(!told.unwrap().contains(XdpFeatures::REDIRECT_TARGET));
        host.inside(|| set_gro("h1", true).unwrap());
        assert!(is_target());
    });
}

#[test]
fn another_program_on_the_interface_is_left_alone() {
    let rig = Rig::new(1);
    rig.router.inside(|| {
        let _first = express(&rig, Mode::Native);
        let capacity = Capacity { ipv4: 1000, ipv6: 1000, next_hops: 1000 };
        let mut second = Driver::new(&capacity.sizes()).unwrap();
        let error = second.attach(PortId(0), rig.ifindex(0), Mode::Auto).unwrap_err();
        assert!(error.to_string().contains("another XDP program"), "{error}");
    });
}

/// Not a test by itself: the process that the next one kills.
#[test]
fn owner_to_be_killed() {
    let Ok(ifindexes) = std::env::var("PORT_TEST_OWNER") else { return };
    let capacity = Capacity { ipv4: 1000, ipv6: 1000, next_hops: 1000 };
    let mut driver = Driver::new(&capacity.sizes()).unwrap();
    let _tables = Tables::new(capacity, Some(driver.table_memory().unwrap())).unwrap();
    for (i, ifindex) in ifindexes.split(',').enumerate() {
        driver.attach(PortId(i as u16), ifindex.parse().unwrap(), Mode::Native).unwrap();
    }
    println!("attached");
    std::thread::sleep(std::time::Duration::from_secs(20));
}

#[test]
fn linux_forwards_when_the_owner_is_killed() {
    let rig = Rig::new(1);
    linux_forwards(&rig);
    let wires = [rig.wire(0), rig.wire(1)];
    let mut owner = Command::new("ip")
        .args(["netns", "exec", &rig.router.0])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "owner_to_be_killed"])
        .env("PORT_TEST_OWNER", format!("{},{}", rig.ifindex(0), rig.ifindex(1)))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let attached = || rig.router.ip("link show r1").contains("xdp");
    wait("the owner to attach", attached);
    // Its tables are empty and MACs unknown, so it leaves all to Linux; what counts is that Linux
    // goes on without it.
    owner.kill().unwrap();
    owner.wait().unwrap();
    wait("the program to be gone", || !attached());
    wires[0].send(&transit(77));
    wires[1].expect("packet forwarded by Linux", is_transit(77));
}

fn echo_request() -> Vec<u8> {
    let mut packet = ipv4([10, 0, 0, 2], [10, 0, 0, 1], 64, &[1, 2, 3, 4]);
    packet[9] = 1;
    packet[10..12].fill(0);
    let sum = checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet[20..24].copy_from_slice(&[8, 0, 0, 0]);
    let sum = checksum(&packet[20..]);
    packet[22..24].copy_from_slice(&sum.to_be_bytes());
    frame(0x0800, &packet)
}

#[test]
fn injected_packets_come_in_by_their_true_interface_and_only_once() {
    for mode in [Mode::Native, Mode::Generic] {
        let rig = Rig::new(1);
        linux_forwards(&rig);
        // Strict: a packet from host 0 is believed only if it comes in by r0.
        rig.router.exec("sysctl -qw net.ipv4.conf.all.rp_filter=1");
        let wires = [rig.wire(0), rig.wire(1)];
        rig.router.inside(|| {
            let (driver, _tables) = express(&rig, mode);
            let injector = Injector::open("bifrost0", &driver).unwrap();
            assert_eq!(injector.by_true_interface(), Ok(()));
            Pool::heap(8).install();
            let before = driver.counters(PortId(0)).unwrap();
            injector.inject(rig.ifindex(0), &Packet::new(&echo_request()).unwrap(), false).unwrap();
            let reply = wires[0].expect("echo reply", |frame| frame.len() > 34 && frame[34] == 0);
            assert_eq!(reply[26..34], [10, 0, 0, 1, 10, 0, 0, 2]);
            injector.inject(rig.ifindex(0), &Packet::new(&transit(5)).unwrap(), true).unwrap();
            let got = wires[1].expect("packet forwarded by Linux", is_transit(5));
            assert_eq!((got[6..12].to_vec(), got[22]), (ROUTER_MAC[1].to_vec(), 63));
            let counted = driver.counters(PortId(0)).unwrap().since(&before);
            assert_eq!(
                counted.lanes.map(|count| count.packets),
                [0; 4],
                "{mode:?}: the program saw it again"
            );
            assert!(injector.inject_parts(rig.ifindex(0), &[b"short"]).is_err());
        });
    }
}

#[test]
fn offloads_that_hide_tags_are_cleared_and_restored() {
    let rig = Rig::new(1);
    rig.router.inside(|| {
        // A veth strips none, but has the switch.
        rig.router.exec("ethtool -K r0 rxvlan on");
        let before = clear_offloads("r0").unwrap();
        assert!(before.rx_vlan);
        assert!(!offloads("r0").unwrap().rx_vlan);
        restore_offloads("r0", &before).unwrap();
        assert_eq!(offloads("r0").unwrap(), before);
    });
}

/// To verify a program takes the kernel so long that ports would wait for each other.
#[test]
fn all_ports_run_the_same_programs() {
    let rig = Rig::new(1);
    rig.router.inside(|| {
        let capacity = Capacity { ipv4: 1, ipv6: 1, next_hops: 1 };
        let mut driver = Driver::new(&capacity.sizes()).unwrap();
        driver.prepare().unwrap();
        let mut program = |port: u16, mode: Mode| {
            driver.attach(PortId(port), rig.ifindex(port.into()), mode).unwrap();
            let shown = rig.router.ip(&format!("-d link show r{port}"));
            let (_, id) = shown.split_once("prog/xdp id ").expect("a program");
            id.split_whitespace().next().unwrap().to_owned()
        };
        let native = program(0, Mode::Native);
        assert_eq!(native, program(1, Mode::Native));
        assert_ne!(native, program(1, Mode::Generic), "one for the driver, one for the stack");
    });
}
