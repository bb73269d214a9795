//! Numbers: integers in four bases, and decimal numbers scaled to integers.

use super::{Argument, Scope, parse_error};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// Why a text is not the number asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotANumber {
    /// It is none.
    Malformed,
    /// It is too large.
    TooLarge,
}

/// Reads an integer between `least` and `most`: decimal, `0x` hexadecimal, `0b` binary, `0` octal,
/// with single `_` between digits.
///
/// # Errors
/// `invalid number`, or `out of range, bound N` with the bound that it exceeds, as Click says.
pub fn parse_integer(text: &str, least: i128, most: i128) -> Result<i128, String> {
    let bound = |bound: i128| format!("out of range, bound {bound}");
    match magnitude(text, least < 0) {
        Err(NotANumber::Malformed) => Err("invalid number".to_owned()),
        Err(NotANumber::TooLarge) => Err(bound(if text.starts_with('-') { least } else { most })),
        Ok(number) if number < least => Err(bound(least)),
        Ok(number) if number > most => Err(bound(most)),
        Ok(number) => Ok(number),
    }
}

fn magnitude(text: &str, signed: bool) -> Result<i128, NotANumber> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') if signed => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let prefixed = |prefix: [&str; 2]| prefix.iter().find_map(|prefix| digits.strip_prefix(prefix));
    let (base, digits) = if let Some(digits) = prefixed(["0x", "0X"]) {
        (16, digits)
    } else if let Some(digits) = prefixed(["0b", "0B"]) {
        (2, digits)
    } else {
        (if digits.starts_with('0') { 8 } else { 10 }, digits)
    };
    let mut number: Option<i128> = Some(0);
    let mut after_digit = false;
    for character in digits.chars() {
        if character == '_' && after_digit {
            after_digit = false;
            continue;
        }
        let digit = character.to_digit(base).ok_or(NotANumber::Malformed)?;
        number = number.and_then(|number| number.checked_mul(base.into())?.checked_add(digit.into()));
        after_digit = true;
    }
    if !after_digit {
        return Err(NotANumber::Malformed);
    }
    number.map(|number| if negative { -number } else { number }).ok_or(NotANumber::TooLarge)
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl Argument for $integer {
            fn parse(text: &str, _: &Scope<'_>) -> Result<$integer, String> {
                parse_integer(text, <$integer>::MIN as i128, <$integer>::MAX as i128).map(|number| number as $integer)
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

impl Argument for f64 {
    fn parse(text: &str, _: &Scope<'_>) -> Result<f64, String> {
        let number: f64 = text.parse().map_err(|_| parse_error())?;
        let digits = text.bytes().any(|byte| byte.is_ascii_digit());
        if digits && number.is_infinite() { Err(format!("out of range, bound {number}")) } else { Ok(number) }
    }
}

/// `first-last`, or one value.
impl<T: Argument + Clone + PartialOrd + Display> Argument for RangeInclusive<T> {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<RangeInclusive<T>, String> {
        let dash = text.bytes().skip(1).position(|byte| byte == b'-').map(|at| at + 1);
        let (first, last) = match dash {
            Some(dash) => {
                (T::parse(text[..dash].trim_end(), scope)?, T::parse(text[dash + 1..].trim_start(), scope)?)
            }
            None => {
                let only = T::parse(text, scope)?;
                (only.clone(), only)
            }
        };
        if first <= last { Ok(first..=last) } else { Err(format!("empty range {first}-{last}")) }
    }
}

/// A range of ports: `80`, `1024-65535`.
pub type PortRange = RangeInclusive<u16>;

/// A number with `BITS` binary digits after the point, as an integer: 0.5 is `1 << (BITS - 1)`. At
/// most 32 digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fixed<const BITS: u32>(pub u32);

impl<const BITS: u32> Argument for Fixed<BITS> {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Fixed<BITS>, String> {
        // Enough digits to tell apart everything that 32 bits can, few enough for 128.
        const DIGITS: i32 = 17;
        let out_of_range = || format!("out of range, bound {}", super::unparse::fixed(u32::MAX, BITS));
        match scaled(text, DIGITS) {
            Err(NotANumber::Malformed) => Err(parse_error()),
            Err(NotANumber::TooLarge) => Err(out_of_range()),
            Ok(number) => {
                let one = 10u128.pow(DIGITS as u32);
                let number = number.checked_mul(1 << BITS).map(|number| (number + one / 2) / one);
                number.and_then(|number| u32::try_from(number).ok()).map(Fixed).ok_or_else(out_of_range)
            }
        }
    }
}

/// A number with `DIGITS` decimal digits after the point, as an integer: with 3, 0.5 is 500.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decimal<const DIGITS: u32>(pub u32);

impl<const DIGITS: u32> Argument for Decimal<DIGITS> {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Decimal<DIGITS>, String> {
        scaled_u64(text, DIGITS as i32, 1)
            .and_then(|number| u32::try_from(number).map_err(|_| NotANumber::TooLarge))
            .map(Decimal)
            .map_err(message)
    }
}

/// What Click says of a decimal number that isn't one.
pub(super) fn message(error: NotANumber) -> String {
    match error {
        NotANumber::Malformed => parse_error(),
        NotANumber::TooLarge => "out of range".to_owned(),
    }
}

/// A decimal number without sign (`1.5`, `.5`, `3.6e6`, `1_000`) times `10^power` times `factor`,
/// rounded.
pub(super) fn scaled_u64(text: &str, power: i32, factor: u64) -> Result<u64, NotANumber> {
    // Rounded once, behind the factor: a few digits more than asked for, then away with them.
    const MORE: i32 = 6;
    let number = scaled(text, power + MORE)?.checked_mul(factor.into()).ok_or(NotANumber::TooLarge)?;
    let more = 10u128.pow(MORE as u32);
    u64::try_from((number + more / 2) / more).map_err(|_| NotANumber::TooLarge)
}

/// A decimal number without sign times `10^power`, rounded.
fn scaled(text: &str, power: i32) -> Result<u128, NotANumber> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], parse_exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = digits(whole)?.chain(digits(fraction)?);
    let whole_digits = whole.bytes().filter(u8::is_ascii_digit).count();
    if whole_digits == 0 && !fraction.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(NotANumber::Malformed);
    }
    // The digit at index `places` is the first that doesn't count any more.
    let places = whole_digits as i64 + i64::from(exponent) + i64::from(power);
    let mut number: u128 = 0;
    let mut count: i64 = 0;
    for digit in digits {
        if count == places {
            number += u128::from(digit >= 5);
        }
        if count >= places {
            return Ok(number);
        }
        number = number
            .checked_mul(10)
            .and_then(|number| number.checked_add(digit.into()))
            .ok_or(NotANumber::TooLarge)?;
        count += 1;
    }
    if number == 0 {
        return Ok(0);
    }
    u32::try_from((places - count).max(0))
        .ok()
        .and_then(|zeros| 10u128.checked_pow(zeros)?.checked_mul(number))
        .ok_or(NotANumber::TooLarge)
}

