//! How plain packets leave: by the path of their next hop, with one hop less to live and a new
//! Ethernet header.
//!
//! Where nothing else is asked of them, they are looked up and sent at once. Else they are first
//! aimed: their paths are put down, so that it can be asked where they would go; those of them that
//! may then depart.

use fib::{
    AdjacencyId, AdjacencyWord, Hop, HopKind, Hops, InterfaceFlags, InterfaceId, InterfaceWord, NextHopId,
    View,
};
use graph::BATCH;
use port::Packet;
use wire::which::{bits, lowest, numbers, which};
use wire::{ethernet, flow_hash, ipv4};

use super::family::{V4, V6};
use super::plain::{Chosen, Plain, Ways};
use super::rewrite::Source;
use super::tunnel;
use super::wide::wide;
use super::{ETHERNET, SENDS};

/// What is done to a packet that leaves, by family.
pub(super) trait Leave: Plain {
    /// Bytes of the IP header.
    const HEADER: usize;
    /// The least MTU that there is.
    const MINIMUM_MTU: usize;

    /// What its frames say that it is.
    const TYPE: u16;

    /// Gives it, which has more than one hop left, one hop less to live. False, and nothing done,
    /// without a header of Ethernet and one of its own.
    fn age(packet: &mut Packet) -> bool;
}

impl Leave for V4 {
    const HEADER: usize = 20;
    const MINIMUM_MTU: usize = 0;
    const TYPE: u16 = ethernet::IPV4;

    #[inline(always)]
    fn age(packet: &mut Packet) -> bool {
        let Some(frame) = packet.data_mut().first_chunk_mut::<{ ETHERNET + 20 }>() else { return false };
        frame.last_chunk_mut().into_iter().for_each(ipv4::age);
        true
    }
}

impl Leave for V6 {
    const HEADER: usize = 40;
    const MINIMUM_MTU: usize = wire::ipv6::MINIMUM_MTU;
    const TYPE: u16 = ethernet::IPV6;

    #[inline(always)]
    fn age(packet: &mut Packet) -> bool {
        let Some(frame) = packet.data_mut().first_chunk_mut::<{ ETHERNET + 40 }>() else { return false };
        let limit = &mut frame[ETHERNET + 7];
        *limit = limit.wrapping_sub(1);
        true
    }
}

impl<F: Leave> Chosen<F> {
    /// Looks up all of them and sends what has a way, also by a tunnel; by their places, as bits.
    /// Those that were in a tunnel are out of it, and to be begun anew: the second bits.
    #[inline(always)]
    pub(super) fn send(&mut self, view: &View, packets: &mut [Packet]) -> (u64, u64) {
        send(self, view, packets)
    }

    /// Looks up all of them, and finds the ways of these (bits); those that have one. What was
    /// found before is forgotten.
    #[inline(always)]
    pub(super) fn aim(&mut self, these: u64, view: &View, packets: &[Packet]) -> u64 {
        aim(self, these, view, packets)
    }

    /// Looks up all of them.
    #[inline(always)]
    pub(super) fn look_up(&mut self, view: &View) {
        let count = self.count.min(BATCH);
        F::lookup(view, &self.destinations[..count], &mut self.ids[..count]);
    }

    /// Finds the ways of these (bits), which have been looked up; those that have one.
    #[inline(always)]
    pub(super) fn aim_found(&mut self, these: u64, view: &View, packets: &[Packet]) -> u64 {
        aim_found(self, these, view, packets)
    }

    /// Sends these packets, which have been aimed; by their places, as bits.
    #[inline(always)]
    pub(super) fn depart(&self, these: u64, view: &View, packets: &mut [Packet]) -> u64 {
        depart(self, these, view, packets)
    }
}

