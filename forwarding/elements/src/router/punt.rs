//! Punt: to Linux, whole
//!
//! Group: router
//! Usage: `Punt(CLASS)`
//! Ports: 1 input; push
//!
//! What Bifrost cannot complete itself is handed over as it came in; Linux sees it arrive on the
//! port that it came by. The class decides which limit it counts against: transit whose neighbour
//! is not resolved against another than what only Linux forwards.
//!
//! - `CLASS` (word): `TRANSIT`, for what Linux is to forward; `UNRESOLVED`, for what Linux is to
//!   answer; `LOCAL`, for what is for this machine, each packet by its own class; `FOREIGN`, for
//!   frames that say of themselves which of the two they are; or `SEND`, for what Linux is to send
//!   where its destination is, whatever it came in by.

use std::net::IpAddr;

use fib::{Hop, HopKind, InterfaceId, NextHopId, View};
use graph::arguments::Word;
use graph::{Batch, Class, Context, Element, Hand};
use port::Packet;
use wire::{Class as Police, class_of_frame, flow_hash};

use super::router_context::on_tables;
use super::way_back::is_by_rules;

/// The class `Punt`.
pub const CLASS: Class = Class {
    name: "Punt",
    ports: "1/0",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("punt.rs"),
    make: |arguments, setup| {
        let word = arguments.mandatory::<Word>("CLASS");
        let what = word.as_ref().and_then(|word| match word.0.as_str() {
            "TRANSIT" => Some(What::Transit),
            "LOCAL" => Some(What::Local),
            "FOREIGN" => Some(What::Foreign),
            "UNRESOLVED" => Some(What::Unresolved),
            "SEND" => Some(What::Send),
            _ => None,
        });
        if word.is_some() && what.is_none() {
            arguments.wrong("CLASS", "expected TRANSIT, UNRESOLVED, LOCAL, FOREIGN or SEND");
        }
        on_tables(arguments, setup, |s| Punt { what: what.unwrap_or(What::Local), view: s.view.clone() })
    },
};

#[derive(Clone, Copy)]
enum What {
    Transit,
    Unresolved,
    Local,
    Foreign,
    Send,
}

/// Hands packets to Linux. No outputs.
pub struct Punt {
    what: What,
    view: View,
}

impl Punt {
    /// Where packets to a destination go that came in by this interface.
    fn hop(&self, input: InterfaceId, destination: IpAddr) -> Hop {
        self.view.hop(self.view.lookup_from(input, destination))
    }

    /// The class of what Linux is to forward, by where it goes.
    fn of_transit(&self, packet: &Packet) -> Police {
        let Some(destination) = destination(packet.network()) else { return Police::Transit };
        // What routing rules chose is known from there.
        let by_rules = is_by_rules(&self.view, packet);
        let hop = match by_rules && packet.next_hop != NextHopId::NONE {
            true => self.view.hop(packet.next_hop),
            false => self.hop(packet.input, destination),
        };
        match hop.kind() {
            HopKind::Glean | HopKind::Forward if by_rules && packet.next_hop == NextHopId::NONE => {
                Police::Transit
            }
            HopKind::Glean => Police::Unresolved,
            HopKind::Forward => {
                let hash = if hop.log2() != 0 { flow_hash(packet.network()) } else { 0 };
                match self.view.adjacency(self.view.select(hop, hash)).resolved() {
                    true => Police::Transit,
                    false => Police::Unresolved,
                }
            }
            // What has options comes here before its route has been asked.
            HopKind::Local => class_of_frame(packet.data(), None),
            _ => Police::Transit,
        }
    }

    fn class(&self, packet: &Packet) -> Police {
        match self.what {
            What::Local => class_of_frame(packet.data(), None),
            What::Foreign => {
                class_of_frame(packet.data(), Some(&|to| self.hop(packet.input, to).kind() == HopKind::Local))
            }
            What::Unresolved => Police::Unresolved,
            What::Transit | What::Send => self.of_transit(packet),
        }
    }
}

/// Where an IP packet goes to.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    if let Ok(ip) = wire::ipv4::Packet::parse(packet) {
        return Some(ip.destination().into());
    }
    wire::ipv6::Packet::parse(packet).ok().map(|ip| ip.destination().into())
}

impl Element for Punt {
    fn class(&self) -> &'static str {
        "Punt"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &[]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let hand = if matches!(self.what, What::Send) { Hand::Send } else { Hand::Receive };
        for packet in batch.drain() {
            let class = self.class(&packet);
            cx.punt(packet, class, hand);
        }
    }
}
