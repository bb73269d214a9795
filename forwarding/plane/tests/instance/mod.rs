//! The standard router with a policy, between the ports `inside` and `outside`, as tests run it.
#![allow(dead_code, reason = "each test binary uses its part of this")]

use std::net::Ipv4Addr;

use elements::router::standard::{self, Hooks, Stages, Standard};
use elements::router::{RouterContext, SharedContext, Sources};
use fib::{Adjacency, Capacity, InterfaceEntry, InterfaceFlags, InterfaceId, NextHop, Path, PortId, Tables};
use graph::{Batch, Environment, Graph, NodeId, Sinks};
use plane::{Policy, PolicySettings};
use port::{Driver, Packet};
use wire::{Mac, checksum, ethernet, ipv4, protocol};

pub const IN: PortId = PortId(1);
pub const OUT: PortId = PortId(2);
/// A tunnel that a test may add.
pub const TUNNEL: InterfaceId = InterfaceId(300);
/// The router's link address, and a neighbour's.
pub const OUR: Mac = Mac([2, 0, 0, 0, 1, 1]);
pub const NEIGHBOUR: Mac = Mac([2, 0, 0, 0, 0, 9]);

/// The port by which each prefix is reached, and the neighbour.
pub fn tables(routes: &[(PortId, Mac, &str)]) -> Tables {
    let mut tables = Tables::new(Capacity { ipv4: 100, ipv6: 100, next_hops: 16 }, None).unwrap();
    let flags =
        InterfaceFlags::UP | InterfaceFlags::QUEUE | InterfaceFlags::FORWARD4 | InterfaceFlags::FORWARD6;
    for port in [IN, OUT] {
        let entry = InterfaceEntry::of_port(port, u32::from(port.0), 1500, OUR.0, flags);
        tables.set_interface(port.interface(), Some(entry)).unwrap();
    }
    for &(port, mac, prefix) in routes {
        let adjacency = tables
            .add_adjacency(&Adjacency { interface: port.interface(), mtu: 1500, mac: Some(mac.0) })
            .unwrap();
        let hop = tables.add_next_hop(&NextHop::Forward(vec![Path { adjacency, weight: 1 }])).unwrap();
        if prefix.contains(':') {
            tables.insert6(prefix.parse().unwrap(), hop).unwrap();
        } else {
            tables.insert4(prefix.parse().unwrap(), hop).unwrap();
        }
    }
    tables
}

/// The numbers of the interfaces that a name stands for.
pub fn named(name: &str) -> Vec<u16> {
    match name {
        "inside" => vec![IN.0],
        "outside" => vec![OUT.0],
        "tunnel" => vec![TUNNEL.0],
        _ => Vec::new(),
    }
}

/// A frame from the neighbour with a segment: its ends, sequence and acknowledgement, flags and
/// text.
pub fn segment([from, to]: [(Ipv4Addr, u16); 2], numbers: [u32; 2], flags: u8, text: &str) -> Vec<u8> {
    let ports = [from.1, to.1].map(u16::to_be_bytes).concat();
    let counts = numbers.map(u32::to_be_bytes).concat();
    let mut upper = [&ports[..], &counts, &[0x50, flags, 0x20, 0, 0, 0, 0, 0], text.as_bytes()].concat();
    let pseudo = checksum::pseudo4(from.0.to_bits(), to.0.to_bits(), protocol::TCP, upper.len() as u16);
    let sum = pseudo.with(&upper).finish();
    upper[16..18].copy_from_slice(&sum.to_be_bytes());
    let link = ethernet::Repr { destination: OUR, source: NEIGHBOUR, ether_type: ethernet::IPV4 };
    let ip = ipv4::Repr { protocol: protocol::TCP, ..ipv4::Repr::new(from.0, to.0) };
    [&link.header()[..], &ip.header(upper.len()), &upper].concat()
}

/// What runs, and where its packets end up.
pub struct Instance {
    pub graph: Graph,
    pub entry: NodeId,
    pub context: SharedContext,
    pub sinks: Sinks,
}

impl Instance {
    /// By these tables, for one of so many workers.
    pub fn start(tables: &Tables, settings: PolicySettings, workers: usize) -> (Instance, Policy) {
        let router_context = RouterContext::new(tables.view(), Sources::new(), 1);
        let mut driver = Driver::new(&Capacity { ipv4: 1, ipv6: 1, next_hops: 1 }.sizes()).unwrap();
        let policy = Policy::new(settings, workers, &mut driver, named).unwrap();
        (Instance::new(standard::environment(router_context), &policy, policy.stages()), policy)
    }

    /// What becomes of frames that come by a port in one batch: where they leave, and how.
    pub fn pass<F: AsRef<[u8]>>(&mut self, input: PortId, frames: &[F]) -> Vec<(PortId, Vec<u8>)> {
        let mut batch = Batch::new();
        for frame in frames {
            let mut packet = Packet::new(frame.as_ref()).unwrap();
            packet.input = input.interface();
            batch.push(packet).unwrap();
        }
        self.graph.run(self.entry, &mut batch, &mut self.sinks);
        let mut sent = Vec::new();
        self.sinks.transmit(|port, packets| {
            sent.extend(packets.drain(..).map(|packet| (port, packet.to_vec())));
        });
        sent
    }

    pub fn maintain(&self) {
        self.context.maintain(graph::steady_now());
    }

    /// With the policy's stages, or others.
    pub fn new(mut environment: Environment, policy: &Policy, stages: Stages) -> Instance {
        policy.share(&mut environment);
        policy.translate(&[(IN, "inside"), (OUT, "outside")].map(|(id, name)| nat::Port {
            number: id.0,
            name: name.to_owned(),
            addresses: Vec::new(),
        }));
        let context = policy.context(0).unwrap();
        environment.share(context.clone());
        let registry = elements::registry();
        let program = standard::program(&Hooks::default(), &stages, &registry, &environment).unwrap();
        let Standard { graph, entry } = standard::instance(&program, &environment).unwrap();
        let mut sinks = Sinks::new();
        [IN, OUT].into_iter().for_each(|port| sinks.open(port));
        Instance { graph, entry, context, sinks }
    }
}
