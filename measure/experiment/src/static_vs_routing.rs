//! Packets moved from port to port without a look at them, and packets routed: small ones and a
//! mix.

use graph::BATCH;
use lab::prefixes::{Random, ipv4};
use port::{Fresh, Packet, Pool, Prepared, Queue};

use crate::frames::{FCS, Frames, MIX, flows_inside};
use crate::load::sizes;
use crate::measure::{cycles, on_last_core};
use crate::memory::{self, Cost, How, RING, Router};
use crate::outcome::{Cell, Table};
use crate::ruleset::Judge;
use crate::{Experiment, ExperimentError, Outcome, Run};

pub const EXPERIMENT: Experiment = Experiment {
    name: "static-vs-routing",
    question: "What does IP routing cost beside plain moving of packets, for small ones and for a mix?",
    source: "RouteBricks 2009: 8 cores of 2.8 GHz, about 300,000 routes",
    needs_root: false,
    work,
};

/// Routes, as there.
const ROUTES: usize = 300_000;
/// Packets of a sample.
const STRETCH: usize = 65_536;

fn work(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    on_last_core(|| measure(run, outcome))
}

fn measure(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    let samples = run.either(41, 3);
    let mut random = Random(20_261_121);
    let routes = ipv4(run.either(ROUTES, 2000), &mut random);
    let tables = memory::tables(&routes)?;
    let flows = flows_inside(&routes, STRETCH, &mut random);
    let mut table = Table::new(
        "one core here, 8 cores there; Gb/s of frame bits, as the paper counts",
        &["", "then, Gb/s", "then, Mpps", "now, Mpps a core", "now, Gb/s a core", "cycles a packet"],
    );
    for (name, mix, published) in
        [("64 bytes", "64", [("9.7", "18.96"), ("6.35", "12.4")]), ("mix", MIX, [("36.5", ""), ("36.5", "")])]
    {
        run.say(name);
        let frames = memory::frames(flows.clone(), &sizes(mix)?.cycle());
        let moved = moving(&frames, samples)?;
        let mut router = Router::new(&tables.view(), Judge::Nothing)?;
        let routed = memory::cost(&mut router, &frames, How::new(samples))?;
        // Routing comes on top of what moving takes; a port's own work is in both.
        let routed = Cost {
            cycles: routed.cycles + moved.cycles,
            nanoseconds: routed.nanoseconds + moved.nanoseconds,
        };
        for (what, cost, published) in
            [("static forwarding", moved, published[0]), ("IP routing", routed, published[1])]
        {
            let mpps = cost.kpps() / 1e3;
            let bits = mpps * frames.mean_size() * 8.0 / 1e3;
            let cells =
                [Cell::from(published.0), published.1.into(), mpps.into(), bits.into(), cost.cycles.into()];
            table.row(format!("{what}, {name}"), cells);
        }
    }
    outcome.tables.push(table);
    outcome.note("Of the mix the paper itself says 24.6 Gb/s, moved or routed.");
    outcome.note("From a port in memory to a port in memory; the packets' making is part of both here, as receiving is for a network card.");
    outcome.note(format!(
        "A frame's bytes behind its headers are never touched, in memory as with a network card that writes and reads them itself: so Gb/s of the mix are what the processor could do, beyond any link ({} bytes on average, 64, 576 and 1500 bytes in 45, 25 and 30 %).",
        memory::frames(flows, &sizes(MIX)?.cycle()).mean_size().round() - FCS as f64
    ));
    Ok(())
}

/// What it costs to move packets from one port to another.
fn moving(frames: &Frames, samples: usize) -> Result<Cost, ExperimentError> {
    Pool::heap(RING + 8 * BATCH).install();
    let own = frames.clone();
    let write = move |number: u64, packet: &mut Packet| own.write(number, packet);
    let source = Prepared::new(fib::PortId(1), RING, Fresh::Always, write);
    let mut source =
        source.ok_or_else(|| ExperimentError::Machine("there is no memory for packets".to_owned()))?;
    let mut sink = source.sink(fib::PortId(2));
    let mut batch = Vec::with_capacity(BATCH);
    let mut turn = || {
        let spent = cycles(|| {
            for _ in 0..STRETCH / BATCH {
                source.receive(&mut batch, BATCH);
                sink.transmit(&mut batch);
            }
        });
        spent / STRETCH as f64
    };
    turn();
    Ok(Cost::of(&(0..samples).map(|_| turn()).collect::<Vec<_>>()))
}
