//! See [the library](crate).

mod contents;
mod discard;
mod idle;
mod infinite_source;
mod random_source;
mod rated_source;
mod timed_sink;
mod timed_source;

use graph::Class;

/// The classes of this folder.
pub const CLASSES: &[&Class] = &[
    &discard::CLASS,
    &idle::IDLE,
    &idle::SIMPLE_IDLE,
    &infinite_source::CLASS,
    &random_source::CLASS,
    &rated_source::CLASS,
    &timed_sink::CLASS,
    &timed_source::CLASS,
];
