//! How flows leave: between batches, a little at a time.
//!
//! | | who goes | when |
//! |---|---|---|
//! | active | TCP that is over | a short grace after its end (`tcp_finished`), or at once when its tuple is used anew |
//! | timed | what has had no packet, or no answer to its SYN, for as long as its phase allows | when the sweep comes by |
//! | passive | half-open and unanswered flows; then those idle for `pressed` | while less than a 64th of the entries is free, and what is asked for until those that left are |
//!
//! The sweep looks at every entry once in [`PASS`], in order, so that the next line is there before
//! it is wanted. All workers share it: who comes first takes the next few entries. Under pressure,
//! buckets are looked at in order for slots that are marked as weak, ahead of the insertions that
//! need the room: those never search. What both sides want does not go for anything new, however
//! much of that comes, unless it has been idle: a flood of SYNs only ever evicts half-open flows.
//!
//! A flow that has ended is invisible at once. Then its slots are emptied, a grace period passes,
//! its account is given, and its entry is free. Each call does at most [`STEP`] of each, whatever
//! there is to do.

use crate::entry::clock;
use crate::hash::Spot;
use crate::index::{Place, buckets_of};
use crate::memory::prefetch;
use crate::own::Own;
use crate::pool::KEPT;
use crate::worker::Hit;
use crate::{Account, Direction, End, Phase, Table, Worker};
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

/// The sweep looks at every entry once in this time, in ns.
pub(crate) const PASS: u64 = 4_000_000_000;
/// Entries or buckets of each kind of work in one call.
const STEP: usize = 128;
/// Less is not worth beginning.
const LEAST: u64 = 32;
/// Buckets in which room is sought for one flow: some forty flows.
const LOOK_EACH: usize = 4;
/// How far ahead lines are asked for.
const AHEAD: usize = 8;

impl Worker {
    /// Between two batches: lets go of all hits, frees what has ended, and looks for what has to
    /// end. `account` is given each flow that has ended, once, when nothing more can be counted for
    /// it, and slices of those that go on. Returns whether there is more to do, for a worker that
    /// has nothing else to do.
    ///
    /// `now` in ns, of one clock for all workers; it may differ between them by less than a
    /// timeout.
    pub fn maintain(&mut self, now: u64, account: &mut impl FnMut(&Account)) -> bool {
        let (table, own) = (&*self.table, &mut self.own);
        own.unlink(table);
        own.quiesce(table);
        let freed = own.reclaim(table, now, account);
        let swept = own.sweep(table, now, account);
        own.press(table, now);
        if own.free.len() > KEPT {
            table.pool.give(table.memory.hot(), &mut own.free, false);
        }
        freed || swept
    }

    /// Shows the flows in the next `count` entries, from this one on, the first time from 0;
    /// returns where to go on, or `None` at the end. Each account is right in itself; flows that
    /// come and go meanwhile may be shown or not. As with lookups, [`maintain`](Worker::maintain)
    /// or [`offline`](Worker::offline) must follow before long.
    pub fn flows(
        &self,
        from: u32,
        count: u32,
        now: u64,
        show: &mut impl FnMut(&Hit, &Account),
    ) -> Option<u32> {
        let used = self.table.pool.used();
        let to = from.saturating_add(count).min(used);
        for entry in from.max(1)..to {
            if self.table.memory.hot()[entry as usize].state().phase().is_some() {
                show(&self.hit_of(entry), &self.table.account(entry, now, End::Slice));
            }
        }
        (to < used).then_some(to)
    }

    pub(crate) fn hit_of(&self, entry: u32) -> Hit {
        Hit {
            entry,
            place: Place::default(),
            direction: Direction::Original,
            translated: self.table.reply_of(entry)
                != self.table.memory.hot()[entry as usize].key().tuple().reversed(),
        }
    }
}

