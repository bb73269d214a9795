//! sFlow version 5 (sflow.org, sflow_version_5.txt): sampled packets and interface counters.
//!
//! It is no flow log: one packet in N leaves as its first bytes, with where it came from and went to, and the collector
//! estimates the rest. A worker has a [`Sampler`] for each of its ports. To pass a batch that has no sample costs it a
//! subtraction; a sample is copied into a bounded queue. The [`Agent`]'s thread makes datagrams of samples and counters.
//!
//! How many packets lie between two samples is random, uniform from 1 to 2N - 1 (mean N), so that traffic with a
//! period of its own is still sampled fairly.

mod agent;
mod datagram;
mod sampler;
#[cfg(test)]
mod tests;

pub use agent::{Agent, AgentCount};
pub use datagram::{Datagrams, DirectionCounters, InterfaceCounters, Source};
pub use sampler::{Fate, HEADER, Sample, Sampler};
