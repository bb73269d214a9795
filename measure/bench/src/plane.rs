//! What forwarding costs: the whole standard router graph, from a port in memory to a port in
//! memory, on one core.
//!
//! 64-byte packets (60 bytes and their check sequence) to 65,536 destinations in random order
//! inside the table, or as many flows. Each batch is written into a ring of 1,024 buffers, as other
//! routers' generators do, and what receiving and sending cost without a router between them,
//! measured in turns with it, is subtracted; it is not from `plane/whole/...`.
//!
//! - `full-cold`: the frames lie in 65,536 buffers of their own, and in no cache: they were put out
//!   of all of them after they had been written. So a NIC leaves them that writes to memory only.
//! - `vlan`, `qinq`: frames come and leave with one tag and with two; `vrf-N`: by so many VLANs,
//!   each in a VRF of its own.
//! - `own-N`: the router has so many addresses of its own, and each frame has a sender of its own.
//! - `urpf`: sources are asked for strictly; `hook`: a counter stands at a hook; `sflow`: one
//!   packet in 1,000 is kept; `flows`: all flows are known, for the flow log.
//! - `burst-N`: so many packets come at once.
//! - `imix`: frames of 64, 594 and 1,518 bytes; `mixed`: besides both ways, TCP and UDP.
//!
//! Before anything is timed every frame that leaves is looked at: TTL, checksums, addresses of both
//! links, port; none may be missing.

mod case;
mod frame;
mod tables;

use std::sync::Arc;

use ::plane::{Policy, PolicySettings};
use ::rules::RoutingRules;
use elements::router::standard::{self, Hooks, Standard};
use elements::router::{RouterContext, Sampling, SharedContext, Sources};
use fib::{Capacity, PortId, TableId, Tables};
use graph::{BATCH, Batch, Graph, NodeId, Sinks};
use lab::prefixes::Random;
use port::prepared::{Fresh, Prepared, Sink};
use port::{Driver, Packet, Pool, Queue};

use crate::ruler::{Ruler, TICK, evict, ticks, ticks_per_second};
use case::{Besides, CASES, Case, FULL, Rules, Way};
pub use frame::{Frame, right};
use frame::{ROUTER, right_in_tunnel, right_with_tags};
use tables::{DESTINATIONS, Frames, routing_rules, tables};

/// Buffers of the generator's ring.
const RING: usize = 1024;
const SEED: u64 = 20_261_121;
/// Packets of a sample.
const PACKETS: usize = 65_536;
const SAMPLES: usize = 41;

pub const IN: PortId = PortId(1);
pub const OUT: PortId = PortId(2);
/// The address of the router's port to the outside.
const OUTSIDE: [u8; 4] = [10, 99, 2, 1];

/// All benches of the family.
pub fn run(ruler: &mut Ruler) {
    for case in &CASES {
        if ruler.wants(case.name) {
            measure(ruler, case);
        }
    }
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
    frames: Frames,
    /// Packets that are received at once.
    burst: usize,
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
        vec![rule].into()
    });
    PolicySettings {
        filter: filter.unwrap_or_else(|wrong| panic!("{wrong}")),
        nat,
        flows: (case.besides == Besides::Flows).then(flow::Settings::default),
        sampling: (case.besides == Besides::Samples).then(|| {
            // Nobody fetches them: what has no room is lost, as in a router.
            Sampling::new(|ifindex| flow::sample::Sampler::new(ifindex, 1000, 128, SEED).0)
        }),
        ..PolicySettings::default()
    }
}

