//! Packets made: by the generator in memory, and by the kernel's live frames into a veth.

use crate::ruler::{Ruler, TICK, ticks, ticks_per_second};
use lab::Lab;
use port::Pool;
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use traffic::maker::{Maker, Part};
use traffic::plan::{Ends, Plan};
use traffic::{Port, Stream, Trial};

const BATCH: usize = 64;
const BATCHES: usize = 256;
const SAMPLES: usize = 101;
const TRIALS: usize = 5;

/// A bench in memory: its names (cycles a packet, rate) and the stream.
const MADE: [([&str; 2], &str); 4] = [
    (["gen/64b", "gen/64b/rate"], "flows = 65536\ndestination = 'random 10.0.0.0/8'"),
    (
        ["gen/64b/churn", "gen/64b/churn/rate"],
        "flows = 65536\nflow_length = 10\ndestination = 'random 10.0.0.0/8'",
    ),
    (["gen/imix", "gen/imix/rate"], "size = 'imix'\nflows = 65536\ndestination = 'random 10.0.0.0/8'"),
    (
        ["gen/v6", "gen/v6/rate"],
        "size = 84\nflows = 65536\nsource = '2001:db8::1'\ndestination = 'random 2001:db8:1::/64'",
    ),
];

/// All benches of the family.
pub fn run(ruler: &mut Ruler) {
    for (names, stream) in MADE {
        if names.iter().any(|name| ruler.wants(name))
            && let Err(error) = made(ruler, names, stream)
        {
            eprintln!("{}: not measured: {error}", names[0]);
        }
    }
    for (names, stream) in [
        (
            ["gen/veth", "gen/veth/one-core", "gen/veth/seen"],
            "flows = 65536\ndestination = 'random 10.0.0.0/8'",
        ),
        (
            ["gen/veth/imix", "gen/veth/imix/one-core", "gen/veth/imix/seen"],
            "size = 'imix'\nflows = 65536\ndestination = 'random 10.0.0.0/8'",
        ),
    ] {
        if names.iter().any(|name| ruler.wants(name))
            && let Err(error) = veth(ruler, names, stream)
        {
            eprintln!("{}: not measured: {error}", names[0]);
        }
    }
}

fn stream(text: &str) -> Result<Stream, Box<dyn Error>> {
    Stream::parse_all(&format!("[[stream]]\n{text}"))?.pop().ok_or_else(|| "no stream".into())
}

/// Batches of packets with stamps, and their memory given back, as a port does that has sent them.
fn made(ruler: &mut Ruler, [cycles, rate]: [&'static str; 2], text: &str) -> Result<(), Box<dyn Error>> {
    Pool::heap(4096).install();
    let plan = Arc::new(Plan::new(&stream(text)?, Ends::NONE)?);
    let mut maker = Maker::new(plan, Part { mark: 1, lane: 0, index: 0, of: 1 });
    let mut packets = Vec::with_capacity(BATCH);
    let mut time = 0;
    let mut round = || {
        for _ in 0..BATCHES {
            for _ in 0..BATCH {
                time += 33;
                maker.make(time, &mut packets);
            }
            black_box(&mut packets).clear();
        }
    };
    round();
    let samples: Vec<f64> =
        (0..SAMPLES).map(|_| ticks(&mut round) as f64 / (BATCH * BATCHES) as f64).collect();
    if let Some(hz) = ticks_per_second() {
        ruler.record(rate, "Mpps", samples.iter().map(|cycles| hz / cycles / 1e6).collect());
    }
    ruler.record(cycles, TICK, samples);
    Ok(())
}

/// Live frames into a veth, whose other end counts and drops each packet on the core that sent it:
/// from all cores, and from one. And from one core, with the other end judging each packet.
fn veth(ruler: &mut Ruler, [all, one, seen]: [&'static str; 3], text: &str) -> Result<(), Box<dyn Error>> {
    let lab = Lab::new("gen")?;
    let hosts = [lab.host("a")?, lab.host("b")?];
    let cores = ruler.cores().to_vec();
    // A core sends into the queue of its number.
    lab.link_with_queues(hosts[0].end("gen0"), hosts[1].end("gen1"), cores.len() as u32)?;
    let last = &cores[cores.len() - 1..];
    let from = Port::open(&format!("gen0@{}", hosts[0].namespace()), false)?;
    let to = Port::open(&format!("gen1@{}", hosts[1].namespace()), false)?;
    let trial = |to: Option<Port>, cores: &[usize]| {
        let mut stream = stream(text)?;
        // Both ends' addresses, for the trial in which only one end is the generator's.
        stream.destination_mac = Some(traffic::range::Range::of(wire::Mac([2, 0, 0, 0, 0, 1])));
        let trial = Trial {
            streams: vec![stream],
            to,
            duration: Some(Duration::from_secs(1)),
            cores: cores.to_vec(),
            ..Trial::new(from.clone())
        };
        Ok::<_, Box<dyn Error>>(trial.run()?)
    };
    for (sent, cores) in [(all, &cores[..]), (one, last)] {
        if !ruler.wants(sent) {
            continue;
        }
        let namespace = hosts[1].clone();
        let index = namespace.interface_number("gen1", "ifindex")? as u32;
        let attached = namespace.inside(move || port::traffic::Sink::attach(index))?;
        let counter = attached.join().map_err(|_| "attaching panicked")??;
        let mut rates = Vec::new();
        for _ in 0..TRIALS {
            let before = counter.packets()?;
            let report = trial(None, cores)?;
            let counted = counter.packets()? - before;
            // The hosts' own few (neighbour discovery) come on top.
            if counted < report.sent().packets {
                return Err(format!("{} sent, {counted} arrived", report.sent().packets).into());
            }
            rates.push(report.sent_rate() / 1e6);
        }
        ruler.record(sent, "Mpps", rates);
    }
    if ruler.wants(seen) {
        let rates = (0..TRIALS).map(|_| {
            let report = trial(Some(to.clone()), last)?;
            match report.lost() {
                Some(0) => Ok(report.sent_rate() / 1e6),
                lost => Err(format!("{lost:?} packets lost").into()),
            }
        });
        ruler.record(seen, "Mpps", rates.collect::<Result<_, Box<dyn Error>>>()?);
    }
    Ok(())
}
