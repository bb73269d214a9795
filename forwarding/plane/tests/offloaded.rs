//! Flows that are decided are offloaded to the driver, exactly as a worker would send them, until
//! something about them changes.
//!
//! ```text
//! host 10.0.0.2, 2001:db8:1::2 --- r0  router  r1 203.0.113.1, 2001:db8:2::1 --- 198.18.0.0/15, 2001:db8:f::/48
//! ```
//!
//! A whole plane on a veth pair. Each packet of interest crosses twice: offloaded in the driver,
//! and, while all packets are diverted, by way of the worker. The two must be equal byte for byte.

mod one_worker;
#[path = "../../port/tests/rig/mod.rs"]
mod rig;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use fib::{Adjacency, NextHop, Path, PortId, Tables};
use flow::{Account, End as Ended, Phase, Settings, Timeouts};
use one_worker::interface;
use plane::{Interface, Plane, PolicySettings, PortSettings};
use port::{FlowMatch, Lane};
use rig::{HOST_MAC, ROUTER_MAC, Rig, Wire, checksum, wait};
use rules::{Filter, RuleId};

const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
const FIN: u8 = 1;

const STATEFUL: &str =
    "chain forward policy drop\ndrop state invalid\naccept state established,related\naccept in r0\n";
const MASQUERADE: &str = r#"{ "rule": [{ "name": "m", "type": "masquerade", "out": "r1" }] }"#;

fn filter(text: &str) -> Filter {
    Filter::read("test", text, &mut |_| Err(std::io::ErrorKind::NotFound.into())).unwrap()
}

/// One end of a flow, as the other sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    address: IpAddr,
    port: u16,
}

fn end(address: &str, port: u16) -> End {
    End { address: address.parse().unwrap(), port }
}

