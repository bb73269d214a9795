//! Suppressor: lets packets through port by port, each of which can be closed.
//!
//! Group: basic
//! Usage: `Suppressor()`
//! Ports: any number of inputs, as many outputs; agnostic, each pair by itself
//!
//! Packets go from input N to output N. On a port that is closed, packets that are pushed are
//! dropped, and none can be pulled. All are open at first.
//!
//! Handlers:
//! - `activeN` (read, write): whether port N is open
//! - `reset` (write): opens all
//!
//! See also: [Switch], [PullSwitch]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use wire::Reason;

use super::written;

pub const CLASS: Class = Class {
    name: "Suppressor",
    ports: "-/=",
    processing: Class::AGNOSTIC,
    flow: "#/#",
    source: include_str!("suppressor.rs"),
    make,
};

struct Suppressor {
    open: Vec<bool>,
}

fn make(args: &mut Arguments<'_>, setup: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    args.finish()?;
    Ok(Box::new(Suppressor { open: vec![true; setup.inputs] }))
}

impl Suppressor {
    fn port(&mut self, handler: &str) -> Result<&mut bool, HandlerError> {
        let port = handler.strip_prefix("active").and_then(|port| port.parse::<usize>().ok());
        port.and_then(|port| self.open.get_mut(port)).ok_or_else(|| HandlerError::unknown(handler))
    }
}

impl Element for Suppressor {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn push(&mut self, input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        if self.open.get(input) == Some(&true) {
            cx.emit_batch(input, batch);
        } else {
            cx.drop_batch(batch, Reason::Filtered);
        }
    }

    fn pull(&mut self, output: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        if self.open.get(output) == Some(&true) {
            cx.pull(output, quota, batch);
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        let ports = (0..self.open.len()).map(|port| Handler::read_write(format!("active{port}")));
        ports.chain([Handler::write("reset")]).collect()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        self.port(handler).map(|open| open.to_string())
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        if handler == "reset" {
            self.open.fill(true);
        } else {
            *self.port(handler)? = written(value, "active parameter must be boolean", cx)?;
        }
        Ok(())
    }
}
