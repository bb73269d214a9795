//! # Tee: copies every packet to each output.
//!
//! Group: basic
//! Usage: `Tee([N])`
//! Ports: 1 input, 1 or more outputs; push
//!
//! The copies are separate: changing one leaves the others as they are. They leave by output 0,
//! then 1, and so on; by the last leaves the packet itself.
//!
//! - `N` (integer): how many outputs there are; a check on the configuration, which has as many as
//!   are connected
//!
//! See also: [PullTee], [PaintTee]
//!
//! # PullTee: copies every packet that is pulled.
//!
//! Group: basic
//! Usage: `PullTee([N])`
//! Ports: 1 input, 1 or more outputs; input and first output pull, other outputs push
//!
//! Of each packet that is pulled through output 0, copies are pushed by the other outputs.
//!
//! - `N` (integer): how many outputs there are; a check on the configuration, which has as many as
//!   are connected
//!
//! See also: [Tee]

use graph::arguments::{Arguments, Blame, Refused};
use graph::{Batch, Class, Context, Element, Setup};
use wire::Reason;

pub const TEE: Class = Class {
    name: "Tee",
    ports: "1/1-",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("tee.rs"),
    make: |args, setup| arms(args, setup).map(|()| Box::new(Tee) as Box<dyn Element>),
};

pub const PULL_TEE: Class = Class {
    name: "PullTee",
    ports: "1/1-",
    processing: "l/lh",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("tee.rs"),
    make: |args, setup| arms(args, setup).map(|()| Box::new(PullTee) as Box<dyn Element>),
};

fn arms(args: &mut Arguments<'_>, setup: &mut Setup<'_>) -> Result<(), Refused> {
    let outputs = setup.outputs;
    if args.optional::<usize>("N").is_some_and(|arms| arms != outputs) {
        args.wrong(Blame::Element, format!("{outputs} outputs implies {outputs} arms"));
    }
    args.finish()
}

/// Emits copies of those packets of a batch whose bits are set.
pub(crate) fn copies(output: usize, batch: &Batch, which: u64, cx: &mut Context<'_>) {
    for (index, packet) in batch.packets().iter().enumerate() {
        if which >> index & 1 != 0 {
            match packet.duplicate() {
                Some(copy) => cx.emit(output, copy),
                None => cx.count_missing(Reason::NoBuffer),
            }
        }
    }
}

struct Tee;

impl Element for Tee {
    fn class(&self) -> &'static str {
        TEE.name
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let last = cx.output_count().saturating_sub(1);
        for output in 0..last {
            copies(output, batch, batch.mask(), cx);
        }
        cx.emit_batch(last, batch);
    }
}

struct PullTee;

impl Element for PullTee {
    fn class(&self) -> &'static str {
        PULL_TEE.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        for output in 1..cx.output_count() {
            copies(output, batch, batch.mask(), cx);
        }
    }
}