wide! {
    fn send[F: Leave](chosen: &mut Chosen<F>, view: &View, packets: &mut [Packet]) -> (u64, u64) {
        let count = chosen.count.min(BATCH);
        F::lookup(view, &chosen.destinations[..count], &mut chosen.ids[..count]);
        let (mut gate, mut kept, mut opened) = (Gate::new(view), 0u64, 0u64);
        let mut pass = |packet: &mut Packet, id: NextHopId| {
            gate.way::<F>(packet, id).is_some_and(|way| gate.send::<F>(packet, id, way))
        };
        let ids = &chosen.ids[..count];
        // The usual: all of the group is chosen, and the packets need not be looked for.
        let start = chosen.group.start;
        if let Some(all) = packets.get_mut(chosen.group.clone()).filter(|all| all.len() == count) {
            for (number, (packet, &id)) in all.iter_mut().zip(ids).enumerate() {
                if !pass(packet, id) {
                    match pass_by_tunnel::<F>(view, packet, id) {
                        Some(Tunnelled::Sent) => {}
                        Some(Tunnelled::Opened) => (kept, opened) = (kept | 1 << number, opened | 1 << number),
                        None => kept |= 1 << number,
                    }
                }
            }
            return ((lowest(count) & !kept) << start, opened << start);
        }
        let mut all = 0u64;
        for (&place, &id) in chosen.places.iter().zip(ids) {
            let Some(packet) = packets.get_mut(usize::from(place)) else { continue };
            all |= 1 << place;
            if !pass(packet, id) {
                match pass_by_tunnel::<F>(view, packet, id) {
                    Some(Tunnelled::Sent) => {}
                    Some(Tunnelled::Opened) => (kept, opened) = (kept | 1 << place, opened | 1 << place),
                    None => kept |= 1 << place,
                }
            }
        }
        (all & !kept, opened)
    }
}

/// What became of a packet that leaves by a tunnel or came in by one.
enum Tunnelled {
    Sent,
    Opened,
}

/// Sends a packet by a tunnel, or takes it out of one; `None`, and nothing done, where it is for
/// others.
#[cold]
#[inline(never)]
fn pass_by_tunnel<F: Leave>(view: &View, packet: &mut Packet, id: NextHopId) -> Option<Tunnelled> {
    let (hops, hop) = (view.hops(), view.hop(id));
    if hop.kind() == HopKind::Local {
        let _ = packet.split_link::<ETHERNET>();
        return tunnel::open(view, packet, |_, _| true).then_some(Tunnelled::Opened);
    }
    let ip = packet.data().get(ETHERNET..)?;
    let hash = flow_hash(ip);
    let path = match hop.only_path() {
        Some(path) => path,
        None if hop.kind() == HopKind::Forward => hops.select(hop, hash),
        None => return None,
    };
    let (adjacency, length) = (hops.adjacency(path), ip.len());
    let interface = adjacency.interface();
    let fits = length <= (adjacency.mtu() as usize).max(F::MINIMUM_MTU);
    if !hops.link(interface).is_tunnel() || !fits || !adjacency.resolved() || packet.input == interface {
        return None;
    }
    let vxlan = bridge_of(hops.interface(interface));
    if vxlan != 0 && hops.interface(packet.input).ifindex() == vxlan {
        return None;
    }
    let passage = tunnel::passage(view, adjacency, &tunnel::Wanted::of(ip, length, hash))?;
    let room = packet.headroom() >= tunnel::LONGEST;
    if !room || !F::age(packet) {
        return None;
    }
    let _ = packet.split_link::<ETHERNET>();
    (packet.next_hop, packet.adjacency, packet.output) = (id, path, interface);
    hops.mark_used(path);
    // All that it asks for has just been seen.
    (passage.enclose(view, packet) && passage.address(&hops, packet)).then_some(Tunnelled::Sent)
}

wide! {
    fn aim[F: Leave](chosen: &mut Chosen<F>, these: u64, view: &View, packets: &[Packet]) -> u64 {
        chosen.look_up(view);
        ways_of(chosen, these, view, packets)
    }
}

