//! Vyatta's two charts: the highest load of which nothing is lost, and what is lost at full load,
//! by the size of frames. RFC 2544's tests, made by `trial`, over two ports both ways.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use traffic::range::{Addresses, Macs};
use trial::page::{Axis, Chart, Series};
use trial::report::Throughput;
use trial::{
    Description, Device, Direction, End, Frames, Method, Offered, Pair, Pattern, Plan, Test, Tester,
};
use wire::Mac;

use crate::load;
use crate::network::{Forwarder, Network, mac};
use crate::outcome::{Cell, Table};
use crate::ruleset::Judge;
use crate::{Experiment, ExperimentError, Outcome, Run};

pub const ZERO_LOSS: Experiment = Experiment {
    name: "zero-loss",
    question: "What is the highest load of which nothing is lost, by the size of frames?",
    source: "Vyatta, Linux IP routers: RFC 2544 throughput, two ports of 1 Gb/s both ways, Linux 2.6.20, no filter, no NAT",
    needs_root: true,
    work: zero_loss,
};

pub const LOSS_RATE: Experiment = Experiment {
    name: "loss-rate",
    question: "What is lost at full load, by the size of frames?",
    source: "Vyatta, Linux IP routers: loss at 100 % of two ports of 1 Gb/s both ways",
    needs_root: true,
    work: loss_rate,
};

/// The line of the paper's ports.
const LINE: f64 = 1e9;

fn sizes(run: &Run<'_>) -> Vec<Frames> {
    let standard = Frames::standard();
    if run.short { standard.into_iter().rev().take(1).collect() } else { standard }
}

/// Both ends of the router, with hosts behind each.
fn tester(network: &Network, name: &str) -> Result<Tester, ExperimentError> {
    let hosts =
        |text: &str| text.parse::<Addresses>().map_err(|error| ExperimentError::Words(error.to_string()));
    let end = |host, interface, link, addresses| -> Result<End, ExperimentError> {
        let device_mac = Some(Macs::of(Mac(mac(link, true))));
        Ok(End { port: load::port(host, interface)?, hosts: hosts(addresses)?, device_mac })
    };
    let from = end(&network.source, "src0", 1, "198.18.0.0/16")?;
    let to = end(&network.sink, "snk0", 2, "198.19.0.0/16")?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut tester = Tester::new(name, vec![Pair { from, to }], LINE, stop);
    tester.cores = vec![network.cores.tester];
    Ok(tester)
}

fn network(outcome: &mut Outcome) -> Result<Network, ExperimentError> {
    let network = Network::new()?;
    outcome.note(network.cores.note());
    network.router.run("ip route add 198.18.0.0/16 via 10.1.0.2; ip route add 198.19.0.0/16 via 10.2.0.2")?;
    Ok(network)
}

