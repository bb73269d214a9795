//! What forwarding costs: the whole standard router graph, from a port in memory to a port in
//! memory, on one core.
//!
//! 64-byte packets (60 bytes and their check sequence) to 65,536 destinations in random order
//! inside the table, or as many flows. Each batch is written into a ring of 1,024 buffers, as other
//! routers' generators do, and what receiving and sending cost without a router between them,
//! measured in turns with it, is subtracted. `full-cold` has the frames lying in 65,536 buffers of
//! their own instead, written long before, and subtracts the same loop over those.
//!
//! `own-N`: the router has so many addresses of its own, and each frame has a sender of its own.
//!
//! Before anything is timed every frame that leaves is looked at: TTL, checksums, addresses of both
//! links, port; none may be missing.

use crate::frames::udp4;
use crate::ruler::{Ruler, TICK, ticks};
use ::plane::{Policy, PolicySettings};
use ::rules::{Action, RoutingRule, RoutingRules, Selector, Span};
use elements::router::standard::{self, Hooks, Standard};
use elements::router::{RouterContext, SharedContext, Sources};
use fib::{
    Adjacency, Capacity, InterfaceEntry, InterfaceFlags, InterfaceId, NextHop, NextHopId, Path, Payload,
    PortId, TableId, Tables, Tags, Tunnel,
};
use graph::{BATCH, Batch, Graph, NodeId, Sinks};
use ipnet::IpNet;
use lab::prefixes::{Random, inside4, inside6, ipv4, ipv6};
use port::prepared::{Fresh, Prepared, Sink};
use port::{Driver, Packet, Pool, Queue};
use std::net::IpAddr;
use std::sync::Arc;
use wire::{Mac, checksum, protocol};

const DESTINATIONS: usize = 65_536;
/// Buffers of the generator's ring.
const RING: usize = 1024;
const GATEWAYS: usize = 16;
const SEED: u64 = 20_261_121;
/// The table that routing rules lead to.
const STEERED: TableId = TableId(1);
const BATCHES: usize = 1024;
const SAMPLES: usize = 41;
/// Largest frame here: IPv4 and UDP in GRE, without check sequence.
const FRAME: usize = 66;

pub const IN: PortId = PortId(1);
pub const OUT: PortId = PortId(2);
const ROUTER: [Mac; 2] = [Mac([2, 0, 0, 0, 1, 1]), Mac([2, 0, 0, 0, 1, 2])];
const HOST: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// The sender, of each family, and the address of the router's port to the outside.
const SENDER4: u32 = 0x0a63_0102;
const SENDER6: u128 = 0x2001_0db8_0001_0000_0000_0000_0000_0002;
const OUTSIDE: [u8; 4] = [10, 99, 2, 1];

/// The first of as many senders as there are frames.
const SENDERS: u32 = 0x0a40_0000;

/// One bench.
struct Case {
    name: &'static str,
    version: u8,
    routes: usize,
    /// The rules of the chain `forward`.
    rules: Rules,
    nat: bool,
    cold: bool,
    /// So many routing rules, of which the last matches.
    steered: usize,
    tunnel: Way,
    /// So many addresses of the router's own, and each frame from a sender of its own (IPv4).
    own: Option<u32>,
}

/// Whether packets are in a tunnel (GRE), and when.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Plain,
    /// When they leave.
    Out,
    /// When they come in.
    In,
}

#[derive(Clone, Copy, PartialEq)]
enum Rules {
    None,
    SixHundred,
    Stateful,
}

const fn case(name: &'static str, version: u8, routes: usize) -> Case {
    Case {
        name,
        version,
        routes,
        rules: Rules::None,
        nat: false,
        cold: false,
        steered: 0,
        tunnel: Way::Plain,
        own: None,
    }
}

const FULL: Case = case("plane/v4/full", 4, 1_000_000);

