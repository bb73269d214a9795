//! IPInputCombo: what a router does with IPv4 packets that come in.
//!
//! Group: ip
//! Usage: `IPInputCombo(COLOR [, BADSRC, keywords INTERFACES, BADSRC, GOODDST])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Expects Ethernet frames that carry IPv4. One element for these:
//!
//! ```text
//! Paint(COLOR) -> Strip(14) -> CheckIPHeader(BADSRC, ...) -> GetIPAddress(16)
//! ```
//!
//! Packets with a wrong header are dropped; the first one is told of. Those with a right one leave
//! with their network and transport headers marked and their destination in the destination address
//! annotation.
//!
//! - `COLOR` (byte): what packets are painted with, usually the number of the interface
//! - `BADSRC` (addresses): sources that no packet may have. Without the keyword, in second place,
//!   0.0.0.0 and 255.255.255.255 are taken as such as well.
//! - `INTERFACES` (addresses with prefixes): this router's. Their broadcast addresses, 0.0.0.0 and
//!   255.255.255.255 are bad sources, the addresses themselves good destinations.
//! - `GOODDST` (addresses): a packet to one of them may have any source.
//!
//! Handlers:
//! - `drops` (read): how many packets had a wrong header
//!
//! See also: [Paint], [Strip], [CheckIPHeader], [GetIPAddress], [IPOutputCombo]

use std::net::Ipv4Addr;

use graph::arguments::{Arguments, Refused, offset};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};

use super::check_ip_header::{Addresses, Check};
use crate::basic::strip::strip;

/// See [`IpInputCombo`].
pub const CLASS: Class = Class {
    name: "IPInputCombo",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ip_input_combo.rs"),
    make,
};

/// An Ethernet header's length.
const ETHERNET: usize = 14;

/// Paints, strips and checks.
struct IpInputCombo {
    color: u8,
    check: Check,
    drops: u32,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let color = args.mandatory("COLOR");
    // Has another name than the keyword, so that both can be given.
    let bad_sources = args.optional::<Vec<Ipv4Addr>>("BADSRC*");
    let mut addresses = Addresses::read(args);
    if let Some(bad_sources) = bad_sources {
        addresses.add_bad_sources(&bad_sources);
    }
    args.finish()?;
    Ok(Box::new(IpInputCombo {
        color: color.ok_or(Refused)?,
        check: Check { offset: 0, addresses, checksum: true },
        drops: 0,
    }))
}

impl Element for IpInputCombo {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            packet.set_annotation_byte(offset::PAINT, self.color);
            strip(packet, ETHERNET);
        }
        if let Some((wrong, faults)) = self.check.wrong(batch) {
            if self.drops == 0 && wrong != 0 {
                cx.say("IP checksum failed");
            }
            self.drops = self.drops.wrapping_add(wrong.count_ones());
            batch.take(wrong, |index, packet| cx.drop(packet, faults[index].reason()));
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("drops")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
