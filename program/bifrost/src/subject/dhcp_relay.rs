//! The relay of DHCP: whose questions are passed to which servers.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Subject;
use crate::command::table::Table;
use crate::daemon::Control;
use crate::screen::units::count;

/// An interface whose hosts are relayed, for one family. Counters are since it was configured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DhcpRelayStatus {
    /// The section's name.
    pub name: String,
    /// The interface.
    pub interface: String,
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Why nothing is relayed.
    pub silent: Option<String>,
    /// The address by which servers know the link; of IPv6 there may be none.
    pub address: Option<IpAddr>,
    /// Who is asked.
    pub servers: Vec<IpAddr>,
    /// Hosts' messages that servers were sent.
    pub asked: u64,
    /// Servers' messages that hosts were sent.
    pub answered: u64,
    /// Messages that must not be relayed.
    pub refused: u64,
    /// Those that could not be sent: there is no route to any server, or the host's link is down.
    pub lost: u64,
}

impl Subject for Vec<DhcpRelayStatus> {
    const NAME: &'static str = "dhcp-relay";
    const ALIASES: &'static [&'static str] = &["helper"];
    const ABOUT: &'static str = "The relay of DHCP: interfaces, servers, and what was relayed";

    fn answer(control: &mut Control) -> Result<Self, String> {
        control.parts.dhcp_relay.status()
    }

    fn table(&self) -> String {
        if self.is_empty() {
            return "DHCP is not relayed: [dhcp_relay.NAME] in router.toml begins it\n".to_owned();
        }
        let columns = [
            "name",
            "interface",
            "family",
            "address",
            ">asked",
            ">answered",
            ">refused",
            ">lost",
            "servers",
            "state",
        ];
        let mut table = Table::new(&columns);
        for one in self {
            let servers: Vec<String> = one.servers.iter().map(ToString::to_string).collect();
            table.row(vec![
                one.name.clone(),
                one.interface.clone(),
                one.family.clone(),
                one.address.map_or("-".to_owned(), |own| own.to_string()),
                count(one.asked),
                count(one.answered),
                count(one.refused),
                count(one.lost),
                servers.join(", "),
                one.silent.clone().unwrap_or_else(|| "relays".to_owned()),
            ]);
        }
        table.render()
    }
}
