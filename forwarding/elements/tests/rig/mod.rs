//! A router between two hosts, in memory.
//!
//! ```text
//! host A 10.99.1.2, 2001:db8:1::2 --- port 1 (.1, ::1)  router  port 2 (.1, ::1), MTU 1400 --- host B 10.99.2.2, 2001:db8:2::2
//! ```
//!
//! Behind host B: 198.18.0.0/15, 240.0.0.0/8, 2001:db8:f::/48, ::/16. Unreachable: 198.51.100.0/25,
//! 2001:db8:dead:1::/64; prohibited: 198.51.100.128/25, 2001:db8:dead:2::/64; blackhole:
//! 192.0.2.0/25, 2001:db8:dead:3::/64. Host 10.99.2.3 is unresolved; others on the connected
//! networks are to be gleaned. 203.0.113.0/24 goes by a port that Linux keeps for itself.

#![allow(dead_code)] // Each test binary uses its part.

use std::sync::Arc;

use elements::router::standard::{self, Hooks, Stages, Standard};
use elements::router::{IcmpPolicy, IcmpSettings, RouterContext, Sources};
use fib::{
    Adjacency, AdjacencyId, Capacity, Counts, InterfaceEntry, InterfaceFlags, Multicast, NextHop, NextHopId,
    Path, PortId, Tables, View,
};
use graph::{BATCH, Batch, Clock, Graph, GraphCounters, Manner, NodeId, Sinks};
use port::{Packet, Pool};
use wire::{Class, Mac, Reason};

pub const HOST_A: Mac = Mac([2, 0, 0, 0, 0, 0x0a]);
pub const HOST_B: Mac = Mac([2, 0, 0, 0, 0, 0x0b]);
pub const PORT_1: Mac = Mac([2, 0, 0, 0, 1, 1]);
pub const PORT_2: Mac = Mac([2, 0, 0, 0, 1, 2]);
pub const CHUNKS: usize = 4096;
const FORWARDS: InterfaceFlags = InterfaceFlags::UP
    .union(InterfaceFlags::QUEUE)
    .union(InterfaceFlags::FORWARD4)
    .union(InterfaceFlags::FORWARD6);

pub struct Rig {
    pub tables: Tables,
    pub sources: Arc<Sources>,
    pub graph: Graph,
    pub entry: NodeId,
    pub sinks: Sinks,
    /// The same router, in which plain packets take the short way.
    twin: (Graph, NodeId),
    /// What each counted of interfaces that are no port's own.
    pub counts: [Counts; 2],
    /// The multicast routes of each.
    pub multicast: [Arc<Multicast>; 2],
    /// Whether answers are limited, so that each gives its own.
    limited: bool,
    pub a: AdjacencyId,
    pub b: AdjacencyId,
}

/// What became of the packets of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub sent: Vec<(u16, Vec<u8>)>,
    pub punted: Vec<(Vec<u8>, Class)>,
}

impl Rig {
    /// Limits that let every answer through.
    pub fn new() -> Rig {
        Rig::with_icmp(IcmpSettings::unlimited())
    }

