//! Changing the graph while it runs.
//!
//! The new graph is made and checked beside the old one, which keeps running; between two batches
//! it takes the old one's place. Elements of the same name and class stay: with the same arguments
//! and ports the very element moves into the new graph, with its packets, timers and turns; with
//! others a new one takes over what it can of the old ([`Element::take_state`]). Scripts begin
//! anew. Counters go on. Between batches no packet is outside an element, so none is lost, except
//! those in queues that the new graph does not have. Observers stay behind: the nodes they know are
//! gone.

use crate::executor::Graph;
use crate::{Element, NodeId, Sinks};

impl Graph {
    /// Lets the elements begin to work: calls [`Element::initialize`] on each, in order, and
    /// returns what they object to.
    pub fn start(&mut self, sinks: &mut Sinks) -> Vec<(NodeId, String)> {
        (0..self.machine.elements.len()).filter_map(|node| self.initialize(NodeId(node), sinks)).collect()
    }

    fn initialize(&mut self, node: NodeId, sinks: &mut Sinks) -> Option<(NodeId, String)> {
        self.machine.clock.forget();
        let refused = self.with(node, sinks, |element, cx| element.initialize(cx));
        self.settle(sinks);
        match refused {
            Some(Err(message)) => Some((node, message)),
            _ => None,
        }
    }

    /// Gives its place to `new`, which was made
    /// ([`Program::instantiate`](crate::Program::instantiate)) but not started. When an element of
    /// it cannot begin, all stays as it was, and the reasons come back, by nodes of `new`.
    pub fn change_to(&mut self, mut new: Graph, sinks: &mut Sinks) -> Result<(), Vec<(NodeId, String)>> {
        // Before anything in it looks at the time: a simulated clock may have gone on for long.
        new.machine.clock = self.machine.clock.clone();
        let pairs = new.pairs(self);
        let mut refused = Vec::new();
        for node in 0..new.machine.elements.len() {
            if !pairs.iter().any(|pair| pair.new.0 == node && pair.same) {
                refused.extend(new.initialize(NodeId(node), sinks));
            }
        }
        if !refused.is_empty() {
            return Err(refused);
        }
        for pair in pairs {
            let Some(element) = self.machine.elements.get_mut(pair.old.0).and_then(Option::take) else {
                continue;
            };
            if let (Some(own), Some(before)) = (new.counters.node(pair.new), self.counters.node(pair.old)) {
                own.inherit(before);
            }
            if pair.same {
                new.machine.schedule.inherit(pair.new, &self.machine.schedule, pair.old);
                if self.machine.rooms.is_waiting(pair.old) {
                    new.machine.schedule.schedule(pair.new);
                }
                new.machine.elements[pair.new.0] = Some(element);
            } else {
                new.take_over(pair.new, element);
            }
        }
        std::mem::swap(&mut new.machine.voice, &mut self.machine.voice);
        new.machine.compile = self.machine.compile.take();
        new.counters.measure(self.counters.measuring());
        *self = new;
        Ok(())
    }

    fn take_over(&mut self, node: NodeId, old: Box<dyn Element>) {
        if let Some(Some(element)) = self.machine.elements.get_mut(node.0) {
            element.take_state(old);
        }
    }

    fn pairs(&self, old: &Graph) -> Vec<Pair> {
        let before: std::collections::HashMap<&str, &crate::Node> =
            old.wiring.description.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        let pair = |node: &crate::Node| {
            let stays = before.get(node.name.as_str()).filter(|old| old.class == node.class)?;
            // What was written to its `config` handler since counts.
            let written = old.wiring.origin.written(stays.id);
            let configuration = written.as_ref().unwrap_or(&stays.configuration);
            let shape = |node: &crate::Node| (node.inputs.clone(), node.outputs.clone());
            let element = old.machine.elements.get(stays.id.0).and_then(Option::as_ref);
            let same = node.configuration == *configuration
                && shape(node) == shape(stays)
                && element.is_none_or(|element| element.stays());
            Some(Pair { new: node.id, old: stays.id, same })
        };
        self.wiring.description.nodes.iter().filter_map(pair).collect()
    }
}

/// An element of both graphs.
struct Pair {
    new: NodeId,
    old: NodeId,
    /// Whether it needs no change.
    same: bool,
}
