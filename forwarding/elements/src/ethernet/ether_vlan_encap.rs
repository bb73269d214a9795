//! EtherVLANEncap: puts packets into Ethernet frames with a VLAN tag.
//!
//! Group: ethernet
//! Usage: `EtherVLANEncap(ETHERTYPE, SRC, DST, VLAN_TCI [, VLAN_PCP, VLAN_ID, NATIVE_VLAN])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Puts an 18-byte Ethernet header with an IEEE 802.1Q tag in front of every packet.
//!
//! - `ETHERTYPE` (number): what the frames carry, such as 0x0800 for IPv4
//! - `SRC` (Ethernet address): from whom
//! - `DST` (Ethernet address): to whom
//! - `VLAN_TCI` (number to 0xffff): the whole tag; or `ANNO`: the packet's VLAN annotation says it
//! - `VLAN_PCP` (0 to 7): the priority; default 0
//! - `VLAN_ID` (number to 0xfff): the VLAN's number, where `VLAN_TCI` is not given
//! - `NATIVE_VLAN` (number to 0xfff, or -1: none): the VLAN whose frames get a plain Ethernet
//!   header; default 0
//!
//! Handlers:
//! - `src`, `dst`, `ethertype`, `vlan_tci`, `vlan_id`, `vlan_pcp`, `native_vlan` (read, write): the
//!   arguments
//! - `config` (read, write): its arguments
//!
//! See also: [EtherEncap], [VLANEncap], [StripEtherVLANHeader], [SetVLANAnno]
//!
//! # EtherVlanEncap: the old name of EtherVLANEncap.
//!
//! Group: ethernet
//! Usage: `EtherVlanEncap(ETHERTYPE, SRC, DST, VLAN_TCI [, VLAN_PCP, VLAN_ID, NATIVE_VLAN])`
//! Ports: 1 input, 1 output; agnostic
//!
//! See [EtherVLANEncap].
//!
//! See also: [EtherVLANEncap]

use graph::arguments::{Arguments, Refused, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Reason, ethernet};

use super::encapsulate;
use super::vlan_tag::Tag;

pub const CLASS: Class = Class {
    name: "EtherVLANEncap",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ether_vlan_encap.rs"),
    make,
};

/// The class `EtherVlanEncap`.
pub const OLD_NAME: Class = Class { name: "EtherVlanEncap", ..CLASS };

struct EtherVlanEncap {
    header: ethernet::Repr,
    tag: Tag,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let (ether_type, source, destination) =
        (args.mandatory("ETHERTYPE"), args.mandatory("SRC"), args.mandatory("DST"));
    let tag = Tag::read(args);
    args.finish()?;
    let header = ethernet::Repr {
        ether_type: ether_type.ok_or(Refused)?,
        source: source.ok_or(Refused)?,
        destination: destination.ok_or(Refused)?,
    };
    Ok(Box::new(EtherVlanEncap { header, tag }))
}

impl EtherVlanEncap {
    fn encapsulate(&self, packet: &mut Packet) -> bool {
        let Some(tci) = self.tag.of(packet) else { return encapsulate(packet, &self.header.header()) };
        let mut header = [0; 18];
        let outer = ethernet::Repr { ether_type: ethernet::VLAN, ..self.header };
        header[..14].copy_from_slice(&outer.header());
        header[14..16].copy_from_slice(&tci.to_be_bytes());
        header[16..].copy_from_slice(&self.header.ether_type.to_be_bytes());
        encapsulate(packet, &header)
    }
}

impl Element for EtherVlanEncap {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut failed = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            failed |= u64::from(!self.encapsulate(packet)) << index;
        }
        batch.take(failed, |_, packet| cx.drop(packet, Reason::NoBuffer));
    }

    fn handlers(&self) -> Vec<Handler> {
        let own = ["src", "dst", "ethertype"].map(Handler::read_write);
        own.into_iter().chain(Tag::handlers()).collect()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "src" => Ok(unparse::ethernet(self.header.source)),
            "dst" => Ok(unparse::ethernet(self.header.destination)),
            "ethertype" => Ok(self.header.ether_type.to_string()),
            _ => self.tag.read_handler(handler),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "src" => self.header.source = cx.argument(value)?,
            "dst" => self.header.destination = cx.argument(value)?,
            "ethertype" => self.header.ether_type = cx.argument(value)?,
            _ => self.tag.write_handler(handler, value, cx)?,
        }
        Ok(())
    }
}
