//! EtherMirror: sends Ethernet frames back to where they came from.
//!
//! Group: ethernet
//! Usage: `EtherMirror()`
//! Ports: 1 input, 1 output; agnostic
//!
//! Exchanges the source and the destination address of the Ethernet header that packets begin with.
//!
//! See also: [EtherRewrite], [EtherEncap]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};
use wire::Reason;

pub const CLASS: Class = Class {
    name: "EtherMirror",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ether_mirror.rs"),
    make,
};

struct EtherMirror;

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    args.finish()?;
    Ok(Box::new(EtherMirror))
}

impl Element for EtherMirror {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut short = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            match packet.data_mut().first_chunk_mut::<12>() {
                Some(addresses) => addresses.rotate_left(6),
                None => short |= 1 << index,
            }
        }
        batch.take(short, |_, packet| cx.drop(packet, Reason::Truncated));
    }
}
