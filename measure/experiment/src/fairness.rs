//! Fairness: one port is flooded; what becomes of another port's packets?

use std::time::Duration;

use lab::prefixes::{Random, ipv4};
use traffic::rate::Rate;
use traffic::{Distribution, Stream, Trial};

use crate::load;
use crate::network::{Forwarder, Network, Urgency, mac, polls_on};
use crate::outcome::{Cell, Table};
use crate::ruleset::Judge;
use crate::{Experiment, ExperimentError, Outcome, Run};

pub const EXPERIMENT: Experiment = Experiment {
    name: "fairness",
    question: "When one port is flooded, what becomes of the packets of another?",
    source: "NAPI (Kongress 2008): a single port brought a system to its knees before; with quotas, `just an increase of a couple of 100 µs`",
    needs_root: true,
    work,
};

const ROUTES: usize = 1000;
/// What comes in by the port that is measured, in packets a second.
const MEASURED: f64 = 50_000.0;

fn work(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    let routes = ipv4(ROUTES, &mut Random(20_261_121));
    let (mut network, second) = Network::with_second()?;
    outcome.note(network.cores.note());
    network.route(&routes)?;
    let flood = network.stream_inside(&routes, load::DESTINATIONS)?;
    run.say("what Linux carries");
    let most = {
        let sink = network.count()?;
        network.forwards(run, &sink, &flood, Rate::Max)?
    };
    let mut table = Table::new(
        format!("{} kpps by the measured port, a flood by another; both polled on one core", MEASURED / 1e3),
        &["", "flood, kpps", "lost, %", "half in, µs", "99 % in, µs", "all in, µs", "late, µs"],
    );
    table.row(
        "then: before NAPI",
        ["".into(), Cell::from("denied"), "".into(), "".into(), "".into(), "".into()],
    );
    table
        .row("then: NAPI", ["".into(), "".into(), Cell::from("+ some 100"), "".into(), "".into(), "".into()]);
    let floods = run.either(&[0.0, 0.5, 1.0, 2.0][..], &[0.0, 2.0]);
    for forwarder in Forwarder::BOTH {
        let name = forwarder.name();
        network.start(forwarder, Judge::Nothing, "")?;
        for interface in ["in0", "in1", "out0"] {
            polls_on(interface, network.cores.forwarding, Urgency::Equal)?;
        }
        for &part in floods {
            run.say(&format!("{name}: a flood of {part} times what Linux carries"));
            let load = network.load(&flood, Rate::Packets(part * most))?;
            let begin = load.sent();
            let report = measured(run, &network, &second, &flood)?;
            let offered = load.offered(begin);
            load.end()?;
            let stream = report.streams.first();
            let latency = stream.and_then(|stream| stream.latency.as_ref());
            let micro = |nanoseconds: Option<u64>| Cell::from(nanoseconds.map(|time| time as f64 / 1e3));
            let at = |value: fn(&Distribution) -> u64| micro(latency.map(value));
            let late = micro(stream.and_then(|stream| stream.lateness.as_ref()).map(|late| late.p99));
            let lost = report.loss_ratio().map(|ratio| 100.0 * ratio);
            table.row(
                format!("{name}, flood of {part} x"),
                [(offered / 1e3).into(), lost.into(), at(|l| l.p50), at(|l| l.p99), at(|l| l.max), late],
            );
        }
    }
    network.stop()?;
    outcome.tables.push(table);
    outcome.note("Flood as a multiple of what Linux carries on the core. Latency is that of packets that arrived, from when they were due: with how late the sender itself was (99 % of them, the last column), which on two cores makes the flood on the same core: where both are alike, the latency is the tester's and not the router's, and the loss is what tells. Both polling threads have the same urgency, so the kernel's scheduler shares the core between them in turns of milliseconds; a network card's queues on one core take turns of 64 packets instead.");
    Ok(())
}

/// The measured port's packets, judged one by one where they arrive.
fn measured(
    run: &Run<'_>,
    network: &Network,
    second: &lab::Host,
    like: &Stream,
) -> Result<traffic::Report, ExperimentError> {
    let stream = Stream {
        rate: Rate::Packets(MEASURED),
        flows: 64,
        size: load::sizes("96")?,
        stamp: true,
        source: traffic::range::Addresses::of([10, 4, 0, 2].into()),
        destination_mac: Some(traffic::range::Macs::of(wire::Mac(mac(4, true)))),
        ..like.clone()
    };
    let trial = Trial {
        streams: vec![stream],
        to: Some(load::port(&network.sink, "snk0")?),
        duration: Some(Duration::from_millis(run.either(2000, 400))),
        cores: vec![network.cores.tester],
        ..Trial::new(load::port(second, "src1")?)
    };
    Ok(trial.run()?)
}
