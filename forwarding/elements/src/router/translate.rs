//! Translate: gives the packets of translated flows the addresses and ports that they leave with
//!
//! Group: router
//! Usage: `Translate`
//! Ports: 1 input, 1 output; push
//!
//! The last thing that is done to a packet before its Ethernet header: rules before it see the
//! packet as it came (those for transit bound for where it really goes), and the errors that the
//! router sends about it quote it so. What it becomes follows from its flow, whose two tuples say
//! how packets look on each side; checksums are corrected by the difference. ICMP errors are
//! translated with the packet that they quote.
//!
//! See also: [Track], [Filter]

use fib::View;
use flow::{Key, Tuple};
use graph::{BATCH, Batch, Class, Context, Element};
use port::Packet;
use rules::FlowState;
use wire::{Headers, Reason};

use super::beside;
use super::context::{SharedContext, WorkerContext};
use super::router_context::on_flows;
use super::track::headers;

/// The class `Translate`.
pub const CLASS: Class = Class {
    name: "Translate",
    ports: "1/1",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("translate.rs"),
    make: |arguments, setup| on_flows(arguments, setup, |view, context| Translate { view, context }),
};

/// Rewrites packets of translated flows. Drops what cannot be (`untranslatable`, or what is wrong
/// with it).
pub struct Translate {
    view: View,
    context: SharedContext,
}

/// How a packet is to be rewritten.
pub(super) struct Rewriting {
    pub headers: Headers,
    /// As packets of its direction come; for an ICMP error, which says nothing of that itself.
    pub seen: Tuple,
    pub to: Tuple,
    pub error: bool,
}

/// What is to be done to a packet; `None`: nothing.
#[inline]
pub(super) fn rewriting(view: &View, context: &mut WorkerContext, packet: &Packet) -> Option<Rewriting> {
    match context.open(packet) {
        (Some(metadata), Some(flows)) => {
            let hit = metadata.hit.filter(|hit| hit.translated)?;
            let error = metadata.state == FlowState::Related;
            // The error goes the other way than the packet that it is about.
            let direction = if error { hit.direction.reversed() } else { hit.direction };
            let seen = match direction {
                flow::Direction::Original => flows.original(&hit),
                flow::Direction::Reply => flows.reply(&hit),
            };
            Some(Rewriting { headers: metadata.headers, seen, to: flows.leaving(&hit, direction), error })
        }
        (None, Some(flows)) => found_again(view, flows, packet),
        _ => None,
    }
}

/// An element of the operator's kept the packet, and what was noted about it is gone.
#[cold]
fn found_again(view: &View, flows: &mut flow::Worker, packet: &Packet) -> Option<Rewriting> {
    let headers = headers(packet).ok().filter(|headers| !flow::is_error(headers))?;
    let tuple = Tuple::of(&headers, beside::of_flows(&view.hops(), packet.input));
    let hit = flows.find(&Key::of(&tuple)).filter(|hit| hit.translated)?;
    let to = flows.leaving(&hit, hit.direction);
    Some(Rewriting { headers, seen: tuple, to, error: false })
}

/// Rewrites a packet, if it is to be.
#[inline(always)]
fn translate(view: &View, context: &mut WorkerContext, packet: &mut Packet) -> Result<(), Reason> {
    // The usual: no error, and what is known of it is where it was noted.
    if let (Some(metadata), Some(flows)) = context.open(packet)
        && metadata.state != FlowState::Related
    {
        let Some(hit) = metadata.hit.filter(|hit| hit.translated) else { return Ok(()) };
        let to = flows.leaving(&hit, hit.direction);
        return nat::rewrite(packet.network_mut(), &metadata.headers, &to);
    }
    rewriting(view, context, packet).map_or(Ok(()), |rewriting| apply(packet, &rewriting))
}

#[cold]
fn apply(packet: &mut Packet, rewriting: &Rewriting) -> Result<(), Reason> {
    let ip = packet.network_mut();
    if rewriting.error {
        nat::rewrite_error(ip, &rewriting.headers, &rewriting.seen, &rewriting.to)
    } else {
        nat::rewrite(ip, &rewriting.headers, &rewriting.to)
    }
}

impl Element for Translate {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut context = self.context.lock();
        let (mut wrong, mut reasons) = (0u64, [Reason::None; BATCH]);
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            if let Err(reason) = translate(&self.view, &mut context, packet) {
                (wrong, reasons[index]) = (wrong | 1 << index, reason);
            }
        }
        batch.take(wrong, |index, packet| cx.drop(packet, reasons[index]));
        cx.emit_batch(0, batch);
    }
}
