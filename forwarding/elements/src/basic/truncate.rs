//! Truncate: cuts off what is behind a certain length.
//!
//! Group: basic
//! Usage: `Truncate(LENGTH [, EXTRA_LENGTH])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Packets that are longer lose their ends; shorter ones pass as they are.
//!
//! - `LENGTH` (integer): so many bytes stay
//! - `EXTRA_LENGTH` (boolean): whether to add what is cut off to the annotation `EXTRA_LENGTH`, so
//!   that [Pad] and dumps know how long the packet was; true if not given
//!
//! Handlers:
//! - `nbytes` (read, write): the length
//! - `config` (read, write): its arguments
//!
//! See also: [Pad], [Strip], [Resize]

use graph::arguments::{Arguments, Refused, offset};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;

use super::written;

pub const CLASS: Class = Class {
    name: "Truncate",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("truncate.rs"),
    make,
};

struct Truncate {
    length: u32,
    note: bool,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let length = args.mandatory("LENGTH");
    let note = args.keyword("EXTRA_LENGTH").unwrap_or(true);
    args.finish()?;
    Ok(Box::new(Truncate { length: length.ok_or(Refused)?, note }))
}

/// The annotation: so many bytes of the packet were cut off.
pub(super) fn extra_length(packet: &Packet) -> u32 {
    u32::from_ne_bytes(packet.annotation(offset::EXTRA_LENGTH))
}

/// Sets the annotation.
pub(super) fn set_extra_length(packet: &mut Packet, length: u32) {
    packet.set_annotation(offset::EXTRA_LENGTH, length.to_ne_bytes());
}

impl Element for Truncate {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            let cut = packet.total_len().saturating_sub(self.length as usize);
            if cut == 0 {
                continue;
            }
            if self.note {
                let extra = extra_length(packet).wrapping_add(cut as u32);
                set_extra_length(packet, extra);
            }
            packet.truncate(self.length as usize);
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read_write("nbytes")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "nbytes" => Ok(self.length.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "nbytes" => self.length = written(value, "syntax error", cx)?,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}
