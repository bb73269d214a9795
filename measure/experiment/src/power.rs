//! Power: a router that polls for ever costs as much idle as busy. Processor time follows energy,
//! so it should follow load.

use std::fs;
use std::time::{Duration, Instant};

use lab::prefixes::{Random, ipv4};
use trial::page::{Axis, Chart, Series};

use crate::load;
use crate::network::{Forwarder, Network, polling};
use crate::outcome::Table;
use crate::ruleset::Judge;
use crate::{Experiment, ExperimentError, Outcome, Run};
use traffic::rate::Rate;

pub const EXPERIMENT: Experiment = Experiment {
    name: "power",
    question: "Does the processor's work follow the load, down to none?",
    source: "Control and forwarding plane separation, 2010: Atom board, 13.5 W idle, 16.5 W with 4 cores busy, about 500 kpps",
    needs_root: true,
    work,
};

const ROUTES: usize = 1000;
/// Loads in percent of what is carried.
const LOADS: [f64; 5] = [0.0, 1.0, 10.0, 50.0, 100.0];

fn work(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    let routes = ipv4(ROUTES, &mut Random(20_261_121));
    let mut network = Network::new()?;
    outcome.note(network.cores.note());
    network.route(&routes)?;
    let sink = network.count()?;
    let stream = network.stream_inside(&routes, load::DESTINATIONS)?;
    let mut published = Table::new("then: a whole board's power", &["", "W"]);
    for (name, watts) in [
        ("off", 1.98),
        ("idle", 13.53),
        ("1 core busy", 14.35),
        ("2 cores", 15.51),
        ("3 cores", 15.84),
        ("4 cores", 16.5),
    ] {
        published.row(name, [watts.into()]);
    }
    outcome.tables.push(published);
    let mut chart = Chart::new(
        "Processor time by load",
        Axis::linear("load, %").from(0.0).to(100.0),
        Axis::linear("of one core, %").from(0.0),
    );
    for forwarder in Forwarder::BOTH {
        let name = forwarder.name();
        network.start(forwarder, Judge::Nothing, "")?;
        run.say(&format!("{name}: what it carries"));
        let most = network.forwards(run, &sink, &stream, Rate::Max)?;
        let mut table = Table::new(
            format!("{name}: processor time of forwarding and of the daemon"),
            &[
                "load",
                "kpps",
                "forwarding, % of a core",
                "daemon, % of a core",
                "s of a core per million packets",
            ],
        );
        let mut line = Vec::new();
        for &load in run.either(&LOADS[..], &[0.0, 50.0]) {
            run.say(&format!("{name}: {load} %"));
            let running = network.load(&stream, Rate::Packets(most * load / 100.0))?;
            let daemon = network.daemon();
            let spent = || -> (f64, f64) {
                let polls = ["in0", "out0"]
                    .iter()
                    .flat_map(|name| polling(name))
                    .map(|thread| busy(&format!("/proc/{thread}/schedstat")));
                (polls.sum(), daemon.map_or(0.0, of_process))
            };
            let count = || sink.packets().map_err(ExperimentError::io("the sink's counters"));
            let (begin, before, packets) = (Instant::now(), spent(), count()?);
            std::thread::sleep(Duration::from_millis(run.either(4000, 400)));
            let (after, seconds) = (spent(), begin.elapsed().as_secs_f64());
            let packets = (count()? - packets) as f64;
            running.end()?;
            let forwarding = (after.0 - before.0) / seconds * 100.0;
            let of_daemon = (after.1 - before.1) / seconds * 100.0;
            let each = (load > 0.0 && packets > 0.0)
                .then(|| (after.0 - before.0 + after.1 - before.1) / packets * 1e6);
            line.push((load, forwarding + of_daemon));
            let daemon = daemon.map(|_| of_daemon);
            table.row(
                format!("{load} %"),
                [(packets / seconds / 1e3).into(), forwarding.into(), daemon.into(), each.into()],
            );
        }
        outcome.tables.push(table);
        chart = chart.series(Series::line(name, line));
    }
    network.stop()?;
    outcome.charts.push(chart);
    outcome.note("Load in percent of what each carries itself. Time is the kernel's own account of the threads that poll the router's ports, and of the daemon with its workers; watts are not measured, for few machines tell them.");
    Ok(())
}

/// Seconds that a thread has run, by the scheduler's account.
fn busy(schedstat: &str) -> f64 {
    fs::read_to_string(schedstat).ok().and_then(|text| nanoseconds(&text)).unwrap_or(0.0) / 1e9
}

/// The first number of a `schedstat`: nanoseconds on the processor.
fn nanoseconds(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// The same of all threads of a process.
fn of_process(process: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks.map(|task| busy(&task.path().join("schedstat").display().to_string())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read() {
        assert_eq!(nanoseconds("1500000000 77 3\n"), Some(1.5e9));
        assert_eq!(nanoseconds(""), None);
        let before = of_process(std::process::id());
        let end = Instant::now() + Duration::from_millis(30);
        while Instant::now() < end {
            std::hint::black_box(0);
        }
        assert!(of_process(std::process::id()) > before);
    }
}
