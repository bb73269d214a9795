//! RoundRobinSwitch: passes packets on by its outputs in turn.
//!
//! Group: basic
//! Usage: `RoundRobinSwitch()`
//! Ports: 1 input, 1 or more outputs; push
//!
//! The first packet leaves by output 0, the next by output 1, and after the last it begins again.
//!
//! See also: [RandomSwitch], [HashSwitch], [Switch], [RoundRobinSched]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};

use super::distribute;

pub const CLASS: Class = Class {
    name: "RoundRobinSwitch",
    ports: "1/1-",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("round_robin_switch.rs"),
    make,
};

struct RoundRobinSwitch {
    next: usize,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    args.finish()?;
    Ok(Box::new(RoundRobinSwitch { next: 0 }))
}

impl Element for RoundRobinSwitch {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let outputs = cx.output_count();
        distribute(batch, cx, |_| {
            let output = self.next;
            self.next = if output + 1 >= outputs { 0 } else { output + 1 };
            output
        });
    }
}
