//! The flow table: one lookup a packet for state, verdict, NAT and accounting.
//!
//! ```text
//! packet --Tuple, Key--> two buckets --> entry: how far the flow is, its translation, what rules decided, what it carried
//! ```
//!
//! A [`Table`] is shared by all workers; each thread has a [`Worker`] of it. For every batch:
//!
//! 1. [`Worker::tuple`] and [`Key::of`] for each packet, then [`Worker::lookup`] for all: their
//!    cache misses overlap.
//! 2. [`Worker::track`] for each packet that has a flow: TCP's state and windows, timeouts, packets
//!    and bytes. What has none is new or invalid ([`Worker::opens`]), or an ICMP error that belongs
//!    to the flow it quotes ([`Worker::related`]).
//! 3. [`Worker::insert`] for new ones that are let through, with their translation if they have
//!    one.
//! 4. [`Worker::maintain`]: what has ended is accounted for, what has been idle for too long ends,
//!    room is made.
//!
//! What the rooms above know of a flow (verdict, rule, generation of the rules) is one `u32` for
//! each direction that the table does not look into: [`Worker::decision`].
//!
//! # Why one table, and not one for each worker
//!
//! The two directions of a connection come by different queues: NICs hash source and destination
//! apart, and a translation makes sure of it. With a table for each worker, half of the packets
//! would be handed to another worker and wait there for its next batch. A shared table costs what
//! it costs to look up and to count in lines that another core has written, and that hides behind
//! the prefetches of a batch like any other miss: two workers that carry one direction each of the
//! same 200,000 flows were measured to need no more cycles a packet than two with flows of their
//! own. Lookups take no lock, and neither do state and counters: what a direction counts, one
//! worker writes (see `entry`). Who inserts locks one bucket for a few dozen instructions.
//!
//! # Bounds
//!
//! Memory is mapped once, 119 bytes a flow with everything counted, and never grows; nothing is
//! allocated for a packet. A lookup probes two cache lines at most, whatever keys an attacker
//! chooses (see `hash`). When the table is full, flows that both sides want outlive any number of
//! new ones (see `sweep`). Upkeep is done between batches in steps of a few microseconds.
//!
//! # What is not remembered
//!
//! - Selective acknowledgements: without them a window is at most a little narrower than the ends
//!   see it, never wrong.
//! - SPIs of ESP and AH, since each direction has its own: two hosts have one ESP flow.
//! - Whether an ICMP echo is a request or a reply: both directions of one identifier are one flow.

mod account;
mod begun;
mod counters;
mod driver;
mod entry;
mod error;
mod found;
mod fragments;
mod grace;
mod hash;
mod index;
mod insert;
mod key;
mod key4;
mod leaving4;
mod lookup;
mod memory;
mod own;
mod plain;
mod pool;
pub mod sample;
mod settings;
mod snapshot;
mod state;
mod sweep;
mod table;
pub mod tcp;
mod track;
mod tuple;
mod worker;

pub use account::Account;
pub use begun::Asker;
pub use counters::Counters;
pub use driver::DriverMemory;
pub use error::{Error, Refused};
pub use key::Key;
pub use key4::Keys4;
pub use leaving4::{Change, Correction, Leaving4, Leavings4};
pub use memory::Sizes;
pub use plain::{Prospects, Spots};
pub use settings::{Settings, Timeouts};
pub use snapshot::Snapshot;
pub use state::{End, Phase, State};
pub use table::Table;
pub use track::{Tracked, is_error};
pub use tuple::{Direction, Tuple};
pub use worker::{BATCH, Hit, Inserted, Opening, Presence, Worker};

/// Stands for a port that is not known.
pub const NO_PORT: u16 = abi::fib::INTERFACES;
