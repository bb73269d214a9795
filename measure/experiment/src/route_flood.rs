//! Destinations chosen to defeat caches: what a flood of addresses does to a router that has none
//! to defeat.
//!
//! Linux had a route cache until 2012, whose speed the traffic decided and not the table: two flows
//! went twice as fast as four thousand, and an attacker could choose. Here the same table is asked
//! for one destination, and for ever more of them.

use lab::prefixes::{Random, ipv4};
use notation::grouped;
use trial::page::{Axis, Chart, Series};

use crate::frames::{Flow, flows_inside};
use crate::load::DESTINATIONS;
use crate::measure::on_last_core;
use crate::memory::{self, How, Router};
use crate::network::{Forwarder, Network};
use crate::outcome::{Cell, Table};
use crate::ruleset::Judge;
use crate::{Experiment, ExperimentError, Outcome, Run};
use traffic::rate::Rate;

pub const EXPERIMENT: Experiment = Experiment {
    name: "route-flood",
    question: "How much slower is a router for traffic that goes everywhere?",
    source: "Kongress 2008 (routes that a denial of service looks up), packet budget of 2007 (full table: 2,020 kpps for two flows, 950 for many)",
    needs_root: true,
    work,
};

/// A full table.
const ROUTES: usize = 1_000_000;

fn work(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    let mut random = Random(20_261_121);
    let routes = ipv4(run.either(ROUTES, 2000), &mut random);
    let counts: &[usize] = run.either(&[1, 16, 4096, DESTINATIONS, 1 << 20, 4 << 20], &[1, 4096]);
    on_last_core(|| memory_part(run, outcome, &routes, counts))?;
    network_part(run, outcome, &routes, counts)
}

fn memory_part(
    run: &Run<'_>,
    outcome: &mut Outcome,
    routes: &[ipnet::Ipv4Net],
    counts: &[usize],
) -> Result<(), ExperimentError> {
    let mut random = Random(7);
    let tables = memory::tables(routes)?;
    let mut router = Router::new(&tables.view(), Judge::Nothing)?;
    let mut table = Table::new(
        format!("the whole router in memory, {} routes, 64 bytes, one core", grouped(routes.len() as u64)),
        &["destinations", "then, kpps (2 cores)", "now, cycles a packet", "now, kpps"],
    );
    let mut line = Vec::new();
    let mut measure = |name: String, published: &str, flows: Vec<Flow>| -> Result<f64, ExperimentError> {
        run.say(&format!("in memory: {name}"));
        let cost = memory::cost(&mut router, &memory::frames(flows, &[64]), How::new(run.either(41, 3)))?;
        table.row(name, [Cell::from(published), cost.cycles.into(), cost.kpps().into()]);
        Ok(cost.cycles)
    };
    for &count in counts {
        let published = match count {
            1 => "2,020",
            4096 => "950",
            _ => "",
        };
        let cycles = measure(grouped(count as u64), published, flows_inside(routes, count, &mut random))?;
        line.push((count as f64, cycles));
    }
    // Every /24 that there is a route in, each once, far from the one before: of all orders the one
    // that helps caches least.
    let mut flows: Vec<Flow> =
        routes.iter().map(|net| Flow { destination: net.network().to_bits(), port: 5000 }).collect();
    random.shuffle(&mut flows);
    measure("one of each route".to_owned(), "", flows)?;
    outcome.tables.push(table);
    outcome.charts.push(
        Chart::new(
            "A packet by the number of destinations",
            Axis::log("destinations"),
            Axis::linear("cycles").from(0.0),
        )
        .series(Series::line("Bifrost, in memory", line)),
    );
    Ok(())
}

fn network_part(
    run: &Run<'_>,
    outcome: &mut Outcome,
    routes: &[ipnet::Ipv4Net],
    counts: &[usize],
) -> Result<(), ExperimentError> {
    let mut network = Network::new()?;
    outcome.note(network.cores.note());
    run.say("routes for Linux");
    network.route(routes)?;
    let sink = network.count()?;
    let counts: Vec<usize> = counts.iter().copied().filter(|count| *count <= 1 << 20).collect();
    let mut rates = Vec::new();
    for forwarder in Forwarder::BOTH {
        network.start(forwarder, Judge::Nothing, "")?;
        let mut of_it = Vec::new();
        for &count in &counts {
            run.say(&format!("{}: {count} destinations", forwarder.name()));
            let stream = network.stream_inside(routes, count)?;
            of_it.push(network.forwards(run, &sink, &stream, Rate::Max)? / 1e3);
        }
        rates.push(of_it);
    }
    let mut table = Table::new(
        format!("over veth, {} routes, 64 bytes, one core forwards", grouped(routes.len() as u64)),
        &["destinations", "Linux, kpps", "Bifrost, kpps", "ratio"],
    );
    for (n, count) in counts.iter().enumerate() {
        let (linux, bifrost) = (rates[0][n], rates[1][n]);
        table.row(grouped(*count as u64), [linux, bifrost, bifrost / linux].map(Cell::from));
    }
    outcome.tables.push(table);
    Ok(())
}