    pub fn with_icmp(icmp: IcmpSettings) -> Rig {
        Pool::heap(CHUNKS).install();
        let capacity = Capacity { ipv4: 1000, ipv6: 1000, next_hops: 256 };
        let mut tables = Tables::new(capacity, None).unwrap();
        for (port, mac, mtu) in [(1, PORT_1, 1500), (2, PORT_2, 1400)] {
            let entry = InterfaceEntry::of_port(PortId(port as u16), port, mtu, mac.0, FORWARDS);
            tables.set_interface(PortId(port as u16).interface(), Some(entry)).unwrap();
        }
        let kept = InterfaceEntry::of_port(PortId(3), 3, 1500, [2, 0, 0, 0, 1, 3], InterfaceFlags::UP);
        tables.set_interface(fib::InterfaceId(3), Some(kept)).unwrap();
        let mut adjacency = |port, mtu, mac| {
            tables.add_adjacency(&Adjacency { interface: PortId(port).interface(), mtu, mac }).unwrap()
        };
        let a = adjacency(1, 1500, Some(HOST_A.0));
        let b = adjacency(2, 1400, Some(HOST_B.0));
        let unresolved = adjacency(2, 1400, None);
        let kept = adjacency(3, 1500, Some(HOST_B.0));
        let to = |adjacency| NextHop::Forward(vec![Path { adjacency, weight: 1 }]);
        let (glean1, glean2) = (NextHop::Glean(fib::InterfaceId(1)), NextHop::Glean(fib::InterfaceId(2)));
        let routes4 = [
            ("10.99.1.0/24", &glean1),
            ("10.99.1.1/32", &NextHop::Local),
            ("10.99.1.2/32", &to(a)),
            ("10.99.2.0/24", &glean2),
            ("10.99.2.1/32", &NextHop::Local),
            ("10.99.2.2/32", &to(b)),
            ("10.99.2.3/32", &to(unresolved)),
            ("198.18.0.0/15", &to(b)),
            ("240.0.0.0/8", &to(b)),
            ("203.0.113.0/24", &to(kept)),
            ("198.51.100.0/25", &NextHop::Unreachable),
            ("198.51.100.128/25", &NextHop::Prohibit),
            ("192.0.2.0/25", &NextHop::Blackhole),
        ];
        for (prefix, next_hop) in routes4 {
            let id = tables.add_next_hop(next_hop).unwrap();
            tables.insert4(prefix.parse().unwrap(), id).unwrap();
        }
        let routes6 = [
            ("2001:db8:1::/64", &glean1),
            ("2001:db8:1::1/128", &NextHop::Local),
            ("2001:db8:1::2/128", &to(a)),
            ("2001:db8:2::/64", &glean2),
            ("2001:db8:2::1/128", &NextHop::Local),
            ("2001:db8:2::2/128", &to(b)),
            ("2001:db8:2::3/128", &to(unresolved)),
            ("2001:db8:f::/48", &to(b)),
            ("::/16", &to(b)),
            ("2001:db8:dead:1::/64", &NextHop::Unreachable),
            ("2001:db8:dead:2::/64", &NextHop::Prohibit),
            ("2001:db8:dead:3::/64", &NextHop::Blackhole),
        ];
        for (prefix, next_hop) in routes6 {
            let id = tables.add_next_hop(next_hop).unwrap();
            tables.insert6(prefix.parse().unwrap(), id).unwrap();
        }
        let sources = Sources::new();
        sources.set_local4(["10.99.1.1", "10.99.2.1"].map(|own| (fib::TableId::MAIN, own.parse().unwrap())));
        for port in [1, 2] {
            let ipv4 = format!("10.99.{port}.1/24").parse().unwrap();
            let ipv6 = format!("2001:db8:{port}::1/64").parse().unwrap();
            sources.set_interface(PortId(port).interface(), fib::TableId::MAIN, vec![ipv4], vec![ipv6]);
        }
        let counts = [Counts::default(), Counts::default()];
        let [view, twins] = counts.clone().map(|counts| tables.view().counting(counts));
        let multicast = [Multicast::new(), Multicast::new()];
        let [groups, twin_groups] = &multicast;
        let (graph, entry) = router(&view, &sources, groups, icmp, Stages::default());
        let fast = Stages { fast: true, ..Stages::default() };
        let twin = router(&twins, &sources, twin_groups, icmp, fast);
        let mut sinks = Sinks::new();
        sinks.open(PortId(1));
        sinks.open(PortId(2));
        Rig { tables, sources, graph, entry, sinks, twin, counts, multicast, limited: icmp.mask4 != 0, a, b }
    }

    /// Sets the flags of a port in addition to those it has.
    pub fn set_flags(&mut self, port: u16, flags: InterfaceFlags) {
        let mut entry = self.tables.interface(PortId(port).interface()).unwrap();
        entry.flags = FORWARDS | flags;
        self.tables.set_interface(PortId(port).interface(), Some(entry)).unwrap();
    }

    /// Runs frames that came in by a port through the graph.
    pub fn run(&mut self, input: u16, frames: &[Vec<u8>]) -> Outcome {
        let packets = frames.iter().map(|frame| Packet::new(frame).unwrap()).collect();
        self.run_packets(input, packets)
    }

    /// Runs packets through the graph, and copies of them through its twin: the same must become of
    /// them.
    pub fn run_packets(&mut self, input: u16, mut packets: Vec<Packet>) -> Outcome {
        packets.iter_mut().for_each(|packet| packet.input = PortId(input).interface());
        let (mut outcome, mut other) = (Outcome::default(), Outcome::default());
        while !packets.is_empty() {
            let some: Vec<Packet> = packets.drain(..packets.len().min(BATCH)).collect();
            let copies = some.iter().map(|packet| packet.duplicate().unwrap()).collect();
            run(&mut self.graph, self.entry, &mut self.sinks, some, &mut outcome);
            let (twin, entry) = &mut self.twin;
            run(twin, *entry, &mut self.sinks, copies, &mut other);
        }
        if !self.limited {
            assert!(
                outcome.sorted() == other.sorted(),
                "on the long way {outcome:?}, and on the short {other:?}"
            );
            let dropped = |graph: &Graph| Reason::ALL.map(|reason| graph.counters().dropped(reason));
            assert_eq!(dropped(&self.graph), dropped(&self.twin.0));
        }
        outcome
    }

    /// How many packets took the short way.
    pub fn short(&self) -> u64 {
        self.twin.0.counters().node(self.twin.1).unwrap().output(1)
    }

    pub fn counters(&self) -> Arc<GraphCounters> {
        self.graph.counters()
    }

    /// Packets that ended their way in the graph.
    pub fn dropped(&self) -> u64 {
        let ends = Reason::ALL.into_iter().filter(|reason| *reason != Reason::IcmpLimited);
        ends.map(|reason| self.counters().dropped(reason)).sum()
    }

