//! Rules that hold down the segment size of TCP: `tcp flags syn tcp option maxseg size set rt mtu`.
//!
//! The plane does that for an interface, whatever its filter says meanwhile. So such rules are
//! adopted where they stand first in a base chain: every SYN that Linux forwards comes to them.
//! Further down rules before them may have let some pass, and they are named as what is not
//! understood.

use nat::{Clamp, ClampRule};
use rules::{Family, Flags, Interface, List, Match};
use wire::{protocol, tcp::flag};

use crate::condition;
use crate::ruleset::{Base, Chain, Rule};
use crate::translate::families;
use crate::translation::NoNames;

/// What the rules say with which a base chain begins: with the handle of each.
pub(crate) fn leading(chain: &Chain, base: &Base) -> Vec<(u64, ClampRule)> {
    let forwarded = ["forward", "postrouting"].contains(&base.hook.as_str());
    let rules = chain.rules.iter().filter(|_| forwarded);
    rules.map_while(|rule| Some((rule.handle, clamp(rule, families(&chain.key))?))).collect()
}

/// A rule that holds the segment size down, and does nothing else.
fn clamp(rule: &Rule, families: [bool; 2]) -> Option<ClampRule> {
    let (last, conditions) = rule.statements.split_last()?;
    let (key, value) = (&last["mangle"]["key"], &last["mangle"]["value"]);
    let size = &key["tcp option"];
    if size["name"] != "maxseg" || size["field"] != "size" {
        return None;
    }
    let mss = match value["rt"]["key"].as_str() {
        Some("mtu") => Clamp::Path,
        _ => Clamp::To(value.as_u64()?.try_into().ok()?),
    };
    let mut asked = vec![Match::default()];
    for statement in conditions {
        let about = &statement["match"];
        // A larger one is never put in the place of a smaller.
        let is_larger = about["left"] == *key && about["op"] == ">" && about["right"] == *value;
        if statement.get("counter").is_none() && !is_larger {
            condition::ask(&mut asked, statement.get("match")?, &mut NoNames).ok()?;
        }
    }
    let [asked] = asked.as_slice() else { return None };
    let of_syn = |list: &List<Flags>| {
        let every = |flags: &Flags| flags.set & flag::SYN != 0 && flags.mask & flag::ACK == 0;
        !list.not && list.items.iter().all(every)
    };
    let of_tcp = |list: &List<u8>| !list.not && list.items == [protocol::TCP];
    let only = Match {
        family: asked.family,
        protocols: asked.protocols.clone().filter(of_tcp),
        flags: asked.flags.clone().filter(of_syn),
        in_ports: asked.in_ports.clone().filter(|list| !list.not),
        out_ports: asked.out_ports.clone().filter(|list| !list.not),
        ..Match::default()
    };
    if only != *asked || only.flags.is_none() {
        return None;
    }
    let names = |list: &Option<List<Interface>>| {
        list.iter().flat_map(|list| &list.items).map(|item| item.name.clone()).collect()
    };
    let of = |n: usize| families[n] && only.family.is_none_or(|family| family == Family::BOTH[n]);
    Some(ClampRule {
        input: names(&only.in_ports),
        output: names(&only.out_ports),
        families: [of(0), of(1)],
        mss,
    })
}

/// What remains of rules where only some families are adopted.
pub(crate) fn of_families(rules: Vec<ClampRule>, adopted: [bool; 2]) -> Vec<ClampRule> {
    let both = |of: [bool; 2]| [of[0] && adopted[0], of[1] && adopted[1]];
    let rules = rules.into_iter().map(|rule| ClampRule { families: both(rule.families), ..rule });
    rules.filter(|rule| rule.families != [false; 2]).collect()
}
