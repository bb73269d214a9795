//! What is hardly meant: rules that can never match because earlier ones decide everything first,
//! and chains that nobody jumps to.
//!
//! A rule is a union of regions ([`crate::classifier`]); one after the other, the regions of all
//! earlier rules that always decide are taken out of it. When nothing is left, the rule is dead,
//! and those that took something are to blame. Rules that ask for circumstances never shadow; rules
//! whose match no region says exactly shadow only the same match. So there may be dead rules that
//! are not found, but none is called dead that lives.

use std::collections::BTreeSet;
use std::fmt;

use crate::classifier::program::{Step, TooLong, steps};
use crate::classifier::region::{Memberships, Region, Regions, W4, W6, regions};
use crate::model::*;

/// Parts that what is left of a rule may fall into before it is given up (and called alive).
const MOST_PARTS: usize = 256;
/// Pairs of regions that are compared at most: with more rules than a few ten thousand the search
/// stops.
const MOST_PAIRS: usize = 1_000_000_000;

/// Something that is hardly meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A rule that never matches, as these decide all its packets first.
    Shadowed {
        /// The rule.
        rule: RuleId,
        /// It and where it stands, in words.
        text: String,
        /// The rules before it, in order.
        by: Vec<RuleId>,
        /// These in words.
        by_text: Vec<String>,
    },
    /// A rule that no packet can match whatever stands before it.
    Impossible {
        /// The rule.
        rule: RuleId,
        /// It and where it stands, in words.
        text: String,
    },
    /// A chain that no hook leads to.
    Unused {
        /// Its name.
        chain: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Shadowed { text, by_text, .. } => {
                write!(f, "{text}\n  never matches; ")?;
                match by_text.as_slice() {
                    [one] => write!(f, "an earlier rule takes all its packets:\n    {one}"),
                    [first @ .., _] if by_text.len() <= 4 => {
                        write!(f, "earlier rules together take all its packets:")?;
                        first.iter().chain(by_text.last()).try_for_each(|one| write!(f, "\n    {one}"))
                    }
                    _ => {
                        write!(
                            f,
                            "{} earlier rules together take all its packets, the first of them:",
                            by_text.len()
                        )?;
                        by_text.iter().take(3).try_for_each(|one| write!(f, "\n    {one}"))
                    }
                }
            }
            Warning::Impossible { text, .. } => write!(f, "{text}\n  never matches: no packet is like that"),
            Warning::Unused { chain } => write!(f, "chain {chain}: no rule jumps to it"),
        }
    }
}

impl Filter {
    /// What is hardly meant in this filter, in the order of the rules.
    ///
    /// # Errors
    /// [`TooLong`], as when it is compiled.
    pub fn check(&self) -> Result<Vec<Warning>, TooLong> {
        let filter = self.with_ports_of_its_own();
        let mut rules = vec![Fate::default(); filter.rules().count()];
        for hook in Hook::ALL {
            let steps = steps(&filter, hook)?;
            fates::<W4>(&filter, &steps, &mut rules);
            fates::<W6>(&filter, &steps, &mut rules);
        }
        Ok(filter.warnings(rules))
    }

    fn warnings(&self, fates: Vec<Fate>) -> Vec<Warning> {
        let text = |id: RuleId| {
            let (chain, rule) = self.rule(id).unwrap_or((&self.chains[0], &EMPTY_RULE));
            let name = rule.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
            format!("{}: chain {}: {rule}{name}", rule.place, chain.name)
        };
        let mut warnings = Vec::new();
        let mut number = 0;
        for (n, chain) in self.chains.iter().enumerate() {
            let here = &fates[number..number + chain.rules.len()];
            if n >= Hook::ALL.len() && !chain.rules.is_empty() && here.iter().all(|fate| !fate.met) {
                warnings.push(Warning::Unused { chain: chain.name.clone() });
            }
            for (place, fate) in here.iter().enumerate().filter(|(_, fate)| fate.met && !fate.lives) {
                let rule = RuleId((number + place) as u32);
                warnings.push(if fate.by.is_empty() {
                    Warning::Impossible { rule, text: text(rule) }
                } else {
                    let by: Vec<RuleId> = fate.by.iter().copied().collect();
                    Warning::Shadowed {
                        rule,
                        text: text(rule),
                        by_text: by.iter().map(|id| text(*id)).collect(),
                        by,
                    }
                });
            }
            number += chain.rules.len();
        }
        warnings
    }

