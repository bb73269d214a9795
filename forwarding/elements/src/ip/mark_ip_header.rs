//! MarkIPHeader: notes where the IPv4 header is.
//!
//! Group: ip
//! Usage: `MarkIPHeader([OFFSET])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Marks the network header `OFFSET` bytes behind the front, and the transport header behind it, as
//! far as the header's own length says. Checks nothing, cuts nothing off and leaves the destination
//! address annotation alone: that is what [CheckIPHeader] does.
//!
//! - `OFFSET` (number of bytes): where the header begins. Default 0.
//!
//! See also: [CheckIPHeader], [CheckIPHeader2], [StripIPHeader]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};

/// See [`MarkIpHeader`].
pub const CLASS: Class = Class {
    name: "MarkIPHeader",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("mark_ip_header.rs"),
    make,
};

/// Marks IPv4 headers.
pub struct MarkIpHeader {
    offset: usize,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let offset = args.optional::<u32>("OFFSET").unwrap_or(0) as usize;
    args.finish()?;
    Ok(Box::new(MarkIpHeader { offset }))
}

impl Element for MarkIpHeader {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            let length = packet.data().get(self.offset).map(|first| usize::from(first & 15) * 4);
            if !packet.set_network(self.offset as isize) {
                packet.clear_network();
            }
            packet.set_transport(length.map(|length| (self.offset + length) as isize));
        }
    }
}
