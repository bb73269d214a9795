//! What a filter means: its rules tried from the top, one after the other.
//!
//! This is the definition that the classifier is held against, so it is as plain as it can be. It
//! also tells the way of a packet, rule by rule, which is what [`Filter::explain`] puts into words.

use wire::Headers;

use crate::ledger::Accounts;
use crate::matches::Circumstances;
use crate::matching::Context;
use crate::meter::Meter;
use crate::model::*;
use crate::moment::Now;

/// What becomes of a packet at a hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It passes.
    #[default]
    Accept,
    /// It vanishes.
    Drop,
    /// It vanishes, and its sender is told.
    Reject(Reject),
}

/// What a filter says about a packet at a hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// What becomes of it.
    pub outcome: Outcome,
    /// The rule that decided; `None`: the policy did.
    pub rule: Option<RuleId>,
    /// The rule, if one wants a line in the log about this packet: the first of them.
    pub log: Option<RuleId>,
    /// Its mark from now on.
    pub mark: u32,
    /// The DSCP that it is to carry from now on, if that was changed.
    pub dscp: Option<u8>,
    /// Whether another packet of the same flow, direction and state may fare otherwise, or is to be
    /// seen by a rule again (to be counted, logged or policed). If not, the decision holds for all
    /// of them until the rules change.
    pub varies: bool,
}

impl Decision {
    /// What a packet is like by now.
    pub(crate) fn circumstances<'a>(&self, headers: &Headers, now: &'a Now) -> Circumstances<'a> {
        Circumstances { mark: self.mark, dscp: self.dscp.unwrap_or(headers.dscp), now }
    }
}

/// What happened at one rule on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It did not match.
    Passed(RuleId),
    /// It matched, and did what it does.
    Matched(RuleId),
    /// It matched, and its policer dropped the packet.
    Policed(RuleId),
    /// No rule of a chain (its number) was left: back behind the jump, or the policy.
    Ended(usize),
}

/// How the walk through a chain ended.
enum Walk {
    Decided(Outcome, RuleId),
    Returned,
}

/// One packet on its way.
struct Traveller<'f, 'a> {
    filter: &'f Filter,
    first_rules: Vec<u32>,
    headers: &'a Headers,
    context: &'a Context,
    now: &'a Now,
    accounts: Option<&'a Accounts>,
    decision: Decision,
    see: &'a mut dyn FnMut(Step),
}

impl Filter {
    /// The same rules where every rate is kept to and nothing is logged: compiled, they say of a
    /// packet that is only thought of what [`Filter::evaluate`] says without accounts. Rules keep
    /// their numbers.
    #[must_use]
    pub fn with_rates_kept(&self) -> Filter {
        let mut filter = self.clone();
        for rule in filter.chains.iter_mut().flat_map(|chain| &mut chain.rules) {
            (rule.effects.police, rule.effects.log) = (None, None);
            if rule.matches.rate.take().is_some_and(|rate| rate.over) {
                // Nothing exceeds it: no packet comes in by none of all ports.
                rule.matches.in_ports = Some(List { not: false, items: Vec::new() });
            }
        }
        filter
    }

    /// What this filter says about a packet at a hook. Without `accounts` every rate is kept and
    /// nothing is logged.
    pub fn evaluate(
        &self,
        hook: Hook,
        headers: &Headers,
        context: &Context,
        now: &Now,
        accounts: Option<&Accounts>,
    ) -> Decision {
        self.walk(hook, headers, context, now, accounts, &mut |_| {})
    }

    /// As [`Filter::evaluate`], telling each step.
    pub fn walk(
        &self,
        hook: Hook,
        headers: &Headers,
        context: &Context,
        now: &Now,
        accounts: Option<&Accounts>,
        see: &mut dyn FnMut(Step),
    ) -> Decision {
        let decision = Decision { mark: context.mark, ..Decision::default() };
        let first_rules = self.first_rules();
        let mut traveller =
            Traveller { filter: self, first_rules, headers, context, now, accounts, decision, see };
        match traveller.chain(hook as usize) {
            Walk::Decided(outcome, rule) => {
                traveller.decision.outcome = outcome;
                traveller.decision.rule = Some(rule);
            }
            Walk::Returned => {
                traveller.decision.outcome = match self.hook(hook).policy {
                    Policy::Accept => Outcome::Accept,
                    Policy::Drop => Outcome::Drop,
                };
            }
        }
        traveller.decision
    }
}

impl Traveller<'_, '_> {
    fn chain(&mut self, number: usize) -> Walk {
        let filter = self.filter;
        for (place, rule) in filter.chains[number].rules.iter().enumerate() {
            let id = RuleId(self.first_rules[number] + place as u32);
            let constant = rule.matches.constant(self.headers, self.context, &filter.sets);
            self.decision.varies |= constant && rule.varies();
            let matches = constant
                && rule.matches.momentary(self.headers)
                && rule.matches.circumstances(&self.decision.circumstances(self.headers, self.now))
                && self.keeps_rate(rule, id);
            if !matches {
                (self.see)(Step::Passed(id));
                continue;
            }
            let meter = self.accounts.and_then(|accounts| accounts.meter(id));
            if !rule.take_effect(id, meter, self.headers.length, self.now.monotonic, &mut self.decision) {
                (self.see)(Step::Policed(id));
                return Walk::Decided(Outcome::Drop, id);
            }
            (self.see)(Step::Matched(id));
            match &rule.verdict {
                None => {}
                Some(Verdict::Accept) => return Walk::Decided(Outcome::Accept, id),
                Some(Verdict::Drop) => return Walk::Decided(Outcome::Drop, id),
                Some(Verdict::Reject(kind)) => return Walk::Decided(Outcome::Reject(*kind), id),
                Some(Verdict::Return) => return Walk::Returned,
                Some(Verdict::Jump { number, .. }) => match self.chain(*number) {
                    Walk::Decided(Outcome::Accept, _) if filter.chains[*number].base => {}
                    Walk::Decided(outcome, rule) => return Walk::Decided(outcome, rule),
                    Walk::Returned => {}
                },
            }
        }
        (self.see)(Step::Ended(number));
        Walk::Returned
    }

    fn keeps_rate(&self, rule: &Rule, id: RuleId) -> bool {
        let Some(accounts) = self.accounts else {
            return rule.matches.rate.is_none_or(|rate| !rate.over);
        };
        let Headers { source, length, .. } = self.headers;
        accounts.meter(id).is_none_or(|meter| meter.rate(rule, source, *length, self.now.monotonic))
    }
}

impl Rule {
    /// Does to a packet that matched what the rule does on the way; `false` when the policer drops
    /// it.
    pub(crate) fn take_effect(
        &self,
        id: RuleId,
        meter: Option<&Meter>,
        length: u16,
        now: u64,
        decision: &mut Decision,
    ) -> bool {
        let Effects { count: _, police, log, mark, dscp } = &self.effects;
        if let (Some(rate), Some(meter)) = (police, meter)
            && !meter.police(rate, length, now)
        {
            return false;
        }
        if let (Some(log), Some(meter)) = (log, meter)
            && meter.log(log, length, now)
        {
            decision.log.get_or_insert(id);
        }
        decision.mark = mark.unwrap_or(decision.mark);
        decision.dscp = dscp.or(decision.dscp);
        true
    }
}
