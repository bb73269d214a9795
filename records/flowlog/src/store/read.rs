//! Records out of a Parquet file: only the columns that are wanted, only the row groups that can
//! matter.
//!
//! Files may come from anywhere and be damaged anyhow. Columns are found by name; of the log's
//! columns those that a file does not have (it is older) are as if unknown, but without
//! `start_time` and `end_time` it is no flow log. The decoder below is not ours, and damaged files
//! have been known to make such decoders panic: that is caught here, and the file called damaged.
//! How much memory a file may claim says `pages`.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Type};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;

use super::columns::{COLUMNS, Value, Wanted, is_text};
use super::pages::{self, Measured};
use crate::record::{Key, Record};

/// Records that are read at once.
const CHUNK: usize = 8192;

/// Why a file cannot be read, or no further.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system says no.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is not Parquet, or damaged.
    #[error("not a readable Parquet file: {0}")]
    Parquet(#[from] ParquetError),
    /// It is Parquet, but packed in a way that is not read here.
    #[error("packed with {0}, which is not read here: rewrite it with zstd, snappy, gzip, lz4 or nothing")]
    Packed(&'static str),
    /// It is Parquet, but of something else.
    #[error("not a flow log: column {column} {message}")]
    Foreign {
        /// Which column.
        column: &'static str,
        /// What is wrong with it.
        message: &'static str,
    },
}

/// A span of time, ns since 1970, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// From here.
    pub since: u64,
    /// Until here.
    pub until: u64,
}

impl Span {
    /// All time.
    pub const ALWAYS: Span = Span { since: 0, until: u64::MAX };

    /// Whether something from `start` to `end` lies in it, at least in part.
    pub fn meets(&self, start: u64, end: u64) -> bool {
        end >= self.since && start <= self.until
    }
}

/// A file being read.
pub struct Reader {
    file: SerializedFileReader<File>,
    /// The same, for its pages.
    pages: Arc<Measured>,
    /// Where each of [`COLUMNS`] is in the file, if it is wanted and there.
    places: Vec<Option<usize>>,
    span: Span,
    group: usize,
    open: Option<Group>,
    skipped: u64,
}

struct Group {
    columns: Vec<(usize, ColumnReader)>,
    left: usize,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("span", &self.span).field("group", &self.group).finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens a file for these columns, and the row groups that touch `span`.
    pub fn open(path: &Path, wanted: Wanted, span: Span) -> Result<Reader, ReadError> {
        let file = File::open(path)?;
        let pages = Arc::new(Measured(file.try_clone()?));
        guard(|| {
            let file = SerializedFileReader::new(file)?;
            let places = places(&file, wanted)?;
            let groups = file.metadata().row_groups().iter();
            let mut packings = groups.flat_map(|group| group.columns()).map(|column| column.compression());
            if let Some(packing) = packings.find_map(unread) {
                return Err(ReadError::Packed(packing));
            }
            Ok(Reader { file, pages, places, span, group: 0, open: None, skipped: 0 })
        })
    }

    /// Records of the whole file, read or not.
    pub fn rows(&self) -> u64 {
        u64::try_from(self.file.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// Records passed over so far because their row group lies outside the span.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Puts the next records (some thousands) into `out`, in place of what was there; false: that
    /// was all. Some may lie outside the span.
    pub fn next(&mut self, out: &mut Vec<Record>) -> Result<bool, ReadError> {
        out.clear();
        guard(|| {
            loop {
                if let Some(group) = &mut self.open {
                    if group.left > 0 {
                        let rows = group.left.min(CHUNK);
                        group.left -= rows;
                        read_chunk(&mut group.columns, rows, out)?;
                        return Ok(true);
                    }
                    self.open = None;
                }
                if self.group >= self.file.num_row_groups() {
                    return Ok(false);
                }
                self.open_group()?;
            }
        })
    }

    fn open_group(&mut self) -> Result<(), ReadError> {
        let number = self.group;
        self.group += 1;
        let facts = self.file.metadata().row_group(number);
        let rows = usize::try_from(facts.num_rows()).unwrap_or(0);
        if !touches(facts, &self.places, self.span) {
            self.skipped += rows as u64;
            return Ok(());
        }
        let mut columns = Vec::new();
        for (column, place) in self.places.iter().enumerate() {
            if let Some(place) = place {
                columns.push((column, pages::column(&self.pages, facts, *place)?));
            }
        }
        self.open = Some(Group { columns, left: rows });
        Ok(())
    }
}

/// A panic below is a damaged file.
fn guard<T>(read: impl FnOnce() -> Result<T, ReadError>) -> Result<T, ReadError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err(ParquetError::General("damaged in a way its decoder did not expect".into()).into())
    })
}