wide! {
    fn aim_found[F: Leave](chosen: &mut Chosen<F>, these: u64, view: &View, packets: &[Packet]) -> u64 {
        ways_of(chosen, these, view, packets)
    }
}

/// The ways of packets whose next hops are known.
#[inline(always)]
fn ways_of<F: Leave>(chosen: &mut Chosen<F>, these: u64, view: &View, packets: &[Packet]) -> u64 {
    let count = chosen.count.min(BATCH);
    let (hops, mut several) = (view.hops(), [0; BATCH]);
    let Chosen { ids, upper, ways: Ways { paths, neighbours, outputs }, .. } = chosen;
    for n in 0..count {
        let only = hops.hop(ids[n]).only_path();
        several[n] = u8::from(only.is_none());
        paths[n] = only.unwrap_or_default();
        neighbours[n] = hops.adjacency(paths[n]);
        outputs[n] = neighbours[n].interface().0;
    }
    let several = bits(&several);
    let mut aimed = these & lowest(count) & !several;
    for n in numbers(these & several) {
        let Some(packet) = packets.get(usize::from(chosen.places[n])) else { continue };
        let Some(path) = one_of(&hops, hops.hop(ids[n]), packet, upper.lengths[n] as usize) else { continue };
        (paths[n], neighbours[n]) = (path, hops.adjacency(path));
        outputs[n] = neighbours[n].interface().0;
        aimed |= 1 << n;
    }
    aimed &= which(|n| {
        let fits = upper.lengths[n] <= neighbours[n].mtu().max(F::MINIMUM_MTU as u32);
        fits & neighbours[n].resolved() & (upper.inputs[n] != outputs[n])
    });
    for (interface, group) in by_output(outputs, aimed) {
        let out = hops.interface(interface);
        if !out.flags().contains(SENDS) {
            aimed &= !group;
        } else if bridge_of(out) != 0 {
            aimed &= !came_by(&hops, bridge_of(out), &upper.inputs, group);
        }
    }
    aimed
}

/// The bridge, by Linux's index, that an interface is; 0: it is none.
#[inline(always)]
pub(super) fn bridge_of(interface: InterfaceWord) -> u32 {
    if interface.flags().contains(InterfaceFlags::BRIDGED) { interface.ifindex() } else { 0 }
}

/// Packets (bits) that came in by a bridge that they leave by: their senders may have to be told.
#[inline(never)]
fn came_by(hops: &Hops<'_>, bridge: u32, inputs: &[u16; BATCH], these: u64) -> u64 {
    let came = numbers(these).filter(|n| hops.interface(InterfaceId(inputs[*n])).ifindex() == bridge);
    came.fold(0, |came, n| came | 1 << n)
}

wide! {
    fn depart[F: Leave](chosen: &Chosen<F>, these: u64, view: &View, packets: &mut [Packet]) -> u64 {
        let (hops, mut kept) = (view.hops(), 0);
        for (interface, group) in by_output(&chosen.ways.outputs, these) {
            // It did send when they were aimed. By now they are counted, so they go.
            let gate = Gate { hops, interface, source: Source::of(&hops, interface), bridge: 0 };
            kept |= depart_by(&gate, chosen, group, packets);
        }
        chosen.in_batch(these & !kept)
    }
}

wide! {
    /// Sends these packets, all of them by the interface of the gate; those that stay after all.
    fn depart_by[F: Leave](gate: &Gate<'_>, chosen: &Chosen<F>, these: u64, packets: &mut [Packet]) -> u64 {
        let (gate, mut kept) = (*gate, 0);
        for n in numbers(these) {
            let Some(packet) = packets.get_mut(chosen.place(n)) else { continue };
            packet.cut((chosen.upper.lengths[n] + ETHERNET as u32) as u16);
            let way = (chosen.ways.paths[n], chosen.ways.neighbours[n]);
            if !gate.send::<F>(packet, chosen.ids[n], way) {
                keep(&mut kept, n);
            }
        }
        kept
    }
}