/// Digits with single underscores between them.
fn digits(text: &str) -> Result<impl Iterator<Item = u8>, NotANumber> {
    let lonely = text.starts_with('_') || text.ends_with('_') || text.contains("__");
    if lonely || !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
        return Err(NotANumber::Malformed);
    }
    Ok(text.bytes().filter(u8::is_ascii_digit).map(|byte| byte - b'0'))
}

fn parse_exponent(text: &str) -> Result<i32, NotANumber> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NotANumber::Malformed);
    }
    // An exponent beyond this means nothing or far too much, whatever the digits.
    let exponent = digits.parse().unwrap_or(i32::MAX).min(100_000);
    Ok(if text.starts_with('-') { -exponent } else { exponent })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{read, unparse};
    use proptest::prelude::*;

    #[test]
    fn integers_come_in_four_bases() {
        assert_eq!(read("-12"), Ok(-12i32));
        assert_eq!(read("+0x1F"), Ok(31u8));
        assert_eq!(read("0b101"), Ok(5u8));
        assert_eq!(read("017"), Ok(15u8));
        assert_eq!(read("1_000_000"), Ok(1_000_000u32));
        for wrong in ["", "-", "x", "08", "1__0", "_1", "1_", "0x", "1 2", "1.5", "é"] {
            assert_eq!(read::<i64>(wrong), Err("invalid number".to_owned()), "{wrong:?}");
        }
        assert_eq!(read::<u32>("-0"), Err("invalid number".to_owned()));
    }

    #[test]
    fn integers_out_of_range_say_the_bound() {
        assert_eq!(read::<u8>("256"), Err("out of range, bound 255".to_owned()));
        assert_eq!(read::<i8>("-129"), Err("out of range, bound -128".to_owned()));
        assert_eq!(read("-128"), Ok(-128i8));
        let huge = "9".repeat(100);
        assert_eq!(read::<u64>(&huge), Err("out of range, bound 18446744073709551615".to_owned()));
        assert_eq!(read::<i32>(&format!("-{huge}")), Err("out of range, bound -2147483648".to_owned()));
        assert_eq!(parse_integer("-1", 0, 100), Err("invalid number".to_owned()));
        assert_eq!(parse_integer("-5", -1, 9), Err("out of range, bound -1".to_owned()));
    }

    #[test]
    fn fractions_round_to_the_nearest() {
        assert_eq!(read("0.418"), Ok(Fixed::<8>(107)));
        assert_eq!(read("0.416"), Ok(Fixed::<8>(106)));
        assert_eq!(read("0.999999"), Ok(Fixed::<16>(1 << 16)));
        assert_eq!(read("0.5"), Ok(Fixed::<1>(1)));
        assert_eq!(read::<Fixed<16>>("65536"), Err("out of range, bound 65535.99998".to_owned()));
        assert_eq!(read("1.2345"), Ok(Decimal::<3>(1235)));
        assert_eq!(read("12e-1"), Ok(Decimal::<3>(1200)));
        assert_eq!(read("1.e2"), Ok(Decimal::<0>(100)));
        assert_eq!(read(".05"), Ok(Decimal::<1>(1)));
        assert_eq!(read("1e-99999999999"), Ok(Decimal::<0>(0)));
        assert_eq!(read("0e99999999999"), Ok(Decimal::<0>(0)));
        assert_eq!(read::<Decimal<0>>("1e99999999999"), Err("out of range".to_owned()));
        for wrong in ["", ".", "e5", "1e", "1e+", "1..2", "-1", "1_.5", "1 2"] {
            assert_eq!(read::<Decimal<0>>(wrong), Err("parse error".to_owned()), "{wrong:?}");
        }
    }

    #[test]
    fn ranges() {
        assert_eq!(read("80"), Ok(80u16..=80));
        assert_eq!(read("-5--2"), Ok(-5i32..=-2));
        assert_eq!(read("1 - 0x10"), Ok(1u16..=16));
        assert_eq!(read::<PortRange>("5-2"), Err("empty range 5-2".to_owned()));
        assert!(read::<PortRange>("5-").is_err() && read::<PortRange>("-").is_err());
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(number: i64, fixed: u32, float: f64) {
            prop_assert_eq!(read(&number.to_string()), Ok(number));
            prop_assert_eq!(read::<Fixed<16>>(&unparse::fixed(fixed, 16)), Ok(Fixed(fixed)));
            prop_assert_eq!(read::<Fixed<28>>(&unparse::fixed(fixed, 28)), Ok(Fixed(fixed)));
            prop_assert_eq!(read::<Decimal<6>>(&unparse::decimal(fixed.into(), 6)), Ok(Decimal(fixed)));
            if float.is_finite() {
                prop_assert_eq!(read(&float.to_string()), Ok(float));
            }
        }

        #[test]
        fn any_text_is_a_number_or_refused(text in "[-+0-9a-fxXeE._ ä]{0,40}") {
            let _ = (read::<i8>(&text), read::<u64>(&text), read::<f64>(&text), read::<Fixed<32>>(&text));
            let _ = (read::<Decimal<9>>(&text), read::<PortRange>(&text), read::<RangeInclusive<i64>>(&text));
        }
    }
}
