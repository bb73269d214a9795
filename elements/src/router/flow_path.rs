//! FlowPath: the whole way of plain packets of known flows, in one element
//!
//! Group: router
//! Usage: `FlowPath`
//! Ports: 1 input, 2 outputs; push
//!
//! What [FastPath] is to a router without rules, this is to one that keeps flows: plain packets of TCP and UDP whose flow is under way and
//! has been judged are taken into account, counted with the rules that decided, translated, and forwarded, all at once. As there,
//! whatever is not plain in any way is left as it came to the elements behind: packets that open a flow or change how far it is,
//! segments out of their window, flows whose verdict is not known or was given by rules that are no longer in force, or for another out
//! port, control connections of FTP while these are followed.
//!
//! Outputs:
//! - 0: everything else, unchanged but for padding
//! - 1: to be transmitted
//!
//! See also: [FastPath], [Track], [Filter], [Translate]

use std::marker::PhantomData;
use std::sync::Arc;

use fib::{PortId, View};
use flow::{Hit, Key, Tuple};
use graph::{BATCH, Batch, Class, Context, Element};
use port::Packet;
use wire::{Headers, protocol};

use super::family::{Family, V4, V6};
use super::filter::Run;
use super::leave::Admit;
use super::plain::{Chosen, Upper, ports};
use super::rulebook::Reader;
use super::seat::{Seat, SharedSeat};
use super::surroundings::on_policy;
use super::track::called;
use super::{ETHERNET, Sources, Surroundings};

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
    seat: SharedSeat,
    reader: Reader,
    four: Chosen<V4>,
    six: Chosen<V6>,
    followed: Box<Followed>,
}

impl FlowPath {
    fn new(Surroundings { view, sources, .. }: Surroundings, seat: SharedSeat, reader: Reader) -> FlowPath {
        let blank = Key::of(&Tuple::default());
        let followed = Followed { keys: [blank; BATCH], hits: [None; BATCH], known: [None; BATCH] };
        let (four, six) = (Chosen::new(), Chosen::new());
        FlowPath { view, sources, seat, reader, four, six, followed: Box::new(followed) }
    }
}

/// What is known of the packets chosen, in their order.
struct Followed {
    keys: [Key; BATCH],
    hits: [Option<Hit>; BATCH],
    known: [Option<Known>; BATCH],
}

/// A flow that has been judged.
#[derive(Clone, Copy)]
struct Known {
    hit: Hit,
    /// What its entry says of the verdict.
    word: u32,
    /// Where the verdict lets it out.
    output: PortId,
}

/// What of a packet's family its flow is looked up by.
trait Follow: Upper {
    /// The key of a packet of this protocol.
    fn key(ip: &[u8], ports: [u16; 2], protocol: u8) -> Option<Key>;
    /// Where a packet of a translated flow really goes; `None` if that is not in this family.
    fn towards(flows: &flow::Worker, hit: &Hit) -> Option<Self::Address>;
    /// Translates a packet of this protocol.
    fn translate(ip: &mut [u8], protocol: u8, flows: &flow::Worker, hit: &Hit);
}

impl Follow for V4 {
    #[inline(always)]
    fn key(ip: &[u8], ports: [u16; 2], protocol: u8) -> Option<Key> {
        let [.., source, destination] = ip.first_chunk::<20>()?.as_chunks::<4>().0 else { return None };
        Some(Key::of_ports4([*source, *destination], ports, protocol))
    }

    #[inline(always)]
    fn towards(flows: &flow::Worker, hit: &Hit) -> Option<u32> {
        let ([.., a, b, c, d], _) = flows.leaving4(hit)?;
        Some(u32::from_be_bytes([a, b, c, d]))
    }

    #[inline(always)]
    fn translate(ip: &mut [u8], protocol: u8, flows: &flow::Worker, hit: &Hit) {
        let leaving = flows.leaving4(hit);
        // Never refused: it is known where the packet goes, and its headers are whole.
        let rewritten =
            leaving.is_some_and(|(addresses, ports)| nat::rewrite_plain4(ip, protocol, &addresses, &ports));
        debug_assert!(rewritten);
    }
}

impl Follow for V6 {
    #[inline(always)]
    fn key(ip: &[u8], [source_port, destination_port]: [u16; 2], protocol: u8) -> Option<Key> {
        let [source, destination] = ip.get(8..40)?.as_chunks::<16>().0 else { return None };
        let (source, destination) = (*source, *destination);
        Some(Key::of(&Tuple { source, destination, source_port, destination_port, protocol, table: 0 }))
    }

    fn towards(flows: &flow::Worker, hit: &Hit) -> Option<u128> {
        V6::address(flows.towards(hit, hit.direction))
    }

    fn translate(ip: &mut [u8], protocol: u8, flows: &flow::Worker, hit: &Hit) {
        let length = ip.len() as u16;
        let headers = Headers { version: 6, protocol, transport: 40, length, ..Headers::default() };
        // Never refused: the headers are whole, and the addresses of this family.
        let rewritten = nat::rewrite(ip, &headers, &flows.leaving(hit, hit.direction));
        debug_assert!(rewritten.is_ok());
    }
}

