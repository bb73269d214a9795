//! # Idle: gives no packets, and throws away those that it gets.
//!
//! Group: traffic
//! Usage: `Idle()`
//! Ports: any number of inputs and outputs; agnostic
//!
//! For ports that must be connected to something. It never pulls.
//!
//! See also: [Discard], [Null], [SimpleIdle]
//!
//! # SimpleIdle: gives no packets, and throws away those that it gets.
//!
//! Group: traffic
//! Usage: `SimpleIdle()`
//! Ports: any number of inputs and outputs; agnostic
//!
//! As [Idle].
//!
//! See also: [Idle]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element};
use wire::Reason;

pub const IDLE: Class = Class {
    name: "Idle",
    ports: "-/-",
    processing: Class::AGNOSTIC,
    flow: "x/y",
    source: include_str!("idle.rs"),
    make: |args, _| make(IDLE.name, args),
};

pub const SIMPLE_IDLE: Class = Class {
    name: "SimpleIdle",
    ports: "-/-",
    processing: Class::AGNOSTIC,
    flow: "x/y",
    source: include_str!("idle.rs"),
    make: |args, _| make(SIMPLE_IDLE.name, args),
};

struct Idle {
    class: &'static str,
}

fn make(class: &'static str, args: &mut Arguments<'_>) -> Result<Box<dyn Element>, Refused> {
    args.finish()?;
    Ok(Box::new(Idle { class }))
}

impl Element for Idle {
    fn class(&self) -> &'static str {
        self.class
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        cx.drop_batch(batch, Reason::Discarded);
    }

    fn pull(&mut self, _output: usize, _quota: usize, _batch: &mut Batch, _cx: &mut Context<'_>) {}
}
