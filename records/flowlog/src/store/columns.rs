//! The columns of a Parquet file: their names and types are a promise to whoever reads the files.
//!
//! Chosen for what DuckDB, Polars, Spark and ClickHouse make of them without being told:
//!
//! - Times are TIMESTAMP(MICROS, UTC), which all of them have as a time. TIMESTAMP(NANOS) would be
//!   an error in Spark (`Illegal Parquet type: INT64 (TIMESTAMP(NANOS,true))`, SPARK-40819). The
//!   nanoseconds within the microsecond stand beside it: `start_nanos`, 0 to 999. The exact time is
//!   `epoch_us(start_time) * 1000 + start_nanos`.
//! - Addresses are text as people write it: it can be read, compared and joined everywhere, and
//!   cast (`::INET` in DuckDB, `toIPv6` in ClickHouse). 16 raw bytes would be opaque in three of
//!   four; dictionary and zstd make text hardly larger.
//! - Sums are of signed 64 bits (Spark has no unsigned ones, and makes decimals of them); ports and
//!   the like are small unsigned numbers, which Spark reads as its next larger type.
//! - What is not known is null, not 0.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::LazyLock;

use parquet::basic::Type;
use parquet::schema::parser::parse_message_type;

use crate::record::{Endpoints, Interface, Name, Reason, Record};

/// The schema in Parquet's own language. Columns are only ever added.
pub const SCHEMA: &str = "
message flow {
  required int64 start_time (timestamp(micros,true));
  required int64 end_time (timestamp(micros,true));
  required int32 start_nanos (integer(16,false));
  required int32 end_nanos (integer(16,false));
  required int64 flow_id (integer(64,true));
  required int32 slice (integer(32,false));
  optional binary end_reason (string);
  required int32 protocol (integer(8,false));
  required binary src_addr (string);
  required binary dst_addr (string);
  required int32 src_port (integer(16,false));
  required int32 dst_port (integer(16,false));
  optional int32 icmp_type (integer(8,false));
  optional int32 icmp_code (integer(8,false));
  required int64 packets (integer(64,true));
  required int64 bytes (integer(64,true));
  required int64 reply_packets (integer(64,true));
  required int64 reply_bytes (integer(64,true));
  required int32 tcp_flags (integer(8,false));
  required int32 reply_tcp_flags (integer(8,false));
  optional int32 in_if (integer(32,false));
  optional int32 out_if (integer(32,false));
  optional binary in_if_name (string);
  optional binary out_if_name (string);
  required int32 table_id (integer(32,false));
  optional binary next_hop (string);
  optional int32 src_as (integer(32,false));
  optional int32 dst_as (integer(32,false));
  optional binary nat_src_addr (string);
  optional binary nat_dst_addr (string);
  optional int32 nat_src_port (integer(16,false));
  optional int32 nat_dst_port (integer(16,false));
}
";

/// Whether a column is text, and not a number.
pub fn is_text(name: &str) -> bool {
    static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| {
        // A test parses it.
        let schema = parse_message_type(SCHEMA).ok();
        let fields = schema.iter().flat_map(|schema| schema.get_fields());
        let texts = fields.filter(|field| field.get_physical_type() == Type::BYTE_ARRAY);
        texts.map(|field| field.name().to_owned()).collect()
    });
    TEXTS.iter().any(|text| text == name)
}

/// What stands in a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Nothing.
    Null,
    /// A number: as it is, or of 32 unsigned bits.
    Number(i64),
    /// A text.
    Text(Cow<'a, str>),
}

impl Value<'_> {
    fn number(&self) -> u64 {
        if let Value::Number(number) = self { *number as u64 } else { 0 }
    }

    fn text(&self) -> &str {
        if let Value::Text(text) = self { text } else { "" }
    }

    fn address(&self) -> Option<IpAddr> {
        self.text().parse().ok()
    }
}

/// A column, and its place in a record.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Out of a record.
    pub get: for<'r> fn(&'r Record) -> Value<'r>,
    /// Into a record. What cannot be there (a text that is no address) leaves it as it is.
    pub set: fn(&mut Record, Value),
}