impl Followed {
    /// Leaves of the first `count` packets chosen those whose flow is known; how many these are. Where they are translated, they are
    /// sent where they really go.
    #[inline(never)]
    fn follow<F: Follow>(
        &mut self,
        chosen: &mut Chosen<F>,
        count: usize,
        packets: &[Packet],
        seat: &mut Seat,
        reader: &mut Reader,
    ) -> usize {
        let Some(flows) = &mut seat.flows else { return 0 };
        let controls = seat.ftp.is_some();
        let mut kept = 0;
        for n in 0..count {
            let Some(packet) = packets.get(chosen.place(n)) else { continue };
            let Some(ip) = packet.data().get(ETHERNET..) else { continue };
            let Some(protocol) = F::protocol(ip) else { continue };
            let Some(ports) = ports::<F>(ip, protocol) else { continue };
            if controls && protocol == protocol::TCP && ports.contains(&nat::ftp::PORT) {
                continue;
            }
            let Some(key) = F::key(ip, ports, protocol) else { continue };
            self.keys[kept] = key;
            chosen.keep(kept, n);
            kept += 1;
        }
        let (count, hits) = (kept, &mut self.hits[..kept]);
        flows.look(&self.keys[..count], hits);
        flows.prepare(hits);
        kept = 0;
        for n in 0..count {
            let Some(hit) = self.hits[n] else { continue };
            let Some(state) = flows.prospect(&hit) else { continue };
            let word = flows.decision(&hit);
            let verdict = reader.verdict(word).filter(|verdict| verdict.state == called(state));
            let Some(verdict) = verdict.filter(|verdict| verdict.dscp.is_none()) else { continue };
            chosen.keep(kept, n);
            if hit.translated {
                let Some(towards) = F::towards(flows, &hit) else { continue };
                chosen.send_to(kept, towards);
            }
            self.known[kept] = Some(Known { hit, word, output: verdict.output });
            kept += 1;
        }
        kept
    }
}

/// What a batch is handled with.
struct Work<'a> {
    view: &'a View,
    reader: &'a mut Reader,
    /// Packets of one verdict, by its word.
    run: Run<u32>,
    now: u64,
}

/// Counts packets with the rules of their verdict.
fn count_run(run: &Run<u32>, reader: &mut Reader, worker: usize, now: u64) {
    if let Some(rules) = reader.verdict(run.decided).map(|verdict| verdict.rules) {
        run.count(&rules, reader.compiled(), worker, now);
    }
}

/// Takes packets that are about to leave into account, and translates them.
struct Gatekeeper<'a, F> {
    known: &'a [Option<Known>; BATCH],
    flows: &'a mut flow::Worker,
    reader: &'a mut Reader,
    run: &'a mut Run<u32>,
    worker: usize,
    now: u64,
    family: PhantomData<F>,
}

impl<F: Follow> Gatekeeper<'_, F> {
    /// `None`, and nothing done, if the packet is not plain.
    #[inline(always)]
    fn take(&mut self, number: usize, packet: &mut Packet, port: PortId) -> Option<()> {
        let Known { hit, word, .. } = self.known[number % BATCH].filter(|known| known.output == port)?;
        let ip = packet.data_mut().get_mut(ETHERNET..)?;
        let (protocol, length) = (F::protocol(ip)?, ip.len() as u16);
        if protocol != protocol::TCP {
            self.flows.pass_datagram(&hit, length, self.now);
        } else if !self.flows.pass_segment(&hit, ip.get(F::HEADER..)?, length, self.now) {
            return None;
        }
        if hit.translated {
            F::translate(ip, protocol, self.flows, &hit);
        }
        let Gatekeeper { reader, worker, now, .. } = self;
        self.run.add(word, length, |run| count_run(run, reader, *worker, *now));
        Some(())
    }
}

impl<F: Follow> Admit for Gatekeeper<'_, F> {
    #[inline(always)]
    fn admit(&mut self, number: usize, packet: &mut Packet, port: PortId) -> bool {
        self.take(number, packet, port).is_some()
    }
}

impl Work<'_> {
    /// Sends what of one family is plain and known; the packets, as bits.
    #[inline(always)]
    fn send<F: Follow>(
        &mut self,
        (chosen, count): (&mut Chosen<F>, usize),
        followed: &mut Followed,
        packets: &mut [Packet],
        seat: &mut Seat,
    ) -> u64 {
        let count = followed.follow(chosen, count, packets, seat, self.reader);
        let worker = seat.number;
        let Some(flows) = &mut seat.flows else { return 0 };
        let (reader, run, now) = (&mut *self.reader, &mut self.run, self.now);
        let known = &followed.known;
        let mut gatekeeper: Gatekeeper<'_, F> =
            Gatekeeper { known, flows, reader, run, worker, now, family: PhantomData };
        chosen.send(count, self.view, packets, &mut gatekeeper)
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
        let FlowPath { view, sources, seat, reader, four, six, followed } = self;
        reader.refresh();
        let mut seat = seat.lock();
        let mut work = Work { view, reader, run: Run::default(), now: cx.now() };
        let mut sent = 0;
        let (count, others) = four.choose(view, sources, batch.packets_mut());
        if count != 0 {
            sent = work.send((four, count), followed, batch.packets_mut(), &mut seat);
        }
        if others != 0 {
            let count = six.choose(view, batch.packets_mut(), others);
            sent |= work.send((six, count), followed, batch.packets_mut(), &mut seat);
        }
        count_run(&work.run, work.reader, seat.number, work.now);
        seat.flows.iter().for_each(|flows| flows.passed(u64::from(sent.count_ones())));
        drop(seat);
        cx.emit_some(REST, batch, batch.mask() & !sent);
        cx.emit_batch(OUT, batch);
    }
}
