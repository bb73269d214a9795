//! MarkIP6Header: says where packets' IPv6 headers begin.
//!
//! Group: ip6
//! Usage: `MarkIP6Header([OFFSET])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Marks the network header, and the transport header 40 bytes behind it. Does not look at the
//! packet; to have it checked use [CheckIP6Header].
//!
//! - `OFFSET` (bytes): where in the packet the header begins; default 0
//!
//! See also: [CheckIP6Header]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};
use wire::ipv6;

pub const CLASS: Class = Class {
    name: "MarkIP6Header",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("mark_ip6_header.rs"),
    make,
};

struct MarkIp6Header {
    offset: isize,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let offset = args.optional::<i32>("OFFSET").unwrap_or(0) as isize;
    args.finish()?;
    Ok(Box::new(MarkIp6Header { offset }))
}

impl Element for MarkIp6Header {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            packet.set_network(self.offset);
            packet.set_transport(Some(self.offset + ipv6::HEADER as isize));
        }
    }
}
