//! What a trial is, and whoever can make one: the device under test with the tester around it.
//!
//! The searches know nothing of packets: they ask a [`Device`] for trials and look at what was sent
//! and what came back. So they are tested against devices that are simulated, and run against
//! anything that can be flooded.

use serde::{Deserialize, Serialize};

use crate::Frames;

/// A device under test with a tester around it.
pub trait Device {
    /// What it is, and how it is connected. The same during a whole run.
    fn describe(&self) -> Description;

    /// Offers this load, and counts what comes back. Late frames are waited for (RFC 2544 section
    /// 23: 2 s).
    fn trial(&mut self, offered: &Offered) -> Result<Measured, DeviceError>;
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// What is tested, as one line: `Bifrost 0.1.0 on eth0, eth1`.
    pub name: String,
    /// Who offers the load, and over which ports.
    pub tester: String,
    /// Bits a second that fill the line of one port (layer 1).
    pub line_bits: f64,
    /// Frames a second that the tester can offer one port at most, where that is less than the line
    /// and known.
    pub tester_rate: Option<f64>,
    /// Pairs of ports that are connected to the device.
    pub pairs: u16,
    /// Between whom the load goes, as one line: flows, addresses, MACs. Reports of older releases
    /// do not say.
    #[serde(default)]
    pub traffic: String,
    /// Bytes of the shortest frame, with the FCS, that the tester can stamp and number, for IPv4.
    pub least4: u16,
    /// The same for IPv6.
    pub least6: u16,
}

impl Description {
    /// Frames a second that can be offered to one port at most.
    pub fn max_rate(&self, frames: &Frames) -> f64 {
        let line = frames.line_rate(self.line_bits);
        self.tester_rate.filter(|rate| rate.is_finite() && *rate > 0.0).map_or(line, |rate| rate.min(line))
    }

    /// Bytes of the shortest frame for a family.
    pub fn least(&self, family: Family) -> u16 {
        match family {
            Family::V4 => self.least4,
            Family::V6 => self.least6,
        }
    }
}

/// Internet protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// RFC 2544.
    #[default]
    V4,
    /// RFC 5180.
    V6,
}

/// Which ports of a pair send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The first to the second.
    #[default]
    OneWay,
    /// Both (RFC 2544 section 14).
    Both,
}

/// What else happens during a trial (RFC 2544 section 11).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Modifiers {
    /// Rules in the device's filter, of which only the last lets the test's frames through (11.4:
    /// 1, and 25).
    pub filters: u32,
    /// Prefixes in a routing update that changes no route of the test's, sent to the device during
    /// the trial (11.3).
    pub route_updates: u32,
    /// Seconds between two routing updates (11.3.1: 30).
    pub route_interval: u32,
    /// One frame in a hundred is a broadcast (11.1).
    pub broadcast: bool,
    /// A management query every second (11.2).
    pub management: bool,
}

/// How the load goes over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// The same all the time.
    Constant,
    /// So many frames a port, with the smallest gap that the line allows (RFC 9004); rate and
    /// seconds say what that comes to.
    Burst {
        /// Frames.
        frames: u64,
    },
    /// The rate changes (system recovery, RFC 2544 section 26.5).
    Step {
        /// After so many seconds,
        after: f64,
        /// to so many frames a second a port.
        rate: f64,
    },
    /// The device is reset (RFC 6201).
    Reset {
        /// After so many seconds.
        after: f64,
    },
}

/// The load of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    /// Sizes.
    pub frames: Frames,
    /// Frames a second into each sending port: the intended load (RFC 2285 section 3.5.1).
    pub rate: f64,
    /// Seconds of sending.
    pub seconds: f64,
    /// Which ports send.
    pub direction: Direction,
    /// Pairs of ports in use.
    pub pairs: u16,
    /// Internet protocol.
    pub family: Family,
    /// Over time.
    pub pattern: Pattern,
    /// What else happens.
    pub modifiers: Modifiers,
}

