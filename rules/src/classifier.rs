//! The filter compiled: what workers ask, a batch at a time.
//!
//! [`Compiled`] is made from a [`Filter`] and never changes; a changed filter is compiled anew beside it, and each worker
//! goes over between two batches. What rules remember lies outside ([`Ledger`](crate::Ledger)), and the next compilation shares it.
//!
//! ```text
//!   filter --steps: jumps written out--> program --regions, by family--> forest --a batch of keys--> first step that matches
//! ```
//!
//! Most packets are decided by the first step that is found, and that step only decides. One whose rule has effects or
//! circumstances does what the rule says and asks again from the next step on, one packet at a time.

mod grow;
pub(crate) mod program;
pub(crate) mod region;
mod tree;

use std::sync::Arc;

use wire::Headers;

pub use program::{MOST_STEPS, TooLong};
use program::{Pass, Step, steps};
use region::{Key, Memberships, Region, W4, W6, regions};
use tree::{Entry, Forest, Found, kind};

use crate::evaluate::{Decision, Outcome};
use crate::ledger::Accounts;
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
    policy: Outcome,
    v4: Part<W4>,
    v6: Part<W6>,
}

/// A hook in one family.
#[derive(Debug)]
struct Part<const W: usize> {
    forest: Forest<W>,
    memberships: Memberships,
}

impl Compiled {
    /// Compiles a filter. `accounts` is what its rules remember, from [`Ledger::open`](crate::Ledger::open).
    ///
    /// # Errors
    /// [`TooLong`] when chains multiply beyond [`MOST_STEPS`].
    pub fn new(filter: Arc<Filter>, accounts: Accounts) -> Result<Compiled, TooLong> {
        let [input, forward, output] = Hook::ALL.map(|hook| Program::new(&filter, hook));
        let sets = filter.sets.clone().into();
        Ok(Compiled { filter, programs: Arc::new([input?, forward?, output?]), sets, accounts })
    }

    /// The same with other members in a set: `None` when there is no set of this name. The rules are not compiled again.
    pub fn with_set(&self, name: &str, set: Set) -> Option<Compiled> {
        let mut sets = self.sets.to_vec();
        sets.iter_mut().find(|(known, _)| known == name)?.1 = set;
        Some(Compiled { sets: sets.into(), ..self.clone() })
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
        let program = &self.programs[hook as usize];
        program.steps.is_empty() && program.policy == Outcome::Accept
    }

    /// Bytes of memory that the compiled structures take, without the sets.
    pub fn bytes(&self) -> usize {
        self.programs.iter().map(Program::bytes).sum()
    }

    /// Decides packets, up to [`BATCH`], as [`Filter::evaluate`] does, and counts them as this worker. The slices are
    /// equally long.
    pub fn classify(
        &self,
        worker: usize,
        hook: Hook,
        now: &Now,
        headers: &[Headers],
        contexts: &[Context],
        decisions: &mut [Decision],
    ) {
        let program = &self.programs[hook as usize];
        let sixes = headers.iter().filter(|headers| headers.version == 6).count();
        let asked = Asked { compiled: self, program, worker, now, headers, contexts };
        match sixes {
            0 => program.v4.classify(&asked, decisions),
            all if all == headers.len() => program.v6.classify(&asked, decisions),
            _ => {
                // A mixed batch is rare on one port's queue; each family is decided by itself.
                for n in 0..headers.len() {
                    let one = n..n + 1;
                    let asked =
                        Asked { headers: &headers[one.clone()], contexts: &contexts[one.clone()], ..asked };
                    match headers[n].version {
                        6 => program.v6.classify(&asked, &mut decisions[one]),
                        _ => program.v4.classify(&asked, &mut decisions[one]),
                    }
                }
            }
        }
    }
}

impl Program {
    fn new(filter: &Filter, hook: Hook) -> Result<Program, TooLong> {
        let steps = steps(filter, hook)?;
        let policy = match filter.hook(hook).policy {
            Policy::Accept => Outcome::Accept,
            Policy::Drop => Outcome::Drop,
        };
        Ok(Program { policy, v4: Part::new(filter, &steps), v6: Part::new(filter, &steps), steps })
    }

