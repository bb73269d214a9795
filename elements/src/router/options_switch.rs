//! OptionsSwitch: parts IPv4 packets with options from others
//!
//! Group: router
//! Usage: `OptionsSwitch`
//! Ports: 1 input, 2 outputs; push
//!
//! Options are Linux's: it writes them, and knows which it does not want. But which flow a packet belongs to, whether it may pass and what
//! it is translated into is known here alone, so where flows are tracked packets with options go as far as this with all others.
//! Those whose flow is translated Linux only sends, so it does not look at their options: what is to go by way of
//! other routers (source routes), and what has options that make no sense, is then dropped.
//!
//! Outputs:
//! - 0: without options
//! - 1: with options
//!
//! See also: [CheckIpHeader4], [TranslatedSwitch]

use graph::{Batch, Class, Context, Element};
use port::Packet;
use wire::{Reason, ipv4, ipv4::option};

use super::seat::SharedSeat;
use super::surroundings::on_flows;

/// The class `OptionsSwitch`.
pub const CLASS: Class = Class {
    name: "OptionsSwitch",
    ports: "1/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("options_switch.rs"),
    make: |arguments, setup| on_flows(arguments, setup, |seat| OptionsSwitch { seat }),
};

const OPTIONS: usize = 1;

/// Parts packets with options from the rest. Drops (`untranslatable`) those of translated flows that Linux would not have let pass.
pub struct OptionsSwitch {
    seat: SharedSeat,
}

/// Whether a packet's options are such that nobody may send it on without having looked at them.
fn are_to_be_looked_at(packet: &Packet) -> bool {
    let Ok(ip) = ipv4::Packet::parse(packet.network()) else { return true };
    let options = ip.options();
    option::places(options).any(|place| {
        place.map_or(true, |place| matches!(options[place.start], option::LOOSE_ROUTE | option::STRICT_ROUTE))
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
            options |= u64::from(packet.network().first() != Some(&0x45)) << index;
        }
        if options != 0 {
            let mut seat = self.seat.lock();
            batch.take(options, |_, packet| {
                let hit = seat.note(&packet).and_then(|note| note.hit);
                if hit.is_some_and(|hit| hit.translated) && are_to_be_looked_at(&packet) {
                    cx.drop(packet, Reason::Untranslatable);
                } else {
                    cx.emit(OPTIONS, packet);
                }
            });
        }
        cx.emit_batch(0, batch);
    }
}
