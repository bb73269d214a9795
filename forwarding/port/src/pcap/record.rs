//! Frames into a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use wire::capture::pcapng::{Captured, Writer};
use wire::capture::{link, pcap};

use super::{PcapError, writing};
use crate::Packet;

/// Bytes that are gathered before they are written.
const BUFFER: usize = 1 << 20;

/// What kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pcap, with times in nanoseconds or microseconds.
    Pcap {
        /// Nanoseconds.
        nanoseconds: bool,
    },
    /// pcapng, with times in nanoseconds.
    Pcapng,
}

impl Format {
    /// By the file's name: pcapng if it ends so, else pcap with microseconds, which all programs
    /// read.
    pub fn of(file: &Path) -> Format {
        match file.extension().is_some_and(|end| end == "pcapng") {
            true => Format::Pcapng,
            false => Format::Pcap { nanoseconds: false },
        }
    }
}

/// A file being written.
pub struct Record {
    file: PathBuf,
    out: Out,
    snap: u32,
    error: Option<io::Error>,
    /// For packets in several segments.
    joined: Vec<u8>,
}

enum Out {
    Pcap(BufWriter<File>, bool),
    Pcapng(Writer<BufWriter<File>>),
}

impl Record {
    /// Begins a file, which is emptied if it is there; at most `snap` bytes of each frame are kept.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(file: &Path, format: Format, snap: u32) -> Result<Record, PcapError> {
        let out = Record::begin(file, format, snap).map_err(writing(file))?;
        Ok(Record { file: file.to_owned(), out, snap, error: None, joined: Vec::new() })
    }

    fn begin(file: &Path, format: Format, snap: u32) -> io::Result<Out> {
        let mut out = BufWriter::with_capacity(BUFFER, File::create(file)?);
        Ok(match format {
            Format::Pcap { nanoseconds } => {
                out.write_all(&pcap::header(nanoseconds, snap, link::ETHERNET))?;
                Out::Pcap(out, nanoseconds)
            }
            Format::Pcapng => {
                let mut out = Writer::new(out, snap)?;
                out.interface("", link::ETHERNET as u16)?;
                Out::Pcapng(out)
            }
        })
    }

    /// Writes packets, as of now; false when that failed, now or before.
    pub(super) fn write(&mut self, packets: &[Packet]) -> bool {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        for packet in packets {
            if self.error.is_none() {
                self.error = self.write_one(packet, time).err();
            }
        }
        self.error.is_none()
    }

    fn write_one(&mut self, packet: &Packet, time: u64) -> io::Result<()> {
        let whole = if packet.segment_count() == 1 {
            packet.data()
        } else {
            self.joined.clear();
            packet.segments().for_each(|segment| self.joined.extend_from_slice(segment));
            &self.joined
        };
        let bytes = &whole[..whole.len().min(self.snap as usize)];
        let length = whole.len() as u32;
        match &mut self.out {
            Out::Pcap(out, nanoseconds) => {
                out.write_all(&pcap::record(*nanoseconds, time as i64, bytes.len() as u32, length))?;
                out.write_all(bytes)
            }
            Out::Pcapng(out) => {
                let link = link::ETHERNET as u16;
                out.packet(&Captured {
                    interface: "",
                    link,
                    time,
                    bytes,
                    length,
                    outgoing: None,
                    comment: "",
                })
            }
        }
    }

    /// Writes out what is still in memory. Dropped, that is done as well, but nobody is told of
    /// errors.
    ///
    /// # Errors
    /// Also what went wrong before.
    pub fn flush(&mut self) -> Result<(), PcapError> {
        let error = match self.error.take() {
            Some(error) => Err(error),
            None => match &mut self.out {
                Out::Pcap(out, _) => out.flush(),
                Out::Pcapng(out) => out.flush(),
            },
        };
        error.map_err(|error| {
            // It stays broken, and the same is said again.
            self.error = Some(io::Error::new(error.kind(), error.to_string()));
            writing(&self.file)(error)
        })
    }
}
