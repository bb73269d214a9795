//! Packets of one flow that come at once, before there is a flow, go where the first of them goes: resolvers ask for two records from
//! one socket.

mod instance;

use std::net::Ipv4Addr;

use elements::router::standard;
use elements::router::{IcmpLimits, Sources, Surroundings};
use fib::{Adjacency, Capacity, NextHop, Path, PortEntry, PortFlags, Tables};
use graph::Batch;
use instance::{IN, Instance, OUT};
use plane::{Policy, PolicySettings};
use port::{Driver, Packet, Pool};
use wire::{Mac, ethernet, ipv4, protocol};

const OUR: Mac = Mac([2, 0, 0, 0, 1, 1]);
const CLIENT: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// Hosts inside, by the last byte of their addresses.
const HOSTS: [u8; 3] = [2, 3, 4];

fn mac(host: u8) -> Mac {
    Mac([2, 0, 0, 0, 9, host])
}

fn tables() -> Tables {
    let mut tables = Tables::new(Capacity { ipv4: 100, ipv6: 100, next_hops: 16 }, None).unwrap();
    for port in [IN, OUT] {
        let flags = PortFlags::UP | PortFlags::QUEUE | PortFlags::FORWARD4;
        let entry = PortEntry { ifindex: u32::from(port.0), mtu: 1500, mac: OUR.0, flags };
        tables.set_port(port, Some(entry)).unwrap();
    }
    for host in HOSTS {
        let adjacency = Adjacency { port: IN, mtu: 1500, mac: Some(mac(host).0) };
        let adjacency = tables.add_adjacency(&adjacency).unwrap();
        let hop = tables.add_next_hop(&NextHop::Forward(vec![Path { adjacency, weight: 1 }])).unwrap();
        tables.insert4(format!("10.1.0.{host}/32").parse().unwrap(), hop).unwrap();
    }
    tables
}

/// A datagram from outside to the address that is led to the hosts in turn.
fn datagram(port: u16) -> Vec<u8> {
    let link = ethernet::Repr { destination: OUR, source: CLIENT, ether_type: ethernet::IPV4 };
    let (from, to) = (Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(192, 0, 2, 1));
    let ip = ipv4::Repr { protocol: protocol::UDP, ..ipv4::Repr::new(from, to) };
    let upper = [&port.to_be_bytes()[..], &53u16.to_be_bytes(), &[0, 8, 0, 0]].concat();
    [&link.header()[..], &ip.header(upper.len()), &upper].concat()
}

#[test]
fn go_where_the_first_of_them_goes() {
    Pool::heap(256).install();
    let tables = tables();
    let surroundings = Surroundings {
        view: tables.view(),
        sources: Sources::new(),
        limits: [IcmpLimits { rate: 1, burst: 1, interval: 0 }; 2],
    };
    let environment = standard::environment(surroundings);
    let mut driver = Driver::new(&Capacity { ipv4: 1, ipv6: 1, next_hops: 1 }.sizes()).unwrap();
    let to = HOSTS.map(|host| format!("10.1.0.{host}:53"));
    let rule = serde_json::json!({
        "name": "resolvers", "type": "destination", "in": "outside", "protocol": "udp",
        "destination": "192.0.2.1/32", "ports": "53", "to": to, "spread": "round-robin",
    });
    let rules = serde_json::from_value::<nat::Text>(serde_json::json!({ "rule": [rule] })).unwrap();
    let settings = PolicySettings { nat: Some(rules.check().unwrap()), ..PolicySettings::default() };
    let named = |name: &str| if name == "outside" { vec![OUT.0] } else { Vec::new() };
    let policy = Policy::new(settings, 1, &mut driver, named).unwrap();
    let Instance { mut graph, entry, seat, mut sinks } = Instance::new(environment, &policy, policy.stages());

    let mut reached = [0; HOSTS.len()];
    for round in 0..12u16 {
        // Two flows, one among the other.
        let mut batch = Batch::new();
        for port in [0, 1, 0, 1, 1, 0] {
            let mut packet = Packet::new(&datagram(4000 + 2 * round + port)).unwrap();
            packet.input = OUT;
            batch.push(packet).unwrap();
        }
        graph.run(entry, &mut batch, &mut sinks);
        let mut sent = Vec::new();
        sinks.transmit(|port, packets| {
            sent.extend(packets.drain(..).map(|packet| (port, packet.to_vec())));
        });
        assert_eq!(sent.len(), 6);
        for (port, frame) in sent {
            let host = frame[33];
            assert_eq!((port, &frame[..6], &frame[30..33]), (IN, &mac(host).0[..], &[10, 1, 0][..]));
            reached[usize::from(host) - 2] += 1;
        }
        seat.maintain(graph::steady_now());
    }
    // Each flow takes its turn once.
    assert_eq!(reached, [24; 3]);
}
