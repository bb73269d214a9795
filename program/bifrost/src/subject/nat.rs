//! Address translation: rules, outside addresses, mappings.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Subject;
use crate::command::flows::end;
use crate::command::table::Table;
use crate::control::Protocol;
use crate::daemon::Control;
use crate::screen::units::count;

/// Mappings shown.
const SHOWN: usize = 100;

/// Address translation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Translation {
    /// Its rules, in order.
    pub rules: Vec<NatRule>,
    /// Outside addresses in use.
    pub pools: Vec<NatPool>,
    /// Mappings there are.
    pub mappings: u64,
    /// Flows that were found to be on the books of mappings and nowhere else, and given up.
    pub repaired: u64,
    /// The first of them, at most a hundred.
    pub shown: Vec<NatMapping>,
}

/// A rule of address translation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NatRule {
    /// Its name.
    pub name: String,
    /// Its type.
    pub action: String,
    /// Flows translated by it.
    pub flows: u64,
    /// Mappings made.
    pub mappings: u64,
    /// Flows refused since no port was free.
    pub exhausted: u64,
    /// Mappings that one host may have; absent: any number, or the rule gives out none.
    pub host_limit: Option<u32>,
    /// Flows refused since the host had its share.
    pub limited: u64,
    /// Flows refused for other reasons.
    pub refused: u64,
}

/// An outside address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NatPool {
    /// The address.
    pub address: Option<IpAddr>,
    /// Ports taken, by protocol.
    pub taken: Vec<NatTaken>,
}

/// Ports of an outside address that are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NatTaken {
    /// Protocol number.
    pub protocol: u8,
    /// How many ports, or identifiers.
    pub ports: u32,
}

/// What stands for a host's address and port outside.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NatMapping {
    /// The rule that made it; absent when it is gone.
    pub rule: Option<String>,
    /// Protocol number.
    pub protocol: u8,
    /// The host.
    pub inside: Option<IpAddr>,
    /// Its port or identifier.
    pub inside_port: u16,
    /// What stands for it.
    pub outside: Option<IpAddr>,
    /// The port or identifier there.
    pub outside_port: u16,
    /// Live flows.
    pub flows: u32,
}

impl Subject for Translation {
    const NAME: &'static str = "nat";
    const ABOUT: &'static str = "Address translation: rules, outside addresses, mappings";

    fn answer(control: &mut Control) -> Result<Self, String> {
        let nat = control.forwarding.plane.policy().nat();
        Ok(nat.map(|nat| translation(nat, control.nat_audit.repaired)).unwrap_or_default())
    }

    fn table(&self) -> String {
        if self.rules.is_empty() {
            return "no rules: nothing is translated\n".to_owned();
        }
        let mut rules = Table::new(&[
            "rule",
            "type",
            ">flows",
            ">mappings",
            ">exhausted",
            ">host limit",
            ">limited",
            ">refused",
        ]);
        for rule in &self.rules {
            let limit = rule.host_limit.map_or("-".to_owned(), |limit| count(limit.into()));
            let before = [rule.flows, rule.mappings, rule.exhausted].map(count);
            let behind = [rule.limited, rule.refused].map(count);
            let words = [rule.name.clone(), rule.action.clone()].into_iter().chain(before);
            rules.row(words.chain([limit]).chain(behind).collect());
        }
        let mut pools = Table::new(&["address", "ports taken"]);
        for pool in &self.pools {
            let words =
                |taken: &NatTaken| format!("{} {}", Protocol(taken.protocol), count(u64::from(taken.ports)));
            let taken: Vec<String> = pool.taken.iter().map(words).collect();
            pools.row(vec![end(pool.address, 0), taken.join(", ")]);
        }
        let mut mappings = Table::new(&["protocol", "inside", "outside", ">flows", "rule"]);
        for mapping in &self.shown {
            mappings.row(vec![
                Protocol(mapping.protocol).to_string(),
                end(mapping.inside, mapping.inside_port),
                end(mapping.outside, mapping.outside_port),
                count(u64::from(mapping.flows)),
                mapping.rule.clone().unwrap_or_else(|| "-".to_owned()),
            ]);
        }
        let repaired = match self.repaired {
            0 => String::new(),
            flows => format!("; {} flows given up whose end was lost", count(flows)),
        };
        let total = format!("{} of {} mappings{repaired}\n", self.shown.len(), count(self.mappings));
        [rules.render(), pools.render(), mappings.render(), total].join("\n")
    }
}

/// What there is to say of address translation.
fn translation(nat: &nat::Nat, repaired: u64) -> Translation {
    let rules = nat.rules().into_iter().map(|rule| NatRule {
        name: rule.name,
        action: rule.action.to_owned(),
        flows: rule.flows,
        mappings: rule.mappings,
        exhausted: rule.exhausted,
        host_limit: rule.host_limit,
        limited: rule.limited,
        refused: rule.refused,
    });
    let pools = nat.pools().into_iter().map(|pool| NatPool {
        address: Some(pool.address),
        taken: pool.taken.into_iter().map(|(protocol, ports)| NatTaken { protocol, ports }).collect(),
    });
    let mut shown = Vec::new();
    nat.each_mapping(|mapping| {
        if shown.len() < SHOWN {
            shown.push(NatMapping {
                rule: mapping.rule,
                protocol: mapping.protocol,
                inside: Some(mapping.inside),
                inside_port: mapping.inside_port,
                outside: Some(mapping.outside),
                outside_port: mapping.outside_port,
                flows: mapping.flows,
            });
        }
    });
    Translation {
        rules: rules.collect(),
        pools: pools.collect(),
        mappings: nat.len() as u64,
        repaired,
        shown,
    }
}
