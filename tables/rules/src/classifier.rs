//! The filter compiled: what workers ask, a batch at a time.
//!
//! [`Compiled`] is made from a [`Filter`] and never changes; a changed filter is compiled anew
//! beside it, and each worker goes over between two batches. What rules remember lies outside
//! ([`Ledger`](crate::Ledger)), and the next compilation shares it.
//!
//! ```text
//!   filter --steps: jumps written out--> program --regions, by family--> forest --a batch of keys--> first step that matches
//! ```
//!
//! Most packets are decided by the first step that is found, and that step only decides. One whose
//! rule has effects or circumstances does what the rule says and asks again from the next step on,
//! one packet at a time.

mod few;
mod grow;
mod leaf;
mod plain;
pub(crate) mod program;
pub(crate) mod region;
pub(crate) mod routing;
mod tree;

use std::sync::Arc;

use wire::Headers;

pub use plain::{Foreseen, Plain4, Plain6, Shown};
pub use program::{MOST_STEPS, TooLong};
use program::{Pass, Step, steps};
use region::{Key, Keys, Memberships, Region, W4, W6, regions};
use tree::{Entry, Forest, Found, FoundAll, kind};

use crate::evaluate::{Decision, Outcome};
use crate::ledger::{Accounts, Ledger};
use crate::matching::{Context, Sets};
use crate::model::*;
use crate::moment::Now;
use crate::set::Set;

/// Packets of a batch at most.
pub const BATCH: usize = 64;

/// A filter, compiled. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Compiled {
    filter: Arc<Filter>,
    programs: Arc<[Program; 3]>,
    sets: Arc<Sets>,
    accounts: Accounts,
}

/// A hook, compiled.
#[derive(Debug)]
struct Program {
    steps: Vec<Step>,
    /// By step what it answers, and behind the last one what the policy does.
    answers: Vec<Answer>,
    policy: Outcome,
    v4: Part<W4>,
    v6: Part<W6>,
}

/// What is to be said of a packet whose first step is known.
#[derive(Clone, Copy, Debug)]
struct Answer {
    rule: RuleId,
    outcome: Outcome,
    /// That is all. Otherwise the step is to be taken.
    plain: bool,
    /// That is all, and it is that the packet passes.
    accepts: bool,
    /// Counts the packet and lets it go on with this step, and that is all.
    next: Option<u32>,
}

impl Answer {
    fn decides(rule: RuleId, outcome: Outcome, plain: bool) -> Answer {
        Answer { rule, outcome, plain, accepts: plain && outcome == Outcome::Accept, next: None }
    }
}

/// What decides when it is the policy.
const NOBODY: RuleId = RuleId(u32::MAX);

/// A hook in one family.
#[derive(Debug)]
struct Part<const W: usize> {
    forest: Forest<W>,
    memberships: Memberships,
}

impl Compiled {
    /// Compiles a filter. `accounts` is what its rules remember, from
    /// [`Ledger::open`](crate::Ledger::open).
    ///
    /// # Errors
    /// [`TooLong`] when chains multiply beyond [`MOST_STEPS`].
    pub fn new(filter: Arc<Filter>, accounts: Accounts) -> Result<Compiled, TooLong> {
        let [input, forward, output] = Hook::ALL.map(|hook| Program::new(&filter, hook));
        let sets = filter.sets.clone().into();
        Ok(Compiled { filter, programs: Arc::new([input?, forward?, output?]), sets, accounts })
    }

    /// The same with other members in a set: `None` when there is no set of this name. The rules
    /// are not compiled again.
    pub fn with_set(&self, name: &str, set: Set) -> Option<Compiled> {
        let mut sets = self.sets.to_vec();
        sets.iter_mut().find(|(known, _)| known == name)?.1 = set;
        Some(Compiled { sets: sets.into(), ..self.clone() })
    }

    /// The same for packets that are only thought of: what its rules remember is its own.
    #[must_use]
    pub fn for_dry_run(&self) -> Compiled {
        Compiled { accounts: Ledger::new(1).open(&self.filter), ..self.clone() }
    }

    /// What was compiled. Its sets are those of that time.
    pub fn filter(&self) -> &Arc<Filter> {
        &self.filter
    }

    /// The address sets in use.
    pub fn sets(&self) -> &[(String, Set)] {
        &self.sets
    }

    /// What its rules remember.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Whether a hook lets everything pass and has no rules: it need not be asked.
    pub fn passes_all(&self, hook: Hook) -> bool {
        let program = self.program(hook);
        program.steps.is_empty() && program.policy == Outcome::Accept
    }

    fn program(&self, hook: Hook) -> &Program {
        &self.programs[hook as usize]
    }

    /// Bytes of memory that the compiled structures take, without the sets.
    pub fn bytes(&self) -> usize {
        self.programs.iter().map(Program::bytes).sum()
    }

