//! StripIPHeader: removes the IPv4 header, and what is in front of it.
//!
//! Group: ip
//! Usage: `StripIPHeader`
//! Ports: 1 input, 1 output; agnostic
//!
//! Expects marked headers, as CheckIPHeader leaves them. The header stays marked, in front of the
//! packet.
//!
//! See also: [Strip], [StripToNetworkHeader], [IPEncap]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};

/// See [`StripIpHeader`].
pub const CLASS: Class = Class {
    name: "StripIPHeader",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("strip_ip_header.rs"),
    make,
};

/// Removes headers.
struct StripIpHeader;

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    args.finish()?;
    Ok(Box::new(StripIpHeader))
}

impl Element for StripIpHeader {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            let header = packet.network().first().map_or(0, |first| isize::from(first & 15) * 4);
            let end = packet.network_offset().map_or(0, |at| at + header);
            if let Ok(length) = usize::try_from(end) {
                packet.pull(length.min(packet.len()));
            }
        }
    }
}
