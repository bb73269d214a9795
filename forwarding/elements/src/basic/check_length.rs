//! CheckLength: passes on what is not too long.
//!
//! Group: basic
//! Usage: `CheckLength(LENGTH [, EXTRA_LENGTH])`
//! Ports: 1 input, 1 or 2 outputs; first output agnostic, second push
//!
//! Packets of at most `LENGTH` bytes go on by output 0. Longer ones leave by output 1, and are
//! dropped when that is not connected.
//!
//! - `LENGTH` (unsigned): bytes
//! - `EXTRA_LENGTH` (boolean): whether bytes count that are missing, as the annotation of this name
//!   says; false if not given
//!
//! Handlers:
//! - `length` (read, write): LENGTH
//!
//! See also: [Truncate], [Pad]

use graph::arguments::{Arguments, Refused, offset};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use wire::Reason;

use super::written;

pub const CLASS: Class = Class {
    name: "CheckLength",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("check_length.rs"),
    make,
};

struct CheckLength {
    most: u32,
    extra: bool,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let most = args.mandatory("LENGTH");
    let extra = args.keyword("EXTRA_LENGTH").unwrap_or(false);
    args.finish()?;
    Ok(Box::new(CheckLength { most: most.ok_or(Refused)?, extra }))
}

impl Element for CheckLength {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut long = 0u64;
        for (index, packet) in batch.packets().iter().enumerate() {
            let missing =
                if self.extra { u32::from_ne_bytes(packet.annotation(offset::EXTRA_LENGTH)) } else { 0 };
            let length = packet.total_len() as u64 + u64::from(missing);
            long |= u64::from(length > u64::from(self.most)) << index;
        }
        if cx.has_output(1) {
            cx.emit_some(1, batch, long);
        } else {
            batch.take(long, |_, packet| cx.drop(packet, Reason::TooBig));
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read_write("length")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "length" => Ok(self.most.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "length" => self.most = written(value, "length must be an unsigned integer", cx)?,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}
