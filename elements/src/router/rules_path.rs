//! RulesPath: the whole way of plain packets that rules only accept, in one element
//!
//! Group: router
//! Usage: `RulesPath`
//! Ports: 1 input, 2 outputs; push
//!
//! What [FastPath] is to a router without rules, this is to one whose rules ask nothing about flows: plain packets of TCP and UDP that
//! the chains let pass, and do nothing else about, are counted with the rules that decided and forwarded, all at once. As there,
//! whatever is not plain in any way is left as it came to the elements behind: packets that a rule drops, rejects, logs, marks or
//! measures, other protocols, fragments.
//!
//! Outputs:
//! - 0: everything else, unchanged but for padding
//! - 1: to be transmitted
//!
//! See also: [FastPath], [FlowPath], [Filter]
//
// Rules may ask for the out port, so the way of all packets is found first; then the chains are asked about all of them, one chain
// after the other; and only then is anything written.

use std::sync::Arc;

use fib::{PortId, View};
use graph::{BATCH, Batch, Class, Context, Element};
use port::Packet;
use rules::{Compiled, FlowState, Foreseen, Hook, Plain4, Plain6};
use wire::Headers;

use super::family::{V4, V6};
use super::plain::{Chosen, Upper, ports};
use super::rulebook::Reader;
use super::seat::SharedSeat;
use super::surroundings::on_policy;
use super::{ETHERNET, Sources, Surroundings, u16_at};

/// The class `RulesPath`.
pub const CLASS: Class = Class {
    name: "RulesPath",
    ports: "1!/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("rules_path.rs"),
    make: |arguments, setup| {
        on_policy(arguments, setup, |Surroundings { view, sources, .. }, seat, reader| {
            let (four, six) = (Way::default(), Way::default());
            RulesPath { view, sources, seat, reader, four, six }
        })
    },
};

const REST: usize = 0;
const OUT: usize = 1;

/// Forwards plain packets that rules accept. Outputs: `rest`, `out`.
pub struct RulesPath {
    view: View,
    sources: Arc<Sources>,
    seat: SharedSeat,
    reader: Reader,
    four: Way<V4>,
    six: Way<V6>,
}

/// Packets of a family on their way.
struct Way<F: Judge> {
    chosen: Chosen<F>,
    keys: Box<F::Keys>,
    /// Bytes of their IP packets.
    lengths: [u16; BATCH],
    /// By which rules they pass, at one hook after the other.
    foreseen: Box<[Foreseen; 3]>,
}

impl<F: Judge> Default for Way<F> {
    fn default() -> Way<F> {
        Way { chosen: Chosen::new(), keys: Box::default(), lengths: [0; BATCH], foreseen: Box::default() }
    }
}

/// A family's packets as rules know them.
trait Judge: Upper {
    /// What rules are asked by.
    type Keys: Default + Send;
    /// Where both addresses stand in an IP header.
    const ADDRESSES: std::ops::Range<usize>;

    fn set(
        keys: &mut Self::Keys,
        n: usize,
        addresses: &[u8],
        upper: ([u16; 2], u8),
        context: &rules::Context,
    );
    fn foresee(
        keys: &mut Self::Keys,
        compiled: &Compiled,
        hook: Hook,
        about: impl Fn(usize) -> (Headers, rules::Context),
        foreseen: &mut Foreseen,
    ) -> u64;
}

macro_rules! judge {
    ($family:ty, $keys:ty, $addresses:expr) => {
        impl Judge for $family {
            type Keys = $keys;
            const ADDRESSES: std::ops::Range<usize> = $addresses;

            #[inline(always)]
            fn set(
                keys: &mut $keys,
                n: usize,
                addresses: &[u8],
                upper: ([u16; 2], u8),
                context: &rules::Context,
            ) {
                keys.set(n, addresses, upper.0, upper.1, context);
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
judge!(V4, Plain4, 12..20);
judge!(V6, Plain6, 8..40);

/// What a batch is handled with.
struct Work<'a> {
    view: &'a View,
    compiled: &'a Compiled,
    worker: usize,
    state: FlowState,
    now: u64,
}

impl<F: Judge> Way<F> {
    /// Sends those of the first `count` chosen that the rules accept; their places, as bits.
    #[inline(always)]
    fn send(&mut self, count: usize, packets: &mut [Packet], work: &Work<'_>) -> u64 {
        let Way { chosen, keys, lengths, foreseen } = self;
        let Work { view, compiled, state, .. } = *work;
        let context = |packet: &Packet, output: PortId| rules::Context {
            in_port: packet.input.0,
            out_port: Some(output.0),
            state,
            mark: 0,
        };
        let count = chosen.aim(count, view, packets, |n, packet, output| {
            lengths[n % BATCH] = (packet.len() - ETHERNET) as u16;
            key::<F>(keys, n, packet, &context(packet, output)).is_some()
        });
        if count == 0 {
            return 0;
        }
        let mut accepted = u64::MAX >> (BATCH - count);
        for (hook, foreseen) in asked(compiled).zip(foreseen.iter_mut()) {
            let about = |n: usize| {
                // Never refused: the headers are whole.
                let headers = |packet: &Packet| Headers::parse(packet.data().get(ETHERNET..)?).ok();
                let packet = packets.get(chosen.place(n));
                let output = chosen.port(n, view);
                (
                    packet.and_then(headers).unwrap_or_default(),
                    packet.map_or_else(Default::default, |packet| context(packet, output)),
                )
            };
            accepted &= F::foresee(keys, compiled, hook, about, foreseen);
        }
        let sent = chosen.send_aimed(accepted, view, packets);
        for (_, foreseen) in asked(compiled).zip(foreseen.iter()) {
            foreseen.count(compiled.accounts(), work.worker, sent, lengths, work.now);
        }
        chosen.places(sent)
    }
}

/// The hooks that have something to say.
fn asked(compiled: &Compiled) -> impl Iterator<Item = Hook> {
    Hook::ALL.into_iter().filter(|hook| !compiled.passes_all(*hook))
}

/// Makes a packet's key number `n`; `None` for what rules may have to look at as a whole.
#[inline(always)]
fn key<F: Judge>(keys: &mut F::Keys, n: usize, packet: &Packet, context: &rules::Context) -> Option<()> {
    let ip = packet.data().get(ETHERNET..)?;
    let protocol = F::protocol(ip)?;
    let ports = ports::<F>(ip, protocol)?;
    let ports = [u16_at(&ports, 0), u16_at(&ports, 2)];
    F::set(keys, n, ip.get(F::ADDRESSES)?, (ports, protocol), context);
    Some(())
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
        let RulesPath { view, sources, seat, reader, four, six } = self;
        reader.refresh();
        let (worker, state) = {
            let seat = seat.lock();
            (seat.number, seat.otherwise)
        };
        let compiled = reader.compiled();
        let work = Work { view, compiled, worker, state, now: cx.now() };
        let mut sent = 0;
        let (count, others) = four.chosen.choose(view, sources, batch.packets_mut());
        if count != 0 {
            sent = four.send(count, batch.packets_mut(), &work);
        }
        if others != 0 {
            let count = six.chosen.choose(view, batch.packets_mut(), others);
            sent |= six.send(count, batch.packets_mut(), &work);
        }
        cx.emit_some(REST, batch, batch.mask() & !sent);
        cx.emit_batch(OUT, batch);
    }
}