/// Which columns are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted(u64);

impl Wanted {
    /// All of them.
    pub const ALL: Wanted = Wanted(u64::MAX);

    /// Those with these names.
    pub fn these(names: &[&str]) -> Wanted {
        Wanted(names.iter().fold(0, |bits, name| bits | Wanted::bit(name)))
    }

    /// Both.
    pub fn and(self, other: Wanted) -> Wanted {
        Wanted(self.0 | other.0)
    }

    /// Whether this column (its place in [`COLUMNS`]) is one of them.
    pub fn has(self, column: usize) -> bool {
        self.0 >> column & 1 == 1
    }

    fn bit(name: &str) -> u64 {
        let at = COLUMNS.iter().position(|column| column.name == name);
        debug_assert!(at.is_some(), "no column {name}");
        at.map_or(0, |at| 1 << at)
    }
}

fn number(number: u64) -> Value<'static> {
    Value::Number(number.min(i64::MAX as u64) as i64)
}

fn known(value: impl Into<u64>) -> Value<'static> {
    match value.into() {
        0 => Value::Null,
        value => number(value),
    }
}

fn address(address: Option<IpAddr>) -> Value<'static> {
    address.map_or(Value::Null, |address| Value::Text(address.to_string().into()))
}

fn name(interface: &Interface) -> Value<'_> {
    if interface.name.is_empty() { Value::Null } else { Value::Text(interface.name.as_str().into()) }
}

/// The ends behind the router, begun as those in front when a first column of them comes.
fn ends(record: &mut Record) -> &mut Endpoints {
    let key = record.key;
    record.translated.get_or_insert(Endpoints {
        source: key.source,
        destination: key.destination,
        source_port: 0,
        destination_port: 0,
    })
}

fn set_micros(time: &mut u64, value: &Value) {
    // Nanoseconds may be there already, or come later.
    *time = *time % 1000 + value.number().min(u64::MAX / 1000 - 1) * 1000;
}

fn set_nanos(time: &mut u64, value: &Value) {
    *time = *time / 1000 * 1000 + value.number() % 1000;
}

