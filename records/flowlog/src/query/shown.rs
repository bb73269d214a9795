//! Answers as tables for people, as CSV and as JSON for programs.
//!
//! A table cuts and rounds; CSV and JSON have whole numbers, the names of the files' columns, and
//! times in UTC with nanoseconds.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::IpAddr;

use chrono::{DateTime, Local, TimeZone, Utc};
use serde_json::{Map, Value as Json};

use super::filter::Protocol;
use super::sums::{Part, Sums, Totals};
use crate::record::{Interface, Record};
use crate::store::columns::{COLUMNS, Value, Wanted};

/// What an answer looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Table,
    /// Comma-separated values (RFC 4180), with a head.
    Csv,
    /// An object a line.
    Json,
}

/// Columns that a listing shows.
pub fn columns(form: Form) -> Wanted {
    match form {
        Form::Csv | Form::Json => Wanted::ALL,
        Form::Table => Wanted::these(&[
            "protocol",
            "src_addr",
            "dst_addr",
            "src_port",
            "dst_port",
            "icmp_type",
            "icmp_code",
            "packets",
            "bytes",
            "reply_packets",
            "reply_bytes",
            "in_if",
            "out_if",
            "in_if_name",
            "out_if_name",
            "end_reason",
        ]),
    }
}

/// Columns of files that CSV and JSON show as they are; times are told in full instead.
fn plain() -> impl Iterator<Item = &'static crate::store::columns::Column> {
    let told = |name: &str| name.starts_with("start_") || matches!(name, "end_time" | "end_nanos");
    COLUMNS.iter().filter(move |column| !told(column.name))
}

/// `2026-11-21 18:00:00`, by the local clock.
pub fn local_time(time: u64) -> String {
    Local.timestamp_nanos(time.min(i64::MAX as u64) as i64).format("%Y-%m-%d %H:%M:%S").to_string()
}

/// `2026-11-21T17:00:00.123456789Z`.
fn exact_time(time: u64) -> String {
    let time: DateTime<Utc> = DateTime::from_timestamp_nanos(time.min(i64::MAX as u64) as i64);
    time.format("%Y-%m-%dT%H:%M:%S%.9fZ").to_string()
}

/// What stands above a listing.
pub fn head(form: Form, out: &mut dyn Write) -> io::Result<()> {
    match form {
        Form::Table => writeln!(
            out,
            "{:<19} {:>9}  {:<7} {:<45} {:<19} {:>9} {:>9}  {:>9} {:>9}  END",
            "START", "LASTED", "PROTO", "FLOW", "IN -> OUT", "PACKETS", "BYTES", "BACK", "BYTES"
        ),
        Form::Csv => {
            let names = plain().map(|column| column.name);
            writeln!(out, "{}", ["start", "end"].into_iter().chain(names).collect::<Vec<_>>().join(","))
        }
        Form::Json => Ok(()),
    }
}

/// One flow.
pub fn flow(form: Form, record: &Record, out: &mut dyn Write) -> io::Result<()> {
    match form {
        Form::Table => writeln!(out, "{}", row(record).trim_end()),
        Form::Csv => {
            let mut line = format!("{},{}", exact_time(record.start), exact_time(record.end));
            for column in plain() {
                line.push(',');
                match (column.get)(record) {
                    Value::Null => {}
                    Value::Number(number) => {
                        let _ = write!(line, "{number}");
                    }
                    Value::Text(text) => line.push_str(&quoted(&text)),
                }
            }
            writeln!(out, "{line}")
        }
        Form::Json => {
            let mut object = Map::new();
            object.insert("start".to_owned(), exact_time(record.start).into());
            object.insert("end".to_owned(), exact_time(record.end).into());
            for column in plain() {
                let value = match (column.get)(record) {
                    Value::Null => Json::Null,
                    Value::Number(number) => number.into(),
                    Value::Text(text) => text.into_owned().into(),
                };
                object.insert(column.name.to_owned(), value);
            }
            writeln!(out, "{}", Json::Object(object))
        }
    }
}

