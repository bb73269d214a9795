//! Control beside bulk: TCP transactions to the router while it forwards, by a port of their own
//! and by the port of the bulk.

use std::time::Duration;

use lab::prefixes::{Random, ipv4};
use trial::page::{Axis, Chart, Series};

use crate::frames::MIX;
use crate::load::{self, sizes};
use crate::measure::median;
use crate::network::{Forwarder, Network, ROUTER, Urgency, polls_on};
use crate::outcome::{Cell, Table};
use crate::ruleset::Judge;
use crate::transactions::{Server, Transactions, transact};
use crate::{Experiment, ExperimentError, Outcome, Run};
use traffic::Stream;
use traffic::range::Macs;
use traffic::rate::Rate;
use wire::Mac;

pub const EXPERIMENT: Experiment = Experiment {
    name: "separation",
    question: "Does the router's control feel the bulk that it forwards, when bulk is kept off the control core?",
    source: "Control and forwarding plane separation, 2010, experiment 1: netperf TCP_RR, 8 cores, 82599",
    needs_root: true,
    work,
};

pub const INLINE: Experiment = Experiment {
    name: "separation-inline",
    question: "And when control comes by the same port as the bulk?",
    source: "Control and forwarding plane separation, 2010, experiment 2 (work in progress there)",
    needs_root: true,
    work: inline,
};

const ROUTES: usize = 1000;
/// Samples of transactions; their median counts.
const SAMPLES: usize = 5;

/// The network with a load to forward, and the server of transactions on the control core.
struct Bench {
    network: Network,
    /// By a link of its own; by the bulk's where there is none.
    client: lab::Host,
    sink: port::traffic::Sink,
    mix: Stream,
    small: Stream,
    server: Server,
}

impl Bench {
    fn new(outcome: &mut Outcome, (network, client): (Network, lab::Host)) -> Result<Bench, ExperimentError> {
        let routes = ipv4(ROUTES, &mut Random(20_261_121));
        outcome.note(network.cores.note());
        network.route(&routes)?;
        let sink = network.count()?;
        let small = network.stream_inside(&routes, load::DESTINATIONS)?;
        let mix = Stream { size: sizes(MIX)?, ..small.clone() };
        let server = Server::start(&network.router, network.cores.control)?;
        Ok(Bench { network, client, sink, mix, small, server })
    }

    /// Transactions, the median of several stretches, and the packets a second that were forwarded
    /// meanwhile.
    fn measure(
        &self,
        run: &Run<'_>,
        stream: Option<(&Stream, Rate)>,
        server: &str,
    ) -> Result<(Transactions, f64), ExperimentError> {
        let (stream, rate) = stream.unwrap_or((&self.small, Rate::Packets(0.0)));
        let load = self.network.load(stream, rate)?;
        let packets = || self.sink.packets().map_err(ExperimentError::io("the sink's counters"));
        let (begin, before) = (std::time::Instant::now(), packets()?);
        let each = Duration::from_millis(run.either(600, 150));
        let seen = (0..run.either(SAMPLES, 2))
            .map(|_| transact(&self.client, self.network.cores.tester, server, each))
            .collect::<Result<Vec<_>, _>>()?;
        let forwarded = (packets()? - before) as f64 / begin.elapsed().as_secs_f64();
        load.end()?;
        let of = |each: fn(&Transactions) -> f64| median(&seen.iter().map(each).collect::<Vec<_>>());
        let transactions = Transactions {
            rate: of(|seen| seen.rate),
            half: of(|seen| seen.half),
            most: of(|seen| seen.most),
        };
        Ok((transactions, forwarded))
    }

    /// A load that is made and thrown away at the router's door: what the tester's own work costs
    /// control.
    fn thrown_away(stream: &Stream) -> Stream {
        Stream { destination_mac: Some(Macs::of(Mac([2, 0, 0, 0xff, 0xff, 1]))), ..stream.clone() }
    }
}

fn cells(published: &str, seen: (Transactions, f64)) -> [Cell; 5] {
    let (control, forwarded) = seen;
    [
        published.into(),
        control.rate.into(),
        control.half.into(),
        control.most.into(),
        (forwarded / 1e3).into(),
    ]
}

const HEADINGS: [&str; 6] = [
    "",
    "then, transactions/s",
    "now, transactions/s",
    "half of them in, µs",
    "99 % in, µs",
    "bulk forwarded, kpps",
];

