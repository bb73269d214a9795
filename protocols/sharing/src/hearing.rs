//! What is heard from the other router, and what becomes of it here.
//!
//! A flow that only the other router carries is as that one says. Which of the two it is, its
//! packets tell: those that pass here. Where both say that they carry a flow, it is where its last
//! packet passed; where that is not clear, [`contest`](crate::contest) waits and sees. Where there
//! are no packets to tell, the one whose epoch is lower gives way.

use crate::book::{Known, Sum};
use crate::message::Message;
use crate::shared::Flow;
use crate::sharer::{Sharing, Waits};
use crate::table::{Here, Local};

/// How long a flow waits for its translation to be free, and how often it is tried.
const PATIENCE: u64 = 2_000_000_000;
const TRY_EVERY: u64 = 100_000_000;
/// Flows that may wait so.
const REFUSED: usize = 65_536;
/// Milliseconds by which last packets have to differ to tell where a flow passes.
const CLEAR: u64 = 1000;
/// A slice that differs is asked for again after this, and each time after twice as long.
const ASK_AGAIN: u64 = 5_000_000_000;
const DOUBLED: u32 = 6;

impl Sharing {
    /// A message, in its turn.
    pub(crate) fn take(&mut self, message: Message, now: u64, here: &mut Here) {
        match message {
            Message::Name { number, name } => {
                self.interfaces.insert(number, here.number_of(&name));
            }
            Message::Flow(flow) => self.hear(flow, now, here),
            Message::Fresh { mark, idle } => {
                if let Some(waits) = self.refused.get_mut(&mark) {
                    waits.flow.idle = idle;
                }
                self.follow(mark, now, here);
                if let Some(known) = self.book.get(mark).filter(|known| known.theirs() != 0 && !known.carried)
                {
                    here.touch(known.entry, idle, now);
                }
            }
            Message::End { mark } => {
                self.refused.remove(&mark);
                self.end(mark, now, here);
            }
            Message::Leave { mark } => {
                self.refused.remove(&mark);
                self.book.set_theirs(mark, 0);
                self.won(mark, now, here);
                self.is_news(mark, now);
            }
            Message::Begin { slice } => self.book.each(slice, |known| known.retold = false),
            Message::Sum { slice, whole, sum } => self.compare(slice, whole, sum, now, here),
            Message::Ask { slice } => {
                if !self.transfers.contains(&slice) {
                    self.transfers.push_back(slice);
                }
            }
        }
    }

    /// Takes note of packets that have passed here.
    pub(crate) fn follow(&mut self, mark: u64, now: u64, here: &Here) -> Option<Local> {
        let known = self.book.get(mark)?;
        let local = here.at(known.entry, now).filter(|local| self.marks.mark(&local.flow.original) == mark);
        known.carried |= local.is_some_and(|local| local.packets != known.packets);
        local
    }

    fn hear(&mut self, flow: Flow, now: u64, here: &mut Here) {
        let number = |port: u16| self.interfaces.get(&port).copied().unwrap_or(flow::NO_PORT);
        let flow = Flow { ports: flow.ports.map(number), ..flow };
        let mark = self.marks.mark(&flow.original);
        self.refused.remove(&mark);
        let Some(local) = here.find(&flow, now) else { return self.put(mark, flow, now, here) };
        self.meet(local, now, here);
        let known = self.book.get(mark).copied();
        let carried = known.is_none_or(|known| known.carried);
        let own = known.is_none_or(|known| known.is_own());
        let same = local.flow.reply == flow.reply;
        if own && carried && flow.carried && same {
            // Its packets have passed there, which nobody here has seen.
            here.open(&local, &flow, now);
            if local.flow.idle.abs_diff(flow.idle) <= CLEAR {
                return self.contest(mark, &local, &flow, now);
            }
        }
        let gives_way =
            !own || !carried && flow.carried || carried == flow.carried && self.is_behind(&local, &flow);
        if gives_way && !same {
            // Another flow by now.
            self.end(mark, now, here);
            return self.put(mark, flow, now, here);
        }
        if !same {
            self.counts.refused += 1;
            return;
        }
        self.is_known(mark, &local);
        if gives_way {
            here.renew(local.entry, &flow, now);
            self.give_way(mark, local.packets);
        }
        self.told(mark, &flow);
        if gives_way && self.book.get(mark).is_some_and(|known| known.mine() != 0) {
            self.is_news(mark, now);
        }
    }

    /// Notes a flow that is here and was not known.
    pub(crate) fn is_known(&mut self, mark: u64, local: &Local) {
        if self.book.get(mark).is_none() {
            self.book.add(mark, Known::new(local.entry, local.packets, true, self.audit.pass));
        }
    }