const CASES: [Case; 16] = [
    case("plane/v4/small", 4, 16),
    Case { tunnel: Way::Out, ..case("plane/v4/gre-out", 4, 16) },
    Case { tunnel: Way::In, ..case("plane/v4/gre-in", 4, 16) },
    Case { steered: 64, ..case("plane/v4/policy-64", 4, 16) },
    FULL,
    Case { own: Some(0), ..case("plane/v4/full/own-0", 4, 1_000_000) },
    Case { own: Some(10), ..case("plane/v4/full/own-10", 4, 1_000_000) },
    Case { own: Some(100), ..case("plane/v4/full/own-100", 4, 1_000_000) },
    Case { own: Some(1000), ..case("plane/v4/full/own-1000", 4, 1_000_000) },
    case("plane/v6/full", 6, 240_000),
    Case { rules: Rules::SixHundred, ..case("plane/v4/rules-600", 4, 1_000_000) },
    Case { rules: Rules::Stateful, ..case("plane/v4/stateful", 4, 1_000_000) },
    Case { rules: Rules::Stateful, own: Some(0), ..case("plane/v4/stateful/own-0", 4, 1_000_000) },
    Case { rules: Rules::Stateful, own: Some(1000), ..case("plane/v4/stateful/own-1000", 4, 1_000_000) },
    Case { nat: true, ..case("plane/v4/nat44", 4, 1_000_000) },
    Case { cold: true, ..case("plane/v4/full-cold", 4, 1_000_000) },
];

/// All benches of the family.
pub fn run(ruler: &mut Ruler) {
    for case in &CASES {
        if ruler.wants(case.name) {
            measure(ruler, case);
        }
    }
}

/// A frame, and how long it is.
#[derive(Clone, Copy)]
pub struct Frame {
    bytes: [u8; FRAME],
    length: usize,
}

impl Frame {
    fn of(bytes: &[u8]) -> Frame {
        let mut frame = Frame { bytes: [0; FRAME], length: bytes.len().min(FRAME) };
        frame.bytes[..frame.length].copy_from_slice(&bytes[..frame.length]);
        frame
    }

    /// Makes a packet this frame.
    pub fn write(&self, packet: &mut Packet) {
        packet.reset(self.length);
        // One copy of a length that is known when this is compiled.
        if let Some(bytes) = packet.data_mut().first_chunk_mut::<60>() {
            bytes.copy_from_slice(&self.bytes[..60]);
        }
        if self.length > 60 {
            packet.data_mut()[60..].copy_from_slice(&self.bytes[60..self.length]);
        }
    }

    /// The answer to it, as it comes to `router`.
    fn answered(&self, router: Mac) -> Frame {
        let mut answer = *self;
        let bytes = &mut answer.bytes;
        bytes[..6].copy_from_slice(&router.0);
        bytes[22] = 64;
        let (source, destination) = (self.bytes[26..30].to_vec(), self.bytes[30..34].to_vec());
        bytes[26..30].copy_from_slice(&destination);
        bytes[30..34].copy_from_slice(&source);
        let (source, destination) = (self.bytes[34..36].to_vec(), self.bytes[36..38].to_vec());
        bytes[34..36].copy_from_slice(&destination);
        bytes[36..38].copy_from_slice(&source);
        wire::ipv4::set_checksum(&mut bytes[14..34]);
        answer
    }
}

/// The tunnel: its ends, and its number.
const ENDS: [[u8; 4]; 2] = [[10, 99, 1, 1], [192, 0, 2, 77]];
const TUNNEL: InterfaceId = InterfaceId::FIRST_LOGICAL;
/// Bytes of its header.
const GRE: usize = 24;

fn tunnel() -> InterfaceEntry {
    let [local, remote] = ENDS.map(Into::into);
    let payload = Payload::Gre { key_in: None, key_out: None };
    let tags = Tags::Tunnel(Tunnel {
        payload,
        local,
        remote,
        ttl: 0,
        tos: 0,
        dont_fragment: true,
        ignore_df: false,
    });
    let flags = InterfaceFlags::UP | InterfaceFlags::FORWARD4;
    let (ifindex, port, table) = (u32::from(TUNNEL.0), PortId::NONE, TableId::MAIN);
    InterfaceEntry { ifindex, mtu: 1476, mac: [0; 6], flags, port, tags, table }
}