fn work(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    let mut bench = Bench::new(outcome, Network::with_client()?)?;
    let cores = bench.network.cores;
    // As much as Linux's one core carries, so that every row has the same to do.
    run.say("what Linux carries");
    let most = bench.network.forwards(run, &bench.sink, &bench.mix, Rate::Max)?;
    let rate = Rate::Packets(most * 0.8);
    let mut table = Table::new(
        "mixed sizes at 80 % of what Linux carries on one core; server on the control core",
        &HEADINGS,
    );
    let mut bars = Vec::new();
    let mut row = |name: &str, published: &str, seen: (Transactions, f64)| {
        bars.push((name.to_owned(), seen.0.rate));
        table.row(name, cells(published, seen));
    };
    run.say("idle");
    row("idle", "30,000", bench.measure(run, None, ROUTER[2])?);
    run.say("the tester alone");
    let away = Bench::thrown_away(&bench.mix);
    row("bulk made, but not for the router", "", bench.measure(run, Some((&away, rate)), ROUTER[2])?);
    for forwarder in Forwarder::BOTH {
        let name = forwarder.name();
        bench.network.start(forwarder, Judge::Nothing, "")?;
        if forwarder == Forwarder::Bifrost {
            run.say("Bifrost, idle");
            row("Bifrost, idle", "", bench.measure(run, None, ROUTER[2])?);
        }
        run.say(&format!("{name}: bulk on the control core"));
        for interface in ["in0", "out0"] {
            polls_on(interface, cores.control, Urgency::First)?;
        }
        let published = if forwarder == Forwarder::Linux { "5,000" } else { "" };
        row(
            &format!("{name}, bulk on the control core"),
            published,
            bench.measure(run, Some((&bench.mix, rate)), ROUTER[2])?,
        );
        run.say(&format!("{name}: bulk kept off the control core"));
        for interface in ["in0", "out0"] {
            polls_on(interface, cores.forwarding, Urgency::First)?;
        }
        let published = if forwarder == Forwarder::Linux { "30,000" } else { "" };
        row(
            &format!("{name}, bulk kept off it"),
            published,
            bench.measure(run, Some((&bench.mix, rate)), ROUTER[2])?,
        );
        run.say(&format!("{name}: a flood kept off the control core"));
        let flood = Rate::Packets(most * 4.0);
        row(
            &format!("{name}, a flood of 5 times as much kept off it"),
            "",
            bench.measure(run, Some((&bench.small, flood)), ROUTER[2])?,
        );
    }
    bench.network.stop()?;
    drop(bench.server);
    outcome.tables.push(table);
    // The same four of each; what the tester does alone is no router's.
    let of = |bifrost: bool| {
        let rows = bars.iter().filter(move |(name, _)| {
            name.starts_with("Bifrost") == bifrost && !name.starts_with("bulk made")
        });
        rows.enumerate().map(|(n, (_, rate))| (n as f64, *rate)).collect::<Vec<_>>()
    };
    let names = ["idle", "bulk on it", "bulk off it", "flood off it"];
    outcome.charts.push(
        Chart::new(
            "Transactions, by where the bulk is",
            Axis::categories("bulk and the control core", names),
            Axis::linear("a second").from(0.0),
        )
        .series(Series::bars("Linux", of(false)))
        .series(Series::bars("Bifrost", of(true))),
    );
    outcome.note("The paper's bulk was on every core, its control core among them; here the bulk is all on the control core in those rows, for one core forwards, and goes before all else there, as the kernel's does. The flood is of 64 bytes.");
    if !cores.are_apart() {
        outcome.note("`bulk made, but not for the router` is what the tester takes from the control core that it shares: the mark for the rows below it, as `idle` is on a machine with more cores.");
    }
    Ok(())
}

fn inline(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    let network = Network::new()?;
    let client = network.source.clone();
    let mut bench = Bench::new(outcome, (network, client))?;
    run.say("what Linux carries");
    let most = bench.network.forwards(run, &bench.sink, &bench.mix, Rate::Max)?;
    let mut table = Table::new(
        "transactions by the port that the bulk comes in by; server on the control core",
        &HEADINGS,
    );
    for forwarder in Forwarder::BOTH {
        let name = forwarder.name();
        bench.network.start(forwarder, Judge::Nothing, "")?;
        run.say(&format!("{name}: idle"));
        table.row(format!("{name}, idle"), cells("", bench.measure(run, None, ROUTER[0])?));
        let published = |of_linux: &'static str| if forwarder == Forwarder::Linux { of_linux } else { "" };
        for (what, stream, part, published) in [
            ("mix, half of what Linux carries", &bench.mix, 0.5, published("below 6,000")),
            ("64 bytes, half of what Linux carries", &bench.small, 0.5, ""),
            ("64 bytes, 3 times as much as Linux carries", &bench.small, 3.0, published("below 18")),
        ] {
            run.say(&format!("{name}: {what}"));
            let seen = bench.measure(run, Some((stream, Rate::Packets(most * part))), ROUTER[0])?;
            table.row(format!("{name}, {what}"), cells(published, seen));
        }
    }
    bench.network.stop()?;
    drop(bench.server);
    outcome.tables.push(table);
    outcome.note("Beyond what the port's one queue can be emptied of, packets are lost before anyone can tell control from bulk, as on the network cards of 2010. A faster classifier moves that point: it does not remove it. A veth's queue holds 256 packets.");
    outcome.note("Of the paper's charts the axes are left, which say what no bar exceeded: 6,000 transactions a second beside the mix, 18 beside 64 bytes.");
    Ok(())
}
