//! Words as values: names, numbers, ranges, rates. What only one match knows is in its file.

use notation::Quantity;

use crate::mistake::Hint;
use crate::model::*;
use crate::names::{self, Names};

/// An item of a list, or what is wrong with it.
pub(crate) type Item<T> = Result<T, (String, Hint)>;

/// A name of a table.
pub(crate) fn named<T: Copy>(names: &Names<T>, text: &str, what: &str) -> Item<T> {
    names::number(names, text).ok_or_else(|| {
        (format!("there is no {what} {text:?}"), Hint::near(text, names.iter().map(|(name, _)| *name)))
    })
}

/// The bits that a list names; `all` there are.
pub(crate) fn bits_of(list: &List<u8>, all: u8) -> u8 {
    let bits = list.items.iter().fold(0, |bits, bit| bits | bit);
    if list.not { all & !bits } else { bits }
}

/// `5`, `0x10`.
pub(crate) fn number32(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `80`, `1024-65535`.
pub(crate) fn span(text: &str) -> Item<Span> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(Span { first, last }),
        (Ok(_), Ok(_)) => Err((format!("the range {text} runs backwards"), Hint::none())),
        _ => Err((format!("{text:?} is no number up to 65535, nor a range"), Hint::none())),
    }
}

/// A name's value, or what `read` makes of a word that is none.
pub(crate) fn named_or<T: Copy, V>(
    names: &Names<T>,
    text: &str,
    value: impl FnOnce(T) -> V,
    read: impl FnOnce(&str) -> Item<V>,
) -> Item<V> {
    names::number(names, text).map_or_else(|| read(text), |known| Ok(value(known)))
}

/// The bits of a byte by their names.
pub(crate) fn bits_by_name(bits: u8, names: &Names<u8>, between: &str) -> String {
    let set: Vec<&str> = names.iter().filter(|(_, bit)| bits & bit != 0).map(|(name, _)| *name).collect();
    set.join(between)
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
