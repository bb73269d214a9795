//! Running a batch through the graph.
//!
//! Each input of a node is a *slot*: a place where packets wait. A run goes through the slots in topological order, and
//! lets the elements handle what waits. So batches that split (IPv4, IPv6) come
//! together again before the element after the join runs once for all of them, and each element's code and tables
//! are in the cache while it works. There is no recursion, and no queue beyond the slots.
//!
//! A loop in the graph leads back to an earlier slot, which has its turn in the next sweep. Packets that are still there after
//! [`SWEEPS`] sweeps circle, and are dropped.
//!
//! A whole batch passed on to an empty slot exchanges two pointers. A slot that is full puts its batch behind
//! itself into a backlog, from spare batches; the number of packets is bounded by the packet memory.

use std::sync::Arc;
use std::time::Instant;

use port::Packet;
use wire::Reason;

use crate::context::Clock;
use crate::{Batch, Context, Description, Element, GraphCounters, NodeId, Observer, Sinks};

/// How often a run goes through the graph before what still circles in it is dropped.
pub const SWEEPS: usize = 16;

/// The place of a slot in the order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u16);

/// A graph ready to run. Made by [`GraphBuilder`](crate::GraphBuilder).
pub struct Graph {
    nodes: Vec<Vertex>,
    /// Node and input of each slot.
    slots: Vec<(NodeId, usize)>,
    /// First slot (input 0) of each node.
    entries: Vec<Slot>,
    fabric: Fabric,
    /// The batch in work; empty between runs.
    current: Batch,
    counters: Arc<GraphCounters>,
    observer: Option<Box<dyn Observer>>,
    clock: Clock,
    description: Arc<Description>,
}

pub(crate) struct Vertex {
    pub(crate) element: Box<dyn Element>,
    pub(crate) outputs: Vec<Slot>,
}

impl Graph {
    pub(crate) fn new(
        nodes: Vec<Vertex>,
        slots: Vec<(NodeId, usize)>,
        entries: Vec<Slot>,
        description: Description,
    ) -> Graph {
        Graph {
            counters: Arc::new(GraphCounters::new(nodes.len())),
            fabric: Fabric::new(slots.len()),
            nodes,
            slots,
            entries,
            current: Batch::new(),
            observer: None,
            clock: Clock { origin: Instant::now(), now: None },
            description: Arc::new(description),
        }
    }

    /// Runs a batch from input 0 of a node until every packet has left the graph, into `sinks` or dropped. The batch is
    /// empty afterwards.
    ///
    /// Panics when `entry` is of another, larger graph.
    pub fn run(&mut self, entry: NodeId, batch: &mut Batch, sinks: &mut Sinks) {
        self.fabric.push_batch(self.entries[entry.0], batch);
        self.clock.now = None;
        let measuring = self.counters.measuring();
        let (mut next, mut sweeps) = (0, 0);
        loop {
            let Some(slot) = self.fabric.first(next) else {
                if next == 0 {
                    break;
                }
                sweeps += 1;
                if sweeps >= SWEEPS {
                    self.drop_circling();
                }
                next = 0;
                continue;
            };
            let emptied = self.fabric.pull(slot, &mut self.current);
            next = usize::from(slot.0) + usize::from(emptied);
            let (node, input) = self.slots[usize::from(slot.0)];
            let packets = self.current.len();
            let Some(counters) = self.counters.node(node) else { continue };
            counters.count_batch(packets);
            if let Some(observer) = &mut self.observer {
                observer.entered(node, input, &self.current);
            }
            let vertex = &mut self.nodes[node.0];
            let mut context = Context {
                node,
                outputs: &vertex.outputs,
                fabric: &mut self.fabric,
                counters,
                sinks,
                observer: &mut self.observer,
                clock: &mut self.clock,
            };
            if measuring {
                let start = cycles();
                vertex.element.push(input, &mut self.current, &mut context);
                counters.count_cycles(packets, cycles().wrapping_sub(start));
            } else {
                vertex.element.push(input, &mut self.current, &mut context);
            }
            // What the element left there is freed here, and not by whoever gets the batch next.
            drop(self.current.drain());
        }
    }

    #[cold]
    fn drop_circling(&mut self) {
        while let Some(slot) = self.fabric.first(0) {
            self.fabric.pull(slot, &mut self.current);
            let (node, _) = self.slots[usize::from(slot.0)];
            for packet in self.current.drain() {
                if let Some(counters) = self.counters.node(node) {
                    counters.count_drop(Reason::TtlExpired);
                }
                if let Some(observer) = &mut self.observer {
                    observer.dropped(node, &packet, Reason::TtlExpired);
                }
            }
        }
    }

    /// The counters, to be read by any thread, also after the graph is gone.
    pub fn counters(&self) -> Arc<GraphCounters> {
        self.counters.clone()
    }

    /// The nodes and edges.
    pub fn description(&self) -> Arc<Description> {
        self.description.clone()
    }

    /// Sets, or with `None` removes, the observer, and returns the one that was there.
    pub fn observe(&mut self, observer: Option<Box<dyn Observer>>) -> Option<Box<dyn Observer>> {
        std::mem::replace(&mut self.observer, observer)
    }
}

/// The time stamp counter, or nanoseconds where there is none.
#[inline]
pub(crate) fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86_64 processor has RDTSC, and Linux does not forbid it to user space.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static ORIGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// The slots with their packets.
pub(crate) struct Fabric {
    /// Per slot the batch that is being filled.
    waiting: Vec<Batch>,
    /// Per slot full batches, oldest first, in front of the one being filled.
    backlog: Vec<std::collections::VecDeque<Batch>>,
    /// Slots with packets, as bits in the order of execution.
    ready: Vec<u64>,
    spare: Vec<Batch>,
}

impl Fabric {
    fn new(slots: usize) -> Fabric {
        Fabric {
            waiting: (0..slots).map(|_| Batch::new()).collect(),
            backlog: (0..slots).map(|_| std::collections::VecDeque::with_capacity(8)).collect(),
            ready: vec![0; slots.div_ceil(64)],
            spare: (0..8).map(|_| Batch::new()).collect(),
        }
    }

    /// The first slot with packets, from the slot `from` on.
    #[inline]
    fn first(&self, from: usize) -> Option<Slot> {
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
    }

    /// Exchanges `into`, which is empty, with the first batch of a slot. Returns whether the slot is empty now.
    #[inline]
    fn pull(&mut self, slot: Slot, into: &mut Batch) -> bool {
        let index = usize::from(slot.0);
        if let Some(oldest) = self.backlog[index].pop_front() {
            self.spare.push(std::mem::replace(into, oldest));
            return false;
        }
        std::mem::swap(&mut self.waiting[index], into);
        self.ready[index / 64] &= !(1 << (index % 64));
        true
    }
}
