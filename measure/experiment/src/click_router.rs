//! Click's IP router, the configuration of its paper, element by element.

use std::sync::{Arc, Mutex, PoisonError};

use fib::PortId;
use graph::language::Texts;
use graph::{
    BATCH, Batch, Class, Clock, Context, Element, Environment, Graph, Manner, NodeId, Program, Sinks,
};
use lab::prefixes::Random;
use port::{Fresh, Packet, Pool, Prepared, Queue, Sink};
use wire::checksum;

use crate::frames::Flow;
use crate::measure::{cycles, on_last_core};
use crate::memory::{self, Cost, How, RING, Router};
use crate::outcome::{Cell, Table};
use crate::ruleset::Judge;
use crate::{Experiment, ExperimentError, Outcome, Run};

pub const EXPERIMENT: Experiment = Experiment {
    name: "click-router",
    question: "How fast is the IP router of Click's paper, as it stands there?",
    source: "Click: 333 kpps on a Pentium III of 700 MHz (TOCS 2000); 1-2 Gb/s (lecture on RouteBricks)",
    needs_root: false,
    work,
};

/// The configuration: two interfaces, every element of the paper's figure. Frames come and go in
/// memory.
const ROUTER: &str = include_str!("click-router.click");
const DESTINATIONS: usize = 65_536;
/// Packets of a sample.
const STRETCH: usize = 16_384;

/// Where frames enter.
struct Begin;

const BEGIN: Class = Class {
    name: "Begin",
    ports: "1!/1",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("click_router.rs"),
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

/// Packets that are through.
#[derive(Default)]
struct Ends(Mutex<Vec<Packet>>);

/// Takes packets away, by a task of its own.
struct End {
    ends: Arc<Ends>,
    batch: Batch,
}

const END: Class = Class {
    name: "End",
    ports: "1/0",
    processing: "l/h",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("click_router.rs"),
    make: |arguments, setup| {
        arguments.finish()?;
        let ends = setup.environment.get::<Arc<Ends>>().ok_or(graph::arguments::Refused)?;
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

fn work(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    on_last_core(|| measure(run, outcome))
}

fn measure(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    let samples = run.either(61, 3);
    let mut random = Random(20_261_121);
    let flows: Vec<Flow> = (0..DESTINATIONS)
        .map(|_| Flow { destination: 0xc613_0000 | (random.below(0xffff) as u32 + 1), port: 5000 })
        .collect();
    let mut table =
        Table::new("64 bytes, one core", &["", "cycles a packet", "kpps", "Gb/s of 64-byte frames"]);
    table.row("then: Click in the kernel, Pentium III 700 MHz", ["".into(), 333.0.into(), 0.17.into()]);
    for (name, batches) in [("Click's router, packet at a time", false), ("Click's router, in batches", true)]
    {
        run.say(name);
        let cost = Click::new(batches)?.cost(&flows, samples)?;
        let kpps = cost.kpps();
        table.row(name, [cost.cycles, kpps, kpps * 512.0 / 1e6].map(Cell::from));
    }
    run.say("Bifrost's own router");
    let routes =
        ["198.18.0.0/15", "10.99.2.0/24"].iter().filter_map(|net| net.parse().ok()).collect::<Vec<_>>();
    let mut router = Router::new(&memory::tables(&routes)?.view(), Judge::Nothing)?;
    let cost = memory::cost(&mut router, &memory::frames(flows, &[64]), How::new(samples))?;
    table.row(
        "Bifrost's router, in batches",
        [cost.cycles, cost.kpps(), cost.kpps() * 512.0 / 1e6].map(Cell::from),
    );
    outcome.tables.push(table);
    outcome.note(format!(
        "All elements of the paper's figure, {DESTINATIONS} destinations behind one of its routes; frames come from memory, and go there by Queue. Making the packets is subtracted."
    ));
    Ok(())
}

/// Click's router, running.
struct Click {
    graph: Graph,
    entry: NodeId,
    ends: Arc<Ends>,
    sinks: Sinks,
    batch: Batch,
}

impl Click {
    fn new(batches: bool) -> Result<Click, ExperimentError> {
        let ends = Arc::new(Ends::default());
        let mut environment = Environment::new();
        environment.share(ends.clone());
        let mut registry = elements::registry();
        registry.add(&[&BEGIN, &END]);
        let mut texts = Texts::new();
        let text = texts.add("click-router", ROUTER);
        let program = Program::compile(texts, text, &[], &registry, &environment)?;
        let mut sinks = Sinks::new();
        let mut graph = program.start(&environment, Manner { batches, clock: Clock::real() }, &mut sinks)?;
        let told = graph.write_handler("arpq1.insert", "10.99.2.2 02:00:00:00:00:02", &mut sinks);
        told.map_err(|error| ExperimentError::Graph(error.to_string()))?;
        let entry = graph.description().find("begin0").map(|node| node.id);
        let entry = entry.ok_or_else(|| ExperimentError::Graph("the router has no begin0".to_owned()))?;
        Ok(Click { graph, entry, ends, sinks, batch: Batch::new() })
    }

    fn pass(&mut self, from: &mut dyn Queue, out: &mut Sink) {
        let count = self.batch.receive(from, BATCH);
        self.graph.run(self.entry, &mut self.batch, &mut self.sinks);
        let ends = || self.ends.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Packet at a time the tasks take one each turn.
        while self.graph.work(&mut self.sinks) && ends().len() < count {}
        out.transmit(&mut ends());
    }

    fn cost(&mut self, flows: &[Flow], samples: usize) -> Result<Cost, ExperimentError> {
        Pool::heap(2 * RING + 16 * BATCH).install();
        let frames = memory::frames(flows.to_vec(), &[64]);
        let source = || {
            let own = frames.clone();
            let write = move |number: u64, packet: &mut Packet| own.write(number, packet);
            Prepared::new(PortId(1), RING, Fresh::Always, write)
                .ok_or_else(|| ExperimentError::Machine("there is no memory for packets".to_owned()))
        };
        let (mut alone, mut routed) = (source()?, source()?);
        let (mut nowhere, mut out) = (alone.sink(PortId(2)), routed.sink(PortId(2)));
        out.check(|packet| {
            let frame = packet.data();
            frame[..6] == [2, 0, 0, 0, 0, 2] && frame[22] == 63 && checksum::verify(&frame[14..34])
        });
        (0..STRETCH / BATCH).for_each(|_| self.pass(&mut routed, &mut out));
        let wrong = out.wrong();
        out.count();
        let mut batch = Vec::with_capacity(BATCH);
        let net = memory::samples(samples, || {
            let making = cycles(|| {
                for _ in 0..STRETCH / BATCH {
                    alone.receive(&mut batch, BATCH);
                    nowhere.transmit(&mut batch);
                }
            });
            let all = cycles(|| (0..STRETCH / BATCH).for_each(|_| self.pass(&mut routed, &mut out)));
            (all - making) / STRETCH as f64
        })?;
        let (came, left) = (routed.counters().rx_packets, out.counters().tx_packets);
        if wrong > 0 || came != left {
            let said = format!("of {came} frames {left} left Click's router, {wrong} of them wrong");
            return Err(ExperimentError::Wrong(said));
        }
        Ok(Cost::of(&net))
    }
}
