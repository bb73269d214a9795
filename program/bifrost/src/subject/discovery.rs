//! Router discovery: what hosts are told, and which other routers tell them something.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Subject;
use crate::command::table::Table;
use crate::daemon::Control;
use crate::screen::units::count;

/// What hosts on an interface are told for one family. Counters are since it was configured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiscoveryStatus {
    /// Its name in the configuration.
    pub name: String,
    /// The interface.
    pub interface: String,
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Why nothing is said.
    pub silent: Option<String>,
    /// The address that it is said from.
    pub from: Option<IpAddr>,
    /// As a default router: of IPv4 the highest number of its addresses, or `never`; of IPv6 `low`,
    /// `medium`, `high`, or `none`.
    pub preference: String,
    /// Seconds for which hosts use this router; 0: they do not.
    pub lifetime: u16,
    /// What is tracked and not there.
    pub lacks: Vec<String>,
    /// Advertisements to all hosts.
    pub sent: u64,
    /// Solicitations of hosts.
    pub asked: u64,
    /// Advertisements to single hosts.
    pub answered: u64,
    /// Solicitations of hosts that are not of the interface's networks.
    pub refused: u64,
    /// Other routers heard there.
    pub others: Vec<OtherRouter>,
}

/// Another router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OtherRouter {
    /// Its address.
    pub address: IpAddr,
    /// As of this one.
    pub preference: String,
    /// Seconds for which hosts still use it.
    pub lifetime: u64,
    /// What it says otherwise that routers of one link should say alike.
    pub otherwise: Option<String>,
}

impl Subject for Vec<DiscoveryStatus> {
    const NAME: &'static str = "discovery";
    const ALIASES: &'static [&'static str] = &["irdp", "radv"];
    const ABOUT: &'static str =
        "Router discovery: what hosts are told of this router, and other routers heard";

    fn answer(control: &mut Control) -> Result<Self, String> {
        control.parts.discovery.status()
    }

    fn table(&self) -> String {
        if self.is_empty() {
            return "no host is told of this router: [discovery.NAME] in router.toml begins it\n".to_owned();
        }
        let columns = [
            "name",
            "interface",
            "family",
            "from",
            ">preference",
            ">lifetime",
            ">sent",
            ">asked",
            "others",
            "state",
        ];
        let mut table = Table::new(&columns);
        for one in self {
            let lacks: Vec<String> = one.lacks.iter().map(|lack| format!("{lack} is not there")).collect();
            let state = match &one.silent {
                Some(silent) => silent.clone(),
                None if lacks.is_empty() => "told".to_owned(),
                None => lacks.join("; "),
            };
            let others = one.others.iter().map(|other| format!("{} ({})", other.address, other.preference));
            let others: Vec<String> = others.collect();
            table.row(vec![
                one.name.clone(),
                one.interface.clone(),
                one.family.clone(),
                one.from.map_or("-".to_owned(), |from| from.to_string()),
                one.preference.clone(),
                notation::lasting(one.lifetime.into(), " "),
                count(one.sent),
                count(one.asked),
                if others.is_empty() { "-".to_owned() } else { others.join(", ") },
                state,
            ]);
        }
        table.render()
    }
}
