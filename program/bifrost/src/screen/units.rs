//! Numbers as people read them.

pub use notation::grouped as count;
use notation::scaled;

/// Packets a second: `950`, `12.3 k`, `2.57 M`.
pub fn packets(per_second: f64) -> String {
    scaled(per_second, " ")
}

/// Bits a second: `950 b/s`, `1.32 Gb/s`.
pub fn bits(per_second: f64) -> String {
    let text = scaled(per_second, " ");
    if text.contains(' ') { format!("{text}b/s") } else { format!("{text} b/s") }
}

/// A share, 0 to 1: `0 %`, `0.3 %`, `99.9 %`, `100 %`. What is not nothing never shows as nothing,
/// nor what is not all as all.
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

/// A span of time: `42s`, `3m 07s`, `2h 05m`, `3d 04h`.
pub fn time(seconds: u64) -> String {
    notation::lasting(seconds, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_their_unit() {
        assert_eq!(packets(12_345.0), "12.3 k");
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
    fn counts() {
        assert_eq!(
            [count(0), count(999), count(1_000), count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}
