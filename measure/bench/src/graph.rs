//! The graph: what the framework costs, Click's IP router, and the standard router beside the same
//! steps in a loop.
//!
//! Packets are the same few hundred, written anew for every pass (see [`crate::frames`]). What that
//! writing costs is measured in turns with the router and subtracted from `graph/click-router`; its
//! rate and the standard router's figures contain it. `graph/write` is what it costs alone.

use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};

use crate::frames::{FRAME, Frames, udp4};
use crate::ruler::{Ruler, TICK, ticks};
use elements::router::standard::{self, Hooks, Stages, Standard};
use elements::router::{
    CheckIpHeader4, Classify, DecrementTtl4, Lookup4, Mtu4, Redirect, ReversePath4, Rewrite, RouterContext,
    Sources, Transmit, V4,
};
use fib::{Adjacency, Capacity, InterfaceEntry, InterfaceFlags, NextHop, Path, PortId, Tables};
use graph::arguments::Refused;
use graph::language::Texts;
use graph::{BATCH, Batch, Class, Context, Direct, Element, Environment, Manner, Program, Sinks, null_chain};
use lab::prefixes::Random;
use port::Packet;
use wire::Mac;

/// Packets that go round: more than a batch, few enough to stay in the cache, as a port's ring
/// does.
const PACKETS: usize = 2 * BATCH;
/// Destinations, in random order.
const DESTINATIONS: usize = 65_536;
/// Batches in a sample.
const BATCHES: usize = 512;
const SAMPLES: usize = 41;

const ROUTER_1: Mac = Mac([2, 0, 0, 0, 1, 1]);
const ROUTER_2: Mac = Mac([2, 0, 0, 0, 1, 2]);
const HOST_1: Mac = Mac([2, 0, 0, 0, 0, 1]);
const HOST_2: Mac = Mac([2, 0, 0, 0, 0, 2]);

/// All benches of the family.
pub fn run(ruler: &mut Ruler) {
    if !ruler.wants_family("graph/") {
        return;
    }
    if ruler.wants("graph/null-element") {
        let samples = (0..9).map(|_| null_chain(200, false)).collect();
        ruler.record("graph/null-element", TICK, samples);
    }
    if ruler.wants("graph/split-join") {
        let samples = (0..9).map(|_| null_chain(200, true)).collect();
        ruler.record("graph/split-join", TICK, samples);
    }
    if ruler.wants("graph/write") {
        write(ruler);
    }
    if ruler.wants("graph/click-router") || ruler.wants("graph/click-router-rate") {
        click_router(ruler);
    }
    if ruler.wants("graph/standard") || ruler.wants("graph/standard-direct") {
        standard_router(ruler);
    }
}

/// Frames from host 1 through router port 1 to destinations inside 198.18.0.0/15 but the two hosts'
/// own networks.
fn frames() -> Vec<[u8; FRAME]> {
    let mut random = Random(20261121);
    (0..DESTINATIONS)
        .map(|_| {
            let destination = 0xc613_0000 | (random.below(0xffff) as u32 + 1);
            udp4(ROUTER_1, HOST_1, 0x0a63_0102, destination)
        })
        .collect()
}

fn write(ruler: &mut Ruler) {
    let (mut frames, mut batch) = (Frames::new(frames(), PACKETS), Batch::new());
    ruler.cycles("graph/write", BATCHES * BATCH, SAMPLES, || {
        (0..BATCHES).for_each(|_| write_batch(&mut frames, &mut batch));
    });
}

/// What a pass costs without a router.
fn write_batch(frames: &mut Frames, batch: &mut Batch) {
    frames.fill(batch, PortId(1));
    black_box(batch.packets_mut());
    frames.take_back(batch.drain());
}

/// Where packets of the Click router end: what a port's transmit ring would be.
#[derive(Default)]
struct Ends(Mutex<Vec<Packet>>);

/// Takes packets away, by its own task.
struct End {
    ends: Arc<Ends>,
    batch: Batch,
}

