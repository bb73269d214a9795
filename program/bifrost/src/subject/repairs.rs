//! Gateways that have a backup, and whether packets go by it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Subject;
use crate::command::table::Table;
use crate::daemon::Control;

/// A gateway with a backup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RepairStatus {
    /// The gateway that routes name, as in the configuration.
    pub gateway: String,
    /// Who takes its place, as in the configuration.
    pub backup: String,
    /// The interface to the backup; none: it is on no link of an interface that is up.
    pub by: Option<String>,
    /// Whether BFD has lost the gateway.
    pub lost: bool,
    /// Next hops that lead to the gateway while it is there. Routes with the same ways share one.
    pub next_hops: usize,
    /// How many of these do without it now.
    pub repaired: usize,
}

impl Subject for Vec<RepairStatus> {
    const NAME: &'static str = "repairs";
    const ABOUT: &'static str = "gateways with a backup, and whether packets go by it now";

    fn answer(control: &mut Control) -> Result<Self, String> {
        let forwarding = &control.forwarding;
        let model = forwarding.mirror.model();
        let of = |repair: &config::Repair| {
            let address: IpAddr = repair.gateway.address;
            let wanted = forwarding.backup(repair);
            let by = wanted.and_then(|(_, (ifindex, _))| model.links.by_index(ifindex));
            let (next_hops, repaired) =
                wanted.map_or((0, 0), |(gateway, _)| forwarding.mirror.next_hops_by(gateway));
            RepairStatus {
                gateway: repair.gateway.to_string(),
                backup: repair.backup.to_string(),
                by: by.filter(|link| link.up).map(|link| link.name.clone()),
                lost: model.gateways.lost.iter().any(|lost| lost.address == address),
                next_hops,
                repaired,
            }
        };
        Ok(forwarding.router.repairs.iter().map(of).collect())
    }

    fn table(&self) -> String {
        if self.is_empty() {
            return "no gateway has a backup: [[repair]] in router.toml gives it one\n".to_owned();
        }
        let mut table = Table::new(&["gateway", "backup", "by", ">next hops", ">repaired", "remarks"]);
        for one in self {
            let remarks = match (one.lost, &one.by) {
                (_, None) => "the backup is on no link that is up",
                (true, _) => "lost",
                (false, _) if one.repaired > 0 => "does not answer",
                (false, _) => "-",
            };
            table.row(vec![
                one.gateway.clone(),
                one.backup.clone(),
                one.by.clone().unwrap_or_else(|| "-".to_owned()),
                one.next_hops.to_string(),
                one.repaired.to_string(),
                remarks.to_owned(),
            ]);
        }
        table.render()
    }
}