    /// The same filter with a port for each interface that it names, whether the machine has it or
    /// not.
    fn with_ports_of_its_own(&self) -> Filter {
        let mut filter = self.clone();
        let mut names: Vec<String> = Vec::new();
        for (_, rule) in self.rules() {
            let lists = [&rule.matches.in_ports, &rule.matches.out_ports];
            for interface in lists.into_iter().flatten().flat_map(|list| &list.items) {
                if !names.contains(&interface.name) {
                    names.push(interface.name.clone());
                }
            }
        }
        filter.resolve(|wanted| {
            let is = |name: &String| match wanted.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == wanted,
            };
            (0..names.len()).filter(|&n| is(&names[n])).map(|n| n as u16).collect()
        });
        filter
    }
}

static EMPTY_RULE: std::sync::LazyLock<Rule> = std::sync::LazyLock::new(Rule::default);

/// What was found out about a rule.
#[derive(Clone, Debug, Default)]
struct Fate {
    /// Some hook leads to it.
    met: bool,
    /// Some packet may match it.
    lives: bool,
    by: BTreeSet<RuleId>,
}

/// A step behind which no packet of its regions goes on in its chain.
struct Taker<'s, const W: usize> {
    step: &'s Step,
    regions: Vec<Region<W>>,
    around: Region<W>,
    exact: bool,
}

/// A region around all of these: most rules have nothing to do with each other, and this tells at a
/// glance.
fn around<const W: usize>(list: &[Region<W>]) -> Option<Region<W>> {
    let (first, others) = list.split_first()?;
    let mut around = *first;
    for region in others {
        for n in 0..W {
            around.mask[n] &= region.mask[n] & !(around.value[n] ^ region.value[n]);
            around.value[n] &= around.mask[n];
        }
        for (span, other) in around.ports.iter_mut().zip(&region.ports) {
            *span = Span { first: span.first.min(other.first), last: span.last.max(other.last) };
        }
    }
    Some(around)
}

/// Whether two regions have nothing in common for sure.
fn apart<const W: usize>(one: &Region<W>, other: &Region<W>) -> bool {
    let differ = |n: usize| (one.value[n] ^ other.value[n]) & one.mask[n] & other.mask[n];
    (0..W).fold(0, |bits, n| bits | differ(n)) != 0
        || one.ports.iter().zip(&other.ports).any(|(a, b)| a.last < b.first || b.last < a.first)
}

fn fates<const W: usize>(filter: &Filter, steps: &[Step], fates: &mut [Fate]) {
    let mut memberships = Memberships::new();
    let mut takers: Vec<Taker<W>> = Vec::new();
    let mut pairs = 0;
    for step in steps {
        let fate = &mut fates[step.rule.0 as usize];
        fate.met = true;
        let Regions { list, exact } = regions::<W>(filter, steps, step, &mut memberships);
        let rule = step.rule_of(filter);
        let Some(around) = around(&list) else { continue };
        pairs += takers.len() * list.len();
        if pairs > MOST_PAIRS {
            fate.lives = true;
            continue;
        }
        // Only rules of its own chain, and of those that led here, are tried before it for sure.
        let before: Vec<&Taker<W>> = takers
            .iter()
            .filter(|taker| !apart(&around, &taker.around))
            .filter(|taker| step.lineage(steps).any(|own| own.parent == taker.step.parent))
            .collect();
        match taken(filter, &list, rule, &before) {
            Some(by) => fate.by.extend(by),
            None => fate.lives = true,
        }
        // A return takes packets from the rest of its chain as a verdict does.
        let takes = !matches!(rule.verdict, None | Some(Verdict::Jump { .. }));
        if takes && !rule.matches.asks_for_circumstances() {
            let exact =
                exact && !step.lineage(steps).any(|step| step.rule_of(filter).matches.asks_for_moment());
            takers.push(Taker { step, regions: list, around, exact });
        }
    }
}

