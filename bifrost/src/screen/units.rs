//! Numbers as people read them.

/// Packets a second: `950`, `12.3 k`, `2.57 M`.
pub fn packets(per_second: f64) -> String {
    scaled(per_second)
}

/// Bits a second: `950 b/s`, `1.32 Gb/s`.
pub fn bits(per_second: f64) -> String {
    let text = scaled(per_second);
    if text.contains(' ') { format!("{text}b/s") } else { format!("{text} b/s") }
}

/// Three digits and a power of a thousand.
fn scaled(value: f64) -> String {
    let mut value = if value.is_finite() { value.max(0.0) } else { 0.0 };
    if value < 999.5 {
        return format!("{value:.0}");
    }
    for prefix in ["k", "M", "G", "T"] {
        value /= 1000.0;
        if value < 999.5 || prefix == "T" {
            let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
            return format!("{value:.digits$} {prefix}");
        }
    }
    String::new()
}

/// A share, 0 to 1: `0 %`, `0.3 %`, `99.9 %`, `100 %`. What is not nothing never shows as nothing, nor what is not all as all.
pub fn share(share: f64) -> String {
    let percent = share.clamp(0.0, 1.0) * 100.0;
    if percent == 0.0 || percent.is_nan() {
        "0 %".to_owned()
    } else if percent < 0.1 {
        "<0.1 %".to_owned()
    } else if percent == 100.0 {
        "100 %".to_owned()
    } else if percent > 99.9 {
        ">99.9 %".to_owned()
    } else if (10.0..=99.0).contains(&percent) {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// `1,234,567`.
pub fn count(number: u64) -> String {
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

/// A span of time: `42s`, `3m 07s`, `2h 05m`, `3d 04h`.
pub fn time(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (5e18, "5000000 T"),
        ];
        for (value, text) in cases {
            assert_eq!(packets(value), text);
        }
        assert_eq!((bits(950.0), bits(1.32e9)), ("950 b/s".into(), "1.32 Gb/s".into()));
    }

    #[test]
    fn a_share_is_nothing_or_all_only_when_it_is() {
        let cases = [
            (0.0, "0 %"),
            (0.0001, "<0.1 %"),
            (0.05, "5.0 %"),
            (0.5, "50 %"),
            (0.995, "99.5 %"),
            (0.99999, ">99.9 %"),
            (1.0, "100 %"),
        ];
        for (value, text) in cases {
            assert_eq!(share(value), text);
        }
    }

    #[test]
    fn time_and_counts() {
        assert_eq!([time(42), time(187), time(7500), time(273_600)], ["42s", "3m 07s", "2h 05m", "3d 04h"]);
        assert_eq!(
            [count(0), count(999), count(1_000), count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}
