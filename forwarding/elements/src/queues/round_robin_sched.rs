//! RoundRobinSched: pulls from its inputs in turn.
//!
//! Group: queues
//! Usage: `RoundRobinSched`
//! Ports: any number of inputs, 1 output; pull
//!
//! Each packet comes from the next input that has one, behind that of the packet before.
//!
//! See also: [PrioSched], [StrideSched], [DRRSched]

use graph::{Batch, Class, Context, Element};

/// The class `RoundRobinSched`.
pub const CLASS: Class = Class {
    name: "RoundRobinSched",
    ports: "-/1",
    processing: Class::PULL,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("round_robin_sched.rs"),
    make: |arguments, setup| {
        arguments.finish()?;
        Ok(Box::new(RoundRobinSched { next: 0, inputs: setup.inputs }))
    },
};

struct RoundRobinSched {
    /// The input to ask first.
    next: usize,
    inputs: usize,
}

impl Element for RoundRobinSched {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn pull(&mut self, _output: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut empty = 0;
        while batch.len() < quota && empty < self.inputs {
            // Only who gave a packet has had its turn.
            let input = (self.next + empty) % self.inputs;
            if cx.pull(input, 1, batch) == 0 {
                empty += 1;
            } else {
                self.next = (input + 1) % self.inputs;
                empty = 0;
            }
        }
    }
}
