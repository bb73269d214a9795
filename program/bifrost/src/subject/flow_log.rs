//! The flow log: what went into it, where it went, and what was lost.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Subject;
use crate::command::table::Table;
use crate::daemon::Control;
use crate::screen::units::count;

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
    /// Which: `ipfix udp 192.0.2.9:4739`, `files /var/lib/bifrost/flows`, and `parquet` with what
    /// was sealed of these.
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

impl Subject for Option<FlowLogStatus> {
    const NAME: &'static str = "flowlog";
    const ABOUT: &'static str = "The flow log: what went into it, where it went, and what was lost";
    const ASK: &'static str = "flow_log";
    const ALIASES: &'static [&'static str] = &["flow-log"];

    fn answer(control: &mut Control) -> Result<Self, String> {
        Ok(control.parts.logging.status(&control.forwarding))
    }

    fn table(&self) -> String {
        let Some(status) = self else {
            return "there is no flow log: [flow_log] in router.toml begins one\n".to_owned();
        };
        let mut facts = Table::new(&["flows", ">records"]);
        for (name, value) in [
            ("ended, or a slice of a long one", status.offered),
            ("left out by sampling", status.unsampled),
            ("given to every output", status.taken),
            ("lost: the log's queue was full", status.lost),
            ("lost: the workers' queue was full", status.missed),
        ] {
            facts.row(vec![name.to_owned(), count(value)]);
        }
        [facts.render(), outputs(&status.outputs)].join("\n")
    }
}

/// Where records went, by output.
pub(super) fn outputs(all: &[FlowLogOutput]) -> String {
    let mut table = Table::new(&["output", ">records", ">bytes", ">lost", ">faults"]);
    let mut notes = String::new();
    for output in all {
        let why: Vec<String> =
            output.lost.iter().map(|(reason, records)| format!("{reason} {}", count(*records))).collect();
        table.row(vec![
            output.name.clone(),
            count(output.records),
            count(output.bytes),
            count(output.lost.values().sum()),
            count(output.faults),
        ]);
        if !why.is_empty() {
            notes += &format!("{} lost: {}\n", output.name, why.join(", "));
        }
        if let Some(fault) = &output.last_fault {
            notes += &format!("{} latest fault: {fault}\n", output.name);
        }
    }
    table.render() + &notes
}
