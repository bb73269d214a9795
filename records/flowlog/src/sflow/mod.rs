//! sFlow version 5 (sflow.org, sflow_version_5.txt): sampled packets and interface counters.
//!
//! It is no flow log: one packet in N leaves as its first bytes, with where it came from and went
//! to, and the collector estimates the rest. Workers choose packets ([`flow::sample`]); the
//! [`Agent`]'s thread makes datagrams of samples and counters.

mod agent;
mod datagram;
#[cfg(test)]
mod tests;

pub use agent::{Agent, AgentCount};
pub use datagram::{Datagrams, DirectionCounters, InterfaceCounters, Source};