    fn bytes(&self) -> usize {
        self.steps.capacity() * size_of::<Step>() + self.v4.forest.bytes() + self.v6.forest.bytes()
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
            // A step in a jumped-to chain may be passed over by a return: only on top level it decides for sure.
            if step.plain && step.parent.is_none() && asks & (kind::LARGER | kind::MOMENT) == 0 {
                asks |= kind::FINAL;
            }
            entries
                .extend(found.list.iter().map(|region: &Region<W>| Entry::new(region, number as u32, asks)));
        }
        Part { forest: Forest::new(entries), memberships }
    }

    fn classify(&self, asked: &Asked, decisions: &mut [Decision]) {
        let mut keys = [Key([0; W]); BATCH];
        let mut found = [Found::NONE; BATCH];
        let count = asked.headers.len().min(BATCH);
        let (keys, found) = (&mut keys[..count], &mut found[..count]);
        for (key, (headers, context)) in keys.iter_mut().zip(asked.headers.iter().zip(asked.contexts)) {
            *key = Key::of(headers, context);
        }
        if !self.memberships.is_empty() {
            for (key, headers) in keys.iter_mut().zip(asked.headers) {
                key.ask(headers, &self.memberships, &asked.compiled.sets);
            }
        }
        self.forest.find_batch(keys, found, |n, step, kind| asked.look(n, step, kind));
        // Packets in a row that the same rule decides are counted at once.
        let mut run = Run { rule: RuleId(u32::MAX), packets: 0, bytes: 0 };
        for (n, decision) in decisions[..count].iter_mut().enumerate() {
            let found = found[n];
            let step = asked.program.steps.get(found.step as usize).filter(|step| step.plain);
            let Some(Step { pass: Pass::Decide(outcome), rule, .. }) = step else {
                *decision = self.go_on(asked, n, &keys[n], found);
                continue;
            };
            if run.rule != *rule {
                asked.count(&run);
                run = Run { rule: *rule, packets: 0, bytes: 0 };
            }
            run.packets += 1;
            run.bytes += u64::from(asked.headers[n].length);
            *decision = Decision {
                outcome: *outcome,
                rule: Some(*rule),
                log: None,
                mark: asked.contexts[n].mark,
                dscp: None,
                varies: found.varies <= found.step,
            };
        }
        asked.count(&run);
    }

    /// Does what a step says that has more to say than a verdict, and asks for the next one, until one decides.
    #[cold]
    fn go_on(&self, asked: &Asked, n: usize, key: &Key<W>, mut found: Found) -> Decision {
        let mut decision = Decision { mark: asked.contexts[n].mark, ..Decision::default() };
        loop {
            decision.varies |= found.varies != u32::MAX && found.varies <= found.step;
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
            found = self.forest.find(key, next, |step, kind| asked.look(n, step, kind));
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

/// Packets that one rule has matched.
struct Run {
    rule: RuleId,
    packets: u64,
    bytes: u64,
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
    /// Looks at what a region cannot say.
    #[cold]
    fn look(&self, n: usize, step: u32, what: u32) -> bool {
        let (headers, context) = (&self.headers[n], &self.contexts[n]);
        let step = &self.program.steps[step as usize];
        step.lineage(&self.program.steps).all(|step| {
            let matches = &step.rule_of(&self.compiled.filter).matches;
            match what {
                kind::MOMENT => matches.momentary(headers),
                _ => matches.constant(headers, context, &self.compiled.sets),
            }
        })
    }

    fn count(&self, run: &Run) {
        if run.packets > 0 {
            let accounts = &self.compiled.accounts;
            accounts.count(self.worker, run.rule, run.packets, run.bytes, self.now.monotonic);
        }
    }

    /// What becomes of a packet at a step that matches but for its circumstances.
    fn take(&self, n: usize, step: &Step, decision: &mut Decision) -> Pass {
        let rule = step.rule_of(&self.compiled.filter);
        let headers = &self.headers[n];
        let meter = self.compiled.accounts.meter(step.rule);
        let now = self.now.monotonic;
        let holds = rule.matches.circumstances(decision.mark, self.now)
            && meter.is_none_or(|meter| meter.rate(rule, &headers.source, headers.length, now));
        if !holds {
            return Pass::Go(step.fail);
        }
        self.count(&Run { rule: step.rule, packets: 1, bytes: u64::from(headers.length) });
        match rule.take_effect(step.rule, meter, headers.length, now, decision) {
            true => step.pass,
            false => Pass::Decide(Outcome::Drop),
        }
    }
}
