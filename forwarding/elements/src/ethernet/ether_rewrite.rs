//! EtherRewrite: replaces the Ethernet addresses of frames.
//!
//! Group: ethernet
//! Usage: `EtherRewrite(SRC, DST)`
//! Ports: 1 input, 1 output; agnostic
//!
//! Writes new source and destination addresses into the Ethernet header that packets already have;
//! the EtherType stays. Of use on links with just one neighbour.
//!
//! - `SRC` (Ethernet address): the new source
//! - `DST` (Ethernet address): the new destination
//!
//! Handlers:
//! - `src` (read, write): the argument
//! - `dst` (read, write): the argument
//! - `config` (read, write): its arguments
//!
//! See also: [EtherEncap], [EtherMirror], [ARPQuerier]

use graph::arguments::{Arguments, Refused, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Mac, Reason};

pub const CLASS: Class = Class {
    name: "EtherRewrite",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ether_rewrite.rs"),
    make,
};

struct EtherRewrite {
    source: Mac,
    destination: Mac,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let (source, destination) = (args.mandatory("SRC"), args.mandatory("DST"));
    args.finish()?;
    Ok(Box::new(EtherRewrite { source: source.ok_or(Refused)?, destination: destination.ok_or(Refused)? }))
}

impl EtherRewrite {
    /// Writes the addresses where the link header is: at the front, unless somebody has said
    /// otherwise.
    fn rewrite(&self, packet: &mut Packet) -> bool {
        let at = packet.link_offset().unwrap_or(0);
        let (before, behind) = (at.min(0).unsigned_abs(), at.max(0).unsigned_abs());
        if packet.push(before).is_none() {
            return false;
        }
        let place = packet.data_mut().get_mut(behind..).and_then(<[u8]>::first_chunk_mut::<12>);
        let found = place.map(|place| {
            place[..6].copy_from_slice(&self.destination.0);
            place[6..].copy_from_slice(&self.source.0);
        });
        packet.pull(before) && found.is_some()
    }
}

impl Element for EtherRewrite {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut failed = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            failed |= u64::from(!self.rewrite(packet)) << index;
        }
        batch.take(failed, |_, packet| cx.drop(packet, Reason::Truncated));
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("src").replacing(Some(0), "SRC"), Handler::read("dst").replacing(Some(1), "DST")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "src" => Ok(unparse::ethernet(self.source)),
            "dst" => Ok(unparse::ethernet(self.destination)),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
