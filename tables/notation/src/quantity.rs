//! Numbers with a unit.

/// A number, a power of a thousand and a unit: `1.5Mpps`, `10 kbit/s`, `1_000`, `50%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity<'t> {
    /// The digits, without their point.
    digits: u64,
    /// 10 to the number of digits behind the point.
    parts: u64,
    number: f64,
    factor: u64,
    /// What stands behind; empty where nothing does.
    pub unit: &'t str,
}

impl<'t> Quantity<'t> {
    /// Reads one. `k` and `K`, `M`, `G` and `T` are powers of a thousand; small `m`, `g` and `t`
    /// are where a unit of packets or bits follows.
    pub fn read(text: &'t str) -> Option<Quantity<'t>> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
        let written = text[..end].replace('_', "");
        let (whole, part) = written.split_once('.').unwrap_or((&written, ""));
        let parts = 10u64.checked_pow(part.len().try_into().ok()?)?;
        let (factor, unit) = prefix(text[end..].trim_start());
        let (digits, number) = (format!("{whole}{part}").parse().ok()?, written.parse().ok()?);
        Some(Quantity { digits, parts, number, factor, unit: unit.trim() })
    }

    /// The number with its power of a thousand.
    pub fn real(&self) -> f64 {
        self.number * self.factor as f64
    }

    /// The same where it is a whole number that fits.
    pub fn whole(&self) -> Option<u64> {
        let number = u128::from(self.digits) * u128::from(self.factor);
        let parts = u128::from(self.parts);
        (number % parts == 0).then(|| u64::try_from(number / parts).ok()).flatten()
    }
}

fn prefix(unit: &str) -> (u64, &str) {
    let Some(first) = unit.chars().next() else { return (1, unit) };
    let rest = &unit[first.len_utf8()..];
    let follows = |known: &str| rest.get(..3).is_some_and(|unit| unit.eq_ignore_ascii_case(known));
    let small = "mgt".contains(first) && ["pps", "bps", "bit"].into_iter().any(follows);
    let power = match if small { first.to_ascii_uppercase() } else { first } {
        'k' | 'K' => 1,
        'M' => 2,
        'G' => 3,
        'T' => 4,
        _ => return (1, unit),
    };
    (1000u64.pow(power), rest)
}

/// A size in bytes: `1000`, `64k`, `256MiB`, `2GB`; `k`, `M`, `G`, `T` alone are powers of 1024.
pub fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let scale: u64 = match text[end..].trim_start() {
        "" | "B" => 1,
        "k" | "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "T" | "TiB" => 1 << 40,
        "kB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return None,
    };
    number.checked_mul(scale)
}

/// Three digits and a power of a thousand, with something between them: `950`, `12.3 k`, `2.57M`.
pub fn scaled(value: f64, between: &str) -> String {
    let mut value = if value.is_finite() { value.max(0.0) } else { 0.0 };
    if value < 999.5 {
        return format!("{value:.0}");
    }
    let mut unit = "";
    for next in ["k", "M", "G", "T", "P", "E"] {
        value /= 1000.0;
        unit = next;
        if value < 999.5 {
            break;
        }
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$}{between}{unit}")
}

/// A whole number, its thousands set apart: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        let read = |text| Quantity::read(text).map(|read| (read.whole(), read.real(), read.unit));
        let cases = [
            ("64", Some((Some(64), 64.0, ""))),
            ("1.5Mpps", Some((Some(1_500_000), 1.5e6, "pps"))),
            (" 10 kbit/s ", Some((Some(10_000), 1e4, "bit/s"))),
            ("10mbit", Some((Some(10_000_000), 1e7, "bit"))),
            ("3ms", Some((Some(3), 3.0, "ms"))),
            ("0.5", Some((None, 0.5, ""))),
            ("50%", Some((Some(50), 50.0, "%"))),
            ("1_000G", Some((Some(1_000_000_000_000), 1e12, ""))),
            ("3µs", Some((Some(3), 3.0, "µs"))),
            ("", None),
            ("pps", None),
            ("1.2.3", None),
            ("99999999999999999999", None),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn sizes() {
        let sizes = [size("64k"), size("2GB"), size("7"), size("256 MiB"), size("-1"), size("")];
        assert_eq!(sizes, [Some(65_536), Some(2_000_000_000), Some(7), Some(1 << 28), None, None]);
    }

    #[test]
    fn numbers_keep_three_digits() {
        let cases = [
            (0.0, "0"),
            (999.4, "999"),
            (999.6, "1.00 k"),
            (12_345.0, "12.3 k"),
            (999_600.0, "1.00 M"),
            (2_570_000.0, "2.57 M"),
            (148_810_000.0, "149 M"),
            (f64::NAN, "0"),
            (u64::MAX as f64, "18.4 E"),
        ];
        for (value, text) in cases {
            assert_eq!(scaled(value, " "), text);
        }
    }

    #[test]
    fn thousands_are_set_apart() {
        let all = [0, 999, 1_000, 1_234_567, u64::MAX].map(grouped);
        assert_eq!(all, ["0", "999", "1,000", "1,234,567", "18,446,744,073,709,551,615"]);
    }
}
