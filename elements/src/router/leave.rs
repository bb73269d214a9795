//! How plain packets leave: by the path of their next hop, with one hop less to live and a new Ethernet header.

use fib::{AdjacencyId, AdjacencyWord, Hop, HopKind, Hops, NextHopId, PortId, View};
use graph::BATCH;
use port::Packet;
use wire::{ethernet, flow_hash, ipv4};

use super::family::{Family, V4, V6};
use super::plain::{Chosen, FRAME4, FRAME6};
use super::rewrite::Source;
use super::{ETHERNET, SENDS};

/// What is done to a packet that leaves, by family.
pub(super) trait Leave: Family {
    /// Bytes of the IP header.
    const HEADER: usize;
    /// The least MTU that there is.
    const MINIMUM_MTU: usize;

    /// Gives it, which has more than one hop left, one hop less to live and its new Ethernet header. False, and nothing done, without
    /// these headers.
    fn leave(packet: &mut Packet, source: Source, adjacency: AdjacencyWord) -> bool;
}

impl Leave for V4 {
    const HEADER: usize = 20;
    const MINIMUM_MTU: usize = 0;

    #[inline(always)]
    fn leave(packet: &mut Packet, source: Source, adjacency: AdjacencyWord) -> bool {
        let Some(frame) = packet.data_mut().first_chunk_mut::<FRAME4>() else { return false };
        frame.last_chunk_mut().into_iter().for_each(ipv4::age);
        source.write(frame, adjacency, ethernet::IPV4)
    }
}

impl Leave for V6 {
    const HEADER: usize = 40;
    const MINIMUM_MTU: usize = wire::ipv6::MINIMUM_MTU;

    #[inline(always)]
    fn leave(packet: &mut Packet, source: Source, adjacency: AdjacencyWord) -> bool {
        let Some(frame) = packet.data_mut().first_chunk_mut::<FRAME6>() else { return false };
        let limit = &mut frame[ETHERNET + 7];
        *limit = limit.wrapping_sub(1);
        source.write(frame, adjacency, ethernet::IPV6)
    }
}

impl<F: Leave> Chosen<F> {
    /// Looks up the first `count` and sends what has a way and is admitted to it; the packets that this was done to, as bits. What is
    /// admitted does leave.
    #[inline(never)]
    pub(super) fn send(
        &mut self,
        count: usize,
        view: &View,
        packets: &mut [Packet],
        gatekeeper: &mut impl Admit,
    ) -> u64 {
        let count = count.min(BATCH);
        F::lookup(view, &self.addresses[..count], &mut self.ids[..count]);
        let (mut gate, mut kept) = (Gate::new(view), 0u64);
        let ids = &self.ids[..count];
        // The usual: all of the batch is chosen, and the packets need not be looked for.
        if count == packets.len() {
            for (number, (packet, &id)) in packets.iter_mut().zip(ids).enumerate() {
                if !gate.pass::<F>(number, packet, id, gatekeeper) {
                    kept |= 1 << number;
                }
            }
            return first(count) & !kept;
        }
        let mut chosen = 0u64;
        for (number, (&place, &id)) in self.places.iter().zip(ids).enumerate() {
            let Some(packet) = packets.get_mut(usize::from(place)) else { continue };
            chosen |= 1 << place;
            if !gate.pass::<F>(number, packet, id, gatekeeper) {
                kept |= 1 << place;
            }
        }
        chosen & !kept
    }

    /// Looks up the first `count` and leaves of them those that have a way and are admitted to it, by the number that they get and
    /// the port; how many these are. They are sent by [`Chosen::send_aimed`].
    #[inline(never)]
    pub(super) fn aim(
        &mut self,
        count: usize,
        view: &View,
        packets: &[Packet],
        mut admit: impl FnMut(usize, &Packet, PortId) -> bool,
    ) -> usize {
        let count = count.min(BATCH);
        F::lookup(view, &self.addresses[..count], &mut self.ids[..count]);
        let (mut gate, mut kept) = (Gate::new(view), 0);
        for number in 0..count {
            let (place, id) = (self.places[number], self.ids[number]);
            let Some(packet) = packets.get(usize::from(place)) else { continue };
            let Some((path, _)) = gate.way::<F>(packet, id) else { continue };
            if admit(kept, packet, gate.port) {
                (self.places[kept], self.ids[kept], self.paths[kept]) = (place, id, path);
                kept += 1;
            }
        }
        kept
    }