fn zero_loss(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    let mut network = network(outcome)?;
    let sizes = sizes(run);
    let mut found: Vec<Vec<Option<f64>>> = Vec::new();
    for forwarder in Forwarder::BOTH {
        let name = forwarder.name();
        network.start(forwarder, Judge::Nothing, "")?;
        let mut device = tester(&network, name)?;
        let mut of_it = Vec::new();
        for frames in &sizes {
            run.say(&format!("{name}: {frames} bytes"));
            let plan = Plan {
                tests: vec![Test::Throughput],
                frames: vec![frames.clone()],
                direction: Direction::Both,
                method: Method::Rfc { seconds: run.either(0.5, 0.1), width: run.either(0.03, 0.4) },
                ..Plan::short(0.1)
            };
            let report = trial::run(&mut device, &plan, None, &AtomicBool::new(false), &mut |_| {})?;
            of_it.push(report.throughput.first().and_then(Throughput::rate));
        }
        found.push(of_it);
    }
    network.stop()?;
    let mut table = Table::new(
        "without loss, kpps each way, at most line rate of 1 Gb/s",
        &["bytes", "line rate", "Linux, kpps", "Bifrost, kpps"],
    );
    let kilo = |rate: Option<f64>| Cell::from(rate.map(|rate| rate / 1e3));
    let mut bars = [Vec::new(), Vec::new()];
    for (n, frames) in sizes.iter().enumerate() {
        let (line, linux, bifrost) = (frames.line_rate(LINE), found[0][n], found[1][n]);
        for (bars, rate) in bars.iter_mut().zip([linux, bifrost]) {
            bars.push((n as f64, 100.0 * rate.unwrap_or(0.0) / line));
        }
        let cells = [Some(line), linux, bifrost].map(kilo);
        table.row(frames.to_string(), cells);
    }
    outcome.tables.push(table);
    let names: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    let [linux, bifrost] = bars;
    outcome.charts.push(
        Chart::new(
            "Throughput without loss",
            Axis::categories("bytes", names),
            Axis::linear("of line rate, %").from(0.0).to(100.0),
        )
        .series(Series::bars("Linux", linux))
        .series(Series::bars("Bifrost", bifrost)),
    );
    outcome.note("By halving, with short trials, to 3 %. A veth's queue holds 256 packets, and whatever else the machine does for longer than they last loses some: with no loss at all the machine's quiet is measured as much as the router. The paper's figures were in charts that are lost; of Linux 2.5.58 on a Xeon of 1.8 GHz Kongress 2008 says that it filled 1 Gb/s from 256 bytes on.");
    Ok(())
}

fn loss_rate(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    let mut network = network(outcome)?;
    let sizes = sizes(run);
    let mut found: Vec<Vec<(f64, f64)>> = Vec::new();
    for forwarder in Forwarder::BOTH {
        let name = forwarder.name();
        network.start(forwarder, Judge::Nothing, "")?;
        let mut device = tester(&network, name)?;
        let Description { least4, .. } = device.describe();
        let mut of_it = Vec::new();
        for frames in &sizes {
            run.say(&format!("{name}: {frames} bytes"));
            let offered = Offered {
                rate: frames.line_rate(LINE),
                frames: frames.at_least(least4).0,
                seconds: run.either(1.0, 0.2),
                direction: Direction::Both,
                pairs: 1,
                family: trial::Family::V4,
                pattern: Pattern::Constant,
                modifiers: trial::Modifiers::default(),
            };
            let mut losses = Vec::new();
            let mut rates = Vec::new();
            for _ in 0..run.either(3, 1) {
                let measured =
                    device.trial(&offered).map_err(|error| ExperimentError::Wrong(error.to_string()))?;
                losses.push(1.0 - measured.received as f64 / measured.sent.max(1) as f64);
                rates.push(measured.sent as f64 / measured.seconds / 2.0);
            }
            of_it.push((100.0 * crate::measure::median(&losses), crate::measure::median(&rates)));
        }
        found.push(of_it);
    }
    network.stop()?;
    let mut table = Table::new(
        "lost of what was sent, both ways at 1 Gb/s each",
        &["bytes", "line rate, kpps", "sent, kpps each way", "Linux, % lost", "Bifrost, % lost"],
    );
    let mut lines = [Vec::new(), Vec::new()];
    for (n, frames) in sizes.iter().enumerate() {
        let (linux, bifrost) = (found[0][n], found[1][n]);
        for (line, (loss, _)) in lines.iter_mut().zip([linux, bifrost]) {
            line.push((n as f64, loss.max(0.0)));
        }
        let sent = linux.1.min(bifrost.1) / 1e3;
        table.row(
            frames.to_string(),
            [frames.line_rate(LINE) / 1e3, sent, linux.0, bifrost.0].map(Cell::from),
        );
    }
    outcome.tables.push(table);
    let names: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    let [linux, bifrost] = lines;
    outcome.charts.push(
        Chart::new("Lost at line rate", Axis::categories("bytes", names), Axis::linear("lost, %").from(0.0))
            .series(Series::bars("Linux", linux))
            .series(Series::bars("Bifrost", bifrost)),
    );
    outcome.note("Where less was sent than the line carries, the generator's one core could not make more beside receiving it all.");
    Ok(())
}