impl Own {
    /// Empties the slots of what has ended since the last call.
    fn unlink(&mut self, table: &Table) {
        if table.has_orphans.load(Relaxed) {
            self.adopt(table);
        }
        let (hot, buckets) = (table.memory.hot(), table.memory.buckets());
        let remove = |spot: Spot, entry: u32| {
            let numbers = buckets_of(spot, buckets.len());
            numbers.iter().any(|number| buckets[*number as usize].remove(spot, entry));
        };
        let mut at = self.ended.len() - self.open;
        while at < self.ended.len() {
            let step = AHEAD.min(self.ended.len() - at);
            let mut spots = [Spot::default(); AHEAD];
            for (index, spot) in spots[..step].iter_mut().enumerate() {
                *spot = table.hash.spot(&hot[self.ended[at + index] as usize].key());
                let numbers = buckets_of(*spot, buckets.len());
                numbers.iter().for_each(|number| prefetch(&buckets[*number as usize]));
            }
            for (index, spot) in spots[..step].iter().enumerate() {
                let entry = self.ended[at + index];
                remove(*spot, entry);
                if let Some(reply) = hot[entry as usize].reply_here() {
                    remove(table.hash.spot(&reply), entry);
                }
            }
            at += step;
        }
    }

    /// Lets go of everything, and closes what was unlinked.
    fn quiesce(&mut self, table: &Table) {
        if self.open > 0 && self.closed.len() < 4 {
            table.sweeper.leaving.fetch_add(self.open as u32, Relaxed);
            self.close(table.epochs.advance());
        }
        table.epochs.quiescent(self.place);
    }

    /// Frees what nobody can see any more.
    fn reclaim(&mut self, table: &Table, now: u64, account: &mut impl FnMut(&Account)) -> bool {
        let Some(first) = self.closed.front() else { return false };
        let reached = table.epochs.reached();
        if first.epoch > reached {
            return false;
        }
        let mut freed = 0;
        while let Some(closed) = self.closed.front_mut() {
            if closed.epoch > reached || freed == STEP {
                break;
            }
            let step = closed.count.min(STEP - freed);
            closed.count -= step;
            freed += step;
            if closed.count == 0
                && let Some(closed) = self.closed.pop_front()
            {
                self.learn_need(table, &closed);
            }
        }
        let memory = &table.memory;
        for _ in 0..freed {
            if let Some(&next) = self.ended.get(AHEAD) {
                prefetch(&memory.hot()[next as usize]);
                memory.cold()[next as usize].prefetch();
            }
            let Some(entry) = self.ended.pop_front() else { break };
            if let Some(end) = memory.hot()[entry as usize].state().ended() {
                account(&table.account(entry, now, end));
            }
            memory.hot()[entry as usize].state.store(0, Release);
            self.free.push(entry);
        }
        table.sweeper.leaving.fetch_sub(freed as u32, Relaxed);
        freed == STEP
    }

    /// The next few entries of the sweep.
    fn sweep(&mut self, table: &Table, now: u64, account: &mut impl FnMut(&Account)) -> bool {
        let sweeper = &table.sweeper;
        let used = u64::from(table.pool.used());
        let mut until = sweeper.until.load(Relaxed);
        if now.saturating_sub(until) > PASS {
            // The first call, or nobody has come by for long, or there is so little that it is done
            // once in a pass. If the exchange fails, another worker has seen to it.
            if sweeper.until.compare_exchange(until, now - PASS, AcqRel, Relaxed).is_err() {
                return true;
            }
            until = now - PASS;
        }
        let due = now.saturating_sub(until).saturating_mul(used) / PASS;
        if due < LEAST.min(used) {
            return false;
        }
        let step = due.min(STEP as u64);
        let reached = until + (step * PASS).div_ceil(used);
        if sweeper.until.compare_exchange(until, reached, AcqRel, Relaxed).is_err() {
            return true;
        }
        let from = sweeper.entry.fetch_add(step, Relaxed);
        let active = table.limits.active.load(Relaxed);
        for at in from..from + step {
            self.visit(table, (at % used) as u32, now, active, account);
        }
        due > step
    }

