//! What an element may do: pass packets on, drop them, ask for packets, for a turn, for the time,
//! for other elements.

use std::os::fd::RawFd;

use port::Packet;
use wire::{Class, Reason};

use crate::executor::{Machine, Wiring, cycles, flush};
use crate::fabric::Slot;
use crate::{BATCH, Batch, Element, GraphCounters, Hand, NodeCounters, NodeId, Sinks};

/// An element's view of the graph that runs it, for the time of one call.
pub struct Context<'a> {
    pub(crate) node: NodeId,
    /// Where the outputs of this node lead.
    pub(crate) outputs: &'a [Slot],
    pub(crate) counters: &'a NodeCounters,
    pub(crate) all: &'a GraphCounters,
    pub(crate) wiring: &'a Wiring,
    pub(crate) machine: &'a mut Machine,
    pub(crate) sinks: &'a mut Sinks,
}

/// Packets.
impl Context<'_> {
    /// Passes a packet on by an output. By one that is not connected it goes nowhere (reason
    /// `discarded`), which is what optional outputs are for.
    #[inline]
    pub fn emit(&mut self, output: usize, packet: Packet) {
        match self.outputs.get(output) {
            Some(&slot) if slot != Slot::NOWHERE => {
                self.counters.count_output(output, 1);
                self.machine.fabric.push(slot, packet);
            }
            _ => self.drop(packet, Reason::Discarded),
        }
    }

    /// [`Context::emit`] for all packets of a batch; leaves it empty. An empty batch is nothing.
    #[inline]
    pub fn emit_batch(&mut self, output: usize, batch: &mut Batch) {
        match self.outputs.get(output) {
            Some(&slot) if slot != Slot::NOWHERE => {
                self.counters.count_output(output, batch.len() as u64);
                self.machine.fabric.push_batch(slot, batch);
            }
            _ => self.drop_batch(batch, Reason::Discarded),
        }
    }

    /// [`Context::emit`] for the packets whose bits are set in `which` (bit i: the packet at index
    /// i); the others stay in the batch, in order.
    #[inline]
    pub fn emit_some(&mut self, output: usize, batch: &mut Batch, which: u64) {
        match self.outputs.get(output) {
            Some(&slot) if slot != Slot::NOWHERE => {
                self.counters.count_output(output, u64::from(which.count_ones()));
                self.machine.fabric.push_some(slot, batch, which);
            }
            _ => batch.take(which, |_, packet| self.drop(packet, Reason::Discarded)),
        }
    }

    /// [`Context::emit`] for all packets of a batch, each by an output of its own: `outputs[i]` is
    /// that of the packet at index i. Leaves the batch empty, and `outputs` undefined. Packets that
    /// leave by the same output go together, in order.
    #[inline]
    pub fn emit_each(&mut self, batch: &mut Batch, outputs: &mut [u16; BATCH]) {
        while !batch.is_empty() {
            let (count, output) = (batch.len(), outputs[0]);
            // Usually they all go the same way.
            if outputs[..count].iter().fold(0, |others, other| others | other ^ output) == 0 {
                return self.emit_batch(usize::from(output), batch);
            }
            let mut which = 0;
            for (index, &other) in outputs[..count].iter().enumerate() {
                which |= u64::from(other == output) << index;
            }
            self.emit_some(usize::from(output), batch, which);
            let mut kept = 0;
            for index in 0..count {
                outputs[kept] = outputs[index];
                kept += usize::from(outputs[index] != output);
            }
        }
    }

    /// Whether an output is connected.
    #[inline]
    pub fn has_output(&self, output: usize) -> bool {
        self.outputs.get(output).is_some()
    }

    /// How many outputs this element has in this graph.
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }

    /// How many inputs this element has in this graph.
    pub fn input_count(&self) -> usize {
        self.wiring.sources.get(self.node.0).map_or(0, |sources| sources.len())
    }

    /// Whether packets are pulled, not pushed, through an output of this element.
    pub fn output_is_pull(&self, output: usize) -> bool {
        self.outputs.get(output) == Some(&Slot::NOWHERE)
    }

    /// Whether packets are pulled, not pushed, into an input of this element.
    pub fn input_is_pull(&self, input: usize) -> bool {
        self.wiring
            .sources
            .get(self.node.0)
            .and_then(|sources| sources.get(input))
            .is_some_and(Option::is_some)
    }

    /// Asks for up to `quota` packets from what is connected to a pull input: at most 64 in all,
    /// and packet at a time 1. They are appended to the batch; returns how many came. On a push
    /// input none come.
    pub fn pull(&mut self, input: usize, quota: usize, batch: &mut Batch) -> usize {
        let source =
            self.wiring.sources.get(self.node.0).and_then(|sources| sources.get(input).copied().flatten());
        let quota = quota.min(if self.machine.fabric.one_by_one() { 1 } else { batch.room() });
        let Some((node, output)) = source else { return 0 };
        if quota == 0 {
            return 0;
        }
        let (Some(mut element), Some(counters)) = (self.machine.elements[node.0].take(), self.all.node(node))
        else {
            return 0;
        };
        let mut pulled = self.machine.spare.pop().unwrap_or_default();
        let measuring = self.all.measuring();
        let before = std::mem::take(&mut self.machine.nested);
        let start = if measuring { cycles() } else { 0 };
        let mut context = Context {
            node,
            outputs: &self.wiring.outputs[node.0],
            counters,
            all: self.all,
            wiring: self.wiring,
            machine: &mut *self.machine,
            sinks: &mut *self.sinks,
        };
        element.pull(output, quota, &mut pulled, &mut context);
        self.machine.elements[node.0] = Some(element);
        let packets = pulled.len();
        if packets > 0 {
            counters.count_batch(packets);
            counters.count_output(output, packets as u64);
            if let Some(observer) = &mut self.machine.observer {
                observer.entered(node, 0, &pulled);
            }
            self.machine.moved += packets as u64;
        }
        if measuring {
            let spent = cycles().wrapping_sub(start);
            counters.count_cycles(packets, spent.saturating_sub(self.machine.nested));
            self.machine.nested = before + spent;
        }
        batch.append(&mut pulled);
        self.machine.spare.push(pulled);
        packets
    }

    /// Packet at a time: lets what this element has emitted so far go all its way now, as in Click,
    /// before the element does more. For tasks that move several packets in a turn. In batches it
    /// does nothing.
    pub fn flush(&mut self) {
        if !self.machine.fabric.one_by_one() {
            return;
        }
        // What lay there before this element's turn stays.
        let depth = self.machine.fabric.depth();
        let mut batch = self.machine.spare.pop().unwrap_or_default();
        flush(self.wiring, self.all, self.machine, self.sinks, depth, &mut batch);
        self.machine.spare.push(batch);
    }

    /// Ends a packet's way, and counts why.
    #[inline]
    pub fn drop(&mut self, packet: Packet, reason: Reason) {
        self.counters.count_drop(reason);
        if let Some(observer) = &mut self.machine.observer {
            observer.dropped(self.node, &packet, reason);
        }
    }

    /// [`Context::drop`] for all packets of a batch; leaves it empty.
    pub fn drop_batch(&mut self, batch: &mut Batch, reason: Reason) {
        for packet in batch.drain() {
            self.drop(packet, reason);
        }
    }

    /// Whether somebody is shown where packets go.
    #[inline]
    pub fn is_observed(&self) -> bool {
        self.machine.observer.is_some()
    }

    /// Counts an answer that was not sent; the packet it would have been about is dropped for its
    /// own reason.
    #[inline]
    pub fn count_suppressed(&mut self) {
        self.counters.count_drop(Reason::IcmpLimited);
    }

    /// Counts a packet that should have been made and was not: a copy without memory for it, for
    /// one.
    #[cold]
    pub fn count_missing(&mut self, reason: Reason) {
        self.counters.count_drop(reason);
    }

    /// Sends a packet, from its Ethernet header on, by the port `packet.output`. Dropped as
    /// `port_down` when this worker cannot transmit there.
    #[inline]
    pub fn transmit(&mut self, packet: Packet) {
        if let Some(observer) = &mut self.machine.observer {
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
        if self.machine.observer.is_none() {
            let (packets, _) = (batch.len(), self.sinks.push_batch(batch));
            self.counters.count_transmitted((packets - batch.len()) as u64);
        }
        for packet in batch.drain() {
            self.transmit(packet);
        }
    }

    /// Hands a packet, which must be as it came in, to Linux.
    #[inline]
    pub fn punt(&mut self, packet: Packet, class: Class, hand: Hand) {
        self.counters.count_punt(class);
        if let Some(observer) = &mut self.machine.observer {
            observer.punted(self.node, &packet, class);
        }
        self.sinks.punt(packet, class, hand);
    }
}

