//! RandomSwitch: passes each packet on by one of its outputs, chosen at random.
//!
//! Group: basic
//! Usage: `RandomSwitch()`
//! Ports: 1 input, 1 or more outputs; push
//!
//! Every output is as likely as the others.
//!
//! See also: [RoundRobinSwitch], [HashSwitch]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};

use super::distribute;
use super::random::Random;

pub const CLASS: Class = Class {
    name: "RandomSwitch",
    ports: "1/1-",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("random_switch.rs"),
    make,
};

struct RandomSwitch(Random);

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    args.finish()?;
    Ok(Box::new(RandomSwitch(Random::new())))
}

impl Element for RandomSwitch {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let outputs = cx.output_count() as u64;
        distribute(batch, cx, |_| self.0.below(outputs) as usize);
    }
}
