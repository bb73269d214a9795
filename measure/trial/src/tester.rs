//! A device under test between real ports: loads are streams of `traffic`, sent out of one port of
//! a pair and received by the other.
//!
//! What belongs to the device itself, and not to its ports, is done by commands that the operator
//! gives: to reset it, to load a filter, to send it routing updates. They run in a shell, with the
//! number that matters in `$COUNT`.
//!
//! Recovery from overload is two streams: one at half of the load all the time, and another that
//! doubles it until the step. Of the first, the sink knows which frame was the last one to be lost,
//! and so when that was due.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use traffic::range::{Addresses, Macs};
use traffic::rate::{Pattern as Rhythm, Rate};
use traffic::size::{Part, Sizes};
use traffic::stamp::STAMP;
use traffic::{Distribution, Port, Report, Running, Stream, TrafficError, Trial};
use wire::Mac;

use crate::{
    Description, Device, DeviceError, Direction, Family, Frames, Latency, Measured, Offered, Pattern, silence,
};

/// Ethernet's header and FCS, and UDP's header.
const AROUND: usize = 14 + 4 + 8;
/// Late frames are waited for so long after a trial of the RFC's length (RFC 2544 section 23), and
/// after shorter ones for half of the trial, but for this at least.
const DRAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// How often it is looked whether a trial is over.
const LOOK: Duration = Duration::from_millis(20);
/// The stream that is measured, where there are others.
const TEST: &str = "test";
/// The stream that is beside it until a step.
const OVERLOAD: &str = "overload";
/// One frame in so many is a broadcast where that is wished (RFC 2544 section 11.1).
const BROADCASTS: f64 = 100.0;

/// Two ports of the tester, with the device between them.
#[derive(Clone)]
pub struct Pair {
    /// The port that sends, and its end of the traffic.
    pub from: End,
    /// The port that receives; it sends as well when both do.
    pub to: End,
}

/// A port with what is behind it.
#[derive(Clone)]
pub struct End {
    /// The port.
    pub port: Port,
    /// Addresses of the hosts that are thought to be behind this port.
    pub hosts: Addresses,
    /// The device's MAC address on this port; that of the pair's other port when it is left out, as
    /// for a wire or a bridge.
    pub device_mac: Option<Macs>,
}

/// Commands that act on the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Resets it (RFC 6201).
    pub reset: Option<String>,
    /// Loads a filter of `$COUNT` rules of which the last one lets everything through.
    pub filter: Option<String>,
    /// Sends it a routing update of `$COUNT` prefixes.
    pub routes: Option<String>,
}

/// The tester.
pub struct Tester {
    /// One or more pairs of ports.
    pub pairs: Vec<Pair>,
    /// What is between them, as one line.
    pub device: String,
    /// Bits a second that fill the line of one port (layer 1).
    pub line_bits: f64,
    /// Frames a second that this tester can offer one port, where it is known.
    pub rate: Option<f64>,
    /// Flows that the load is spread over.
    pub flows: u32,
    /// Cores that send; any when empty.
    pub cores: Vec<usize>,
    /// Commands that act on the device.
    pub commands: Commands,
    /// Ends a trial early.
    pub stop: Arc<AtomicBool>,
    /// Rules that the device's filter has, as far as was told it.
    filters: u32,
}

impl Tester {
    /// A tester with these pairs of ports around a device.
    pub fn new(device: impl Into<String>, pairs: Vec<Pair>, line_bits: f64, stop: Arc<AtomicBool>) -> Tester {
        Tester {
            pairs,
            device: device.into(),
            line_bits,
            rate: None,
            flows: 65_536,
            cores: Vec::new(),
            commands: Commands::default(),
            stop,
            filters: 0,
        }
    }

