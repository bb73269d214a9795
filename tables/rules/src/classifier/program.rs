//! A hook's chains as one list of steps.
//!
//! A jump is written out: the rules of the chain stand behind it, each asking for what the jump
//! asks as well. So one classifier serves a hook, and a packet that passes three chains still costs
//! one search. The rest of what chains can do is said by where a packet goes on: a rule that
//! decides nothing goes on behind itself, a return behind the written-out chain, and a jump whose
//! circumstances (rate, time, mark) do not hold goes on there as well. The other way, a classifier
//! for every chain and a stack, costs a search at each jump and is what makes "dispatch" chains
//! slow in nftables.
//!
//! A chain that is jumped to from k places is written out k times; chains that multiply beyond
//! [`MOST_STEPS`] are refused.

use crate::evaluate::Outcome;
use crate::model::*;

/// The most steps of one hook.
pub const MOST_STEPS: usize = 1 << 18;

/// A filter whose chains, written out, are too long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "chain {hook}: with the chains it jumps to written out it has more than {MOST_STEPS} rules; jump to long chains from fewer places"
)]
pub struct TooLong {
    /// The hook's name.
    pub hook: &'static str,
}

/// One rule where a packet can meet it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub rule: RuleId,
    /// Where the rule is in the filter: chain, place.
    pub at: (u32, u32),
    /// The jump, as a step, that led to its chain.
    pub parent: Option<u32>,
    /// What becomes of a packet that matches.
    pub pass: Pass,
    /// Where one goes on that matches but for its circumstances.
    pub fail: u32,
    /// It only decides, or only goes on: no circumstances, no effects.
    pub plain: bool,
}

/// What becomes of a packet that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Decide(Outcome),
    /// It goes on with this step.
    Go(u32),
}

/// The steps of a hook.
pub(crate) fn steps(filter: &Filter, hook: Hook) -> Result<Vec<Step>, TooLong> {
    let first_rules = filter.first_rules();
    let mut writer = Writer { filter, first_rules, steps: Vec::new() };
    if !writer.chain(hook as usize, None) {
        return Err(TooLong { hook: hook.name() });
    }
    Ok(writer.steps)
}

struct Writer<'f> {
    filter: &'f Filter,
    first_rules: Vec<u32>,
    steps: Vec<Step>,
}

impl Writer<'_> {
    /// Writes out a chain; `false` when it becomes too long.
    fn chain(&mut self, number: usize, parent: Option<u32>) -> bool {
        let begin = self.steps.len();
        for (place, rule) in self.filter.chains[number].rules.iter().enumerate() {
            let here = self.steps.len();
            if here >= MOST_STEPS {
                return false;
            }
            let next = here as u32 + 1;
            let pass = match &rule.verdict {
                Some(Verdict::Accept) => Pass::Decide(Outcome::Accept),
                Some(Verdict::Drop) => Pass::Decide(Outcome::Drop),
                Some(Verdict::Reject(kind)) => Pass::Decide(Outcome::Reject(*kind)),
                // Where the chain ends is known when it has been written.
                Some(Verdict::Return) => Pass::Go(u32::MAX),
                Some(Verdict::Jump { .. }) | None => Pass::Go(next),
            };
            self.steps.push(Step {
                rule: RuleId(self.first_rules[number] + place as u32),
                at: (number as u32, place as u32),
                parent,
                pass,
                fail: next,
                plain: rule.effects == Effects::default() && !rule.matches.asks_for_circumstances(),
            });
            if let Some(Verdict::Jump { number, .. }) = rule.verdict {
                if !self.chain(number, Some(here as u32)) {
                    return false;
                }
                let behind = self.steps.len() as u32;
                self.steps[here].fail = behind;
                if self.filter.chains[number].base {
                    let accepted = Pass::Decide(Outcome::Accept);
                    let inside = self.steps[here + 1..].iter_mut().filter(|step| step.pass == accepted);
                    inside.for_each(|step| step.pass = Pass::Go(behind));
                }
            }
        }
        let end = self.steps.len() as u32;
        for step in &mut self.steps[begin..] {
            if step.parent == parent && step.pass == Pass::Go(u32::MAX) {
                step.pass = Pass::Go(end);
            }
        }
        true
    }
}