impl Offered {
    /// Ports that send.
    pub fn senders(&self) -> u32 {
        u32::from(self.pairs) * if self.direction == Direction::Both { 2 } else { 1 }
    }

    /// Frames that all ports together should send.
    pub fn intended(&self) -> f64 {
        let port = match self.pattern {
            Pattern::Constant | Pattern::Reset { .. } => self.rate * self.seconds,
            Pattern::Burst { frames } => frames as f64,
            Pattern::Step { after, rate } => {
                self.rate * after.min(self.seconds) + rate * (self.seconds - after).max(0.0)
            }
        };
        port * f64::from(self.senders())
    }
}

/// What came of a trial. Counts are of all ports together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// Frames that left the tester.
    pub sent: u64,
    /// Frames of the test that came back, each counted once.
    pub received: u64,
    /// Frames that came back once more.
    pub duplicates: u64,
    /// Frames that came back out of order (RFC 4737).
    pub reordered: u64,
    /// Frames that came back damaged; they are lost as well.
    pub corrupted: u64,
    /// Frames that came back and were lost by the tester; they count as lost.
    pub missed: u64,
    /// Seconds that the sending really took.
    pub seconds: f64,
    /// How long frames were on their way, where the tester stamps them.
    pub latency: Option<Latency>,
    /// After a step: seconds from it to when the last lost frame was due; 0 when none was lost
    /// after it.
    pub last_loss: Option<f64>,
    /// The longest time without any frame, in seconds.
    pub gap: Option<f64>,
}

/// Latency, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// Frames measured.
    pub count: u64,
    /// The shortest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The longest.
    pub max: f64,
    /// Mean difference of successive frames' latencies (RFC 4689 section 3.2.5, jitter).
    pub jitter: Option<f64>,
    /// Percentile (0 to 100) and latency, rising.
    pub percentiles: Vec<(f64, f64)>,
}

/// The percentiles that a device should give.
pub const PERCENTILES: [f64; 12] =
    [10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99, 99.999, 100.0];

impl Latency {
    /// The latency at a percentile that was measured.
    pub fn at(&self, percentile: f64) -> Option<f64> {
        self.percentiles.iter().find(|(at, _)| *at == percentile).map(|(_, value)| *value)
    }

    /// The averages of several trials (RFC 2544 section 26.2), with the shortest and the longest of
    /// all.
    pub fn average(trials: &[Latency]) -> Option<Latency> {
        let first = trials.first()?;
        let mean = |figure: &dyn Fn(&Latency) -> Option<f64>| {
            let known: Vec<f64> = trials.iter().filter_map(figure).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        let percentiles = first.percentiles.iter();
        Some(Latency {
            count: trials.iter().map(|trial| trial.count).sum(),
            min: trials.iter().map(|trial| trial.min).fold(f64::INFINITY, f64::min),
            mean: mean(&|trial| Some(trial.mean))?,
            max: trials.iter().map(|trial| trial.max).fold(0.0, f64::max),
            jitter: mean(&|trial| trial.jitter),
            percentiles: percentiles
                .filter_map(|(at, _)| Some((*at, mean(&|trial| trial.at(*at))?)))
                .collect(),
        })
    }
}

/// A tester that sends less than it was told by more than this part of it lacks power: what it did
/// not send counts as lost, or a tester that is too slow would make its device look fast (RFC 9971,
/// Measurer). As wide as a search's bounds.
const SHORTFALL: f64 = 0.005;
/// Beside that the last frames may be late by so many seconds, a hundredth of a trial at most: a
/// system's scheduler is no metronome.
const LATE: f64 = 0.005;

impl Measured {
    /// Part of the offered frames that was lost, 0 to 1. Nothing sent is all lost; more received
    /// than sent is nothing lost.
    pub fn loss(&self, offered: &Offered) -> f64 {
        let sent = if self.is_short(offered) { offered.intended() } else { self.sent as f64 };
        if sent < 1.0 {
            return 1.0;
        }
        (1.0 - self.received as f64 / sent).clamp(0.0, 1.0)
    }

