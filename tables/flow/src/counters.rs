//! What the table counts: the columns of rtstat.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Totals since the table was made. `show flows` and rtstat show them per interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Flows there are.
    pub size: u64,
    /// Keys looked up.
    pub lookups: u64,
    /// Of those, found.
    pub hits: u64,
    /// Flows that began.
    pub new: u64,
    /// Entries compared with a key: hardly more than hits, unless tags collide.
    pub searches: u64,
    /// Packets that claimed to belong to a flow and did not.
    pub invalid: u64,
    /// Flows that left because they were over (FIN, RST).
    pub active: u64,
    /// Flows that left because no packet came for too long.
    pub timed: u64,
    /// Flows that left to make room.
    pub passive: u64,
    /// Flows that left by order.
    pub flushed: u64,
    /// Times that room was sought and nothing found that may be ended.
    pub ignored: u64,
    /// New flows that found no room.
    pub overflow: u64,
}

/// One worker's, on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) lookups: Count,
    pub(crate) hits: Count,
    pub(crate) new: Count,
    pub(crate) searches: Count,
    pub(crate) invalid: Count,
    pub(crate) active: Count,
    pub(crate) timed: Count,
    pub(crate) passive: Count,
    pub(crate) flushed: Count,
    pub(crate) ignored: Count,
    pub(crate) overflow: Count,
}

/// Written by one worker, read by anybody.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline(always)]
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed) + count, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Counters {
    pub(crate) fn sum(workers: &[Counts]) -> Counters {
        let sum = |field: fn(&Counts) -> &Count| workers.iter().map(|counts| field(counts).get()).sum();
        let mut counters = Counters {
            size: 0,
            lookups: sum(|counts| &counts.lookups),
            hits: sum(|counts| &counts.hits),
            new: sum(|counts| &counts.new),
            searches: sum(|counts| &counts.searches),
            invalid: sum(|counts| &counts.invalid),
            active: sum(|counts| &counts.active),
            timed: sum(|counts| &counts.timed),
            passive: sum(|counts| &counts.passive),
            flushed: sum(|counts| &counts.flushed),
            ignored: sum(|counts| &counts.ignored),
            overflow: sum(|counts| &counts.overflow),
        };
        let ended = counters.active + counters.timed + counters.passive + counters.flushed;
        counters.size = counters.new.saturating_sub(ended);
        counters
    }
}