/// Time and turns.
impl Context<'_> {
    /// Steady time in nanoseconds since the program began; the same for the whole run, task or
    /// timer.
    #[inline]
    pub fn now(&mut self) -> u64 {
        self.machine.clock.steady()
    }

    /// Wall time in nanoseconds since 1970; the same for the whole run, task or timer.
    #[inline]
    pub fn wall(&mut self) -> i64 {
        self.machine.clock.wall()
    }

    /// Whether time is simulated.
    pub fn is_simulated(&self) -> bool {
        self.machine.clock.is_simulated()
    }

    /// Asks for one call of [`Element::task`] in the next round.
    pub fn schedule(&mut self) {
        self.machine.schedule.schedule(self.node);
    }

    /// Says that this element has a task, though it wants no turn yet: its handlers are there.
    pub fn announce_task(&mut self) {
        self.machine.schedule.announce(self.node);
    }

    /// Takes back [`Context::schedule`].
    pub fn unschedule(&mut self) {
        self.machine.schedule.unschedule(self.node);
    }

    /// Whether a call of [`Element::task`] is due.
    pub fn is_scheduled(&self) -> bool {
        self.machine.schedule.is_scheduled(self.node)
    }

    /// Says that tasks may find something to do at `at` (steady nanoseconds) though there is
    /// nothing now. Holds for this round: whoever is asked again and has nothing says it again.
    pub fn wake_at(&mut self, at: u64) {
        self.machine.schedule.wake_at(at);
    }

    /// Sets this element's timer `id` to `at`, steady nanoseconds, whether it was set before or
    /// not.
    pub fn set_timer(&mut self, id: u32, at: u64) {
        self.machine.schedule.set_timer(self.node, id, at);
    }

    /// Unsets this element's timer `id`.
    pub fn clear_timer(&mut self, id: u32) {
        self.machine.schedule.clear_timer(self.node, id);
    }

    /// When this element's timer `id` expires; `None` when it is not set.
    pub fn timer(&self, id: u32) -> Option<u64> {
        self.machine.schedule.timer(self.node, id)
    }

    /// Calls [`Element::ready`] whenever a file descriptor is readable, until [`Context::unwatch`].
    pub fn watch(&mut self, fd: RawFd) {
        self.machine.schedule.watch(self.node, fd);
    }

    /// Ends [`Context::watch`].
    pub fn unwatch(&mut self, fd: RawFd) {
        self.machine.schedule.unwatch(self.node, fd);
    }

    /// Calls [`Element::signal`] whenever the process is sent this signal, instead of what the
    /// signal does otherwise, until [`Context::release_signal`]. Only a graph that a
    /// [`Driver`](crate::Driver) runs is told.
    pub fn catch_signal(&mut self, signal: i32) {
        crate::driver::block(signal, true);
        self.machine.schedule.catch_signal(self.node, signal);
    }

    /// Ends [`Context::catch_signal`]: the signal does what it does otherwise, unless another
    /// element wants it.
    pub fn release_signal(&mut self, signal: i32) {
        self.machine.schedule.release_signal(self.node, signal);
        if self.machine.schedule.signals().iter().all(|(caught, _)| *caught != signal) {
            crate::driver::block(signal, false);
        }
    }

    /// Sets how many turns an element has beside the others; 1024 is the usual.
    pub fn set_tickets(&mut self, node: NodeId, tickets: u32) {
        self.machine.schedule.set_tickets(node, tickets);
    }

    /// Says which thread an element is to be on, when there are several.
    pub fn set_home(&mut self, node: NodeId, thread: usize) {
        self.machine.homes.insert(node, thread);
    }

    /// Asks the program to stop.
    pub fn stop(&mut self) {
        self.machine.stops += 1;
    }
}

