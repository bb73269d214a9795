//! Words as values: numbers, ports, flags, types, days, rates.

use notation::Quantity;

use crate::mistake::Hint;
use crate::model::*;
use crate::names::{self, Names};

/// An item of a list, or what is wrong with it.
pub(super) type Item<T> = Result<T, (String, Hint)>;

pub(super) fn named<T: Copy>(names: &Names<T>, text: &str, what: &str) -> Item<T> {
    names::number(names, text).ok_or_else(|| {
        (format!("there is no {what} {text:?}"), Hint::near(text, names.iter().map(|(name, _)| *name)))
    })
}

pub(super) fn bits_of(list: &List<u8>, all: u8) -> u8 {
    let bits = list.items.iter().fold(0, |bits, bit| bits | bit);
    if list.not { all & !bits } else { bits }
}

pub(super) fn number32(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

pub(super) fn span(text: &str) -> Item<Span> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(Span { first, last }),
        (Ok(_), Ok(_)) => Err((format!("the range {text} runs backwards"), Hint::none())),
        _ => Err((format!("{text:?} is no number up to 65535, nor a range"), Hint::none())),
    }
}

pub(super) fn port(text: &str) -> Item<Span> {
    match names::number(names::PORTS, text) {
        Some(port) => Ok(Span { first: port, last: port }),
        None => span(text),
    }
}

pub(super) fn interface(text: &str) -> Item<Interface> {
    let body = text.strip_suffix('*').unwrap_or(text);
    // Names of Linux interfaces have 15 bytes at most.
    if body.is_empty() || body.len() > 15 || body.contains(['*', '/', '"', '\\']) {
        return Err((format!("no interface is called {text:?}"), Hint::none()));
    }
    Ok(Interface { name: text.to_owned(), numbers: Vec::new() })
}

pub(super) fn dscp(text: &str) -> Item<u8> {
    let number = names::number(names::DSCP, text).or_else(|| text.parse().ok()).filter(|number| *number < 64);
    number.ok_or_else(|| {
        let known = names::DSCP.iter().map(|(name, _)| *name);
        (
            format!("there is no code point {text:?}"),
            Hint::near(text, known).or_expected("ef, af11, cs1, ... or 0 to 63"),
        )
    })
}

pub(super) fn flags(text: &str) -> Item<Flags> {
    let bits = |text: &str| -> Item<u8> {
        let mut bits = 0;
        for name in text.split('+').filter(|_| text != "none") {
            bits |= named(names::FLAGS, name, "flag")?;
        }
        Ok(bits)
    };
    let (set, mask) = match text.split_once('/') {
        Some((set, mask)) => (bits(set)?, bits(mask)?),
        None => (bits(text)?, bits(text)?),
    };
    if set & !mask != 0 || mask == 0 {
        return Err((
            format!("{text} can never hold"),
            Hint::expected("flags before the stroke are also behind it"),
        ));
    }
    Ok(Flags { set, mask })
}

pub(super) fn icmp(known: &Names<(u8, Option<u8>)>, text: &str) -> Item<Icmp> {
    let one = |number| (number, number);
    if let Some((kind, code)) = names::number(known, text) {
        return Ok(Icmp { kinds: one(kind), codes: code.map_or(Icmp::ANY, one) });
    }
    let nothing = || {
        let names = known.iter().map(|(name, _)| *name);
        (format!("there is no type {text:?}"), Hint::near(text, names))
    };
    let range = |numbers: &str| -> Item<(u8, u8)> {
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
            (Ok(_), Ok(_)) => Err((format!("the range {numbers} runs backwards"), Hint::none())),
            _ => Err(nothing()),
        }
    };
    let (kinds, codes) = text.split_once('/').map_or((text, None), |(kinds, codes)| (kinds, Some(codes)));
    let kinds = names::number(known, kinds).map_or_else(|| range(kinds), |(kind, _)| Ok(one(kind)))?;
    Ok(Icmp { kinds, codes: codes.map_or(Ok(Icmp::ANY), range)? })
}

pub(super) fn hours(text: &str) -> Option<(u16, u16)> {
    let minute = |text: &str| {
        let (hour, minute) = text.split_once(':')?;
        let (hour, minute) = (hour.parse::<u16>().ok()?, minute.parse::<u16>().ok()?);
        (minute < 60 && (hour < 24 || hour == 24 && minute == 0)).then_some(hour * 60 + minute)
    };
    let (first, end) = text.split_once('-')?;
    let (first, end) = (minute(first)?, minute(end)?);
    (first != end && first < 1440).then_some((first, end))
}

pub(super) fn days(text: &str) -> Item<u8> {
    let day = |text: &str| names::DAYS.iter().position(|name| *name == text);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (Some(first), Some(last)) = (day(first), day(last)) else {
        return Err((
            format!("there is no day {text:?}"),
            Hint::expected("mon, tue, wed, thu, fri, sat, sun, and mon-fri"),
        ));
    };
    let length = (last + 7 - first) % 7;
    Ok((0..=length).fold(0, |bits, n| bits | 1 << ((first + n) % 7)))
}

pub(super) fn rate_of(text: &str) -> Result<(u64, Unit), String> {
    let wrong = || format!("{text:?} is no rate");
    let rate = Quantity::read(text).ok_or_else(wrong)?;
    let unit = match rate.unit.to_ascii_lowercase().trim_end_matches("/s") {
        "pps" => Unit::Packets,
        "bit" => Unit::Bits,
        _ => return Err(wrong()),
    };
    match rate.whole().filter(|rate| *rate > 0).ok_or_else(wrong)? {
        per_second @ ..=10_000_000_000_000 => Ok((per_second, unit)),
        _ => Err(format!("{text} is more than 10 Tbit or packets")),
    }
}

pub(super) fn burst_of(text: &str, unit: Unit) -> Option<u64> {
    let burst = Quantity::read(text)?;
    let fits = match burst.unit {
        "" => true,
        "packets" => unit == Unit::Packets,
        "B" => unit == Unit::Bits,
        _ => false,
    };
    burst.whole().filter(|number| fits && (1..=1 << 40).contains(number))
}
