//! OpenTunnels: takes the headers of tunnels off
//!
//! Group: router
//! Usage: `OpenTunnels`
//! Ports: 1 input, 2 outputs; push
//!
//! Expects packets for this machine, with their network header noted. Where one came in by an
//! interface of the plane's that is an IP tunnel (GRE, IPIP, 6in4, those over IPv6) or a VXLAN, and
//! rules let its header pass, that is taken off. What was in it has come in by that interface: it
//! goes through the router from its beginning. Others are still as they came.
//!
//! Outputs:
//! - 0: what was in tunnels, as frames of Ethernet
//! - 1: everything else, unchanged but for padding
//!
//! See also: [Lookup4], [Lookup6], [Rewrite]

use fib::View;
use graph::{Batch, Class, Context, Element, Hand};

use super::router_context::on_tables;
use super::tunnel;
use super::tunnel_rules::{Outer, TunnelRules};

/// The class `OpenTunnels`.
pub const CLASS: Class = Class {
    name: "OpenTunnels",
    ports: "1/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("open_tunnels.rs"),
    make: |arguments, setup| {
        on_tables(arguments, setup, |s| OpenTunnels { view: s.view.clone(), rules: TunnelRules::of(setup) })
    },
};

const OPENED: usize = 0;
const REST: usize = 1;

/// Takes off the headers of tunnels. Has Linux learn from strangers in VXLANs where rules ask for
/// flows. Outputs: `opened`, `rest`.
pub struct OpenTunnels {
    view: View,
    rules: TunnelRules,
}

impl Element for OpenTunnels {
    fn class(&self) -> &'static str {
        "OpenTunnels"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["opened", "rest"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let OpenTunnels { view, rules } = self;
        let (mut opened, now) = (0u64, cx.now());
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            let takes = |outer: &Outer, bytes| rules.take_in(outer, bytes, now);
            let mut is_open = tunnel::open(view, packet, takes);
            if !is_open && rules.know_flows() {
                let takes = |outer: &Outer, bytes| rules.take_in(outer, bytes, now);
                if let Some(lesson) = tunnel::open_stranger(view, packet, takes) {
                    cx.punt(lesson, wire::Class::Neighbour, Hand::Receive);
                    is_open = true;
                }
            }
            opened |= u64::from(is_open) << index;
        }
        cx.emit_some(OPENED, batch, opened);
        cx.emit_batch(REST, batch);
    }
}
