//! The table as all share it.

use crate::begun::Begun;
use crate::counters::Counts;
use crate::driver::DriverMemory;
use crate::entry::Cold;
use crate::fragments::Fragments;
use crate::grace::{Epochs, WORKERS};
use crate::hash::Hash;
use crate::memory::{Memory, Sizes};
use crate::pool::Pool;
use crate::tcp::Side;
use crate::{Counters, Error, Phase, Settings, Timeouts, Worker};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::protocol;

/// Flows, shared by all workers. What can be done with them, [`Worker`]s do.
pub struct Table {
    pub(crate) memory: Memory,
    pub(crate) pool: Pool,
    pub(crate) hash: Hash,
    pub(crate) epochs: Epochs,
    pub(crate) fragments: Fragments,
    pub(crate) limits: Limits,
    pub(crate) sweeper: Sweeper,
    pub(crate) begun: Begun,
    counts: Box<[Counts]>,
    /// What workers that left had not freed yet.
    pub(crate) orphans: Mutex<Vec<u32>>,
    pub(crate) has_orphans: AtomicBool,
    /// Whether a new flow that finds no room is to be refused.
    needed: AtomicBool,
}

/// How far the timed and the pressed search have come.
#[derive(Default)]
pub(crate) struct Sweeper {
    /// Until when every entry has been looked at often enough, in ns.
    pub(crate) until: AtomicU64,
    /// Entries looked at so far.
    pub(crate) entry: AtomicU64,
    /// Buckets looked at under pressure.
    pub(crate) bucket: AtomicU64,
    /// Entries that have ended and are not free yet.
    pub(crate) leaving: AtomicU32,
    /// What the workers together ask for until those are free.
    pub(crate) need: AtomicU32,
}

impl Table {
    /// A table of this size, with nothing in it.
    pub fn new(settings: &Settings) -> Result<Arc<Table>, Error> {
        let memory = settings.sized(Memory::new)?;
        Table::of(settings, memory, Hash::new())
    }

    /// As [`new`](Self::new), in memory that the driver's program has as well, of
    /// [`Settings::sizes`].
    pub fn shared(settings: &Settings, driver: DriverMemory) -> Result<Arc<Table>, Error> {
        let (sizes, hash) = (settings.sizes()?, Hash::new());
        driver.open(&hash, sizes.buckets);
        Table::of(settings, Memory::shared(driver, sizes)?, hash)
    }

    fn of(settings: &Settings, memory: Memory, hash: Hash) -> Result<Arc<Table>, Error> {
        let limits = Limits::default();
        limits.set(&settings.timeouts, settings.pickup)?;
        Ok(Arc::new(Table {
            pool: Pool::new(memory.hot().len()),
            memory,
            hash,
            epochs: Epochs::new(),
            fragments: Fragments::new(settings.fragments),
            limits,
            sweeper: Sweeper::default(),
            begun: Begun::default(),
            counts: (0..WORKERS).map(|_| Counts::default()).collect(),
            orphans: Mutex::default(),
            has_orphans: AtomicBool::new(false),
            needed: AtomicBool::new(true),
        }))
    }

    /// Whether anything depends on flows being known; else they only save work. The table does
    /// nothing about it.
    pub fn is_needed(&self) -> bool {
        self.needed.load(Relaxed)
    }

    /// Sets [`is_needed`](Self::is_needed), which is true at first.
    pub fn set_needed(&self, needed: bool) {
        self.needed.store(needed, Relaxed);
    }

    /// Whether the driver's program has it as well.
    pub fn is_shared(&self) -> bool {
        self.memory.is_shared()
    }

    /// A worker of this table, one for each thread that uses it.
    pub fn worker(self: &Arc<Table>) -> Result<Worker, Error> {
        let place = self.epochs.join().ok_or(Error::TooManyWorkers(WORKERS))?;
        Ok(Worker::new(self.clone(), place))
    }

    /// Other timeouts, and whether to pick up connections in mid-stream, from now on. On an error
    /// nothing has changed.
    pub fn configure(&self, timeouts: &Timeouts, pickup: bool) -> Result<(), Error> {
        self.limits.set(timeouts, pickup)
    }