/// A frame as it comes out of the tunnel: an empty datagram in it.
fn enclosed(frame: &[u8], to: u32) -> Frame {
    let [local, remote] = ENDS.map(Into::into);
    let outer = wire::ipv4::Repr { protocol: protocol::GRE, ..wire::ipv4::Repr::new(remote, local) };
    let inner =
        wire::ipv4::Repr { protocol: protocol::UDP, ..wire::ipv4::Repr::new(SENDER4.into(), to.into()) };
    let mut udp = [&frame[34..38], &[0, 8, 0, 0]].concat();
    let sum = checksum::pseudo4(SENDER4, to, protocol::UDP, 8).with(&udp).fold();
    udp[6..].copy_from_slice(&(!sum).to_be_bytes());
    let gre = [0, 0, 8, 0];
    Frame::of(&[&frame[..14], &outer.header(4 + 28), &gre, &inner.header(8), &udp].concat())
}

/// A frame that left, without the tunnel's header.
fn without_header(frame: &[u8]) -> Vec<u8> {
    [&frame[..14], &frame[14 + GRE..]].concat()
}

fn udp6(destination: u128) -> Frame {
    let ip = wire::ipv6::Repr::new(SENDER6.into(), destination.into());
    let ip = wire::ipv6::Repr { next_header: protocol::UDP, ..ip };
    let pseudo = checksum::pseudo6(SENDER6, destination, protocol::UDP, 8);
    let link =
        wire::ethernet::Repr { destination: ROUTER[0], source: HOST, ether_type: wire::ethernet::IPV6 };
    let udp = wire::udp::header(5000, 33434, &[], pseudo);
    Frame::of(&[&link.header()[..], &ip.header(8), &udp].concat())
}

/// A router, and what it forwards.
pub struct Rig {
    graph: Graph,
    entry: NodeId,
    context: SharedContext,
    sinks: Sinks,
    batch: Batch,
    /// The clock, and how often a batch has passed since it was looked at.
    clock: (u64, usize),
    reader: fib::Reader,
    _tables: Tables,
    frames: Vec<Frame>,
}

fn gateway(index: usize) -> Mac {
    Mac([2, 0, 0, 9, 9, index as u8])
}

/// The tables: the routes by 16 gateways behind the second port, and the sender behind the first.
fn tables(case: &Case, random: &mut Random) -> (Tables, Vec<Frame>) {
    // Invariant of all `expect`s here: a bench that cannot make its tables has nothing to measure.
    let mut tables = Tables::new(Capacity::default(), None).expect("tables");
    let flags =
        InterfaceFlags::UP | InterfaceFlags::QUEUE | InterfaceFlags::FORWARD4 | InterfaceFlags::FORWARD6;
    for (port, mac) in [IN, OUT].into_iter().zip(ROUTER) {
        let mut entry = InterfaceEntry::of_port(port, u32::from(port.0), 1500, mac.0, flags);
        if case.steered > 0 {
            entry.table = TableId::BY_RULES;
        }
        tables.set_interface(port.interface(), Some(entry)).expect("a port");
    }
    if case.tunnel != Way::Plain {
        tables.set_interface(TUNNEL, Some(tunnel())).expect("a tunnel");
    }
    let mut hop = |interface: InterfaceId, mac: Mac| -> NextHopId {
        let adjacency = tables.add_adjacency(&Adjacency { interface, mtu: 1500, mac: Some(mac.0) });
        let path = Path { adjacency: adjacency.expect("an adjacency"), weight: 1 };
        tables.add_next_hop(&NextHop::Forward(vec![path])).expect("a next hop")
    };
    let back = hop(IN.interface(), HOST);
    let far = hop(OUT.interface(), gateway(0));
    let hops: Vec<NextHopId> = match case.tunnel {
        Way::Out => (0..GATEWAYS).map(|_| hop(TUNNEL, Mac([0; 6]))).collect(),
        _ => (0..GATEWAYS).map(|index| hop(OUT.interface(), gateway(index))).collect(),
    };
    if case.tunnel != Way::Plain {
        let [local, remote] = ENDS.map(|end| IpNet::from(IpAddr::from(end)));
        let own = tables.add_next_hop(&NextHop::Local).expect("a next hop");
        tables.insert(TableId::MAIN, local, own).expect("room");
        tables.insert(TableId::MAIN, remote, far).expect("room");
    }
    tables.insert4("10.99.1.0/24".parse().expect("a prefix"), back).expect("room");
    tables.insert4("10.64.0.0/16".parse().expect("a prefix"), back).expect("room");
    tables.insert6("2001:db8:1::/64".parse().expect("a prefix"), back).expect("room");
    let frames = if case.version == 4 {
        let mut routes = ipv4(case.routes.max(1000), random);
        routes.truncate(case.routes);
        for (index, net) in routes.iter().enumerate() {
            match case.steered {
                0 => tables.insert4(*net, hops[index % GATEWAYS]).expect("room"),
                _ => tables.insert(STEERED, (*net).into(), hops[index % GATEWAYS]).expect("room"),
            };
        }
        let mut to = || inside4(routes[random.below(routes.len())], random);
        let frame = |(n, to)| {
            let sender = if case.own.is_some() { SENDERS + n } else { SENDER4 };
            match (case.tunnel, udp4(ROUTER[0], HOST, sender, to)) {
                (Way::In, frame) => enclosed(&frame, to),
                (_, frame) => Frame::of(&frame),
            }
        };
        (0..DESTINATIONS as u32).map(|n| frame((n, to()))).collect()
    } else {
        let mut routes = ipv6(case.routes.max(1000), random);
        routes.truncate(case.routes);
        for (index, net) in routes.iter().enumerate() {
            tables.insert6(*net, hops[index % GATEWAYS]).expect("room");
        }
        (0..DESTINATIONS).map(|_| udp6(inside6(routes[random.below(routes.len())], random))).collect()
    };
    tables.reclaim();
    (tables, frames)
}

