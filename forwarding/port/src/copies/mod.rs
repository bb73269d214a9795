//! Copies of the packets that pass ports, for those who watch: `bifrost tcpdump`, Wireshark, a
//! mirror port.
//!
//! What Bifrost forwards does not pass the kernel's stack, so no packet socket sees it. It is
//! copied where it is, without another way for the packet itself:
//!
//! | what passes | where it is copied |
//! |---|---|
//! | what comes in, whatever becomes of it | in front of the port's program, whose place in the link a small one takes that goes on to it |
//! | what the express lane sends | by the program that the entry of the port in `targets` names (BPF_XDP_DEVMAP) |
//! | what Linux sends | as it leaves the stack (tcx, egress) |
//! | what workers send, and what comes in by shared memory | in the worker, by whoever observes its graph |
//!
//! The first three are programs made for those who watch at this moment: the filters of all of
//! them, as code of their own, then one copy with a bit for each whose filter matched (`code.rs`).
//! It goes to user space by a perf ring for each processor (`rings.rs`), which loses copies when it
//! is full, and never a packet. When nobody watches there is none of this: not a test, not a load
//! in the way of a packet.

mod code;
mod rings;

use fib::PortId;
use wire::capture::PacketFilter;

pub use rings::{Copied, Rings};

pub(crate) use code::{Place, program};

/// Those who watch at a time at most: bits of a copy's mask.
pub const SLOTS: u32 = 32;
/// Bytes of a frame that are copied at most; a record of a perf ring has no more than 65,535.
pub const MOST: u32 = 65_000;

/// What somebody wants copies of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// Its bit in [`Copied::slots`], below [`SLOTS`].
    pub slot: u32,
    /// Which packets.
    pub filter: PacketFilter,
    /// On which ports.
    pub ports: Vec<PortId>,
    /// Of what comes in.
    pub incoming: bool,
    /// Of what leaves.
    pub outgoing: bool,
    /// Bytes of each, at most [`MOST`].
    pub snap: u32,
}

impl Want {
    /// Whether packets of this port and direction are wanted.
    pub fn includes(&self, port: PortId, outgoing: bool) -> bool {
        (if outgoing { self.outgoing } else { self.incoming }) && self.ports.contains(&port)
    }
}
