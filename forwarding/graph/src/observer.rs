//! Following packets through the graph, for trace and capture.

use port::Packet;
use wire::{Class, Reason};

use crate::{Batch, NodeId};

/// Told of every step while it is set ([`Graph::observe`](crate::Graph::observe)); without one,
/// each step costs a branch that is always predicted. It runs on the worker's thread: it must not
/// block.
///
/// A packet is recognised from one step to the next by the address of its bytes' chunk
/// (`packet.data().as_ptr() as usize / port::CHUNK`), which it keeps until it is freed.
pub trait Observer: Send {
    /// A batch enters a node.
    fn entered(&mut self, node: NodeId, input: usize, batch: &Batch);

    /// A node drops a packet.
    fn dropped(&mut self, _node: NodeId, _packet: &Packet, _reason: Reason) {}

    /// A node transmits a packet, by `packet.output`.
    fn transmitted(&mut self, _node: NodeId, _packet: &Packet) {}

    /// A node hands a packet to Linux.
    fn punted(&mut self, _node: NodeId, _packet: &Packet, _class: Class) {}
}
