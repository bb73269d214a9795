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
use flow::{Key, Key4, Prospect, Tuple};
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
use super::{ETHERNET, Sources, Surroundings, u16_at};

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
        let (four, six) = (Chosen::new(), Chosen::new());
        FlowPath { view, sources, seat, reader, four, six, followed: Box::default() }
    }
}

/// What is known of the packets chosen, in their order.
struct Followed {
    keys4: [Key4; BATCH],
    keys6: [Key; BATCH],
    prospects: [Prospect; BATCH],
    known: [Known; BATCH],
}

impl Default for Followed {
    fn default() -> Followed {
        let blank = Key::of(&Tuple::default());
        Followed {
            keys4: [Key4::default(); BATCH],
            keys6: [blank; BATCH],
            prospects: [Prospect::NONE; BATCH],
            known: [Known { length: 0, tcp: false, output: PortId::NONE }; BATCH],
        }
    }
}

/// A packet of a flow.
#[derive(Clone, Copy)]
struct Known {
    /// Bytes with its IP header.
    length: u16,
    tcp: bool,
    /// Where its flow's verdict lets it out.
    output: PortId,
}

/// What of a packet's family its flow is looked up by.
trait Follow: Upper {
    type Key: Copy;

    fn keys(followed: &mut Followed) -> &mut [Self::Key; BATCH];
    /// The key of a packet of this protocol.
    fn key(ip: &[u8], ports: [u8; 4], protocol: u8) -> Option<Self::Key>;
    /// Looks up the flows of the first `count` packets: bits.
    fn look(flows: &flow::Worker, followed: &mut Followed, count: usize) -> u64;
    /// Where a packet of a translated flow really goes; `None` if that is not in this family.
    fn towards(flows: &flow::Worker, flow: &Prospect) -> Option<Self::Address>;
    /// Translates a packet of this protocol.
    fn translate(ip: &mut [u8], protocol: u8, flows: &flow::Worker, flow: &Prospect);
}

impl Follow for V4 {
    type Key = Key4;

    #[inline(always)]
    fn keys(followed: &mut Followed) -> &mut [Key4; BATCH] {
        &mut followed.keys4
    }

    #[inline(always)]
    fn key(ip: &[u8], ports: [u8; 4], protocol: u8) -> Option<Key4> {
        let addresses = ip.first_chunk::<20>()?.last_chunk()?;
        Some(Key4::of(*addresses, ports, protocol))
    }

    #[inline(always)]
    fn look(flows: &flow::Worker, followed: &mut Followed, count: usize) -> u64 {
        flows.look4(&followed.keys4[..count], &mut followed.prospects)
    }

    #[inline(always)]
    fn towards(flows: &flow::Worker, flow: &Prospect) -> Option<u32> {
        flows.leaving4(flow)?.addresses.last_chunk().map(|destination| u32::from_be_bytes(*destination))
    }

    #[inline(always)]
    fn translate(ip: &mut [u8], protocol: u8, flows: &flow::Worker, flow: &Prospect) {
        // Never refused: it is known where the packet goes, and its headers are whole.
        let leaving = flows.leaving4(flow);
        let rewritten = leaving.is_some_and(|to| nat::rewrite_plain4(ip, protocol == protocol::TCP, &to));
        debug_assert!(rewritten);
    }
}

impl Follow for V6 {
    type Key = Key;

    #[inline(always)]
    fn keys(followed: &mut Followed) -> &mut [Key; BATCH] {
        &mut followed.keys6
    }

    #[inline(always)]
    fn key(ip: &[u8], ports: [u8; 4], protocol: u8) -> Option<Key> {
        let [source, destination] = ip.get(8..40)?.as_chunks::<16>().0 else { return None };
        let (source, destination) = (*source, *destination);
        let (source_port, destination_port) = (u16_at(&ports, 0), u16_at(&ports, 2));
        Some(Key::of(&Tuple { source, destination, source_port, destination_port, protocol, table: 0 }))
    }

    #[inline(always)]
    fn look(flows: &flow::Worker, followed: &mut Followed, count: usize) -> u64 {
        flows.look(&followed.keys6[..count], &mut followed.prospects)
    }

