//! StripEtherVLANHeader: takes Ethernet headers, with or without a VLAN tag, off packets.
//!
//! Group: ethernet
//! Usage: `StripEtherVLANHeader([NATIVE_VLAN])`
//! Ports: 1 input, 1 or 2 outputs; first output agnostic, second push
//!
//! Takes 18 bytes off frames with an IEEE 802.1Q tag, and notes the tag in the VLAN annotation.
//! Takes 14 bytes off other frames, and annotates them with `NATIVE_VLAN`; if that is negative they
//! leave by output 1 instead, or are dropped when that isn't connected.
//!
//! - `NATIVE_VLAN` (number to 0xfff, or negative: none): the VLAN of frames without a tag; default
//!   0
//!
//! Handlers:
//! - `config` (read, write): its arguments
//!
//! See also: [EtherVLANEncap], [VLANDecap], [Strip]
//!
//! # StripEtherVlanHeader: the old name of StripEtherVLANHeader.
//!
//! Group: ethernet
//! Usage: `StripEtherVlanHeader([NATIVE_VLAN])`
//! Ports: 1 input, 1 or 2 outputs; first output agnostic, second push
//!
//! See [StripEtherVLANHeader].
//!
//! See also: [StripEtherVLANHeader]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};
use port::Packet;
use wire::{Reason, ethernet};

use super::vlan_tag::annotate;

pub const CLASS: Class = Class {
    name: "StripEtherVLANHeader",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("strip_ether_vlan_header.rs"),
    make,
};

/// The class `StripEtherVlanHeader`.
pub const OLD_NAME: Class = Class { name: "StripEtherVlanHeader", ..CLASS };

struct StripEtherVlanHeader {
    native: Option<u16>,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let native = args.optional::<i32>("NATIVE_VLAN").unwrap_or(0);
    if native > 0xfff {
        args.wrong("NATIVE_VLAN", "bad NATIVE_VLAN");
    }
    args.finish()?;
    Ok(Box::new(StripEtherVlanHeader { native: u16::try_from(native).ok() }))
}

impl StripEtherVlanHeader {
    fn strip(&self, packet: &mut Packet) -> bool {
        let bytes = packet.data();
        let (tci, length) = match bytes.get(12..16) {
            Some([first, second, high, low]) if [*first, *second] == ethernet::VLAN.to_be_bytes() => {
                (Some(u16::from_be_bytes([*high, *low])), ethernet::HEADER + 4)
            }
            _ => (self.native, ethernet::HEADER),
        };
        let Some(tci) = tci.filter(|_| bytes.len() >= length) else { return false };
        annotate(packet, tci);
        packet.pull(length)
    }
}

impl Element for StripEtherVlanHeader {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut others = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            others |= u64::from(!self.strip(packet)) << index;
        }
        if others != 0 && cx.has_output(1) {
            cx.emit_some(1, batch, others);
        } else {
            batch.take(others, |_, packet| cx.drop(packet, Reason::Filtered));
        }
    }
}
