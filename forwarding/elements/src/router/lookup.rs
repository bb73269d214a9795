//! # Lookup4: the route, of equal paths the one of this flow, and with it the output port (IPv4)
//!
//! Group: router
//! Usage: `Lookup4([TRANSLATED])`
//! Ports: 1 input, 6 outputs; push
//!
//! The longest-prefix matches of a batch are made together, so that their cache misses overlap.
//! Packets for this machine, and those whose next hop only Linux can complete (an unresolved
//! neighbour, a port that this program cannot transmit by), are still as they came and go there.
//! What has no way forward leaves by the output of the error it is answered with. The packets of
//! flows whose destination is translated go where they will be sent, though they still say
//! otherwise. What came in by an interface of a VRF is looked up in the VRF's table, and where that
//! says nothing in the main one. Where Linux's routing rules choose the table, they are asked; what
//! none of their tables decides is for Linux to complete.
//!
//! - `TRANSLATED` (boolean): whether there are such flows; default false
//!
//! Outputs:
//! - 0: to be forwarded
//! - 1: for this machine
//! - 2: for Linux to complete
//! - 3: no route
//! - 4: unreachable
//! - 5: prohibited
//!
//! # Lookup6: the route, of equal paths the one of this flow, and with it the output port (IPv6)
//!
//! Group: router
//! Usage: `Lookup6([TRANSLATED])`
//! Ports: 1 input, 6 outputs; push
//!
//! As [Lookup4], for IPv6.
//!
//! - `TRANSLATED` (boolean): as there
//!
//! Outputs:
//! - 0: to be forwarded
//! - 1: for this machine
//! - 2: for Linux to complete
//! - 3: no route
//! - 4: unreachable
//! - 5: prohibited

use std::marker::PhantomData;

use super::context::SharedContext;
use super::router_context::{context_of, on_tables};
use fib::{AdjacencyId, HopKind, Hops, InterfaceId, NextHopId, TableId, View};
use graph::arguments::Arguments;
use graph::{BATCH, Batch, Class, Context, Element, Setup};
use port::Packet;
use wire::{IcmpError, Reason, flow_hash};

use super::RouterContext;
use super::SENDS;
use super::beside;
use super::family::{Family, V4, V6};
use super::steer::{Reader, Towards};
use super::tunnel::carries_packet;
use super::tunnel_rules::TunnelRules;

/// The class `Lookup4`.
pub const LOOKUP4: Class = Class {
    name: "Lookup4",
    ports: "1/6",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("lookup.rs"),
    make: |arguments, setup| {
        let context = context(arguments, setup);
        let tunnels = TunnelRules::of(setup);
        on_tables(arguments, setup, |s| Lookup4 { context, tunnels, ..Lookup4::new(s, context_of(setup)) })
    },
};

/// The class `Lookup6`.
pub const LOOKUP6: Class = Class {
    name: "Lookup6",
    ports: "1/6",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("lookup.rs"),
    make: |arguments, setup| {
        let context = context(arguments, setup);
        let tunnels = TunnelRules::of(setup);
        on_tables(arguments, setup, |s| Lookup6 { context, tunnels, ..Lookup6::new(s, context_of(setup)) })
    },
};

/// The context, if destinations are translated.
fn context(arguments: &mut Arguments<'_>, setup: &Setup<'_>) -> Option<SharedContext> {
    let translated = arguments.optional("TRANSLATED").unwrap_or(false);
    context_of(setup).filter(|_| translated)
}

const FORWARD: usize = 0;
const LOCAL: u8 = 1;
const LINUX: u8 = 2;
const NO_ROUTE: u8 = 3;
const UNREACHABLE: u8 = 4;
const PROHIBIT: u8 = 5;
/// The outputs' names.
pub(super) const OUTPUTS: [&str; 6] = [
    "forward",
    "local",
    "linux",
    IcmpError::NoRoute.name(),
    IcmpError::Unreachable.name(),
    IcmpError::Prohibit.name(),
];

/// Looks up the destination. Outputs: `forward` (with next hop, adjacency and output port set),
/// `local`, `linux`, `no_route`, `unreachable`, `prohibit`. Drops `blackhole`, and `forwarding_off`
/// by the input port's flag.
pub struct Lookup<F: Family> {
    view: View,
    rules: Reader,
    tunnels: TunnelRules,
    /// Where the destinations of translated flows stand.
    context: Option<SharedContext>,
    addresses: [F::Address; BATCH],
    ids: [NextHopId; BATCH],
    /// Destinations of the other family.
    others: [[u8; 16]; BATCH],
    _family: PhantomData<F>,
}

/// [`Lookup`] for IPv4.
pub type Lookup4 = Lookup<V4>;
/// [`Lookup`] for IPv6.
pub type Lookup6 = Lookup<V6>;

/// What is not to be forwarded.
#[derive(Clone, Copy)]
enum Other {
    Emit(u8),
    Drop(Reason),
}

