//! OpenTunnels: takes the headers of tunnels off
//!
//! Group: router
//! Usage: `OpenTunnels`
//! Ports: 1 input, 2 outputs; push
//!
//! Expects packets for this machine, with their network header noted. Where one came in by an
//! interface of the plane's that is an IP tunnel (GRE, IPIP, 6in4), the tunnel's header is taken
//! off, and what was in it has come in by that interface: it goes through the router from its
//! beginning. Others are still as they came.
//!
//! Outputs:
//! - 0: what was in tunnels, as frames of Ethernet
//! - 1: everything else, unchanged but for padding
//!
//! See also: [Lookup4], [Rewrite]

use fib::View;
use graph::{Batch, Class, Context, Element};

use super::router_context::on_tables;
use super::tunnel;

/// The class `OpenTunnels`.
pub const CLASS: Class = Class {
    name: "OpenTunnels",
    ports: "1/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("open_tunnels.rs"),
    make: |arguments, setup| on_tables(arguments, setup, |s| OpenTunnels::new(s.view.clone())),
};

const OPENED: usize = 0;
const REST: usize = 1;

/// Takes off the headers of tunnels. Outputs: `opened`, `rest`.
pub struct OpenTunnels {
    view: View,
}

impl OpenTunnels {
    /// Finds tunnels in these tables.
    pub fn new(view: View) -> OpenTunnels {
        OpenTunnels { view }
    }
}

impl Element for OpenTunnels {
    fn class(&self) -> &'static str {
        "OpenTunnels"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["opened", "rest"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut opened = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            opened |= u64::from(tunnel::open(&self.view, packet)) << index;
        }
        cx.emit_some(OPENED, batch, opened);
        cx.emit_batch(REST, batch);
    }
}
