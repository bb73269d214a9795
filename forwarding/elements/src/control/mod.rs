//! See [the library](crate).

mod message;
mod names;
mod schedule;
mod script;
mod socket;
mod thread;

use graph::Class;

/// The classes of this folder.
pub const CLASSES: &[&Class] = &[
    &message::ERROR,
    &message::MESSAGE,
    &names::ADDRESS_INFO,
    &names::CLICKY_INFO,
    &names::PORT_INFO,
    &schedule::CLASS,
    &script::DRIVER_MANAGER,
    &script::SCRIPT,
    &socket::CLASS,
    &thread::CLASS,
];
