//! A journal into Parquet.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;

use super::columns::{COLUMNS, SCHEMA, Value};
use super::journal::{JournalError, Reader};
use crate::private;
use crate::record::Record;

/// Records of a row group: large enough to compress well, small enough to skip and to hold in
/// memory (16 MB).
pub const ROW_GROUP: usize = 65_536;

/// What became of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The file; absent: there was nothing in the journal, or it was sealed before.
    pub file: Option<PathBuf>,
    /// Records in it.
    pub records: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Byte of the journal where it was torn; what stood behind it is lost.
    pub torn: Option<u64>,
}

/// Why a journal is still one. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The system says no.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What it says.
        error: io::Error,
    },
    /// It is of another version, or no journal.
    #[error("{}: not a journal of this version of the flow log", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
    },
    /// Parquet could not be written.
    #[error("{}: {error}", path.display())]
    Parquet {
        /// Which file.
        path: PathBuf,
        /// Why not.
        error: ParquetError,
    },
}

/// Turns a journal into the Parquet file of the same name, and removes it. May be cut off at any
/// point and done again.
pub fn seal(journal: &Path) -> Result<Sealed, SealError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |error| SealError::Io { path, error }
    };
    let (done, part) = (journal.with_extension("parquet"), journal.with_extension("parquet.part"));
    let mut sealed = Sealed { file: None, records: 0, bytes: 0, torn: None };
    if !done.exists() {
        let written = write(journal, &part, &mut sealed);
        if written.is_err() || sealed.records == 0 {
            let _ = fs::remove_file(&part);
        }
        written?;
        if sealed.records > 0 {
            fs::rename(&part, &done).map_err(io(&done))?;
            // The name must be on the disk before the journal's goes.
            let directory = journal.parent().unwrap_or(Path::new("."));
            File::open(directory).and_then(|directory| directory.sync_all()).map_err(io(directory))?;
            sealed.file = Some(done);
        }
    }
    fs::remove_file(journal).map_err(io(journal))?;
    Ok(sealed)
}

fn write(journal: &Path, part: &Path, sealed: &mut Sealed) -> Result<(), SealError> {
    let io = |path: &Path, error| SealError::Io { path: path.to_owned(), error };
    let failed = |error| SealError::Parquet { path: part.to_owned(), error };
    let unreadable = |error| match error {
        JournalError::Io(error) => io(journal, error),
        JournalError::Foreign | JournalError::Torn { .. } => SealError::Foreign { path: journal.to_owned() },
    };
    let mut reader = Reader::open(journal).map_err(unreadable)?;
    let file = private::create(part).map_err(|error| io(part, error))?;
    let mut parquet = Writer::new(&file).map_err(failed)?;
    let mut rows = Vec::new();
    loop {
        let more = match reader.next(&mut rows) {
            Ok(more) => more,
            Err(JournalError::Torn { at }) => {
                sealed.torn = Some(at);
                false
            }
            Err(other) => return Err(unreadable(other)),
        };
        let full = rows.len().checked_sub(ROW_GROUP);
        if let Some(rest) = full {
            let rest = rows.split_off(rows.len() - rest);
            parquet.rows(&rows).map_err(failed)?;
            sealed.records += rows.len() as u64;
            rows = rest;
        }
        if !more {
            break;
        }
    }
    if !rows.is_empty() {
        parquet.rows(&rows).map_err(failed)?;
        sealed.records += rows.len() as u64;
    }
    parquet.finish().map_err(failed)?;
    file.sync_all().map_err(|error| io(part, error))?;
    sealed.bytes = file.metadata().map_err(|error| io(part, error))?.len();
    Ok(())
}

/// Writes records as Parquet.
pub struct Writer<W: Write + Send> {
    parquet: SerializedFileWriter<W>,
    schema: TypePtr,
}

impl<W: Write + Send> Writer<W> {
    /// A file with the log's schema, compressed by zstd.
    pub fn new(to: W) -> Result<Writer<W>, ParquetError> {
        Writer::packed(to, Compression::ZSTD(ZstdLevel::default()))
    }

    /// The same, compressed otherwise, as other programs do it.
    pub(super) fn packed(to: W, packing: Compression) -> Result<Writer<W>, ParquetError> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let properties = WriterProperties::builder()
            .set_compression(packing)
            .set_created_by(format!("Bifrost {}", env!("CARGO_PKG_VERSION")))
            .build();
        let parquet = SerializedFileWriter::new(to, Arc::clone(&schema), Arc::new(properties))?;
        Ok(Writer { parquet, schema })
    }

    /// A row group of these records.
    pub fn rows(&mut self, records: &[Record]) -> Result<(), ParquetError> {
        let mut group = self.parquet.next_row_group()?;
        for (column, field) in COLUMNS.iter().zip(self.schema.get_fields()) {
            let Some(writer) = group.next_column()? else { break };
            let values = records.iter().map(column.get);
            write_column(writer, values, records.len(), field.is_optional())?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the end of the file.
    pub fn finish(self) -> Result<(), ParquetError> {
        self.parquet.close().map(drop)
    }
}

fn write_column<'v>(
    mut writer: SerializedColumnWriter,
    values: impl Iterator<Item = Value<'v>>,
    rows: usize,
    optional: bool,
) -> Result<(), ParquetError> {
    let mut levels = Vec::with_capacity(if optional { rows } else { 0 });
    let mut present = values.filter(|value| {
        if optional {
            levels.push(i16::from(*value != Value::Null));
        }
        *value != Value::Null
    });
    let number = |value: Value| if let Value::Number(number) = value { number } else { 0 };
    use parquet::column::writer::ColumnWriter::{
        ByteArrayColumnWriter, Int32ColumnWriter, Int64ColumnWriter,
    };
    match writer.untyped() {
        Int32ColumnWriter(_) => {
            // An unsigned number keeps its bits (Parquet, LogicalTypes.md).
            let numbers = present.by_ref().map(|value| number(value) as u32 as i32).collect::<Vec<_>>();
            drop(present);
            writer.typed::<Int32Type>().write_batch(&numbers, optional.then_some(&levels), None)?;
        }
        Int64ColumnWriter(_) => {
            let numbers = present.by_ref().map(number).collect::<Vec<_>>();
            drop(present);
            writer.typed::<Int64Type>().write_batch(&numbers, optional.then_some(&levels), None)?;
        }
        ByteArrayColumnWriter(_) => {
            let texts = present.by_ref().map(|value| match value {
                Value::Text(text) => ByteArray::from(text.into_owned().into_bytes()),
                _ => ByteArray::from(Vec::new()),
            });
            let texts = texts.collect::<Vec<_>>();
            drop(present);
            writer.typed::<ByteArrayType>().write_batch(&texts, optional.then_some(&levels), None)?;
        }
        _ => return Err(ParquetError::General("a column of a type that the schema has not".to_owned())),
    }
    writer.close()
}
