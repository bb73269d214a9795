//! Files: a journal that takes records as they come, and Parquet files that are made of journals.
//!
//! A Parquet file is read from its end, so one that is still being written is not readable, and a
//! crash would take all of it. Hence two steps. Records go into a *journal*: blocks with a length
//! and a checksum, each complete when it is written (at most a second after the record came). When
//! it is old or large enough a new one begins, and the old one is *sealed*: turned into Parquet
//! under a temporary name, forced to the disk, renamed, and only then is the journal removed. What
//! a crash leaves is journals, and they are sealed at the next start: recovery is the same act as
//! rotation, only later. `bifrost flows` reads journals as well, the one being written included.
//!
//! What it costs: records are written twice (the journal compressed by zstd's fastest level), in
//! return for files that are as large and as well compressed as readers want them.
//!
//! **What survives what.** The end of the program, by whatever signal: all but the last second.
//! Loss of power: all but the last `sync` (fdatasync of the journal; 5 s), for a Parquet file is
//! forced to the disk before its journal goes. A torn or damaged block ends a journal; what stands
//! before it is kept.
//!
//! **Disk full.** Records that cannot be written are counted as lost, and the place is tried again
//! with the next ones. Sealing that fails leaves the journal as it is, and is tried again every
//! half minute.
//!
//! **A wrong clock.** Files begin by a clock that cannot be set; they are removed for their age
//! only by a calendar that has run evenly for an hour, and those that are not in their order, for
//! the calendar was set back, are looked into by whoever asks.
//!
//! Names: `flows-20261121T174500.000000Z.journal`, `.parquet`: when the first record came, UTC.
//! `flows.lock` is held by the router that writes here.

pub mod columns;
pub mod journal;
pub mod listing;
mod pages;
pub mod read;
pub mod seal;
mod sealer;
#[cfg(test)]
mod tests;
mod writer;

pub use writer::{OpenError, Store};

/// The file that is held by whoever writes to a directory.
pub(crate) const LOCK: &str = "flows.lock";
