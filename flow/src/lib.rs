//! The flow table: one lookup a packet for state, verdict, NAT and accounting.

mod account;
mod settings;
mod state;
mod tuple;

pub use account::{Account, Deltas};
pub use settings::{Settings, Timeouts};
pub use state::{End, Phase, State};
pub use tuple::{Direction, Tuple};

/// Stands for a port that is not known.
pub const NO_PORT: u16 = 0xfff;
