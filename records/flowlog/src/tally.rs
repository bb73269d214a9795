//! What went through each part of the log, and what did not: nothing is lost without a number and a
//! reason.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

/// Why records did not get where they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// The queue in front was full: the collector or the disk is slower than flows end.
    Queue,
    /// The collector refused, or the network did.
    Send,
    /// A connection broke, or stood still for too long, with records under way.
    Connection,
    /// The file could not be written.
    Disk,
}

impl Loss {
    /// Every loss.
    pub const ALL: [Loss; 4] = [Loss::Queue, Loss::Send, Loss::Connection, Loss::Disk];

    /// In one word, as JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Loss::Queue => "queue",
            Loss::Send => "send",
            Loss::Connection => "connection",
            Loss::Disk => "disk",
        }
    }

    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Loss::Queue => "queue full",
            Loss::Send => "could not be sent",
            Loss::Connection => "connection lost",
            Loss::Disk => "could not be written",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Counters of one way out, written by its thread and read by anybody.
#[derive(Debug)]
pub struct Tally {
    name: String,
    given: AtomicU64,
    records: AtomicU64,
    units: AtomicU64,
    bytes: AtomicU64,
    lost: [AtomicU64; Loss::ALL.len()],
    faults: AtomicU64,
    last_fault: Mutex<Option<String>>,
}

/// What a [`Tally`] says at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Which way out: `ipfix udp 192.0.2.9:4739`, `files /var/lib/bifrost/flows`.
    pub name: String,
    /// Records it was given.
    pub given: u64,
    /// Records that left by it.
    pub records: u64,
    /// Datagrams, messages or blocks that they left in.
    pub units: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Records lost, by reason; reasons that never happened are left out.
    pub lost: BTreeMap<Loss, u64>,
    /// How often something went wrong, with or without loss.
    pub faults: u64,
    /// The latest of these.
    pub last_fault: Option<String>,
}

impl Count {
    /// Records lost, for whatever reason.
    pub fn lost(&self) -> u64 {
        self.lost.values().sum()
    }
}

impl Tally {
    /// All at zero.
    pub fn new(name: impl Into<String>) -> Tally {
        Tally {
            name: name.into(),
            given: AtomicU64::new(0),
            records: AtomicU64::new(0),
            units: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            lost: Default::default(),
            faults: AtomicU64::new(0),
            last_fault: Mutex::new(None),
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// So many records were handed over.
    pub fn given(&self, records: usize) {
        self.given.fetch_add(records as u64, Relaxed);
    }

    /// So many records left in one datagram, message or block of so many bytes.
    pub fn sent(&self, records: usize, bytes: usize) {
        self.records.fetch_add(records as u64, Relaxed);
        self.units.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// So many records are lost.
    pub fn lost(&self, loss: Loss, records: usize) {
        self.lost[loss as usize].fetch_add(records as u64, Relaxed);
    }

    /// Something went wrong.
    pub fn fault(&self, what: impl fmt::Display) {
        self.faults.fetch_add(1, Relaxed);
        // A reader that panicked while it held the text left it whole.
        *self.last_fault.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(what.to_string());
    }

    /// As it stands.
    pub fn count(&self) -> Count {
        let lost = Loss::ALL.iter().map(|loss| (*loss, self.lost[*loss as usize].load(Relaxed)));
        Count {
            name: self.name.clone(),
            given: self.given.load(Relaxed),
            records: self.records.load(Relaxed),
            units: self.units.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            lost: lost.filter(|(_, records)| *records > 0).collect(),
            faults: self.faults.load(Relaxed),
            last_fault: self.last_fault.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone(),
        }
    }
}