/// A field of CSV: in quotes where it must be.
fn quoted(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn row(record: &Record) -> String {
    let key = &record.key;
    let end = |address: IpAddr, port: u16| match (key.is_icmp() || port == 0, address) {
        (true, _) => address.to_string(),
        (false, IpAddr::V4(four)) => format!("{four}:{port}"),
        (false, IpAddr::V6(six)) => format!("[{six}]:{port}"),
    };
    let ends =
        format!("{} > {}", end(key.source, key.source_port), end(key.destination, key.destination_port));
    let interface = |of: &Interface| match (of.name.is_empty(), of.index) {
        (false, _) => of.name.to_string(),
        (true, 0) => "-".to_owned(),
        (true, index) => index.to_string(),
    };
    format!(
        "{} {:>9}  {:<7} {:<45} {:<19} {:>9} {:>9}  {:>9} {:>9}  {}",
        local_time(record.start),
        lasted(record.end.saturating_sub(record.start)),
        Protocol(key.protocol),
        ends,
        format!("{} -> {}", interface(&record.input), interface(&record.output)),
        scaled(record.forward.packets),
        scaled(record.forward.bytes),
        scaled(record.reply.packets),
        scaled(record.reply.bytes),
        record.reason.map_or("live", |reason| reason.name()),
    )
}

/// Sums, the largest first, at most `top`.
pub fn sums(form: Form, sums: Sums, top: Option<u64>, out: &mut dyn Write) -> io::Result<()> {
    let names = sums.by().names();
    let all = sums.all();
    let groups = sums.sorted();
    let count = groups.len();
    let top = top.map_or(count, |top| top as usize);
    match form {
        Form::Table => table(&names, &groups[..top.min(count)], count, all, out),
        Form::Csv => {
            writeln!(out, "{},flows,packets,bytes", names.join(","))?;
            for (key, totals) in groups.iter().take(top) {
                let key = key.iter().map(|part| quoted(&part_text(part))).collect::<Vec<_>>().join(",");
                writeln!(out, "{key},{},{},{}", totals.flows, totals.packets, totals.bytes)?;
            }
            Ok(())
        }
        Form::Json => {
            for (key, totals) in groups.iter().take(top) {
                let mut object = Map::new();
                for (name, part) in names.iter().zip(key.iter()) {
                    let value = match part {
                        Part::None => Json::Null,
                        Part::Number(number) => (*number).into(),
                        other => part_text(other).into(),
                    };
                    object.insert((*name).to_owned(), value);
                }
                object.insert("flows".to_owned(), totals.flows.into());
                object.insert("packets".to_owned(), totals.packets.into());
                object.insert("bytes".to_owned(), totals.bytes.into());
                writeln!(out, "{}", Json::Object(object))?;
            }
            Ok(())
        }
    }
}

/// As programs read it.
fn part_text(part: &Part) -> String {
    match part {
        Part::None => String::new(),
        Part::Time(time) => exact_time(*time),
        other => other.to_string(),
    }
}

fn table(
    names: &[&str],
    groups: &[(Box<[Part]>, Totals)],
    count: usize,
    all: Totals,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut widths = names.iter().map(|name| name.len()).collect::<Vec<_>>();
    for (key, _) in groups {
        for (width, part) in widths.iter_mut().zip(key.iter()) {
            *width = (*width).max(part.to_string().chars().count());
        }
    }
    let mut head = String::new();
    for (name, width) in names.iter().zip(&widths) {
        let _ = write!(head, "{:<width$}  ", name.to_uppercase());
    }
    writeln!(out, "{head}{:>9} {:>9} {:>9}  {:>6}", "FLOWS", "PACKETS", "BYTES", "SHARE")?;
    for (key, totals) in groups {
        let mut line = String::new();
        for (part, width) in key.iter().zip(&widths) {
            let _ = write!(line, "{part:<width$}  ");
        }
        let share = totals.bytes as f64 * 100.0 / all.bytes.max(1) as f64;
        let (flows, packets, bytes) = (scaled(totals.flows), scaled(totals.packets), scaled(totals.bytes));
        writeln!(out, "{line}{flows:>9} {packets:>9} {bytes:>9}  {share:>4.1} %")?;
    }
    let (flows, packets, bytes) = (scaled(all.flows), scaled(all.packets), scaled(all.bytes));
    let others = count - groups.len();
    let shown =
        if others > 0 { format!(", {} of {count} groups shown", groups.len()) } else { String::new() };
    writeln!(out, "in all {flows} flows, {packets} packets, {bytes} bytes{shown}")
}

/// `950`, `12.3k`, `2.57M`.
fn scaled(number: u64) -> String {
    notation::scaled(number as f64, "")
}

/// `1.234s`, `3m07s`, `2h05m`.
fn lasted(nanos: u64) -> String {
    let seconds = nanos / 1_000_000_000;
    match seconds {
        0..60 => format!("{seconds}.{:03}s", nanos / 1_000_000 % 1000),
        _ => notation::lasting(seconds, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_for_people() {
        assert_eq!([scaled(999), scaled(12_345), scaled(2_570_000)], ["999", "12.3k", "2.57M"]);
        assert_eq!([scaled(999_600), scaled(u64::MAX)], ["1.00M", "18.4E"]);
        assert_eq!([lasted(1_234_567_890), lasted(187_000_000_000)], ["1.234s", "3m07s"]);
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(exact_time(crate::samples::NOON), "2026-11-21T17:00:00.123456789Z");
    }
}
