//! Lengths of time.

use std::time::Duration;

/// A length of time: `100us`, `1.5ms`, `10s`, `2m`, `1h`, `30d`, `2w`.
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let nanoseconds: u64 = match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        "w" => 604_800_000_000_000,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let digits: u128 = format!("0{whole}{part}").parse().ok()?;
    let parts = 10u128.checked_pow(part.len().try_into().ok()?)?;
    let all = digits.checked_mul(nanoseconds.into())? / parts;
    // What Duration holds in milliseconds is more than anyone lives.
    let seconds = u64::try_from(all / 1_000_000_000).ok().filter(|seconds| *seconds <= u64::MAX / 1000)?;
    Some(Duration::new(seconds, (all % 1_000_000_000) as u32))
}

/// As [`duration`], where a number alone is seconds.
pub fn seconds(text: &str) -> Option<Duration> {
    match split(text)? {
        (number, "") => duration(&format!("{number}s")),
        _ => duration(text),
    }
}

fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (end > 0).then(|| (&text[..end], text[end..].trim_start()))
}

/// A length of time as people read it, with something between its parts: `42s`, `3m 07s`, `2h 05m`,
/// `3d 04h`.
pub fn lasting(seconds: u64, between: &str) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{between}{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{between}{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{between}{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        let cases = [
            ("500ms", Some(500_000_000)),
            ("90 s", Some(90_000_000_000)),
            ("1.5ms", Some(1_500_000)),
            ("2d", Some(172_800_000_000_000)),
            (".5s", Some(500_000_000)),
            ("100us", Some(100_000)),
            ("h", None),
            ("5", None),
            (".s", None),
            ("1.2.3s", None),
            ("1y", None),
            ("99999999999999999w", None),
        ];
        for (text, nanoseconds) in cases {
            assert_eq!(duration(text), nanoseconds.map(Duration::from_nanos), "{text}");
        }
        assert_eq!(
            [seconds("250"), seconds("2m"), seconds("")],
            [Some(Duration::from_secs(250)), Some(Duration::from_secs(120)), None]
        );
    }

    #[test]
    fn durations_are_shown() {
        let shown = [42, 187, 7500, 273_600].map(|seconds| lasting(seconds, " "));
        assert_eq!(shown, ["42s", "3m 07s", "2h 05m", "3d 04h"]);
        assert_eq!(lasting(187, ""), "3m07s");
    }
}
