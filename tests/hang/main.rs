//! Bifrost, with one element more: it loops for ever when a packet with TTL 77 comes.

use std::process::ExitCode;

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};

const CLASS: Class = Class {
    name: "HangAt77",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("main.rs"),
    make,
};

fn make(arguments: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    arguments.finish()?;
    Ok(Box::new(HangAt77))
}

struct HangAt77;

impl Element for HangAt77 {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        while batch.packets().iter().any(|packet| packet.network().get(8) == Some(&77)) {
            std::hint::spin_loop();
        }
    }
}

fn main() -> ExitCode {
    bifrost::program::main(&[&CLASS])
}
