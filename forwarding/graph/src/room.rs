//! Whether what is pushed has somewhere to go: how a source knows that the queue behind it is full.
//!
//! A source that makes packets as fast as it is asked to would fill every queue and then throw away
//! the rest. So it asks first ([`Context::has_room`]), and when nothing that it pushes could be
//! kept it waits ([`Context::await_room`]) until a queue on the way has room again
//! ([`Context::room_again`]). Which queues there are on the way from an output is found out once
//! for each graph. A way that ends elsewhere, in a sink or an element that pulls, always has room.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::{Context, NodeId};

/// Where packets pushed by one output end up.
#[derive(Debug, Default)]
struct Way {
    /// Elements that say when they are full ([`Element::full`](crate::Element::full)).
    stores: Vec<NodeId>,
    /// Rings to elements that other threads have.
    rings: Vec<crate::fabric::Slot>,
    /// Some of them end elsewhere.
    open: bool,
}

/// The ways found so far, and who waits for room.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    ways: HashMap<(NodeId, usize), Way>,
    /// Pairs of a store and who waits for it.
    waiting: Vec<(NodeId, NodeId)>,
}

impl Rooms {
    /// Elements that wait for room.
    pub(crate) fn waiters(&self) -> Vec<NodeId> {
        self.waiting.iter().map(|(_, waiter)| *waiter).collect()
    }

    /// Whether an element waits for room.
    pub(crate) fn is_waiting(&self, node: NodeId) -> bool {
        self.waiting.iter().any(|(_, waiter)| *waiter == node)
    }
}

impl Context<'_> {
    /// Whether a packet pushed by an output now may be kept: not when every way from there ends in
    /// a full store.
    pub fn has_room(&mut self, output: usize) -> bool {
        let key = (self.node, output);
        if !self.machine.rooms.ways.contains_key(&key) {
            let way = self.explore(output);
            self.machine.rooms.ways.insert(key, way);
        }
        let machine = &*self.machine;
        let Some(way) = machine.rooms.ways.get(&key) else { return true };
        let full = |store: &NodeId| {
            machine.elements.get(store.0).and_then(Option::as_ref).and_then(|element| element.full())
        };
        let mut rings =
            way.rings.iter().map(|ring| machine.links.as_ref().and_then(|links| links.has_room(*ring)));
        way.open
            || (way.stores.is_empty() && way.rings.is_empty())
            || way.stores.iter().any(|store| full(store) != Some(true))
            || rings.any(|room| room == Some(true))
    }

    /// Takes back [`Context::schedule`] until one of the stores behind an output has room.
    pub fn await_room(&mut self, output: usize) {
        self.unschedule();
        let rooms = &mut self.machine.rooms;
        for store in rooms.ways.get(&(self.node, output)).map_or(&[][..], |way| &way.stores) {
            if !rooms.waiting.contains(&(*store, self.node)) {
                rooms.waiting.push((*store, self.node));
            }
        }
        let rings = rooms.ways.get(&(self.node, output)).map_or(&[][..], |way| &way.rings);
        if let Some(links) = &mut self.machine.links {
            links.waiting.extend(rings.iter().map(|ring| (*ring, self.node)));
        }
    }

    /// For an element that says when it is full, when it is not any more: who waited for that gets
    /// a turn.
    pub fn room_again(&mut self) {
        if self.machine.rooms.waiting.is_empty() {
            return;
        }
        let (node, schedule) = (self.node, &mut self.machine.schedule);
        let here: HashSet<NodeId> = (self.machine.rooms.waiting.iter())
            .filter(|(store, _)| *store == node)
            .map(|(_, waiter)| *waiter)
            .collect();
        self.machine.rooms.waiting.retain(|(_, waiter)| {
            let woken = here.contains(waiter);
            if woken {
                schedule.schedule(*waiter);
            }
            !woken
        });
    }

    fn explore(&self, output: usize) -> Way {
        let (mut way, mut seen) = (Way::default(), HashSet::new());
        let description = &self.wiring.description;
        let mut next: VecDeque<(NodeId, Option<usize>)> = VecDeque::from([(self.node, Some(output))]);
        while let Some((from, only)) = next.pop_front() {
            let mut edges = description
                .edges
                .iter()
                .filter(|edge| edge.from == from && only.is_none_or(|only| only == edge.output))
                .peekable();
            way.open |= edges.peek().is_none();
            for edge in edges {
                let element = self.machine.elements.get(edge.to.0).and_then(Option::as_ref);
                let slot = crate::fabric::Slot(self.wiring.entries[edge.to.0].0 + edge.input as u16);
                let links = self.machine.links.as_ref().filter(|_| element.is_none());
                if element.is_some_and(|element| element.full().is_some()) {
                    way.stores.push(edge.to);
                } else if links.is_some_and(|links| links.has_room(slot).is_some()) {
                    way.rings.push(slot);
                } else if description.nodes.get(edge.to.0).and_then(|to| to.inputs.get(edge.input))
                    == Some(&crate::Flow::Pull)
                {
                    way.open = true;
                } else if seen.insert(edge.to) {
                    next.push_back((edge.to, None));
                }
            }
        }
        way
    }
}
