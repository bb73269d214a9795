//! What is told to the other router.
//!
//! News are marks in a queue, not messages: what a flow is, is looked up when there is room to say
//! it. So a flow that changes three times while the way is slow is told once. What waits is not
//! more than the book has flows, but for what has begun since the audit looked last.

use flow::Phase;

use crate::book::{Known, slice_of};
use crate::link::PARCEL;
use crate::message::Message;
use crate::shared::Flow;
use crate::sharer::{Compared, Sharing, Transfer};
use crate::table::{Here, Local};

/// Bytes of a message at most.
const MESSAGE: usize = 160;
/// After this time a flow that has begun is looked at again: it may have been answered.
pub(crate) const AGAIN: u64 = 200_000_000;
/// How often a sum is told: each slice's every ten seconds.
const SUM_EVERY: u64 = 40_000_000;
/// Nanoseconds a byte, at most, of what is told as a whole: 20 MB/s.
const PACE: u64 = 50;
/// How long a pass over the table takes, at least.
const PASS: u64 = 2_000_000_000;
/// Entries looked at in one step at least, and at first.
const ENTRIES: u64 = 512;
const FIRST: u32 = 65_536;
/// Slices of the book looked at in one step.
const SLICES: usize = 8;
/// A flow's time is told anew when a quarter of its patience has passed.
const QUARTERS: u64 = 4;

/// Whether a flow is worth telling of: one that is translated, or that was answered. One that is
/// over ends soon.
fn matters(flow: &Flow) -> bool {
    match flow.phase {
        Phase::Finished | Phase::Reset => false,
        Phase::Opening | Phase::Unreplied => flow.is_translated(),
        _ => true,
    }
}

/// Seconds of the clock at the last packet of a flow.
fn last(flow: &Flow, now: u64) -> u32 {
    (now.saturating_sub(flow.idle.saturating_mul(1_000_000)) / 1_000_000_000) as u32
}

impl Sharing {
    /// A flow has news, if it is known.
    pub(crate) fn is_news(&mut self, mark: u64, now: u64) {
        let up = self.up;
        if let Some(known) = self.book.get(mark).filter(|known| !known.waits) {
            known.waits = up;
            if up {
                self.waiting.push_back((mark, now));
            }
        }
    }

    /// A step: what has begun, what is to be looked at again, and a part of the audit.
    pub(crate) fn look(&mut self, now: u64, here: &mut Here) {
        for entry in here.begun() {
            self.look_at(entry, now, here, true);
        }
        while self.young.front().is_some_and(|(at, _)| *at <= now) {
            let young = self.young.pop_front();
            young.iter().for_each(|(_, entry)| self.look_at(*entry, now, here, false));
        }
        self.try_again(now, here);
        self.settle(now, here);
        self.audit(now, here);
    }

    /// Interfaces that have come, or have other names: before any flow is told of.
    fn name(&mut self, here: &Here) {
        if self.up && self.named != here.names() {
            let differ = |at: &u16| self.named.get(usize::from(*at)) != here.names().get(usize::from(*at));
            self.names = (0..here.names().len() as u16).filter(differ).collect();
            self.named = here.names().to_vec();
        }
    }

    fn look_at(&mut self, entry: u32, now: u64, here: &mut Here, first: bool) {
        let Some(local) = here.at(entry, now) else { return };
        let settled = matches!(local.flow.phase, Phase::Open | Phase::Stream);
        self.meet(local, now, here);
        if first && !settled {
            self.young.push_back((now + AGAIN, entry));
        }
    }

    /// A flow that lives here: is there anything to tell of it?
    pub(crate) fn meet(&mut self, local: Local, now: u64, here: &Here) {
        let Local { entry, flow, packets } = local;
        let (mark, audit, up) = (self.marks.mark(&flow.original), self.audit, self.up);
        let Some(known) = self.book.get(mark) else {
            if matters(&flow) {
                // What was there before this router looked may be another's as well.
                self.book.add(mark, Known::new(entry, packets, audit.knows, audit.pass));
                if up && audit.knows {
                    self.is_news(mark, now);
                }
            }
            return;
        };
        known.pass = audit.pass;
        if known.entry != entry {
            // Another flow between the same ends.
            (known.entry, known.carried, known.contests) = (entry, true, 0);
        }
        known.carried |= known.packets != packets;
        let known = *known;
        if !known.is_own() {
            if self.marks.content(mark, &flow, known.phase) != known.theirs() {
                // It is not what was told. Its sum will not be, either.
                self.book.set_theirs(mark, 0);
            } else if known.mine() != 0 {
                self.is_news(mark, now);
            }
        } else if up
            && matters(&flow)
            && (self.is_other(mark, &flow, &known) || is_due(&known, &flow, now, here))
        {
            self.is_news(mark, now);
        }
    }

    fn is_other(&self, mark: u64, flow: &Flow, known: &Known) -> bool {
        self.marks.content(mark, flow, flow.phase) != known.mine()
    }

    /// Holds the next part of the table against the book, or of the book against the table.
    fn audit(&mut self, now: u64, here: &mut Here) {
        let Some(from) = self.audit.entry else { return self.sweep(now) };
        let used = here.table().capacity() as u64;
        let count = match self.audit.knows {
            // Of a large table a pass takes six seconds and a half.
            true => (used / 256).max(ENTRIES) as u32,
            false => FIRST,
        };
        let next = here.look(from, count, now, &mut |here, local| self.meet(local, now, here));
        self.audit.entry = next;
        if next.is_none() {
            (self.audit.knows, self.audit.slice) = (true, 0);
        }
    }

