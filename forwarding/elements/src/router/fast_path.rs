//! FastPath: the whole way of plain packets, in one element
//!
//! Group: router
//! Usage: `FastPath`
//! Ports: 1 input, 3 outputs; push
//!
//! Most packets of a router need nothing but to be forwarded: their header is in order, a route
//! with a known neighbour leads out by another port, they fit and have time to live. For those this
//! element does what [Classify], [CheckIpHeader4], [Lookup4], [Redirect4], [Mtu4], [DecrementTtl4]
//! and [Rewrite] (and their like for IPv6) do one after the other, and to the same bytes. Whatever
//! is not plain in any way it leaves as it came, for those elements to find out why: it drops
//! nothing, answers nothing and hands nothing to Linux.
//!
//! While Linux's routing rules choose tables, they are asked here as well; and so are sources where
//! the interface has the reverse-path check.
//!
//! Packets that leave by an IP tunnel get its header here, and those in one are taken out of it as
//! by [OpenTunnels].
//!
//! It stands in front of the router where no rule, no translation and no hook has its place between
//! those elements.
//!
//! Outputs:
//! - 0: everything else, unchanged but for padding
//! - 1: to be transmitted
//! - 2: what was in tunnels, as frames of Ethernet
//!
//! See also: [FlowPath], [RulesPath], [Classify], [Transmit]
//
// Why: going through seven elements, each of which takes up every packet anew, costs three times
// the instructions. What it costs: the rules of forwarding are here a second time, though only the
// usual case of each, and by the same functions; a test holds the two ways against each other.

use std::sync::Arc;

use fib::View;
use graph::{Batch, Class, Context, Element};

use super::classify::without;
use super::enter::enter_all;
use super::family::{V4, V6};
use super::plain::Chosen;
use super::router_context::on_tables;
use super::steer::Reader;
use super::steered::Steered;
use super::{RouterContext, Sources};

/// The class `FastPath`.
pub const CLASS: Class = Class {
    name: "FastPath",
    ports: "1!/3",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("fast_path.rs"),
    make: |arguments, setup| on_tables(arguments, setup, FastPath::new),
};

/// Packets that are looked at before those of the group before are sent, so that the lines of the
/// route table that they ask for come meanwhile. Fewer would be done before memory has answered; a
/// whole batch would leave nothing to do while it does.
const GROUP: usize = 32;

const REST: usize = 0;
const OUT: usize = 1;
const OPENED: usize = 2;

/// Forwards plain packets. Outputs: `rest`, `out`, `opened`.
pub struct FastPath {
    view: View,
    sources: Arc<Sources>,
    four: [Chosen<V4>; 2],
    six: Chosen<V6>,
    steered: Box<Steered>,
}

impl FastPath {
    /// Forwards by a router's tables and routing rules; knows which addresses are its own.
    pub fn new(router: &RouterContext) -> FastPath {
        let RouterContext { view, sources, steering, .. } = router.clone();
        let steered = Box::new(Steered::new(Reader::new(steering)));
        FastPath { view, sources, four: [Chosen::new(), Chosen::new()], six: Chosen::new(), steered }
    }
}

impl Element for FastPath {
    fn class(&self) -> &'static str {
        "FastPath"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["rest", "out", "opened"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        // Whoever looks on wants to see what each element does.
        if cx.is_observed() {
            return cx.emit_batch(REST, batch);
        }
        let FastPath { view, sources, four: [now, before], six, steered } = self;
        if steered.is_asked() {
            let sent = steered.send(view, sources, batch.packets_mut());
            cx.emit_some(REST, batch, batch.mask() & !sent);
            return cx.emit_batch(OUT, batch);
        }
        let (mut now, mut before) = (now, before);
        let (mut sent, mut opened, mut others) = (0, 0, 0);
        let mut asked = false;
        let mut add = |(more, out): (u64, u64)| (sent, opened) = (sent | more, opened | out);
        let packets = batch.packets_mut();
        before.count = 0;
        enter_all(view, packets);
        for start in (0..packets.len()).step_by(GROUP) {
            let group = start..packets.len().min(start + GROUP);
            others |= now.choose(view, sources, packets, group);
            asked |= now.sources_are_asked;
            std::mem::swap(&mut now, &mut before);
            if now.count != 0 {
                add(now.send(view, packets));
            }
        }
        if before.count != 0 {
            add(before.send(view, packets));
        }
        if others != 0 {
            six.choose(view, batch.packets_mut(), others, false);
            asked |= six.sources_are_asked;
            add(six.send(view, batch.packets_mut()));
        }
        if asked {
            // From the next batch on.
            steered.ask_sources();
        }
        let rest = batch.mask() & !sent & !opened;
        cx.emit_some(REST, batch, rest);
        if opened != 0 {
            cx.emit_some(OPENED, batch, without(opened, rest));
        }
        cx.emit_batch(OUT, batch);
    }
}
