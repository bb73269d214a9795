//! sFlow: packets sampled, and what each collector got.

use serde::{Deserialize, Serialize};

use super::Subject;
use super::flow_log::{FlowLogOutput, outputs};
use crate::command::table::Table;
use crate::daemon::Control;
use crate::screen::units::count;

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

impl Subject for Option<SflowStatus> {
    const NAME: &'static str = "sflow";
    const ABOUT: &'static str = "sFlow: packets sampled, and what each collector got";

    fn answer(control: &mut Control) -> Result<Self, String> {
        Ok(control.parts.sampler.status())
    }

    fn table(&self) -> String {
        let Some(status) = self else {
            return "no packets are sampled: [sflow] in router.toml begins it\n".to_owned();
        };
        let mut facts = Table::new(&["sFlow", ">packets"]);
        for (name, value) in [
            ("one packet is sampled of", u64::from(status.sample)),
            ("could have been sampled", status.seen),
            ("samples lost: the sender's queue was full", status.lost),
        ] {
            facts.row(vec![name.to_owned(), count(value)]);
        }
        [facts.render(), outputs(&status.collectors)].join("\n")
    }
}