    /// Whether the tester sent notably less than it was told, beyond the rounding of a frame a
    /// port.
    pub fn is_short(&self, offered: &Offered) -> bool {
        let (intended, senders) = (offered.intended(), f64::from(offered.senders()));
        // Bursts are counted, not timed.
        let late = if matches!(offered.pattern, Pattern::Burst { .. }) {
            0.0
        } else {
            LATE.min(offered.seconds / 100.0) * offered.rate
        };
        (self.sent as f64) < intended * (1.0 - SHORTFALL) - senders * (1.0 + late)
    }

    /// Frames that came back a second, of all ports together.
    pub fn forwarded(&self, offered: &Offered) -> f64 {
        let seconds =
            if self.seconds.is_finite() && self.seconds > 0.0 { self.seconds } else { offered.seconds };
        if seconds > 0.0 { self.received as f64 / seconds } else { 0.0 }
    }
}

/// Why there is no trial.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// This device, or this tester, cannot do that. The test is left out, and the reason stands in
    /// the report.
    #[error("{0}")]
    Unsupported(String),
    /// It could not be done now. The run ends, and can be resumed.
    #[error("{0}")]
    Failed(String),
    /// Somebody asked to stop during the trial.
    #[error("stopped")]
    Stopped,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(rate: f64) -> Offered {
        Offered {
            frames: Frames::fixed(64),
            rate,
            seconds: 1.0,
            direction: Direction::OneWay,
            pairs: 1,
            family: Family::V4,
            pattern: Pattern::Constant,
            modifiers: Modifiers::default(),
        }
    }

    #[test]
    fn loss_of_odd_counts() {
        let measured = |sent, received| Measured { sent, received, ..Measured::default() };
        assert!((measured(1000, 900).loss(&offered(1000.0)) - 0.1).abs() < 1e-12);
        assert_eq!(measured(1000, 1200).loss(&offered(1000.0)), 0.0);
        assert_eq!(measured(0, 0).loss(&offered(0.0)), 1.0);
        assert_eq!(measured(0, 5).loss(&offered(0.5)), 1.0);
        // A tester that sent half of it, of which nothing was lost, has not shown that the device
        // carries the load.
        assert_eq!(measured(500, 500).loss(&offered(1000.0)), 0.5);
        assert_eq!(measured(999, 999).loss(&offered(1000.0)), 0.0);
        assert!(!measured(u64::MAX, 3).loss(&offered(f64::INFINITY)).is_nan());
    }

    #[test]
    fn what_is_intended() {
        let mut both = Offered { direction: Direction::Both, pairs: 2, ..offered(10.0) };
        assert_eq!(both.intended(), 40.0);
        both.pattern = Pattern::Step { after: 0.5, rate: 2.0 };
        assert_eq!(both.intended(), 24.0);
        both.pattern = Pattern::Burst { frames: 7 };
        assert_eq!(both.intended(), 28.0);
    }

    #[test]
    fn averages_of_trials() {
        let one =
            Latency { count: 1, min: 1.0, mean: 2.0, max: 3.0, jitter: None, percentiles: vec![(50.0, 2.0)] };
        let two = Latency {
            count: 1,
            min: 3.0,
            mean: 4.0,
            max: 9.0,
            jitter: Some(1.0),
            percentiles: vec![(50.0, 4.0)],
        };
        let average = Latency::average(&[one, two]).unwrap();
        assert_eq!((average.count, average.min, average.mean, average.max), (2, 1.0, 3.0, 9.0));
        assert_eq!((average.at(50.0), average.jitter), (Some(3.0), Some(1.0)));
        assert_eq!(Latency::average(&[]), None);
    }
}
