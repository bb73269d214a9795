//! What is said of the flow log. Names are documented in `docs/json.md` and stable.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The flow log. Counters are since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowLogStatus {
    /// Where its files are; absent: there are none.
    pub directory: Option<PathBuf>,
    /// One flow in so many is logged.
    pub sample: u32,
    /// Ends of flows that no worker could report, for too many were waiting: flows lost.
    pub missed: u64,
    /// Records offered: flows that ended, and slices of long ones.
    pub offered: u64,
    /// Of these, not chosen by sampling.
    pub unsampled: u64,
    /// Of these, lost because too many were waiting.
    pub lost: u64,
    /// Given to every output.
    pub taken: u64,
    /// Long flows of which something was logged already.
    pub remembered: u64,
    /// Where they went.
    pub outputs: Vec<FlowLogOutput>,
}

/// A way out of the flow log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowLogOutput {
    /// Which: `ipfix udp 192.0.2.9:4739`, `files /var/lib/bifrost/flows`, and `parquet` with what was sealed of these.
    pub name: String,
    /// Records it was given.
    pub given: u64,
    /// Records that left by it.
    pub records: u64,
    /// Datagrams, messages or blocks that they left in.
    pub units: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Records lost, by reason: `queue`, `send`, `connection`, `disk`.
    pub lost: BTreeMap<String, u64>,
    /// How often something went wrong, with or without loss.
    pub faults: u64,
    /// The latest of these.
    pub last_fault: Option<String>,
}

/// sFlow. Counters are since it was started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SflowStatus {
    /// One packet in so many is sampled.
    pub sample: u32,
    /// Packets that could have been sampled, of the ports and workers that there are.
    pub seen: u64,
    /// Samples that found the queue to the sender full.
    pub lost: u64,
    /// Collectors; a record is a sample or a port's counters.
    pub collectors: Vec<FlowLogOutput>,
}
