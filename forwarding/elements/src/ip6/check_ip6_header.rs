//! CheckIP6Header: checks IPv6 headers.
//!
//! Group: ip6
//! Usage: `CheckIP6Header([BADADDRS, OFFSET])`
//! Ports: 1 input, 1 or 2 outputs; first output agnostic, second push
//!
//! Checks version and length, and that the source is none of the addresses that it must not be.
//! Marks the network header, and cuts off what stands behind the packet, such as Ethernet's
//! padding. Packets with mistakes leave by output 1, or are dropped when that is not connected.
//! Says so the first time.
//!
//! - `BADADDRS` (IPv6 addresses between spaces): what no source may be, besides the address of all
//!   ones; for a router `::` as well
//! - `OFFSET` (bytes): where in the packet the header begins; default 0
//!
//! Handlers:
//! - `drops` (read): how many had mistakes
//!
//! See also: [MarkIP6Header], [CheckIPHeader]

use std::net::Ipv6Addr;

use graph::arguments::{Argument, Arguments, Raw, Refused};
use graph::language::{split_words, unquote};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Reason, ipv6};

pub const CLASS: Class = Class {
    name: "CheckIP6Header",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("check_ip6_header.rs"),
    make,
};

struct CheckIp6Header {
    bad: Vec<Ipv6Addr>,
    offset: usize,
    drops: u64,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let bad = args.optional_with("BADADDRS", |text, scope| {
        let Raw(text) = Raw::parse(text, scope)?;
        let text = String::from_utf8(unquote(&text)).map_err(|_| "expects IP6ADDRESS".to_owned())?;
        split_words(&text).into_iter().map(|word| Ipv6Addr::parse(word, scope)).collect::<Result<Vec<_>, _>>()
    });
    let offset = args.optional::<u32>("OFFSET").unwrap_or(0) as usize;
    args.finish()?;
    let mut bad = bad.unwrap_or_default();
    bad.push(Ipv6Addr::from_bits(u128::MAX));
    Ok(Box::new(CheckIp6Header { bad, offset, drops: 0 }))
}

impl CheckIp6Header {
    fn check(&self, packet: &mut Packet) -> bool {
        let Ok(ip) = ipv6::Packet::parse(packet.data().get(self.offset..).unwrap_or_default()) else {
            return false;
        };
        let total = self.offset + ipv6::HEADER + usize::from(ip.payload_len());
        if total > packet.total_len() || self.bad.contains(&ip.source()) {
            return false;
        }
        packet.truncate(total);
        packet.set_network(self.offset as isize);
        packet.set_transport(Some((self.offset + ipv6::HEADER) as isize));
        true
    }
}

impl Element for CheckIp6Header {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut wrong = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            wrong |= u64::from(!self.check(packet)) << index;
        }
        if wrong == 0 {
            return;
        }
        if self.drops == 0 {
            cx.say("IP6 header check failed");
        }
        self.drops += u64::from(wrong.count_ones());
        if cx.has_output(1) {
            cx.emit_some(1, batch, wrong);
        } else {
            batch.take(wrong, |_, packet| cx.drop(packet, Reason::Malformed));
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
