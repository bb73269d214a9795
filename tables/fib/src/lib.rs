//! Longest-prefix match, next hops, adjacencies and interfaces, read by both lanes.
//!
//! The way of a destination address through the tables, one array each:
//!
//! ```text
//! address --fib4 / fib6--> NextHopId --nexthops--> Hop --(buckets)--> AdjacencyId --adjacencies--> MAC, MTU, InterfaceId
//! ```
//!
//! Tables of routes beside the main one, VRFs', are in `beside.rs`.
//! The way of a frame to the interface that it came in by is in `interface.rs`. Groups are in
//! `multicast.rs`.
//!
//! Everything is flat: arrays of 32- or 64-bit words, indices instead of pointers, so that Rust
//! workers and the eBPF program in the driver walk the same tables. There is one writer,
//! [`Tables`], and any number of readers, each with a [`View`]. The rules that make this work
//! without locks:
//!
//! - *A reader loads single words.* Each word it can reach is at every moment a complete, valid
//!   decision.
//! - *The writer builds what is larger than a word aside*, and makes it visible by one store of one
//!   word.
//! - *What became invisible is reused only after a grace period* ([`Reader`] tells when a worker
//!   has passed one; membarrier(2) does for the driver).
//! - *Memory keeps its type*: a line stays a line and a block a block for ever, so even a reader
//!   that ignores grace periods reads only valid indices. It may be told a stale answer, but it
//!   cannot be led astray.
//!
//! Each array may exist twice: the worker's copy in huge pages, and the driver's, in the 4 KiB
//! pages of an mmapable bpf array. The writer stores to both, index for index.
//!
//! Routes name a [`NextHopId`]; what the id means is one word in `nexthops`. Redirecting or
//! withdrawing a next hop that 500,000 routes share is therefore one store.

mod beside;
mod error;
mod forward;
mod grace;
mod interface;
mod ipv4;
mod ipv6;
mod lpm;
mod mapping;
mod memory;
mod multicast;
mod routes;
mod tables;
mod traffic;
mod tunnel;
mod view;
mod word;

pub use abi::InterfaceFlags;
pub use beside::{Locality, TableId, Walk};
pub use error::FibError;
pub use forward::{Adjacency, AdjacencyId, NextHop, NextHopId, Path, PortId};
pub use grace::{Presence, Reader, wait_for_driver};
pub use interface::{InterfaceEntry, InterfaceId, Priorities, Tag, Tags};
pub use lpm::{Lpm, Lpm6, Trie};
pub use mapping::Mapping;
pub use memory::{Capacity, DriverMemory, Memory, Region, Sizes};
pub use multicast::{GroupCount, GroupEntry, GroupReader, Groups, Leaving, Multicast, mapped};
pub use tables::Tables;
pub use traffic::{Count, Counts, Traffic};
pub use tunnel::{Ends, Gre, LONGEST_HEADER, Over, Payload, Tunnel, TunnelWord, Vxlan};
pub use view::{Hops, View};
pub use word::{AdjacencyWord, Hop, HopKind, InterfaceWord, LinkWord, tags_of};
