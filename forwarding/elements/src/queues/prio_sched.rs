//! PrioSched: pulls from the first input that has a packet.
//!
//! Group: queues
//! Usage: `PrioSched`
//! Ports: any number of inputs, 1 output; pull
//!
//! Each packet comes from the input of the lowest number that has one: input 0 has the highest
//! priority, and can starve the others.
//!
//! See also: [RoundRobinSched], [StrideSched], [DRRSched]

use graph::{Batch, Class, Context, Element};

/// The class `PrioSched`.
pub const CLASS: Class = Class {
    name: "PrioSched",
    ports: "-/1",
    processing: Class::PULL,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("prio_sched.rs"),
    make: |arguments, setup| {
        arguments.finish()?;
        Ok(Box::new(PrioSched { inputs: setup.inputs }))
    },
};

struct PrioSched {
    inputs: usize,
}

impl Element for PrioSched {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn pull(&mut self, _output: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        for input in 0..self.inputs {
            while batch.len() < quota {
                let wanted = quota - batch.len();
                if cx.pull(input, wanted, batch) == 0 {
                    break;
                }
            }
        }
    }
}
