//! The sink of files: records into the journal, journals to the sealer.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::statvfs::statvfs;

use super::LOCK;
use super::journal::{BLOCK, Journal};
use super::listing::stem;
use super::sealer::Sealer;
use crate::clock::now;
use crate::private;
use crate::record::Record;
use crate::settings::Files;
use crate::sink::Sink;
use crate::tally::{Loss, Tally};

/// How long a record may wait for others to share its block.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is left free of the disk besides what sealing takes: for the block that is to be written,
/// and what Parquet has around its columns.
const SPARE: u64 = 1 << 20;

/// A journal is sealed before its time when it is as long as this part of what the disk has left,
/// but not while it is short.
const PART: u64 = 8;
const SHORT: u64 = SPARE / 4;

/// Why there are no files.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system says no.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which file or directory.
        path: PathBuf,
        /// What it says.
        error: io::Error,
    },
    /// Another router writes there.
    #[error("{}: another process writes its flow log there; give each its own directory", path.display())]
    Taken {
        /// The directory.
        path: PathBuf,
    },
}

/// Files being written.
#[derive(Debug)]
pub struct Store {
    /// Others may change it, but for the directory.
    plan: Arc<RwLock<Files>>,
    directory: PathBuf,
    tally: Arc<Tally>,
    sealer: Sealer,
    _lock: Flock<File>,
    journal: Option<Open>,
    pending: Vec<Record>,
    written: Instant,
    /// Bytes of the longest journal that may not be sealed yet.
    unsealed: u64,
}

#[derive(Debug)]
struct Open {
    journal: Journal,
    path: PathBuf,
    begun: Instant,
    synced: Instant,
    synced_length: u64,
}

