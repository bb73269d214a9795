//! # StaticSwitch: passes packets on by one of its outputs, always the same.
//!
//! Group: basic
//! Usage: `StaticSwitch(OUTPUT)`
//! Ports: 1 input, any number of outputs; push
//!
//! A [Switch] that stays as it is configured: what leaves by which way is decided when the
//! configuration is written, usually by a variable.
//!
//! - `OUTPUT` (integer): the output. A negative number, or one that is no output: packets are
//!   dropped
//!
//! See also: [Switch], [StaticPullSwitch]
//!
//! # StaticPullSwitch: pulls packets from one of its inputs, always the same.
//!
//! Group: basic
//! Usage: `StaticPullSwitch(INPUT)`
//! Ports: any number of inputs, 1 output; pull
//!
//! A [PullSwitch] that stays as it is configured. The other inputs are never pulled from.
//!
//! - `INPUT` (integer): the input. A negative number, or one that is no input: there are no packets
//!
//! See also: [PullSwitch], [StaticSwitch]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};
use wire::Reason;

use super::switch::Choice;

pub const STATIC_SWITCH: Class = Class {
    name: "StaticSwitch",
    ports: "1/-",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("static_switch.rs"),
    make: make_switch,
};

pub const STATIC_PULL_SWITCH: Class = Class {
    name: "StaticPullSwitch",
    ports: "-/1",
    processing: Class::PULL,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("static_switch.rs"),
    make: make_pull_switch,
};

struct StaticSwitch(Choice);

fn make_switch(args: &mut Arguments<'_>, setup: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let output = args.mandatory("OUTPUT");
    args.finish()?;
    Ok(Box::new(StaticSwitch(Choice::new(output.ok_or(Refused)?, setup.outputs))))
}

impl Element for StaticSwitch {
    fn class(&self) -> &'static str {
        STATIC_SWITCH.name
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        match self.0.port {
            Some(output) => cx.emit_batch(output, batch),
            None => cx.drop_batch(batch, Reason::Discarded),
        }
    }
}

struct StaticPullSwitch(Choice);

fn make_pull_switch(args: &mut Arguments<'_>, setup: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let input = args.mandatory("INPUT");
    args.finish()?;
    Ok(Box::new(StaticPullSwitch(Choice::new(input.ok_or(Refused)?, setup.inputs))))
}

impl Element for StaticPullSwitch {
    fn class(&self) -> &'static str {
        STATIC_PULL_SWITCH.name
    }

    fn pull(&mut self, _output: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        if let Some(input) = self.0.port {
            cx.pull(input, quota, batch);
        }
    }
}
