//! Linux's routing rules (`ip rule`) as the plane follows them.
//!
//! Linux asks its rules in the order of their priorities. For packets that are only forwarded, some
//! say nothing: those about what this machine sends, sockets, marks that nobody sets. What is left
//! is a list for each family; the plane looks into the tables that it names, which are mirrored.
//!
//! A rule that the plane does not know is *left*: what it could touch is Linux's.
//!
//! Linux looks into table `local` first, and so do the plane's tables. Where that has been changed,
//! the rules before are left.

use crate::netlink::rule::{Asks, Does, RuleMessage};
use crate::policy::Reach;
use ipnet::IpNet;
use std::collections::BTreeSet;

const LOCAL: u32 = 255;
const MAIN: u32 = 254;
const DEFAULT: u32 = 253;
/// The most rules of a family that are followed.
const MOST: usize = 4096;
/// The bits of a type of service that a rule's is compared with in IPv4 (`IPTOS_RT_MASK`), as bits
/// of a DSCP.
const LEGACY: u8 = 0x1c >> 2;

/// A rule to be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// As `ip rule` writes it.
    pub words: String,
    /// Its place.
    pub priority: u32,
    /// It is about all others than those that it says.
    pub not: bool,
    /// Source.
    pub from: Option<IpNet>,
    /// Destination.
    pub to: Option<IpNet>,
    /// Interface that it came in by.
    pub input: Option<String>,
    /// Protocol of the upper layer.
    pub protocol: Option<u8>,
    /// Source and destination ports, first and last.
    pub ports: [Option<(u16, u16)>; 2],
    /// DSCPs, as bits.
    pub dscp: u64,
    /// What it does.
    pub act: Act,
}

impl Rule {
    /// Whether default routes do not count for it.
    pub(crate) fn passes_over_defaults(&self) -> bool {
        matches!(self.act, Act::Look { no_default: true, .. })
    }
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It looks into a table of Linux's. With `no_default` the default route does not count.
    Look {
        /// Its number.
        table: u32,
        /// `suppress_prefixlength 0`.
        no_default: bool,
    },
    /// The rules from this place of the list on decide.
    GoTo(usize),
    /// It refuses.
    Refuse,
}

/// The rules of a family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleList {
    /// In their order; empty where the main table alone decides.
    pub rules: Vec<Rule>,
    /// Which packets they concern.
    pub concerns: Reach,
    /// Those that are left, and why.
    pub left: Vec<(String, String)>,
    /// Which packets those could touch.
    pub leaves: Reach,
    /// The tables that they look into, beside `main`.
    pub tables: BTreeSet<u32>,
    /// Those that ask for a mark, as `ip rule` writes them, whether they are followed or not.
    pub marked: Vec<String>,
}

