//! What can go wrong.

use crate::Tuple;

/// Why there is no table, or no more workers.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Less memory than the smallest table needs.
    #[error(
        "a flow table of {} MiB: with so many fragments to be known it needs {} MiB; raise the memory given to flows, or know fewer",
        .bytes >> 20, .least.div_ceil(1 << 20)
    )]
    TooSmall {
        /// What was given.
        bytes: usize,
        /// What is needed.
        least: usize,
    },
    /// The system has not so much memory.
    #[error("no memory for a flow table of {bytes} bytes: {source}; lower the memory given to flows")]
    NoMemory {
        /// What was asked for.
        bytes: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// A timeout that the table's clock cannot tell.
    #[error("the timeout {name} is {seconds} s; flows can be idle for at most 6 days")]
    Timeout {
        /// Its name.
        name: &'static str,
        /// Its length.
        seconds: u64,
    },
    /// All places for workers are taken.
    #[error("the flow table has {0} workers, which is as many as it can have")]
    TooManyWorkers(usize),
}

/// Why a flow was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The packet opens nothing: see [`State::Invalid`](crate::State::Invalid).
    #[error("the packet opens no flow")]
    NotAnOpening,
    /// The table is full of flows that both sides want, and none of them is idle.
    #[error("the flow table is full")]
    Full,
    /// Another flow has this tuple as its own or as its reply: choose other ports.
    #[error("the reply tuple is in use: {0}")]
    ReplyInUse(Tuple),
}