const END: Class = Class {
    name: "End",
    ports: "1/0",
    processing: "l/h",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("graph.rs"),
    make: |arguments, setup| {
        arguments.finish()?;
        let ends = setup.environment.get::<Arc<Ends>>().ok_or(Refused)?;
        Ok(Box::new(End { ends: Arc::clone(&ends), batch: Batch::new() }))
    },
};

impl Element for End {
    fn class(&self) -> &'static str {
        "End"
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn task(&mut self, cx: &mut Context<'_>) -> bool {
        cx.schedule();
        let pulled = cx.pull(0, BATCH, &mut self.batch);
        self.ends.0.lock().unwrap_or_else(PoisonError::into_inner).extend(self.batch.drain());
        pulled > 0
    }
}

/// Where frames enter: what FromDevice would be.
struct Begin;

const BEGIN: Class = Class {
    name: "Begin",
    ports: "1!/1",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("graph.rs"),
    make: |arguments, _| {
        arguments.finish()?;
        Ok(Box::new(Begin))
    },
};

impl Element for Begin {
    fn class(&self) -> &'static str {
        "Begin"
    }
}

/// Click's IP router with two interfaces, as in the paper: what differs is where packets come from
/// and go to.
const CLICK_ROUTER: &str = "\
c0, c1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
out0, out1 :: Queue(1024);
begin0 :: Begin -> c0;
begin1 :: Begin -> c1;
out0 -> End;
out1 -> End;

arpq0 :: ARPQuerier(10.99.1.1, 02:00:00:00:01:01);
arpq1 :: ARPQuerier(10.99.2.1, 02:00:00:00:01:02);
c0[0] -> ARPResponder(10.99.1.1 02:00:00:00:01:01) -> out0;
c1[0] -> ARPResponder(10.99.2.1 02:00:00:00:01:02) -> out1;
c0[1] -> [1]arpq0;
c1[1] -> [1]arpq1;
arpq0 -> out0;
arpq1 -> out1;

rt :: StaticIPLookup(10.99.1.1/32 0, 10.99.1.255/32 0, 10.99.1.0/32 0, 10.99.2.1/32 0, 10.99.2.255/32 0,
  10.99.2.0/32 0, 10.99.1.0/24 1, 10.99.2.0/24 2, 255.255.255.255/32 0.0.0.0 0, 0.0.0.0/32 0,
  0.0.0.0/0 10.99.2.2 2);

ip :: Strip(14) -> CheckIPHeader(INTERFACES 10.99.1.1/24 10.99.2.1/24) -> [0]rt;
c0[2] -> Paint(1) -> ip;
c1[2] -> Paint(2) -> ip;
rt[0] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Discard;
c0[3] -> Discard;
c1[3] -> Discard;

rt[1] -> DropBroadcasts -> cp0 :: PaintTee(1) -> gio0 :: IPGWOptions(10.99.1.1) -> FixIPSrc(10.99.1.1)
  -> dt0 :: DecIPTTL -> fr0 :: IPFragmenter(1500) -> [0]arpq0;
rt[2] -> DropBroadcasts -> cp1 :: PaintTee(2) -> gio1 :: IPGWOptions(10.99.2.1) -> FixIPSrc(10.99.2.1)
  -> dt1 :: DecIPTTL -> fr1 :: IPFragmenter(1500) -> [0]arpq1;

dt0[1] -> ICMPError(10.99.1.1, timeexceeded) -> [0]rt;
dt1[1] -> ICMPError(10.99.2.1, timeexceeded) -> [0]rt;
fr0[1] -> ICMPError(10.99.1.1, unreachable, needfrag) -> [0]rt;
fr1[1] -> ICMPError(10.99.2.1, unreachable, needfrag) -> [0]rt;
gio0[1] -> ICMPError(10.99.1.1, parameterproblem) -> [0]rt;
gio1[1] -> ICMPError(10.99.2.1, parameterproblem) -> [0]rt;
cp0[1] -> ICMPError(10.99.1.1, redirect, host) -> [0]rt;
cp1[1] -> ICMPError(10.99.2.1, redirect, host) -> [0]rt;
";

