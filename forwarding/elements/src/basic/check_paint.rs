//! CheckPaint: passes on what is painted in one colour.
//!
//! Group: basic
//! Usage: `CheckPaint(COLOR [, ANNO])`
//! Ports: 1 input, 1 or 2 outputs; first output agnostic, second push
//!
//! Packets of the colour go on by output 0. The others leave by output 1, and are dropped when that
//! is not connected.
//!
//! - `COLOR` (byte): the colour
//! - `ANNO` (annotation of 1 byte): look at this annotation instead of `PAINT`
//!
//! Handlers:
//! - `color` (read, write): the colour
//!
//! See also: [Paint], [PaintTee], [PaintSwitch]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use wire::Reason;

use super::paint::Color;

pub const CLASS: Class = Class {
    name: "CheckPaint",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("check_paint.rs"),
    make,
};

struct CheckPaint(Color);

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    Ok(Box::new(CheckPaint(Color::read(args)?)))
}

impl Element for CheckPaint {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let others = batch.mask() & !self.0.of(batch);
        if cx.has_output(1) {
            cx.emit_some(1, batch, others);
        } else {
            batch.take(others, |_, packet| cx.drop(packet, Reason::Filtered));
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
