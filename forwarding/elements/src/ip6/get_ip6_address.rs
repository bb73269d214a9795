//! GetIP6Address: notes the destination that stands in packets.
//!
//! Group: ip6
//! Usage: `GetIP6Address(OFFSET)`
//! Ports: 1 input, 1 output; agnostic
//!
//! Copies the IPv6 address at `OFFSET` into the destination annotation, by which [LookupIP6Route]
//! and [IP6NDSolicitor] go. Packets that end before it stay as they are.
//!
//! - `OFFSET` (bytes): 24 for the destination of a packet that begins with its IPv6 header
//!
//! See also: [LookupIP6Route], [GetIPAddress]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};

use super::set_destination;

pub const CLASS: Class = Class {
    name: "GetIP6Address",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("get_ip6_address.rs"),
    make,
};

struct GetIp6Address {
    offset: usize,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let offset = args.mandatory::<u32>("OFFSET");
    args.finish()?;
    Ok(Box::new(GetIp6Address { offset: offset.ok_or(Refused)? as usize }))
}

impl Element for GetIp6Address {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            let address = packet.data().get(self.offset..).and_then(<[u8]>::first_chunk::<16>);
            if let Some(address) = address.copied() {
                set_destination(packet, address.into());
            }
        }
    }
}
