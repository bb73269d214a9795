//! What a copy costs: packets to groups, each of which leaves by eight ports, through the standard
//! router graph.
//!
//! 64-byte packets (60 bytes and their check sequence) of 1,024 sources and groups in random order.
//! What receiving a packet and sending it once cost without a router between them, measured in
//! turns with it, is subtracted; what is left is shared out among the eight copies. So making a
//! copy, sending it and giving back its memory is all in it.

use crate::frames::udp4;
use crate::plane::IN;
use crate::ruler::{Ruler, TICK, ticks};
use elements::router::standard::{self, Hooks, Stages, Standard};
use elements::router::{RouterContext, Sources};
use fib::{
    Capacity, GroupCount, GroupEntry, Groups, InterfaceEntry, InterfaceFlags, Leaving, PortId, Tables,
};
use graph::{BATCH, Batch, Sinks};
use lab::prefixes::Random;
use port::prepared::{Fresh, Prepared, Sink};
use port::{Packet, Pool, Queue};
use std::cell::Cell;
use std::net::Ipv4Addr;
use std::sync::Arc;
use wire::Mac;

const NAME: &str = "plane/v4/multicast-8";
const COPIES: u16 = 8;
const STREAMS: usize = 1024;
const RING: usize = 1024;
const BATCHES: usize = 512;
const SAMPLES: usize = 41;
/// Time that stands still: Linux is shown nothing.
const NOW: u64 = 0;

fn stream(number: usize) -> [Ipv4Addr; 2] {
    [0x0a63_0102 + number as u32 % 32, 0xefc0_0000 + number as u32].map(Ipv4Addr::from)
}

/// The bench.
pub fn run(ruler: &mut Ruler) {
    if !ruler.wants(NAME) {
        return;
    }
    Pool::heap(2 * RING + 2 * usize::from(COPIES) * BATCH).install();
    let few = Capacity { ipv4: 16, ipv6: 16, next_hops: 16 };
    // Invariant of all `expect`s here: a bench that cannot make its tables has nothing to measure.
    let mut tables = Tables::new(few, None).expect("tables");
    let flags = InterfaceFlags::UP | InterfaceFlags::QUEUE | InterfaceFlags::FORWARD4;
    let out: Vec<PortId> = (1..=COPIES).map(|n| PortId(IN.0 + n)).collect();
    let mut sinks = Sinks::new();
    for port in out.iter().chain([&IN]) {
        let mac = [2, 0, 0, 0, 1, port.0 as u8];
        let entry = InterfaceEntry::of_port(*port, u32::from(port.0), 1500, mac, flags);
        tables.set_interface(port.interface(), Some(entry)).expect("a port");
        sinks.open(*port);
    }
    let context = RouterContext::new(tables.view(), Sources::new(), 1);
    let counts: Vec<Arc<GroupCount>> = (0..STREAMS).map(|_| Arc::default()).collect();
    let entry = |(number, count): (usize, &Arc<GroupCount>)| {
        let [source, group] = stream(number);
        count.is_due(NOW);
        let outputs = out.iter().map(|port| Leaving { interface: port.interface(), threshold: 1 });
        GroupEntry {
            source: source.into(),
            group: group.into(),
            inputs: vec![IN.interface()],
            outputs: outputs.collect(),
            count: count.clone(),
        }
    };
    context.multicast.change(Groups::new(counts.iter().enumerate().map(entry)));
    let environment = standard::environment(context);
    let stages = Stages { fast: true, ..Stages::default() };
    let program = standard::program(&Hooks::default(), &stages, &elements::registry(), &environment);
    let program = program.unwrap_or_else(|refusal| panic!("{refusal}"));
    let manner = graph::Manner { clock: graph::Clock::simulated(0), ..Default::default() };
    let graph = program.instantiate(&environment, manner).unwrap_or_else(|refusal| panic!("{refusal}"));
    let Standard { mut graph, entry } = Standard::of(graph);

    let mut random = Random(20_261_126);
    let frames: Vec<_> = (0..65_536)
        .map(|_| {
            let [source, group] = stream(random.below(STREAMS)).map(u32::from);
            let mac = Mac([1, 0, 0x5e, (group >> 16) as u8 & 0x7f, (group >> 8) as u8, group as u8]);
            udp4(mac, Mac([2, 0, 0, 0, 0, 1]), source, group)
        })
        .collect();
    let own = frames.clone();
    let write = move |number: u64, packet: &mut Packet| {
        let frame = &own[number as usize % own.len()];
        packet.reset(frame.len());
        packet.data_mut().copy_from_slice(frame);
    };
    let Some(mut source) = Prepared::new(IN, RING, Fresh::Always, write) else { panic!("no packet memory") };
    // By the last port leaves the packet itself, which comes round again.
    let last = out[out.len() - 1];
    let mut sink = source.sink(last);
    let (mut batch, mut packets) = (Batch::new(), Vec::with_capacity(BATCH));
    let copies = Cell::new(0);
    let reader = tables.view().reader();
    let mut pass = |from: &mut dyn Queue, to: &mut Sink| {
        batch.receive(from, BATCH);
        graph.run(entry, &mut batch, &mut sinks);
        sinks.transmit(|port, packets| {
            if port == last {
                to.transmit(packets);
            } else {
                copies.set(copies.get() + packets.len() as u64);
                packets.clear();
            }
        });
        reader.quiescent();
    };
    let (mut net, count) = (Vec::new(), BATCHES * BATCH);
    for sample in 0..=SAMPLES {
        source.rewind();
        let mut alone = || {
            source.receive(&mut packets, BATCH);
            sink.transmit(&mut packets);
        };
        let alone = ticks(|| (0..BATCHES).for_each(|_| alone())) as f64;
        source.rewind();
        let before = (sink.counters().tx_packets, copies.get());
        let routed = ticks(|| (0..BATCHES).for_each(|_| pass(&mut source, &mut sink))) as f64;
        let sent = [sink.counters().tx_packets - before.0, copies.get() - before.1];
        let all = [1, u64::from(COPIES) - 1].map(|each| each * count as u64);
        assert_eq!(sent, all, "{NAME}: copies are missing");
        // The first turn warms up.
        if sample > 0 {
            net.push((routed - alone) / count as f64 / f64::from(COPIES));
        }
    }
    ruler.record(NAME, TICK, net);
}
