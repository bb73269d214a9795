//! StripTCPHeader: removes the TCP header, and what is in front of it.
//!
//! Group: transport
//! Usage: `StripTCPHeader`
//! Ports: 1 input, 1 output; agnostic
//!
//! Expects TCP packets with marked headers, as [CheckIPHeader] and [CheckTCPHeader] leave them;
//! what is left is their payload. The headers stay marked, in front of the packet.
//!
//! See also: [StripIPHeader], [UnstripIPHeader]

use graph::{Batch, Class, Context, Element};

/// The class `StripTCPHeader`.
pub const CLASS: Class = Class {
    name: "StripTCPHeader",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("strip_tcp_header.rs"),
    make: |args, _| args.finish().map(|()| Box::new(StripTcpHeader) as Box<dyn Element>),
};

struct StripTcpHeader;

impl Element for StripTcpHeader {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            let header = packet.transport().get(12).map_or(0, |byte| isize::from(byte >> 4) * 4);
            let end = packet.transport_offset().map_or(0, |at| at + header);
            if let Ok(length) = usize::try_from(end) {
                packet.pull(length.min(packet.len()));
            }
        }
    }
}
