//! Load into the router of a [`Network`], and what comes out of it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use lab::prefixes::{Random, inside4};
use lab::{Host, wait_for};
use port::traffic::Sink;
use traffic::range::{Addresses, Macs, Order, Ports};
use traffic::rate::Rate;
use traffic::size::Sizes;
use traffic::{Port, Running, Stream, Trial};
use wire::Mac;

use crate::measure::median;
use crate::network::{Network, mac};
use crate::{ExperimentError, Run};

/// Destinations of a load, unless something else is asked.
pub const DESTINATIONS: usize = 65_536;
/// How long a load runs at most, whatever happens to who started it.
const MOST: Duration = Duration::from_secs(120);
/// How long it may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);
/// Until queues and caches are as they will be.
const SETTLE: Duration = Duration::from_millis(300);

/// Load under way, or none at all. It ends when this is dropped.
pub struct Load(Option<Running>);

/// How much had been sent at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    packets: u64,
    seconds: f64,
}

impl Load {
    /// How much has been sent.
    pub fn sent(&self) -> Sent {
        let sent = |running: &Running| {
            let report = running.report();
            Sent { packets: report.sent().packets, seconds: report.seconds }
        };
        self.0.as_ref().map(sent).unwrap_or_default()
    }

    /// Packets that were sent a second since then.
    pub fn offered(&self, since: Sent) -> f64 {
        let now = self.sent();
        (now.packets - since.packets) as f64 / (now.seconds - since.seconds).max(1e-9)
    }

    /// Ends it, and says whether anything went wrong.
    pub fn end(self) -> Result<(), ExperimentError> {
        if let Some(running) = self.0 {
            running.stop();
            running.wait()?;
        }
        Ok(())
    }
}

impl Network {
    /// 64-byte packets to these addresses, a flow each.
    pub fn stream(&self, destinations: PathBuf, flows: usize) -> Stream {
        Stream {
            flows: flows.max(1) as u32,
            source: Addresses::of([10, 1, 0, 2].into()),
            destination: Addresses::File(destinations, Order::Counting),
            source_port: Ports::of(5000),
            stamp: false,
            udp_checksum: false,
            ..Stream::default()
        }
    }

    /// A stream to so many addresses at random inside these routes.
    pub fn stream_inside(&self, routes: &[ipnet::Ipv4Net], count: usize) -> Result<Stream, ExperimentError> {
        let mut random = Random(20_261_122);
        let addresses = (0..count).map(|_| inside4(routes[random.below(routes.len())], &mut random));
        let file = self.addresses(&format!("to-{}-{count}", routes.len()), addresses)?;
        Ok(self.stream(file, count))
    }

    /// Starts load by in0; none when it is of no packets a second.
    pub fn load(&self, stream: &Stream, rate: Rate) -> Result<Load, ExperimentError> {
        if matches!(rate, Rate::Packets(none) if none < 1.0) {
            return Ok(Load(None));
        }
        let router = Some(Macs::of(Mac(mac(1, true))));
        let stream = Stream { rate, destination_mac: stream.destination_mac.or(router), ..stream.clone() };
        let trial = Trial {
            streams: vec![stream],
            duration: Some(MOST),
            cores: vec![self.cores.tester],
            ..Trial::new(port(&self.source, "src0")?)
        };
        let load = Load(Some(trial.start()?));
        wait_for("load", PATIENCE, || match load.sent() {
            Sent { packets: 0, .. } => Err("nothing is sent".to_owned()),
            _ => Ok(()),
        })?;
        std::thread::sleep(SETTLE);
        Ok(load)
    }

    /// Packets a second that are forwarded of such a load: the median of several stretches.
    pub fn forwards(
        &self,
        run: &Run<'_>,
        sink: &Sink,
        stream: &Stream,
        rate: Rate,
    ) -> Result<f64, ExperimentError> {
        let load = self.load(stream, rate)?;
        let (samples, each) = run.either((5, 400), (2, 150));
        let (begin, by_linux) = (load.sent(), self.router.linux_forwarded()?);
        let forwarded = arriving(sink, samples, Duration::from_millis(each))?;
        let by_linux = self.router.linux_forwarded()? - by_linux;
        let seconds = load.sent().seconds - begin.seconds;
        load.end()?;
        if self.has_plane() && by_linux as f64 > forwarded * seconds / 100.0 {
            return Err(ExperimentError::Wrong(format!(
                "Linux forwarded {by_linux} packets in Bifrost's place"
            )));
        }
        Ok(forwarded)
    }
}

/// A port of the generator.
pub fn port(host: &Host, interface: &str) -> Result<Port, ExperimentError> {
    Ok(Port::open(&format!("live:{interface}@{}", host.namespace()), false)?)
}

/// Packets a second that reach the sink: the median of several stretches.
pub fn arriving(sink: &Sink, samples: usize, each: Duration) -> Result<f64, ExperimentError> {
    let packets = || sink.packets().map_err(ExperimentError::io("the sink's counters"));
    let mut rates = Vec::with_capacity(samples);
    for _ in 0..samples {
        let (begin, before) = (Instant::now(), packets()?);
        std::thread::sleep(each);
        rates.push((packets()? - before) as f64 / begin.elapsed().as_secs_f64());
    }
    Ok(median(&rates))
}

/// Sizes of frames, from their text.
pub fn sizes(text: &str) -> Result<Sizes, ExperimentError> {
    text.parse().map_err(|error| ExperimentError::Words(format!("{error}")))
}
