//! Neighbours on the ports.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Subject;
use crate::command::table::{Table, or_dash};
use crate::daemon::Control;

/// One neighbour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// Interface.
    pub dev: String,
    /// Hardware address, when known.
    pub mac: Option<String>,
    /// Linux's name for its state: `reachable`, `stale`, `failed`, ...
    pub state: String,
    /// The plane's tables have an entry for it.
    pub programmed: bool,
}

impl Subject for Vec<Neighbour> {
    const NAME: &'static str = "neighbours";
    const ABOUT: &'static str = "Neighbours on the ports";
    const ALIASES: &'static [&'static str] = &["neighbors"];

    fn answer(control: &mut Control) -> Result<Self, String> {
        Ok(control.forwarding.neighbours())
    }

    fn table(&self) -> String {
        let mut table = Table::new(&["address", "port", "mac", "state", "in table"]);
        for neighbour in self {
            table.row(vec![
                neighbour.address.to_string(),
                neighbour.dev.clone(),
                or_dash(&neighbour.mac),
                neighbour.state.clone(),
                if neighbour.programmed { "yes" } else { "no" }.to_owned(),
            ]);
        }
        table.render()
    }
}
