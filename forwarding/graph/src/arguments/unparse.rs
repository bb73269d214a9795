//! Values as Click prints them: in handlers, in `Print` lines, in configurations.

use super::{Prefix4, Prefix6};
use crate::language;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::Mac;

/// `true` or `false`.
pub fn boolean(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// `10.0.0.1`.
pub fn ip(address: Ipv4Addr) -> String {
    address.to_string()
}

/// `2001:db8::1`, as RFC 5952 says.
pub fn ip6(address: Ipv6Addr) -> String {
    address.to_string()
}

/// `10.0.0.0/8`; a mask that isn't a prefix stands there as an address.
pub fn prefix(prefix: Prefix4) -> String {
    prefix.to_string()
}

/// `2001:db8::/32`.
pub fn prefix6(prefix: Prefix6) -> String {
    prefix.to_string()
}

/// `00-50-BA-85-84-A9`, as the IEEE writes it.
pub fn ethernet(address: Mac) -> String {
    let [a, b, c, d, e, f] = address.0;
    format!("{a:02X}-{b:02X}-{c:02X}-{d:02X}-{e:02X}-{f:02X}")
}

/// Nanoseconds as `1.000000` seconds; with nine digits when six don't say it all.
pub fn timestamp(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let time = nanoseconds.unsigned_abs();
    let (seconds, fraction) = (time / 1_000_000_000, time % 1_000_000_000);
    if fraction % 1000 == 0 {
        format!("{sign}{seconds}.{:06}", fraction / 1000)
    } else {
        format!("{sign}{seconds}.{fraction:09}")
    }
}

/// Nanoseconds as an amount of time: `5ms`, `20us`, `1.500000s`.
pub fn interval(nanoseconds: i64) -> String {
    match nanoseconds {
        0..1_000_000_000 if nanoseconds % 1_000_000 == 0 => format!("{}ms", nanoseconds / 1_000_000),
        0..1_000_000_000 if nanoseconds % 1000 == 0 => format!("{}us", nanoseconds / 1000),
        0..1_000_000_000 => format!("{nanoseconds}ns"),
        _ => timestamp(nanoseconds) + "s",
    }
}

/// Bytes per second as `384kbps`, `1.5Mbps`, `1Gbps`; beyond 4 Gbit/s as `600MBps`.
pub fn bandwidth(bytes_per_second: u64) -> String {
    match bytes_per_second {
        0..125_000 => decimal(bytes_per_second * 8, 3) + "kbps",
        125_000..125_000_000 => decimal(bytes_per_second * 8, 6) + "Mbps",
        125_000_000..0x2000_0000 => decimal(bytes_per_second * 8, 9) + "Gbps",
        _ => decimal(bytes_per_second, 6) + "MBps",
    }
}

/// An integer with a decimal point before its last `digits` (at most 19) digits, without zeros at
/// the end.
pub fn decimal(value: u64, digits: u32) -> String {
    let one = 10u64.pow(digits.min(19));
    match value % one {
        0 => (value / one).to_string(),
        fraction => {
            let text = format!("{}.{fraction:0width$}", value / one, width = digits as usize);
            text.trim_end_matches('0').to_owned()
        }
    }
}

/// An integer with a binary point before its last `bits` (at most 32) digits, as the shortest
/// decimal number that is read back as the same.
pub fn fixed(value: u32, bits: u32) -> String {
    let one = 1u128 << bits.min(32);
    let value = u128::from(value);
    // With as many digits as bits the number is exact.
    for digits in 0..=32 {
        let ten = 10u128.pow(digits);
        let Some(number) = value.checked_mul(ten).map(|number| (number + one / 2) / one) else { break };
        if (number * one + ten / 2) / ten == value {
            let (whole, fraction) = (number / ten, number % ten);
            return if digits == 0 {
                whole.to_string()
            } else {
                format!("{whole}.{fraction:0width$}", width = digits as usize)
            };
        }
    }
    format!("{}", value as f64 / one as f64)
}

/// Twelve digits at most, as C prints `%.12g`.
pub fn real(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string().to_lowercase();
    }
    let scientific = format!("{value:.11e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let trim = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if (-4..12).contains(&exponent) {
        trim(&format!("{value:.digits$}", digits = (11 - exponent).max(0) as usize))
    } else {
        format!("{}e{}{:02}", trim(mantissa), if exponent < 0 { '-' } else { '+' }, exponent.abs())
    }
}

/// In double quotes, with everything special behind a backslash.
pub fn quoted(text: &str) -> String {
    language::quote(text)
}

/// As [`quoted`], for any bytes.
pub fn quoted_bytes(bytes: &[u8]) -> String {
    language::quote(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_look_as_clicks() {
        assert_eq!(boolean(true), "true");
        assert_eq!(ethernet(Mac([0, 0x50, 0xba, 0x85, 0x84, 0xa9])), "00-50-BA-85-84-A9");
        assert_eq!(ip6("2001:DB8:0:0:1:0:0:1".parse().unwrap()), "2001:db8::1:0:0:1");
        assert_eq!(ip6("::ffff:1.2.3.4".parse().unwrap()), "::ffff:1.2.3.4");
        assert_eq!(quoted("a\nb"), r#""a\nb""#);
    }

    #[test]
    fn times() {
        assert_eq!(timestamp(1_000_000_000), "1.000000");
        assert_eq!(timestamp(-1_001_000_000), "-1.001000");
        assert_eq!(timestamp(1_000_000_001), "1.000000001");
        assert_eq!(timestamp(i64::MIN), "-9223372036.854775808");
        assert_eq!(interval(0), "0ms");
        assert_eq!(interval(20_000), "20us");
        assert_eq!(interval(7), "7ns");
        assert_eq!(interval(1_500_000_000), "1.500000s");
        assert_eq!(interval(-5_000_000), "-0.005000s");
    }

    #[test]
    fn bandwidths_and_numbers() {
        assert_eq!(bandwidth(48_000), "384kbps");
        assert_eq!(bandwidth(187_500), "1.5Mbps");
        assert_eq!(bandwidth(125_000_000), "1Gbps");
        assert_eq!(bandwidth(600_000_000), "600MBps");
        assert_eq!(decimal(1_050, 3), "1.05");
        assert_eq!(fixed(107, 8), "0.418");
        assert_eq!(fixed(32767, 16), "0.49998");
        assert_eq!(fixed(1 << 16, 16), "1");
        for (value, text) in [
            (0.0, "0"),
            (0.1, "0.1"),
            (1234567.0, "1234567"),
            (1.5e12, "1.5e+12"),
            (1.0 / 3.0, "0.333333333333"),
            (0.00001, "1e-05"),
            (100000.0, "100000"),
            (999999.9, "999999.9"),
            (-2.5, "-2.5"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(real(value), text);
        }
    }
}