    /// What is asked of the device itself before the trial.
    fn prepare(&mut self, offered: &Offered) -> Result<(), DeviceError> {
        let modifiers = &offered.modifiers;
        if modifiers.management {
            return Err(DeviceError::Unsupported("this tester makes no management queries".to_owned()));
        }
        if modifiers.route_updates > 0 && self.commands.routes.is_none() {
            return Err(missing("routing updates"));
        }
        if modifiers.filters != self.filters {
            let Some(command) = &self.commands.filter else { return Err(missing("filters")) };
            shell(command, modifiers.filters).and_then(finish)?;
            self.filters = modifiers.filters;
        }
        match offered.pattern {
            Pattern::Reset { .. } if self.commands.reset.is_none() => Err(missing("a reset")),
            _ => Ok(()),
        }
    }

    /// The traffic of a trial: one for each sending port.
    fn trials(&self, offered: &Offered) -> Result<Vec<Trial>, DeviceError> {
        let size = sizes(&offered.frames)?;
        let mut trials = Vec::new();
        for pair in self.pairs.iter().take(usize::from(offered.pairs)) {
            let mut ways = vec![(&pair.from, &pair.to)];
            if offered.direction == Direction::Both {
                ways.push((&pair.to, &pair.from));
            }
            for (from, to) in ways {
                let test = Stream {
                    name: TEST.to_owned(),
                    size: size.clone(),
                    // A frame's gap is as long as the frame: a mix at line rate then fills the line
                    // and no more.
                    rate: Rate::Layer1(offered.frames.line_bits(offered.rate)),
                    flows: self.flows,
                    destination_mac: from.device_mac,
                    source: from.hosts.clone(),
                    destination: to.hosts.clone(),
                    ..Stream::default()
                };
                let mut streams = vec![test.clone()];
                if let Pattern::Step { after, rate } = offered.pattern {
                    streams[0].rate = Rate::Layer1(offered.frames.line_bits(rate));
                    let more = (offered.rate - rate).max(0.0);
                    let packets = (more * after) as u32;
                    if packets > 0 {
                        let gap = Duration::from_secs_f64(2.0 * offered.seconds);
                        let pattern = Rhythm::Burst { packets, gap };
                        let rate = Rate::Layer1(offered.frames.line_bits(more));
                        streams.push(Stream { name: OVERLOAD.to_owned(), rate, pattern, ..test.clone() });
                    }
                }
                if offered.modifiers.broadcast {
                    streams.push(Stream {
                        name: "broadcast".to_owned(),
                        rate: Rate::Layer1(offered.frames.line_bits(offered.rate / BROADCASTS)),
                        flows: 1,
                        destination_mac: Some(Macs::of(Mac([0xff; 6]))),
                        stamp: false,
                        ..test
                    });
                }
                let count = match offered.pattern {
                    Pattern::Burst { frames } => Some(frames),
                    _ => None,
                };
                let half = Duration::from_secs_f64(offered.seconds / 2.0);
                trials.push(Trial {
                    streams,
                    to: Some(to.port.clone()),
                    duration: count.is_none().then(|| Duration::from_secs_f64(offered.seconds)),
                    count,
                    cores: self.cores.clone(),
                    drain: half.clamp(DRAIN.0, DRAIN.1),
                    line: Some(self.line_bits),
                    ..Trial::new(from.port.clone())
                });
            }
        }
        Ok(trials)
    }

    /// Makes the trials at the same time.
    fn reports(&self, trials: Vec<Trial>, offered: &Offered) -> Result<Vec<Report>, DeviceError> {
        let running: Vec<Running> =
            trials.into_iter().map(Trial::start).collect::<Result<_, _>>().map_err(failed)?;
        self.watch(&running, offered)?;
        let reports: Vec<Report> =
            running.into_iter().map(Running::wait).collect::<Result<_, _>>().map_err(failed)?;
        // A reset may well take links with it; anything else that does has spoilt the trial.
        let broken = reports.iter().find_map(|report| report.interrupted.as_ref());
        match (broken, offered.pattern) {
            (None, _) | (_, Pattern::Reset { .. }) => Ok(reports),
            (Some(why), _) => Err(DeviceError::Failed(format!("{why}; the trial does not count"))),
        }
    }

