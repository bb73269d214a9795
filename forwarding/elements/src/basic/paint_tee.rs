//! PaintTee: copies what is painted in one colour.
//!
//! Group: basic
//! Usage: `PaintTee(COLOR [, ANNO])`
//! Ports: 1 input, 2 outputs; first output agnostic, second push
//!
//! All packets go on by output 0. Of those that have the colour a copy leaves by output 1 first. A
//! router that paints packets by where they come in finds so what leaves where it came from, and
//! tells its sender of the better way:
//!
//! ```text
//! FromDevice(eth0) -> Paint(1) -> ...
//! routes[1] -> redirect :: PaintTee(1) -> ... -> ToDevice(eth0);
//! redirect[1] -> ICMPError(10.0.0.1, redirect, host) -> ...
//! ```
//!
//! - `COLOR` (byte): the colour
//! - `ANNO` (annotation of 1 byte): look at this annotation instead of `PAINT`
//!
//! Handlers:
//! - `color` (read, write): the colour
//!
//! See also: [Paint], [CheckPaint], [ICMPError]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};

use super::paint::Color;
use super::tee;

pub const CLASS: Class = Class {
    name: "PaintTee",
    ports: "1/2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("paint_tee.rs"),
    make,
};

struct PaintTee(Color);

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    Ok(Box::new(PaintTee(Color::read(args)?)))
}

impl Element for PaintTee {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let painted = self.0.of(batch);
        if painted != 0 {
            tee::copies(1, batch, painted, cx);
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