fn policy(case: &Case) -> PolicySettings {
    let rules = match case.rules {
        Rules::None => String::new(),
        Rules::SixHundred => crate::rules::six_hundred(),
        Rules::Stateful => {
            "chain forward policy drop\naccept state established,related\naccept udp state new\n".to_owned()
        }
    };
    let filter = ::rules::Filter::read("bench", &rules, &mut |_| Err(std::io::ErrorKind::NotFound.into()));
    let nat = case.nat.then(|| {
        let dynamic = nat::Dynamic {
            ports: 1024..=65_535,
            pooling: nat::Pooling::default(),
            filtering: nat::Filtering::default(),
            hairpin: false,
            host_limit: None,
        };
        let rule = nat::Rule {
            name: "out".to_owned(),
            matches: nat::Match { output: vec!["out".to_owned()], ..nat::Match::default() },
            action: nat::Action::Masquerade(dynamic),
            fallback: None,
        };
        nat::Rules {
            capacity: 1 << 20,
            log: false,
            lowest_ipv6_mtu: nat::Rules::LOWEST_IPV6_MTU,
            rules: vec![rule],
            clamps: Vec::new(),
        }
    });
    PolicySettings {
        filter: filter.unwrap_or_else(|wrong| panic!("{wrong}")),
        nat,
        ..PolicySettings::default()
    }
}

/// Routing rules by sources, destinations, ports and the interface; the last one matches.
fn routing_rules(count: usize) -> Vec<RoutingRule> {
    let net = |n: usize| format!("10.{n}.0.0/16").parse().ok();
    let look = Action::Look { table: STEERED.0, longer: None };
    let other = |n: usize| match n % 4 {
        0 => Selector { from: net(n), ..Selector::ALL },
        1 => Selector { from: net(n), to: net(n + 100), ..Selector::ALL },
        2 => Selector { from: net(n), inputs: Some(vec![OUT.0]), ..Selector::ALL },
        _ => {
            let ports = [None, Some(Span { first: 1000 + n as u16, last: 1100 + n as u16 })];
            Selector { from: net(n), protocol: Some(protocol::TCP), ports, ..Selector::ALL }
        }
    };
    let last = Selector { from: "10.99.0.0/16".parse().ok(), ..Selector::ALL };
    let selectors = (0..count - 1).map(other).chain([last]);
    selectors.map(|selector| RoutingRule { selector, action: look }).collect()
}

/// The frames of `plane/v4/full`.
pub fn full() -> Vec<Frame> {
    tables(&FULL, &mut Random(SEED)).1
}

impl Rig {
    /// The router of `plane/v4/full`.
    pub fn full() -> Rig {
        Rig::new(&FULL)
    }

