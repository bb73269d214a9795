//! The journal: blocks of records, each whole or not there.
//!
//! ```text
//! "BFLOWJ01"  then blocks:  length u32 | records u32 | CRC-32 of both and of the bytes u32 | bytes
//! ```
//!
//! Numbers are little-endian; the bytes are records in postcard's encoding (variable-length
//! numbers), compressed by zstd. A reader stops at the first block that is not whole, which is
//! where a crash, or a writer still at work, has left off.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::private;
use crate::record::Record;

const MAGIC: &[u8; 8] = b"BFLOWJ01";
/// Most records of a block.
pub const BLOCK: usize = 4096;
/// Most bytes of a block.
const LARGEST: usize = 4 << 20;
/// More than any record's encoding takes.
const ROW: usize = 512;
/// zstd's level: its fastest regular one.
const LEVEL: i32 = 1;

/// A journal being written.
#[derive(Debug)]
pub struct Journal<F = File> {
    file: F,
    /// Up to here it is whole: the next block goes here, over whatever a failed one has left.
    length: u64,
    plain: Vec<u8>,
    packed: Vec<u8>,
}

/// Where a journal is written: a file, or in tests one that fails.
pub trait Place {
    /// All of these bytes at this offset.
    fn put(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Forces it to the disk.
    fn sync(&self) -> io::Result<()>;
    /// Cuts it off here.
    fn cut(&self, length: u64) -> io::Result<()>;
}

impl Place for File {
    fn put(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

impl Journal<File> {
    /// A new one; the file must not be there.
    pub fn create(path: &Path) -> io::Result<Journal> {
        Journal::on(private::create_new(path)?)
    }
}

impl<F: Place> Journal<F> {
    /// A new one at this place.
    pub fn on(file: F) -> io::Result<Journal<F>> {
        file.put(MAGIC, 0)?;
        Ok(Journal { file, length: MAGIC.len() as u64, plain: Vec::new(), packed: Vec::new() })
    }

    /// Writes records (at most [`BLOCK`]) as one block; returns its bytes. After an error none of
    /// them is there, and the next call tries the same place.
    pub fn append(&mut self, records: &[Record]) -> io::Result<usize> {
        debug_assert!(records.len() <= BLOCK);
        self.plain.clear();
        for record in records {
            let plain = std::mem::take(&mut self.plain);
            self.plain = postcard::to_extend(record, plain).map_err(io::Error::other)?;
        }
        self.packed.clear();
        self.packed.resize(12 + zstd::zstd_safe::compress_bound(self.plain.len()), 0);
        let length = zstd::bulk::compress_to_buffer(&self.plain, &mut self.packed[12..], LEVEL)?;
        self.packed.truncate(12 + length);
        self.packed[..4].copy_from_slice(&(length as u32).to_le_bytes());
        self.packed[4..8].copy_from_slice(&(records.len() as u32).to_le_bytes());
        let sum = checksum(&self.packed[..8], &self.packed[12..]);
        self.packed[8..12].copy_from_slice(&sum.to_le_bytes());
        self.file.put(&self.packed, self.length)?;
        self.length += self.packed.len() as u64;
        Ok(self.packed.len())
    }

    /// Bytes so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Forces it to the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// Removes what a failed write has left behind the last block.
    pub fn close(self) -> io::Result<()> {
        self.file.cut(self.length)
    }
}

fn checksum(head: &[u8], bytes: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(head);
    sum.update(bytes);
    sum.finalize()
}

/// Why a journal cannot be read, or no further.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system says no.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It begins with something else.
    #[error("not a journal of this version of the flow log")]
    Foreign,
    /// It has no more whole blocks, but more bytes.
    #[error("no whole block at byte {at}: the writer was cut off there, is writing, or the file is damaged")]
    Torn {
        /// Where.
        at: u64,
    },
}

/// Reads a journal, block by block.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    at: u64,
    bytes: Vec<u8>,
}

impl Reader<BufReader<File>> {
    /// The journal at this path.
    pub fn open(path: &Path) -> Result<Reader<BufReader<File>>, JournalError> {
        Reader::new(BufReader::with_capacity(1 << 16, File::open(path)?))
    }
}

impl<R: Read> Reader<R> {
    /// A journal from its first byte. One that is shorter than its head has no records: its writer
    /// was cut off.
    pub fn new(mut from: R) -> Result<Reader<R>, JournalError> {
        let mut magic = [0; 8];
        let have = fill(&mut from, &mut magic)?;
        if magic[..have] != MAGIC[..have] {
            return Err(JournalError::Foreign);
        }
        Ok(Reader { from, at: have as u64, bytes: Vec::new() })
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Appends the next block's records to `out`; false: that was all. After an error nothing is
    /// appended.
    pub fn next(&mut self, out: &mut Vec<Record>) -> Result<bool, JournalError> {
        let torn = Err(JournalError::Torn { at: self.at });
        let mut head = [0; 12];
        match fill(&mut self.from, &mut head)? {
            0 => return Ok(false),
            12 => {}
            _ => return torn,
        }
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, records, sum) = (word(0) as usize, word(4) as usize, word(8));
        if length > LARGEST || records > BLOCK {
            return torn;
        }
        self.bytes.resize(length, 0);
        if fill(&mut self.from, &mut self.bytes)? < length || checksum(&head[..8], &self.bytes) != sum {
            return torn;
        }
        let Ok(plain) = zstd::bulk::decompress(&self.bytes, records * ROW) else { return torn };
        let before = out.len();
        let mut rest = plain.as_slice();
        for _ in 0..records {
            match postcard::take_from_bytes::<Record>(rest) {
                Ok((record, behind)) => {
                    out.push(record);
                    rest = behind;
                }
                Err(_) => {
                    out.truncate(before);
                    return torn;
                }
            }
        }
        self.at += 12 + length as u64;
        Ok(true)
    }
}

/// As many bytes as there are, up to all; how many that was.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while have < buffer.len() {
        match from.read(&mut buffer[have..]) {
            Ok(0) => break,
            Ok(more) => have += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}
