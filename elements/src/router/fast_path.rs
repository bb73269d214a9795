//! FastPath: the whole way of plain packets, in one element
//!
//! Group: router
//! Usage: `FastPath`
//! Ports: 1 input, 2 outputs; push
//!
//! Most packets of a router need nothing but to be forwarded: their header is in order, a route with a known neighbour leads
//! out by another port, they fit and have time to live. For those this element does what [Classify], [CheckIpHeader4],
//! [Lookup4], [Redirect4], [Mtu4], [DecrementTtl4] and [Rewrite] (and their like for IPv6) do one after the other, and
//! to the same bytes. Whatever is not plain in any way it leaves as it came, for those elements to find out why: it
//! drops nothing, answers nothing and hands nothing to Linux.
//!
//! It stands in front of the router where no rule, no translation and no hook has its place between those elements.
//!
//! Outputs:
//! - 0: everything else, unchanged but for padding
//! - 1: to be transmitted
//!
//! See also: [Classify], [Transmit]
//
// Why: going through seven elements, each of which takes up every packet anew, costs three times the instructions. What it
// costs: the rules of forwarding are here a second time, though only the usual case of each, and by the same functions; a
// test holds the two ways against each other.
//
// A batch is handled in three loops, for memory's sake: the first reads headers, which were asked for some packets
// before, and notes where the plain ones go; the second asks the table for all of them, so that its waits overlap; the third
// writes. Each is a function of its own, never inlined: together they would need more registers than there are.

use std::sync::Arc;

use super::surroundings::on_tables;
use fib::{AdjacencyId, AdjacencyWord, Hop, HopKind, Hops, NextHopId, PortId, View};
use graph::{BATCH, Batch, Class, Context, Element};
use port::Packet;
use wire::{ethernet, flow_hash, ipv4, protocol};

use super::check_ip_header4::is_plain;
use super::family::{Family, V4, V6};
use super::rewrite::Source;
use super::{ETHERNET, SENDS, Sources, prefetch, u16_at, u64_at};

/// The class `FastPath`.
pub const CLASS: Class = Class {
    name: "FastPath",
    ports: "1!/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("fast_path.rs"),
    make: |arguments, setup| {
        on_tables(arguments, setup, |s| FastPath::new(s.view.clone(), s.sources.clone()))
    },
};

const REST: usize = 0;
const OUT: usize = 1;

/// How many packets ahead the headers are fetched.
const AHEAD: usize = 6;

/// Bytes of the headers of both layers.
const FRAME4: usize = ETHERNET + 20;
const FRAME6: usize = ETHERNET + 40;

/// Forwards plain packets. Outputs: `rest`, `out`.
pub struct FastPath {
    view: View,
    sources: Arc<Sources>,
    four: Chosen<V4>,
    six: Chosen<V6>,
}

/// The packets of a batch that are plain as far as their headers show: their places in it, and where they go.
pub(super) struct Chosen<F: Family> {
    places: [u8; BATCH],
    addresses: [F::Address; BATCH],
    ids: [NextHopId; BATCH],
}

impl<F: Family> Chosen<F> {
    pub(super) fn new() -> Chosen<F> {
        Chosen {
            places: [0; BATCH],
            addresses: [F::Address::default(); BATCH],
            ids: [NextHopId::NONE; BATCH],
        }
    }

    /// The place in the batch of the packet of this number.
    #[inline(always)]
    pub(super) fn place(&self, number: usize) -> usize {
        usize::from(self.places[number % BATCH])
    }

    /// Gives a packet a lower number.
    #[inline(always)]
    pub(super) fn keep(&mut self, number: usize, before: usize) {
        self.places[number % BATCH] = self.places[before % BATCH];
        self.addresses[number % BATCH] = self.addresses[before % BATCH];
    }

    /// Sends a packet to another address than its header says.
    #[inline(always)]
    pub(super) fn send_to(&mut self, number: usize, address: F::Address) {
        self.addresses[number % BATCH] = address;
    }

    /// Notes a packet as number `count`. If it is not plain, that number will be given again: so there is no branch.
    #[inline(always)]
    fn note(&mut self, count: usize, place: usize, address: F::Address) {
        self.places[count % BATCH] = place as u8;
        self.addresses[count % BATCH] = address;
    }
}

/// The bytes of an Ethernet address among eight.
const ADDRESS: u64 = u64::from_ne_bytes([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]);

/// What is to be known of the port that packets come in by.
#[derive(Clone, Copy)]
struct Input {
    id: PortId,
    /// Its address, as the first bytes of a frame.
    mac: u64,
    /// Whether it forwards, and asks nothing of sources.
    open: bool,
}

impl Input {
    const NONE: Input = Input { id: PortId::NONE, mac: 0, open: false };

