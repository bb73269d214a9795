//! What is said of mappings where the flow table is full: one that is made for a flow which then finds no room ends at once, and that is
//! said as well.

mod instance;

use std::net::Ipv4Addr;

use elements::router::standard;
use elements::router::{IcmpLimits, Sources, Surroundings};
use fib::{Adjacency, Capacity, NextHop, Path, PortEntry, PortFlags, PortId, Tables};
use graph::Batch;
use instance::{IN, Instance, OUT};
use nat::Event;
use plane::{Policy, PolicySettings};
use port::{Driver, Packet, Pool};
use wire::tcp::flag::{ACK, SYN};
use wire::{Mac, checksum, ethernet, ipv4, protocol};

const OUR: Mac = Mac([2, 0, 0, 0, 1, 1]);
const HOST: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 200);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// More than the smallest table holds.
const CONNECTIONS: u16 = 30_000;

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

fn segment(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), numbers: [u32; 2], flags: u8) -> Vec<u8> {
    let counts = numbers.map(u32::to_be_bytes).concat();
    let ports = [from.1, to.1].map(u16::to_be_bytes).concat();
    let mut upper = [&ports[..], &counts, &[0x50, flags, 0x20, 0, 0, 0, 0, 0]].concat();
    let pseudo = checksum::pseudo4(from.0.to_bits(), to.0.to_bits(), protocol::TCP, upper.len() as u16);
    let sum = pseudo.with(&upper).finish();
    upper[16..18].copy_from_slice(&sum.to_be_bytes());
    let link = ethernet::Repr { destination: OUR, source: HOST, ether_type: ethernet::IPV4 };
    let ip = ipv4::Repr { protocol: protocol::TCP, ..ipv4::Repr::new(from.0, to.0) };
    [&link.header()[..], &ip.header(upper.len()), &upper].concat()
}

#[test]
fn ends_what_it_made_for_nobody() {
    Pool::heap(64).install();
    let tables = tables();
    let surroundings = Surroundings {
        view: tables.view(),
        sources: Sources::new(),
        limits: [IcmpLimits { rate: 1, burst: 1, interval: 0 }; 2],
    };
    let mut driver = Driver::new(&Capacity { ipv4: 1, ipv6: 1, next_hops: 1 }.sizes()).unwrap();
    let rules = serde_json::json!({
        "log": true,
        "rule": [{ "name": "hosts", "type": "source", "out": "outside", "pool": OUTSIDE }],
    });
    let rules = serde_json::from_value::<nat::Text>(rules).unwrap().check().unwrap();
    let flows = flow::Settings { memory: 3 << 20, ..flow::Settings::default() };
    let settings = PolicySettings { nat: Some(rules), flows: Some(flows), ..PolicySettings::default() };
    let named = |name: &str| if name == "outside" { vec![OUT.0] } else { Vec::new() };
    let policy = Policy::new(settings, 1, &mut driver, named).unwrap();
    let environment = standard::environment(surroundings);
    let Instance { mut graph, entry, seat, mut sinks } = Instance::new(environment, &policy, policy.stages());
    let mut pass = |input: PortId, frame: &[u8]| {
        let mut packet = Packet::new(frame).unwrap();
        packet.input = input;
        let mut batch = Batch::new();
        batch.push(packet).unwrap();
        graph.run(entry, &mut batch, &mut sinks);
        let mut sent = 0;
        sinks.transmit(|_, packets| sent += packets.drain(..).count());
        seat.maintain(graph::steady_now());
        sent == 1
    };
    let (mut refused, mut made, mut ended) = (0, 0, 0);
    for port in 2000..2000 + CONNECTIONS {
        let client = (Ipv4Addr::new(10, 1, 0, 2), port);
        if pass(IN, &segment(client, (SERVER, 80), [1, 0], SYN)) {
            // What both ends want need not make room for others.
            assert!(pass(OUT, &segment((SERVER, 80), (OUTSIDE, port), [1, 2], SYN | ACK)));
            assert!(pass(IN, &segment(client, (SERVER, 80), [2, 2], ACK)));
        } else {
            refused += 1;
        }
        let records = &policy.ended().unwrap().made;
        while let Some(record) = records.pop() {
            match record.event {
                Event::Made => made += 1,
                Event::Ended => ended += 1,
            }
        }
    }
    assert!(refused > 0 && made >= refused, "{refused} of {CONNECTIONS} found no room");
    assert_eq!((made, ended), (usize::from(CONNECTIONS), refused));
    assert_eq!(policy.nat().unwrap().len(), made - ended);
}