    fn new(case: &Case) -> Rig {
        let (tables, frames) = tables(case, &mut Random(SEED));
        let sources = Sources::new();
        let own = |n: u32| (TableId::MAIN, std::net::Ipv4Addr::from(0xac10_0000 + n * 257));
        sources.set_local4((0..case.own.unwrap_or_default()).map(own));
        let router_context = RouterContext::new(tables.view(), sources, 1);
        if case.steered > 0 {
            let six = RoutingRules::new(true, Vec::new());
            let four = RoutingRules::new(false, routing_rules(case.steered));
            router_context.steering.change([four, six].map(Arc::new));
        }
        let mut environment = standard::environment(router_context);
        // It carries nothing here, so it needs no room.
        let few = Capacity { ipv4: 1, ipv6: 1, next_hops: 1 };
        let mut driver = Driver::new(&few.sizes()).expect("the driver's programs");
        let policy = Policy::new(policy(case), 1, &mut driver, |_| Vec::new());
        let policy = policy.unwrap_or_else(|error| panic!("{error}"));
        policy.share(&mut environment);
        policy.translate(&[(IN, "in", [10, 99, 1, 1]), (OUT, "out", OUTSIDE)].map(|(id, name, address)| {
            nat::Port { number: id.0, name: name.to_owned(), addresses: vec![address.into()] }
        }));
        let context = policy.context(0).unwrap_or_else(|error| panic!("{error}"));
        environment.share(context.clone());
        let registry = elements::registry();
        let program = standard::program(&Hooks::default(), &policy.stages(), &registry, &environment);
        // Invariant: the router without hooks is right.
        let program = Arc::new(program.unwrap_or_else(|refusal| panic!("{refusal}")));
        let Standard { graph, entry } =
            standard::instance(&program, &environment).unwrap_or_else(|refusal| panic!("{refusal}"));
        let mut sinks = Sinks::new();
        [IN, OUT].into_iter().for_each(|port| sinks.open(port));
        let reader = tables.view().reader();
        Rig {
            graph,
            entry,
            context,
            sinks,
            batch: Batch::new(),
            clock: (graph::steady_now(), 0),
            reader,
            _tables: tables,
            frames,
        }
    }

    /// One batch from a queue, through the graph, to where it goes.
    #[inline]
    pub fn pass(&mut self, from: &mut dyn Queue, out: &mut dyn Queue) {
        self.batch.receive(from, BATCH);
        self.graph.run(self.entry, &mut self.batch, &mut self.sinks);
        self.sinks.transmit(|_, packets| {
            out.transmit(packets);
        });
        // As a worker does.
        let (now, rounds) = &mut self.clock;
        *rounds += 1;
        if *rounds == ::plane::CLOCK_EVERY {
            (*now, *rounds) = (graph::steady_now(), 0);
        }
        self.context.maintain(*now);
        self.reader.quiescent();
    }

    /// Sends every frame once, from `port`, and gives what left, each with its port.
    fn each_once(&mut self, frames: &[Frame], port: PortId) -> Vec<(PortId, Vec<u8>)> {
        let own = frames.to_vec();
        let write = move |number: u64, packet: &mut Packet| own[number as usize % own.len()].write(packet);
        let Some(mut source) = Prepared::new(port, RING, Fresh::Always, write) else {
            panic!("no packet memory")
        };
        let mut left = Vec::new();
        for _ in 0..frames.len() / BATCH {
            self.batch.receive(&mut source, BATCH);
            self.graph.run(self.entry, &mut self.batch, &mut self.sinks);
            self.sinks.transmit(|port, packets| {
                left.extend(packets.drain(..).map(|packet| (port, packet.to_vec())));
            });
            self.context.maintain(graph::steady_now());
            self.reader.quiescent();
        }
        left
    }
}

