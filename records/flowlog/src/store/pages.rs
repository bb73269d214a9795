//! The pages of a column, as far as their claims are believed.
//!
//! A Parquet file says in a few bytes how much memory it wants: a page of a kilobyte may unpack to
//! two gigabytes, and a dictionary may claim as many values. The decoder below believes both, for
//! every column at once. So each page's header is read here before the decoder sees it, and a claim
//! beyond what writers make is refused: their pages have a megabyte, as a rule.

use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

/// Bytes of a page, packed or not.
pub(super) const PAGE: i32 = 8 << 20;
/// Values of a dictionary: each is tens of bytes in memory.
const DICTIONARY: usize = 1 << 18;

/// Opens a column of a row group.
pub(super) fn column(file: &Arc<Measured>, group: &RowGroupMetaData, place: usize) -> Result<ColumnReader> {
    let rows = usize::try_from(group.num_rows())?;
    let pages = SerializedPageReader::new(file.clone(), group.column(place), rows, None)?;
    Ok(get_column_reader(group.schema_descr().column(place), Box::new(Pages(pages))))
}

/// A file of which every read begins with the header of a page.
#[derive(Debug)]
pub(super) struct Measured(pub File);

impl Length for Measured {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for Measured {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let mut bytes = [0; 3 * FIELD];
        let length = self.0.read_at(&mut bytes, start)?;
        measure(&bytes[..length])?;
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.0.get_bytes(start, length)
    }
}

/// Bytes that one of the first fields takes at most.
const FIELD: usize = 6;

/// Judges a page by its header (parquet.thrift, PageHeader, in Thrift's compact protocol): it
/// begins with its type, its bytes unpacked, and its bytes as they are.
fn measure(mut header: &[u8]) -> Result<()> {
    for what in ["type", "unpacked bytes", "bytes"] {
        let (number, rest) = field(header).ok_or_else(|| wrong("its page header is damaged".to_owned()))?;
        if what != "type" && number > PAGE {
            return Err(wrong(format!("a page of {number} {what}, where {PAGE} are read at most")));
        }
        header = rest;
    }
    Ok(())
}

/// The next field, if it is a number of 32 bits; and what is behind it.
fn field(bytes: &[u8]) -> Option<(i32, &[u8])> {
    // The field behind the one before, of 32 bits.
    let mut rest = bytes.strip_prefix(&[0x15])?;
    let mut number = 0u64;
    for shift in (0..35).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        rest = behind;
        if byte & 0x80 == 0 {
            let number = u32::try_from(number).ok()?;
            return Some(((number >> 1) as i32 ^ -((number & 1) as i32), rest));
        }
    }
    None
}

fn wrong(what: String) -> ParquetError {
    ParquetError::General(what)
}

/// Pages whose content keeps to what is there.
struct Pages(SerializedPageReader<Measured>);

/// Judges a page by what it claims of its values.
fn judge(page: &Page) -> Result<()> {
    match page {
        // A number has four bytes at least, and so has a text's length.
        Page::DictionaryPage { buf, num_values, .. }
            if *num_values as usize > DICTIONARY.min(buf.len() / 4) =>
        {
            Err(wrong(format!("a dictionary of {num_values} values in {} bytes", buf.len())))
        }
        // How many lengths follow is said inside, and room is made for as many. Nobody's default.
        _ if matches!(page.encoding(), Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BYTE_ARRAY) => {
            Err(wrong(format!("text encoded as {}, which is not read here", page.encoding())))
        }
        _ => Ok(()),
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.0.get_next_page()?;
        page.iter().try_for_each(judge)?;
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.0.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0.skip_next_page()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_claims_judged() {
        let header = |unpacked: i32, packed: i32| {
            let mut bytes = Vec::new();
            for number in [0, unpacked, packed] {
                let mut rest = (number << 1 ^ number >> 31) as u32;
                bytes.push(0x15);
                while rest > 0x7f {
                    bytes.push(rest as u8 | 0x80);
                    rest >>= 7;
                }
                bytes.push(rest as u8);
            }
            bytes
        };
        assert_eq!(field(&header(-7, 300)[2..]), Some((-7, &header(0, 300)[4..])));
        assert!(measure(&header(PAGE, 9)).is_ok() && measure(&header(1, PAGE)).is_ok());
        for (unpacked, packed) in [(PAGE + 1, 9), (i32::MAX, 9), (9, PAGE + 1)] {
            let error = measure(&header(unpacked, packed)).unwrap_err().to_string();
            assert!(error.contains("a page of "), "{error}");
        }
        for length in 0..header(1000, 1000).len() {
            assert!(measure(&header(1000, 1000)[..length]).is_err());
        }
    }

    #[test]
    fn a_dictionary_has_room_for_its_values() {
        let dictionary = |bytes: usize, num_values: u32| Page::DictionaryPage {
            buf: vec![0; bytes].into(),
            num_values,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        assert!(judge(&dictionary(400, 100)).is_ok());
        assert!(judge(&dictionary(400, 101)).is_err());
        assert!(judge(&dictionary(8 << 20, (1 << 18) + 1)).is_err());
    }
}