/// What rules of a family come to for transit. `marks`: something of Linux's may set marks.
pub(crate) fn understand(messages: &[RuleMessage], ipv6: bool, marks: bool) -> RuleList {
    let mut list = RuleList::default();
    let family = [!ipv6, ipv6];
    let (mut local, mut main) = (false, false);
    for message in messages {
        list.marked.extend(message.asks.is_marked().then(|| message.to_string()));
        let asked_for = asked_for(message, marks);
        let all = message.selector == "from all";
        let why = match message.table() {
            _ if matches!(asked_for, Asked::Nothing) || message.leads_to_vrfs() => continue,
            Some(LOCAL) if all => {
                local = true;
                continue;
            }
            Some(LOCAL) if local => continue,
            _ if !local => Some("it comes before table local"),
            Some(DEFAULT) if all && main => continue,
            _ => match asked_for {
                Asked::Unknown(why) => Some(why),
                _ if list.rules.len() == MOST => Some("there are too many"),
                _ => None,
            },
        };
        main |= all && message.table() == Some(MAIN);
        let act = match (why, message.does) {
            (Some(why), _) => Err(why),
            (None, Does::Nop) => continue,
            (None, Does::Refuse) => Ok(Act::Refuse),
            // The place is found when all are known.
            (None, Does::GoTo(priority)) => match messages.iter().any(|to| to.priority == priority) {
                true => Ok(Act::GoTo(priority as usize)),
                false => continue,
            },
            (None, Does::Look { table, suppress: None }) => Ok(Act::Look { table, no_default: false }),
            (None, Does::Look { table, suppress: Some(0) }) => Ok(Act::Look { table, no_default: true }),
            (None, Does::Look { .. }) => Err("suppress_prefixlength, but for 0"),
            (None, Does::Other) => Err("what it does is not known"),
        };
        let inputs = message.input().map(std::slice::from_ref).unwrap_or_default();
        match act {
            Err(why) => {
                list.left.push((message.to_string(), why.to_owned()));
                list.leaves.add(family, inputs);
            }
            Ok(act) => {
                if !all || act != (Act::Look { table: MAIN, no_default: false }) {
                    list.concerns.add(family, inputs);
                }
                list.rules.push(rule(message, matches!(asked_for, Asked::All), act));
            }
        }
    }
    for (there, priority, name) in [(local, 0, "local"), (main, 32766, "main")] {
        if !there {
            let version = if ipv6 { "ipv6" } else { "ipv4" };
            list.left.push((
                format!("{version} {priority}: from all lookup {name} (missing)"),
                "it is one of Linux's own".to_owned(),
            ));
            list.leaves.add(family, &[]);
        }
    }
    let places: Vec<u32> = list.rules.iter().map(|rule| rule.priority).collect();
    for rule in &mut list.rules {
        match &mut rule.act {
            Act::GoTo(to) => *to = places.iter().take_while(|place| (**place as usize) < *to).count(),
            Act::Look { table, .. } if *table != MAIN => drop(list.tables.insert(*table)),
            _ => {}
        }
    }
    if list.concerns == Reach::default() {
        list.rules.clear();
    }
    list
}

