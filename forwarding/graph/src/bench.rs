//! The cost of the framework itself: a chain of elements that do nothing, one that splits and
//! joins, and elements called without the framework, to compare with.

use port::{Packet, Pool};

use crate::executor::{Machine, Wiring, cycles};
use crate::{BATCH, Batch, Context, Element, GraphBuilder, GraphCounters, NodeId, Sinks};

/// Passes everything on.
struct Null;

impl Element for Null {
    fn class(&self) -> &'static str {
        "Null"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["out"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        cx.emit_batch(0, batch);
    }
}

/// Sends packets alternately by one of two outputs.
struct Alternate;

impl Element for Alternate {
    fn class(&self) -> &'static str {
        "Alternate"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["even", "odd"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        cx.emit_some(1, batch, 0xaaaa_aaaa_aaaa_aaaa & batch.mask());
        cx.emit_batch(0, batch);
    }
}

/// Keeps the packets for the next round.
#[derive(Default)]
struct Keep(std::sync::Arc<std::sync::Mutex<Vec<Packet>>>);

impl Element for Keep {
    fn class(&self) -> &'static str {
        "Keep"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &[]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, _cx: &mut Context<'_>) {
        if let Ok(mut kept) = self.0.lock() {
            kept.extend(batch.drain());
        }
    }
}

/// Cycles per packet and element of a chain of 20 do-nothing elements, batches of 64: the least of
/// `groups` groups of [`GROUP`] batches, so that what else runs on the machine does not count. With
/// `splits`, every element sends half the packets over another element and joins them again.
/// Installs a [`Pool`] on this thread. The cost of feeding and taking away the packets is measured
/// and left out.
pub fn null_chain(groups: usize, splits: bool) -> f64 {
    const CHAIN: usize = 20;
    Pool::heap(BATCH).install();
    let whole = chain(CHAIN, groups, splits);
    let ends = chain(0, groups, splits);
    // With splits: all pass the split and the join, half the element between.
    let elements = if splits { CHAIN as f64 * 2.5 } else { CHAIN as f64 };
    whole.saturating_sub(ends) as f64 / (GROUP * BATCH) as f64 / elements
}

/// Batches in a group of [`null_chain`].
pub const GROUP: usize = 32;

/// The least cycles of a group of batches through a chain of `length` elements.
fn chain(length: usize, groups: usize, splits: bool) -> u64 {
    let keep = Keep::default();
    let kept = keep.0.clone();
    let mut builder = GraphBuilder::new();
    let entry = builder.element("null0", Null);
    let (mut last, mut output) = (entry, 0);
    for index in 1..=length {
        if splits {
            let split = builder.element(&format!("split{index}"), Alternate);
            let odd = builder.element(&format!("odd{index}"), Null);
            let join = builder.element(&format!("join{index}"), Null);
            builder.connect(last, output, split, 0).connect(split, 1, odd, 0);
            builder.connect(split, 0, join, 0).connect(odd, 0, join, 0);
            (last, output) = (join, 0);
        } else {
            let null = builder.element(&format!("null{index}"), Null);
            builder.connect(last, output, null, 0);
            (last, output) = (null, 0);
        }
    }
    let end = builder.element("keep", keep);
    builder.connect(last, output, end, 0);
    let Ok(mut graph) = builder.build() else { return 0 };

    let mut packets: Vec<Packet> = (0..BATCH).filter_map(|_| Packet::new(&[0; 60])).collect();
    let (mut batch, mut sinks) = (Batch::new(), Sinks::new());
    let mut least = u64::MAX;
    for _ in 0..groups {
        let start = cycles();
        for _ in 0..GROUP {
            let count = packets.len().min(BATCH);
            batch.fill(packets.drain(..count));
            graph.run(entry, &mut batch, &mut sinks);
            if let Ok(mut kept) = kept.lock() {
                std::mem::swap(&mut *kept, &mut packets);
            }
        }
        least = least.min(cycles() - start);
    }
    least
}

/// Calls elements one after the other, as a hand-written loop would: no graph, no order of
/// execution, no counters of what enters. What an element emits by output 0 is the batch that the
/// next is called with; by others nothing may leave.
pub struct Direct {
    machine: Machine,
    wiring: Wiring,
    counters: GraphCounters,
}

impl Default for Direct {
    fn default() -> Direct {
        Direct::new()
    }
}

impl Direct {
    /// The outputs that an element called so may have.
    const OUTPUTS: usize = 8;

    /// Nothing called yet.
    pub fn new() -> Direct {
        let mut builder = GraphBuilder::new();
        let hub = builder.element("hub", Hub);
        (0..Direct::OUTPUTS).for_each(|output| {
            builder.connect(hub, output, hub, output);
        });
        let graph = builder.build().unwrap_or_else(|error| unreachable!("the hub is connected: {error}"));
        let (machine, wiring) = graph.into_parts();
        Direct { machine, wiring, counters: GraphCounters::new([Direct::OUTPUTS].into_iter()) }
    }

    /// Calls an element with a batch, and puts what it emits by output 0 into the batch.
    ///
    /// Panics when packets leave by another output: the traffic is not what the loop was written
    /// for.
    #[inline(always)]
    pub fn call<E: Element>(&mut self, element: &mut E, batch: &mut Batch, sinks: &mut Sinks) {
        let (node, counters) = (NodeId(0), &self.counters);
        let Some(counts) = counters.node(node) else { return };
        let outputs = &self.wiring.outputs[0];
        let (wiring, machine) = (&self.wiring, &mut self.machine);
        let mut context = Context { node, outputs, counters: counts, all: counters, wiring, machine, sinks };
        element.push(0, batch, &mut context);
        if let Some(slot) = self.machine.fabric.first(0) {
            assert_eq!(slot.0, 0, "packets left the straight way");
            self.machine.fabric.pull(slot, batch);
        }
    }
}

/// Where a directly called element's outputs lead.
struct Hub;

impl Element for Hub {
    fn class(&self) -> &'static str {
        "Hub"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["0", "1", "2", "3", "4", "5", "6", "7"]
    }

    fn inputs(&self) -> usize {
        Direct::OUTPUTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_elements_cost_next_to_nothing() {
        let (chain, splits) = (null_chain(100, false), null_chain(100, true));
        println!("null chain {chain:.2}, with splits {splits:.2} cycles per packet and element");
        // Generous, for a busy machine; the bench holds the real limit.
        assert!(chain > 0.0 && chain < 40.0, "{chain}");
    }
}
