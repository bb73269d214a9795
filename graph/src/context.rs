//! What an element may do with a packet.

use std::time::Instant;

use port::Packet;
use wire::{Class, Reason};

use crate::executor::{Fabric, Slot};
use crate::{Batch, NodeCounters, NodeId, Observer, Sinks};

/// An element's view of the graph that runs it, for the time of one batch.
pub struct Context<'a> {
    pub(crate) node: NodeId,
    /// Where the outputs of this node lead.
    pub(crate) outputs: &'a [Slot],
    pub(crate) fabric: &'a mut Fabric,
    pub(crate) counters: &'a NodeCounters,
    pub(crate) sinks: &'a mut Sinks,
    pub(crate) observer: &'a mut Option<Box<dyn Observer>>,
    pub(crate) clock: &'a mut Clock,
}

/// The time of a run: read when first asked for, so that runs in which nobody asks do not pay for it.
pub(crate) struct Clock {
    pub(crate) origin: Instant,
    pub(crate) now: Option<u64>,
}

impl Context<'_> {
    /// Monotonic time in nanoseconds since the graph was built; the same for the whole run.
    #[inline]
    pub fn now(&mut self) -> u64 {
        let clock = &mut *self.clock;
        *clock.now.get_or_insert_with(|| clock.origin.elapsed().as_nanos() as u64)
    }

    /// Passes a packet on by an output.
    ///
    /// Panics when the element has no such output: it states its outputs itself.
    #[inline]
    pub fn emit(&mut self, output: usize, packet: Packet) {
        self.fabric.push(self.outputs[output], packet);
    }

    /// Passes all packets of a batch on by an output, and leaves the batch empty. An empty batch is nothing.
    ///
    /// Panics when the element has no such output: it states its outputs itself.
    #[inline]
    pub fn emit_batch(&mut self, output: usize, batch: &mut Batch) {
        self.fabric.push_batch(self.outputs[output], batch);
    }

    /// Passes the packets whose bits are set in `which` (bit i: the packet at index i) on by an output; the others stay in
    /// the batch, in order.
    ///
    /// Panics when the element has no such output: it states its outputs itself.
    #[inline]
    pub fn emit_some(&mut self, output: usize, batch: &mut Batch, which: u64) {
        self.fabric.push_some(self.outputs[output], batch, which);
    }

    /// Ends a packet's way, and counts why.
    #[inline]
    pub fn drop(&mut self, packet: Packet, reason: Reason) {
        self.counters.count_drop(reason);
        if let Some(observer) = self.observer {
            observer.dropped(self.node, &packet, reason);
        }
    }

    /// Counts an answer that was not sent; the packet it would have been about is dropped for its own reason.
    #[inline]
    pub fn count_suppressed(&mut self) {
        self.counters.count_drop(Reason::IcmpLimited);
    }

    /// Sends a packet, from its Ethernet header on, by the port `packet.output`. Dropped as `port_down` when this worker
    /// cannot transmit there.
    #[inline]
    pub fn transmit(&mut self, packet: Packet) {
        if let Some(observer) = self.observer {
            observer.transmitted(self.node, &packet);
        }
        match self.sinks.push(packet) {
            Ok(()) => self.counters.count_transmitted(1),
            Err(packet) => self.drop(packet, Reason::PortDown),
        }
    }

    /// [`Context::transmit`] for all packets of a batch; leaves it empty.
    #[inline]
    pub fn transmit_batch(&mut self, batch: &mut Batch) {
        if self.observer.is_none() {
            let (packets, _) = (batch.len(), self.sinks.push_batch(batch));
            self.counters.count_transmitted((packets - batch.len()) as u64);
        }
        for packet in batch.drain() {
            self.transmit(packet);
        }
    }

    /// Hands a packet, which must be as it came in, to Linux.
    #[inline]
    pub fn punt(&mut self, packet: Packet, class: Class) {
        self.counters.count_punt(class);
        if let Some(observer) = self.observer {
            observer.punted(self.node, &packet, class);
        }
        self.sinks.punt(packet, class);
    }
}
