//! Transmit: to the output port.

use graph::{Batch, Context, Element};

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
