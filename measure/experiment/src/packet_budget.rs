//! The packet budget: how many packets a router has to spend on a core, and what a full table, a
//! filter and connection tracking take of them; for flows that come and go, and for two that stay.

use lab::prefixes::{Random, ipv4};
use notation::grouped;
use trial::page::{Axis, Chart, Series};

use crate::frames::{Flow, flows_inside};
use crate::measure::on_last_core;
use crate::memory::{self, How, Router};
use crate::network::{Forwarder, Network};
use crate::outcome::{Cell, Table};
use crate::ruleset::Judge;
use crate::{Experiment, ExperimentError, Outcome, Run};
use traffic::rate::Rate;

pub const EXPERIMENT: Experiment = Experiment {
    name: "packet-budget",
    question: "What do a full table, 600 rules and connection tracking take of a router's packets?",
    source: "Open-source routing in production, 2008, appendix A: Opteron 2.8 GHz, 2 of 4 cores, 64-byte UDP",
    needs_root: true,
    work,
};

/// Flows of the flow load: 4,096 in each of two directions, 10 packets each.
const TOGETHER: usize = 8192;
const LENGTH: usize = 10;
/// Different flows in all; then they come again.
const FLOWS: usize = 1 << 20;
/// Routes of a full table of today; then it was 214,394.
const FULL: usize = 1_000_000;

/// A row: its name, routes, what judges, and the paper's kpps for the flow load and for single
/// flows.
const ROWS: [(&str, bool, Judge, &str, &str); 4] = [
    ("small table", false, Judge::Nothing, "1,040", "2,010"),
    ("full table", true, Judge::Nothing, "950", "2,020"),
    ("+ 600 rules", true, Judge::Rules, "820", "1,670"),
    ("+ connection tracking", true, Judge::Tracked, "211", "730"),
];

fn work(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    let mut random = Random(20_261_121);
    let full = ipv4(run.either(FULL, 5000), &mut random);
    outcome.note(format!(
        "Small table: 16 routes; full table: {} (214,394 then). Flow load: {TOGETHER} flows at a time, {LENGTH} packets each, new ones after them; single: two flows to one destination. 64-byte UDP.",
        grouped(full.len() as u64)
    ));
    outcome.note("The paper's filter row had the modules loaded and no rule; here 600 rules stand in the list, and the last one matches.");
    on_last_core(|| in_memory(run, outcome, &full))?;
    over_veth(run, outcome, &full)
}

fn in_memory(run: &Run<'_>, outcome: &mut Outcome, full: &[ipnet::Ipv4Net]) -> Result<(), ExperimentError> {
    let mut table = Table::new(
        "in memory, kpps of one core (then: of two)",
        &["", "flow load: then", "now", "cycles", "single flows: then", "now", "cycles"],
    );
    let mut random = Random(3);
    let mut bars = [Vec::new(), Vec::new()];
    let tables = [memory::tables(&full[..16])?, memory::tables(full)?];
    for (n, (name, is_full, judge, then_flows, then_single)) in ROWS.into_iter().enumerate() {
        run.say(&format!("in memory: {name}"));
        let routes = if is_full { full } else { &full[..16] };
        let flows = flows_inside(routes, run.either(FLOWS, 1 << 14), &mut random);
        let single = vec![flows[0], Flow { port: flows[0].port ^ 1, ..flows[0] }];
        let how = How::new(run.either(31, 3));
        let cost = |frames| -> Result<memory::Cost, ExperimentError> {
            let mut router = Router::new(&tables[usize::from(is_full)].view(), judge)?;
            memory::cost(&mut router, &frames, how)
        };
        let many = cost(memory::frames(flows, &[64]).ending(TOGETHER, LENGTH))?;
        let two = cost(memory::frames(single, &[64]))?;
        for (bars, cost) in bars.iter_mut().zip([many, two]) {
            bars.push((n as f64, cost.kpps()));
        }
        let cells: [Cell; 6] = [
            then_flows.into(),
            many.kpps().into(),
            many.cycles.into(),
            then_single.into(),
            two.kpps().into(),
            two.cycles.into(),
        ];
        table.row(name, cells);
    }
    outcome.tables.push(table);
    let names = ROWS.map(|row| row.0);
    let [many, two] = bars;
    outcome.charts.push(
        Chart::new("In memory, one core", Axis::categories("", names), Axis::linear("kpps").from(0.0))
            .series(Series::bars("flow load", many))
            .series(Series::bars("single flows", two)),
    );
    Ok(())
}

fn over_veth(run: &Run<'_>, outcome: &mut Outcome, full: &[ipnet::Ipv4Net]) -> Result<(), ExperimentError> {
    let mut network = Network::new()?;
    outcome.note(network.cores.note());
    let sink = network.count()?;
    let mut table = Table::new(
        "over veth, kpps, one core forwards",
        &["", "flow load: then", "Linux", "Bifrost", "single flows: then", "Linux", "Bifrost"],
    );
    let mut bars = [Vec::new(), Vec::new()];
    let mut is_routed = 0;
    let rows = ROWS.into_iter().enumerate();
    for (n, (name, is_full, judge, then_flows, then_single)) in rows.step_by(run.either(1, 3)) {
        let routes = if is_full { full } else { &full[..16] };
        if is_routed != routes.len() {
            run.say(&format!("{} routes for Linux", routes.len()));
            network.route(routes)?;
            is_routed = routes.len();
        }
        let many = network.stream_inside(routes, 65_536)?;
        let many = traffic::Stream { flows: TOGETHER as u32, flow_length: LENGTH as u32, ..many };
        let single = network.stream_inside(routes, 1)?;
        let single = traffic::Stream {
            flows: 2,
            source_port: traffic::range::Ports { first: 5000, last: 5001, ..single.source_port },
            ..single
        };
        let mut rates = [[f64::NAN; 2]; 2];
        for forwarder in Forwarder::BOTH {
            run.say(&format!("over veth: {name}, {}", forwarder.name()));
            let measured = network.start(forwarder, judge, "").and_then(|()| {
                let many = network.forwards(run, &sink, &many, Rate::Max)?;
                let two = network.forwards(run, &sink, &single, Rate::Max)?;
                Ok([many / 1e3, two / 1e3])
            });
            match measured {
                Ok(measured) => rates[forwarder as usize] = measured,
                Err(error) => outcome.note(format!("{name}, {}: not measured: {error}", forwarder.name())),
            }
        }
        let [linux, bifrost] = rates;
        bars[0].push((n as f64, linux[0]));
        bars[1].push((n as f64, bifrost[0]));
        let cells: [Cell; 6] = [
            then_flows.into(),
            linux[0].into(),
            bifrost[0].into(),
            then_single.into(),
            linux[1].into(),
            bifrost[1].into(),
        ];
        table.row(name, cells);
    }
    network.stop()?;
    outcome.tables.push(table);
    let [linux, bifrost] = bars;
    outcome.charts.push(
        Chart::new(
            "Over veth, flow load",
            Axis::categories("", ROWS.map(|row| row.0)),
            Axis::linear("kpps").from(0.0),
        )
        .series(Series::bars("Linux", linux))
        .series(Series::bars("Bifrost", bifrost)),
    );
    outcome.note("Over veth, what is tracked has its first packets copied to a worker (AF_XDP without zero-copy): new flows cost more there than on a network card with zero-copy.");
    Ok(())
}
