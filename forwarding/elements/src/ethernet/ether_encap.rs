//! EtherEncap: puts packets into Ethernet frames that all have the same header.
//!
//! Group: ethernet
//! Usage: `EtherEncap(ETHERTYPE, SRC, DST)`
//! Ports: 1 input, 1 output; agnostic
//!
//! Puts a 14-byte Ethernet header in front of every packet. Where there are several neighbours to
//! send to, [ARPQuerier] finds the right destination for each packet instead.
//!
//! - `ETHERTYPE` (number): what the frames carry, such as 0x0800 for IPv4
//! - `SRC` (Ethernet address): from whom
//! - `DST` (Ethernet address): to whom
//!
//! Handlers:
//! - `src` (read, write): the argument
//! - `dst` (read, write): the argument
//! - `ethertype` (read, write): the argument, in decimal
//! - `config` (read, write): its arguments
//!
//! See also: [EtherVLANEncap], [EtherRewrite], [ARPQuerier]

use graph::arguments::{Arguments, Refused, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use wire::{Reason, ethernet};

use super::encapsulate;

pub const CLASS: Class = Class {
    name: "EtherEncap",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ether_encap.rs"),
    make,
};

struct EtherEncap(ethernet::Repr);

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let (ether_type, source, destination) =
        (args.mandatory("ETHERTYPE"), args.mandatory("SRC"), args.mandatory("DST"));
    args.finish()?;
    Ok(Box::new(EtherEncap(ethernet::Repr {
        ether_type: ether_type.ok_or(Refused)?,
        source: source.ok_or(Refused)?,
        destination: destination.ok_or(Refused)?,
    })))
}

impl Element for EtherEncap {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let (header, mut failed) = (self.0.header(), 0u64);
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            failed |= u64::from(!encapsulate(packet, &header)) << index;
        }
        batch.take(failed, |_, packet| cx.drop(packet, Reason::NoBuffer));
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![
            Handler::read("src").replacing(Some(1), "SRC"),
            Handler::read("dst").replacing(Some(2), "DST"),
            Handler::read("ethertype").replacing(Some(0), "ETHERTYPE"),
            Handler::read("etht").replacing(Some(0), "ETHERTYPE"),
        ]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "src" => Ok(unparse::ethernet(self.0.source)),
            "dst" => Ok(unparse::ethernet(self.0.destination)),
            "ethertype" | "etht" => Ok(self.0.ether_type.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