impl<F: Family> Lookup<F> {
    /// Looks up in these tables, by these routing rules; what leaves by tunnels is not judged.
    pub fn new(router: &RouterContext, context: Option<SharedContext>) -> Lookup<F> {
        Lookup {
            view: router.view.clone(),
            rules: Reader::new(router.steering.clone()).noted(context),
            tunnels: TunnelRules::none(),
            context: None,
            addresses: [F::Address::default(); BATCH],
            ids: [NextHopId::NONE; BATCH],
            others: [[0; 16]; BATCH],
            _family: PhantomData,
        }
    }
}

/// Finds the way of a packet with this next hop.
#[inline(always)]
fn resolve<F: Family>(
    view: &View,
    hops: &Hops<'_>,
    packet: &mut Packet,
    id: NextHopId,
    forwarding: bool,
    tunnels: &mut TunnelRules,
) -> Result<(), Other> {
    let hop = hops.hop(id);
    packet.next_hop = id;
    if hop.kind() != HopKind::Forward || !forwarding {
        // Where Linux will send it, as far as that is known.
        packet.adjacency = AdjacencyId::default();
        packet.output = if hop.kind() == HopKind::Glean { hop.glean_interface() } else { InterfaceId::NONE };
        let left = match forwarding {
            true => hop.kind() == HopKind::None && hops.link(packet.input).table() == TableId::BY_RULES,
            false => hops.interface(packet.input).flags().contains(F::LINUX),
        };
        return Err(not_forwarded(hop.kind(), forwarding, left));
    }
    let hash = if hop.log2() != 0 { flow_hash(packet.network()) } else { 0 };
    let path = hops.select(hop, hash);
    hops.mark_used(path);
    let adjacency = hops.adjacency(path);
    (packet.adjacency, packet.output) = (path, adjacency.interface());
    let sends = hops.interface(adjacency.interface()).flags().contains(SENDS);
    let leaves = adjacency.resolved() && (sends || carries_packet(view, adjacency, packet, tunnels));
    if leaves { Ok(()) } else { Err(Other::Emit(LINUX)) }
}

#[cold]
fn not_forwarded(kind: HopKind, forwarding: bool, left_to_linux: bool) -> Other {
    match kind {
        HopKind::Local => Other::Emit(LOCAL),
        _ if left_to_linux => Other::Emit(LINUX),
        _ if !forwarding => Other::Drop(Reason::ForwardingOff),
        HopKind::None => Other::Emit(NO_ROUTE),
        HopKind::Blackhole => Other::Drop(Reason::Blackhole),
        HopKind::Unreachable => Other::Emit(UNREACHABLE),
        HopKind::Prohibit => Other::Emit(PROHIBIT),
        HopKind::Forward | HopKind::Glean | HopKind::Punt => Other::Emit(LINUX),
    }
}

impl<F: Family> Element for Lookup<F> {
    fn class(&self) -> &'static str {
        F::CLASSES[0]
    }

    fn outputs(&self) -> &'static [&'static str] {
        &OUTPUTS
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let count = batch.len();
        for (address, packet) in self.addresses.iter_mut().zip(batch.packets()) {
            *address = F::destination(packet);
        }
        // Packets that will be of the other family.
        let mut crossing = 0u64;
        if let Some(context) = &self.context {
            let mut context = context.lock();
            for (index, packet) in batch.packets().iter().enumerate() {
                let Some(towards) = context.towards(packet) else { continue };
                match F::address(towards) {
                    Some(address) => self.addresses[index] = address,
                    None => {
                        crossing |= 1 << index;
                        self.others[index] = towards;
                    }
                }
            }
        }
        F::lookup(&self.view, &self.addresses[..count], &mut self.ids[..count]);
        let ids = &mut self.ids[..count];
        let (packets, addresses) = (batch.packets(), &self.addresses[..count]);
        beside::correct::<F>(&self.view, packets, addresses, ids, &mut self.rules, Towards::Destination);
        if crossing != 0 {
            for (index, id) in self.ids.iter_mut().enumerate().filter(|(index, _)| crossing >> index & 1 != 0)
            {
                *id = F::lookup_other(&self.view, self.others[index]).unwrap_or(*id);
            }
        }

        let (mut port, mut forwarding) = (InterfaceId::NONE, false);
        let mut rest = 0u64;
        let mut others = [Other::Emit(LINUX); BATCH];
        let hops = self.view.hops();
        for (index, (packet, &id)) in batch.packets_mut().iter_mut().zip(&self.ids).enumerate() {
            if packet.input != port {
                port = packet.input;
                forwarding = hops.interface(port).flags().contains(F::FORWARD);
            }
            let found = resolve::<F>(&self.view, &hops, packet, id, forwarding, &mut self.tunnels);
            if let Err(other) = found {
                rest |= 1 << index;
                others[index] = match other {
                    // The router's own address of the other family: Linux would not know the
                    // packet.
                    Other::Emit(LOCAL) if crossing >> index & 1 != 0 => Other::Drop(Reason::Untranslatable),
                    other => other,
                };
            }
        }
        batch.take(rest, |index, packet| match others[index] {
            Other::Emit(output) => cx.emit(usize::from(output), packet),
            Other::Drop(reason) => cx.drop(packet, reason),
        });
        cx.emit_batch(FORWARD, batch);
    }
}
