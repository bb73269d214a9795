//! Transmit: sends packets by their output port.
//!
//! Group: router
//! Usage: `Transmit`
//! Ports: 1 input, no outputs; push
//!
//! Expects whole frames whose output interface is set, as [Rewrite] leaves them. They go to the
//! port that it is on. Packets for a port that this worker cannot transmit by are dropped, and
//! counted as `port_down`.
//!
//! See also: [Rewrite], [Punt]

use abi::Count;
use fib::{InterfaceId, View};
use graph::{Batch, Class, Context, Element};

use super::router_context::on_tables;

/// The class `Transmit`.
pub const CLASS: Class = Class {
    name: "Transmit",
    ports: "1/0",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("transmit.rs"),
    make: |arguments, setup| on_tables(arguments, setup, |s| Transmit::new(s.view.clone())),
};

/// Sends packets by the port of their output interface. No outputs. Drops `port_down` where this
/// worker cannot transmit.
pub struct Transmit {
    view: View,
}

impl Transmit {
    /// Reads from the tables which ports interfaces are on.
    pub fn new(view: View) -> Transmit {
        Transmit { view }
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
        let hops = self.view.hops();
        // Those of one interface leave one after the other, and are counted together.
        let (mut interface, mut port) = (InterfaceId::NONE, InterfaceId::NONE);
        let mut frames = Count::default();
        for packet in batch.packets_mut() {
            if packet.output < InterfaceId::FIRST_LOGICAL {
                continue;
            }
            if packet.output != interface {
                hops.count_sent(interface, std::mem::take(&mut frames));
                (interface, port) = (packet.output, hops.link(packet.output).port().interface());
            }
            frames.packets += 1;
            frames.bytes += packet.len() as u64;
            packet.output = port;
        }
        hops.count_sent(interface, frames);
        cx.transmit_batch(batch);
    }
}
