//! IP summary dumps: files in which a line says what is to be known of a packet.
//!
//! A line `!data` names the fields, every line behind it has their values, with `-` for what a
//! packet does not have. Behind a line `!binary` come records instead of lines: a length of 4
//! bytes, itself included, whose first bit is set when the record is such a line with `!`, and then
//! the fields one behind the other.
//!
//! [`View`] gets the fields out of a packet, [`Draft`] makes a packet of fields; how a value is
//! written, as text and in binary, is here.

mod draft;
mod ip_options;
mod options;
mod tcp_options;
mod view;

use std::net::Ipv4Addr;

use graph::arguments::{Argument, Bytes, Kind, Scope, Timestamp, parse_integer, unparse};
use wire::{Mac, ipv4, protocol};

pub(super) use draft::{Draft, Flow, Made};
pub(super) use view::View;

/// The version of the form: a second number of 0 has fragment offsets in units of 8 bytes.
pub(super) const VERSION: (u32, u32) = (1, 3);

/// What there is to be known of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Nothing,
    Timestamp,
    NanoTimestamp,
    Seconds,
    Microseconds,
    AllMicroseconds,
    FirstTimestamp,
    FirstNanoTimestamp,
    Count,
    Link,
    Direction,
    Aggregate,
    WireLength,
    EtherSource,
    EtherDestination,
    EtherType,
    Source,
    Destination,
    Tos,
    Dscp,
    Ecn,
    Ttl,
    Fragment,
    FragmentOffset,
    Id,
    Checksum,
    Protocol,
    HeaderLength,
    Length,
    CaptureLength,
    IpOptions,
    SourcePort,
    DestinationPort,
    Sequence,
    Acknowledgement,
    TcpOffset,
    TcpFlags,
    Window,
    Urgent,
    TcpOptions,
    TcpOptionsButTimes,
    TcpSack,
    UdpLength,
    IcmpType,
    IcmpTypeName,
    IcmpCode,
    IcmpCodeName,
    IcmpFlow,
    IcmpSequence,
    IcmpNextMtu,
    PayloadLength,
    Payload,
}

/// How a field lies in a binary record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// A number, or an address, of so many bytes.
    Bytes(u8),
    /// A byte that says how many follow.
    Counted,
    /// Not at all.
    Text,
}