/// Every column, in the schema's order.
pub const COLUMNS: &[Column] = &[
    Column { name: "start_time", get: |r| number(r.start / 1000), set: |r, v| set_micros(&mut r.start, &v) },
    Column { name: "end_time", get: |r| number(r.end / 1000), set: |r, v| set_micros(&mut r.end, &v) },
    Column { name: "start_nanos", get: |r| number(r.start % 1000), set: |r, v| set_nanos(&mut r.start, &v) },
    Column { name: "end_nanos", get: |r| number(r.end % 1000), set: |r, v| set_nanos(&mut r.end, &v) },
    Column { name: "flow_id", get: |r| Value::Number(r.flow as i64), set: |r, v| r.flow = v.number() },
    Column { name: "slice", get: |r| number(r.slice.into()), set: |r, v| r.slice = v.number() as u32 },
    Column {
        name: "end_reason",
        get: |r| r.reason.map_or(Value::Null, |reason| Value::Text(reason.name().into())),
        set: |r, v| r.reason = Reason::ALL.into_iter().find(|reason| reason.name() == v.text()),
    },
    Column {
        name: "protocol",
        get: |r| number(r.key.protocol.into()),
        set: |r, v| r.key.protocol = v.number() as u8,
    },
    Column {
        name: "src_addr",
        get: |r| address(Some(r.key.source)),
        set: |r, v| r.key.source = v.address().unwrap_or(r.key.source),
    },
    Column {
        name: "dst_addr",
        get: |r| address(Some(r.key.destination)),
        set: |r, v| r.key.destination = v.address().unwrap_or(r.key.destination),
    },
    Column {
        name: "src_port",
        get: |r| number(r.key.source_port.into()),
        set: |r, v| r.key.source_port = v.number() as u16,
    },
    Column {
        name: "dst_port",
        get: |r| number(r.key.destination_port.into()),
        set: |r, v| r.key.destination_port = v.number() as u16,
    },
    Column {
        name: "icmp_type",
        get: |r| if r.key.is_icmp() { number(r.key.icmp_type.into()) } else { Value::Null },
        set: |r, v| r.key.icmp_type = v.number() as u8,
    },
    Column {
        name: "icmp_code",
        get: |r| if r.key.is_icmp() { number(r.key.icmp_code.into()) } else { Value::Null },
        set: |r, v| r.key.icmp_code = v.number() as u8,
    },
    Column {
        name: "packets",
        get: |r| number(r.forward.packets),
        set: |r, v| r.forward.packets = v.number(),
    },
    Column { name: "bytes", get: |r| number(r.forward.bytes), set: |r, v| r.forward.bytes = v.number() },
    Column {
        name: "reply_packets",
        get: |r| number(r.reply.packets),
        set: |r, v| r.reply.packets = v.number(),
    },
    Column { name: "reply_bytes", get: |r| number(r.reply.bytes), set: |r, v| r.reply.bytes = v.number() },
    Column {
        name: "tcp_flags",
        get: |r| number(r.forward.tcp_flags.into()),
        set: |r, v| r.forward.tcp_flags = v.number() as u8,
    },
    Column {
        name: "reply_tcp_flags",
        get: |r| number(r.reply.tcp_flags.into()),
        set: |r, v| r.reply.tcp_flags = v.number() as u8,
    },
    Column { name: "in_if", get: |r| known(r.input.index), set: |r, v| r.input.index = v.number() as u32 },
    Column { name: "out_if", get: |r| known(r.output.index), set: |r, v| r.output.index = v.number() as u32 },
    Column { name: "in_if_name", get: |r| name(&r.input), set: |r, v| r.input.name = Name::new(v.text()) },
    Column { name: "out_if_name", get: |r| name(&r.output), set: |r, v| r.output.name = Name::new(v.text()) },
    Column {
        name: "table_id",
        get: |r| number(r.key.table.into()),
        set: |r, v| r.key.table = v.number() as u32,
    },
    Column { name: "next_hop", get: |r| address(r.next_hop), set: |r, v| r.next_hop = v.address() },
    Column { name: "src_as", get: |r| known(r.source_as), set: |r, v| r.source_as = v.number() as u32 },
    Column {
        name: "dst_as",
        get: |r| known(r.destination_as),
        set: |r, v| r.destination_as = v.number() as u32,
    },
    Column {
        name: "nat_src_addr",
        get: |r| address(r.translated.map(|ends| ends.source)),
        set: |r, v| {
            if let Some(source) = v.address() {
                ends(r).source = source;
            }
        },
    },
    Column {
        name: "nat_dst_addr",
        get: |r| address(r.translated.map(|ends| ends.destination)),
        set: |r, v| {
            if let Some(destination) = v.address() {
                ends(r).destination = destination;
            }
        },
    },
    Column {
        name: "nat_src_port",
        get: |r| r.translated.map_or(Value::Null, |ends| number(ends.source_port.into())),
        set: |r, v| {
            if v != Value::Null {
                ends(r).source_port = v.number() as u16;
            }
        },
    },
    Column {
        name: "nat_dst_port",
        get: |r| r.translated.map_or(Value::Null, |ends| number(ends.destination_port.into())),
        set: |r, v| {
            if v != Value::Null {
                ends(r).destination_port = v.number() as u16;
            }
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_the_schema_in_its_order() {
        let schema = parquet::schema::parser::parse_message_type(SCHEMA).unwrap();
        let names = schema.get_fields().iter().map(|field| field.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(names, COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>());
        assert!(COLUMNS.len() <= 64);
    }

    #[test]
    fn a_record_comes_back_column_by_column() {
        for record in crate::samples::records(200) {
            let mut back = Record::of(record.key);
            for column in COLUMNS {
                (column.set)(&mut back, (column.get)(&record));
            }
            assert_eq!(back, record);
        }
    }
}
