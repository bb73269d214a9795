//! MarkMACHeader: says where the link header is.
//!
//! Group: ethernet
//! Usage: `MarkMACHeader([OFFSET, LENGTH])`
//! Ports: 1 input, 1 output; agnostic
//!
//! For elements that look at a link header wherever the front of the packet is.
//!
//! - `OFFSET` (unsigned): bytes in front of the link header; 0 if not given
//! - `LENGTH` (unsigned): bytes of the link header: behind it the network header is marked. If not
//!   given, that is not
//!
//! See also: [MarkIPHeader], [StripToNetworkHeader]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};

/// The class `MarkMACHeader`.
pub const CLASS: Class = Class {
    name: "MarkMACHeader",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("mark_mac_header.rs"),
    make,
};

struct MarkMacHeader {
    offset: u16,
    length: u16,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let offset = args.optional("OFFSET").unwrap_or(0);
    let length = args.optional("LENGTH").unwrap_or(0);
    args.finish()?;
    Ok(Box::new(MarkMacHeader { offset, length }))
}

impl Element for MarkMacHeader {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        let (offset, length) = (self.offset as isize, self.length as isize);
        for packet in batch.packets_mut() {
            if length > 0 {
                packet.set_network(offset + length);
            }
            packet.set_link(Some(offset));
        }
    }
}