/// Name, field, size, and when it is put into a packet: what others depend on comes first.
pub(super) type Entry = (&'static str, Field, Size, u16);

const ANNOTATIONS: u16 = 100;
const LINK: u16 = 200;
const NETWORK: u16 = 300;
const TRANSPORT: u16 = 400;
const PAYLOAD: u16 = 500;

const FIELDS: &[Entry] = &[
    ("none", Field::Nothing, Size::Bytes(0), ANNOTATIONS),
    ("timestamp", Field::Timestamp, Size::Bytes(8), ANNOTATIONS),
    ("ntimestamp", Field::NanoTimestamp, Size::Bytes(8), ANNOTATIONS),
    ("ts_sec", Field::Seconds, Size::Bytes(4), ANNOTATIONS),
    ("ts_usec", Field::Microseconds, Size::Bytes(4), ANNOTATIONS),
    ("ts_usec1", Field::AllMicroseconds, Size::Bytes(8), ANNOTATIONS),
    ("first_timestamp", Field::FirstTimestamp, Size::Bytes(8), ANNOTATIONS),
    ("first_ntimestamp", Field::FirstNanoTimestamp, Size::Bytes(8), ANNOTATIONS),
    ("count", Field::Count, Size::Bytes(4), ANNOTATIONS),
    ("link", Field::Link, Size::Bytes(1), ANNOTATIONS),
    ("paint", Field::Link, Size::Bytes(1), ANNOTATIONS),
    ("direction", Field::Direction, Size::Bytes(1), ANNOTATIONS),
    ("aggregate", Field::Aggregate, Size::Bytes(4), ANNOTATIONS),
    ("wire_len", Field::WireLength, Size::Bytes(4), ANNOTATIONS),
    ("eth_src", Field::EtherSource, Size::Bytes(6), LINK),
    ("eth_dst", Field::EtherDestination, Size::Bytes(6), LINK),
    ("eth_type", Field::EtherType, Size::Bytes(2), LINK),
    ("ip_src", Field::Source, Size::Bytes(4), NETWORK),
    ("ip_dst", Field::Destination, Size::Bytes(4), NETWORK),
    ("ip_tos", Field::Tos, Size::Bytes(1), NETWORK),
    ("ip_dscp", Field::Dscp, Size::Bytes(1), NETWORK),
    ("ip_ecn", Field::Ecn, Size::Bytes(1), NETWORK),
    ("ip_ttl", Field::Ttl, Size::Bytes(1), NETWORK),
    ("ip_frag", Field::Fragment, Size::Bytes(1), NETWORK - 2),
    ("ip_fragoff", Field::FragmentOffset, Size::Bytes(2), NETWORK - 1),
    ("ip_id", Field::Id, Size::Bytes(2), NETWORK),
    ("ip_sum", Field::Checksum, Size::Bytes(2), NETWORK + 2),
    ("ip_proto", Field::Protocol, Size::Bytes(1), NETWORK),
    ("ip_hl", Field::HeaderLength, Size::Bytes(1), NETWORK - 1),
    ("ip_len", Field::Length, Size::Bytes(4), NETWORK + 1),
    ("ip_capture_len", Field::CaptureLength, Size::Bytes(4), PAYLOAD + 2),
    ("ip_opt", Field::IpOptions, Size::Counted, NETWORK),
    ("sport", Field::SourcePort, Size::Bytes(2), TRANSPORT),
    ("dport", Field::DestinationPort, Size::Bytes(2), TRANSPORT),
    ("tcp_seq", Field::Sequence, Size::Bytes(4), TRANSPORT),
    ("tcp_ack", Field::Acknowledgement, Size::Bytes(4), TRANSPORT),
    ("tcp_off", Field::TcpOffset, Size::Bytes(1), TRANSPORT - 1),
    ("tcp_flags", Field::TcpFlags, Size::Bytes(1), TRANSPORT),
    ("tcp_window", Field::Window, Size::Bytes(2), TRANSPORT),
    ("tcp_urp", Field::Urgent, Size::Bytes(2), TRANSPORT),
    ("tcp_opt", Field::TcpOptions, Size::Counted, TRANSPORT + 3),
    ("tcp_ntopt", Field::TcpOptionsButTimes, Size::Counted, TRANSPORT + 2),
    ("tcp_sack", Field::TcpSack, Size::Counted, TRANSPORT + 1),
    ("udp_len", Field::UdpLength, Size::Bytes(4), TRANSPORT),
    ("icmp_type", Field::IcmpType, Size::Bytes(1), TRANSPORT),
    ("icmp_type_name", Field::IcmpTypeName, Size::Bytes(1), TRANSPORT),
    ("icmp_code", Field::IcmpCode, Size::Bytes(1), TRANSPORT + 1),
    ("icmp_code_name", Field::IcmpCodeName, Size::Bytes(1), TRANSPORT + 1),
    ("icmp_flowid", Field::IcmpFlow, Size::Bytes(2), TRANSPORT + 2),
    ("icmp_seq", Field::IcmpSequence, Size::Bytes(2), TRANSPORT + 2),
    ("icmp_nextmtu", Field::IcmpNextMtu, Size::Bytes(2), TRANSPORT + 2),
    ("payload", Field::Payload, Size::Text, PAYLOAD),
    ("payload_len", Field::PayloadLength, Size::Bytes(4), PAYLOAD + 1),
];

/// What fields may be called besides.
const SYNONYMS: &[(&str, &str)] = &[
    ("utimestamp", "timestamp"),
    ("ts", "timestamp"),
    ("sec", "ts_sec"),
    ("usec", "ts_usec"),
    ("usec1", "ts_usec1"),
    ("first_utimestamp", "first_timestamp"),
    ("first_ts", "first_timestamp"),
    ("pkt_count", "count"),
    ("packet_count", "count"),
    ("agg", "aggregate"),
    ("wire_length", "wire_len"),
    ("ether_src", "eth_src"),
    ("ether_dst", "eth_dst"),
    ("ether_type", "eth_type"),
    ("length", "ip_len"),
    ("ip_p", "ip_proto"),
    ("tcp_seqno", "tcp_seq"),
    ("tcp_ackno", "tcp_ack"),
    ("tcp_win", "tcp_window"),
    ("payload_length", "payload_len"),
];

/// The field of a name: `ip_src`, `ip src`, `src`.
pub(super) fn find(name: &str) -> Option<&'static Entry> {
    let name = SYNONYMS.iter().find(|(synonym, _)| *synonym == name).map_or(name, |(_, name)| name);
    if let Some(entry) = FIELDS.iter().find(|(known, ..)| *known == name) {
        return Some(entry);
    }
    if name.contains(' ') {
        return find(&name.replacen(' ', "_", 1));
    }
    (!name.contains('_')).then(|| find(&format!("ip_{name}"))).flatten()
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Number(u64),
    /// Nanoseconds.
    Time(i64),
    Ether([u8; 6]),
    /// Options, payload.
    Bytes(Vec<u8>),
}