    /// The reasons of the packets dropped so far.
    pub fn reasons(&self) -> Vec<(Reason, u64)> {
        let counters = self.counters();
        Reason::ALL
            .into_iter()
            .map(|reason| (reason, counters.dropped(reason)))
            .filter(|(_, n)| *n != 0)
            .collect()
    }

    pub fn next_hop(&mut self, next_hop: &NextHop) -> NextHopId {
        self.tables.add_next_hop(next_hop).unwrap()
    }
}

/// What was sent, and what was handed over.
type Sorted = (Vec<(u16, Vec<u8>)>, Vec<(Vec<u8>, String)>);

impl Outcome {
    /// In an order of its own: where packets take several ways they leave in another one.
    fn sorted(&self) -> Sorted {
        let (mut sent, mut punted) = (self.sent.clone(), Vec::new());
        sent.iter_mut().for_each(|(_, frame)| without_id(frame));
        punted.extend(self.punted.iter().map(|(bytes, class)| (bytes.clone(), format!("{class:?}"))));
        sent.sort();
        punted.sort();
        (sent, punted)
    }
}

/// A tunnel's header has an identification that each router chooses: without that and the checksum.
pub fn without_id(frame: &mut [u8]) {
    let is_vxlan = |frame: &[u8]| frame[23] == 17 && frame[36..38] == 4789u16.to_be_bytes();
    if frame.len() > 38 && frame[12..14] == [8, 0] && ([4, 41, 47].contains(&frame[23]) || is_vxlan(frame)) {
        frame[18..20].fill(0);
        frame[24..26].fill(0);
    }
}

/// Runs packets, not more than a batch of them, and adds what became of them.
fn run(graph: &mut Graph, entry: NodeId, sinks: &mut Sinks, packets: Vec<Packet>, outcome: &mut Outcome) {
    let mut batch = Batch::new();
    batch.fill(packets.into_iter());
    graph.run(entry, &mut batch, sinks);
    sinks.transmit(|port, packets| {
        outcome.sent.extend(packets.drain(..).map(|packet| (port.0, packet.to_vec())))
    });
    outcome.punted.extend(sinks.punts().map(|(packet, class, _)| (packet.to_vec(), class)));
}

/// The standard router over these tables.
pub fn router(
    view: &View,
    sources: &Arc<Sources>,
    multicast: &Arc<Multicast>,
    icmp: IcmpSettings,
    stages: Stages,
) -> (Graph, NodeId) {
    let (view, sources, multicast) = (view.clone(), sources.clone(), multicast.clone());
    let environment = standard::environment(RouterContext {
        sources,
        multicast,
        icmp: IcmpPolicy::of(icmp),
        ..RouterContext::new(view, Sources::new(), 1)
    });
    let program = standard::program(&Hooks::default(), &stages, &elements::registry(), &environment).unwrap();
    // Where answers are not limited, nothing waits: in a time that stands still both ways let Linux
    // see the same redirects.
    let clock = if icmp.mask4 == 0 { Clock::simulated(0) } else { Clock::real() };
    let graph = program.instantiate(&environment, Manner { clock, ..Manner::default() }).unwrap();
    let Standard { graph, entry } = Standard::of(graph);
    (graph, entry)
}

/// A frame from host A to the router.
pub fn frame(packet: &[u8]) -> Vec<u8> {
    let ether_type = if packet[0] >> 4 == 6 { wire::ethernet::IPV6 } else { wire::ethernet::IPV4 };
    let header = wire::ethernet::Repr { destination: PORT_1, source: HOST_A, ether_type };
    [&header.header()[..], packet].concat()
}

/// A UDP packet with this header and so many bytes of data.
pub fn udp4(repr: wire::ipv4::Repr, data: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..data).map(|i| (i * 7 + 3) as u8).collect();
    let pseudo =
        wire::checksum::pseudo4(repr.source.into(), repr.destination.into(), 17, data.len() as u16 + 8);
    [&repr.header(data.len() + 8)[..], &wire::udp::header(5000, 33434, &data, pseudo), &data].concat()
}

/// From host A to somewhere.
pub fn to4(destination: &str) -> wire::ipv4::Repr {
    wire::ipv4::Repr::new([10, 99, 1, 2].into(), destination.parse().unwrap())
}

/// A UDP packet with this header and so many bytes of data.
pub fn udp6(repr: wire::ipv6::Repr, data: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..data).map(|i| (i * 7 + 3) as u8).collect();
    let (source, destination) = (repr.source.to_bits(), repr.destination.to_bits());
    let pseudo = wire::checksum::pseudo6(source, destination, 17, data.len() as u32 + 8);
    [&repr.header(data.len() + 8)[..], &wire::udp::header(5000, 33434, &data, pseudo), &data].concat()
}

/// From host A to somewhere.
pub fn to6(destination: &str) -> wire::ipv6::Repr {
    wire::ipv6::Repr::new("2001:db8:1::2".parse().unwrap(), destination.parse().unwrap())
}
