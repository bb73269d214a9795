//! Hub: passes each packet on by all outputs but that of its own input.
//!
//! Group: basic
//! Usage: `Hub`
//! Ports: any number of inputs, as many outputs; push
//!
//! What a repeater does: port 0 is input 0 and output 0, and so on.
//!
//! See also: [Tee], [Switch]

use graph::{Batch, Class, Context, Element};

use super::tee::copies;

pub const CLASS: Class = Class {
    name: "Hub",
    ports: "-/=",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("hub.rs"),
    make: |args, _| args.finish().map(|()| Box::new(Hub) as Box<dyn Element>),
};

struct Hub;

impl Element for Hub {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn push(&mut self, input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let last = (0..cx.output_count()).rev().find(|output| *output != input);
        for output in (0..last.unwrap_or(0)).filter(|output| *output != input) {
            copies(output, batch, batch.mask(), cx);
        }
        match last {
            Some(output) => cx.emit_batch(output, batch),
            None => cx.drop_batch(batch, wire::Reason::Discarded),
        }
    }
}
