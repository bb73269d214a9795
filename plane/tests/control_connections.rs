//! Control connections of FTP count otherwise behind a translation, from an announcement that became longer on: each as long as it
//! lives, and none that comes after it by the same ports.

mod instance;

use std::net::Ipv4Addr;

use elements::router::standard;
use elements::router::{IcmpLimits, SharedSeat, Sources, Surroundings};
use fib::{Adjacency, Capacity, NextHop, Path, PortEntry, PortFlags, Tables};
use graph::Batch;
use instance::{IN, Instance, OUT};
use plane::{Policy, PolicySettings};
use port::{Driver, Packet, Pool};
use wire::tcp::flag::{ACK, RST, SYN};
use wire::{Mac, checksum, ethernet, ipv4, protocol};

const OUR: Mac = Mac([2, 0, 0, 0, 1, 1]);
const HOST: Mac = Mac([2, 0, 0, 0, 0, 1]);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 200);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const PORT: &str = "PORT 10,1,0,2,4,210\r\n";
/// By how much that becomes longer.
const GROWN: u32 = 6;

fn tables() -> Tables {
    let mut tables = Tables::new(Capacity { ipv4: 100, ipv6: 100, next_hops: 16 }, None).unwrap();
    for (port, net) in [(IN, "10.1.0.0/24"), (OUT, "198.18.0.0/15")] {
        let flags = PortFlags::UP | PortFlags::QUEUE | PortFlags::FORWARD4;
        let entry = PortEntry { ifindex: u32::from(port.0), mtu: 1500, mac: OUR.0, flags };
        tables.set_port(port, Some(entry)).unwrap();
        let adjacency = tables.add_adjacency(&Adjacency { port, mtu: 1500, mac: Some(HOST.0) }).unwrap();
        let hop = tables.add_next_hop(&NextHop::Forward(vec![Path { adjacency, weight: 1 }])).unwrap();
        tables.insert4(net.parse().unwrap(), hop).unwrap();
    }
    tables
}

/// The router, and another worker beside this one.
struct Trial {
    instance: Instance,
    beside: SharedSeat,
    _tables: Tables,
    _policy: Policy,
}

impl Trial {
    fn new() -> Trial {
        Pool::heap(64).install();
        let tables = tables();
        let surroundings = Surroundings {
            view: tables.view(),
            sources: Sources::new(),
            limits: [IcmpLimits { rate: 1, burst: 1, interval: 0 }; 2],
        };
        let mut driver = Driver::new(&Capacity { ipv4: 1, ipv6: 1, next_hops: 1 }.sizes()).unwrap();
        let rule = serde_json::json!({
            "name": "hosts", "type": "source", "out": "outside", "pool": OUTSIDE, "pool_ports": "4000-4071",
        });
        let rules = serde_json::from_value::<nat::Text>(serde_json::json!({ "rule": [rule] })).unwrap();
        let nat = Some(rules.check().unwrap());
        let settings = PolicySettings { nat, ftp: true, ..PolicySettings::default() };
        let named = |name: &str| if name == "outside" { vec![OUT.0] } else { Vec::new() };
        let policy = Policy::new(settings, 2, &mut driver, named).unwrap();
        let instance = Instance::new(standard::environment(surroundings), &policy, policy.stages());
        let beside = policy.seat(1).unwrap();
        Trial { instance, beside, _tables: tables, _policy: policy }
    }

    /// Sequence and acknowledgement of a segment as it leaves: from the client, or from the server.
    fn pass(&mut self, from_client: bool, numbers: [u32; 2], flags: u8, text: &str) -> [u32; 2] {
        let ([from, to], ports) = match from_client {
            true => ([CLIENT, SERVER], [4000u16, 21]),
            false => ([SERVER, OUTSIDE], [21, 4000]),
        };
        let ports = ports.map(u16::to_be_bytes).concat();
        let counts = numbers.map(u32::to_be_bytes).concat();
        let mut upper = [&ports[..], &counts, &[0x50, flags, 0x20, 0, 0, 0, 0, 0], text.as_bytes()].concat();
        let pseudo = checksum::pseudo4(from.to_bits(), to.to_bits(), protocol::TCP, upper.len() as u16);
        let sum = pseudo.with(&upper).finish();
        upper[16..18].copy_from_slice(&sum.to_be_bytes());
        let link = ethernet::Repr { destination: OUR, source: HOST, ether_type: ethernet::IPV4 };
        let ip = ipv4::Repr { protocol: protocol::TCP, ..ipv4::Repr::new(from, to) };
        let frame = [&link.header()[..], &ip.header(upper.len()), &upper].concat();
        let mut packet = Packet::new(&frame).unwrap();
        packet.input = if from_client { IN } else { OUT };
        let mut batch = Batch::new();
        batch.push(packet).unwrap();
        let Instance { graph, entry, sinks, .. } = &mut self.instance;
        graph.run(*entry, &mut batch, sinks);
        let mut sent = Vec::new();
        sinks.transmit(|_, packets| sent.extend(packets.drain(..).map(|packet| packet.to_vec())));
        let [frame] = &sent[..] else { panic!("{} packets left for one", sent.len()) };
        [38, 42].map(|at| u32::from_be_bytes(*frame[at..].first_chunk().unwrap()))
    }

    fn maintain(&self) {
        self.instance.seat.maintain(graph::steady_now());
    }

    /// A connection of which the client counts from one number on and the server from another: until an announcement has been
    /// acknowledged.
    fn announces(&mut self, [client, server]: [u32; 2]) {
        self.begins([client, server]);
        assert_eq!(self.pass(true, [client + 1, server + 1], ACK, PORT), [client + 1, server + 1]);
        let length = PORT.len() as u32;
        let acknowledged = [server + 1, client + 1 + length + GROWN];
        assert_eq!(self.pass(false, acknowledged, ACK, ""), [server + 1, client + 1 + length]);
        self.is_shifted([client + 1 + length, server + 1], GROWN);
    }

    fn begins(&mut self, [client, server]: [u32; 2]) {
        assert_eq!(self.pass(true, [client, 0], SYN, ""), [client, 0]);
        assert_eq!(self.pass(false, [server, client + 1], SYN | ACK, ""), [server, client + 1]);
        self.is_shifted([client + 1, server + 1], 0);
    }

    /// What the client sends now is counted so much further by the server.
    fn is_shifted(&mut self, [sequence, acknowledged]: [u32; 2], by: u32) {
        assert_eq!(self.pass(true, [sequence, acknowledged], ACK, ""), [sequence + by, acknowledged]);
    }
}

#[test]
fn that_both_ends_have_lost_begin_anew() {
    let mut trial = Trial::new();
    trial.announces([1000, 500]);
    trial.begins([9000, 5000]);
}

#[test]
fn that_begin_before_the_end_of_the_one_before_is_told_are_not_forgotten_with_it() {
    let mut trial = Trial::new();
    trial.announces([1000, 500]);
    let next = 1001 + PORT.len() as u32;
    trial.pass(true, [next, 501], RST, "");
    // Until this worker has come by as well, nobody is told that the flow has ended.
    trial.beside.online();
    trial.maintain();
    trial.announces([9000, 5000]);
    trial.maintain();
    trial.beside.offline();
    for _ in 0..3 {
        trial.maintain();
    }
    trial.is_shifted([9001 + PORT.len() as u32, 5001], GROWN);
}
