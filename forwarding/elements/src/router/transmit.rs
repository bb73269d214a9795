//! Transmit: sends packets by their output port.
//!
//! Group: router
//! Usage: `Transmit`
//! Ports: 1 input, no outputs; push
//!
//! Expects whole frames whose output port is set, as [Rewrite] leaves them. Packets for a port that this worker cannot
//! transmit by are dropped, and counted as `port_down`.
//!
//! See also: [Rewrite], [Punt]

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
