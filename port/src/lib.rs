//! Packet input and output: packet memory, AF_XDP rings, the programs in the driver, interfaces.
//!
//! | module | what it is |
//! |---|---|
//! | [`packet`], [`pool`] | a packet, and the memory that it lives in |
//! | [`queue`] | one (port, queue): the trait that a worker polls |

pub mod packet;
pub mod pool;
pub mod queue;

pub use packet::{CHUNK, HEADROOM, MAX_SEGMENTS, Packet};
pub use pool::Pool;
pub use queue::{Queue, QueueCounters};
