//! Switch: passes packets on by one of its outputs.
//!
//! Group: basic
//! Usage: `Switch([OUTPUT])`
//! Ports: 1 input, any number of outputs; push
//!
//! All packets leave by the output that is set, until another is set.
//!
//! - `OUTPUT` (integer): the output to begin with; 0 if not given. A negative number, or one that
//!   is no output: packets are dropped
//!
//! Handlers:
//! - `switch` (read, write): the output; -1 when packets are dropped
//! - `config` (read, write): the same
//!
//! See also: [StaticSwitch], [PullSwitch], [RoundRobinSwitch], [PaintSwitch]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use wire::Reason;

use super::written;

pub const CLASS: Class = Class {
    name: "Switch",
    ports: "1/-",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("switch.rs"),
    make,
};

/// One of several ports, or none.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    pub port: Option<usize>,
    ports: usize,
}

impl Choice {
    pub fn new(number: i32, ports: usize) -> Choice {
        Choice { port: usize::try_from(number).ok().filter(|port| *port < ports), ports }
    }

    pub fn set(&mut self, text: &str, cx: &Context<'_>) -> Result<(), HandlerError> {
        *self = Choice::new(written(text, "syntax error", cx)?, self.ports);
        Ok(())
    }
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.port {
            Some(port) => write!(f, "{port}"),
            None => f.write_str("-1"),
        }
    }
}

struct Switch {
    output: Choice,
}

fn make(args: &mut Arguments<'_>, setup: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let output = args.optional("OUTPUT").unwrap_or(0);
    args.finish()?;
    Ok(Box::new(Switch { output: Choice::new(output, setup.outputs) }))
}

impl Element for Switch {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        match self.output.port {
            Some(output) => cx.emit_batch(output, batch),
            None => cx.drop_batch(batch, Reason::Discarded),
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read_write("switch"), Handler::read("config")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "switch" | "config" => Ok(self.output.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "switch" => self.output.set(value, cx),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