const FLAGS: &[u8; 9] = b"FSRPAUECN";

/// Reads a field's value as it stands in a line. `icmp_type` is what the packet has been given;
/// `units` is what fragment offsets are counted in.
pub(super) fn read(
    &(_, field, size, _): &Entry,
    text: &str,
    icmp_type: Option<u8>,
    units: u64,
    scope: &Scope<'_>,
) -> Option<Value> {
    let number = |most: u64| parse_integer(text, 0, most.into()).ok().map(|number| number as u64);
    let named = |kind| scope.number(kind, text).map(u64::from).or_else(|| number(255));
    let number = match field {
        Field::Timestamp | Field::NanoTimestamp | Field::FirstTimestamp | Field::FirstNanoTimestamp => {
            return Timestamp::parse(text, scope).ok().map(|Timestamp(time)| Value::Time(time));
        }
        Field::EtherSource | Field::EtherDestination => {
            return Mac::parse(text, scope).ok().map(|mac| Value::Ether(mac.0));
        }
        Field::EtherType => u64::from_str_radix(text, 16).ok().filter(|kind| *kind <= 0xffff),
        Field::Payload => return Bytes::parse(text, scope).ok().map(|Bytes(bytes)| Value::Bytes(bytes)),
        Field::IpOptions => return ip_options::read(text).map(Value::Bytes),
        Field::TcpOptions => return tcp_options::read(text, tcp_options::ALL).map(Value::Bytes),
        Field::TcpOptionsButTimes => return tcp_options::read(text, tcp_options::NO_TIMES).map(Value::Bytes),
        Field::TcpSack => return tcp_options::read(text, tcp_options::SACK).map(Value::Bytes),
        Field::Source | Field::Destination => {
            Ipv4Addr::parse(text, scope).ok().map(|address| u64::from(u32::from(address)))
        }
        Field::Link | Field::Direction => match text {
            ">" | "L" => Some(0),
            "<" | "R" | "X" => Some(1),
            _ => number(255),
        },
        Field::Protocol => match text {
            "T" => Some(protocol::TCP.into()),
            "U" => Some(protocol::UDP.into()),
            "I" => Some(protocol::ICMP.into()),
            _ => number(255),
        },
        Field::Ecn => match text {
            "no" => Some(0),
            "ect1" | "ECT(1)" => Some(1),
            "ect2" | "ECT(0)" => Some(2),
            "ce" | "CE" => Some(3),
            _ => number(3),
        },
        Field::Fragment | Field::FragmentOffset => read_fragment(text, units),
        Field::TcpFlags => read_flags(text),
        Field::IcmpType | Field::IcmpTypeName => named(Kind::IcmpType),
        Field::IcmpCode | Field::IcmpCodeName => match icmp_type {
            Some(kind) => named(Kind::IcmpCode(kind)),
            None => number(255),
        },
        _ => number(match size {
            Size::Bytes(bytes @ 0..8) => (1 << (8 * bytes)) - 1,
            _ => u64::MAX,
        }),
    };
    number.map(Value::Number)
}