    /// Whether a device of which nothing came back, since so many seconds after the start, carries
    /// anything now.
    fn probe(&self, offered: &Offered, since: f64) -> Result<(), DeviceError> {
        let probe = silence::probe(offered, self.describe().least(offered.family));
        let mut silent = Vec::new();
        for _ in 0..silence::TRIES {
            let trials = self.trials(&probe)?;
            let ports: Vec<Port> = trials.iter().filter_map(|trial| trial.to.clone()).collect();
            let missing = silence::missing(&self.reports(trials, &probe)?, TEST);
            if missing.is_empty() {
                return Ok(());
            }
            let all = missing.len() == ports.len();
            let missing = missing.into_iter().filter_map(|number| ports.get(number).cloned());
            silent = missing.filter(|_| !all).collect();
            sleep(silence::PAUSE);
        }
        let silent: Vec<&str> = silent.iter().map(Port::name).collect();
        Err(silence::gone(since, &silent))
    }

    /// Waits for the end, and does meanwhile what is to be done to the device.
    fn watch(&self, running: &[Running], offered: &Offered) -> Result<(), DeviceError> {
        let begin = Instant::now();
        let mut reset = match offered.pattern {
            Pattern::Reset { after } => self.commands.reset.as_deref().map(|command| (after, command)),
            _ => None,
        };
        let (updates, every) = (offered.modifiers.route_updates, offered.modifiers.route_interval.max(1));
        let mut update = 0;
        let mut children = Vec::new();
        while !running.iter().all(Running::is_over) {
            if self.stop.load(Ordering::Relaxed) {
                running.iter().for_each(Running::stop);
                return Err(DeviceError::Stopped);
            }
            let now = begin.elapsed().as_secs_f64();
            if let Some((_, command)) = reset.take_if(|(after, _)| now >= *after) {
                children.push(shell(command, 0)?);
            }
            if let (true, Some(command)) =
                (updates > 0 && now >= f64::from(update * every), &self.commands.routes)
            {
                children.push(shell(command, updates)?);
                update += 1;
            }
            sleep(LOOK);
        }
        children.into_iter().try_for_each(finish)
    }
}

impl Device for Tester {
    fn describe(&self) -> Description {
        let ports = |pair: &Pair| format!("{} - {}", pair.from.port.name(), pair.to.port.name());
        let least = |header: usize| (AROUND + header + STAMP) as u16;
        Description {
            name: self.device.clone(),
            tester: self.pairs.iter().map(ports).collect::<Vec<_>>().join(", "),
            line_bits: self.line_bits,
            tester_rate: self.rate,
            pairs: self.pairs.len() as u16,
            traffic: format!(
                "{} flows, {}",
                self.flows,
                self.pairs.iter().map(between).collect::<Vec<_>>().join("; ")
            ),
            least4: least(20),
            least6: least(40),
        }
    }

    fn trial(&mut self, offered: &Offered) -> Result<Measured, DeviceError> {
        self.prepare(offered)?;
        let trials = self.trials(offered)?;
        let receivers: Vec<Port> = trials.iter().filter_map(|trial| trial.to.clone()).collect();
        let reports = self.reports(trials, offered)?;
        // After a reset nothing comes back for a while: that is what is measured.
        let since = silence::begins(&reports, TEST);
        if let (Some(since), false) = (since, matches!(offered.pattern, Pattern::Reset { .. })) {
            self.probe(offered, since)?;
        }
        let mut measured = measured(&reports)?;
        if let Pattern::Step { after, .. } = offered.pattern {
            measured.last_loss = Some(last_loss(&receivers, &reports, offered.seconds, after)?);
        }
        Ok(measured)
    }
}

