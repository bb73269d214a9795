//! Rules that ask for the way back to a packet's source: `fib saddr . iif oif missing drop`, which
//! firewalld has for IPv6. The plane checks sources on its own, so such a rule is adopted as that
//! check, for all interfaces.
//!
//! It is where every packet in transit comes to it: in a base chain at `prerouting`, before all
//! that lets some pass. (Neighbour discovery, which firewalld lets pass, is never in transit.)

use rules::{Family, Icmp, List, Match};
use serde_json::{Value, json};

use crate::condition;
use crate::ruleset::{Base, Chain, Rule};
use crate::translate::families;
use crate::translation::NoNames;

/// What is asked of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reverse {
    /// The way back is the interface that the packet came by.
    Strict,
    /// There is a way back.
    Loose,
}

/// Types of ICMPv6 that stay on their link (RFC 4861, RFC 2710, RFC 3810).
const OF_THE_LINK: [(u8, u8); 3] = [(130, 137), (143, 143), (148, 149)];

/// The checks of a base chain: which rules they are, and what they ask of IPv4 and IPv6.
pub(crate) fn checks(chain: &Chain, base: &Base) -> Vec<(u64, [Option<Reverse>; 2])> {
    let mut found = Vec::new();
    if base.hook != "prerouting" {
        return found;
    }
    for rule in &chain.rules {
        match check(rule, families(&chain.key)) {
            Some(checks) => found.push((rule.handle, checks)),
            None if lets_none_pass(rule) => {}
            None => break,
        }
    }
    found
}

/// Of two checks the one that lets less pass.
pub(crate) fn stricter(one: Option<Reverse>, other: Option<Reverse>) -> Option<Reverse> {
    match (one, other) {
        (Some(Reverse::Strict), _) | (_, Some(Reverse::Strict)) => Some(Reverse::Strict),
        (one, other) => one.or(other),
    }
}

fn check(rule: &Rule, families: [bool; 2]) -> Option<[Option<Reverse>; 2]> {
    let (last, conditions) = rule.statements.split_last()?;
    last.get("drop")?;
    let (mut reverse, mut asked) = (None, vec![Match::default()]);
    for statement in conditions {
        if statement.get("counter").is_some() {
            continue;
        }
        let about = statement.get("match")?;
        let fib = &about["left"]["fib"];
        if fib["result"] != "oif" {
            condition::ask(&mut asked, about, &mut NoNames).ok()?;
            continue;
        }
        // Packets in transit have no mark, but what rules set at prerouting.
        let flags: Vec<&str> = fib["flags"].as_array()?.iter().filter_map(Value::as_str).collect();
        let only = |allowed: &[&str]| flags.iter().all(|flag| allowed.contains(flag));
        let missing = about["op"] == "==" && (about["right"] == json!(false) || about["right"] == "0");
        reverse = match (flags.contains(&"saddr") && missing, flags.contains(&"iif")) {
            (true, true) if only(&["saddr", "iif"]) || only(&["saddr", "mark", "iif"]) => {
                Some(Reverse::Strict)
            }
            (true, false) if only(&["saddr", "mark"]) => Some(Reverse::Loose),
            _ => return None,
        };
    }
    let [of] = asked.as_slice() else { return None };
    if *of != (Match { family: of.family, ..Match::default() }) {
        return None;
    }
    let family = |n: usize| families[n] && of.family.is_none_or(|family| family == Family::BOTH[n]);
    Some([0, 1].map(|n| reverse.filter(|_| family(n))))
}

/// Whether no packet in transit leaves a chain by a rule, but to be dropped.
fn lets_none_pass(rule: &Rule) -> bool {
    let is =
        |words: &[&str]| rule.statements.iter().all(|of| words.iter().any(|word| of.get(word).is_some()));
    if is(&["match", "counter", "log", "limit", "drop", "reject"]) {
        return true;
    }
    let Some((last, conditions)) = rule.statements.split_last() else { return true };
    let mut asked = vec![Match::default()];
    let conditions = conditions.iter().filter(|statement| statement.get("counter").is_none());
    let read =
        conditions.map(|statement| condition::ask(&mut asked, statement.get("match")?, &mut NoNames).ok());
    let stays =
        |icmp: &Icmp| OF_THE_LINK.iter().any(|(first, last)| *first <= icmp.kinds.0 && icmp.kinds.1 <= *last);
    let of_the_link = |list: &List<Icmp>| !list.not && list.items.iter().all(stays);
    last.get("accept").is_some()
        && read.collect::<Option<Vec<()>>>().is_some()
        && asked.iter().all(|of| of.family == Some(Family::Ipv6) && of.icmp.as_ref().is_some_and(of_the_link))
}
