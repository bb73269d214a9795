//! The next hops of packets that a table beside the main one routes, for their interface belongs to
//! a VRF, or routing rules choose it.
//!
//! A batch is looked up in the main table first, whole: few routers have VRFs, and what a VRF's
//! table does not say, the main one does. Then those that came in by a VRF's interface are looked
//! up together in theirs. Where rules choose the table, they are asked for each packet.

use fib::{HopKind, Hops, InterfaceId, NextHopId, TableId, View, Walk};
use graph::BATCH;
use port::Packet;

use super::family::Family;
use super::steer::{Reader, Towards};

/// The table by whose number flows are known that come in by an interface: the same addresses in
/// another VRF are other hosts.
#[inline(always)]
pub(super) fn of_flows(hops: &Hops<'_>, interface: InterfaceId) -> u16 {
    hops.link(interface).table().of_addresses().0
}

/// The table by whose number answers to a packet are known: that of the interface it leaves by, as
/// far as that is known.
#[inline(always)]
pub(super) fn of_answers(hops: &Hops<'_>, packet: &Packet) -> u16 {
    let known = packet.output != InterfaceId::NONE;
    of_flows(hops, if known { packet.output } else { packet.input })
}

/// Puts right the next hops of a batch's addresses, found in the main table, where another one
/// routes the packet.
#[inline(always)]
pub(super) fn correct<F: Family>(
    view: &View,
    packets: &[Packet],
    addresses: &[F::Address],
    ids: &mut [NextHopId],
    rules: &mut Reader,
    towards: Towards,
) {
    let hops = view.hops();
    let (mut input, mut in_vrf, mut by_rules) = (InterfaceId::NONE, false, false);
    for packet in packets {
        if packet.input != input {
            input = packet.input;
            let table = hops.link(input).table();
            in_vrf |= table.of_addresses() != TableId::MAIN;
            by_rules |= table == TableId::BY_RULES;
        }
    }
    if in_vrf {
        look_up::<F>(view, &hops, packets, addresses, ids);
    }
    if by_rules {
        rules.correct::<F>(view, packets, addresses, ids, towards);
    }
}

#[inline(never)]
fn look_up<F: Family>(
    view: &View,
    hops: &Hops<'_>,
    packets: &[Packet],
    addresses: &[F::Address],
    ids: &mut [NextHopId],
) {
    let (mut walks, mut of) = ([Walk::default(); BATCH], [0u8; BATCH]);
    let mut count = 0;
    let (mut input, mut table) = (InterfaceId::NONE, TableId::MAIN);
    for (index, (packet, address)) in packets.iter().zip(addresses).enumerate().take(BATCH) {
        if packet.input != input {
            (input, table) = (packet.input, hops.link(packet.input).table());
        }
        if table.of_addresses() != TableId::MAIN {
            (walks[count], of[count]) = (F::walk(table, *address), index as u8);
            count += 1;
        }
    }
    let mut found = [NextHopId::NONE; BATCH];
    view.lookup_beside(&walks[..count], &mut found[..count]);
    for (id, index) in found[..count].iter().zip(of) {
        if hops.hop(*id).kind() != HopKind::None {
            ids[usize::from(index)] = *id;
        }
    }
}