/// The frames of `plane/v4/full`.
pub fn full() -> Vec<Frame> {
    let [frames, _] = tables(&FULL, &mut Random(SEED)).1;
    frames
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
        sources.set_local4((0..case.own).map(own));
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
        let counter = match case.besides {
            Besides::Hook => "input -> Counter -> output".to_owned(),
            _ => String::new(),
        };
        let hooks = Hooks { forward: counter, ..Hooks::default() };
        let program = standard::program(&hooks, &policy.stages(), &registry, &environment);
        // Invariant: the router is right, and so is what stands at the hook.
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
            burst: case.burst,
        }
    }

    /// One batch from a queue, through the graph, to where it goes.
    #[inline]
    pub fn pass(&mut self, from: &mut dyn Queue, out: &mut dyn Queue) {
        self.batch.receive(from, self.burst);
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

/// A port and its frames, whose buffers come home by the sink.
struct Line<F> {
    source: Prepared<F>,
    sink: Sink,
}

/// The lines by which the frames of a load come in.
fn lines(case: &Case, frames: &Frames) -> Vec<Line<impl FnMut(u64, &mut Packet) + Send + use<>>> {
    let (buffers, fresh) = if case.cold { (DESTINATIONS, Fresh::OnRewind) } else { (RING, Fresh::Always) };
    let cold = case.cold;
    let line = |(frames, port): (&Vec<Frame>, [PortId; 2])| {
        let own = frames.clone();
        let write = move |number: u64, packet: &mut Packet| {
            own[number as usize % own.len()].write(packet);
            if cold {
                evict(packet.data());
            }
        };
        // Invariant: the pool was made for so many.
        let source = Prepared::new(port[0], buffers, fresh, write).expect("packet memory");
        let sink = source.sink(port[1]);
        Line { source, sink }
    };
    let lines = frames.iter().zip([[IN, OUT], [OUT, IN]]);
    lines.filter(|(frames, _)| !frames.is_empty()).map(line).collect()
}

/// Sends all frames several times, so that flows begin, are answered, and are known; looks at all
/// that leaves.
fn warm_up(rig: &mut Rig, case: &Case, frames: &Frames) {
    let check = |left: &[(PortId, Vec<u8>)], frames: &[Frame], to: PortId| {
        assert_eq!(left.len(), frames.len(), "{}: frames are missing", case.name);
        let tags = case.trunk.tags().first().map_or(0, |tags| tags.bytes().len());
        let is_right = |way: PortId, frame: &[u8], sent: &Frame| match case.tunnel {
            Way::Out => right_in_tunnel(frame, way),
            _ => right_with_tags(frame, sent, tags, way),
        };
        let mut pairs = left.iter().zip(frames);
        let all = pairs.all(|((way, frame), sent)| *way == to && is_right(*way, frame, sent));
        assert!(all, "{}: a frame is wrong", case.name);
    };
    for (frames, [from, to]) in frames.iter().zip([[IN, OUT], [OUT, IN]]) {
        let left = rig.each_once(frames, from);
        check(&left, frames, to);
        if case.nat || case.rules == Rules::Stateful || case.besides == Besides::Flows {
            let answers: Vec<Frame> =
                left.iter().map(|(_, frame)| Frame::of(frame).answered(ROUTER[1])).collect();
            check(&rig.each_once(&answers, to), &answers, from);
        }
        drop(left);
        assert_eq!(rig.each_once(frames, from).len(), frames.len(), "{}: frames are missing", case.name);
    }
}

fn measure(ruler: &mut Ruler, case: &Case) {
    if case.cold && !crate::ruler::CAN_EVICT {
        return eprintln!("{}: not measured: frames cannot be put out of this processor's caches", case.name);
    }
    let buffers = if case.cold { DESTINATIONS } else { 2 * RING };
    Pool::heap(buffers + 2 * RING + 8 * BATCH).install();
    let mut rig = Rig::new(case);
    let frames = rig.frames.clone();
    warm_up(&mut rig, case, &frames);

    let mut lines = lines(case, &frames);
    let mut batch: Vec<Packet> = Vec::with_capacity(BATCH);
    let (mut spent, rounds) = (Vec::new(), PACKETS / case.burst / lines.len());
    let count = (rounds * case.burst * lines.len()) as u64;
    for sample in 0..=SAMPLES {
        let mut turn = |with: &mut dyn FnMut(&mut dyn Queue, &mut Sink)| {
            lines.iter_mut().for_each(|line| line.source.rewind());
            let all = || {
                for _ in 0..rounds {
                    lines.iter_mut().for_each(|line| with(&mut line.source, &mut line.sink));
                }
            };
            ticks(all) as f64 / count as f64
        };
        let alone = turn(&mut |source, out| {
            source.receive(&mut batch, case.burst);
            out.transmit(&mut batch);
        });
        let routed = turn(&mut |source, out| rig.pass(source, out));
        // The first turn warms up.
        if sample > 0 {
            spent.push(if case.whole { routed } else { routed - alone });
        }
    }
    let counters = rig.graph.counters();
    counters.measure(true);
    for line in &mut lines {
        line.source.rewind();
        (0..rounds).for_each(|_| rig.pass(&mut line.source, &mut line.sink));
    }
    counters.measure(false);
    let sent: u64 = lines.iter().map(|line| line.sink.counters().tx_packets).sum();
    assert_eq!(sent, (2 * (SAMPLES as u64 + 1) + 1) * count, "{}: frames are missing", case.name);
    if let Some(name) = case.rate {
        let frames: Vec<&Frame> = frames.iter().flatten().collect();
        let bits = frames.iter().map(|frame| frame.bits()).sum::<usize>() as f64 / frames.len() as f64;
        let second = ticks_per_second().unwrap_or(1e9);
        ruler.record(name, "Gbit/s", spent.iter().map(|spent| bits * second / spent / 1e9).collect());
    }
    ruler.record(case.name, TICK, spent);
    let description = rig.graph.description();
    let of = |(id, node): (NodeId, &graph::NodeCounters)| {
        let each = node.cycles() as f64 / node.measured_packets() as f64;
        (node.measured_packets() > 0).then(|| format!("{} {each:.1}", description.nodes[id.0].name))
    };
    let parts: Vec<String> = counters.nodes().filter_map(of).collect();
    println!("  of which, with the reading of the clock: {}", parts.join(", "));
}