/// Adds one that stays, though it was aimed: a case that does not come up.
#[cold]
fn keep(kept: &mut u64, n: usize) {
    *kept |= 1 << n;
}

/// Packets (bits) by the interface that they leave by.
#[inline(always)]
fn by_output(outputs: &[u16; BATCH], mut rest: u64) -> impl Iterator<Item = (InterfaceId, u64)> {
    std::iter::from_fn(move || {
        let output = *outputs.get(rest.trailing_zeros() as usize)?;
        let group = rest & which(|n| outputs[n] == output);
        rest &= !group;
        Some((InterfaceId(output), group))
    })
}

/// Where packets leave: the tables, and the interface of the last one, which sends.
#[derive(Clone, Copy)]
struct Gate<'a> {
    hops: Hops<'a>,
    interface: InterfaceId,
    source: Source,
    /// The bridge that it is; else 0.
    bridge: u32,
}

impl Gate<'_> {
    fn new(view: &View) -> Gate<'_> {
        let hops = view.hops();
        let interface = InterfaceId::NONE;
        Gate { hops, interface, source: Source::of(&hops, interface), bridge: 0 }
    }

    /// Whether an interface sends, which then is that of the gate.
    #[inline(always)]
    fn turn_to(&mut self, interface: InterfaceId) -> bool {
        if interface != self.interface {
            let out = self.hops.interface(interface);
            if !out.flags().contains(SENDS) {
                return false;
            }
            (self.interface, self.source) = (interface, Source::of(&self.hops, interface));
            self.bridge = bridge_of(out);
        }
        true
    }

    /// The path by this next hop, if it is as simple as that; the interface is that of the gate.
    #[inline(always)]
    fn way<F: Leave>(&mut self, packet: &Packet, id: NextHopId) -> Option<(AdjacencyId, AdjacencyWord)> {
        let hop = self.hops.hop(id);
        let path = match hop.only_path() {
            Some(path) => path,
            None => one_of(&self.hops, hop, packet, packet.len())?,
        };
        let adjacency = self.hops.adjacency(path);
        let fits = packet.len() - ETHERNET <= (adjacency.mtu() as usize).max(F::MINIMUM_MTU);
        let way = self.turn_to(adjacency.interface())
            && fits & adjacency.resolved() & (packet.input != adjacency.interface());
        if way && !(self.bridge != 0 && self.is_back(packet)) { Some((path, adjacency)) } else { None }
    }

    /// Whether a packet leaves by the bridge that it came in by.
    #[inline(always)]
    fn is_back(&self, packet: &Packet) -> bool {
        self.hops.interface(packet.input).ifindex() == self.bridge
    }

    /// Sends a packet its way. False, and nothing done, if it cannot be done.
    #[inline(always)]
    fn send<F: Leave>(
        &self,
        packet: &mut Packet,
        id: NextHopId,
        (path, adjacency): (AdjacencyId, AdjacencyWord),
    ) -> bool {
        if !self.source.has_room(packet) || !F::age(packet) {
            return false;
        }
        self.hops.mark_used(path);
        let _ = packet.split_link::<ETHERNET>();
        (packet.next_hop, packet.adjacency, packet.output) = (id, path, self.interface);
        self.source.head(packet, adjacency, F::TYPE)
    }
}

/// The path of a packet's flow, if there are several; the packet has so many bytes from its IP
/// header on, if that many are there.
#[cold]
fn one_of(hops: &Hops<'_>, hop: Hop, packet: &Packet, length: usize) -> Option<AdjacencyId> {
    let several = hop.kind() == HopKind::Forward;
    several.then(|| {
        let ip = packet.data().get(ETHERNET..).unwrap_or_default();
        hops.select(hop, flow_hash(&ip[..ip.len().min(length)]))
    })
}