    /// Looks at one entry: has it been idle for too long, has it lived for another active timeout?
    fn visit(
        &mut self,
        table: &Table,
        entry: u32,
        now: u64,
        active: u64,
        account: &mut impl FnMut(&Account),
    ) {
        let (hot, cold) = (&table.memory.hot()[entry as usize], &table.memory.cold()[entry as usize]);
        let Some(phase) = hot.state().phase() else { return };
        let start = hot.start.load(Relaxed);
        let (began, sliced) = (start >> 16, start & 0xffff);
        let since = match phase {
            // SYNs that nobody answers do not keep a flow, and its translation, for as long as they
            // come.
            Phase::Opening => clock::tick(clock::start(now, began)),
            _ => cold.last.load(Relaxed),
        };
        if clock::idle(clock::tick(now), since) > table.limits.idle(hot.meta.load(Relaxed) as u8, phase) {
            self.end(
                table,
                entry,
                match phase {
                    Phase::Finished => End::Fin,
                    Phase::Reset => End::Rst,
                    _ => End::Idle,
                },
            );
            return;
        }
        if active == 0 {
            return;
        }
        let since = match sliced {
            0 => now.saturating_sub(clock::start(now, began)),
            _ => clock::since_slice(now, sliced),
        };
        if since >= active {
            hot.start.store(began << 16 | clock::to_sliced(now), Relaxed);
            account(&table.account(entry, now, End::Slice));
        }
    }

    /// Makes room before it is needed.
    fn press(&mut self, table: &Table, now: u64) {
        // Twice what was asked for, so that the reserve fills again; and nothing where nobody asks.
        let asked = 2 * self.take_asked();
        if asked == 0 {
            return;
        }
        let leaving = table.sweeper.leaving.load(Relaxed) + self.open as u32;
        let missing = table.reserve().saturating_sub(table.pool.available().saturating_add(leaving));
        let wanted = (missing as usize).min(asked).min(STEP);
        if wanted == 0 {
            return;
        }
        let look = wanted * LOOK_EACH;
        let (hot, buckets) = (table.memory.hot(), table.memory.buckets());
        let mut found = [(0u32, 0usize, 0u32); STEP];
        let (mut count, mut looked) = (0, 0);
        let from = table.sweeper.bucket.load(Relaxed);
        while looked < look && count < wanted {
            let number = ((from + looked as u64) % buckets.len() as u64) as usize;
            prefetch(&buckets[(number + AHEAD) % buckets.len()]);
            for (slot, entry, weak) in buckets[number].occupied() {
                if weak && count < wanted {
                    prefetch(&hot[entry as usize]);
                    found[count] = (number as u32, slot, entry);
                    count += 1;
                }
            }
            looked += 1;
        }
        // Should another worker look at the same ones, each is ended once.
        table.sweeper.bucket.store(from + looked as u64, Relaxed);
        let mut evicted = 0;
        for &(bucket, slot, entry) in &found[..count] {
            let word = hot[entry as usize].state();
            if word.phase().is_some_and(Phase::is_strong) {
                buckets[bucket as usize].hint(slot, entry, false);
            } else if word.phase().is_some() && self.end(table, entry, End::Evicted) {
                evicted += 1;
            }
        }
        if evicted == 0 {
            self.press_idle(table, from, wanted, now);
        }
    }

    /// No weak flow is left: so many of those that have been idle for long enough.
    #[cold]
    fn press_idle(&mut self, table: &Table, from: u64, wanted: usize, now: u64) {
        let (hot, cold, buckets) = (table.memory.hot(), table.memory.cold(), table.memory.buckets());
        let pressed = table.limits.pressed.load(Relaxed);
        let mut evicted = 0;
        for number in from..from + AHEAD as u64 {
            let bucket = &buckets[(number % buckets.len() as u64) as usize];
            for (_, entry, _) in bucket.occupied() {
                prefetch(&hot[entry as usize]);
                prefetch(&cold[entry as usize].last);
            }
            for (_, entry, _) in bucket.occupied() {
                let idle = clock::idle(clock::tick(now), cold[entry as usize].last.load(Relaxed));
                let may_go =
                    evicted < wanted && idle > pressed && hot[entry as usize].state().phase().is_some();
                evicted += usize::from(may_go && self.end(table, entry, End::Evicted));
            }
        }
        if evicted == 0 {
            table.counts(self.place).ignored.add(1);
        }
    }
}