/// Whether a frame that has left is right.
pub fn right(frame: &[u8], way: PortId) -> bool {
    let (to, from) = (&frame[..6], &frame[6..12]);
    let outward = way == OUT && (0..GATEWAYS).any(|index| to == gateway(index).0) && from == ROUTER[1].0;
    let inward = way == IN && to == HOST.0 && from == ROUTER[0].0;
    let headers = wire::Headers::parse(&frame[14..]);
    let Ok(headers) = headers else { return false };
    let upper = &frame[14 + usize::from(headers.transport)..14 + usize::from(headers.length)];
    let pseudo = match headers.version {
        4 => {
            let address = |octets| u32::from_be_bytes(wire::headers::unmapped(octets).unwrap_or_default());
            let [source, destination] = [&headers.source, &headers.destination].map(address);
            checksum::pseudo4(source, destination, headers.protocol, upper.len() as u16)
        }
        _ => {
            let [source, destination] = [headers.source, headers.destination].map(u128::from_be_bytes);
            checksum::pseudo6(source, destination, headers.protocol, upper.len() as u32)
        }
    };
    let header = headers.version == 6 || checksum::verify(&frame[14..34]);
    (outward || inward) && headers.ttl == 63 && header && pseudo.with(upper).fold() == 0xffff
}

fn measure(ruler: &mut Ruler, case: &Case) {
    let buffers = if case.cold { DESTINATIONS } else { RING };
    Pool::heap(buffers + 2 * RING + 8 * BATCH).install();
    let mut rig = Rig::new(case);
    let frames = rig.frames.clone();
    // Twice: flows begin, and are answered, and are known.
    let left = rig.each_once(&frames, IN);
    assert_eq!(left.len(), frames.len(), "{}: frames are missing", case.name);
    let is_right = |way: PortId, frame: &[u8]| match case.tunnel {
        Way::Out => frame[23] == protocol::GRE && right(&without_header(frame), way),
        _ => right(frame, way),
    };
    assert!(
        left.iter().all(|(way, frame)| *way == OUT && is_right(*way, frame)),
        "{}: a frame is wrong",
        case.name
    );
    if case.nat || case.rules == Rules::Stateful {
        let answers: Vec<Frame> =
            left.iter().map(|(_, frame)| Frame::of(frame).answered(ROUTER[1])).collect();
        let back = rig.each_once(&answers, OUT);
        assert_eq!(back.len(), answers.len(), "{}: answers are missing", case.name);
        assert!(
            back.iter().all(|(way, frame)| *way == IN && right(frame, *way)),
            "{}: an answer is wrong",
            case.name
        );
    }
    drop(left);
    assert_eq!(rig.each_once(&frames, IN).len(), frames.len(), "{}: frames are missing", case.name);

    let fresh = if case.cold { Fresh::OnRewind } else { Fresh::Always };
    let own = frames.clone();
    let write = move |number: u64, packet: &mut Packet| own[number as usize % own.len()].write(packet);
    let Some(mut source) = Prepared::new(IN, buffers, fresh, write) else { panic!("no packet memory") };
    let mut out = source.sink(OUT);
    let mut batch: Vec<Packet> = Vec::with_capacity(BATCH);
    let (mut net, count) = (Vec::new(), BATCHES * BATCH);
    for sample in 0..=SAMPLES {
        let mut turn = |with: &mut dyn FnMut(&mut dyn Queue, &mut Sink)| {
            source.rewind();
            ticks(|| (0..BATCHES).for_each(|_| with(&mut source, &mut out))) as f64 / count as f64
        };
        let alone = turn(&mut |source, out| {
            source.receive(&mut batch, BATCH);
            out.transmit(&mut batch);
        });
        let routed = turn(&mut |source, out| rig.pass(source, out));
        // The first turn warms up.
        if sample > 0 {
            net.push(routed - alone);
        }
    }
    let counters = rig.graph.counters();
    counters.measure(true);
    source.rewind();
    (0..BATCHES).for_each(|_| rig.pass(&mut source, &mut out));
    counters.measure(false);
    let sent = out.counters().tx_packets;
    assert_eq!(sent, (2 * (SAMPLES as u64 + 1) + 1) * count as u64, "{}: frames are missing", case.name);
    ruler.record(case.name, TICK, net);
    let description = rig.graph.description();
    let of = |(id, node): (NodeId, &graph::NodeCounters)| {
        let each = node.cycles() as f64 / node.measured_packets() as f64;
        (node.measured_packets() > 0).then(|| format!("{} {each:.1}", description.nodes[id.0].name))
    };
    let parts: Vec<String> = counters.nodes().filter_map(of).collect();
    println!("  of which, with the reading of the clock: {}", parts.join(", "));
}