impl Store {
    /// Takes the directory, making it if it is not there. Journals of an earlier run are sealed.
    /// `tally` counts what goes into journals, `sealed` what goes into Parquet files.
    pub fn open(plan: Files, tally: Arc<Tally>, sealed: Arc<Tally>) -> Result<Store, OpenError> {
        let directory = &plan.directory.clone();
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| OpenError::Io { path, error }
        };
        private::directory(directory).map_err(io(directory))?;
        let path = directory.join(LOCK);
        let lock = private::append(&path).map_err(io(&path))?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
            .map_err(|_| OpenError::Taken { path: directory.clone() })?;
        let mut left = Vec::new();
        for entry in fs::read_dir(directory).map_err(io(directory))? {
            let path = entry.map_err(io(directory))?.path();
            match path.extension().and_then(OsStr::to_str) {
                // A pipe of that name would have the sealer wait for ever; a link may lead to one.
                Some("journal") if path.symlink_metadata().is_ok_and(|found| found.is_file()) => {
                    left.push(path)
                }
                // Half sealed; its journal is still there.
                Some("part") => fs::remove_file(&path).map_err(io(&path))?,
                _ => {}
            }
        }
        left.sort();
        let length = |path: &PathBuf| path.metadata().map_or(0, |facts| facts.len());
        let unsealed = left.iter().map(length).max().unwrap_or(0);
        let plan = Arc::new(RwLock::new(plan));
        let sealer = Sealer::start(Arc::clone(&plan), left, sealed).map_err(io(directory))?;
        let (directory, written) = (directory.clone(), Instant::now());
        let (journal, pending) = (None, Vec::new());
        Ok(Store { plan, directory, tally, sealer, _lock: lock, journal, pending, written, unsealed })
    }

    /// By what it goes on; all but the directory may be changed at any time.
    pub fn plan(&self) -> Arc<RwLock<Files>> {
        Arc::clone(&self.plan)
    }

    fn write(&mut self) {
        self.written = Instant::now();
        let mut pending = std::mem::take(&mut self.pending);
        for block in pending.chunks(BLOCK) {
            match self.append(block) {
                Ok(bytes) => self.tally.sent(block.len(), bytes),
                Err(error) => {
                    self.tally.fault(format_args!("{}: {error}", self.directory.display()));
                    self.tally.lost(Loss::Disk, block.len());
                }
            }
        }
        pending.clear();
        self.pending = pending;
    }

    fn append(&mut self, block: &[Record]) -> io::Result<usize> {
        self.leave_room()?;
        let open = match &mut self.journal {
            Some(open) => open,
            None => self.journal.insert(begin(&self.directory)?),
        };
        open.journal.append(block)
    }

    /// A journal goes only when its Parquet file is there beside it, which is no longer than the
    /// journal was: on a disk that journals have filled nothing would ever be sealed.
    fn leave_room(&mut self) -> io::Result<()> {
        if self.sealer.is_idle() {
            self.unsealed = 0;
        }
        let open = self.journal.as_ref().map_or(0, |open| open.journal.length());
        match self.room() {
            Some(room) if room < self.unsealed.max(open) + SPARE => {
                Err(io::Error::new(ErrorKind::StorageFull, "No space left but what sealing journals takes"))
            }
            _ => Ok(()),
        }
    }

    /// Bytes that the disk has left. A file system that does not say how large it is says nothing
    /// of its room either.
    fn room(&self) -> Option<u64> {
        let disk = statvfs(&self.directory).ok().filter(|disk| disk.blocks() > 0)?;
        Some(disk.blocks_available().saturating_mul(disk.fragment_size()))
    }

    /// As a journal's length is kept free for its sealing, one that grew to half of a small disk
    /// would leave the other half empty.
    fn is_long_for_the_disk(&self, journal: u64) -> bool {
        journal >= SHORT && self.room().is_some_and(|room| journal >= room / PART)
    }

    fn sync(&mut self) {
        let Some(open) = &mut self.journal else { return };
        let every = current(&self.plan).sync;
        let due = !every.is_zero() && open.synced.elapsed() >= every;
        if due && open.synced_length != open.journal.length() {
            if let Err(error) = open.journal.sync() {
                self.tally.fault(format_args!("{}: {error}", open.path.display()));
            }
            open.synced_length = open.journal.length();
            open.synced = Instant::now();
        }
    }

    fn rotate(&mut self) {
        if let Some(open) = self.journal.take() {
            // What a failed write left behind is no block: readers stop there with or without it.
            self.unsealed = self.unsealed.max(open.journal.length());
            let _ = open.journal.close();
            self.sealer.give(open.path);
        }
    }
}

/// The settings of files as they are now.
pub(super) fn current(plan: &RwLock<Files>) -> RwLockReadGuard<'_, Files> {
    // Nobody panics with it.
    plan.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn begin(directory: &Path) -> io::Result<Open> {
    private::directory(directory)?;
    let path = directory.join(stem(now()) + ".journal");
    let journal = Journal::create(&path).inspect_err(|error| {
        // A disk that is full lets a file be made, but not written. One that was there is
        // another's.
        if error.kind() != ErrorKind::AlreadyExists {
            let _ = fs::remove_file(&path);
        }
    })?;
    let now = Instant::now();
    Ok(Open { journal, path, begun: now, synced: now, synced_length: 0 })
}

impl Sink for Store {
    fn take(&mut self, records: &[Record]) {
        self.pending.extend_from_slice(records);
        if self.pending.len() >= BLOCK {
            self.write();
        }
    }

    fn tick(&mut self) {
        if !self.pending.is_empty() && self.written.elapsed() >= PATIENCE {
            self.write();
        }
        self.sync();
        let due = self.journal.as_ref().is_some_and(|open| {
            let plan = current(&self.plan);
            let length = open.journal.length();
            open.begun.elapsed() >= plan.rotate || length >= plan.size || self.is_long_for_the_disk(length)
        });
        if due {
            self.rotate();
        }
    }

    fn close(&mut self) {
        self.write();
        self.rotate();
    }
}