fn click_router(ruler: &mut Ruler) {
    let ends = Arc::new(Ends::default());
    let mut environment = Environment::new();
    environment.share(ends.clone());
    let mut registry = elements::registry();
    registry.add(&[&BEGIN, &END]);
    let mut texts = Texts::new();
    let text = texts.add("click-router", CLICK_ROUTER);
    let program = Program::compile(texts, text, &[], &registry, &environment);
    let mut sinks = Sinks::new();
    // Invariant: the configuration above is right, or there is nothing to measure.
    let mut graph = program
        .and_then(|program| program.start(&environment, Manner::default(), &mut sinks))
        .unwrap_or_else(|refusal| panic!("{refusal}"));
    graph.write_handler("arpq1.insert", "10.99.2.2 02:00:00:00:00:02", &mut sinks).expect("an ARP entry");
    let entry = graph.description().find("begin0").expect("where frames enter").id;

    let (mut frames, mut batch) = (Frames::new(frames(), PACKETS), Batch::new());
    let pass = |frames: &mut Frames, graph: &mut graph::Graph, sinks: &mut Sinks, batch: &mut Batch| {
        frames.fill(batch, PortId(1));
        graph.run(entry, batch, sinks);
        graph.work(sinks);
        frames.take_back(ends.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..));
    };
    // What leaves is looked at once, outside what is timed.
    frames.fill(&mut batch, PortId(1));
    graph.run(entry, &mut batch, &mut sinks);
    graph.work(&mut sinks);
    let sent = std::mem::take(&mut *ends.0.lock().unwrap_or_else(PoisonError::into_inner));
    assert_eq!(sent.len(), BATCH, "every packet of the batch left");
    sent.iter().for_each(|packet| verify(packet, HOST_2, ROUTER_2));
    frames.take_back(sent.into_iter());

    let (mut net, mut rates) = (Vec::new(), Vec::new());
    let each = |ticks: u64| ticks as f64 / (BATCHES * BATCH) as f64;
    for _ in 0..SAMPLES {
        let writing = each(ticks(|| (0..BATCHES).for_each(|_| write_batch(&mut frames, &mut batch))));
        let routing = each(ticks(|| {
            (0..BATCHES).for_each(|_| pass(&mut frames, &mut graph, &mut sinks, &mut batch));
        }));
        net.push(routing - writing);
        rates.push(crate::ruler::ticks_per_second().unwrap_or(1e9) / routing / 1e6);
    }
    assert_eq!(frames.len(), PACKETS, "no packet was lost");
    ruler.record("graph/click-router", TICK, net);
    ruler.record("graph/click-router-rate", "Mpps", rates);
}

/// What a router must have done to one of [`frames`].
fn verify(packet: &Packet, to: Mac, from: Mac) {
    let bytes = packet.data();
    assert_eq!((&bytes[..6], &bytes[6..12]), (&to.0[..], &from.0[..]), "the next hop's header");
    assert_eq!(bytes[22], 63, "TTL");
    assert!(wire::checksum::verify(&bytes[14..34]), "header checksum");
}

/// Tables with a few routes, and two ports.
fn tables() -> Tables {
    // Invariant of all `expect`s here: a bench that cannot make its tables has nothing to measure.
    let mut tables = Tables::new(Capacity { ipv4: 1000, ipv6: 10, next_hops: 64 }, None).expect("tables");
    let flags =
        InterfaceFlags::UP | InterfaceFlags::QUEUE | InterfaceFlags::FORWARD4 | InterfaceFlags::FORWARD6;
    for (port, mac) in [(1, ROUTER_1), (2, ROUTER_2)] {
        let entry = InterfaceEntry::of_port(PortId(port), u32::from(port), 1500, mac.0, flags);
        tables.set_interface(PortId(port).interface(), Some(entry)).expect("a port");
    }
    let adjacency = Adjacency { interface: fib::InterfaceId(2), mtu: 1500, mac: Some(HOST_2.0) };
    let adjacency = tables.add_adjacency(&adjacency).expect("an adjacency");
    let hop = NextHop::Forward(vec![Path { adjacency, weight: 1 }]);
    let hop = tables.add_next_hop(&hop).expect("a next hop");
    let prefixes = ["0.0.0.0/0", "10.99.2.0/24", "198.19.0.0/16"].map(String::from).into_iter();
    for prefix in prefixes.chain((0..13).map(|i| format!("198.19.{}.0/20", i * 16))) {
        tables.insert4(prefix.parse().expect("a prefix"), hop).expect("room");
    }
    tables
}

