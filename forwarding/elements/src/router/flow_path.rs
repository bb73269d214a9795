//! FlowPath: the whole way of plain packets of known flows, in one element
//!
//! Group: router
//! Usage: `FlowPath`
//! Ports: 1 input, 2 outputs; push
//!
//! What [FastPath] is to a router without rules, this is to one that keeps flows: plain packets of
//! TCP and UDP whose flow is under way and has been judged are taken into account, counted with the
//! rules that decided, translated, and forwarded, all at once. As there, whatever is not plain in
//! any way is left as it came to the elements behind: packets that open a flow or change how far it
//! is, segments out of their window, flows whose verdict is not known or was given by rules that
//! are no longer in force, or for another out port, control connections of FTP while these are
//! followed.
//!
//! Outputs:
//! - 0: everything else, unchanged but for padding
//! - 1: to be transmitted
//!
//! See also: [FastPath], [Track], [Filter], [Translate]

use std::sync::Arc;

use fib::View;
use flow::{Key, Keys4, Leavings4, Prospects, Spots, State, Tuple};
use graph::{BATCH, Batch, Class, Context, Element};
use port::Packet;
use wire::which::{numbers, sum, which};
use wire::{Headers, protocol};

use super::context::{SharedContext, WorkerContext};
use super::family::{Family, V4, V6};
use super::filter::Run;
use super::leave::Leave;
use super::plain::{Chosen, Upper};
use super::router_context::on_policy;
use super::rulebook::Reader;
use super::wide::wide;
use super::{ETHERNET, RouterContext, Sources};

/// The class `FlowPath`.
pub const CLASS: Class = Class {
    name: "FlowPath",
    ports: "1!/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("flow_path.rs"),
    make: |arguments, setup| on_policy(arguments, setup, FlowPath::new),
};

const REST: usize = 0;
const OUT: usize = 1;

/// Forwards plain packets of known flows. Outputs: `rest`, `out`.
pub struct FlowPath {
    view: View,
    sources: Arc<Sources>,
    context: SharedContext,
    reader: Reader,
    four: Chosen<V4>,
    six: Chosen<V6>,
    followed: Box<Followed>,
}

impl FlowPath {
    fn new(
        RouterContext { view, sources, .. }: RouterContext,
        context: SharedContext,
        reader: Reader,
    ) -> FlowPath {
        let (four, six) = (Chosen::new(), Chosen::new());
        FlowPath { view, sources, context, reader, four, six, followed: Box::default() }
    }
}

/// What is known of the packets chosen, by their numbers.
struct Followed {
    keys4: Keys4,
    keys6: [Key; BATCH],
    spots: Spots,
    prospects: Prospects,
    /// Of those that are translated.
    leavings: Leavings4,
    groups: Vec<Group>,
    /// Segments of TCP: bits.
    tcp: u64,
}

/// Packets of one verdict: bits.
#[derive(Clone, Copy)]
struct Group {
    packets: u64,
    /// The verdict's word.
    word: u32,
    /// Where it lets them out.
    output: u16,
}

impl Default for Followed {
    fn default() -> Followed {
        Followed {
            keys4: Keys4::default(),
            keys6: [Key::of(&Tuple::default()); BATCH],
            spots: Spots::default(),
            prospects: Prospects::default(),
            leavings: Leavings4::default(),
            groups: Vec::with_capacity(BATCH),
            tcp: 0,
        }
    }
}

/// What of a packet's family its flow is looked up by. Keys are made of all packets noted: of those
/// that are not plain it does not matter what comes out.
trait Follow: Leave {
    /// Makes the keys and asks for where they may stand.
    fn ask(flows: &flow::Worker, chosen: &Chosen<Self>, followed: &mut Followed)
    where
        Self: Sized;
    /// Looks up the flows: bits.
    fn look(flows: &flow::Worker, followed: &mut Followed, count: usize) -> u64;
    /// Finds out where packets of translated flows (bits) really go: those of which that is in this
    /// family, and those of which it is elsewhere than their headers say, which is put down.
    fn towards(
        flows: &flow::Worker,
        prospects: &Prospects,
        leavings: &mut Leavings4,
        these: u64,
        upper: &Upper<Self>,
        destinations: &mut [Self::Address; BATCH],
    ) -> (u64, u64)
    where
        Self: Sized;
    /// Translates a packet, so many bytes long.
    fn translate(ip: &mut [u8], tcp: bool, length: u32, flows: &flow::Worker, followed: &Followed, n: usize);
}

impl Follow for V4 {
    #[inline(always)]
    fn ask(flows: &flow::Worker, chosen: &Chosen<V4>, followed: &mut Followed) {
        let Upper { sources, protocols, ports, .. } = &chosen.upper;
        followed.keys4.set(chosen.count, [sources, &chosen.destinations], protocols, ports);
        flows.ask4(&followed.keys4, &mut followed.spots);
    }

