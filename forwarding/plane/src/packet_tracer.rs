//! What a worker would do with a packet, without any packet being sent: the frame runs through a
//! graph of its own, made of the same elements over the same tables, and an observer notes what
//! happens. So an explanation cannot disagree with the router: it is the router. Its elements are
//! not started: those at the hooks write no files and open no devices, and what they keep (counts,
//! queues) is not what the workers' elements have.

use std::sync::{Arc, Mutex, PoisonError};

use fib::{AdjacencyId, InterfaceId, NextHopId, PortId};
use graph::{Batch, Environment, NodeId, Observer, Program, Sinks};
use port::{Packet, Pool};
use wire::{Class, Reason};

use crate::PlaneError;
use elements::router::standard::{Standard, instance};

/// Packet memory for a frame, its fragments and its answer.
const CHUNKS: usize = 128;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The element.
    pub element: String,
    /// What happened there.
    pub what: What,
    /// The packet's next hop by then.
    pub next_hop: NextHopId,
    /// Its adjacency by then.
    pub adjacency: AdjacencyId,
    /// The interface that it leaves by, as far as known by then.
    pub output: InterfaceId,
}

/// What can happen at an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A packet came in.
    Entered,
    /// It was dropped.
    Dropped(Reason),
    /// It was sent; these are its bytes.
    Sent(Vec<u8>),
    /// It was handed to Linux.
    Linux(Class),
}

struct Notes {
    names: Vec<String>,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Notes {
    fn note(&self, node: NodeId, packet: &Packet, what: What) {
        let element = self.names.get(node.0).cloned().unwrap_or_default();
        let (next_hop, adjacency, output) = (packet.next_hop, packet.adjacency, packet.output);
        let event = Event { element, what, next_hop, adjacency, output };
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

impl Observer for Notes {
    fn entered(&mut self, node: NodeId, _input: usize, batch: &Batch) {
        batch.packets().iter().for_each(|packet| self.note(node, packet, What::Entered));
    }

    fn dropped(&mut self, node: NodeId, packet: &Packet, reason: Reason) {
        self.note(node, packet, What::Dropped(reason));
    }

    fn transmitted(&mut self, node: NodeId, packet: &Packet) {
        self.note(node, packet, What::Sent(packet.to_vec()));
    }

    fn punted(&mut self, node: NodeId, packet: &Packet, class: Class) {
        self.note(node, packet, What::Linux(class));
    }
}

/// Runs a frame that came in by `input` through a worker's graph. Replaces the calling thread's
/// packet pool.
pub fn trace_packet(
    program: &Program,
    environment: &Environment,
    input: InterfaceId,
    frame: &[u8],
    ports: &[PortId],
) -> Result<Vec<Event>, PlaneError> {
    Pool::heap(CHUNKS).install();
    let Standard { mut graph, entry } = instance(program, environment)?;
    graph.listen(Box::new(|_| {}));
    let events = Arc::new(Mutex::new(Vec::new()));
    let names = graph.description().nodes.iter().map(|node| node.name.clone()).collect();
    graph.observe(Some(Box::new(Notes { names, events: events.clone() })));
    let mut sinks = Sinks::new();
    ports.iter().for_each(|port| sinks.open(*port));
    let mut batch = Batch::new();
    if let Some(mut packet) = Packet::new(frame) {
        packet.input = input;
        // A new batch has room.
        let _ = batch.push(packet);
    }
    graph.run(entry, &mut batch, &mut sinks);
    drop(graph);
    Ok(std::mem::take(&mut *events.lock().unwrap_or_else(PoisonError::into_inner)))
}