fn read_fragment(text: &str, units: u64) -> Option<u64> {
    let (df, mf) = (u64::from(ipv4::DONT_FRAGMENT), u64::from(ipv4::MORE_FRAGMENTS));
    match text {
        "." => return Some(0),
        "!" => return Some(df),
        "F" => return Some(mf),
        // Some offset; which is not known.
        "f" => return Some(100),
        _ => {}
    }
    let number = text.trim_end_matches(['!', '+']);
    let offset = parse_integer(number, 0, 0xffff).ok()? as u64 / units;
    let flags =
        text[number.len()..].bytes().fold(0, |flags, sign| flags | if sign == b'!' { df } else { mf });
    Some(offset & u64::from(ipv4::FRAGMENT_OFFSET) | flags)
}

/// `F` for a first fragment, `f` for a later one, else `!` when it may not be fragmented, and `.`.
fn fragment_sign(word: u16) -> u8 {
    if word & ipv4::FRAGMENT_OFFSET != 0 {
        b'f'
    } else if word & ipv4::MORE_FRAGMENTS != 0 {
        b'F'
    } else if word & ipv4::DONT_FRAGMENT != 0 {
        b'!'
    } else {
        b'.'
    }
}

fn read_flags(text: &str) -> Option<u64> {
    if text == "." {
        return Some(0);
    }
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return parse_integer(text, 0, 0xfff).ok().map(|flags| flags as u64);
    }
    let bit = |sign: u8| match sign {
        b'X' => Some(6),
        b'Y' | b'W' => Some(7),
        _ => FLAGS.iter().position(|flag| *flag == sign),
    };
    text.bytes().try_fold(0, |flags, sign| bit(sign).map(|bit| flags | 1 << bit))
}

/// Reads a field's value in a binary record, and says how many bytes it takes there.
pub(super) fn read_binary(&(_, field, size, _): &Entry, record: &[u8]) -> Option<(Value, usize)> {
    let length = match size {
        Size::Bytes(length) => usize::from(length),
        Size::Counted => {
            let length = usize::from(*record.first()?);
            return Some((Value::Bytes(record.get(1..=length)?.to_vec()), length + 1));
        }
        Size::Text => return None,
    };
    let bytes = record.get(..length)?;
    let number = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let value = match field {
        Field::Timestamp | Field::FirstTimestamp => Value::Time(time(number, 1000)),
        Field::NanoTimestamp | Field::FirstNanoTimestamp => Value::Time(time(number, 1)),
        Field::EtherSource | Field::EtherDestination => Value::Ether(*bytes.first_chunk()?),
        Field::Fragment => Value::Number(read_fragment(str::from_utf8(bytes).ok()?, 1).unwrap_or(0)),
        _ => Value::Number(number),
    };
    Some((value, length))
}

/// Two words, seconds and a fraction of so many nanoseconds, as nanoseconds.
fn time(words: u64, unit: i64) -> i64 {
    let (seconds, fraction) = ((words >> 32) as i64, (words & u64::from(u32::MAX)) as i64);
    seconds * 1_000_000_000 + fraction * unit
}