    /// What the last pass has not met is not in the table any more.
    fn sweep(&mut self, now: u64) {
        let (from, pass) = (self.audit.slice, self.audit.pass);
        if from < crate::book::SLICES {
            for slice in from..from + SLICES {
                for mark in self.book.marks(slice as u8, |known| known.pass != pass) {
                    let told = self.book.get(mark).is_some_and(|known| known.mine() != 0);
                    if told && self.up { self.is_news(mark, now) } else { self.book.remove(mark) }
                }
            }
            self.audit.slice += SLICES;
            let Sharing { waiting, book, .. } = self;
            if self.audit.slice == crate::book::SLICES && waiting.len() > book.len() {
                // While nothing can be told, flows come and go that the peer never has to hear of.
                waiting.retain(|(mark, _)| book.get(*mark).is_some_and(|known| known.waits));
            }
        } else if now.saturating_sub(self.audit.since) >= PASS {
            (self.audit.entry, self.audit.since, self.audit.pass) = (Some(0), now, pass.wrapping_add(1));
        }
    }

    pub(crate) fn has_transfers(&self) -> bool {
        self.up && self.audit.knows && (self.transfer.is_some() || !self.transfers.is_empty())
    }

    /// Makes a parcel of what there is to say.
    pub(crate) fn fill(&mut self, parcel: &mut Vec<u8>, now: u64, here: &mut Here) {
        self.name(here);
        while parcel.len() + MESSAGE <= PARCEL {
            if let Some(number) = self.names.pop_front() {
                if let Some(name) = here.names().get(usize::from(number)) {
                    Message::Name { number, name: name.clone() }.put(parcel);
                }
            } else if let Some(slice) = self.asks.pop_front() {
                Message::Ask { slice }.put(parcel);
            } else if let Some((mark, _)) = self.waiting.pop_front() {
                self.tell(mark, parcel, now, here, false);
            } else if self.has_transfers() && self.paced <= now + 1_000_000 {
                let before = parcel.len();
                self.transfer(parcel, now, here);
                let bytes = (parcel.len() - before) as u64;
                // What was not used up is not saved for later.
                self.paced = self.paced.max(now.saturating_sub(1_000_000)) + PACE * bytes;
            } else if now >= self.sum_at {
                self.sum_at = now + SUM_EVERY;
                self.sum = self.sum.wrapping_add(1);
                let (slice, busy) = (self.sum, self.transfer.as_ref().map(|transfer| transfer.slice));
                let Compared { told, .. } = self.slices[usize::from(slice)];
                if told && busy != Some(slice) {
                    Message::Sum { slice, whole: false, sum: self.book.slice(slice).mine }.put(parcel);
                }
            } else {
                return;
            }
        }
    }

    /// The next of a slice that is told as a whole.
    fn transfer(&mut self, parcel: &mut Vec<u8>, now: u64, here: &mut Here) {
        let Some(Transfer { slice, marks }) = &mut self.transfer else {
            if let Some(slice) = self.transfers.pop_front() {
                let marks = self.book.marks(slice, Known::is_own).into_iter();
                self.transfer = Some(Transfer { slice, marks });
                Message::Begin { slice }.put(parcel);
            }
            return;
        };
        let slice = *slice;
        if let Some(mark) = marks.next() {
            return self.tell(mark, parcel, now, here, true);
        }
        self.transfer = None;
        self.slices[usize::from(slice)].told = true;
        Message::Sum { slice, whole: true, sum: self.book.slice(slice).mine }.put(parcel);
    }

    /// Tells what a flow is by now; `anew`: also if the peer should know.
    fn tell(&mut self, mark: u64, parcel: &mut Vec<u8>, now: u64, here: &mut Here, anew: bool) {
        let Some(known) = self.book.get(mark) else { return };
        known.waits &= anew;
        let local = here.at(known.entry, now).filter(|local| self.marks.mark(&local.flow.original) == mark);
        let Some(local) = local else {
            if known.mine() != 0 {
                Message::End { mark }.put(parcel);
            }
            return self.book.remove(mark);
        };
        known.carried |= known.packets != local.packets;
        let (known, flow) = (*known, Flow { carried: known.carried, ..local.flow });
        if !known.is_own() {
            if known.mine() != 0 {
                Message::Leave { mark }.put(parcel);
                self.book.set_mine(mark, 0);
            }
            return;
        }
        if !matters(&flow) {
            // One that is over is at the peer what it was, if it was told of.
            if anew && known.mine() != 0 {
                self.book.set_mine(mark, 0);
                Message::End { mark }.put(parcel);
            }
            return;
        }
        let whole = anew || known.anew || self.is_other(mark, &flow, &known);
        if !whole && !is_due(&known, &flow, now, here) {
            return;
        }
        if whole {
            Message::Flow(flow).put(parcel);
            self.book.set_mine(mark, self.marks.content(mark, &flow, flow.phase));
        } else {
            Message::Fresh { mark, idle: flow.idle }.put(parcel);
        }
        if let Some(known) = self.book.get(mark) {
            (known.told, known.anew) = (last(&flow, now), false);
        }
    }

    /// Whether a flow of a slice has no place yet.
    pub(crate) fn is_unsettled(&self, slice: u8) -> bool {
        self.refused.keys().any(|mark| slice_of(*mark) == slice)
    }
}

/// Whether the peer has to hear that a flow goes on.
fn is_due(known: &Known, flow: &Flow, now: u64, here: &Here) -> bool {
    let passed = u64::from(last(flow, now).saturating_sub(known.told));
    passed > 0 && passed * 1000 >= here.patience(flow) / QUARTERS
}