    pub(crate) fn told(&mut self, mark: u64, flow: &Flow) {
        self.book.set_theirs(mark, self.marks.content(mark, flow, flow.phase));
        if let Some(known) = self.book.get(mark) {
            (known.retold, known.phase) = (true, flow.phase);
        }
    }

    /// Whether a flow that both carry, or neither, is rather the peer's.
    fn is_behind(&self, local: &Local, flow: &Flow) -> bool {
        let (here, there) = (local.flow.idle, flow.idle);
        match here.abs_diff(there) > CLEAR {
            true => here > there,
            false => self.gives_way,
        }
    }

    fn put(&mut self, mark: u64, flow: Flow, now: u64, here: &mut Here) {
        if self.try_to_put(mark, &flow, now, here) {
            return;
        }
        match self.refused.len() < REFUSED {
            true => {
                let waits = Waits { flow, again: now + TRY_EVERY, until: now + PATIENCE };
                self.refused.insert(mark, waits);
            }
            false => self.counts.refused += 1,
        }
    }

    fn try_to_put(&mut self, mark: u64, flow: &Flow, now: u64, here: &mut Here) -> bool {
        // What is known of a flow that is not there any more.
        self.book.remove(mark);
        let Ok(entry) = here.put(flow, now) else { return false };
        self.book.add(mark, Known::new(entry, 0, false, self.audit.pass));
        self.told(mark, flow);
        true
    }

    /// Tries what had no place, and what could not be ended.
    pub(crate) fn try_again(&mut self, now: u64, here: &mut Here) {
        self.ending.retain(|entry| !here.end(*entry));
        let due: Vec<u64> =
            self.refused.iter().filter(|(_, waits)| waits.again <= now).map(|(mark, _)| *mark).collect();
        for mark in due {
            let Some(mut waits) = self.refused.remove(&mark) else { continue };
            if here.find(&waits.flow, now).is_some() {
                self.hear_again(waits.flow, now, here);
            } else if !self.try_to_put(mark, &waits.flow, now, here) {
                if waits.until <= now {
                    self.counts.refused += 1;
                } else {
                    waits.again = now + TRY_EVERY;
                    self.refused.insert(mark, waits);
                }
            }
        }
    }

    /// It has come meanwhile, by its own packets.
    fn hear_again(&mut self, flow: Flow, now: u64, here: &mut Here) {
        if let Some(local) = here.find(&flow, now) {
            self.meet(local, now, here);
            if local.flow.reply == flow.reply {
                self.told(self.marks.mark(&flow.original), &flow);
            }
        }
    }

    /// The peer has no such flow any more: it ends, unless it passes here.
    fn end(&mut self, mark: u64, now: u64, here: &mut Here) {
        let local = self.follow(mark, now, here);
        let Some(known) = self.book.get(mark).copied().filter(|known| known.theirs() != 0) else { return };
        self.book.set_theirs(mark, 0);
        // Who contests it, and has had no packet since, has only not given way yet.
        let passed = local.is_some_and(|local| local.packets != known.packets);
        if known.carried && (known.contests == 0 || passed) {
            return;
        }
        if let Some(local) = local
            && !here.end(local.entry)
        {
            self.ending.push(local.entry);
        }
        // If the peer was told of it, it has to hear of the end.
        if known.mine() != 0 { self.is_news(mark, now) } else { self.book.remove(mark) }
    }

    /// What the peer has told of a slice, up to here, against what is here of it.
    fn compare(&mut self, slice: u8, whole: bool, sum: Sum, now: u64, here: &mut Here) {
        if whole {
            for mark in self.book.marks(slice, |known| known.theirs() != 0 && !known.retold) {
                self.end(mark, now, here);
            }
        }
        let unsettled = self.is_unsettled(slice);
        let held = self.book.slice(slice).theirs;
        let compared = &mut self.slices[usize::from(slice)];
        self.counts.compared += 1;
        compared.joined |= whole;
        if held == sum {
            (compared.differs, compared.asks) = (None, 0);
            return;
        }
        if !unsettled || compared.differs.is_some() {
            compared.differs = Some(held.flows.abs_diff(sum.flows).max(1));
        }
        if !whole && !unsettled && compared.ask_at <= now {
            compared.ask_at = now + (ASK_AGAIN << compared.asks.min(DOUBLED));
            compared.asks += 1;
            self.counts.repaired += 1;
            self.asks.push_back(slice);
        }
    }
}