/// Writes a field's value as it stands in a line.
pub(super) fn write(field: Field, value: &Value, icmp_type: u8, scope: &Scope<'_>, out: &mut Vec<u8>) {
    let number = match value {
        Value::Time(time) => return out.extend(unparse::timestamp(*time).bytes()),
        Value::Ether(address) => return out.extend(unparse::ethernet(Mac(*address)).bytes()),
        Value::Bytes(bytes) => {
            let text = match field {
                Field::IpOptions => ip_options::write(bytes),
                Field::TcpOptions => tcp_options::write(bytes, tcp_options::ALL),
                Field::TcpOptionsButTimes => tcp_options::write(bytes, tcp_options::NO_TIMES),
                Field::TcpSack => tcp_options::write(bytes, tcp_options::SACK),
                _ => unparse::quoted_bytes(bytes),
            };
            return out.extend(text.bytes());
        }
        Value::Number(number) => *number,
    };
    let named = |kind| scope.name_of(kind, number as u32).map(str::to_owned);
    let text = match field {
        Field::Source | Field::Destination => Some(Ipv4Addr::from(number as u32).to_string()),
        Field::EtherType => Some(format!("{number:04X}")),
        Field::Direction => [">", "<"].get(number as usize).map(|sign| (*sign).to_owned()),
        Field::Fragment => Some(char::from(fragment_sign(number as u16)).to_string()),
        Field::FragmentOffset => {
            let flag = |flag: u16, sign: &'static str| if number & u64::from(flag) != 0 { sign } else { "" };
            let bytes = (number & u64::from(ipv4::FRAGMENT_OFFSET)) * 8;
            let (mf, df) = (flag(ipv4::MORE_FRAGMENTS, "+"), flag(ipv4::DONT_FRAGMENT, "!"));
            Some(format!("{bytes}{mf}{df}"))
        }
        Field::Protocol => match number as u8 {
            protocol::TCP => Some("T".to_owned()),
            protocol::UDP => Some("U".to_owned()),
            protocol::ICMP => Some("I".to_owned()),
            _ => None,
        },
        Field::Ecn => ["no", "ect1", "ect2", "ce"].get(number as usize).map(|name| (*name).to_owned()),
        Field::TcpFlags => Some(match number {
            0 => ".".to_owned(),
            // The one pair that is said the other way round.
            0x18 => "PA".to_owned(),
            _ => {
                let set = FLAGS.iter().enumerate().filter(|(bit, _)| number & 1 << bit != 0);
                set.map(|(_, flag)| char::from(*flag)).collect()
            }
        }),
        Field::IcmpTypeName => named(Kind::IcmpType),
        Field::IcmpCodeName => named(Kind::IcmpCode(icmp_type)),
        _ => None,
    };
    out.extend(text.unwrap_or_else(|| number.to_string()).bytes());
}