    fn towards(flows: &flow::Worker, flow: &Prospect) -> Option<u128> {
        let hit = flow.hit();
        V6::address(flows.towards(&hit, hit.direction))
    }

    fn translate(ip: &mut [u8], protocol: u8, flows: &flow::Worker, flow: &Prospect) {
        let (length, hit) = (ip.len() as u16, flow.hit());
        let headers = Headers { version: 6, protocol, transport: 40, length, ..Headers::default() };
        // Never refused: the headers are whole, and the addresses of this family.
        let rewritten = nat::rewrite(ip, &headers, &flows.leaving(&hit, hit.direction));
        debug_assert!(rewritten.is_ok());
    }
}

impl Followed {
    /// Makes the keys of the first `count` packets chosen, as far as they have ports. How many have, which are then the first.
    #[inline(never)]
    fn read<F: Follow>(
        &mut self,
        chosen: &mut Chosen<F>,
        count: usize,
        packets: &[Packet],
        controls: bool,
    ) -> usize {
        let mut kept = 0;
        for n in 0..count.min(BATCH) {
            let Some(packet) = packets.get(chosen.place(n)) else { continue };
            let Some(ip) = packet.data().get(ETHERNET..) else { continue };
            let Some(protocol) = F::protocol(ip) else { continue };
            let Some(ports) = ports::<F>(ip, protocol) else { continue };
            let tcp = protocol == protocol::TCP;
            if controls && tcp && ports.as_chunks().0.contains(&nat::ftp::PORT.to_be_bytes()) {
                continue;
            }
            let Some(key) = F::key(ip, ports, protocol) else { continue };
            F::keys(self)[kept % BATCH] = key;
            self.known[kept % BATCH] = Known { length: ip.len() as u16, tcp, output: PortId::NONE };
            chosen.keep(kept, n);
            kept += 1;
        }
        kept
    }

    /// Leaves of the first `count` packets chosen those whose flow is known and has been judged; how many these are. Where they
    /// are translated, they are sent where they really go.
    #[inline(never)]
    fn follow<F: Follow>(
        &mut self,
        chosen: &mut Chosen<F>,
        count: usize,
        seat: &Seat,
        reader: &mut Reader,
    ) -> usize {
        let Some(flows) = &seat.flows else { return 0 };
        let (mut found, mut kept) = (F::look(flows, self, count), 0);
        while found != 0 {
            let n = found.trailing_zeros() as usize % BATCH;
            found &= found - 1;
            let flow = &self.prospects[n];
            let Some(brief) = reader.brief(flow.decision) else { continue };
            if brief.state != Some(flow.state) {
                continue;
            }
            chosen.keep(kept, n);
            if flow.translated {
                let Some(towards) = F::towards(flows, flow) else { continue };
                chosen.send_to(kept, towards);
            }
            if kept != n {
                (self.prospects[kept % BATCH], self.known[kept % BATCH]) = (*flow, self.known[n]);
            }
            self.known[kept % BATCH].output = brief.output;
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
    followed: &'a Followed,
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
        let Known { length, tcp, output } = self.followed.known[number % BATCH];
        let flow = &self.followed.prospects[number % BATCH];
        if output != port {
            return None;
        }
        if !tcp {
            self.flows.pass_datagram(flow, length, self.now);
        } else {
            let segment = packet.data().get(ETHERNET + F::HEADER..)?;
            if !self.flows.pass_segment(flow, segment, length, self.now) {
                return None;
            }
        }
        if flow.translated {
            let protocol = if tcp { protocol::TCP } else { protocol::UDP };
            F::translate(packet.data_mut().get_mut(ETHERNET..)?, protocol, self.flows, flow);
        }
        let Gatekeeper { reader, worker, now, .. } = self;
        self.run.add(flow.decision, length, |run| count_run(run, reader, *worker, *now));
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
        let count = followed.read(chosen, count, packets, seat.ftp.is_some());
        let count = followed.follow(chosen, count, seat, self.reader);
        let worker = seat.number;
        let Some(flows) = &mut seat.flows else { return 0 };
        let (reader, run, now) = (&mut *self.reader, &mut self.run, self.now);
        let mut gatekeeper: Gatekeeper<'_, F> =
            Gatekeeper { followed, flows, reader, run, worker, now, family: PhantomData };
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
