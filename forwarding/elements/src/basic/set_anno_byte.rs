//! SetAnnoByte: sets an annotation of one byte.
//!
//! Group: basic
//! Usage: `SetAnnoByte(ANNO, VALUE)`
//! Ports: 1 input, 1 output; agnostic
//!
//! The old way to write `Paint(VALUE, ANNO)`.
//!
//! - `ANNO` (annotation of 1 byte): the annotation, by name or offset
//! - `VALUE` (byte): its value
//!
//! Handlers:
//! - `anno` (read): the offset
//! - `value` (read, write): the value
//! - `config` (read, write): its arguments
//!
//! See also: [Paint]

use graph::arguments::{AnnoByte, Arguments, Blame, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};

use super::written;

pub const CLASS: Class = Class {
    name: "SetAnnoByte",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("set_anno_byte.rs"),
    make,
};

struct SetAnnoByte {
    offset: usize,
    value: u8,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    args.strange(Blame::Element, "SetAnnoByte(ANNO, VALUE) is obsolete, use Paint(VALUE, ANNO) instead");
    let (anno, value) = (args.mandatory::<AnnoByte>("ANNO"), args.mandatory("VALUE"));
    args.finish()?;
    Ok(Box::new(SetAnnoByte { offset: anno.ok_or(Refused)?.offset, value: value.ok_or(Refused)? }))
}

impl Element for SetAnnoByte {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            packet.set_annotation_byte(self.offset, self.value);
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("anno"), Handler::read_write("value")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "anno" => Ok(self.offset.to_string()),
            "value" => Ok(self.value.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "value" => self.value = written(value, "syntax error", cx)?,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}
