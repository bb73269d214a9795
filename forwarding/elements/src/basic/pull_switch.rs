//! # PullSwitch: pulls packets from one of its inputs.
//!
//! Group: basic
//! Usage: `PullSwitch([INPUT])`
//! Ports: any number of inputs, 1 output; pull
//!
//! All packets come from the input that is set, until another is set.
//!
//! - `INPUT` (integer): the input to begin with; 0 if not given. A negative number, or one that is
//!   no input: there are no packets
//!
//! Handlers:
//! - `switch` (read, write): the input; -1 for none
//! - `config` (read, write): the same
//!
//! See also: [SimplePullSwitch], [StaticPullSwitch], [Switch], [PrioSched], [RoundRobinSched]
//!
//! # SimplePullSwitch: pulls packets from one of its inputs.
//!
//! Group: basic
//! Usage: `SimplePullSwitch([INPUT])`
//! Ports: any number of inputs, 1 output; pull
//!
//! As [PullSwitch].
//!
//! - `INPUT` (integer): the input to begin with; 0 if not given. A negative number, or one that is
//!   no input: there are no packets
//!
//! Handlers:
//! - `switch` (read, write): the input; -1 for none
//! - `config` (read, write): the same
//!
//! See also: [PullSwitch]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};

use super::switch::Choice;

pub const PULL_SWITCH: Class = Class {
    name: "PullSwitch",
    ports: "-/1",
    processing: Class::PULL,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("pull_switch.rs"),
    make: |args, setup| make(PULL_SWITCH.name, args, setup),
};

pub const SIMPLE_PULL_SWITCH: Class = Class {
    name: "SimplePullSwitch",
    ports: "-/1",
    processing: Class::PULL,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("pull_switch.rs"),
    make: |args, setup| make(SIMPLE_PULL_SWITCH.name, args, setup),
};

struct PullSwitch {
    class: &'static str,
    input: Choice,
}

fn make(
    class: &'static str,
    args: &mut Arguments<'_>,
    setup: &mut Setup<'_>,
) -> Result<Box<dyn Element>, Refused> {
    let input = args.optional("INPUT").unwrap_or(0);
    args.finish()?;
    Ok(Box::new(PullSwitch { class, input: Choice::new(input, setup.inputs) }))
}

impl Element for PullSwitch {
    fn class(&self) -> &'static str {
        self.class
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn pull(&mut self, _output: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        if let Some(input) = self.input.port {
            cx.pull(input, quota, batch);
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read_write("switch"), Handler::read("config")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "switch" | "config" => Ok(self.input.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "switch" => self.input.set(value, cx),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
