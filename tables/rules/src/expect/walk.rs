//! The way of all packets of a part of the space through a filter's chains: the parts that it falls
//! into, each with what decides about it.
//!
//! As when one packet is explained, a rate counts as kept to. What asks for the time may hold or
//! not: such packets go both ways.

use std::sync::Arc;

use super::numbers::Numbers;
use super::space::{Axis, Names, Space, code_points, space_of};
use crate::evaluate::Outcome;
use crate::model::*;

/// Parts at most that are followed, of all of a sentence's packets together.
const MOST_PARTS: usize = 50_000;

/// The packets fall into too many parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// Packets on their way, of which all rules so far have said the same.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub space: Space,
    pub mark: u32,
    /// Their code point, where a rule has set it.
    pub dscp: Option<u8>,
    /// They are here at the times of this rule only.
    pub at_times_of: Option<RuleId>,
    /// The destination, address and port, as they came: where rules see what it was translated to.
    pub came: Option<Arc<Came>>,
}

/// Where packets were going, and by which rule they go elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    pub destination: Numbers,
    pub port: Numbers,
    pub rule: String,
    /// The bits of an address that stayed.
    pub kept: u128,
    /// Where a range of ports began, and begins now; `None`: all became one.
    pub moved: Option<(u128, u128)>,
}

impl Came {
    /// Where a packet went that goes there now.
    pub fn before(&self, destination: u128, port: u128) -> (u128, u128) {
        let wanted = destination & self.kept;
        let with_bits = |(first, last): &(u128, u128)| {
            let low = first & !self.kept | wanted;
            let next = if low >= *first { Some(low) } else { low.checked_add(self.kept.wrapping_add(1)) };
            next.filter(|next| next <= last)
        };
        let first = |numbers: &Numbers| numbers.ranges().first().map_or(0, |(first, _)| *first);
        let address = self.destination.ranges().iter().find_map(with_bits);
        let port = self
            .moved
            .map_or_else(|| first(&self.port), |(from, to)| port.wrapping_sub(to).wrapping_add(from));
        (address.unwrap_or_else(|| first(&self.destination)), port)
    }
}

/// Whether so many parts are still followed.
pub(crate) fn bounded(parts: usize) -> Result<(), TooMany> {
    if parts > MOST_PARTS { Err(TooMany) } else { Ok(()) }
}

/// Packets about which a hook has decided.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub part: Part,
    pub outcome: Outcome,
    /// The rule; `None`: the policy.
    pub rule: Option<RuleId>,
}

/// A filter, made ready for one family.
pub(crate) struct Ways<'f> {
    filter: &'f Filter,
    first_rules: Vec<u32>,
    /// By rule what it matches; `None`: nothing of the family.
    spaces: Vec<Option<Space>>,
}

impl<'f> Ways<'f> {
    pub fn new(filter: &'f Filter, family: Family, names: &Names) -> Ways<'f> {
        let spaces = filter.rules().map(|(_, rule)| space_of(&rule.matches, family, names)).collect();
        Ways { filter, first_rules: filter.first_rules(), spaces }
    }

    /// What a hook does with these packets.
    pub fn through(&self, hook: Hook, parts: Vec<Part>) -> Result<Vec<Ended>, TooMany> {
        let mut ended = Vec::new();
        let left = self.chain(hook as usize, parts, &mut ended)?;
        let outcome = match self.filter.hook(hook).policy {
            Policy::Accept => Outcome::Accept,
            Policy::Drop => Outcome::Drop,
        };
        ended.extend(left.into_iter().map(|part| Ended { part, outcome, rule: None }));
        Ok(ended)
    }

    /// Has the rules of a chain decide; what none of them decides is left.
    fn chain(
        &self,
        number: usize,
        mut open: Vec<Part>,
        ended: &mut Vec<Ended>,
    ) -> Result<Vec<Part>, TooMany> {
        let mut left = Vec::new();
        for (place, rule) in self.filter.chains[number].rules.iter().enumerate() {
            let id = self.first_rules[number] + place as u32;
            let changes = rule.effects.mark.is_some() || rule.effects.dscp.is_some();
            let Some(space) = self.spaces[id as usize].as_ref().filter(|_| rule.verdict.is_some() || changes)
            else {
                continue;
            };
            let mut matched = Vec::new();
            let mut next = Vec::with_capacity(open.len());
            for part in open {
                divide(part, rule, RuleId(id), space, &mut matched, &mut next);
            }
            for part in &mut matched {
                part.mark = rule.effects.mark.unwrap_or(part.mark);
                part.dscp = rule.effects.dscp.or(part.dscp);
            }
            let (verdict, rule) = (&rule.verdict, Some(RuleId(id)));
            let mut end = |outcome, matched: Vec<Part>| {
                ended.extend(matched.into_iter().map(|part| Ended { part, outcome, rule }));
            };
            match verdict {
                None => next.append(&mut matched),
                Some(Verdict::Accept) => end(Outcome::Accept, matched),
                Some(Verdict::Drop) => end(Outcome::Drop, matched),
                Some(Verdict::Reject(kind)) => end(Outcome::Reject(*kind), matched),
                Some(Verdict::Return) => left.append(&mut matched),
                Some(Verdict::Jump { number, .. }) if !matched.is_empty() => {
                    let before = ended.len();
                    next.append(&mut self.chain(*number, matched, ended)?);
                    if self.filter.chains[*number].base {
                        let accepted = |end: &mut Ended| end.outcome == Outcome::Accept;
                        next.extend(ended.extract_if(before.., accepted).map(|end| end.part));
                    }
                }
                Some(Verdict::Jump { .. }) => {}
            }
            open = next;
            bounded(open.len() + left.len() + ended.len())?;
            if open.is_empty() {
                break;
            }
        }
        left.append(&mut open);
        Ok(left)
    }
}

/// Divides packets into those that a rule matches and those that it does not.
fn divide(
    part: Part,
    rule: &Rule,
    id: RuleId,
    space: &Space,
    matched: &mut Vec<Part>,
    others: &mut Vec<Part>,
) {
    let Match { mark, time, rate, dscp, translated, .. } = &rule.matches;
    let marked = mark.is_none_or(|wanted| (part.mark & wanted.mask == wanted.value) != wanted.not);
    let led = translated.is_none() || part.came.is_some();
    let kept = rate.is_none_or(|rate| !rate.over);
    let mut space = std::borrow::Cow::Borrowed(space);
    let colored = match (dscp, part.dscp) {
        (None, _) => true,
        (Some(list), Some(set)) => list.holds(|number| *number == set),
        (Some(list), None) => {
            space.to_mut().narrow(Axis::Dscp, &code_points(list));
            true
        }
    };
    let both = match marked && led && kept && colored {
        true => part.space.and(&space),
        false => None,
    };
    let Some(both) = both else { return others.push(part) };
    if time.is_some() {
        // At other times they go on.
        let at_times_of = part.at_times_of.or(Some(id));
        matched.push(Part { space: both, at_times_of, ..part.clone() });
        return others.push(part);
    }
    part.space.without(&space, |space| others.push(Part { space, ..part.clone() }));
    matched.push(Part { space: both, ..part });
}
