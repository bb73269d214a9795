//! OptionsSwitch: parts packets with IPv4 options or an IPv6 hop-by-hop header from others
//!
//! Group: router
//! Usage: `OptionsSwitch`
//! Ports: 1 input, 2 outputs; push
//!
//! Options are Linux's: it writes them, and knows which it does not want. But which flow a packet
//! belongs to, whether it may pass and what it is translated into is known here alone, so where
//! flows are tracked packets with options go as far as this with all others. Those whose flow is
//! translated Linux only sends, so it does not look at their options: what is to go by way of other
//! routers (source routes of IPv4), what asks to be dropped where an option is not known (RFC 8200,
//! 4.2), and what has options that make no sense, is then dropped.
//!
//! Outputs:
//! - 0: without options
//! - 1: with options
//!
//! See also: [CheckIpHeader4], [CheckIpHeader6], [TranslatedSwitch]

use graph::{Batch, Class, Context, Element};
use wire::{Reason, ipv4, ipv6, protocol};

use super::context::SharedContext;
use super::router_context::on_flows;

/// The class `OptionsSwitch`.
pub const CLASS: Class = Class {
    name: "OptionsSwitch",
    ports: "1/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("options_switch.rs"),
    make: |arguments, setup| on_flows(arguments, setup, |_, context| OptionsSwitch { context }),
};

const OPTIONS: usize = 1;

/// Parts packets with options from the rest. Drops (`untranslatable`) those of translated flows
/// that Linux would not have let pass.
pub struct OptionsSwitch {
    context: SharedContext,
}

/// Whether an IP packet has options that stand in the way of a router.
fn has_options(ip: &[u8]) -> bool {
    match ip.first() {
        Some(0x45) => false,
        Some(first) if first >> 4 == 6 => ip.get(6) == Some(&protocol::HOP_BY_HOP),
        _ => true,
    }
}

/// Whether these options are such that nobody may send the packet on without having looked at them.
fn are_to_be_looked_at(ip: &[u8]) -> bool {
    if let Ok(ip) = ipv6::Packet::parse(ip) {
        return ip.hop_by_hop().is_none_or(|options| {
            ipv6::option::kinds(options).any(|kind| kind.is_none_or(|kind| kind & ipv6::option::REFUSED != 0))
        });
    }
    let Ok(ip) = ipv4::Packet::parse(ip) else { return true };
    let options = ip.options();
    ipv4::option::places(options).any(|place| {
        let kind = place.map(|place| options[place.start]);
        kind.map_or(true, |kind| matches!(kind, ipv4::option::LOOSE_ROUTE | ipv4::option::STRICT_ROUTE))
    })
}

impl Element for OptionsSwitch {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["plain", "options"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut options = 0u64;
        for (index, packet) in batch.packets().iter().enumerate() {
            options |= u64::from(has_options(packet.network())) << index;
        }
        if options != 0 {
            let mut context = self.context.lock();
            batch.take(options, |_, packet| {
                let hit = context.metadata(&packet).and_then(|metadata| metadata.hit);
                if hit.is_some_and(|hit| hit.translated) && are_to_be_looked_at(packet.network()) {
                    cx.drop(packet, Reason::Untranslatable);
                } else {
                    cx.emit(OPTIONS, packet);
                }
            });
        }
        cx.emit_batch(0, batch);
    }
}
