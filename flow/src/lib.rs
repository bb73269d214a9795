//! The flow table: one lookup a packet for state, verdict, NAT and accounting.

mod account;
mod counters;
mod entry;
mod error;
mod found;
mod fragments;
mod grace;
mod hash;
mod index;
mod insert;
mod key;
mod lookup;
mod memory;
mod own;
mod pool;
mod settings;
mod snapshot;
mod state;
mod sweep;
mod table;
pub mod tcp;
mod track;
mod tuple;
mod worker;

pub use account::{Account, Deltas};
pub use counters::Counters;
pub use error::{Error, Refused};
pub use key::Key;
pub use settings::{Settings, Timeouts};
pub use snapshot::Snapshot;
pub use state::{End, Phase, State};
pub use table::Table;
pub use track::{Tracked, is_error};
pub use tuple::{Direction, Tuple};
pub use worker::{BATCH, Hit, Inserted, Opening, Worker};

/// Stands for a port that is not known.
pub const NO_PORT: u16 = 0xfff;
