//! The filter's rules, with what they matched.

use elements::router::Rulebook;
use rules::{Hook, Policy, RuleId};
use serde::{Deserialize, Serialize};

use super::Subject;
use crate::command::table::Table;
use crate::daemon::Control;
use crate::screen::units::{self, count};

/// A chain of the filter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FilterChain {
    /// Its name.
    pub chain: String,
    /// What becomes of what no rule decides: `accept`, `drop`; `return` in a chain that others jump
    /// to.
    pub policy: String,
    /// Its rules.
    pub rules: Vec<FilterRule>,
}

/// A rule of the filter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FilterRule {
    /// As it is written.
    pub rule: String,
    /// Its name.
    pub name: Option<String>,
    /// Where it stands.
    pub place: String,
    /// Packets that it matched.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Seconds since the last one; absent: none yet.
    pub last_hit_seconds: Option<f64>,
}

impl Subject for Vec<FilterChain> {
    const NAME: &'static str = "filter";
    const ABOUT: &'static str = "The filter's rules with what they matched";

    fn answer(control: &mut Control) -> Result<Self, String> {
        let book = control.forwarding.plane.policy().book();
        book.fold();
        Ok(chains(book))
    }

    fn table(&self) -> String {
        let mut text = String::new();
        for chain in self.iter().filter(|chain| !chain.rules.is_empty() || chain.policy == "drop") {
            text += &format!("chain {} policy {}\n", chain.chain, chain.policy);
            let mut rows = Table::new(&[">packets", ">bytes", ">last hit", "rule"]);
            for rule in &chain.rules {
                let last =
                    rule.last_hit_seconds.map_or("-".to_owned(), |ago| units::time(ago as u64) + " ago");
                let name = rule.name.as_ref().map(|name| format!(" name {name}")).unwrap_or_default();
                rows.row(vec![count(rule.packets), count(rule.bytes), last, rule.rule.clone() + &name]);
            }
            text += &rows.render();
        }
        if text.is_empty() { "no rules: everything passes\n".to_owned() } else { text }
    }
}

fn chains(book: &Rulebook) -> Vec<FilterChain> {
    let (compiled, _) = book.current();
    let now = graph::steady_now();
    let mut number = 0;
    let chains = compiled.filter().chains.iter().enumerate().map(|(place, chain)| FilterChain {
        chain: chain.name.clone(),
        policy: match chain.policy {
            _ if place >= Hook::ALL.len() => "return",
            Policy::Accept => "accept",
            Policy::Drop => "drop",
        }
        .to_owned(),
        rules: (chain.rules.iter())
            .map(|rule| {
                let counter = compiled.accounts().counter(RuleId(number));
                number += 1;
                FilterRule {
                    rule: rule.to_string(),
                    name: rule.name.clone(),
                    place: rule.place.to_string(),
                    packets: counter.packets,
                    bytes: counter.bytes,
                    last_hit_seconds: (counter.last != 0)
                        .then(|| now.saturating_sub(counter.last) as f64 / 1e9),
                }
            })
            .collect(),
    });
    chains.collect()
}
