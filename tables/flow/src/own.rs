//! What a worker has for itself: a few free entries, and those that have ended and cannot be free
//! yet.

use crate::entry::REPLY_IN_ALIAS;
use crate::memory::prefetch;
use crate::pool::KEPT;
use crate::worker::BATCH;
use crate::{End, Table};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Ended flows that a worker may have waiting for the others. Then it ends no more.
const WAITING: usize = 65_536;
/// Room left for flows that are given up while they are made.
const SPARE: usize = 2 * BATCH;

/// One worker's entries.
pub(crate) struct Own {
    /// Its place among the workers.
    pub(crate) place: usize,
    pub(crate) free: Vec<u32>,
    /// Entries asked for since room was last made, whether there were any or not.
    pub(crate) asked: usize,
    /// Ended, oldest first. The last `open` of them may still have slots.
    pub(crate) ended: VecDeque<u32>,
    pub(crate) open: usize,
    /// The others.
    pub(crate) closed: VecDeque<Closed>,
    /// Entries asked for before room was last made.
    asked_before: u64,
    /// The same, and those of `asked`, when the first of the `open` ended.
    opened_at: u64,
    /// Entries that are asked for while one that has ended waits to be free: much, where another
    /// worker comes to run but seldom.
    need: u32,
}

/// Ended flows without slots.
pub(crate) struct Closed {
    /// They are free once this is reached.
    pub(crate) epoch: u64,
    pub(crate) count: usize,
    /// What had been asked for when the first of them ended.
    opened_at: u64,
}

impl Own {
    pub(crate) fn new(place: usize) -> Own {
        Own {
            place,
            free: Vec::with_capacity(2 * KEPT),
            asked: 0,
            ended: VecDeque::with_capacity(WAITING),
            open: 0,
            closed: VecDeque::with_capacity(8),
            asked_before: 0,
            opened_at: 0,
            need: 0,
        }
    }

    /// Entries asked for since room was last made.
    pub(crate) fn take_asked(&mut self) -> usize {
        let asked = std::mem::take(&mut self.asked);
        self.asked_before += asked as u64;
        asked
    }

    fn asked_ever(&self) -> u64 {
        self.asked_before + self.asked as u64
    }

    /// Closes what is open, from this epoch on.
    pub(crate) fn close(&mut self, epoch: u64) {
        self.closed.push_back(Closed { epoch, count: self.open, opened_at: self.opened_at });
        self.open = 0;
    }

    /// All of them are free: so long it took. Some more is asked for than was; what is not needed
    /// any more is forgotten slowly.
    pub(crate) fn learn_need(&mut self, table: &Table, closed: &Closed) {
        let asked = self.asked_ever() - closed.opened_at;
        let need = ((asked + asked / 4) as u32).max(self.need - self.need.div_ceil(8));
        self.set_need(table, need);
    }

    fn set_need(&mut self, table: &Table, need: u32) {
        table.sweeper.need.fetch_add(need.wrapping_sub(self.need), Relaxed);
        self.need = need;
    }

    /// A free entry.
    #[inline]
    pub(crate) fn allocate(&mut self, table: &Table) -> Option<u32> {
        self.asked += 1;
        if self.free.is_empty() {
            table.pool.take(table.memory.hot(), &mut self.free);
        }
        let entry = self.free.pop()?;
        if let Some(&next) = self.free.len().checked_sub(4).and_then(|index| self.free.get(index)) {
            prefetch(&table.memory.hot()[next as usize]);
            table.memory.cold()[next as usize].prefetch();
        }
        Some(entry)
    }

    /// Ends a flow. False if it had ended before, or if so many are waiting to be free that this
    /// has to wait as well.
    pub(crate) fn end(&mut self, table: &Table, entry: u32, why: End) -> bool {
        // Two, for an alias.
        if self.ended.len() + 2 + SPARE > WAITING || !table.memory.hot()[entry as usize].end(why) {
            return false;
        }
        let counts = table.counts(self.place);
        match why {
            End::Fin | End::Rst => counts.active.add(1),
            End::Evicted => counts.passive.add(1),
            End::Flushed => counts.flushed.add(1),
            End::Idle | End::Slice => counts.timed.add(1),
        }
        self.retire(table, entry);
        true
    }

    /// Takes an entry that is dead, and its alias, to be freed when nobody can see them any more.
    pub(crate) fn retire(&mut self, table: &Table, entry: u32) {
        if self.open == 0 {
            self.opened_at = self.asked_ever();
        }
        let hot = &table.memory.hot()[entry as usize];
        self.ended.push_back(entry);
        self.open += 1;
        if hot.meta.load(Relaxed) & REPLY_IN_ALIAS != 0 {
            // Behind its flow, so that what it holds of it is still there when the account is made.
            let alias = hot.route.load(Relaxed);
            table.memory.hot()[alias as usize].state.store(0, Release);
            self.ended.push_back(alias);
            self.open += 1;
        }
    }

    /// Takes over what workers that left had waiting: they may still have slots, and others may
    /// still see them.
    #[cold]
    pub(crate) fn adopt(&mut self, table: &Table) {
        let Ok(mut orphans) = table.orphans.try_lock() else { return };
        let count = orphans.len().min((WAITING - SPARE).saturating_sub(self.ended.len()));
        self.ended.extend(orphans.drain(..count));
        self.open += count;
        table.has_orphans.store(!orphans.is_empty(), Relaxed);
    }

    /// Gives everything back, when the worker leaves.
    pub(crate) fn leave(&mut self, table: &Table) {
        table.pool.give(table.memory.hot(), &mut self.free, true);
        if !self.ended.is_empty() {
            let counted: usize = self.closed.iter().map(|closed| closed.count).sum();
            table.sweeper.leaving.fetch_sub(counted as u32, Relaxed);
            let mut orphans = table.orphans.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            orphans.extend(self.ended.drain(..));
            table.has_orphans.store(true, Release);
        }
        self.set_need(table, 0);
        table.epochs.leave(self.place);
    }
}