    #[inline(always)]
    fn look(flows: &flow::Worker, followed: &mut Followed, _: usize) -> u64 {
        flows.look4(&followed.keys4, &followed.spots, &mut followed.prospects)
    }

    #[inline(always)]
    fn towards(
        flows: &flow::Worker,
        prospects: &Prospects,
        leavings: &mut Leavings4,
        these: u64,
        upper: &Upper<V4>,
        destinations: &mut [u32; BATCH],
    ) -> (u64, u64) {
        let Upper { sources, ports, .. } = upper;
        let known = flows.leave4(prospects, these, leavings);
        // Some come as if nothing were translated, to the very host inside.
        let known = known & !which(|n| leavings.says(n, [sources[n], destinations[n]], ports[n]));
        let turned = known & which(|n| leavings.destination(n) != destinations[n]);
        numbers(turned).for_each(|n| destinations[n] = leavings.destination(n));
        (known, turned)
    }

    #[inline(always)]
    fn translate(ip: &mut [u8], tcp: bool, _: u32, _: &flow::Worker, followed: &Followed, n: usize) {
        // Never refused: the headers are whole.
        let rewritten = nat::rewrite_plain4(ip, tcp, &followed.leavings.get(n));
        debug_assert!(rewritten);
    }
}

impl Follow for V6 {
    #[inline(always)]
    fn ask(flows: &flow::Worker, chosen: &Chosen<V6>, followed: &mut Followed) {
        let keys = &mut followed.keys6[..chosen.count.min(BATCH)];
        for (n, key) in keys.iter_mut().enumerate() {
            let ports = chosen.upper.ports[n];
            *key = Key::of(&Tuple {
                source: chosen.upper.sources[n].to_be_bytes(),
                destination: chosen.destinations[n].to_be_bytes(),
                source_port: (ports >> 16) as u16,
                destination_port: ports as u16,
                protocol: chosen.upper.protocols[n] as u8,
                table: 0,
            });
        }
        flows.ask(keys, &mut followed.spots);
    }

    #[inline(always)]
    fn look(flows: &flow::Worker, followed: &mut Followed, count: usize) -> u64 {
        flows.look(&followed.keys6[..count.min(BATCH)], &followed.spots, &mut followed.prospects)
    }

    fn towards(
        flows: &flow::Worker,
        prospects: &Prospects,
        _: &mut Leavings4,
        these: u64,
        _: &Upper<V6>,
        destinations: &mut [u128; BATCH],
    ) -> (u64, u64) {
        let (mut known, mut turned) = (0, 0);
        for n in numbers(these) {
            let hit = prospects.hit(n);
            let Some(towards) = V6::address(flows.towards(&hit, hit.direction)) else { continue };
            known |= 1 << n;
            turned |= u64::from(towards != destinations[n]) << n;
            destinations[n] = towards;
        }
        (known, turned)
    }

    fn translate(ip: &mut [u8], tcp: bool, length: u32, flows: &flow::Worker, followed: &Followed, n: usize) {
        let (hit, length) = (followed.prospects.hit(n), length as u16);
        let protocol = if tcp { protocol::TCP } else { protocol::UDP };
        let headers = Headers { version: 6, protocol, transport: 40, length, ..Headers::default() };
        // Never refused: the headers are whole, and the addresses of this family.
        let rewritten = nat::rewrite(ip, &headers, &flows.leaving(&hit, hit.direction));
        debug_assert!(rewritten.is_ok());
    }
}

wide! {
    fn ask[F: Follow](followed: &mut Followed, chosen: &Chosen<F>, flows: &flow::Worker) {
        F::ask(flows, chosen, followed);
    }
}

wide! {
    /// Finds those packets of TCP and UDP whose flow is known and has been judged (bits), by
    /// verdict; and which of them go elsewhere than their headers say, which is put down.
    /// `controls`: whether control connections of FTP are followed, elsewhere.
    fn follow[F: Follow](
        followed: &mut Followed,
        chosen: &mut Chosen<F>,
        flows: &flow::Worker,
        controls: bool,
        reader: &mut Reader,
    ) -> (u64, u64) {
        let mut rest = F::look(flows, followed, chosen.count) & chosen.upper.whole;
        let Followed { prospects, leavings, groups, tcp, .. } = followed;
        *tcp = which(|n| chosen.upper.protocols[n] == u32::from(protocol::TCP));
        if controls {
            rest &= !(*tcp & which(|n| is_control(chosen.upper.ports[n])));
        }
        groups.clear();
        let mut known = 0;
        while rest != 0 {
            let word = prospects.decided[rest.trailing_zeros() as usize % BATCH];
            let same = rest & which(|n| prospects.decided[n] == word);
            rest &= !same;
            let Some(brief) = reader.brief(word) else { continue };
            let packets = same & match brief.state {
                Some(State::New) => prospects.new,
                Some(State::Established) => !prospects.new,
                _ => 0,
            };
            groups.push(Group { packets, word, output: brief.output.0 });
            known |= packets;
        }
        let translated = known & prospects.translated;
        if translated == 0 {
            return (known, 0);
        }
        let (here, turned) = F::towards(flows, prospects, leavings, translated, &chosen.upper, &mut chosen.destinations);
        (known & !translated | here, turned)
    }
}

