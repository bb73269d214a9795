//! Traffic: streams of packets made at a wanted rate, and what arrives of them counted, ordered and
//! timed.
//!
//! A [`Stream`] says what is sent: sizes, rate, flows, headers. A [`Trial`] sends streams out of
//! one [`Port`], receives them by another, and gives a [`Report`]. What is between the two ports is
//! the device under test.
//!
//! ```text
//! Stream --compile--> Plan --+--> sender  (packets over port::Queue, in batches)  --+
//!                            +--> live    (the kernel's XDP live frames)          --+--> device under test
//!                                                                                   |
//! Report <--- Tally <--------+--- sink    (packets over port::Queue)          <-----+
//!                            +--- live    (an XDP program that counts)        <-----+
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`stream`], [`size`], [`rate`], [`range`] | the model: the same from a file and from flags |
//! | [`plan`] | a stream compiled: headers of its flows, its sizes, its gaps |
//! | [`stamp`] | what each packet carries for the sink |
//! | [`maker`] | packets from a plan |
//! | [`schedule`] | when each packet is due, and how far from it packets left |
//! | [`sequence`] | loss, duplicates and reordering (RFC 4737) |
//! | [`tally`] | what a sink knows of a stream |
//! | [`port`] | where packets go and come from |
//! | [`trial`] | both ends, run together |
//! | [`control`] | two machines |
//! | [`report`] | what came out |
//!
//! ## Latency without flattery
//!
//! A generator that stamps a packet when it happens to send it measures what the device did to
//! packets that it managed to send. When the device (or the generator) stalls, the packets that
//! should have been sent meanwhile are not there to suffer, and the percentiles look far better
//! than what a user sees: *coordinated omission*. Here the schedule is fixed beforehand, every
//! packet carries the time at which it was **due**, and latency is arrival minus that. A packet
//! that left late is late. How late packets left is reported beside it
//! ([`report::StreamReport::spacing`] and [`report::StreamReport::lateness`]), so that a
//! generator's own faults are not taken for the device's. Streams without a schedule (rate `max`)
//! have no due times; they carry the time at which their batch was made.

mod assembly;
mod contradiction;
pub mod control;
mod error;
pub mod histogram;
mod lane;
mod live;
pub mod maker;
mod outage;
mod payload;
mod pipe;
pub mod plan;
pub mod port;
mod program_cache;
mod random;
pub mod range;
pub mod rate;
mod receiving;
mod replay;
pub mod report;
pub mod schedule;
mod sending;
pub mod sequence;
mod sink;
pub mod size;
mod source;
pub mod stamp;
pub mod stream;
pub mod tally;
mod text;
pub mod trial;

pub use control::Control;
pub use error::TrafficError;
pub use histogram::Distribution;
pub use notation::seconds as duration;
pub use outage::Broken;
pub use port::Port;
pub use report::{Count, Reordering, Report, StreamReport};
pub use stream::Stream;
pub use tally::Tally;
pub use trial::{Running, Trial};