/// Whose frames a pair of ports sends: hosts, and the device's MAC addresses where it is a router.
fn between(pair: &Pair) -> String {
    let end = |end: &End| match &end.device_mac {
        Some(mac) => format!("{} (by {mac})", end.hosts),
        None => end.hosts.to_string(),
    };
    format!("{} - {}", end(&pair.from), end(&pair.to))
}

/// Seconds from a step to when the last lost frame was due; of what is beside the test's stream,
/// all is due before. Each report is that of what arrived by one of the ports.
fn last_loss(ports: &[Port], reports: &[Report], seconds: f64, step: f64) -> Result<f64, DeviceError> {
    let mut last: f64 = 0.0;
    for (port, report) in ports.iter().zip(reports) {
        for stream in report.streams.iter().filter(|stream| stream.name == TEST) {
            let Some(until) = stream.lost_until else { return Err(several_queues(port.name())) };
            last = last.max(until);
        }
    }
    Ok((last * seconds - step).max(0.0))
}

/// Frames arrive by several receive queues of this port, each of which the kernel judges for
/// itself.
fn several_queues(port: &str) -> DeviceError {
    let plain = port.trim_start_matches("live:");
    let interface = plain.split('@').next().unwrap_or(plain);
    DeviceError::Unsupported(format!(
        "frames of the load arrive at {port} by several receive queues, among which there is no order, so it is not known which was the \
         last one lost: receive by xsk:{plain}, where one thread sees all of them, or give it one queue (ethtool -L {interface} \
         combined 1; rx 1 where it has receive queues of their own)"
    ))
}

/// What the reports of all sending ports come to.
fn measured(reports: &[Report]) -> Result<Measured, DeviceError> {
    let mut measured = Measured::default();
    let mut latencies: Vec<(&Distribution, Option<f64>)> = Vec::new();
    for report in reports {
        measured.seconds = measured.seconds.max(report.seconds);
        measured.missed += report.missed;
        for stream in report.streams.iter().filter(|stream| [TEST, OVERLOAD].contains(&stream.name.as_str()))
        {
            let (Some(lost), Some(_)) = (stream.lost, stream.received) else {
                let what = "the receiving port does not tell what was lost".to_owned();
                return Err(DeviceError::Unsupported(what));
            };
            let damaged = stream.corrupt.unwrap_or(0);
            measured.sent += stream.sent.packets;
            measured.received += stream.sent.packets.saturating_sub(lost + damaged);
            measured.duplicates += stream.duplicates.unwrap_or(0);
            measured.corrupted += damaged;
            measured.reordered += stream.reordering.map_or(0, |reordering| reordering.packets);
            let jitter = stream.delay_variation.as_ref().map(|variation| variation.mean);
            latencies.extend(stream.latency.as_ref().map(|latency| (latency, jitter)));
        }
    }
    measured.latency = combined(&latencies);
    Ok(measured)
}

/// The latencies of several directions: their mean by frames, and percentiles of whichever is
/// slower there.
fn combined(latencies: &[(&Distribution, Option<f64>)]) -> Option<Latency> {
    let (first, _) = latencies.first()?;
    let count: u64 = latencies.iter().map(|(latency, _)| latency.count).sum();
    let weighted = |value: &dyn Fn(&Distribution, Option<f64>) -> f64| {
        let sum: f64 =
            latencies.iter().map(|(latency, jitter)| latency.count as f64 * value(latency, *jitter)).sum();
        sum / count.max(1) as f64
    };
    let slower = |(at, _): &(f64, u64)| {
        let there = |latency: &Distribution| {
            latency.points.iter().find(|(point, _)| point == at).map(|(_, value)| *value)
        };
        let slowest = latencies.iter().filter_map(|(latency, _)| there(latency)).max();
        (*at, slowest.unwrap_or(0) as f64)
    };
    Some(Latency {
        count,
        min: latencies.iter().map(|(latency, _)| latency.min).min().unwrap_or(0) as f64,
        mean: weighted(&|latency, _| latency.mean),
        max: latencies.iter().map(|(latency, _)| latency.max).max().unwrap_or(0) as f64,
        jitter: latencies
            .iter()
            .all(|(_, jitter)| jitter.is_some())
            .then(|| weighted(&|_, jitter| jitter.unwrap_or(0.0))),
        percentiles: first.points.iter().map(slower).collect(),
    })
}

