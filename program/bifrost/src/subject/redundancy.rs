//! Virtual routers: who is active, and why.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use wire::Mac;

use super::Subject;
use crate::command::table::Table;
use crate::daemon::Control;
use crate::screen::units::count;

/// What a virtual router is on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedundancyState {
    /// It takes no part.
    #[default]
    Initialize,
    /// It waits.
    Backup,
    /// It answers for the addresses.
    Active,
}

/// A virtual router. Counters are since it was configured as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VirtualRouterStatus {
    /// Its name in the configuration.
    pub name: String,
    /// The interface that it is on.
    pub interface: String,
    /// Its number there.
    pub id: u8,
    /// What it is.
    pub state: RedundancyState,
    /// Seconds since it became that.
    pub since: u64,
    /// Why it is that.
    pub why: String,
    /// Its priority now, less what is lost with what is tracked; 0: it cannot be active.
    pub priority: u8,
    /// What is tracked and not there.
    pub lacks: Vec<String>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Its link address.
    pub mac: Mac,
    /// The active router, if one is known: this one's own address, or another's.
    pub active: Option<IpAddr>,
    /// The priority that that one was heard with.
    pub active_priority: Option<u8>,
    /// The word of those that move together with it.
    pub sync: Option<String>,
    /// It was released: it takes over from nobody who is active.
    pub released: bool,
    /// How often its state has changed.
    pub changes: u64,
    /// Advertisements sent.
    pub sent: u64,
    /// Advertisements received and believed.
    pub received: u64,
    /// Advertisements received and not believed, by reason.
    pub refused: BTreeMap<String, u64>,
}

impl Subject for Vec<VirtualRouterStatus> {
    const NAME: &'static str = "redundancy";
    const ALIASES: &'static [&'static str] = &["vrrp"];
    const ABOUT: &'static str = "Virtual routers (VRRP): who is active, and why";

    fn answer(control: &mut Control) -> Result<Self, String> {
        control.parts.redundancy.status()
    }

    fn table(&self) -> String {
        if self.is_empty() {
            return "nothing is redundant: [vrrp.NAME] in router.toml begins it\n".to_owned();
        }
        let columns =
            ["name", "interface", ">id", "state", ">since", ">priority", "active", ">refused", "why"];
        let mut table = Table::new(&columns);
        for router in self {
            let state = serde_json::to_value(router.state).ok();
            let mut state = state.as_ref().and_then(|word| word.as_str()).unwrap_or_default().to_owned();
            if router.released {
                state += ", released";
            }
            let active = match (router.active, router.active_priority) {
                (Some(active), Some(priority)) => format!("{active} ({priority})"),
                _ => "-".to_owned(),
            };
            let lacks: String = router.lacks.iter().map(|lack| format!("; {lack} is not there")).collect();
            table.row(vec![
                router.name.clone(),
                router.interface.clone(),
                router.id.to_string(),
                state,
                notation::lasting(router.since, " "),
                router.priority.to_string(),
                active,
                count(router.refused.values().sum()),
                format!("{}{lacks}", router.why),
            ]);
        }
        table.render()
    }
}
