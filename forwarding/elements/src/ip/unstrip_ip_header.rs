//! UnstripIPHeader: puts back the IPv4 header that was taken off.
//!
//! Group: ip
//! Usage: `UnstripIPHeader`
//! Ports: 1 input, 1 output; agnostic
//!
//! Undoes [StripIPHeader]: the packet begins again where its network header is marked. One that
//! begins there, or in front of it, stays as it is.
//!
//! See also: [StripIPHeader], [Unstrip]

use graph::{Batch, Class, Context, Element};

/// The class `UnstripIPHeader`.
pub const CLASS: Class = Class {
    name: "UnstripIPHeader",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("unstrip_ip_header.rs"),
    make: |args, _| args.finish().map(|()| Box::new(UnstripIpHeader) as Box<dyn Element>),
};

struct UnstripIpHeader;

impl Element for UnstripIpHeader {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            let before = packet.network_offset().map_or(0, |offset| offset.min(0).unsigned_abs());
            // It is a place in the packet's memory, so there is room.
            let _ = packet.push(before);
        }
    }
}
