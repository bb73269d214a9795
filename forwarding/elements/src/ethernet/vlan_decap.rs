//! VLANDecap: takes the VLAN tag out of Ethernet frames.
//!
//! Group: ethernet
//! Usage: `VLANDecap([ANNO, ETHERTYPE])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Expects Ethernet frames. A frame with an IEEE 802.1Q tag becomes one without; others stay.
//!
//! - `ANNO` (boolean): whether to note the tag in the packet's VLAN annotation, 0 when there was
//!   none; default true
//! - `ETHERTYPE` (number): the tag's EtherType; default 0x8100
//!
//! See also: [VLANEncap], [StripEtherVLANHeader]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};
use wire::ethernet;

use super::vlan_tag::annotate;

pub const CLASS: Class = Class {
    name: "VLANDecap",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("vlan_decap.rs"),
    make,
};

struct VlanDecap {
    annotate: bool,
    ether_type: u16,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let annotate = args.optional("ANNO").unwrap_or(true);
    let ether_type = args.keyword("ETHERTYPE").unwrap_or(ethernet::VLAN);
    args.finish()?;
    Ok(Box::new(VlanDecap { annotate, ether_type }))
}

impl Element for VlanDecap {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            let mut tci = 0;
            if let Some(front) = packet.data_mut().first_chunk_mut::<16>()
                && front[12..14] == self.ether_type.to_be_bytes()
            {
                tci = u16::from_be_bytes([front[14], front[15]]);
                front.copy_within(..12, 4);
                packet.pull(4);
            }
            packet.set_link(Some(0));
            if self.annotate {
                annotate(packet, tci);
            }
        }
    }
}
