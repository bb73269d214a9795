//! # Redirect4: what leaves by the interface it came in by (IPv4)
//!
//! Group: router
//! Usage: `Redirect4`
//! Ports: 1 input, 2 outputs; push
//!
//! The sender could have used the next hop itself, and a router may tell it so (RFC 1812, 5.2.7.2;
//! RFC 4861, 8.2). Whether it should depends on the interface's settings, on the gateway and on the
//! sender's network, all of which Linux knows. So one such packet now and then, per sender, goes to
//! Linux instead: it forwards the packet and sends the redirect, or does not, by its own rules. All
//! others are forwarded here. So is what is translated: its sender knows no better way to the
//! address that it called, and Linux would translate it in another way than the packets behind it.
//!
//! Outputs:
//! - 0: to be forwarded here
//! - 1: for Linux to forward
//!
//! # Redirect6: what leaves by the interface it came in by (IPv6)
//!
//! Group: router
//! Usage: `Redirect6`
//! Ports: 1 input, 2 outputs; push
//!
//! As [Redirect4], for IPv6.
//!
//! Outputs:
//! - 0: to be forwarded here
//! - 1: for Linux to forward

use std::marker::PhantomData;

use super::context::SharedContext;
use super::router_context::on_tables;
use fib::{InterfaceId, View};
use flow::Tuple;
use graph::{Batch, Class, Context, Element};
use port::Packet;

use super::RouterContext;
use super::family::Family;
use super::leave::bridge_of;
use super::limit::{Destinations, IcmpLimits, Total};

/// The class `Redirect4`.
pub const REDIRECT4: Class = Class {
    name: "Redirect4",
    ports: "1/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("redirect.rs"),
    make: |arguments, setup| {
        let context = setup.environment.get::<SharedContext>().map(|context| (*context).clone());
        on_tables(arguments, setup, |router| Redirect::<super::V4>::at(context, router))
    },
};

/// The class `Redirect6`.
pub const REDIRECT6: Class = Class {
    name: "Redirect6",
    ports: "1/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("redirect.rs"),
    make: |arguments, setup| {
        let context = setup.environment.get::<SharedContext>().map(|context| (*context).clone());
        on_tables(arguments, setup, |router| Redirect::<super::V6>::at(context, router))
    },
};

const FORWARD: usize = 0;
const LINUX: usize = 1;

/// At most 20 a second in all, and one in 5 seconds for each sender.
const LIMITS: IcmpLimits = IcmpLimits { rate: 20, burst: 20, interval: 5_000_000_000 };

/// Finds packets whose output is their input, or another member of the same bridge. Outputs:
/// `forward`, `linux` (a few of them).
pub struct Redirect<F: Family> {
    total: Total,
    senders: Destinations,
    context: Option<SharedContext>,
    view: Option<View>,
    _family: PhantomData<F>,
}

impl<F: Family> Redirect<F> {
    /// With the limits of its own.
    pub fn new() -> Redirect<F> {
        Redirect {
            total: Total::new(),
            senders: Destinations::with_burst(1),
            context: None,
            view: None,
            _family: PhantomData,
        }
    }

    /// At the context where it is noted what is translated; bridges are known from the tables.
    fn at(context: Option<SharedContext>, router: &RouterContext) -> Redirect<F> {
        Redirect { context, view: Some(router.view.clone()), ..Redirect::new() }
    }

    /// The bridge that an interface is; 0: it is none.
    fn bridge_of(&self, interface: InterfaceId) -> u32 {
        self.view.as_ref().map_or(0, |view| bridge_of(view.interface(interface)))
    }

    /// Whether a packet goes elsewhere than it says, or will seem to come from elsewhere.
    fn is_translated(&self, packet: &Packet) -> bool {
        let Some(mut context) = self.context.as_ref().map(SharedContext::lock) else { return false };
        let Some(nat) = context.nat.clone() else { return false };
        let ports = [packet.input.0, packet.output.0];
        context.metadata(packet).is_some_and(|metadata| {
            metadata.towards.is_some() || nat.concerns(&Tuple::of(&metadata.headers, 0), ports)
        })
    }
}

impl<F: Family> Default for Redirect<F> {
    fn default() -> Redirect<F> {
        Redirect::new()
    }
}

impl<F: Family> Element for Redirect<F>
where
    u128: From<F::Address>,
{
    fn class(&self) -> &'static str {
        F::CLASSES[2]
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["forward", "linux"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let (mut back, mut output, mut bridge) = (0u64, InterfaceId::NONE, 0);
        for (index, packet) in batch.packets().iter().enumerate() {
            if packet.output != output {
                (output, bridge) = (packet.output, self.bridge_of(packet.output));
            }
            if packet.input == output || bridge != 0 && self.bridge_of(packet.input) == bridge {
                back |= 1 << index;
            }
        }
        if back != 0 {
            let now = cx.now();
            let mut told = 0u64;
            for (index, packet) in batch.packets().iter().enumerate() {
                if back >> index & 1 != 0
                    && !self.is_translated(packet)
                    && self.senders.allows(now, F::source(packet).into(), LIMITS.interval)
                    && self.total.allows(now, LIMITS)
                {
                    told |= 1 << index;
                }
            }
            batch.take(told, |_, packet| cx.emit(LINUX, packet));
        }
        cx.emit_batch(FORWARD, batch);
    }
}
