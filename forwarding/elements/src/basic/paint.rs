//! Paint: sets the paint annotation.
//!
//! Group: basic
//! Usage: `Paint(COLOR [, ANNO])`
//! Ports: 1 input, 1 output; agnostic
//!
//! A colour is a small number that a packet carries and that other elements look at: routers paint
//! packets by the port they came in by.
//!
//! - `COLOR` (byte): the colour
//! - `ANNO` (annotation of 1 byte): set this annotation instead of `PAINT`
//!
//! Handlers:
//! - `color` (read, write): the colour
//! - `config` (read, write): its arguments
//!
//! See also: [CheckPaint], [PaintTee], [PaintSwitch]

use graph::arguments::{AnnoByte, Arguments, Refused, offset};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};

use super::written;

pub const CLASS: Class = Class {
    name: "Paint",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("paint.rs"),
    make,
};

/// A colour and where a packet carries it.
#[derive(Clone, Copy)]
pub(crate) struct Color {
    pub color: u8,
    pub anno: usize,
}

impl Color {
    /// Reads `COLOR` and `ANNO`.
    pub fn read(args: &mut Arguments<'_>) -> Result<Color, Refused> {
        let color = args.mandatory("COLOR");
        let anno = args.optional::<AnnoByte>("ANNO").map_or(offset::PAINT, |anno| anno.offset);
        args.finish()?;
        Ok(Color { color: color.ok_or(Refused)?, anno })
    }

    /// Which packets of a batch have it.
    #[inline]
    pub fn of(self, batch: &Batch) -> u64 {
        let mut which = 0;
        for (index, packet) in batch.packets().iter().enumerate() {
            which |= u64::from(packet.annotation_byte(self.anno) == self.color) << index;
        }
        which
    }

    /// The handler `color`.
    pub fn handlers() -> Vec<Handler> {
        vec![Handler::read_write("color")]
    }

    pub fn get(self, handler: &str) -> Result<String, HandlerError> {
        match handler {
            "color" => Ok(self.color.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    pub fn set(&mut self, handler: &str, value: &str, cx: &Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "color" => self.color = written(value, "syntax error", cx)?,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}

struct Paint(Color);

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    Ok(Box::new(Paint(Color::read(args)?)))
}

impl Element for Paint {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            packet.set_annotation_byte(self.0.anno, self.0.color);
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        Color::handlers()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        self.0.get(handler)
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.0.set(handler, value, cx)
    }
}
