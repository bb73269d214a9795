//! A port of files: frames of a capture come in, and what goes out is written to another.
//!
//! | file | what it is |
//! |---|---|
//! | `replay` | a capture in memory, given out by its own times or as fast as it is taken |
//! | `record` | frames into a file, pcap or pcapng |
//!
//! The formats are [`wire::capture`]'s. The whole file is read when the port is opened, so that
//! replaying makes no system call; what is larger than memory is Click's FromDump's business.
//! Recording writes to the file system from the thread that sends: a port for laboratories, not for
//! a router on duty.

mod record;
mod replay;

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use fib::PortId;
use wire::capture::CaptureError;

use crate::{Packet, Queue, QueueCounters};

pub use record::{Format, Record};
pub use replay::{Replay, Timing};

/// Why there is no such port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PcapError {
    /// It cannot be read, or is no capture.
    #[error("{}: {source}", .file.display())]
    Read {
        /// Which file.
        file: PathBuf,
        /// Why.
        source: CaptureError,
    },
    /// What is in it are no Ethernet frames.
    #[error("{}: packets of link type {link}, and only Ethernet frames can be sent", .file.display())]
    Link {
        /// Which file.
        file: PathBuf,
        /// The packets' link type.
        link: u32,
    },
    /// There is nothing in it.
    #[error("{}: no frames", .file.display())]
    Empty {
        /// Which file.
        file: PathBuf,
    },
    /// Time is to go by a factor that is none.
    #[error("times a factor of {0}: it must be a number above 0")]
    Factor(f64),
    /// It cannot be written.
    #[error("{}: {source}", .file.display())]
    Write {
        /// Which file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A port that receives from a file, and sends into a file; either may be missing.
pub struct PcapQueue {
    port: PortId,
    replay: Option<Replay>,
    record: Option<Record>,
    counters: QueueCounters,
}

impl PcapQueue {
    /// Without a replay nothing is received; without a record what is sent is gone.
    pub fn new(port: PortId, replay: Option<Replay>, record: Option<Record>) -> PcapQueue {
        PcapQueue { port, replay, record, counters: QueueCounters::default() }
    }

    /// Whether all has been given out.
    pub fn is_over(&self) -> bool {
        self.replay.as_ref().is_none_or(Replay::is_over)
    }
}

impl Queue for PcapQueue {
    fn port(&self) -> PortId {
        self.port
    }

    fn receive(&mut self, into: &mut Vec<Packet>, quota: usize) -> usize {
        let before = into.len();
        if let Some(replay) = &mut self.replay {
            replay.give(into, quota);
        }
        for packet in &mut into[before..] {
            packet.input = self.port.interface();
            self.counters.rx_bytes += packet.total_len() as u64;
        }
        let received = into.len() - before;
        self.counters.rx_packets += received as u64;
        received
    }

    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        let count = packets.len();
        let bytes = packets.iter().map(|packet| packet.total_len() as u64).sum::<u64>();
        let written = self.record.as_mut().is_none_or(|record| record.write(packets));
        match written {
            true => {
                (self.counters.tx_packets, self.counters.tx_bytes) =
                    (self.counters.tx_packets + count as u64, self.counters.tx_bytes + bytes)
            }
            false => self.counters.tx_invalid += count as u64,
        }
        packets.clear();
        count
    }

    fn kick(&mut self) {}

    /// After an error nothing more is written, and packets count as `tx_invalid`.
    fn flush(&mut self) -> io::Result<()> {
        self.record.as_mut().map_or(Ok(()), Record::flush).map_err(io::Error::other)
    }

    /// Readable when the next frame is due.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.replay.as_ref()?.alarm()
    }

    fn counters(&self) -> QueueCounters {
        self.counters
    }
}

fn writing(file: &Path) -> impl FnOnce(std::io::Error) -> PcapError {
    let file = file.to_owned();
    |source| PcapError::Write { file, source }
}
