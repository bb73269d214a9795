//! FixIPSrc: gives packets that ask for it this source address.
//!
//! Group: ip
//! Usage: `FixIPSrc(IPADDR)`
//! Ports: 1 input, 1 output; agnostic
//!
//! ICMP errors should come from the address of the interface that they leave by (RFC 1812,
//! 4.3.2.4), which is not known where they are made. ICMPError sets the annotation `FIX_IP_SRC` on
//! them; in front of the interface, this element gives packets with this annotation the source
//! address `IPADDR` and a checksum for it, and clears the annotation.
//!
//! - `IPADDR` (IPv4 address): of the interface
//!
//! See also: [ICMPError], [SetIPAddress]

use std::net::Ipv4Addr;

use graph::arguments::{Arguments, Refused, offset};
use graph::{Batch, Class, Context, Element, Setup};
use port::Packet;
use wire::ipv4;

/// See [`FixIpSrc`].
pub const CLASS: Class = Class {
    name: "FixIPSrc",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("fix_ip_src.rs"),
    make,
};

/// Fixes source addresses.
pub(super) struct FixIpSrc {
    pub address: Ipv4Addr,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let address = args.mandatory("IPADDR");
    args.finish()?;
    Ok(Box::new(FixIpSrc { address: address.ok_or(Refused)? }))
}

impl FixIpSrc {
    /// Gives the packets of a batch that ask for it the source address.
    #[inline(always)]
    pub fn fix_all(&self, batch: &mut Batch) {
        for packet in batch.packets_mut() {
            if packet.annotation_byte(offset::FIX_IP_SRC) != 0 {
                self.fix(packet);
            }
        }
    }

    #[cold]
    fn fix(&self, packet: &mut Packet) {
        if packet.network_offset().is_none() {
            return;
        }
        packet.set_annotation_byte(offset::FIX_IP_SRC, 0);
        let network = packet.network_mut();
        let length = network.first().map_or(0, |first| usize::from(first & 15) * 4);
        let Some(header) = network.get_mut(..length).filter(|header| header.len() >= ipv4::HEADER) else {
            return;
        };
        header[12..16].copy_from_slice(&self.address.octets());
        ipv4::set_checksum(header);
    }
}

impl Element for FixIpSrc {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        self.fix_all(batch);
    }
}
