//! HostEtherFilter: drops Ethernet frames that are for other machines.
//!
//! Group: ethernet
//! Usage: `HostEtherFilter(ETHER [, DROP_OWN, DROP_OTHER, OFFSET])`
//! Ports: 1 input, 1 or 2 outputs; first output agnostic, second push
//!
//! Does what the receiving side of a network card with the address `ETHER` does: notes in the
//! packet type annotation whether a frame is to this machine, to all, to a group or to another
//! machine, and drops what is to another machine. What it filters out leaves by output 1 if that is
//! connected.
//!
//! - `ETHER` (Ethernet address): this machine's
//! - `DROP_OWN` (boolean): whether to drop frames that this machine sent itself; default false
//! - `DROP_OTHER` (boolean): whether to drop frames to other machines; default true
//! - `OFFSET` (bytes): where in the packet the Ethernet header begins; default 0
//!
//! Handlers:
//! - `ether` (read, write): the argument
//! - `config` (read, write): its arguments
//!
//! See also: [DropBroadcasts], [Classifier]

use graph::arguments::{Arguments, Refused, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::{Packet, PacketType};
use wire::ethernet::Frame;
use wire::{Mac, Reason};

pub const CLASS: Class = Class {
    name: "HostEtherFilter",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("host_ether_filter.rs"),
    make,
};

struct HostEtherFilter {
    address: Mac,
    drop_own: bool,
    drop_other: bool,
    offset: usize,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let address = args.mandatory("ETHER");
    let (drop_own, drop_other) = (args.optional("DROP_OWN"), args.optional("DROP_OTHER"));
    let offset = args.keyword::<u32>("OFFSET").unwrap_or(0);
    args.finish()?;
    Ok(Box::new(HostEtherFilter {
        address: address.ok_or(Refused)?,
        drop_own: drop_own.unwrap_or(false),
        drop_other: drop_other.unwrap_or(true),
        offset: offset as usize,
    }))
}

impl HostEtherFilter {
    /// Whether a packet passes; its type is noted.
    fn passes(&self, packet: &mut Packet) -> bool {
        let Ok(frame) = Frame::parse(packet.data().get(self.offset..).unwrap_or_default()) else {
            return false;
        };
        let to = frame.destination();
        if self.drop_own && frame.source() == self.address {
            return false;
        }
        let kind = if to == self.address {
            PacketType::Host
        } else if to.is_broadcast() {
            PacketType::Broadcast
        } else if to.is_multicast() {
            PacketType::Multicast
        } else {
            PacketType::OtherHost
        };
        packet.annotations_mut().kind = kind;
        kind != PacketType::OtherHost || !self.drop_other
    }
}

impl Element for HostEtherFilter {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut filtered = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            filtered |= u64::from(!self.passes(packet)) << index;
        }
        if filtered != 0 && cx.has_output(1) {
            cx.emit_some(1, batch, filtered);
        } else {
            batch.take(filtered, |_, packet| cx.drop(packet, Reason::Filtered));
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read_write("ether")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "ether" => Ok(unparse::ethernet(self.address)),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "ether" => self.address = cx.argument(value)?,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}