/// How a column is packed, if that is not read here.
fn unread(packing: Compression) -> Option<&'static str> {
    match packing {
        Compression::BROTLI(_) => Some("brotli"),
        Compression::LZO => Some("LZO"),
        _ => None,
    }
}

fn places(file: &SerializedFileReader<File>, wanted: Wanted) -> Result<Vec<Option<usize>>, ReadError> {
    let schema = file.metadata().file_metadata().schema_descr();
    let find = |name: &str| schema.columns().iter().position(|column| column.path().string() == name);
    let times = Wanted::these(&["start_time", "end_time"]);
    let mut places = vec![None; COLUMNS.len()];
    for (n, column) in COLUMNS.iter().enumerate() {
        let place = find(column.name);
        if times.has(n) {
            let Some(place) = place else {
                return Err(ReadError::Foreign { column: column.name, message: "is missing" });
            };
            if schema.column(place).physical_type() != Type::INT64 {
                return Err(ReadError::Foreign { column: column.name, message: "is no time" });
            }
        }
        if let Some(place) = place.map(|place| schema.column(place)) {
            let wrong = match (place.physical_type(), is_text(column.name)) {
                _ if place.max_rep_level() > 0 => Some("is a list"),
                (Type::BYTE_ARRAY, true) | (Type::INT32 | Type::INT64, false) => None,
                (_, true) => Some("is no text"),
                (_, false) => Some("is no whole number"),
            };
            if let Some(message) = wrong {
                return Err(ReadError::Foreign { column: column.name, message });
            }
        }
        if wanted.and(times).has(n) {
            places[n] = place;
        }
    }
    Ok(places)
}

/// By the statistics of its times, if there are any.
fn touches(group: &RowGroupMetaData, places: &[Option<usize>], span: Span) -> bool {
    let bounds = |column: usize| match places[column].map(|place| group.column(place).statistics()) {
        Some(Some(Statistics::Int64(values))) => (values.min_opt().copied(), values.max_opt().copied()),
        _ => (None, None),
    };
    // `start_time` and `end_time` are the first two columns, in microseconds.
    let ((start, _), (_, end)) = (bounds(0), bounds(1));
    let nanos = |micros: i64| u64::try_from(micros).unwrap_or(0).saturating_mul(1000);
    span.meets(start.map_or(0, nanos), end.map_or(u64::MAX, |end| nanos(end).saturating_add(999)))
}

fn read_chunk(
    columns: &mut [(usize, ColumnReader)],
    rows: usize,
    out: &mut Vec<Record>,
) -> Result<(), ReadError> {
    let nobody = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let key = Key {
        source: nobody,
        destination: nobody,
        source_port: 0,
        destination_port: 0,
        protocol: 0,
        icmp_type: 0,
        icmp_code: 0,
        table: 0,
    };
    out.resize(rows, Record::of(key));
    for (number, reader) in columns {
        let set = COLUMNS[*number].set;
        let mut levels = Vec::new();
        match reader {
            ColumnReader::Int32ColumnReader(reader) => {
                let mut values = Vec::new();
                let got = reader.read_records(rows, Some(&mut levels), None, &mut values)?;
                check(got.0, rows)?;
                // Unsigned numbers of 32 bits, or smaller ones.
                let values = values.iter().map(|value| Value::Number(i64::from(*value as u32)));
                spread(out, &levels, set, values);
            }
            ColumnReader::Int64ColumnReader(reader) => {
                let mut values: Vec<<Int64Type as parquet::data_type::DataType>::T> = Vec::new();
                let got = reader.read_records(rows, Some(&mut levels), None, &mut values)?;
                check(got.0, rows)?;
                spread(out, &levels, set, values.iter().map(|value| Value::Number(*value)));
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                let mut values: Vec<ByteArray> = Vec::new();
                let got = reader.read_records(rows, Some(&mut levels), None, &mut values)?;
                check(got.0, rows)?;
                let text = |value| Value::Text(String::from_utf8_lossy(ByteArray::data(value)));
                spread(out, &levels, set, values.iter().map(text));
            }
            _ => {
                return Err(ReadError::Foreign {
                    column: COLUMNS[*number].name,
                    message: "is of another type",
                });
            }
        }
    }
    Ok(())
}

fn check(read: usize, rows: usize) -> Result<(), ReadError> {
    if read == rows {
        return Ok(());
    }
    Err(ParquetError::EOF(format!("{read} of {rows} values")).into())
}

/// Puts values where they belong: a column that may be null has levels (1: there is a value),
/// others have none.
fn spread<'v>(
    out: &mut [Record],
    levels: &[i16],
    set: fn(&mut Record, Value),
    mut values: impl Iterator<Item = Value<'v>>,
) {
    for (n, record) in out.iter_mut().enumerate() {
        if levels.get(n).is_none_or(|level| *level > 0) {
            let Some(value) = values.next() else { return };
            set(record, value);
        }
    }
}
