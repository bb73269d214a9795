//! Routing rules: what Linux has of them, what the file asks for, and the steps between.
//!
//! Linux adds a rule behind those of its priority, and deletes the first one that has what is said,
//! whatever else that has. So of one priority the old rule goes when the new one is there, and no
//! packet passes between them; and where somebody died in between and left both, all go, in their
//! order. Linux takes two rules for the same that differ in `not` or `goto` only: there the old one
//! goes first.

use std::collections::BTreeMap;
use std::path::Path;

use config::{Asks, Does, RoutingRule};
use import::ip;

use super::PROTOCOL;
use super::linux::{Link, Linux, ask};
use super::step::Step;
use super::wanted::{Refused, number};

/// Where Linux says that it has IPv6.
const IPV6: &str = "/proc/net/if_inet6";

/// A place that the file can give to one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub ipv6: bool,
    pub priority: u32,
}

/// A rule, its table by number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rule {
    pub asks: Asks,
    pub does: Does<u32>,
}

/// All rules that are Bifrost's or the file's.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rules {
    /// By their place in the order of Linux, which has more than one only when somebody was
    /// stopped.
    pub at: BTreeMap<Place, Vec<Rule>>,
    /// Those that others made, and by which protocol.
    pub theirs: BTreeMap<Place, u8>,
}

impl Rule {
    /// Whether Linux refuses the one while it has the other.
    pub fn conflicts(&self, other: &Rule) -> bool {
        let asks = |rule: &Rule| Asks { not: false, ..rule.asks.clone() };
        let jumps = matches!((&self.does, &other.does), (Does::GoTo(_), Does::GoTo(_)));
        asks(self) == asks(other) && (jumps || self.does == other.does)
    }
}

impl Rules {
    /// Reads them. One that somebody else made is read as well where it is as `asked` says, and the
    /// only one of its priority.
    pub fn read(asked: &BTreeMap<Place, Rule>) -> Result<Rules, String> {
        let mut rules = Rules::default();
        for ipv6 in [false, true] {
            if ipv6 && !Path::new(IPV6).exists() {
                continue;
            }
            let family = if ipv6 { "-6" } else { "-4" };
            let all: Vec<ip::Rule> = ask(&["-Numeric", "-json", "-details", family, "rule", "show"])?;
            rules.take(&all, ipv6, asked);
        }
        Ok(rules)
    }

    fn take(&mut self, all: &[ip::Rule], ipv6: bool, asked: &BTreeMap<Place, Rule>) {
        for text in all.iter().filter(|text| text.protocol() == PROTOCOL) {
            // What the file cannot say Bifrost did not make.
            let Ok((asks, does)) = text.said() else { continue };
            let place = Place { ipv6, priority: text.priority };
            self.at.entry(place).or_default().push(Rule { asks, does });
        }
        let given = |text: &&ip::Rule| import::GIVEN_RULES.contains(&text.protocol().to_string().as_str());
        for text in all.iter().filter(given) {
            let place = Place { ipv6, priority: text.priority };
            let same = |it: &&ip::Rule| it.priority == text.priority;
            let Ok((asks, does)) = text.said() else { continue };
            let rule = Rule { asks, does };
            if asked.get(&place) == Some(&rule)
                && !self.at.contains_key(&place)
                && all.iter().filter(same).count() == 1
            {
                self.at.insert(place, vec![rule]);
                self.theirs.insert(place, text.protocol());
            }
        }
    }

    /// The rules that the file asks for, where these interfaces are there.
    pub fn wanted(
        asked: &[RoutingRule],
        links: &BTreeMap<String, Link>,
        refuse: impl FnMut(Refused),
    ) -> Rules {
        let at =
            asked_for(asked, links, refuse).into_iter().map(|(place, rule)| (place, vec![rule])).collect();
        Rules { at, ..Rules::default() }
    }
}

