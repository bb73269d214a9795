//! What passed each node, what it dropped and why, and what it cost.
//!
//! Written by the one worker that runs the graph, read by anyone. With a single writer an increment
//! needs no atomic read-modify-write: load, add, store, each a plain instruction. A reader may see
//! counters of different nodes at slightly different moments, but every counter only grows.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use wire::{Class, Reason};

use crate::NodeId;

/// Outputs counted next to what entered; those beyond are counted elsewhere.
const OUTPUTS: usize = 6;

/// The counters of one graph instance.
#[derive(Debug)]
pub struct GraphCounters {
    nodes: Box<[NodeCounters]>,
    measuring: AtomicBool,
}

/// The counters of one node. Aligned so that no two nodes share a cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct NodeCounters {
    packets: Single,
    batches: Single,
    /// By output, as far as there is room in the first cache line.
    outputs: [Single; OUTPUTS],
    more_outputs: Box<[Single]>,
    cycles: Single,
    measured: Single,
    transmitted: Single,
    punts: [Single; Class::COUNT],
    drops: Drops,
}

/// By reason.
#[derive(Debug)]
struct Drops([Single; Reason::COUNT]);

impl Default for Drops {
    fn default() -> Drops {
        Drops(std::array::from_fn(|_| Single::default()))
    }
}

/// A counter with one writer.
#[derive(Debug, Default)]
struct Single(AtomicU64);

impl Single {
    #[inline(always)]
    fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    #[inline(always)]
    fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl GraphCounters {
    /// For nodes with so many outputs each.
    pub(crate) fn new(outputs: impl Iterator<Item = usize>) -> GraphCounters {
        let node = |outputs: usize| NodeCounters {
            more_outputs: (OUTPUTS..outputs).map(|_| Single::default()).collect(),
            ..NodeCounters::default()
        };
        GraphCounters { nodes: outputs.map(node).collect(), measuring: AtomicBool::new(false) }
    }

    /// The counters of a node, `None` if it is not of this graph.
    #[inline]
    pub fn node(&self, node: NodeId) -> Option<&NodeCounters> {
        self.nodes.get(node.0)
    }

    /// Every node's counters, in the order of [`Description::nodes`](crate::Description::nodes).
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeCounters)> {
        self.nodes.iter().enumerate().map(|(index, counters)| (NodeId(index), counters))
    }

    /// Packets dropped for `reason`, by all nodes.
    pub fn dropped(&self, reason: Reason) -> u64 {
        self.nodes.iter().map(|node| node.dropped(reason)).sum()
    }

    /// Goes on counting where another instance of the same graph stopped.
    pub fn inherit(&self, old: &GraphCounters) {
        self.nodes.iter().zip(&old.nodes).for_each(|(own, old)| own.inherit(old));
    }

    /// Switches the measuring of cycles on or off; takes effect with the next batch. Costs two
    /// clock reads per node and batch.
    pub fn measure(&self, on: bool) {
        self.measuring.store(on, Relaxed);
    }

    /// Whether cycles are measured.
    #[inline]
    pub fn measuring(&self) -> bool {
        self.measuring.load(Relaxed)
    }
}

impl NodeCounters {
    /// Packets that entered.
    pub fn packets(&self) -> u64 {
        self.packets.value()
    }

    /// Packets that left by an output.
    pub fn output(&self, output: usize) -> u64 {
        self.output_counter(output).map_or(0, Single::value)
    }

    #[inline(always)]
    fn output_counter(&self, output: usize) -> Option<&Single> {
        self.outputs.get(output).or_else(|| self.more_outputs.get(output.wrapping_sub(OUTPUTS)))
    }

    #[inline(always)]
    pub(crate) fn count_output(&self, output: usize, packets: u64) {
        if let Some(counter) = self.output_counter(output) {
            counter.add(packets);
        }
    }

    /// Goes on counting where `old` stopped.
    pub(crate) fn inherit(&self, old: &NodeCounters) {
        let own = [&self.packets, &self.batches, &self.cycles, &self.measured, &self.transmitted];
        let others = [&old.packets, &old.batches, &old.cycles, &old.measured, &old.transmitted];
        let own = own.into_iter().chain(&self.outputs).chain(&self.punts).chain(&self.drops.0);
        let others = others.into_iter().chain(&old.outputs).chain(&old.punts).chain(&old.drops.0);
        own.zip(others)
            .chain(self.more_outputs.iter().zip(&old.more_outputs))
            .for_each(|(own, old)| own.add(old.value()));
    }

    /// Batches that they came in.
    pub fn batches(&self) -> u64 {
        self.batches.value()
    }

    /// Cycles spent while measuring was on: of the time stamp counter, or nanoseconds where there
    /// is none.
    pub fn cycles(&self) -> u64 {
        self.cycles.value()
    }

    /// Packets that entered while measuring was on: what to divide [`NodeCounters::cycles`] by.
    pub fn measured_packets(&self) -> u64 {
        self.measured.value()
    }

    /// Packets that left the graph here by a port.
    pub fn transmitted(&self) -> u64 {
        self.transmitted.value()
    }

    /// Packets handed to Linux here, by class.
    pub fn punted(&self, class: Class) -> u64 {
        self.punts[class as usize].value()
    }

    /// Packets dropped here for `reason`; for [`Reason::IcmpLimited`], answers not sent.
    pub fn dropped(&self, reason: Reason) -> u64 {
        self.drops.0[reason as usize].value()
    }

    #[inline]
    pub(crate) fn count_batch(&self, packets: usize) {
        self.packets.add(packets as u64);
        self.batches.add(1);
    }

    #[inline]
    pub(crate) fn count_cycles(&self, packets: usize, cycles: u64) {
        self.measured.add(packets as u64);
        self.cycles.add(cycles);
    }

    #[inline]
    pub(crate) fn count_transmitted(&self, packets: u64) {
        self.transmitted.add(packets);
    }

    #[inline]
    pub(crate) fn count_punt(&self, class: Class) {
        self.punts[class as usize].add(1);
    }

    #[inline]
    pub(crate) fn count_drop(&self, reason: Reason) {
        self.drops.0[reason as usize].add(1);
    }
}
