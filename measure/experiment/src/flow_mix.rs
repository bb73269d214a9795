//! The multi-queue router's load of 2008: three sizes, flows that come and go, a full table.

use lab::prefixes::{Random, ipv4};
use notation::grouped;

use crate::frames::{MIX, flows_inside};
use crate::load::sizes;
use crate::measure::on_last_core;
use crate::memory::{self, How, Router};
use crate::network::{Forwarder, Network};
use crate::outcome::{Cell, Table};
use crate::ruleset::Judge;
use crate::{Experiment, ExperimentError, Outcome, Run};
use traffic::rate::Rate;

pub const EXPERIMENT: Experiment = Experiment {
    name: "flow-mix",
    question: "What does the router carry of a mix of 64, 576 and 1500 bytes, with flows that come and go?",
    source: "Kongress 2008: 2 of 4 cores of 2.3 GHz, 271,064 routes, 31,000 lookups a second",
    needs_root: true,
    work,
};

const ROUTES: usize = 271_064;
const TOGETHER: usize = 8192;
/// Packets of a flow: 960,000 packets and 31,000 lookups a second.
const LENGTH: usize = 31;

fn work(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    let mut random = Random(20_261_121);
    let routes = ipv4(run.either(ROUTES, 2000), &mut random);
    let mut table = Table::new(
        format!("64 bytes 45 %, 576 bytes 25 %, 1500 bytes 30 %; {} routes", grouped(routes.len() as u64)),
        &["", "cores", "kpps", "Gb/s of frames", "new flows/s"],
    );
    table.row("then: Linux 2.6.27, 10 Gb/s cards", [2.into(), 960.0.into(), 6.2.into(), 31_000.0.into()]);
    let sizes = sizes(MIX)?;
    let bits = sizes.mean() * 8.0;
    let mut row = |name: &str, kpps: f64| {
        let rates = [kpps, kpps * bits / 1e6, kpps * 1e3 / LENGTH as f64].map(Cell::from);
        table.row(name, [Cell::from(1)].into_iter().chain(rates));
    };
    run.say("in memory");
    let in_memory = on_last_core(|| {
        let tables = memory::tables(&routes)?;
        let flows = flows_inside(&routes, run.either(1 << 20, 1 << 14), &mut random);
        let frames = memory::frames(flows, &sizes.cycle()).ending(TOGETHER, LENGTH);
        let mut router = Router::new(&tables.view(), Judge::Nothing)?;
        memory::cost(&mut router, &frames, How::new(run.either(31, 3)))
    })?;
    row("Bifrost, in memory", in_memory.kpps());

    let mut measured = Vec::new();
    let mut over = || -> Result<(), ExperimentError> {
        let mut network = Network::new()?;
        outcome.note(network.cores.note());
        network.route(&routes)?;
        let sink = network.count()?;
        let stream = traffic::Stream {
            size: sizes.clone(),
            flows: TOGETHER as u32,
            flow_length: LENGTH as u32,
            ..network.stream_inside(&routes, 65_536)?
        };
        for forwarder in Forwarder::BOTH {
            run.say(&format!("over veth: {}", forwarder.name()));
            network.start(forwarder, Judge::Nothing, "")?;
            let forwarded = network.forwards(run, &sink, &stream, Rate::Max)?;
            measured.push((forwarder.name(), forwarded / 1e3));
        }
        network.stop()
    };
    let ended = over();
    for (name, kpps) in measured {
        row(&format!("{name}, over veth"), kpps);
    }
    outcome.tables.push(table);
    outcome.note("In memory nobody moves the bytes behind the headers, as a network card would do that; over veth they stay where they were made.");
    ended
}
