//! VLANEncap: puts a VLAN tag into Ethernet frames.
//!
//! Group: ethernet
//! Usage: `VLANEncap([VLAN_TCI, VLAN_PCP, VLAN_ID, NATIVE_VLAN, ETHERTYPE])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Expects Ethernet frames, and puts an IEEE 802.1Q tag behind their addresses.
//!
//! - `VLAN_TCI` (number to 0xffff): the whole tag; or `ANNO`: the packet's VLAN annotation says it
//! - `VLAN_PCP` (0 to 7): the priority; default 0
//! - `VLAN_ID` (number to 0xfff): the VLAN's number, where `VLAN_TCI` is not given
//! - `NATIVE_VLAN` (number to 0xfff, or -1: none): the VLAN whose frames stay without a tag;
//!   default 0
//! - `ETHERTYPE` (number): the tag's EtherType; default 0x8100; 0x88a8 for the outer tag of two
//!   (IEEE 802.1ad)
//!
//! Handlers:
//! - `vlan_tci`, `vlan_id`, `vlan_pcp`, `native_vlan`, `ethertype` (read, write): the arguments
//!
//! See also: [VLANDecap], [EtherVLANEncap], [SetVLANAnno]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Reason, ethernet};

use super::vlan_tag::Tag;

pub const CLASS: Class = Class {
    name: "VLANEncap",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("vlan_encap.rs"),
    make,
};

struct VlanEncap {
    tag: Tag,
    ether_type: u16,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let tag = Tag::read(args);
    let ether_type = args.keyword("ETHERTYPE").unwrap_or(ethernet::VLAN);
    args.finish()?;
    Ok(Box::new(VlanEncap { tag, ether_type }))
}

impl VlanEncap {
    fn encapsulate(&self, packet: &mut Packet) -> bool {
        let tag = self.tag.of(packet);
        if packet.len() < ethernet::HEADER {
            return false;
        }
        if let Some(tci) = tag {
            let Some(_) = packet.push(4) else { return false };
            let Some(front) = packet.data_mut().first_chunk_mut::<16>() else { return false };
            front.copy_within(4.., 0);
            front[12..14].copy_from_slice(&self.ether_type.to_be_bytes());
            front[14..].copy_from_slice(&tci.to_be_bytes());
        }
        packet.set_link(Some(0));
        true
    }
}

impl Element for VlanEncap {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut failed = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            failed |= u64::from(!self.encapsulate(packet)) << index;
        }
        batch.take(failed, |_, packet| cx.drop(packet, Reason::Truncated));
    }

    fn handlers(&self) -> Vec<Handler> {
        let mut handlers = Tag::handlers();
        handlers.push(Handler::read_write("ethertype"));
        handlers
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "ethertype" => Ok(self.ether_type.to_string()),
            _ => self.tag.read_handler(handler),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "ethertype" => self.ether_type = cx.argument(value)?,
            _ => self.tag.write_handler(handler, value, cx)?,
        }
        Ok(())
    }
}
