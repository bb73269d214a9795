//! IPv4 options (RFC 791, 3.1) as text.
//!
//! | option | text |
//! |---|---|
//! | record route | `rr{10.0.0.1,20.0.0.2}+5`: what is recorded, and for how many there is still room |
//! | source routes | `ssrr{1.0.0.1,1.0.0.2^1.0.0.3}`, `lsrr{...}`: `^` is the pointer |
//! | timestamps | `ts{1,10000,!45}+2++3`: `!` for times of another kind, `+` room, `++` how many did not fit |
//! | with addresses | `ts.ip{1.0.0.1=1,1.0.0.2=2}+5`, and given beforehand `ts.preip{1.0.0.1=1^1.0.0.2,1.0.0.3}` |

use wire::ipv4::option::{END, NOP, RECORD_ROUTE, TIMESTAMP};

use super::options::{self, Front, nameless};

const LOOSE: u8 = 131;
const STRICT: u8 = 137;
/// The top bit of a time: it is not milliseconds since midnight.
const NONSTANDARD: u32 = 1 << 31;

/// Reads options.
pub(super) fn read(text: &str) -> Option<Vec<u8>> {
    options::read(text, |front, out| {
        if front.take("rr{") {
            route(RECORD_ROUTE, front, out)
        } else if front.take("ssrr{") {
            route(STRICT, front, out)
        } else if front.take("lsrr{") {
            route(LOOSE, front, out)
        } else if front.0.starts_with("ts{") || front.0.starts_with("ts.") {
            front.take("ts");
            times(front, out)
        } else if front.take("nop") {
            out.push(NOP);
            Some(())
        } else if front.take("eol") {
            out.push(END);
            Some(())
        } else {
            front.nameless(out)
        }
    })
}

/// Fills in an option's length and pointer. Without a `^` the pointer is behind all entries.
fn close(out: &mut [u8], start: usize, pointer: Option<usize>, end: usize) -> Option<()> {
    out[start + 1] = u8::try_from(out.len() - start).ok()?;
    out[start + 2] = u8::try_from(pointer.unwrap_or(end) - start + 1).ok()?;
    Some(())
}

fn route(kind: u8, front: &mut Front<'_>, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    out.extend([kind, 0, 0]);
    let mut pointer = None;
    loop {
        if pointer.is_none() && front.take("^") {
            pointer = Some(out.len());
        }
        if !front.at_digit() {
            break;
        }
        out.extend(front.address()?);
        front.take(",");
    }
    if !front.take("}") {
        return None;
    }
    let end = out.len();
    if front.take("+") {
        out.resize(end + usize::from(front.byte()?) * 4, 0);
    }
    close(out, start, pointer, end)
}

fn times(front: &mut Front<'_>, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    out.extend([TIMESTAMP, 0, 0, 0]);
    // Not said: addresses make it known.
    let mut flag = None;
    if front.take(".ip") {
        flag = Some(1);
    } else if front.take(".preip") {
        flag = Some(3);
    } else if front.take(".") {
        flag = Some(front.byte().filter(|flag| *flag <= 15)?);
    }
    if !front.take("{") {
        return None;
    }
    let mut pointer = None;
    loop {
        if pointer.is_none() && front.take("^") {
            pointer = Some(out.len());
        }
        if !front.at_digit() && !front.0.starts_with('!') {
            break;
        }
        let mut ahead = *front;
        let address = ahead.address();
        if flag.is_none() {
            flag = Some(if address.is_none() {
                0
            } else if pointer.is_some() {
                3
            } else {
                1
            });
        }
        let mut time_follows = true;
        if matches!(flag, Some(1 | 3)) {
            out.extend(address?);
            *front = ahead;
            if pointer.is_some() && (front.take("=?") || !front.0.starts_with('=')) {
                out.extend([0; 4]);
                time_follows = false;
            } else if !front.take("=") {
                return None;
            }
        }
        if time_follows {
            let kind = if front.take("!") { NONSTANDARD } else { 0 };
            out.extend((front.number()? | kind).to_be_bytes());
        }
        front.take(",");
    }
    if !front.take("}") {
        return None;
    }
    let (flag, end) = (flag.unwrap_or(0), out.len());
    let room = |front: &mut Front<'_>| front.0[1..].starts_with(|sign: char| sign.is_ascii_digit());
    if front.0.starts_with('+') && room(front) {
        front.take("+");
        out.resize(end + usize::from(front.byte()?) * if matches!(flag, 1 | 3) { 8 } else { 4 }, 0);
    }
    let missed = if front.take("++") { front.byte().filter(|missed| *missed < 16)? } else { 0 };
    out[start + 3] = missed << 4 | flag;
    close(out, start, pointer, end)
}