/// Whether either port is that of FTP's control connections.
#[inline(always)]
fn is_control(ports: u32) -> bool {
    (ports >> 16 == u32::from(nat::ftp::PORT)) | (ports & 0xffff == u32::from(nat::ftp::PORT))
}

/// What a batch is handled with.
struct Work<'a> {
    view: &'a View,
    reader: &'a mut Reader,
    now: u64,
}

wide! {
    /// Takes packets that are about to leave (bits) into account; those that stay after all, with
    /// which nothing was done, because they are not plain.
    fn take[F: Leave](
        followed: &Followed,
        chosen: &Chosen<F>,
        these: u64,
        flows: &mut flow::Worker,
        packets: &[Packet],
        now: u64,
    ) -> u64 {
        let Followed { prospects, tcp, .. } = followed;
        flows.pass_datagrams(prospects, these & !tcp, &chosen.upper.lengths, now);
        let mut refused = 0;
        for n in numbers(these & tcp) {
            let length = chosen.upper.lengths[n];
            let frame = packets.get(chosen.place(n)).map_or(&[][..], Packet::data);
            let segment = frame.get(ETHERNET + F::HEADER..ETHERNET + length as usize).unwrap_or_default();
            let taken = flows.pass_segment(prospects, n, segment, length as u16, now);
            refused |= u64::from(!taken) << n;
        }
        refused
    }
}

wide! {
    /// Translates packets (bits).
    fn translate[F: Follow](
        followed: &Followed,
        chosen: &Chosen<F>,
        these: u64,
        flows: &flow::Worker,
        packets: &mut [Packet],
    ) {
        for n in numbers(these) {
            let Some(packet) = packets.get_mut(chosen.place(n)) else { continue };
            // Behind the tags, if it has some by now.
            let ip = packet.network_mut();
            F::translate(ip, followed.tcp >> n & 1 != 0, chosen.upper.lengths[n], flows, followed, n);
        }
    }
}

impl Work<'_> {
    /// Sends what of one family is plain and known; the packets, as bits.
    #[inline(always)]
    fn send<F: Follow>(
        &mut self,
        chosen: &mut Chosen<F>,
        followed: &mut Followed,
        packets: &mut [Packet],
        context: &mut WorkerContext,
    ) -> u64 {
        let (worker, controls) = (context.number, context.ftp.is_some());
        let Some(flows) = &mut context.flows else { return 0 };
        ask(followed, chosen, flows);
        // While memory looks for those.
        let mut aimed = chosen.aim(chosen.upper.whole, self.view, packets);
        let (known, turned) = follow(followed, chosen, flows, controls, self.reader);
        if turned != 0 {
            // All of them once more, for a route may have changed meanwhile.
            aimed = chosen.aim(aimed | turned, self.view, packets);
        }
        let allowed = followed.groups.iter().fold(0, |allowed, group| {
            allowed | group.packets & which(|n| chosen.ways.outputs[n] == group.output)
        });
        let leaving = aimed & known & allowed;
        let leaving = leaving & !take(followed, chosen, leaving, flows, packets, self.now);
        let sent = chosen.depart(leaving, self.view, packets);
        let translated = leaving & followed.prospects.translated;
        if translated != 0 {
            translate(followed, chosen, translated, flows, packets);
        }
        for group in &followed.groups {
            let numbers = leaving & group.packets;
            let (packets, bytes) = (numbers.count_ones().into(), sum(numbers, &chosen.upper.lengths).into());
            let run = Run { decided: group.word, packets, bytes };
            count_run(&run, self.reader, worker, self.now);
        }
        sent
    }
}

/// Counts packets with the rules of their verdict.
fn count_run(run: &Run<u32>, reader: &mut Reader, worker: usize, now: u64) {
    if run.packets == 0 {
        return;
    }
    if let Some(rules) = reader.verdict(run.decided).map(|verdict| verdict.rules) {
        run.count(&rules, reader.compiled(), worker, now);
    }
}

impl Element for FlowPath {
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
        let FlowPath { view, sources, context, reader, four, six, followed } = self;
        reader.refresh();
        let mut context = context.lock();
        let mut work = Work { view, reader, now: cx.now() };
        let mut sent = 0;
        let others = four.choose_upper(view, sources, batch.packets_mut());
        if four.upper.whole != 0 {
            sent = work.send(four, followed, batch.packets_mut(), &mut context);
        }
        if others != 0 {
            six.choose(view, batch.packets_mut(), others, true);
            sent |= work.send(six, followed, batch.packets_mut(), &mut context);
        }
        context.flows.iter().for_each(|flows| flows.passed(u64::from(sent.count_ones())));
        drop(context);
        cx.emit_some(REST, batch, batch.mask() & !sent);
        cx.emit_batch(OUT, batch);
    }
}