/// Rules as Linux has them, where these interfaces are there; `refuse` is told what cannot be.
pub(super) fn asked_for(
    asked: &[RoutingRule],
    links: &BTreeMap<String, Link>,
    mut refuse: impl FnMut(Refused),
) -> BTreeMap<Place, Rule> {
    let mut rules = BTreeMap::new();
    for RoutingRule { priority, ipv4, ipv6, asks, does } in asked {
        let does = match does {
            Does::Look { table, suppress } => match number(table, links) {
                Ok(table) => Does::Look { table, suppress: *suppress },
                Err(vrf) => {
                    refuse(Refused::Rule { priority: *priority, vrf: vrf.to_owned() });
                    continue;
                }
            },
            Does::GoTo(priority) => Does::GoTo(*priority),
            Does::End(word) => Does::End(word),
        };
        for ipv6 in [(false, ipv4), (true, ipv6)].into_iter().filter(|(_, of)| **of).map(|(ipv6, _)| ipv6) {
            let rule = Rule { asks: asks.clone(), does: does.clone() };
            rules.insert(Place { ipv6, priority: *priority }, rule);
        }
    }
    rules
}

/// The steps from what Linux has to what it is to have.
pub(super) fn steps(from: &Linux, to: &Rules) -> Vec<Step> {
    let (from, mut steps) = (&from.rules, Vec::new());
    let mut places: Vec<&Place> = from.at.keys().chain(to.at.keys()).collect();
    places.sort();
    places.dedup();
    for place in places {
        let of = |rules: &Rules| rules.at.get(place).cloned().unwrap_or_default();
        let (old, new) = (of(from), of(to));
        if old == new {
            continue;
        }
        let by = from.theirs.get(place).copied().unwrap_or(PROTOCOL);
        let goes = |rule: &Rule| Step::NoRule { place: *place, rule: rule.clone(), by };
        let comes = |rule: &Rule| Step::Rule { place: *place, rule: rule.clone() };
        match (old.as_slice(), new.as_slice()) {
            ([old], [new]) if !old.conflicts(new) => steps.extend([comes(new), goes(old)]),
            (old, new) => steps.extend(old.iter().map(goes).chain(new.iter().map(comes))),
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(text: &str) -> Rule {
        let asks = Asks { from: Some(text.parse().unwrap()), ..Asks::default() };
        Rule { asks, does: Does::Look { table: 7, suppress: None } }
    }

    fn linux(protocol: u8, more: &str) -> Vec<ip::Rule> {
        let text = format!(
            r#"[{{"priority":0,"src":"all","table":"255","protocol":"2"}},
            {{"priority":9,"src":"10.0.0.0","srclen":8,"table":"7","protocol":"{protocol}"}}{more}]"#
        );
        ip::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn one_that_somebody_made_as_the_file_says_is_the_files() {
        let place = Place { ipv6: false, priority: 9 };
        let asked = BTreeMap::from([(place, asks("10.0.0.0/8"))]);
        let read = |all: &[ip::Rule], asked: &BTreeMap<Place, Rule>| {
            let mut rules = Rules::default();
            rules.take(all, false, asked);
            rules
        };
        assert_eq!(read(&linux(0, ""), &asked).theirs[&place], 0);
        let theirs = read(&linux(3, ""), &asked);
        assert_eq!((theirs.at[&place].len(), theirs.theirs[&place]), (1, 3));
        assert_eq!(steps(&Linux { rules: theirs.clone(), ..Linux::default() }, &theirs), []);
        // Nobody asks for it, FRR made it, or another one could be deleted in its place.
        assert_eq!(read(&linux(3, ""), &BTreeMap::new()), Rules::default());
        assert_eq!(read(&linux(11, ""), &asked), Rules::default());
        let other = r#",{"priority":9,"src":"10.0.0.0","srclen":8,"iif":"eth0","table":"7","protocol":"3"}"#;
        assert_eq!(read(&linux(3, other), &asked), Rules::default());
        let ours = read(&linux(PROTOCOL, ""), &BTreeMap::new());
        assert_eq!((ours.at[&place].len(), ours.theirs.len()), (1, 0));
    }
}