    /// Sends those of these numbers (bits); the numbers of those that have left.
    #[inline(never)]
    pub(super) fn send_aimed(&self, numbers: u64, view: &View, packets: &mut [Packet]) -> u64 {
        let (mut gate, mut sent) = (Gate::new(view), 0);
        let mut rest = numbers;
        while rest != 0 {
            let number = rest.trailing_zeros() as usize % BATCH;
            rest &= rest - 1;
            let (place, id, path) = (self.places[number], self.ids[number], self.paths[number]);
            let Some(packet) = packets.get_mut(usize::from(place)) else { continue };
            let adjacency = gate.hops.adjacency(path);
            // It may have been lost meanwhile.
            let left = gate.turn_to(adjacency.port())
                && adjacency.resolved()
                && gate.send::<F>(packet, id, (path, adjacency));
            sent |= u64::from(left) << number;
        }
        sent
    }

    /// The port by which packet `number` will leave, once it is aimed.
    pub(super) fn port(&self, number: usize, view: &View) -> PortId {
        view.hops().adjacency(self.paths[number % BATCH]).port()
    }
}

/// So many bits, from the lowest on.
#[inline(always)]
fn first(count: usize) -> u64 {
    // No more than a word has.
    if count == 0 { 0 } else { u64::MAX >> (BATCH - count.min(BATCH)) }
}

/// Where packets leave: the tables, and the port of the last one, which sends.
struct Gate<'a> {
    hops: Hops<'a>,
    port: PortId,
    source: Source,
}

/// Who is asked before a packet leaves.
pub(super) trait Admit {
    /// Whether packet `number` may leave by this port.
    fn admit(&mut self, number: usize, packet: &mut Packet, port: PortId) -> bool;
}

/// Everything may leave.
pub(super) struct Open;

impl Admit for Open {
    #[inline(always)]
    fn admit(&mut self, _: usize, _: &mut Packet, _: PortId) -> bool {
        true
    }
}

impl Gate<'_> {
    fn new(view: &View) -> Gate<'_> {
        let hops = view.hops();
        Gate { hops, port: PortId::NONE, source: Source::of(hops.port(PortId::NONE)) }
    }

    /// Whether a port sends, which then is that of the gate.
    #[inline(always)]
    fn turn_to(&mut self, port: PortId) -> bool {
        if port != self.port {
            let word = self.hops.port(port);
            if !word.flags().contains(SENDS) {
                return false;
            }
            (self.port, self.source) = (port, Source::of(word));
        }
        true
    }

    /// The path by this next hop, if it is as simple as that; the port is that of the gate.
    #[inline(always)]
    fn way<F: Leave>(&mut self, packet: &Packet, id: NextHopId) -> Option<(AdjacencyId, AdjacencyWord)> {
        let hop = self.hops.hop(id);
        let path = match hop.only_path() {
            Some(path) => path,
            None => one_of(&self.hops, hop, packet)?,
        };
        let adjacency = self.hops.adjacency(path);
        let fits = packet.len() - ETHERNET <= (adjacency.mtu() as usize).max(F::MINIMUM_MTU);
        let way = self.turn_to(adjacency.port())
            && fits & adjacency.resolved() & (packet.input != adjacency.port());
        if way { Some((path, adjacency)) } else { None }
    }

    /// Sends a packet, if it has a way and is admitted to it.
    #[inline(always)]
    fn pass<F: Leave>(
        &mut self,
        number: usize,
        packet: &mut Packet,
        id: NextHopId,
        gatekeeper: &mut impl Admit,
    ) -> bool {
        let Some(way) = self.way::<F>(packet, id) else { return false };
        gatekeeper.admit(number, packet, self.port) && self.send::<F>(packet, id, way)
    }

    /// Sends a packet its way. False, and nothing done, if it cannot be done.
    #[inline(always)]
    fn send<F: Leave>(
        &self,
        packet: &mut Packet,
        id: NextHopId,
        (path, adjacency): (AdjacencyId, AdjacencyWord),
    ) -> bool {
        if !F::leave(packet, self.source, adjacency) {
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
