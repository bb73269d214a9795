//! Transmit: to the output port
//!
//! Group: router
//! Usage: `Transmit`
//! Ports: 1 input; push
//!
//!

use graph::{Batch, Class, Context, Element};

/// The class `Transmit`.
pub const CLASS: Class = Class {
    name: "Transmit",
    ports: "1/0",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("transmit.rs"),
    make: |arguments, _| {
        arguments.finish()?;
        Ok(Box::new(Transmit::new()))
    },
};

/// Sends packets by their output port. No outputs. Drops `port_down` where this worker cannot transmit.
#[derive(Default)]
pub struct Transmit;

impl Transmit {
    /// The element.
    pub fn new() -> Transmit {
        Transmit
    }
}

impl Element for Transmit {
    fn class(&self) -> &'static str {
        "Transmit"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &[]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        cx.transmit_batch(batch);
    }
}