/// A segment's fields.
#[derive(Clone, Copy, Debug)]
struct Tcp {
    sequence: u32,
    ack: u32,
    flags: u8,
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// A packet with right checksums.
fn packet(from: End, to: End, tcp: Option<Tcp>, payload: &[u8]) -> Vec<u8> {
    let mut upper = [from.port.to_be_bytes(), to.port.to_be_bytes()].concat();
    let (protocol, at) = match tcp {
        Some(tcp) => {
            upper.extend(tcp.sequence.to_be_bytes());
            upper.extend(tcp.ack.to_be_bytes());
            upper.extend([0x50, tcp.flags, 0x20, 0, 0, 0, 0, 0]);
            (6, 16)
        }
        None => {
            upper.extend((8 + payload.len() as u16).to_be_bytes());
            upper.extend([0, 0]);
            (17, 6)
        }
    };
    upper.extend(payload);
    let mut pseudo = [octets(from.address), octets(to.address)].concat();
    pseudo.extend((upper.len() as u32).to_be_bytes());
    pseudo.extend([0, 0, 0, protocol]);
    let sum = checksum(&[pseudo, upper.clone()].concat());
    upper[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    let mut packet = match from.address {
        IpAddr::V4(_) => {
            let length = (20 + upper.len() as u16).to_be_bytes();
            vec![0x45, 0, length[0], length[1], 0x12, 0x34, 0x40, 0, 64, protocol, 0, 0]
        }
        IpAddr::V6(_) => {
            let length = (upper.len() as u16).to_be_bytes();
            vec![0x60, 0, 0, 0, length[0], length[1], protocol, 64]
        }
    };
    packet.extend(octets(from.address));
    packet.extend(octets(to.address));
    if from.address.is_ipv4() {
        let sum = checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    packet.extend(upper);
    packet
}

/// The pseudo-header of a packet, its protocol, and where that begins.
fn pseudo_header(packet: &[u8]) -> (Vec<u8>, u8, usize) {
    let (from, to) = ends(packet);
    let (protocol, upper) = if packet[0] >> 4 == 4 { (packet[9], 20) } else { (packet[6], 40) };
    let mut pseudo = [octets(from.address), octets(to.address)].concat();
    pseudo.extend(((packet.len() - upper) as u32).to_be_bytes());
    pseudo.extend([0, 0, 0, protocol]);
    (pseudo, protocol, upper)
}

/// The packet as its sender leaves it to a NIC.
fn partial(packet: &[u8]) -> Vec<u8> {
    let (pseudo, protocol, upper) = pseudo_header(packet);
    let field = upper + if protocol == 6 { 16 } else { 6 };
    let mut partial = packet.to_vec();
    partial[field..field + 2].copy_from_slice(&(!checksum(&pseudo)).to_be_bytes());
    partial
}

/// Where a packet comes from and where it goes.
fn ends(packet: &[u8]) -> (End, End) {
    let (addresses, size, upper) = if packet[0] >> 4 == 4 { (12, 4, 20) } else { (8, 16, 40) };
    let end = |which: usize| {
        let bytes = &packet[addresses + which * size..][..size];
        let address = match <[u8; 4]>::try_from(bytes) {
            Ok(bytes) => IpAddr::from(bytes),
            Err(_) => IpAddr::from(<[u8; 16]>::try_from(bytes).unwrap()),
        };
        let port = &packet[upper + which * 2..][..2];
        End { address, port: u16::from_be_bytes([port[0], port[1]]) }
    };
    (end(0), end(1))
}

/// Whether the checksums of a packet hold.
fn holds(packet: &[u8]) -> bool {
    let (pseudo, _, upper) = pseudo_header(packet);
    let header = packet[0] >> 4 == 6 || checksum(&packet[..20]) == 0;
    header && checksum(&[&pseudo, &packet[upper..]].concat()) == 0
}

struct Net<'a> {
    plane: Plane,
    tables: Tables,
    wires: &'a [Wire; 2],
    /// What was sent through the flow of interest that way and arrived: packets and bytes.
    sent: [(u64, u64); 2],
}

impl Net<'_> {
    fn start<'a>(rig: &Rig, wires: &'a [Wire; 2], policy: PolicySettings) -> Net<'a> {
        let (mut plane, mut tables) = one_worker::start(PolicySettings { offload: true, ..policy });
        for i in 0..2u16 {
            let id = plane.expect(&format!("r{i}"), PortSettings::default()).unwrap();
            let interface = Interface { rp_filter: 1, ..interface(rig, i.into()) };
            assert!(plane.take(id, interface, &mut tables));
            let mac = Some(HOST_MAC[usize::from(i)]);
            let adjacency = tables
                .add_adjacency(&Adjacency { interface: PortId(i).interface(), mtu: 1500, mac })
                .unwrap();
            let hop = tables.add_next_hop(&NextHop::Forward(vec![Path { adjacency, weight: 1 }])).unwrap();
            let (net4, net6) =
                [("10.0.0.0/24", "2001:db8:1::/64"), ("198.18.0.0/15", "2001:db8:f::/48")][usize::from(i)];
            tables.insert4(net4.parse().unwrap(), hop).unwrap();
            tables.insert6(net6.parse().unwrap(), hop).unwrap();
        }
        let outside: Vec<IpAddr> = ["203.0.113.1", "2001:db8:2::1"].map(|a| a.parse().unwrap()).to_vec();
        plane.translate(|name| if name == "r1" { outside.clone() } else { Vec::new() });
        let mut net = Net { plane, tables, wires, sent: Default::default() };
        wait("both ports to be targets of the express lane", || {
            net.plane.supervise(&mut net.tables);
            net.plane.ports().iter().all(|port| port.target && port.lane().unwrap().flows)
        });
        net
    }

    /// Packets by lane, of both ports: offloaded, for the worker.
    fn lanes(&self) -> (u64, u64) {
        let counters: Vec<_> =
            self.plane.ports().iter().map(|port| self.plane.driver_counters(port)).collect();
        let sum = |lane| counters.iter().map(|counters| counters.lane(lane).packets).sum();
        (sum(Lane::Express), sum(Lane::Worker))
    }

    fn send(&self, side: usize, packet: &[u8]) {
        let kind = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        self.wires[side].send(&[&ROUTER_MAC[side][..], &HOST_MAC[side], &kind, packet].concat());
    }

    /// Sends a packet that way, and gives what arrives, without its Ethernet header, and whether it
    /// was offloaded.
    fn cross(&mut self, side: usize, packet: &[u8]) -> (Vec<u8>, bool) {
        let before = self.lanes();
        self.send(side, packet);
        let hops = if packet[0] >> 4 == 4 { 14 + 8 } else { 14 + 7 };
        let kind = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        let frame = self.wires[1 - side]
            .expect("packet", |frame| frame.len() > 34 && frame[12..14] == kind && frame[hops] == 63);
        let after = self.lanes();
        let (offloaded, worker) = (after.0 - before.0, after.1 - before.1);
        assert_eq!(offloaded + worker, 1, "{before:?} {after:?}");
        self.sent[side].0 += 1;
        self.sent[side].1 += packet.len() as u64;
        (frame[14..].to_vec(), offloaded == 1)
    }

    /// Sends a packet that must not arrive.
    fn refused(&self, side: usize, packet: &[u8]) {
        while self.wires[1 - side].receive().is_some() {}
        self.send(side, packet);
        let end = Instant::now() + Duration::from_millis(30);
        while Instant::now() < end {
            let kind = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
            let came = self.wires[1 - side].receive();
            assert!(came.is_none_or(|frame| frame[12..14] != kind || frame.len() < 60), "it arrived");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn divert(&mut self, on: bool) {
        let rules = if on { vec![FlowMatch::default()] } else { Vec::new() };
        self.plane.driver_mut().divert(&rules).unwrap();
    }

    /// A packet offloaded, whether its sender has finished its checksum or not, and the same by the
    /// worker: equal, and right.
    fn both_ways(&mut self, side: usize, packet: &[u8]) -> Vec<u8> {
        let (offloaded, in_driver) = self.cross(side, packet);
        self.divert(true);
        let (worked, by_worker) = self.cross(side, packet);
        self.divert(false);
        assert!(in_driver && !by_worker, "{in_driver} {by_worker}: {packet:02x?}");
        assert_eq!(offloaded, worked);
        assert!(holds(&offloaded), "{offloaded:02x?}");
        assert_eq!(self.cross(side, &partial(packet)), (offloaded.clone(), true));
        offloaded
    }

    fn accounts(&self) -> Vec<Account> {
        let worker = self.plane.policy().table().unwrap().worker().unwrap();
        let mut accounts = Vec::new();
        worker.flows(0, u32::MAX, graph::steady_now(), &mut |_, account| accounts.push(*account));
        accounts
    }

    /// The one flow from this end.
    fn account(&self, from: End) -> Account {
        let accounts = self.accounts();
        let mut found = accounts.iter().filter(|account| {
            let original = &account.original;
            (original.source_address(), original.source_port) == (from.address, from.port)
        });
        let account = *found.next().unwrap_or_else(|| panic!("no flow: {accounts:?}"));
        assert!(found.next().is_none(), "{accounts:?}");
        account
    }

    fn counted(&self, rule: u32) -> rules::Counter {
        let book = self.plane.policy().book();
        book.fold();
        book.current().0.accounts().counter(RuleId(rule))
    }

    fn change_filter(&mut self, rules: &str) {
        let settings = self.plane.policy().settings().clone();
        let settings = PolicySettings { filter: filter(rules), ..settings };
        let hooks = self.plane.hooks().clone();
        self.plane.change(hooks, settings, &mut self.tables).unwrap();
    }

    /// Opens a connection; how the inside is seen outside.
    fn connect(&mut self, inside: End, outside: End) -> End {
        let segment = |sequence, ack, flags| Some(Tcp { sequence, ack, flags });
        let (out, _) = self.cross(0, &packet(inside, outside, segment(1000, 0, SYN), b""));
        let seen = ends(&out).0;
        self.cross(1, &packet(outside, seen, segment(5000, 1001, SYN | ACK), b""));
        self.cross(0, &packet(inside, outside, segment(1001, 5001, ACK), b""));
        // The first of each direction since then is judged.
        self.cross(0, &packet(inside, outside, segment(1001, 5001, ACK), b""));
        self.cross(1, &packet(outside, seen, segment(5001, 1001, ACK), b""));
        seen
    }
}

fn inside<T: Send>(queues: u32, work: impl FnOnce(&Rig, &[Wire; 2]) -> T + Send) -> T {
    let rig = Rig::new(queues);
    let wires = [rig.wire(0), rig.wire(1)];
    rig.router.inside(|| work(&rig, &wires))
}

fn nat(text: &str) -> nat::Rules {
    serde_json::from_str::<nat::Text>(text).unwrap().check().unwrap()
}

fn payload(number: usize) -> Vec<u8> {
    (0..number * 37 % 600).map(|i| (i * 7 + number * 13) as u8).collect()
}

const PAIRS: [(&str, &str); 2] = [("10.0.0.2", "198.18.0.9"), ("2001:db8:1::2", "2001:db8:f::9")];

#[test]
fn datagrams_are_sent_as_a_worker_sends_them() {
    for rules in [None, Some(nat(MASQUERADE))] {
        let translated = rules.is_some();
        inside(1, |rig, wires| {
            let policy = PolicySettings { filter: filter(STATEFUL), nat: rules, ..PolicySettings::default() };
            let mut net = Net::start(rig, wires, policy);
            for (number, (here, there)) in PAIRS.into_iter().enumerate() {
                net.sent = Default::default();
                let (inside, outside) = (end(here, 4000 + number as u16), end(there, 53));
                let out = |n: usize| packet(inside, outside, None, &payload(n));
                assert!(!net.cross(0, &out(1)).1, "the first packet is judged");
                // Not answered yet, it is offloaded all the same.
                let seen = ends(&net.both_ways(0, &out(2))).0;
                assert_eq!(seen == inside, !translated, "{seen:?}");
                let back = |n: usize| packet(outside, seen, None, &payload(n));
                assert!(!net.cross(1, &back(1)).1, "the first answer is judged");
                assert!(!net.cross(0, &out(3)).1, "the flow is established now");
                for n in 0..30 {
                    net.both_ways(0, &out(n));
                    let came = net.both_ways(1, &back(n));
                    assert_eq!(ends(&came), (outside, inside));
                }
                let account = net.account(inside);
                assert_eq!(account.phase, Phase::Stream);
                assert_eq!([0, 1].map(|side| (account.packets[side], account.bytes[side])), net.sent);
                let idle = graph::steady_now().abs_diff(account.last);
                assert!(idle < 100_000_000, "{idle} ns");
            }
            // Rules have counted what they let pass: what was new, and all else.
            let (established, new) = (net.counted(1), net.counted(2));
            assert!(new.packets >= 4 && established.packets >= 4 * 60, "{established:?} {new:?}");
            assert!(graph::steady_now().abs_diff(established.last) < 200_000_000, "{established:?}");
            net.plane.stop(&mut net.tables);
        });
    }
}

#[test]
fn connections_are_offloaded_until_something_happens() {
    for rules in [None, Some(nat(MASQUERADE))] {
        inside(1, |rig, wires| {
            let policy = PolicySettings { filter: filter(STATEFUL), nat: rules, ..PolicySettings::default() };
            let mut net = Net::start(rig, wires, policy);
            for (number, (here, there)) in PAIRS.into_iter().enumerate() {
                net.sent = Default::default();
                let (inside, outside) = (end(here, 5000 + number as u16), end(there, 80));
                let seen = net.connect(inside, outside);
                let segment = |sequence, ack, flags| Some(Tcp { sequence, ack, flags });
                let (mut here, mut there) = (1001u32, 5001u32);
                for n in 1..30 {
                    let data = payload(n);
                    net.both_ways(0, &packet(inside, outside, segment(here, there, ACK), &data));
                    here += data.len() as u32;
                    net.both_ways(1, &packet(outside, seen, segment(there, here, ACK), &data));
                    there += data.len() as u32;
                }
                // Far from the window: nothing changes.
                let far = |sequence: u32, flags| packet(outside, seen, segment(sequence, here, flags), b"x");
                let before = net.account(inside);
                net.refused(1, &far(there.wrapping_add(1 << 20), ACK));
                net.refused(1, &far(there.wrapping_sub(1 << 20), ACK));
                net.refused(1, &far(there.wrapping_add(1 << 20), RST));
                net.refused(0, &packet(inside, outside, segment(here, there.wrapping_add(9), ACK), b"x"));
                let after = net.account(inside);
                assert_eq!((before.packets, before.phase), (after.packets, after.phase));
                net.both_ways(1, &packet(outside, seen, segment(there, here, ACK), b"y"));
                there += 1;
                assert_eq!([0, 1].map(|side| (after.packets[side], after.bytes[side]))[0], net.sent[0]);

                // Other rules: judged anew, and offloaded again.
                net.change_filter(&format!("{STATEFUL}drop tcp\n"));
                let again = packet(outside, seen, segment(there, here, ACK), b"");
                assert!(!net.cross(1, &again).1, "judged by the new rules");
                net.both_ways(1, &again);
                net.change_filter("chain forward policy drop\n");
                // It is of the flow, whatever the rules say.
                net.refused(1, &again);
                net.sent[1] = (net.sent[1].0 + 1, net.sent[1].1 + again.len() as u64);
                net.change_filter(STATEFUL);
                assert!(!net.cross(1, &again).1);
                assert!(net.cross(1, &again).1);

                // The end is the worker's, who knows all that was sent; what comes between the two
                // FINs is offloaded.
                let account = net.account(inside);
                assert_eq!(account.phase, Phase::Open);
                assert!(!net.cross(0, &packet(inside, outside, segment(here, there, FIN | ACK), b"")).1);
                assert!(net.cross(1, &packet(outside, seen, segment(there, here + 1, ACK), b"")).1);
                assert!(!net.cross(1, &packet(outside, seen, segment(there, here + 1, FIN | ACK), b"")).1);
                assert!(!net.cross(0, &packet(inside, outside, segment(here + 1, there + 1, ACK), b"")).1);
                let account = net.account(inside);
                assert_eq!(account.phase, Phase::Finished);
                let sent = [0, 1].map(|side| (account.packets[side], account.bytes[side]));
                assert_eq!(sent, net.sent, "not one was forgotten");
                // The next one begins with the same ports.
                net.connect(inside, outside);
                let (again, offloaded) =
                    net.cross(0, &packet(inside, outside, segment(1001, 5001, ACK), b"z"));
                assert!(offloaded && holds(&again));
                let rst = packet(inside, outside, segment(1002, 5001, RST), b"");
                assert!(!net.cross(0, &rst).1);
                assert_eq!(net.account(inside).phase, Phase::Reset);
                assert!(!net.cross(1, &packet(outside, seen, segment(5001, 1002, ACK), b"")).1);
            }
            net.plane.stop(&mut net.tables);
        });
    }
}

#[test]
fn a_flow_lives_as_long_as_it_is_offloaded() {
    inside(1, |rig, wires| {
        let timeouts = Timeouts { udp_stream: Duration::from_secs(1), ..Timeouts::default() };
        let flows = Settings { memory: 4 << 20, timeouts, ..Settings::default() };
        let policy = PolicySettings { flows: Some(flows), ..PolicySettings::default() };
        let mut net = Net::start(rig, wires, policy);
        let (inside, outside) = (end("10.0.0.2", 7000), end("198.18.0.9", 53));
        let (out, back) = (packet(inside, outside, None, b"a"), packet(outside, inside, None, b"b"));
        (0..3).for_each(|_| drop((net.cross(0, &out), net.cross(1, &back))));
        let start = net.account(inside).start;
        // The sweep comes by every 4 s.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(6) {
            assert!(net.cross(0, &out).1, "still offloaded");
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(net.account(inside).start, start);
        let sent = net.sent;
        let ended = net.plane.policy().ended().unwrap().clone();
        assert!(ended.accounts.is_empty());
        let mut account = None;
        let begin = Instant::now();
        while account.is_none() && begin.elapsed() < Duration::from_secs(9) {
            account = ended.accounts.pop();
            std::thread::sleep(Duration::from_millis(50));
        }
        let account = account.expect("an idle flow ends");
        assert_eq!(account.end, Ended::Idle);
        assert_eq!([0, 1].map(|side| (account.packets[side], account.bytes[side])), sent);
        assert!(!net.cross(0, &out).1, "another flow begins with a packet that is judged");
        net.plane.stop(&mut net.tables);
    });
}

#[test]
fn rules_without_state_need_not_be_asked_again_either() {
    inside(1, |rig, wires| {
        let rules =
            "chain forward policy drop\naccept set-dscp ef udp to any port 53\naccept udp length 60-70\n";
        let policy = PolicySettings { filter: filter(rules), ..PolicySettings::default() };
        let mut net = Net::start(rig, wires, policy);
        for (here, there) in PAIRS {
            let (inside, outside) = (end(here, 4000), end(there, 53));
            net.cross(0, &packet(inside, outside, None, b"first"));
            for n in 0..50 {
                let sent = net.both_ways(0, &packet(inside, outside, None, &payload(n)));
                let dscp = u16::from_be_bytes([sent[0], sent[1]]) >> if sent[0] >> 4 == 4 { 2 } else { 6 };
                assert_eq!(dscp & 63, 46);
            }
            // What depends on the packet is asked of each.
            let other = end(there, 54);
            let size = if here.contains(':') { 15 } else { 35 };
            (0..4).for_each(|_| assert!(!net.cross(0, &packet(inside, other, None, &vec![1; size])).1));
            net.refused(0, &packet(inside, other, None, b""));
        }
        net.plane.stop(&mut net.tables);
    });
}