    #[inline(always)]
    fn turn_to<F: Family>(&mut self, hops: &Hops<'_>, id: PortId) {
        if self.id != id {
            let word = hops.port(id);
            let flags = word.flags();
            let open = flags.contains(F::FORWARD) && !flags.intersects(F::STRICT | F::LOOSE);
            let [a, b, c, d, e, f] = word.mac();
            let first = [a, b, c, d, e, f, 0, 0];
            *self = Input { id, mac: u64::from_ne_bytes(first), open };
        }
    }

    /// Whether a frame is addressed to the port.
    #[inline(always)]
    fn is_addressed<const N: usize>(&self, frame: &[u8; N]) -> bool {
        let first = frame.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first));
        (first ^ self.mac) & ADDRESS == 0
    }
}

impl Chosen<V4> {
    /// Reads the headers of all packets, and cuts off what the plain ones have behind their end (short ones are padded on the wire).
    /// How many are plain, and those that are not of this family, as bits.
    #[inline(never)]
    pub(super) fn choose(&mut self, view: &View, sources: &Sources, packets: &mut [Packet]) -> (usize, u64) {
        let (hops, mut input) = (view.hops(), Input::NONE);
        let (mut count, mut others) = (0, 0);
        packets.iter().take(AHEAD).for_each(prefetch);
        for place in 0..packets.len() {
            if let Some(packet) = packets.get(place + AHEAD) {
                prefetch(packet);
            }
            let packet = &mut packets[place];
            input.turn_to::<V4>(&hops, packet.input);
            let frame = packet.data().first_chunk::<FRAME4>();
            let frame = frame.filter(|frame| u16_at(frame, 12) == ethernet::IPV4);
            let Some(frame) = frame else {
                others |= 1 << place;
                continue;
            };
            let Some(header) = frame.last_chunk::<20>() else { continue };
            let address = super::u32_at(header, 16);
            view.prefetch4(address);
            self.note(count, place, address);
            let total = usize::from(u16_at(header, 2));
            let plain = input.open
                & input.is_addressed(frame)
                & (packet.segment_count() == 1)
                & (header[8] > 1)
                & (20..=packet.len() - ETHERNET).contains(&total)
                & is_plain(header, sources);
            packet.cut(if plain { ETHERNET + total } else { usize::MAX });
            count += usize::from(plain);
        }
        (count, others)
    }
}

impl Chosen<V6> {
    /// The same of the packets whose bits are set. How many are plain.
    #[inline(never)]
    pub(super) fn choose(&mut self, view: &View, packets: &mut [Packet], mut which: u64) -> usize {
        let (hops, mut input) = (view.hops(), Input::NONE);
        let mut count = 0;
        while which != 0 {
            let place = which.trailing_zeros() as usize;
            which &= which - 1;
            let Some(packet) = packets.get_mut(place) else { continue };
            input.turn_to::<V6>(&hops, packet.input);
            let Some(frame) = packet.data().first_chunk::<FRAME6>() else { continue };
            let Some(header) = frame.last_chunk::<40>() else { continue };
            let address = u128::from(u64_at(header, 24)) << 64 | u128::from(u64_at(header, 32));
            self.note(count, place, address);
            let end = FRAME6 + usize::from(u16_at(header, 4));
            let plain = (u16_at(frame, 12) == ethernet::IPV6)
                & (header[0] >> 4 == 6)
                & (end <= packet.len())
                & (packet.segment_count() == 1)
                & (header[6] != protocol::HOP_BY_HOP)
                & (header[7] > 1)
                & TRAVELS[usize::from(header[8])]
                & TRAVELS[usize::from(header[24])]
                & input.is_addressed(frame)
                & input.open;
            packet.cut(if plain { end } else { usize::MAX });
            count += usize::from(plain);
        }
        count
    }
}

/// Whether a first byte of an IPv6 address is one of 2000::/3 or fc00::/7: of what is neither, some is never forwarded.
const TRAVELS: [bool; 256] = {
    let mut travels = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        travels[byte] = byte >> 5 == 1 || byte >> 1 == 0xfc >> 1;
        byte += 1;
    }
    travels
};

impl FastPath {
    /// Forwards by these tables; knows this machine's addresses from `sources`.
    pub fn new(view: View, sources: Arc<Sources>) -> FastPath {
        FastPath { view, sources, four: Chosen::new(), six: Chosen::new() }
    }
}

/// What is done to a packet that leaves, by family.
pub(super) trait Leave: Family {
    /// The least MTU that there is.
    const MINIMUM_MTU: usize;

    /// Gives it one hop less to live and its new Ethernet header. False, and nothing done, without that or without these headers.
    fn leave(packet: &mut Packet, source: Source, adjacency: AdjacencyWord) -> bool;
}

impl Leave for V4 {
    const MINIMUM_MTU: usize = 0;

    #[inline(always)]
    fn leave(packet: &mut Packet, source: Source, adjacency: AdjacencyWord) -> bool {
        let Some(frame) = packet.data_mut().first_chunk_mut::<FRAME4>() else { return false };
        let left = frame.last_chunk_mut().is_some_and(ipv4::decrement_ttl);
        left && source.write(frame, adjacency, ethernet::IPV4)
    }
}