/// Writes options without padding: `.` for none, `?` when any is wrong.
pub(super) fn write(bytes: &[u8]) -> String {
    let mut texts = Vec::new();
    for place in wire::ipv4::option::places(bytes) {
        let Ok(place) = place else { return "?".to_owned() };
        let option = &bytes[place];
        let text = match option[0] {
            RECORD_ROUTE => write_route("rr", option),
            STRICT => write_route("ssrr", option),
            LOOSE => write_route("lsrr", option),
            TIMESTAMP => write_times(option),
            _ => Some(nameless(option)),
        };
        let Some(text) = text else { return "?".to_owned() };
        texts.push(text);
    }
    if texts.is_empty() { ".".to_owned() } else { texts.join(";") }
}

fn address(bytes: &[u8]) -> String {
    format!("{}.{}.{}.{}", bytes[0], bytes[1], bytes[2], bytes[3])
}

fn write_route(name: &str, option: &[u8]) -> Option<String> {
    let pointer = usize::from(*option.get(2).filter(|pointer| **pointer >= 4)?) - 1;
    let (mut text, mut at, mut separator) = (format!("{name}{{"), 3, "");
    let recorded = option[0] == RECORD_ROUTE;
    while at + 4 <= option.len() {
        if at == pointer {
            if recorded {
                break;
            }
            separator = "^";
        }
        text += separator;
        text += &address(&option[at..]);
        separator = ",";
        at += 4;
    }
    if at == option.len() && at == pointer && !recorded {
        text.push('^');
    }
    text.push('}');
    if recorded && at == pointer && at + 4 <= option.len() {
        text += &format!("+{}", (option.len() - at) / 4);
    }
    Some(text)
}

fn write_times(option: &[u8]) -> Option<String> {
    let pointer = usize::from(*option.get(2).filter(|pointer| **pointer >= 5)?) - 1;
    let flag = *option.get(3)? & 15;
    let size = if matches!(flag, 1..=3) { 8 } else { 4 };
    let name = match flag {
        0 => String::new(),
        1 => ".ip".to_owned(),
        3 => ".preip".to_owned(),
        _ => format!(".{flag}"),
    };
    let (mut text, mut at, mut separator) = (format!("ts{name}{{"), 4, "");
    while at + size <= option.len() {
        if at == pointer {
            if flag != 3 {
                break;
            }
            separator = "^";
        }
        text += separator;
        separator = ",";
        let entry = &option[at..at + size];
        if size == 8 {
            text += &address(entry);
        }
        // One given beforehand has no time yet.
        if flag != 3 || at < pointer {
            let time = entry[size - 4..].iter().fold(0u32, |time, byte| time << 8 | u32::from(*byte));
            text += if size == 8 { "=" } else { "" };
            text += if time & NONSTANDARD != 0 { "!" } else { "" };
            text += &(time & !NONSTANDARD).to_string();
        }
        at += size;
    }
    if at == option.len() && at == pointer {
        text.push('^');
    }
    text.push('}');
    if at == pointer && at + size <= option.len() {
        text += &format!("+{}", (option.len() - at) / size);
    }
    if option[3] & 0xf0 != 0 {
        text += &format!("++{}", option[3] >> 4);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_written_as_they_are_read() {
        for text in [
            "rr{2.3.4.5}+3",
            "rr{}+1",
            "lsrr{^1.2.3.4}",
            "ssrr{1.2.3.4,5.6.7.8^9.9.9.9}",
            "ts{1,!2}+1++3",
            "ts.ip{1.2.3.4=!5,6.7.8.9=10^}",
            "ts.preip{1.2.3.4=5^6.7.8.9,0.0.0.0}",
            "ts{1}+2;rr{}+1",
            "98=1:2",
        ] {
            assert_eq!(write(&read(text).unwrap()), text);
        }
        assert_eq!(write(&read("nop;nop;eol").unwrap()), ".");
        assert_eq!(write(&read("ts{1.2.3.4=5}").unwrap()), "ts.ip{1.2.3.4=5^}");
        assert_eq!(read("."), Some(Vec::new()));
        for wrong in
            ["rr{1.2.3}", "rr{1.2.3.4", "rr{}+100", "ts{1.2.3.4}", "ts.99{}", "ts{1}++16", "ssrr", "300"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(write(&[7, 3, 2]), "?");
        assert_eq!(write(&[68, 3, 5]), "?");
        assert_eq!(write(&[99, 9]), "?");
    }
}