    /// Decides packets, up to [`BATCH`], as [`Filter::evaluate`] does, and counts them as this
    /// worker. The slices are equally long.
    pub fn classify(
        &self,
        worker: usize,
        hook: Hook,
        now: &Now,
        headers: &[Headers],
        contexts: &[Context],
        decisions: &mut [Decision],
    ) {
        let program = self.program(hook);
        let sixes = headers.iter().filter(|headers| headers.version == 6).count();
        let asked = Asked { compiled: self, program, worker, now, headers, contexts };
        let found = match sixes {
            0 => program.v4.find(&asked),
            all if all == headers.len() => program.v6.find(&asked),
            _ => asked.find_by_family(),
        };
        asked.decide(&found, decisions);
    }
}

impl Compiled {
    /// Whether what a region cannot say of a step holds for a packet.
    #[cold]
    fn holds(&self, program: &Program, step: u32, what: u32, headers: &Headers, context: &Context) -> bool {
        program.steps[step as usize].lineage(&program.steps).all(|step| {
            let matches = &step.rule_of(&self.filter).matches;
            match what {
                kind::MOMENT => matches.momentary(headers),
                _ => matches.constant(headers, context, &self.sets),
            }
        })
    }
}

impl Program {
    fn new(filter: &Filter, hook: Hook) -> Result<Program, TooLong> {
        let steps = steps(filter, hook)?;
        let policy = match filter.hook(hook).policy {
            Policy::Accept => Outcome::Accept,
            Policy::Drop => Outcome::Drop,
        };
        let answer = |step: &Step| match step.pass {
            Pass::Decide(outcome) => Answer::decides(step.rule, outcome, step.plain),
            Pass::Go(next) => {
                let next = step.plain.then_some(next);
                Answer { next, ..Answer::decides(step.rule, policy, false) }
            }
        };
        let nobody = Answer::decides(NOBODY, policy, true);
        let answers = steps.iter().map(answer).chain([nobody]).collect();
        Ok(Program { policy, answers, v4: Part::new(filter, &steps), v6: Part::new(filter, &steps), steps })
    }

    /// What a step that was found answers.
    #[inline(always)]
    fn answer(&self, step: u32) -> Answer {
        self.answers[(step as usize).min(self.answers.len() - 1)]
    }

    fn bytes(&self) -> usize {
        self.steps.capacity() * size_of::<Step>()
            + self.answers.capacity() * size_of::<Answer>()
            + self.v4.forest.bytes()
            + self.v6.forest.bytes()
    }
}

impl<const W: usize> Part<W> {
    fn new(filter: &Filter, steps: &[Step]) -> Part<W> {
        let mut memberships = Memberships::new();
        let mut entries = Vec::with_capacity(steps.len());
        for (number, step) in steps.iter().enumerate() {
            let rule = &filter.chains[step.at.0 as usize].rules[step.at.1 as usize];
            let found = regions::<W>(filter, steps, step, &mut memberships);
            let mut asks = u32::from(!found.exact) * kind::LARGER + u32::from(rule.varies()) * kind::VARIES;
            if step.lineage(steps).any(|step| step.rule_of(filter).matches.asks_for_moment()) {
                asks |= kind::MOMENT;
            }
            // A step in a jumped-to chain may be passed over by a return: only on top level it
            // decides for sure.
            let decides = step.plain && matches!(step.pass, Pass::Decide(_));
            if decides && step.parent.is_none() && asks & (kind::LARGER | kind::MOMENT) == 0 {
                asks |= kind::FINAL;
            }
            entries
                .extend(found.list.iter().map(|region: &Region<W>| Entry::new(region, number as u32, asks)));
        }
        Part { forest: Forest::new(entries), memberships }
    }

    fn find(&self, asked: &Asked) -> FoundAll {
        let mut keys = Keys::of(asked.headers, asked.contexts);
        if !self.memberships.is_empty() {
            keys.ask(&self.memberships, &asked.compiled.sets);
        }
        self.forest.find_all(&keys, |n, step, kind| asked.look(n, step, kind))
    }

    /// Does what a step says that has more to say than a verdict, and asks for the next one, until
    /// one decides.
    #[cold]
    fn go_on(&self, asked: &Asked, n: usize, mut found: Found) -> Decision {
        let mut key = Key::of(&asked.headers[n], &asked.contexts[n]);
        key.ask(&self.memberships, &asked.compiled.sets);
        let mut decision = Decision { mark: asked.contexts[n].mark, ..Decision::default() };
        loop {
            decision.varies |= found.varies();
            let Some(step) = asked.program.steps.get(found.step as usize) else {
                decision.outcome = asked.program.policy;
                return decision;
            };
            let next = match asked.take(n, step, &mut decision) {
                Pass::Decide(outcome) => {
                    decision.outcome = outcome;
                    decision.rule = Some(step.rule);
                    return decision;
                }
                Pass::Go(next) => next,
            };
            found = self.forest.find(&key, next, |step, kind| asked.look(n, step, kind));
        }
    }
}