fn sizes(frames: &Frames) -> Result<Sizes, DeviceError> {
    let part =
        |(size, weight): (u16, usize)| Part { first: size.into(), last: size.into(), weight: weight as u32 };
    Sizes::mix(frames.weights().into_iter().map(part).collect())
        .map_err(|error| DeviceError::Unsupported(error.to_string()))
}

/// The addresses of RFC 2544, appendix C.2.2, and of RFC 5180, section 8, for hosts behind the
/// first and the second port.
pub fn hosts(family: Family) -> (&'static str, &'static str) {
    match family {
        Family::V4 => ("198.18.0.0/16", "198.19.0.0/16"),
        Family::V6 => ("2001:2::/64", "2001:2:0:1::/64"),
    }
}

fn failed(error: TrafficError) -> DeviceError {
    DeviceError::Failed(error.to_string())
}

fn missing(what: &str) -> DeviceError {
    DeviceError::Unsupported(format!("no command was given that makes {what}"))
}

/// Begins a command.
fn shell(command: &str, count: u32) -> Result<Child, DeviceError> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env("COUNT", count.to_string());
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    shell.spawn().map_err(|error| DeviceError::Failed(format!("`{command}`: {error}")))
}

/// Waits for its end.
fn finish(mut command: Child) -> Result<(), DeviceError> {
    match command.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            Err(DeviceError::Failed(format!("a command that acts on the device ended with {status}")))
        }
        Err(error) => Err(DeviceError::Failed(format!("a command that acts on the device: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Modifiers;
    use traffic::{Count, StreamReport};

    fn report(lost: u64, slow: u64) -> Report {
        let points = vec![(50.0, slow), (100.0, 2 * slow)];
        let latency = Distribution {
            count: 100,
            min: 10,
            mean: slow as f64,
            max: 2 * slow,
            points,
            ..Distribution::default()
        };
        let stream = StreamReport {
            name: TEST.to_owned(),
            sent: Count { packets: 1000, bytes: 64_000 },
            received: Some(Count::default()),
            lost: Some(lost),
            latency: Some(latency.clone()),
            delay_variation: Some(latency),
            ..StreamReport::default()
        };
        let other = StreamReport { name: "broadcast".to_owned(), ..stream.clone() };
        Report { seconds: 1.0, streams: vec![stream, other], ..Report::default() }
    }

    #[test]
    fn directions_are_added_up() {
        let full = Report { missed: 4, ..report(10, 300) };
        let measured = measured(&[report(0, 100), full]).unwrap();
        assert_eq!((measured.sent, measured.received, measured.seconds), (2000, 1990, 1.0));
        assert_eq!(measured.missed, 4);
        let latency = measured.latency.unwrap();
        assert_eq!((latency.mean, latency.max, latency.jitter), (200.0, 600.0, Some(200.0)));
        assert_eq!(latency.percentiles, [(50.0, 300.0), (100.0, 600.0)]);
    }

    #[test]
    fn a_receiver_that_does_not_know_is_no_receiver() {
        let mut report = report(0, 1);
        report.streams[0].lost = None;
        assert!(matches!(measured(&[report]), Err(DeviceError::Unsupported(_))));
    }

    #[test]
    fn recovery_ends_with_the_last_loss_of_either_way() {
        let last = |ways: &[Option<f64>]| {
            let way = |until: &Option<f64>| {
                let mut report = report(10, 100);
                report.streams[0].lost_until = *until;
                report
            };
            let ports = ["live:eth1@lab", "eth2"].map(|name| Port::of_queues(name, Vec::new()));
            last_loss(&ports, &ways.iter().map(way).collect::<Vec<_>>(), 2.0, 1.0)
        };
        assert_eq!(last(&[Some(0.6), Some(0.75)]).unwrap(), 0.5);
        assert_eq!(last(&[Some(0.4), Some(0.0)]).unwrap(), 0.0, "nothing was lost after the step");
        let why = |ways| last(ways).unwrap_err().to_string();
        assert!(why(&[Some(0.4), None]).contains("ethtool -L eth2 combined 1"));
        let first = why(&[None, Some(0.4)]);
        assert!(first.contains("by xsk:eth1@lab,") && first.contains("-L eth1 combined"), "{first}");
    }

    #[test]
    fn damaged_frames_did_not_come_back() {
        let mut report = report(10, 100);
        report.streams[0].corrupt = Some(5);
        let measured = measured(&[report]).unwrap();
        assert_eq!((measured.received, measured.corrupted), (985, 5));
    }

    /// A tester that was told everything.
    fn tester() -> Tester {
        let port = Port::of_queues("none", Vec::new());
        let end = |hosts: &str, mac: Option<&str>| End {
            port: port.clone(),
            hosts: hosts.parse().unwrap(),
            device_mac: mac.map(|mac| mac.parse().unwrap()),
        };
        let pair =
            Pair { from: end("198.18.0.0/16", Some("02:00:00:00:00:01")), to: end("198.19.0.0/16", None) };
        Tester { flows: 7, ..Tester::new("it", vec![pair], 1e9, Arc::default()) }
    }

    #[test]
    fn a_tester_says_between_whom_its_load_goes() {
        assert_eq!(
            tester().describe().traffic,
            "7 flows, 198.18.0.0-198.18.255.255 (by 02:00:00:00:00:01) - 198.19.0.0-198.19.255.255"
        );
    }

    #[test]
    fn the_load_of_each_way_is_as_it_was_said() {
        let offered = Offered {
            frames: Frames::fixed(64),
            rate: 1000.0,
            seconds: 2.0,
            direction: Direction::Both,
            pairs: 1,
            family: Family::V4,
            pattern: Pattern::Constant,
            modifiers: Modifiers { broadcast: true, ..Modifiers::default() },
        };
        let (tester, trials) = (tester(), tester().trials(&offered).unwrap());
        let Pair { from, to } = &tester.pairs[0];
        assert_eq!(trials.len(), 2);
        for (trial, (from, to)) in trials.iter().zip([(from, to), (to, from)]) {
            let [test, broadcast] = &trial.streams[..] else { panic!("{:?}", trial.streams) };
            assert_eq!((&test.name[..], test.flows, test.rate), (TEST, 7, Rate::Layer1(672_000.0)));
            assert_eq!((&test.source, &test.destination), (&from.hosts, &to.hosts));
            assert_eq!((test.destination_mac, test.stamp), (from.device_mac, true));
            assert_eq!((broadcast.flows, broadcast.stamp), (1, false));
            assert_eq!((trial.duration, trial.count), (Some(Duration::from_secs(2)), None));
        }
        let burst = Offered { pattern: Pattern::Burst { frames: 9 }, ..offered };
        assert!(
            tester
                .trials(&burst)
                .unwrap()
                .iter()
                .all(|trial| (trial.duration, trial.count) == (None, Some(9)))
        );
    }

    #[test]
    fn mixes_go_over_to_the_generator() {
        let sizes = sizes(&Frames::imix()).unwrap();
        assert!((sizes.mean() - Frames::imix().mean()).abs() < 1e-9);
    }

    #[test]
    fn commands_have_their_number_and_tell_when_they_fail() {
        assert!(shell("test $COUNT = 25", 25).and_then(finish).is_ok());
        assert!(shell("exit 3", 0).and_then(finish).unwrap_err().to_string().contains('3'));
    }
}