    /// Flows it can hold; of those that are translated otherwise than from IPv4 to IPv4, half as
    /// many.
    pub fn capacity(&self) -> usize {
        self.memory.hot().len() - 1
    }

    /// Bytes of memory it takes when full, all included but what each worker keeps (some 70 kB).
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
            + self.fragments.bytes()
            + Epochs::BYTES
            + Table::BEGUN
            + size_of_val(&*self.counts)
    }

    /// What it has counted.
    pub fn counters(&self) -> Counters {
        Counters::sum(&self.counts)
    }

    /// Counts a packet of a flow.
    #[inline(always)]
    pub(crate) fn count(&self, cold: &Cold, side: usize, bytes: u16) {
        if self.memory.is_shared() { cold.count_shared(side, bytes) } else { cold.count(side, bytes) }
    }

    /// Writes what a side's own segments changed of it.
    #[inline(always)]
    pub(crate) fn advance(&self, cold: &Cold, side: usize, value: &Side) {
        if self.memory.is_shared() { cold.advance_shared(side, value) } else { cold.set_side(side, value) }
    }

    pub(crate) fn counts(&self, place: usize) -> &Counts {
        &self.counts[place]
    }

    /// Free entries below which room is made: enough for what comes while ended flows are still
    /// waiting to be free.
    pub(crate) fn reserve(&self) -> u32 {
        let (entries, need) = (self.memory.hot().len() as u32, self.sweeper.need.load(Relaxed));
        (entries / 64).max(256).saturating_add(need).min(entries / 2)
    }
}

/// The settings that can change, in the table's own units.
#[derive(Default)]
pub(crate) struct Limits {
    /// Ticks (262 µs) by class of protocol and by phase.
    idle: [[AtomicU32; Phase::ALL.len()]; CLASSES.len()],
    pub(crate) fragment: AtomicU32,
    pub(crate) pressed: AtomicU32,
    /// ns; 0 for never.
    pub(crate) active: AtomicU64,
    pub(crate) pickup: AtomicBool,
}

/// A protocol of each class of timeouts.
const CLASSES: [u8; 4] = [protocol::TCP, protocol::UDP, protocol::ICMP, protocol::NO_NEXT];

impl Limits {
    fn set(&self, timeouts: &Timeouts, pickup: bool) -> Result<(), Error> {
        timeouts.check()?;
        let ticks = |timeout: Duration| (timeout.as_nanos() >> 18) as u32;
        for (row, protocol) in self.idle.iter().zip(CLASSES) {
            for (word, phase) in row.iter().zip(Phase::ALL) {
                word.store(ticks(timeouts.of(protocol, phase)), Relaxed);
            }
        }
        self.fragment.store(ticks(timeouts.fragment), Relaxed);
        self.pressed.store(ticks(timeouts.pressed), Relaxed);
        self.active.store(timeouts.active.map_or(0, |active| active.as_nanos() as u64), Relaxed);
        self.pickup.store(pickup, Relaxed);
        Ok(())
    }

    /// Ticks that a flow of this protocol and phase lives without a packet.
    pub(crate) fn idle(&self, protocol: u8, phase: Phase) -> u32 {
        let class = match protocol {
            protocol::TCP => 0,
            protocol::UDP | protocol::UDP_LITE => 1,
            protocol::ICMP | protocol::ICMP6 => 2,
            _ => 3,
        };
        self.idle[class][phase as usize - 1].load(Relaxed)
    }
}

impl Settings {
    /// Entries and buckets of a table of this size.
    pub fn sizes(&self) -> Result<Sizes, Error> {
        self.sized(Sizes::within)
    }

    /// Something for the bytes that are left for entries and buckets, and the keys of an entry.
    fn sized<T>(&self, make: impl FnOnce(usize, usize) -> Result<T, Error>) -> Result<T, Error> {
        let beside = Fragments::bytes_of(self.fragments)
            + Epochs::BYTES
            + Table::BEGUN
            + WORKERS * size_of::<Counts>();
        let keys = if self.translation { 2 } else { 1 };
        make(self.memory.saturating_sub(beside), keys).map_err(|error| match error {
            Error::TooSmall { least, .. } => Error::TooSmall { bytes: self.memory, least: beside + least },
            error => error,
        })
    }
}
