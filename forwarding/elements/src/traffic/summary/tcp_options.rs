//! TCP options as text: `mss1460;sackok;ts1:2;wscale7`, each block of a SACK on its own as
//! `sack95-98`.

use super::options::{self, Front, nameless};

const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACKS: u8 = 5;
const TIMES: u8 = 8;

/// Which options count, by kind.
pub(super) type Wanted = fn(u8) -> bool;

pub(super) const ALL: Wanted = |_| true;
pub(super) const NO_TIMES: Wanted = |kind| kind > 1 && kind != TIMES;
pub(super) const SACK: Wanted = |kind| kind == SACK_PERMITTED || kind == SACKS;

/// Reads options of the wanted kinds.
pub(super) fn read(text: &str, wanted: Wanted) -> Option<Vec<u8>> {
    options::read(text, |front, out| one(front, out, wanted))
}

fn one(front: &mut Front<'_>, out: &mut Vec<u8>, wanted: Wanted) -> Option<()> {
    let start = out.len();
    if front.take("mss") {
        let size = u16::try_from(front.number()?).ok()?;
        out.extend([MSS, 4]);
        out.extend(size.to_be_bytes());
    } else if front.take("wscale") {
        out.extend([WINDOW_SCALE, 3, front.byte()?]);
    } else if front.take("sackok") {
        out.extend([SACK_PERMITTED, 2]);
    } else if front.take("sack") {
        out.extend([SACKS, 0]);
        loop {
            out.extend(front.number()?.to_be_bytes());
            if !front.take("-") && !front.take(":") {
                return None;
            }
            out.extend(front.number()?.to_be_bytes());
            // What follows behind a comma belongs to the same option.
            let mut next = *front;
            if !next.take(",sack") || !next.at_digit() {
                break;
            }
            *front = next;
        }
        out[start + 1] = u8::try_from(out.len() - start).ok()?;
    } else if front.take("ts") {
        if start == 0 && wanted(1) {
            out.extend([1, 1]);
        }
        out.extend([TIMES, 10]);
        out.extend(front.number()?.to_be_bytes());
        if !front.take(":") {
            return None;
        }
        out.extend(front.number()?.to_be_bytes());
    } else if front.take("nop") {
        out.push(1);
    } else if front.take("eol") {
        out.push(0);
    } else {
        front.nameless(out)?;
    }
    let kind = out[start..].iter().copied().find(|kind| *kind > 1).unwrap_or(out[start]);
    wanted(kind).then_some(())
}

/// The options in a header that are not padding, each with its kind and length. `None` when one is
/// wrong.
fn split(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut found = Vec::new();
    while let Some(&kind) = bytes.first() {
        match kind {
            0 => break,
            1 => bytes = &bytes[1..],
            _ => {
                let length = usize::from(*bytes.get(1)?);
                let right = match kind {
                    MSS => length == 4,
                    WINDOW_SCALE => length == 3,
                    SACK_PERMITTED => length == 2,
                    SACKS => length % 8 == 2,
                    TIMES => length == 10,
                    _ => length >= 2,
                };
                found.push(bytes.get(..length).filter(|_| right)?);
                bytes = &bytes[length..];
            }
        }
    }
    Some(found)
}

/// Writes the wanted options: `.` for none, `?` when any is wrong.
pub(super) fn write(bytes: &[u8], wanted: Wanted) -> String {
    let Some(found) = split(bytes) else { return "?".to_owned() };
    let word = |bytes: &[u8]| bytes.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
    let mut texts = Vec::new();
    for option in found.into_iter().filter(|option| wanted(option[0])) {
        match option[0] {
            MSS => texts.push(format!("mss{}", word(&option[2..]))),
            WINDOW_SCALE => texts.push(format!("wscale{}", option[2])),
            SACK_PERMITTED => texts.push("sackok".to_owned()),
            SACKS => {
                let block = |block: &[u8]| format!("sack{}-{}", word(&block[..4]), word(&block[4..]));
                texts.extend(option[2..].chunks_exact(8).map(block));
            }
            TIMES => texts.push(format!("ts{}:{}", word(&option[2..6]), word(&option[6..]))),
            _ => texts.push(nameless(option)),
        }
    }
    if texts.is_empty() { ".".to_owned() } else { texts.join(";") }
}

/// The wanted options alone.
pub(super) fn only(bytes: &[u8], wanted: Wanted) -> Vec<u8> {
    split(bytes)
        .unwrap_or_default()
        .into_iter()
        .filter(|option| wanted(option[0]))
        .flatten()
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_written_as_they_are_read() {
        for text in ["mss1460", "wscale10", "sackok;ts1:2", "sack1-10;sack1-18;sack18-20", "99=0:5:10"] {
            assert_eq!(write(&read(text, ALL).unwrap(), ALL), text);
        }
        assert_eq!(read("ts1:2", ALL).unwrap()[..4], [1, 1, TIMES, 10]);
        assert_eq!(write(&read("mss5,nop,eol", ALL).unwrap(), ALL), "mss5");
        assert_eq!(write(&read("mss5;ts1:2;sackok", ALL).unwrap(), NO_TIMES), "mss5;sackok");
        assert_eq!(write(&read("mss5;ts1:2;sackok", ALL).unwrap(), SACK), "sackok");
        assert_eq!(read("ts1:2", NO_TIMES), None);
        assert_eq!(write(&[2, 3, 1], ALL), "?");
        assert_eq!(write(&[9], ALL), "?");
        for wrong in
            ["mss70000", "wscale", "sack1", "ts1", "mss1;;mss1", "x", "ts1:2;ts1:2;ts1:2;ts1:2;ts1:2"]
        {
            assert_eq!(read(wrong, ALL), None, "{wrong}");
        }
    }
}
