//! See [the library](crate).

mod average;
mod delay;
mod drr_sched;
mod gap_rate;
mod link_unqueue;
mod meter;
mod prio_sched;
mod queue;
mod rated_splitter;
mod rated_unqueue;
mod red;
mod round_robin_sched;
mod shaper;
mod stride_sched;
mod time_sorted_sched;
pub(crate) mod token_bucket;
mod unqueue;

use graph::Class;
use graph::arguments::{Arguments, Bandwidth};

pub use link_unqueue::LinkUnqueue;
pub use queue::Queue;

/// The classes of this folder.
pub const CLASSES: &[&Class] = &[
    &delay::SHAPER,
    &delay::UNQUEUE,
    &drr_sched::CLASS,
    &link_unqueue::CLASS,
    &meter::BANDWIDTH,
    &meter::METER,
    &prio_sched::CLASS,
    &queue::FRONT_DROP_QUEUE,
    &queue::FULL_NOTE_QUEUE,
    &queue::MIXED_QUEUE,
    &queue::NOTIFIER_QUEUE,
    &queue::QUEUE,
    &queue::QUICK_NOTE_QUEUE,
    &queue::SIMPLE_QUEUE,
    &queue::THREAD_SAFE_QUEUE,
    &rated_splitter::BANDWIDTH,
    &rated_splitter::RATED,
    &rated_unqueue::BANDWIDTH,
    &rated_unqueue::RATED,
    &red::CLASS,
    &round_robin_sched::CLASS,
    &shaper::BANDWIDTH,
    &shaper::SHAPER,
    &stride_sched::SCHED,
    &stride_sched::SWITCH,
    &time_sorted_sched::CLASS,
    &unqueue::CLASS,
];

/// The argument `RATE`: packets a second, or a bandwidth.
fn rate(arguments: &mut Arguments<'_>, bytes: bool) -> Option<u32> {
    if !bytes {
        return arguments.mandatory("RATE");
    }
    let Bandwidth(rate) = arguments.mandatory("RATE")?;
    let fits = u32::try_from(rate);
    fits.map_err(|_| arguments.wrong("RATE", format!("out of range, bound {}", u32::MAX))).ok()
}
