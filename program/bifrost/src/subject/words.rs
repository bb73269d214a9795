//! What several subjects say: lanes, traffic, rates.

use serde::{Deserialize, Serialize};

/// The path that a packet takes through the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Forwarded by the program in the driver.
    Express,
    /// Forwarded by a worker's graph.
    Worker,
    /// Handed to Linux: for this machine, or what only Linux can complete.
    Linux,
}

impl Lane {
    /// The JSON name.
    pub fn name(self) -> &'static str {
        match self {
            Lane::Express => "express",
            Lane::Worker => "worker",
            Lane::Linux => "linux",
        }
    }
}

/// Packets and bytes; bytes are frame bytes without preamble, FCS and gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Frame bytes.
    pub bytes: u64,
}

impl From<fib::Count> for Traffic {
    fn from(count: fib::Count) -> Traffic {
        Traffic { packets: count.packets, bytes: count.bytes }
    }
}

impl std::ops::Add for Traffic {
    type Output = Traffic;
    fn add(self, other: Traffic) -> Traffic {
        Traffic {
            packets: self.packets.saturating_add(other.packets),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// Traffic by the lane that it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lanes {
    /// By the program in the driver.
    pub express: Traffic,
    /// By the workers.
    pub worker: Traffic,
    /// By Linux.
    pub linux: Traffic,
}

impl Lanes {
    /// The lanes together.
    pub fn total(&self) -> Traffic {
        self.express + self.worker + self.linux
    }
}

/// A rate over about the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Packets a second.
    pub packets_per_second: f64,
    /// Bits a second of frame bytes (no preamble, FCS or gap).
    pub bits_per_second: f64,
}

/// The word of an enumeration, as in the JSON.
pub(crate) fn word<T: Serialize>(value: T) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
