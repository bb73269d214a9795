//! Amounts with units: time and bandwidth.

use super::number::{message, scaled_u64};
use super::{Argument, Scope};

/// A unit's name, the power of ten and the factor that make it the base unit.
type Unit = (&'static str, i32, u64);

/// Seconds; the first that a text ends with counts.
const SECONDS: [Unit; 8] = [
    ("s", 0, 1),
    ("sec", 0, 1),
    ("m", 1, 6),
    ("min", 1, 6),
    ("h", 2, 36),
    ("hr", 2, 36),
    ("d", 2, 864),
    ("day", 2, 864),
];
const SECOND_PREFIXES: [(char, i32); 3] = [('m', -3), ('u', -6), ('n', -9)];

/// Bytes per second: a bit is 125 thousandths of a byte.
const BANDWIDTH: [Unit; 5] =
    [("baud", -3, 125), ("bps", -3, 125), ("b/s", -3, 125), ("Bps", 0, 1), ("B/s", 0, 1)];
const BANDWIDTH_PREFIXES: [(char, i32); 4] = [('k', 3), ('K', 3), ('M', 6), ('G', 9)];

/// The number in front of a unit, the power of ten and the factor.
fn split_unit<'a>(text: &'a str, units: &[Unit], prefixes: &[(char, i32)]) -> (&'a str, i32, u64) {
    for &(unit, mut power, factor) in units {
        if let Some(mut number) = text.strip_suffix(unit) {
            if let Some(&(prefix, more)) = prefixes.iter().find(|(prefix, _)| number.ends_with(*prefix)) {
                power += more;
                number = number.strip_suffix(prefix).unwrap_or(number);
            }
            return (number.trim_ascii_end(), power, factor);
        }
    }
    (text, 0, 1)
}

fn nanoseconds(text: &str) -> Result<i64, String> {
    let (number, power, factor) = split_unit(text, &SECONDS, &SECOND_PREFIXES);
    let time = scaled_u64(number, power + 9, factor).map_err(message)?;
    i64::try_from(time).map_err(|_| "out of range".to_owned())
}

/// A time that passes, in nanoseconds: `10` seconds, `1.5s`, `30 ms`, `2 min`, `1hr`, `7 day`.
/// Never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(pub i64);

impl Argument for Seconds {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Seconds, String> {
        nanoseconds(text).map(Seconds)
    }
}

impl Seconds {
    /// As a duration.
    pub fn duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0.unsigned_abs())
    }
}

/// A point in time, or a difference of two, in nanoseconds: as [`Seconds`], and may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Argument for Timestamp {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Timestamp, String> {
        match text.strip_prefix('-') {
            Some(positive) => nanoseconds(positive).map(|time| Timestamp(-time)),
            None => nanoseconds(text).map(Timestamp),
        }
    }
}

/// Bytes per second: `48000`, `384Kbps`, `1.5 MBps`, `10 Gb/s`, `9600 baud`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(pub u64);

impl Argument for Bandwidth {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Bandwidth, String> {
        let (number, power, factor) = split_unit(text, &BANDWIDTH, &BANDWIDTH_PREFIXES);
        scaled_u64(number, power, factor).map(Bandwidth).map_err(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{read, unparse};
    use proptest::prelude::*;

    #[test]
    fn time_has_units() {
        let seconds = |text: &str| read::<Seconds>(text).map(|time| time.0 as f64 / 1e9);
        for hour in ["3600", "3600s", "3.6e6 msec", "60m", "60 min", "1 hr", "1h", "3_600_000_000us"] {
            assert_eq!(seconds(hour), Ok(3600.0), "{hour}");
        }
        assert_eq!(read("1.99 hr"), Ok(Seconds(7_164_000_000_000)));
        assert_eq!(read("5ns"), Ok(Seconds(5)));
        assert_eq!(read(".4ns"), Ok(Seconds(0)));
        assert_eq!(seconds("2 day"), Ok(172_800.0));
        assert_eq!(seconds("-1s"), Err("parse error".to_owned()));
        assert_eq!(seconds("s"), Err("parse error".to_owned()));
        assert_eq!(seconds("1 x"), Err("parse error".to_owned()));
        assert_eq!(seconds("1e11"), Err("out of range".to_owned()));
        assert_eq!(read("-1.001"), Ok(Timestamp(-1_001_000_000)));
        assert_eq!(read("1189383079.180265331"), Ok(Timestamp(1_189_383_079_180_265_331)));
    }

    #[test]
    fn bandwidth_has_units() {
        for (text, bytes) in [
            ("8", 8),
            ("8 baud", 1),
            ("8Kbps", 1000),
            ("8KBps", 8000),
            ("384kbps", 48_000),
            ("1.5 MB/s", 1_500_000),
            ("100Gb/s", 12_500_000_000),
        ] {
            assert_eq!(read(text), Ok(Bandwidth(bytes)), "{text}");
        }
        assert_eq!(read::<Bandwidth>("8 mbps"), Err("parse error".to_owned()));
        assert_eq!(read::<Bandwidth>("1e30"), Err("out of range".to_owned()));
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(time: i64, bandwidth in 0u64..1 << 40) {
            let time = time.max(-i64::MAX);
            prop_assert_eq!(read(&unparse::timestamp(time)), Ok(Timestamp(time)));
            prop_assert_eq!(read(&unparse::interval(time)), Ok(Timestamp(time)));
            prop_assert_eq!(read(&unparse::bandwidth(bandwidth)), Ok(Bandwidth(bandwidth)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-+0-9e.]{0,12} ?[mukKMGnbBps/secinhrdayä]{0,6}") {
            let _ = (read::<Seconds>(&text), read::<Timestamp>(&text), read::<Bandwidth>(&text));
        }
    }
}
