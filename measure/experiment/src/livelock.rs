//! Livelock: a router that is offered more than it carries must go on carrying that, and its
//! control must live.
//!
//! Linux 2.4 spent all its time on interrupts for packets that it then dropped, and collapsed above
//! 27,000 packets a second; NAPI ended that. A router proves it with a flat line.

use std::time::Duration;

use lab::prefixes::{Random, ipv4};
use trial::page::{Axis, Chart, Series};

use crate::network::{Forwarder, Network, ROUTER};
use crate::outcome::{Cell, Table};
use crate::ruleset::Judge;
use crate::transactions::{Server, transact};
use crate::{Experiment, ExperimentError, Outcome, Run, load};
use traffic::rate::Rate;

pub const EXPERIMENT: Experiment = Experiment {
    name: "livelock",
    question: "Does output stay flat when ten times as much is offered as the router carries, and does control live?",
    source: "NAPI (Kongress 2008): Linux 2.4 collapsed above 27 kpps on a Pentium Pro of 200 MHz",
    needs_root: true,
    work,
};

const ROUTES: usize = 1000;
/// Loads, as multiples of what is carried.
const LOADS: [f64; 7] = [0.0, 0.5, 1.0, 1.5, 2.0, 5.0, 10.0];

fn work(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    let routes = ipv4(ROUTES, &mut Random(20_261_121));
    let (mut network, client) = Network::with_client()?;
    outcome.note(network.cores.note());
    network.route(&routes)?;
    let sink = network.count()?;
    let stream = network.stream_inside(&routes, load::DESTINATIONS)?;
    let loads = run.either(&LOADS[..], &[0.0, 1.0, 2.0]);
    let mut lines = Vec::new();
    for forwarder in Forwarder::BOTH {
        let name = forwarder.name();
        network.start(forwarder, Judge::Nothing, "")?;
        run.say(&format!("{name}: what it carries"));
        let most = network.forwards(run, &sink, &stream, Rate::Max)?;
        let server = Server::start(&network.router, network.cores.control)?;
        let mut table = Table::new(
            format!("{name}: 64 bytes, one core forwards"),
            &[
                "load",
                "offered, kpps",
                "forwarded, kpps",
                "of the most",
                "transactions/s",
                "half of them in, µs",
                "99 % in, µs",
            ],
        );
        let (mut line, mut seen) = (Vec::new(), Vec::new());
        for &load in loads {
            run.say(&format!("{name}: {load} times what it carries"));
            let wanted = most * load;
            let samples = run.either(5, 2);
            let each = Duration::from_millis(run.either(300, 150));
            let running = network.load(&stream, Rate::Packets(wanted))?;
            let begin = running.sent();
            let forwarded = load::arriving(&sink, samples, each)?;
            let offered = running.offered(begin);
            let control = transact(&client, network.cores.tester, ROUTER[2], each * samples as u32)?;
            running.end()?;
            line.push((offered / 1e3, forwarded / 1e3));
            seen.push((load, offered, forwarded, control));
        }
        drop(server);
        let peak = seen.iter().fold(0.0, |peak: f64, (_, _, forwarded, _)| peak.max(*forwarded));
        for (load, offered, forwarded, control) in seen {
            let cells =
                [offered / 1e3, forwarded / 1e3, forwarded / peak, control.rate, control.half, control.most];
            table.row(format!("{load} x"), cells.map(Cell::from));
        }
        outcome.tables.push(table);
        lines.push((name, line));
    }
    network.stop()?;
    let mut chart = Chart::new(
        "What is forwarded of what is offered",
        Axis::linear("offered, kpps").from(0.0),
        Axis::linear("forwarded, kpps").from(0.0),
    );
    for (name, line) in lines {
        chart = chart.series(Series::line(name, line));
    }
    outcome.charts.push(
        chart.series(Series::reference("Linux 2.4, 2001: nothing beyond", [(27.0, 0.0), (27.0, 27.0)])),
    );
    outcome.note("`load` is a multiple of what came through when the generator sent as fast as it could; `of the most` is part of the best row; `offered` is what the generator could make of it on its one core, which also counts what arrives. Transactions: one byte there and back over TCP, to an address of the router, by another port.");
    if !network.cores.are_apart() {
        outcome.note("With two cores the generator runs on the control core: it takes from the transactions what `separation` tells apart.");
    }
    Ok(())
}