/// What a rule asks of transit.
enum Asked {
    /// It cannot match.
    Nothing,
    /// It always matches.
    All,
    /// What it says.
    Said,
    /// It is not known.
    Unknown(&'static str),
}

fn asked_for(message: &RuleMessage, marks: bool) -> Asked {
    let Asks { not, input, output, vrf, .. } = &message.asks;
    let marked = message.asks.is_marked();
    let never = *output || input.as_deref() == Some("lo") || marked && !marks;
    match never {
        true if *not => Asked::All,
        true => Asked::Nothing,
        false if *vrf => Asked::Unknown("l3mdev beside other conditions"),
        false if marked => Asked::Unknown("marks, which something of Linux's may set"),
        false => message.odd.map_or(Asked::Said, Asked::Unknown),
    }
}

fn rule(message: &RuleMessage, all: bool, act: Act) -> Rule {
    let words = message.to_string();
    let priority = message.priority;
    if all {
        let (not, from, to, input) = (false, None, None, None);
        let (protocol, ports, dscp) = (None, [None; 2], u64::MAX);
        return Rule { words, priority, not, from, to, input, protocol, ports, dscp, act };
    }
    let Asks { not, from, to, input, protocol, ports, .. } = message.asks.clone();
    Rule { words, priority, not, from, to, input, protocol, ports, dscp: code_points(message), act }
}

/// Which code points match, as bits.
fn code_points(message: &RuleMessage) -> u64 {
    let Asks { tos, dscp, .. } = message.asks;
    let tos = tos >> 2;
    let matches = |point: u8| match dscp {
        Some(dscp) => point == dscp,
        None if tos == 0 => true,
        None if message.ipv6 => point == tos,
        None => point & LEGACY == tos,
    };
    (0..64).filter(|point| matches(*point)).fold(0, |points, point| points | 1 << point)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules by priority, in Linux's words.
    fn rules(change: impl Fn(&mut Vec<RuleMessage>)) -> RuleList {
        let mut messages = vec![look(0, LOCAL), look(32766, MAIN), look(32767, DEFAULT)];
        change(&mut messages);
        messages.sort_by_key(|message| message.priority);
        understand(&messages, false, false)
    }

    fn look(priority: u32, table: u32) -> RuleMessage {
        RuleMessage {
            ipv6: false,
            priority,
            selector: "from all".to_owned(),
            action: String::new(),
            asks: Asks::default(),
            does: Does::Look { table, suppress: None },
            odd: None,
        }
    }

    fn about(priority: u32, asks: Asks, does: Does) -> RuleMessage {
        RuleMessage { selector: "from some".to_owned(), asks, does, ..look(priority, 0) }
    }

    const TO_77: Does = Does::Look { table: 77, suppress: None };

    fn mark() -> Asks {
        Asks { mark: Some((1, 0xf)), ..Asks::default() }
    }

    #[test]
    fn linux_own_ones_are_none() {
        assert_eq!(rules(|_| {}), RuleList::default());
    }

    #[test]
    fn what_transit_never_matches_is_left_out() {
        let own = Asks { input: Some("lo".to_owned()), ..Asks::default() };
        let bound = Asks { output: true, ..Asks::default() };
        let list = rules(|all| {
            all.extend([
                about(1, mark(), TO_77),
                about(2, own.clone(), TO_77),
                about(3, bound.clone(), TO_77),
            ]);
        });
        assert_eq!(list, RuleList { marked: list.marked.clone(), ..RuleList::default() });
        assert_eq!(list.marked.len(), 1);
        let list = rules(|all| all.push(about(1, Asks { not: true, ..mark() }, TO_77)));
        assert_eq!((list.rules.len(), list.rules[0].not, list.concerns.all), (2, false, [true, false]));
        assert_eq!(list.tables, BTreeSet::from([77]));
    }

    #[test]
    fn marks_that_something_may_set_are_left() {
        let messages = [look(0, LOCAL), about(1, mark(), TO_77), look(32766, MAIN)];
        let list = understand(&messages, false, true);
        assert_eq!((list.left.len(), list.leaves.all), (1, [true, false]));
    }

    #[test]
    fn only_interfaces_that_rules_name_are_concerned() {
        let by = |not| Asks { not, input: Some("p0".to_owned()), ..Asks::default() };
        let list = rules(|all| all.push(about(1, by(false), TO_77)));
        assert_eq!((list.concerns.of("p0"), list.concerns.of("p1")), ([true, false], [false; 2]));
        let list = rules(|all| all.push(about(1, by(true), TO_77)));
        assert_eq!(list.concerns.of("p1"), [true, false]);
    }

    #[test]
    fn a_goto_leads_to_the_rule_of_its_priority_or_nowhere() {
        let list = rules(|all| {
            all.push(about(10, Asks::default(), Does::GoTo(30)));
            all.push(about(15, Asks::default(), Does::GoTo(31)));
            all.push(about(20, Asks::default(), TO_77));
            all.push(about(30, Asks::default(), Does::Nop));
            all.push(about(40, Asks::default(), Does::Refuse));
        });
        let acts: Vec<Act> = list.rules.iter().map(|rule| rule.act).collect();
        let look = |table| Act::Look { table, no_default: false };
        assert_eq!(acts, [Act::GoTo(2), look(77), Act::Refuse, look(MAIN)]);
    }

    #[test]
    fn what_comes_before_table_local_and_what_is_odd_is_left() {
        let list = rules(|all| {
            all[0].priority = 500;
            all.push(about(1, Asks::default(), TO_77));
            all.push(RuleMessage { odd: Some("tun_id"), ..about(600, Asks::default(), TO_77) });
            all.push(about(700, Asks::default(), Does::Look { table: 78, suppress: Some(8) }));
        });
        let why: Vec<&str> = list.left.iter().map(|(_, why)| why.as_str()).collect();
        assert_eq!(why, ["it comes before table local", "tun_id", "suppress_prefixlength, but for 0"]);
    }

    #[test]
    fn a_type_of_service_is_compared_as_linux_does() {
        let points = |ipv6, tos, dscp| {
            let asks = Asks { tos, dscp, ..Asks::default() };
            code_points(&RuleMessage { ipv6, ..about(1, asks, TO_77) })
        };
        assert_eq!(points(false, 0, None), u64::MAX);
        assert_eq!(points(true, 0x10, None), 1 << 4);
        assert_eq!(points(false, 0x10, None), (0..8).fold(0, |bits, high| bits | 1 << (high << 3 | 4)));
        assert_eq!(points(false, 0, Some(0)), 1);
    }
}
