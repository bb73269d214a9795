//! Classifying, counting, printing, painting, switching, changing lengths: what every configuration
//! uses. See [the library](crate).

mod adjust_timestamp;
mod align;
mod average_counter;
pub(crate) mod call;
mod check_length;
mod check_paint;
mod classifier;
mod counter;
mod hash_switch;
mod hub;
mod null;
mod pad;
pub(crate) mod paint;
mod paint_switch;
mod paint_tee;
mod print;
mod pull_switch;
pub(crate) mod random;
mod random_sample;
mod random_switch;
pub(crate) mod rate;
mod resize;
mod round_robin_switch;
mod set_anno_byte;
mod set_packet_type;
mod set_timestamp;
mod set_timestamp_delta;
mod static_switch;
mod store_data;
pub(crate) mod strip;
mod suppressor;
mod switch;
pub(crate) mod tee;
mod time_filter;
mod truncate;

use graph::arguments::Argument;
use graph::{BATCH, Batch, Class, Context, Element, HandlerError};
use port::Packet;

/// The classes of this folder.
pub const CLASSES: &[&Class] = &[
    &adjust_timestamp::CLASS,
    &align::ALIGN,
    &align::ALIGNMENT_INFO,
    &average_counter::CLASS,
    &check_length::CLASS,
    &check_paint::CLASS,
    &classifier::CLASS,
    &counter::CLASS,
    &hash_switch::CLASS,
    &hub::CLASS,
    &null::NULL,
    &null::NULL1,
    &null::NULL2,
    &null::NULL3,
    &null::NULL4,
    &null::NULL5,
    &null::NULL6,
    &null::NULL7,
    &null::NULL8,
    &null::PULL_NULL,
    &null::PUSH_NULL,
    &pad::CLASS,
    &paint::CLASS,
    &paint_switch::CLASS,
    &paint_tee::CLASS,
    &print::CLASS,
    &pull_switch::PULL_SWITCH,
    &pull_switch::SIMPLE_PULL_SWITCH,
    &random_sample::CLASS,
    &random_switch::CLASS,
    &resize::CLASS,
    &round_robin_switch::CLASS,
    &set_anno_byte::CLASS,
    &set_packet_type::CLASS,
    &set_timestamp::CLASS,
    &set_timestamp_delta::CLASS,
    &static_switch::STATIC_PULL_SWITCH,
    &static_switch::STATIC_SWITCH,
    &store_data::CLASS,
    &strip::STRIP,
    &strip::STRIP_TO_NETWORK_HEADER,
    &strip::UNSTRIP,
    &suppressor::CLASS,
    &switch::CLASS,
    &tee::PULL_TEE,
    &tee::TEE,
    &time_filter::CLASS,
    &truncate::CLASS,
];

/// Emits each packet of a batch by the output that `output` says; by one that the element does not
/// have it goes nowhere.
#[inline]
pub(crate) fn distribute(batch: &mut Batch, cx: &mut Context<'_>, mut output: impl FnMut(&Packet) -> usize) {
    let mut outputs = [0; BATCH];
    for (place, packet) in outputs.iter_mut().zip(batch.packets()) {
        *place = output(packet).min(usize::from(u16::MAX)) as u16;
    }
    cx.emit_each(batch, &mut outputs);
}

/// Reads a text that was written to a handler; `otherwise` is said when it is not what it should
/// be.
pub(crate) fn written<T: Argument>(text: &str, otherwise: &str, cx: &Context<'_>) -> Result<T, HandlerError> {
    cx.argument(text.trim()).map_err(|_| HandlerError::refused(otherwise))
}

/// An element of the graph before, if it is of type `T`, to take over what it knew.
pub(crate) fn of_type<T: Element>(old: Box<dyn Element>) -> Option<Box<T>> {
    let old: Box<dyn std::any::Any> = old;
    old.downcast().ok()
}
