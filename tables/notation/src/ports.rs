//! Ports of TCP, UDP and their like.

use std::ops::RangeInclusive;

/// A port or a range of ports, none below `low`.
///
/// # Errors
/// What is none, for the operator.
pub fn ports(word: &str, low: u16) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if (low..=last).contains(&first) => Ok(first..=last),
        _ => Err(format!("{word:?} is no port or range of ports, like \"1024-65535\"")),
    }
}