/// Writes a field's value as it lies in a binary record; zeros when the packet does not have it.
pub(super) fn write_binary(&(_, field, size, _): &Entry, value: Option<&Value>, out: &mut Vec<u8>) {
    let number = match value {
        Some(Value::Bytes(bytes)) => {
            let bytes = match field {
                Field::TcpOptionsButTimes => tcp_options::only(bytes, tcp_options::NO_TIMES),
                Field::TcpSack => tcp_options::only(bytes, tcp_options::SACK),
                _ => bytes.clone(),
            };
            let bytes = &bytes[..bytes.len().min(255)];
            out.push(bytes.len() as u8);
            return out.extend(bytes);
        }
        Some(Value::Ether(address)) => return out.extend(address),
        Some(Value::Time(time)) => {
            let micro = matches!(field, Field::Timestamp | Field::FirstTimestamp);
            let (seconds, rest) = (time.div_euclid(1_000_000_000), time.rem_euclid(1_000_000_000));
            let rest = if micro { rest / 1000 } else { rest };
            (seconds as u64) << 32 | rest as u64
        }
        // Which of them it is, and no more.
        Some(Value::Number(word)) if field == Field::Fragment => fragment_sign(*word as u16).into(),
        Some(Value::Number(number)) => *number,
        None => 0,
    };
    let length = match size {
        Size::Bytes(length) => usize::from(length),
        Size::Counted => 1,
        Size::Text => 0,
    };
    out.extend(&number.to_be_bytes()[8 - length..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::arguments::Names;
    use proptest::prelude::*;

    fn entry(name: &str) -> &'static Entry {
        find(name).unwrap()
    }

    fn read_back(name: &str, text: &str) -> Option<String> {
        let names = Names::new();
        let scope = Scope::new(&names, "");
        let value = read(entry(name), text, None, 8, &scope)?;
        let mut binary = Vec::new();
        write_binary(entry(name), Some(&value), &mut binary);
        // There is no time before 1970 in the binary form.
        // Nor are there, in a field that takes its own options, those that cannot be told apart.
        let taken = [Field::TcpOptionsButTimes, Field::TcpSack].contains(&entry(name).1);
        let odd = |bytes: &[u8]| tcp_options::write(bytes, tcp_options::ALL).contains('?');
        let has_binary = match &value {
            Value::Time(time) => *time >= 0,
            Value::Bytes(bytes) => !taken || !odd(bytes),
            _ => true,
        } && entry(name).2 != Size::Text;
        if has_binary {
            let again = read_binary(entry(name), &binary);
            let as_text = |value: &Value| {
                let mut out = Vec::new();
                write(entry(name).1, value, 0, &scope, &mut out);
                out
            };
            // Of an offset the one byte of `ip_frag` says only that there is one, and of options a
            // field takes its own.
            let said = |value: &Value| match entry(name).1 {
                Field::Fragment | Field::TcpOptionsButTimes | Field::TcpSack => Err(as_text(value)),
                _ => Ok(value.clone()),
            };
            let again = again.map(|(value, length)| (said(&value), length));
            assert_eq!(again, Some((said(&value), binary.len())), "{name} {text}");
        }
        let mut out = Vec::new();
        write(entry(name).1, &value, 0, &scope, &mut out);
        String::from_utf8(out).ok()
    }

    #[test]
    fn names_may_be_short_or_have_spaces() {
        for name in ["ip_src", "ip src", "src"] {
            assert_eq!(entry(name).1, Field::Source);
        }
        assert_eq!(entry("ts").0, "timestamp");
        assert_eq!(entry("len").1, Field::Length);
        assert!(find("nonsense").is_none() && find("no_sense").is_none() && find("a b c").is_none());
    }

    #[test]
    fn values_are_written_as_they_are_read() {
        for (name, text) in [
            ("timestamp", "1.500000"),
            ("ip_src", "10.0.0.1"),
            ("ip_ecn", "ect2"),
            ("ip_frag", "!"),
            ("ip_frag", "F"),
            ("ip_frag", "f"),
            ("ip_frag", "."),
            ("ip_fragoff", "24+"),
            ("ip_fragoff", "0!"),
            ("ip_proto", "U"),
            ("ip_proto", "89"),
            ("tcp_flags", "SA"),
            ("tcp_flags", "."),
            ("eth_src", "00-01-02-03-04-05"),
            ("eth_type", "0800"),
            ("direction", "<"),
            ("icmp_type_name", "echo"),
            ("tcp_opt", "mss1460;sackok;wscale10"),
            ("ip_opt", "rr{1.2.3.4}+2"),
            ("payload", "\"a \\\"b\\\"\\n\""),
        ] {
            let expected = if text == "SA" { "SA" } else { text };
            assert_eq!(read_back(name, text).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(read_back("ip_ttl", "256"), None);
        assert_eq!(read_back("tcp_flags", "Q"), None);
        assert_eq!(read_back("ip_src", "-"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_not(at in 0..FIELDS.len(), text in "[-0-9a-z.,:;{}^+!=?\"\\\\]{0,24}") {
            read_back(FIELDS[at].0, &text);
        }

        #[test]
        fn any_record_is_read_or_not(at in 0..FIELDS.len(), record: Vec<u8>) {
            let names = Names::new();
            if let Some((value, length)) = read_binary(&FIELDS[at], &record) {
                prop_assert!(length <= record.len());
                write(FIELDS[at].1, &value, 3, &Scope::new(&names, ""), &mut Vec::new());
            }
        }
    }
}