/// The graph.
impl<'a> Context<'a> {
    pub(crate) fn new(
        node: NodeId,
        wiring: &'a Wiring,
        all: &'a GraphCounters,
        machine: &'a mut Machine,
        sinks: &'a mut Sinks,
    ) -> Option<Context<'a>> {
        let (outputs, counters) = (wiring.outputs.get(node.0)?, all.node(node)?);
        Some(Context { node, outputs, counters, all, wiring, machine, sinks })
    }

    /// The same view for another element.
    pub(crate) fn of(&mut self, node: NodeId) -> Option<Context<'_>> {
        Context::new(node, self.wiring, self.all, &mut *self.machine, &mut *self.sinks)
    }

    /// Calls another element with its own view; `None` when it is at work.
    pub(crate) fn with_element<T>(
        &mut self,
        node: NodeId,
        call: impl FnOnce(&mut dyn Element, &mut Context<'_>) -> T,
    ) -> Option<T> {
        let mut element = self.machine.elements.get_mut(node.0)?.take()?;
        let result = self.of(node).map(|mut context| call(element.as_mut(), &mut context));
        self.machine.elements[node.0] = Some(element);
        result
    }

    /// This element's number.
    pub fn id(&self) -> NodeId {
        self.node
    }

    /// This element's name in the graph, such as `router/in0`.
    pub fn name(&self) -> &str {
        self.wiring.description.nodes.get(self.node.0).map_or("", |node| &node.name)
    }

    /// The element of a name, seen from this element: inside `a/b`, the name `c` means `a/c` if
    /// there is one, else `c`.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.wiring.description.find_from(self.name(), name)
    }

    /// Another element, of a type known. `None` when it is of another type, or at work (as this
    /// element itself is).
    pub fn element<T: Element>(&mut self, node: NodeId) -> Option<&mut T> {
        let element: &mut dyn std::any::Any = self.machine.elements.get_mut(node.0)?.as_deref_mut()?;
        element.downcast_mut()
    }

    /// The nodes and edges of the graph.
    pub fn description(&self) -> &crate::Description {
        &self.wiring.description
    }

    /// Says a line to whoever runs the program: Click's chatter, by default on standard error.
    pub fn say(&mut self, line: &str) {
        (self.machine.voice)(line);
    }
}