impl Leave for V6 {
    const MINIMUM_MTU: usize = wire::ipv6::MINIMUM_MTU;

    #[inline(always)]
    fn leave(packet: &mut Packet, source: Source, adjacency: AdjacencyWord) -> bool {
        let Some(frame) = packet.data_mut().first_chunk_mut::<FRAME6>() else { return false };
        let limit = &mut frame[ETHERNET + 7];
        if *limit <= 1 {
            return false;
        }
        *limit -= 1;
        source.write(frame, adjacency, ethernet::IPV6)
    }
}

impl<F: Leave> Chosen<F> {
    /// Looks up the first `count` and sends what has a way and is admitted to it, by its number and the port; the packets that this
    /// was done to, as bits. What is admitted does leave.
    #[inline(never)]
    pub(super) fn send(
        &mut self,
        count: usize,
        view: &View,
        packets: &mut [Packet],
        mut admit: impl FnMut(usize, &mut Packet, PortId) -> bool,
    ) -> u64 {
        let count = count.min(BATCH);
        F::lookup(view, &self.addresses[..count], &mut self.ids[..count]);
        let mut gate = Gate::new(view);
        let ids = &self.ids[..count];
        let mut sent = 0;
        // The usual: all of the batch is chosen, and the packets need not be looked for.
        if count == packets.len() {
            for (number, (packet, &id)) in packets.iter_mut().zip(ids).enumerate() {
                let left = gate.send::<F>(packet, id, |packet, port| admit(number, packet, port));
                sent |= u64::from(left) << number;
            }
            return sent;
        }
        for (number, (&place, &id)) in self.places.iter().zip(ids).enumerate() {
            let Some(packet) = packets.get_mut(usize::from(place)) else { continue };
            let left = gate.send::<F>(packet, id, |packet, port| admit(number, packet, port));
            sent |= u64::from(left) << place;
        }
        sent
    }
}

/// Where packets leave: the tables, and the port of the last one.
struct Gate<'a> {
    hops: Hops<'a>,
    port: PortId,
    source: Source,
    /// Whether the port sends.
    open: bool,
}

impl Gate<'_> {
    fn new(view: &View) -> Gate<'_> {
        let hops = view.hops();
        Gate { hops, port: PortId::NONE, source: Source::of(hops.port(PortId::NONE)), open: false }
    }

    /// Sends a packet by this next hop, if it is admitted. False, and nothing done, if it is not, or the next hop is not as simple as that.
    #[inline(always)]
    fn send<F: Leave>(
        &mut self,
        packet: &mut Packet,
        id: NextHopId,
        admit: impl FnOnce(&mut Packet, PortId) -> bool,
    ) -> bool {
        let hop = self.hops.hop(id);
        let path = match hop.only_path() {
            Some(path) => path,
            None => match one_of(&self.hops, hop, packet) {
                Some(path) => path,
                None => return false,
            },
        };
        let adjacency = self.hops.adjacency(path);
        if adjacency.port() != self.port {
            self.port = adjacency.port();
            let word = self.hops.port(self.port);
            (self.source, self.open) = (Source::of(word), word.flags().contains(SENDS));
        }
        let fits = packet.len() - ETHERNET <= (adjacency.mtu() as usize).max(F::MINIMUM_MTU);
        let way = fits & self.open & adjacency.resolved() & (packet.input != self.port);
        if !way || !admit(packet, self.port) || !F::leave(packet, self.source, adjacency) {
            return false;
        }
        self.hops.mark_used(path);
        let _ = packet.split_link::<ETHERNET>();
        (packet.next_hop, packet.adjacency, packet.output) = (id, path, self.port);
        true
    }
}

/// The path of a packet's flow, if there are several.
#[cold]
fn one_of(hops: &Hops<'_>, hop: Hop, packet: &Packet) -> Option<AdjacencyId> {
    let several = hop.kind() == HopKind::Forward;
    several.then(|| hops.select(hop, flow_hash(packet.data().get(ETHERNET..).unwrap_or_default())))
}

impl Element for FastPath {
    fn class(&self) -> &'static str {
        "FastPath"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["rest", "out"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        // Whoever looks on wants to see what each element does.
        if cx.is_observed() {
            return cx.emit_batch(REST, batch);
        }
        let FastPath { view, sources, four, six } = self;
        let mut sent = 0;
        let (count, others) = four.choose(view, sources, batch.packets_mut());
        if count != 0 {
            sent = four.send(count, view, batch.packets_mut(), |_, _, _| true);
        }
        if others != 0 {
            let count = six.choose(view, batch.packets_mut(), others);
            sent |= six.send(count, view, batch.packets_mut(), |_, _, _| true);
        }
        cx.emit_some(REST, batch, batch.mask() & !sent);
        cx.emit_batch(OUT, batch);
    }
}
