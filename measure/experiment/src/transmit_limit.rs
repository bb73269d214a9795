//! The transmit limit: as much as this machine can send, from one core and from all of them.

use std::time::{Duration, Instant};

use lab::{Host, Lab};
use port::traffic::Sink;
use traffic::rate::Rate;
use traffic::{Port, Stream, Trial};

use crate::load;
use crate::measure::cores;
use crate::outcome::{Cell, Table};
use crate::{Experiment, ExperimentError, Outcome, Run};

pub const EXPERIMENT: Experiment = Experiment {
    name: "transmit-limit",
    question: "How much can this machine send from all of its cores at the same time?",
    source: "Control and forwarding plane separation, 2010, experiment 3: pktgen on 10 cores, 10 ports of 10 Gb/s: 93 Gb/s",
    needs_root: true,
    work,
};

fn work(run: &Run<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
    let cores = cores();
    let time = Duration::from_millis(run.either(2000, 250));
    let counts: Vec<usize> = [1, 2, 4, 8, 10, 16].into_iter().filter(|count| *count <= cores.len()).collect();
    let mut table = Table::new(
        "sent, 65,536 flows; Gb/s with preamble and gap, as a line counts",
        &["", "cores", "Mpps at 64 bytes", "Gb/s", "Mpps at 1518 bytes", "Gb/s"],
    );
    table.row("then: 10 ports of 10 Gb/s", [10.into(), "".into(), "".into(), "".into(), 93.0.into()]);
    for &count in &counts {
        run.say(&format!("into memory, from {count} cores"));
        let cells = both(count, |size| memory(&cores[cores.len() - count..], size, time))?;
        table.row("packets made in memory", cells);
    }
    let lab = Lab::new("experiment")?;
    let most = counts.last().copied().unwrap_or(1);
    let ends = (0..most).map(|n| Wire::new(&lab, n)).collect::<Result<Vec<_>, _>>()?;
    for &count in &counts {
        run.say(&format!("out of {count} interfaces"));
        let cells = both(count, |size| wires(&ends[..count], &cores[cores.len() - count..], size, time))?;
        table.row("out of veth interfaces (XDP live frames), one a core", cells);
    }
    outcome.tables.push(table);
    outcome.note("What a veth takes from its sender is received and counted on the sender's core, which is part of what is measured.");
    Ok(())
}

/// Both sizes of a row.
fn both(
    count: usize,
    mut sent: impl FnMut(&str) -> Result<f64, ExperimentError>,
) -> Result<[Cell; 5], ExperimentError> {
    let (small, large) = (sent("64")? / 1e6, sent("1518")? / 1e6);
    let bits = |mpps: f64, size: f64| mpps * (size + 20.0) * 8.0 / 1e3;
    Ok([count.into(), small.into(), bits(small, 64.0).into(), large.into(), bits(large, 1518.0).into()])
}

fn stream(size: &str) -> Result<Stream, ExperimentError> {
    let random = |text: &str| text.parse().map_err(|error| ExperimentError::Words(format!("{error}")));
    Ok(Stream {
        size: load::sizes(size)?,
        rate: Rate::Max,
        flows: 65_536,
        destination: random("random 198.19.0.0/16")?,
        stamp: false,
        ..Stream::default()
    })
}

/// Packets a second into memory, together: each core has a trial of its own.
fn memory(cores: &[usize], size: &str, time: Duration) -> Result<f64, ExperimentError> {
    let trial = |core: &usize| -> Result<traffic::Running, ExperimentError> {
        let port = Port::of_queues("nowhere", vec![Box::new(Nowhere::default())]);
        let trial = Trial {
            streams: vec![stream(size)?],
            duration: Some(time),
            cores: vec![*core],
            ..Trial::new(port)
        };
        Ok(trial.start()?)
    };
    let running = cores.iter().map(trial).collect::<Result<Vec<_>, _>>()?;
    running.into_iter().map(|running| Ok(running.wait()?.sent_rate())).sum()
}

/// A port that takes all and keeps nothing.
#[derive(Default)]
struct Nowhere(port::QueueCounters);

impl port::Queue for Nowhere {
    fn port(&self) -> fib::PortId {
        fib::PortId(0)
    }

    fn receive(&mut self, _: &mut Vec<port::Packet>, _: usize) -> usize {
        0
    }

    fn transmit(&mut self, packets: &mut Vec<port::Packet>) -> usize {
        let count = packets.len();
        self.0.tx_packets += count as u64;
        packets.clear();
        count
    }

    fn kick(&mut self) {}

    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> port::QueueCounters {
        self.0
    }
}

/// A link of two hosts, with a sink at its end.
struct Wire {
    host: Host,
    interface: String,
    sink: Sink,
}

impl Wire {
    fn new(lab: &Lab, number: usize) -> Result<Wire, ExperimentError> {
        let (host, peer) = (lab.host(&format!("sends{number}"))?, lab.host(&format!("takes{number}"))?);
        let (interface, end) = (format!("tx{number}"), format!("rx{number}"));
        lab.link(host.end(&interface), peer.end(&end))?;
        let index = peer.interface_number(&end, "ifindex")? as u32;
        let attached = peer.inside(move || Sink::attach(index))?.join();
        let sink =
            attached.map_err(|_| ExperimentError::Wrong("attaching the sink panicked".to_owned()))??;
        Ok(Wire { host, interface, sink })
    }
}

/// Packets a second that arrive at the other ends, together.
fn wires(wires: &[Wire], cores: &[usize], size: &str, time: Duration) -> Result<f64, ExperimentError> {
    let mut running = Vec::new();
    for (wire, core) in wires.iter().zip(cores) {
        let trial = Trial {
            streams: vec![Stream {
                destination_mac: Some(traffic::range::Macs::of(wire::Mac([2; 6]))),
                ..stream(size)?
            }],
            duration: Some(4 * time),
            cores: vec![*core],
            ..Trial::new(load::port(&wire.host, &wire.interface)?)
        };
        running.push(trial.start()?);
    }
    std::thread::sleep(Duration::from_millis(100));
    let packets = || -> Result<u64, ExperimentError> {
        wires.iter().map(|wire| wire.sink.packets().map_err(ExperimentError::io("the sink's counters"))).sum()
    };
    let (begin, before) = (Instant::now(), packets()?);
    std::thread::sleep(time);
    let rate = (packets()? - before) as f64 / begin.elapsed().as_secs_f64();
    for running in running {
        running.stop();
        running.wait()?;
    }
    Ok(rate)
}