impl Step {
    pub(crate) fn rule_of<'f>(&self, filter: &'f Filter) -> &'f Rule {
        &filter.chains[self.at.0 as usize].rules[self.at.1 as usize]
    }

    /// The step, and the jumps that led to it.
    pub(crate) fn lineage<'s>(&'s self, steps: &'s [Step]) -> impl Iterator<Item = &'s Step> {
        std::iter::successors(Some(self), |step| step.parent.map(|parent| &steps[parent as usize]))
    }
}

/// A batch and what is asked about it.
#[derive(Clone, Copy)]
struct Asked<'a> {
    compiled: &'a Compiled,
    program: &'a Program,
    worker: usize,
    now: &'a Now,
    headers: &'a [Headers],
    contexts: &'a [Context],
}

impl Asked<'_> {
    /// What is found when both families are in the batch: each one's packets are put side by side.
    #[cold]
    fn find_by_family(&self) -> FoundAll {
        let mut found = FoundAll::NONE;
        for six in [false, true] {
            let (mut places, mut count) = ([0; BATCH], 0);
            let (mut headers, mut contexts) = ([Headers::default(); BATCH], [Context::default(); BATCH]);
            for (n, (about, context)) in self.headers.iter().zip(self.contexts).take(BATCH).enumerate() {
                (places[count], headers[count], contexts[count]) = (n, *about, *context);
                count += usize::from((about.version == 6) == six);
            }
            let own = Asked { headers: &headers[..count], contexts: &contexts[..count], ..*self };
            let of_family = if six { self.program.v6.find(&own) } else { self.program.v4.find(&own) };
            for (n, place) in places[..count].iter().enumerate() {
                found.set(*place, of_family.of(n));
            }
        }
        found
    }

    /// Says what becomes of the packets, in their order, and counts them.
    #[inline(always)]
    fn decide(&self, found: &FoundAll, decisions: &mut [Decision]) {
        // Who decided each packet, and one more, which is nobody.
        let mut rules = [NOBODY; BATCH + 1];
        let count = self.headers.len().min(BATCH);
        let said = decisions[..count].iter_mut().zip(&mut rules).zip(self.contexts);
        for (n, ((decision, rule), context)) in said.enumerate() {
            let found = found.of(n);
            let answer = self.program.answer(found.step);
            if !answer.plain {
                *decision = match self.headers[n].version {
                    6 => self.program.v6.go_on(self, n, found),
                    _ => self.program.v4.go_on(self, n, found),
                };
                continue;
            }
            *rule = answer.rule;
            *decision = Decision {
                outcome: answer.outcome,
                rule: (answer.rule != NOBODY).then_some(answer.rule),
                log: None,
                mark: context.mark,
                dscp: None,
                varies: found.varies(),
            };
        }
        self.count_all(&rules);
    }

    #[inline(always)]
    fn look(&self, n: usize, step: u32, what: u32) -> bool {
        self.compiled.holds(self.program, step, what, &self.headers[n], &self.contexts[n])
    }

    /// Counts the packets that rules have decided, those in a row of one rule at once. Where rows
    /// end is found without guessing, for it may be anywhere.
    fn count_all(&self, rules: &[RuleId; BATCH + 1]) {
        let (mut bytes, mut ends) = ([0; BATCH], 0u64);
        let mut sum = 0;
        let headers = &self.headers[..self.headers.len().min(BATCH)];
        for n in 0..headers.len() {
            sum += u64::from(headers[n].length);
            bytes[n] = sum;
            ends |= u64::from(rules[n] != rules[n + 1]) << n;
        }
        let (mut begin, mut before) = (0, 0);
        while ends != 0 {
            let end = ends.trailing_zeros() as usize;
            ends &= ends - 1;
            if rules[end] != NOBODY {
                self.count(rules[end], (end + 1 - begin) as u64, bytes[end] - before);
            }
            (begin, before) = (end + 1, bytes[end]);
        }
    }

    fn count(&self, rule: RuleId, packets: u64, bytes: u64) {
        self.compiled.accounts.count(self.worker, rule, packets, bytes, self.now.monotonic);
    }

    /// What becomes of a packet at a step that matches but for its circumstances.
    fn take(&self, n: usize, step: &Step, decision: &mut Decision) -> Pass {
        let rule = step.rule_of(&self.compiled.filter);
        let headers = &self.headers[n];
        let meter = self.compiled.accounts.meter(step.rule);
        let now = self.now.monotonic;
        let holds = rule.matches.circumstances(&decision.circumstances(headers, self.now))
            && meter.is_none_or(|meter| meter.rate(rule, &headers.source, headers.length, now));
        if !holds {
            return Pass::Go(step.fail);
        }
        self.count(step.rule, 1, u64::from(headers.length));
        match rule.take_effect(step.rule, meter, headers.length, now, decision) {
            true => step.pass,
            false => Pass::Decide(Outcome::Drop),
        }
    }
}