/// The standard router graph, and the same steps for plain IPv4 called one after the other; in
/// turns, so that the machine is the same for both.
fn standard_router(ruler: &mut Ruler) {
    let tables = tables();
    let sources = Sources::new();
    let router_context = RouterContext::new(tables.view(), sources.clone(), 1);
    let environment = standard::environment(router_context.clone());
    // Invariant: the router without hooks is right.
    let program =
        standard::program(&Hooks::default(), &Stages::default(), &elements::registry(), &environment)
            .unwrap_or_else(|refusal| panic!("{refusal}"));
    let Standard { mut graph, entry } =
        standard::instance(&program, &environment).unwrap_or_else(|refusal| panic!("{refusal}"));
    let view = tables.view();
    let reader = view.reader();
    let mut steps = (
        Classify::new(view.clone()),
        CheckIpHeader4::new(sources),
        Lookup4::new(&router_context, None),
        ReversePath4::new(&router_context, None),
        Redirect::<V4>::new(),
        Mtu4::new(view.clone()),
        DecrementTtl4::new(),
        Rewrite::new(view.clone()),
        Transmit::new(view.clone()),
    );
    let mut direct = Direct::new();
    let mut sinks = Sinks::new();
    sinks.open(PortId(2));
    let (mut frames, mut batch) = (Frames::new(frames(), PACKETS), Batch::new());
    let (mut by_graph, mut by_hand) = (Vec::new(), Vec::new());
    for sample in 0..=SAMPLES {
        let spent = ticks(|| {
            for _ in 0..BATCHES {
                frames.fill(&mut batch, PortId(1));
                graph.run(entry, &mut batch, &mut sinks);
                sinks.transmit(|_, packets| frames.take_back(packets.drain(..)));
            }
        });
        by_graph.push(spent as f64 / (BATCHES * BATCH) as f64);
        let spent = ticks(|| {
            for _ in 0..BATCHES {
                frames.fill(&mut batch, PortId(1));
                direct.call(&mut steps.0, &mut batch, &mut sinks);
                direct.call(&mut steps.1, &mut batch, &mut sinks);
                direct.call(&mut steps.2, &mut batch, &mut sinks);
                direct.call(&mut steps.3, &mut batch, &mut sinks);
                direct.call(&mut steps.4, &mut batch, &mut sinks);
                direct.call(&mut steps.5, &mut batch, &mut sinks);
                direct.call(&mut steps.6, &mut batch, &mut sinks);
                direct.call(&mut steps.7, &mut batch, &mut sinks);
                direct.call(&mut steps.8, &mut batch, &mut sinks);
                sinks.transmit(|_, packets| frames.take_back(packets.drain(..)));
            }
        });
        by_hand.push(spent as f64 / (BATCHES * BATCH) as f64);
        reader.quiescent();
        if sample == 0 {
            // The first pass warms up, and is looked at.
            frames.fill(&mut batch, PortId(1));
            graph.run(entry, &mut batch, &mut sinks);
            let mut sent = 0;
            sinks.transmit(|port, packets| {
                assert_eq!(port, PortId(2));
                packets.iter().for_each(|packet| verify(packet, HOST_2, ROUTER_2));
                sent += packets.len();
                frames.take_back(packets.drain(..));
            });
            assert_eq!(sent, BATCH, "every packet of the batch left");
            by_graph.clear();
            by_hand.clear();
        }
    }
    assert_eq!(frames.len(), PACKETS, "no packet was lost");
    ruler.record("graph/standard", TICK, by_graph);
    ruler.record("graph/standard-direct", TICK, by_hand);
}
