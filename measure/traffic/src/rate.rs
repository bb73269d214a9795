//! How often frames are sent, and in which rhythm.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::size::LAYER1;
use notation::{Quantity, seconds as time};

use crate::text::as_text;

/// A rate.
///
/// As text: `1.5Mpps`, `10Gbps` (layer 1: preamble and gap counted, what a line is full of),
/// `8Gbps-l2` (layer 2: frames with their check sequence), `50%` (of the port's line rate), `max`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Rate {
    /// As fast as the port takes them.
    #[default]
    Max,
    /// Frames a second.
    Packets(f64),
    /// Bits a second on the wire.
    Layer1(f64),
    /// Bits of frames a second.
    Layer2(f64),
    /// Percent of what the line carries at layer 1.
    Percent(f64),
}

/// A text that is no rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no rate: write 1.5Mpps, 10Gbps (layer 1), 8Gbps-l2 (layer 2), 50% (of the line rate) or max; 0.01 to 1T"
)]
pub struct RateError(String);

/// A percentage of a line whose rate nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the port has no line rate to take a percentage of: say what it carries (--line 10Gbps), or say the rate in pps or bps"
)]
pub struct NoLine;

as_text!(Rate, Pattern);

impl Rate {
    /// Nanoseconds from a frame of `size` bytes (with check sequence) to the next, where frames
    /// have `mean` bytes and the line carries `line` bits a second; `None` for [`Rate::Max`]. At a
    /// packet rate all gaps are equal, at a bit rate a frame's is as long as the frame.
    pub fn gap(self, size: u32, line: Option<f64>) -> Result<Option<f64>, NoLine> {
        let bits = |layer: u32| f64::from(8 * (size + layer));
        Ok(match self {
            Rate::Max => None,
            Rate::Packets(rate) => Some(1e9 / rate),
            Rate::Layer1(rate) => Some(bits(LAYER1) * 1e9 / rate),
            Rate::Layer2(rate) => Some(bits(0) * 1e9 / rate),
            Rate::Percent(percent) => Some(bits(LAYER1) * 1e11 / (percent * line.ok_or(NoLine)?)),
        })
    }

    /// The same kind of rate, so many times as fast. `Max` stays what it is.
    pub fn scaled(self, factor: f64) -> Rate {
        match self {
            Rate::Max => Rate::Max,
            Rate::Packets(rate) => Rate::Packets(rate * factor),
            Rate::Layer1(rate) => Rate::Layer1(rate * factor),
            Rate::Layer2(rate) => Rate::Layer2(rate * factor),
            Rate::Percent(rate) => Rate::Percent(rate * factor),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Max => f.write_str("max"),
            Rate::Packets(rate) => write!(f, "{rate}pps"),
            Rate::Layer1(rate) => write!(f, "{rate}bps"),
            Rate::Layer2(rate) => write!(f, "{rate}bps-l2"),
            Rate::Percent(rate) => write!(f, "{rate}%"),
        }
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Rate, RateError> {
        let wrong = || RateError(text.to_owned());
        if text.trim().eq_ignore_ascii_case("max") {
            return Ok(Rate::Max);
        }
        let rate = Quantity::read(text).ok_or_else(wrong)?;
        let number = rate.real();
        // Slower than a packet in 100 seconds nobody sends, and gaps are to fit their numbers.
        if !(1e-2..=1e12).contains(&number) {
            return Err(wrong());
        }
        match rate.unit {
            "pps" | "" => Ok(Rate::Packets(number)),
            "bps" | "bit/s" | "bps-l1" | "bit/s-l1" => Ok(Rate::Layer1(number)),
            "bps-l2" | "bit/s-l2" => Ok(Rate::Layer2(number)),
            "%" => Ok(Rate::Percent(number)),
            _ => Err(wrong()),
        }
    }
}

/// The rhythm of a stream.
///
/// As text: `constant`, `poisson`, `burst 32 gap 1ms` (32 frames at the stream's rate, at `max`
/// back to back, then none for 1 ms).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pattern {
    /// Equal gaps; at a bit rate, as long as the frame.
    #[default]
    Constant,
    /// Random gaps, exponentially distributed: what many independent senders make.
    Poisson,
    /// Frames in bursts.
    Burst {
        /// Frames of a burst.
        packets: u32,
        /// From the last frame of a burst to the first of the next, beside the frame's own gap.
        gap: Duration,
    },
}

/// A text that is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no pattern: write constant, poisson, or burst 32 gap 1ms")]
pub struct PatternError(String);

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Constant => f.write_str("constant"),
            Pattern::Poisson => f.write_str("poisson"),
            Pattern::Burst { packets, gap } => write!(f, "burst {packets} gap {}ns", gap.as_nanos()),
        }
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Pattern, PatternError> {
        let wrong = || PatternError(text.to_owned());
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["constant"] => Ok(Pattern::Constant),
            ["poisson"] => Ok(Pattern::Poisson),
            ["burst", packets, "gap", gap] => {
                let packets = packets.parse().ok().filter(|&packets| packets > 0).ok_or_else(wrong)?;
                let longest = Duration::from_secs(3600);
                let gap = time(gap).filter(|&gap| gap <= longest).ok_or_else(wrong)?;
                Ok(Pattern::Burst { packets, gap })
            }
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_gigabit_of_small_frames_is_14_88_mpps() {
        let rate: Rate = "10Gbps".parse().unwrap();
        assert!((1e3 / rate.gap(64, None).unwrap().unwrap() - 14.881).abs() < 1e-3);
        let percent: Rate = "50%".parse().unwrap();
        assert!((1e3 / percent.gap(64, Some(10e9)).unwrap().unwrap() - 7.440).abs() < 1e-3);
        assert_eq!(percent.gap(64, None), Err(NoLine));
        // Lines of 800 Gb/s are there, and more than that is next.
        assert_eq!("0.8Tbps".parse(), "800Gbps".parse::<Rate>());
        assert!("1Tbps".parse::<Rate>().is_ok() && "1.1Tbps".parse::<Rate>().is_err());
        let layer2: Rate = "1Gbit/s-l2".parse().unwrap();
        assert_eq!(layer2.gap(125, None).unwrap(), Some(1000.0));
    }

    #[test]
    fn texts_say_the_same_when_read_again() {
        for text in ["max", "1.5Mpps", "10k", "10Gbps", "8Gbps-l2", "33.3%"] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate, rate.to_string().parse().unwrap());
        }
        for text in ["constant", "poisson", "burst 32 gap 1ms"] {
            let pattern: Pattern = text.parse().unwrap();
            assert_eq!(pattern, pattern.to_string().parse().unwrap());
        }
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        for text in ["", "fast", "0pps", "-1pps", "1e99pps", "1Tbps/s", "%", "NaN", "1..2pps", "µ", "1µ"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
        assert!("burst 0 gap 1ms".parse::<Pattern>().is_err());
        assert!("burst 1 gap 9999999h".parse::<Pattern>().is_err());
    }
}
