//! Where packets wait between two elements.
//!
//! Each input that packets are pushed to is a *slot*. In the order of execution, a whole batch
//! passed on to an empty slot exchanges two pointers. A slot that is full puts its batch behind
//! itself into a backlog, from spare batches; the number of packets is bounded by the packet
//! memory.
//!
//! Packet at a time, the fabric is a stack instead: what an element emits is handled, with all that
//! follows from it, in the order in which it was emitted, as if the element had called the next
//! one.

use port::Packet;

use crate::Batch;

/// The place of a slot in the order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u16);

impl Slot {
    /// The slot of an output that leads nowhere.
    pub(crate) const NOWHERE: Slot = Slot(u16::MAX);
}

/// The slots with their packets.
pub(crate) struct Fabric {
    /// Packet at a time: what was emitted since the last packet was taken, in order.
    emitted: Vec<(Slot, Packet)>,
    /// Packet at a time: what is to be handled, the next at the end.
    stack: Vec<(Slot, Packet)>,
    one_by_one: bool,
    /// Per slot the batch that is being filled.
    waiting: Vec<Batch>,
    /// Per slot full batches, oldest first, in front of the one being filled.
    backlog: Vec<std::collections::VecDeque<Batch>>,
    /// How many batches are in backlogs: mostly none, which is one look for all slots.
    behind: usize,
    /// Slots with packets, as bits in the order of execution.
    ready: Vec<u64>,
    spare: Vec<Batch>,
}

impl Fabric {
    pub(crate) fn new(slots: usize, one_by_one: bool) -> Fabric {
        Fabric {
            emitted: Vec::new(),
            stack: Vec::new(),
            one_by_one,
            waiting: (0..slots).map(|_| Batch::new()).collect(),
            behind: 0,
            backlog: (0..slots).map(|_| std::collections::VecDeque::with_capacity(8)).collect(),
            ready: vec![0; slots.div_ceil(64)],
            spare: (0..8).map(|_| Batch::new()).collect(),
        }
    }

    /// Whether packets are handled one at a time.
    #[inline]
    pub(crate) fn one_by_one(&self) -> bool {
        self.one_by_one
    }

    /// Packet at a time: how many packets lay on the stack before the element at work emitted any.
    pub(crate) fn depth(&self) -> usize {
        self.stack.len()
    }

    /// Packet at a time: puts the next packet above `depth` into the batch and returns where it is
    /// to go.
    pub(crate) fn pop(&mut self, depth: usize, into: &mut Batch) -> Option<Slot> {
        self.stack.extend(self.emitted.drain(..).rev());
        if self.stack.len() <= depth {
            return None;
        }
        let (slot, packet) = self.stack.pop()?;
        // The batch is empty.
        let _ = into.push(packet);
        Some(slot)
    }

    /// The first slot with packets, from the slot `from` on.
    #[inline]
    pub(crate) fn first(&self, from: usize) -> Option<Slot> {
        let mut word = from / 64;
        let mut bits = self.ready.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.ready.get(word)?;
        }
        Some(Slot((word * 64 + bits.trailing_zeros() as usize) as u16))
    }

    #[inline]
    fn mark(&mut self, index: usize) {
        self.ready[index / 64] |= 1 << (index % 64);
    }

    #[inline]
    pub(crate) fn push(&mut self, slot: Slot, packet: Packet) {
        if self.one_by_one {
            self.emitted.push((slot, packet));
            return;
        }
        let index = usize::from(slot.0);
        if let Err(packet) = self.waiting[index].push(packet) {
            self.overflow(index);
            let pushed = self.waiting[index].push(packet);
            debug_assert!(pushed.is_ok());
        }
        self.mark(index);
    }

    #[inline]
    pub(crate) fn push_batch(&mut self, slot: Slot, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        if self.one_by_one {
            self.emitted.extend(batch.drain().map(|packet| (slot, packet)));
            return;
        }
        let index = usize::from(slot.0);
        let waiting = &mut self.waiting[index];
        if waiting.is_empty() {
            std::mem::swap(waiting, batch);
        } else {
            waiting.append(batch);
            if !batch.is_empty() {
                self.overflow(index);
                self.waiting[index].append(batch);
            }
        }
        self.mark(index);
    }

    /// Moves the packets of a batch whose bits are set to a slot.
    #[inline]
    pub(crate) fn push_some(&mut self, slot: Slot, batch: &mut Batch, which: u64) {
        if which == 0 {
            return;
        }
        if which == batch.mask() {
            return self.push_batch(slot, batch);
        }
        if self.one_by_one {
            self.emitted.extend(batch.taken(which).map(|packet| (slot, packet)));
            return;
        }
        let index = usize::from(slot.0);
        if self.waiting[index].room() >= which.count_ones() as usize {
            self.waiting[index].extend(batch.taken(which));
            self.mark(index);
        } else {
            batch.taken(which).for_each(|packet| self.push(slot, packet));
        }
    }

    /// Puts the full batch of a slot into its backlog, an empty one in its place.
    #[cold]
    fn overflow(&mut self, index: usize) {
        let full = std::mem::replace(&mut self.waiting[index], self.spare.pop().unwrap_or_default());
        self.backlog[index].push_back(full);
        self.behind += 1;
    }

    /// Exchanges `into`, which is empty, with the first batch of a slot. Returns whether the slot
    /// is empty now.
    #[inline]
    pub(crate) fn pull(&mut self, slot: Slot, into: &mut Batch) -> bool {
        let index = usize::from(slot.0);
        if self.behind != 0
            && let Some(oldest) = self.backlog[index].pop_front()
        {
            self.behind -= 1;
            self.spare.push(std::mem::replace(into, oldest));
            return false;
        }
        std::mem::swap(&mut self.waiting[index], into);
        self.ready[index / 64] &= !(1 << (index % 64));
        true
    }
}
