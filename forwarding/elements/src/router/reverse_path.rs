//! # ReversePath4: does a packet come from where its source is? (RFC 3704) (IPv4)
//!
//! Group: router
//! Usage: `ReversePath4`
//! Ports: 1 input, 1 output; push
//!
//! Per input port, by its flags: strict, the source must be routed back by this port (or, of a
//! bond, by any member's), by any of its paths; loose, it must be routed at all. A source that
//! routes to this machine, to nowhere or to an error is never right. Behind the lookup of the
//! destination, as in Linux, so that only what would be forwarded pays for it; ports without the
//! check pay a branch.
//!
//! # ReversePath6: does a packet come from where its source is? (RFC 3704) (IPv6)
//!
//! Group: router
//! Usage: `ReversePath6`
//! Ports: 1 input, 1 output; push
//!
//! As [ReversePath4], for IPv6.

use std::marker::PhantomData;

use super::context::SharedContext;
use super::router_context::{context_of, on_tables};
use fib::{HopKind, InterfaceFlags, InterfaceId, NextHopId, View};
use graph::{BATCH, Batch, Class, Context, Element};
use wire::Reason;
use wire::which::numbers;

use super::RouterContext;
use super::beside;
use super::family::{Family, V4, V6};
use super::plain::{Chosen, Plain};
use super::steer::{Reader, Towards};

/// The class `ReversePath4`.
pub const REVERSE_PATH4: Class = Class {
    name: "ReversePath4",
    ports: "1/1",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("reverse_path.rs"),
    make: |arguments, setup| on_tables(arguments, setup, |s| ReversePath4::new(s, context_of(setup))),
};

/// The class `ReversePath6`.
pub const REVERSE_PATH6: Class = Class {
    name: "ReversePath6",
    ports: "1/1",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("reverse_path.rs"),
    make: |arguments, setup| on_tables(arguments, setup, |s| ReversePath6::new(s, context_of(setup))),
};

/// Checks sources by the flags of the input port. Output: `valid`. Drops `reverse_path`.
pub struct ReversePath<F: Family> {
    view: View,
    rules: Reader,
    addresses: [F::Address; BATCH],
    ids: [NextHopId; BATCH],
    _family: PhantomData<F>,
}

/// [`ReversePath`] for IPv4.
pub type ReversePath4 = ReversePath<V4>;
/// [`ReversePath`] for IPv6.
pub type ReversePath6 = ReversePath<V6>;

impl<F: Family> ReversePath<F> {
    /// Looks up in these tables, by these routing rules.
    pub fn new(router: &RouterContext, context: Option<SharedContext>) -> ReversePath<F> {
        ReversePath {
            view: router.view.clone(),
            rules: Reader::new(router.steering.clone()).noted(context),
            addresses: [F::Address::default(); BATCH],
            ids: [NextHopId::NONE; BATCH],
            _family: PhantomData,
        }
    }

    fn flags(&self, port: InterfaceId) -> InterfaceFlags {
        flags::<F>(&self.view, port)
    }
}

/// What is asked of sources that come in by a port.
fn flags<F: Family>(view: &View, port: InterfaceId) -> InterfaceFlags {
    view.interface(port).flags() & (F::STRICT | F::LOOSE)
}

/// Whether a source with this way back may come in by a port.
pub(super) fn comes_from<F: Family>(view: &View, id: NextHopId, port: InterfaceId) -> bool {
    let flags = flags::<F>(view, port);
    if flags.is_empty() {
        return true;
    }
    let (hop, strict) = (view.hop(id), flags.contains(F::STRICT));
    // Interfaces of the plane's that are one of Linux's, a bond, have the same index.
    let own = view.interface(port).ifindex();
    let is_own = |interface| interface == port || view.interface(interface).ifindex() == own;
    match hop.kind() {
        HopKind::Forward => {
            let back = |path| is_own(view.adjacency(view.select(hop, path)).interface());
            !strict || (0..1u32 << hop.log2()).any(back)
        }
        HopKind::Glean => !strict || is_own(hop.glean_interface()),
        HopKind::Punt => !strict,
        _ => false,
    }
}

impl<F: Plain> Chosen<F> {
    /// Leaves out those that do not come from where their source is: why is found out behind.
    #[inline(never)]
    pub(super) fn vouch(&mut self, view: &View) {
        let (mut ids, count) = ([NextHopId::NONE; BATCH], self.count.min(BATCH));
        F::lookup(view, &self.upper.sources[..count], &mut ids[..count]);
        // Many have the same way back, and it is as right for one as for the others.
        let (mut known, mut wrong) = ((InterfaceId::NONE, NextHopId::NONE), 1);
        for n in numbers(self.upper.whole) {
            let asked = (InterfaceId(self.upper.inputs[n]), ids[n]);
            if asked != known {
                (known, wrong) = (asked, u64::from(!comes_from::<F>(view, asked.1, asked.0)));
            }
            self.upper.whole &= !(wrong << n);
        }
    }
}

impl<F: Family> Element for ReversePath<F> {
    fn class(&self) -> &'static str {
        F::CLASSES[1]
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["valid"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let (mut port, mut any) = (InterfaceId::NONE, false);
        for packet in batch.packets() {
            if packet.input != port {
                port = packet.input;
                any |= !self.flags(port).is_empty();
            }
        }
        if any {
            let count = batch.len();
            for (address, packet) in self.addresses.iter_mut().zip(batch.packets()) {
                *address = F::source(packet);
            }
            F::lookup(&self.view, &self.addresses[..count], &mut self.ids[..count]);
            let ids = &mut self.ids[..count];
            let (packets, addresses) = (batch.packets(), &self.addresses[..count]);
            beside::correct::<F>(&self.view, packets, addresses, ids, &mut self.rules, Towards::Source);
            let mut wrong = 0u64;
            for (index, packet) in batch.packets().iter().enumerate() {
                wrong |= u64::from(!comes_from::<F>(&self.view, self.ids[index], packet.input)) << index;
            }
            batch.take(wrong, |_, packet| cx.drop(packet, Reason::ReversePath));
        }
        cx.emit_batch(0, batch);
    }
}
