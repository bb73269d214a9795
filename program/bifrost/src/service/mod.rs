//! What a well-behaved service does: says when it is ready and alive, stops when it is told to, and
//! logs so that both a journal and a person can read it.

mod last_resort;
mod log;
mod notify;
mod signals;
pub mod tcpdump;

pub use last_resort::LastResort;
pub use log::{init as init_log, tell_hidden};
pub use notify::Notify;
pub use signals::{Signal, Signals, Stop};
