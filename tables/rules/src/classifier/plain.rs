//! Plain packets, foreseen: which of a batch a hook accepts with nothing more to do than to count
//! them.
//!
//! Most packets meet rules that only accept them, or count them and let them go on (jumps). A
//! router with a short way for those, which leaves all else to [`Compiled::classify`], needs to
//! know which these are before anything is done about any of them: nothing may be counted twice
//! when a packet is left after all. So here nothing is counted; whoever lets the packets pass does
//! that. And since plain packets show all that a key has, keys are put together where the packets
//! are read, without [`Headers`] in between: those of the few packets that a rule has to look at
//! more closely are asked for.

use wire::Headers;
use wire::which::{lowest, numbers, sum, which};

use super::region::{Key, Keys, W4, W6};
use super::{BATCH, Compiled, NOBODY, Part, Program};
use crate::ledger::Accounts;
use crate::matching::Context;
use crate::model::{FlowState, Hook, RuleId};

/// Packets of one family, up to [`BATCH`]: whole ones of TCP or UDP. A packet's mark is not among
/// what is asked.
pub struct Plain<const W: usize>(Keys<W>);

/// What is known of such packets, in columns; addresses as numbers.
pub struct Shown<'a, A> {
    /// How many they are.
    pub count: usize,
    /// Source addresses.
    pub sources: &'a [A; BATCH],
    /// Destination addresses.
    pub destinations: &'a [A; BATCH],
    /// Protocols.
    pub protocols: &'a [u32; BATCH],
    /// Ports, the source's in the upper half.
    pub ports: &'a [u32; BATCH],
    /// By which ports of the router they came.
    pub inputs: &'a [u16; BATCH],
    /// By which they will leave.
    pub outputs: &'a [u16; BATCH],
    /// The state that all their flows are in.
    pub state: FlowState,
}

/// Of IPv4.
pub type Plain4 = Plain<W4>;
/// Of IPv6.
pub type Plain6 = Plain<W6>;

/// By which rules packets pass.
#[derive(Default)]
pub struct Foreseen {
    /// Packets (bits) and the rule that accepts them, or nobody where it is the policy.
    accepted: Vec<(u64, RuleId)>,
    /// Packets and rules by which they went on before: jumps, returns, those that only count.
    passed: Vec<(u64, RuleId)>,
}

impl Foreseen {
    /// Counts the packets of these numbers (bits), so long each, as a worker does at a time of the
    /// monotonic clock: those of one rule at once.
    pub fn count(&self, accounts: &Accounts, worker: usize, numbers: u64, lengths: &[u32; BATCH], now: u64) {
        for &(packets, rule) in self.accepted.iter().chain(&self.passed) {
            let counted = packets & numbers;
            if counted != 0 && rule != NOBODY {
                let (packets, bytes) = (counted.count_ones(), sum(counted, lengths));
                accounts.count(worker, rule, packets.into(), bytes.into(), now);
            }
        }
    }
}

impl<const W: usize> Default for Plain<W> {
    fn default() -> Plain<W> {
        Plain(Keys::none(0))
    }
}

impl<const W: usize> Plain<W> {
    /// All of them.
    #[inline(always)]
    pub(super) fn keys(&self) -> &Keys<W> {
        &self.0
    }

    /// Of all packets what is not their addresses.
    #[inline(always)]
    fn set_rest<A>(&mut self, shown: &Shown<'_, A>) {
        self.0.cut(shown.count);
        let many = shown.count.next_multiple_of(8).min(BATCH);
        for (word, ports) in self.0.column_mut(Key::<W>::PORTS)[..many].iter_mut().zip(shown.ports) {
            *word = ports.rotate_left(16);
        }
        let known = shown.protocols.iter().zip(shown.inputs);
        for (word, (protocol, input)) in self.0.column_mut(Key::<W>::SMALL)[..many].iter_mut().zip(known) {
            *word = Key::<W>::small(*protocol, shown.state, *input);
        }
        for (word, output) in self.0.column_mut(Key::<W>::LAST)[..many].iter_mut().zip(shown.outputs) {
            *word = u32::from(*output);
        }
    }

    #[inline(always)]
    fn ask(
        &mut self,
        compiled: &Compiled,
        (program, part): (&Program, &Part<W>),
        about: impl Fn(usize) -> (Headers, Context),
        foreseen: &mut Foreseen,
    ) -> u64 {
        let Plain(keys) = self;
        if !part.memberships.is_empty() {
            keys.ask(&part.memberships, &compiled.sets);
        }
        let look = |n: usize, step: u32, what: u32| {
            let (headers, context) = about(n);
            compiled.holds(program, step, what, &headers, &context)
        };
        let found = part.forest.find_all(keys, look);
        let Foreseen { accepted: accepting, passed } = foreseen;
        accepting.clear();
        passed.clear();
        let (mut rest, mut accepted) = (lowest(keys.count()), 0);
        // Packets that came to one step are looked at together: most batches come to a few.
        while let Some(step) = found.steps.get(rest.trailing_zeros() as usize) {
            let same = rest & which(|n| found.steps[n] == *step);
            rest &= !same;
            let answer = program.answer(*step);
            if answer.next.is_none() {
                if answer.accepts {
                    accepted |= same;
                    accepting.push((same, answer.rule));
                }
                continue;
            }
            for n in numbers(same) {
                let (key, mut answer) = (keys.key(n), program.answer(*step));
                while let Some(next) = answer.next {
                    passed.push((1 << n, answer.rule));
                    let look = |step: u32, what: u32| look(n, step, what);
                    answer = program.answer(part.forest.find(&key, next, look).step);
                }
                if answer.accepts {
                    accepted |= 1 << n;
                    accepting.push((1 << n, answer.rule));
                }
            }
        }
        accepted
    }
}

impl Plain4 {
    /// Takes these packets instead of those that it had.
    #[inline(always)]
    pub fn set(&mut self, shown: &Shown<'_, u32>) {
        self.set_rest(shown);
        *self.0.column_mut(0) = *shown.sources;
        *self.0.column_mut(1) = *shown.destinations;
    }

    /// Which of the packets a hook accepts by a rule that does nothing else, or by its policy, as
    /// bits; by which is written down. `about` says more of a packet.
    pub fn foresee(
        &mut self,
        compiled: &Compiled,
        hook: Hook,
        about: impl Fn(usize) -> (Headers, Context),
        foreseen: &mut Foreseen,
    ) -> u64 {
        let program = compiled.program(hook);
        self.ask(compiled, (program, &program.v4), about, foreseen)
    }
}

impl Plain6 {
    /// As [`Plain4::set`].
    #[inline(always)]
    pub fn set(&mut self, shown: &Shown<'_, u128>) {
        self.set_rest(shown);
        for word in 0..4 {
            for (first, addresses) in [(0, shown.sources), (4, shown.destinations)] {
                let column = self.0.column_mut(first + word)[..shown.count.min(BATCH)].iter_mut();
                column
                    .zip(addresses)
                    .for_each(|(part, address)| *part = (address >> (96 - 32 * word)) as u32);
            }
        }
    }

    /// As [`Plain4::foresee`].
    pub fn foresee(
        &mut self,
        compiled: &Compiled,
        hook: Hook,
        about: impl Fn(usize) -> (Headers, Context),
        foreseen: &mut Foreseen,
    ) -> u64 {
        let program = compiled.program(hook);
        self.ask(compiled, (program, &program.v6), about, foreseen)
    }
}
