//! RulesPath: the whole way of plain packets that rules only accept, in one element
//!
//! Group: router
//! Usage: `RulesPath`
//! Ports: 1 input, 2 outputs; push
//!
//! What [FastPath] is to a router without rules, this is to one whose rules ask nothing about
//! flows: plain packets of TCP and UDP that the chains let pass, and do nothing else about, are
//! counted with the rules that decided and forwarded, all at once. As there, whatever is not plain
//! in any way is left as it came to the elements behind: packets that a rule drops, rejects, logs,
//! marks or measures, other protocols, fragments.
//!
//! Outputs:
//! - 0: everything else, unchanged but for padding
//! - 1: to be transmitted
//!
//! See also: [FastPath], [FlowPath], [Filter]
//
// Rules may ask for the out port, so the way of all packets is found first; then the chains are
// asked about all of them, one chain after the other; and only then is anything written.

use std::sync::Arc;

use fib::View;
use graph::{BATCH, Batch, Class, Context, Element};
use port::Packet;
use rules::{Compiled, FlowState, Foreseen, Hook, Plain4, Plain6, Shown};
use wire::Headers;

use super::context::SharedContext;
use super::family::{V4, V6};
use super::leave::Leave;
use super::plain::{Chosen, Upper};
use super::router_context::on_policy;
use super::rulebook::Reader;
use super::wide::wide;
use super::{ETHERNET, RouterContext, Sources};

/// The class `RulesPath`.
pub const CLASS: Class = Class {
    name: "RulesPath",
    ports: "1!/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("rules_path.rs"),
    make: |arguments, setup| {
        on_policy(arguments, setup, |RouterContext { view, sources, .. }, context, reader| {
            let (four, six) = (Way::default(), Way::default());
            RulesPath { view, sources, context, reader, four, six }
        })
    },
};

const REST: usize = 0;
const OUT: usize = 1;

/// Forwards plain packets that rules accept. Outputs: `rest`, `out`.
pub struct RulesPath {
    view: View,
    sources: Arc<Sources>,
    context: SharedContext,
    reader: Reader,
    four: Way<V4>,
    six: Way<V6>,
}

/// Packets of a family on their way.
struct Way<F: Judge> {
    chosen: Chosen<F>,
    keys: Box<F::Keys>,
    /// By which rules they pass, at one hook after the other.
    foreseen: Box<[Foreseen; 3]>,
}

impl<F: Judge> Default for Way<F> {
    fn default() -> Way<F> {
        Way { chosen: Chosen::new(), keys: Box::default(), foreseen: Box::default() }
    }
}

/// A family's packets as rules know them.
trait Judge: Leave {
    /// What rules are asked by.
    type Keys: Default + Send;

    fn set(keys: &mut Self::Keys, shown: &Shown<'_, Self::Address>);
    fn foresee(
        keys: &mut Self::Keys,
        compiled: &Compiled,
        hook: Hook,
        about: impl Fn(usize) -> (Headers, rules::Context),
        foreseen: &mut Foreseen,
    ) -> u64;
}

macro_rules! judge {
    ($family:ty, $keys:ty) => {
        impl Judge for $family {
            type Keys = $keys;

            #[inline(always)]
            fn set(keys: &mut $keys, shown: &Shown<'_, Self::Address>) {
                keys.set(shown);
            }

            fn foresee(
                keys: &mut $keys,
                compiled: &Compiled,
                hook: Hook,
                about: impl Fn(usize) -> (Headers, rules::Context),
                foreseen: &mut Foreseen,
            ) -> u64 {
                keys.foresee(compiled, hook, about, foreseen)
            }
        }
    };
}
judge!(V4, Plain4);
judge!(V6, Plain6);

/// What a batch is handled with.
struct Work<'a> {
    view: &'a View,
    compiled: &'a Compiled,
    worker: usize,
    state: FlowState,
    now: u64,
}

wide! {
    /// Makes the keys of all packets noted, of which not all need be plain.
    fn set_keys[F: Judge](way: &mut Way<F>, state: FlowState) {
        let Way { chosen, keys, .. } = way;
        let Chosen { count, destinations, upper, ways, .. } = chosen;
        let Upper { sources, protocols, ports, inputs, .. } = upper;
        let (count, outputs) = (*count, &ways.outputs);
        let shown = Shown { count, sources, destinations, protocols, ports, inputs, outputs, state };
        F::set(keys, &shown);
    }
}

impl<F: Judge> Way<F> {
    /// Sends those chosen that the rules accept; their places, as bits.
    #[inline(always)]
    fn send(&mut self, packets: &mut [Packet], work: &Work<'_>) -> u64 {
        let Work { view, compiled, state, .. } = *work;
        let mut accepted = self.chosen.aim(self.chosen.upper.whole, view, packets);
        if accepted == 0 {
            return 0;
        }
        set_keys(self, state);
        let Way { chosen, keys, foreseen } = self;
        for (hook, foreseen) in asked(compiled).zip(foreseen.iter_mut()) {
            let about = |n: usize| {
                // Never refused: the headers are whole.
                let headers = |packet: &Packet| Headers::parse(packet.data().get(ETHERNET..)?).ok();
                let headers = packets.get(chosen.place(n)).and_then(headers).unwrap_or_default();
                let (in_port, out_port) =
                    (chosen.upper.inputs[n % BATCH], Some(chosen.ways.outputs[n % BATCH]));
                (headers, rules::Context { in_port, out_port, state, ..rules::Context::default() })
            };
            accepted &= F::foresee(keys, compiled, hook, about, foreseen);
        }
        for (_, foreseen) in asked(compiled).zip(foreseen.iter()) {
            foreseen.count(compiled.accounts(), work.worker, accepted, &chosen.upper.lengths, work.now);
        }
        chosen.depart(accepted, view, packets)
    }
}

/// The hooks that have something to say.
fn asked(compiled: &Compiled) -> impl Iterator<Item = Hook> {
    Hook::ALL.into_iter().filter(|hook| !compiled.passes_all(*hook))
}

impl Element for RulesPath {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["rest", "out"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        // Whoever looks on wants to see what each element does.
        if cx.is_observed() {
            return cx.emit_batch(REST, batch);
        }
        let RulesPath { view, sources, context, reader, four, six } = self;
        reader.refresh();
        let (worker, state) = {
            let context = context.lock();
            (context.number, context.otherwise)
        };
        let compiled = reader.compiled();
        let work = Work { view, compiled, worker, state, now: cx.now() };
        let mut sent = 0;
        let others = four.chosen.choose_upper(view, sources, batch.packets_mut());
        if four.chosen.upper.whole != 0 {
            sent = four.send(batch.packets_mut(), &work);
        }
        if others != 0 {
            six.chosen.choose(view, batch.packets_mut(), others, true);
            sent |= six.send(batch.packets_mut(), &work);
        }
        cx.emit_some(REST, batch, batch.mask() & !sent);
        cx.emit_batch(OUT, batch);
    }
}