/// The rules that take all of these regions; `None` when something is left.
fn taken<const W: usize>(
    filter: &Filter,
    list: &[Region<W>],
    rule: &Rule,
    before: &[&Taker<W>],
) -> Option<BTreeSet<RuleId>> {
    let same = before.iter().find(|taker| taker.step.rule_of(filter).matches == rule.matches);
    if let Some(taker) = same {
        return Some([taker.step.rule].into());
    }
    let exact = || before.iter().filter(|taker| taker.exact);
    // One that takes all of it says more than many that do together.
    let alone = |taker: &&&Taker<W>| {
        list.iter().all(|region| {
            taker.regions.iter().any(|taken| {
                let mut left = false;
                region.without(taken, |_| left = true);
                !left
            })
        })
    };
    if let Some(taker) = exact().find(alone) {
        return Some([taker.step.rule].into());
    }
    let mut left = list.to_vec();
    let mut by = BTreeSet::new();
    for taker in exact() {
        for taken in &taker.regions {
            let mut next = Vec::new();
            for region in &left {
                region.without(taken, |part| next.push(part));
            }
            if next != left {
                by.insert(taker.step.rule);
                left = next;
            }
            if left.is_empty() {
                return Some(by);
            }
            if left.len() > MOST_PARTS {
                return None;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(text: &str) -> Vec<String> {
        let filter =
            Filter::read("f", text, &mut |_| Err(std::io::ErrorKind::NotFound.into())).expect("a filter");
        filter.check().expect("short").iter().map(Warning::to_string).collect()
    }

    /// Lines of dead rules, and the lines of those that take their packets.
    fn dead(text: &str) -> Vec<(usize, Vec<usize>)> {
        let filter =
            Filter::read("f", text, &mut |_| Err(std::io::ErrorKind::NotFound.into())).expect("a filter");
        let line = |id: RuleId| filter.rule(id).expect("it is there").1.place.line;
        let warnings = filter.check().expect("short");
        let found = warnings.iter().filter_map(|warning| match warning {
            Warning::Shadowed { rule, by, .. } => {
                Some((line(*rule), by.iter().map(|id| line(*id)).collect()))
            }
            Warning::Impossible { rule, .. } => Some((line(*rule), vec![])),
            Warning::Unused { .. } => None,
        });
        found.collect()
    }

    #[test]
    fn one_rule_shadows_another() {
        assert_eq!(
            dead(
                "chain input\naccept from 10.0.0.0/8\ndrop tcp from 10.1.0.0/16 to any port 80\ndrop from 11.0.0.1"
            ),
            [(3, vec![2])]
        );
        assert_eq!(
            dead(
                "chain input\naccept tcp to any port 1-100\ndrop tcp to any port 50-101\ndrop tcp to any port 7"
            ),
            [(4, vec![2])]
        );
        assert_eq!(dead("chain forward\ndrop in eth*\naccept in eth1\naccept in ppp0"), [(3, vec![2])]);
        assert_eq!(dead("chain forward\naccept\naccept tcp\nlog"), [(3, vec![2]), (4, vec![2])]);
    }

    #[test]
    fn rules_shadow_together() {
        let text = "chain forward\naccept from 10.0.0.0/9\ndrop tcp from 10.128.0.0/9\naccept tcp from 10.0.0.0/8 to any port 22\naccept udp from 10.0.0.0/8";
        assert_eq!(dead(text), [(4, vec![2, 3])]);
        let states = "chain forward\naccept state established,related\ndrop state invalid\naccept state new,untracked\nlog drop";
        assert_eq!(dead(states), [(5, vec![2, 3, 4])]);
        let ports = "chain input\ndrop udp to any port 0-1000\naccept udp to any port 1001-65535\ndrop udp to any port 500-1500\ndrop udp";
        assert_eq!(dead(ports), [(4, vec![2, 3])]);
    }

    #[test]
    fn rules_that_take_different_parts_are_not_blamed_together() {
        let text = "chain forward\naccept from 10.0.0.0/8 to 192.0.2.0/24\ndrop udp from 10.0.0.1,11.0.0.1 to any port 7-9\naccept tcp from 10.1.0.0/16 to 192.0.2.1-192.0.2.6\ndrop udp from 11.0.0.1 to any port 8\ndrop udp from 11.0.0.2 to any port 8";
        assert_eq!(dead(text), [(4, vec![2]), (5, vec![3])]);
    }

    #[test]
    fn what_is_around_regions_is_apart_only_from_what_they_are_apart_from() {
        let region = |value: u32, mask: u32, ports: (u16, u16)| {
            let span = Span { first: ports.0, last: ports.1 };
            Region::<W4> { value: [value & mask, 0, 0, 0, 0], mask: [mask, 0, 0, 0, 0], ports: [span; 2] }
        };
        let list = [region(0x0a00_0001, !0, (1, 5)), region(0x0a00_0100, !0xff, (9, 9))];
        let around = around(&list).unwrap();
        for near in
            [region(0x0a00_0001, !0, (2, 2)), region(0x0a00_01ff, !0, (9, 9)), region(0, 0, (0, u16::MAX))]
        {
            assert!(!apart(&around, &near), "{near:?}");
        }
        for far in [region(0x0b00_0001, !0, (2, 2)), region(0x0a00_0001, !0, (10, 11)), region(0, 0, (0, 0))]
        {
            assert!(apart(&around, &far), "{far:?}");
        }
    }

    #[test]
    fn what_does_not_always_decide_shadows_nothing() {
        for first in [
            "accept rate below 5pps",
            "count",
            "accept time mon utc",
            "accept marked 1",
            "accept tcp flags syn",
            "accept length 0-100",
            "accept from !10.0.0.0/8",
            "mark 1",
            "accept fragment",
            "accept state new",
        ] {
            assert_eq!(dead(&format!("chain input\n{first}\ndrop tcp from 192.0.2.1")), [], "{first}");
        }
        assert_eq!(
            dead("chain input\njump a\ndrop tcp\nchain a\nreturn\n accept"),
            [(6, vec![5])],
            "behind a return for all"
        );
    }

    #[test]
    fn the_same_rule_again_is_dead_whatever_it_asks_for() {
        assert_eq!(
            dead("chain input\ndrop tcp flags syn from !10.0.0.0/8\naccept tcp flags syn from !10.0.0.0/8"),
            [(3, vec![2])]
        );
    }

    #[test]
    fn chains_count_where_they_are_jumped_to() {
        let text = "chain forward\njump web to 192.0.2.0/24\ndrop\nchain web\naccept tcp to 192.0.2.7\naccept tcp to 198.51.100.1\ndrop tcp to 192.0.2.7 port 80\nchain lost\naccept";
        assert_eq!(dead(text), [(6, vec![]), (7, vec![5])]);
        assert!(warnings(text).iter().any(|text| text == "chain lost: no rule jumps to it"));
    }

    #[test]
    fn says_it_in_words() {
        let text = "chain input\naccept from 10.0.0.0/8 name inside\ndrop from 10.1.0.0/16\n";
        let expected = "f:3: chain input: drop from 10.1.0.0/16\n  never matches; an earlier rule takes all its packets:\n    f:2: chain input: accept from 10.0.0.0/8 (inside)";
        assert_eq!(warnings(text), [expected]);
    }
}
