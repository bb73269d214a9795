//! DecIPTTL: decrements the time to live of IPv4 packets.
//!
//! Group: ip
//! Usage: `DecIPTTL([keywords ACTIVE, MULTICAST])`
//! Ports: 1 input, 1-2 outputs; agnostic, second output push
//!
//! Packets that have a time to live of 0 or 1 leave by output 1 as they came, or are dropped when
//! it isn't connected; usually an ICMPError sits there. All others have one hop less to live, and a
//! checksum that says so. Expects marked headers, as CheckIPHeader leaves them.
//!
//! - `ACTIVE` (boolean): false lets all packets pass as they are. Default true.
//! - `MULTICAST` (boolean): false lets packets to groups pass as they are. Default true.
//!
//! Handlers:
//! - `drops` (read): how many packets had expired
//! - `active` (read, write): the argument
//!
//! See also: [CheckIPHeader], [ICMPError], [DecIP6HLIM]

use graph::arguments::{Arguments, Refused, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Reason, ipv4};

use crate::basic::written;

/// See [`DecIpTtl`].
pub const CLASS: Class = Class {
    name: "DecIPTTL",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("dec_ip_ttl.rs"),
    make,
};

/// Decrements the time to live.
struct DecIpTtl {
    active: bool,
    multicast: bool,
    drops: u32,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let active = args.keyword("ACTIVE").unwrap_or(true);
    let multicast = args.keyword("MULTICAST").unwrap_or(true);
    args.finish()?;
    Ok(Box::new(DecIpTtl { active, multicast, drops: 0 }))
}

impl DecIpTtl {
    #[cold]
    fn expired(&mut self, packet: Packet, cx: &mut Context<'_>) {
        if packet.network().len() < ipv4::HEADER {
            return cx.drop(packet, Reason::Malformed);
        }
        self.drops = self.drops.wrapping_add(1);
        if cx.has_output(1) {
            cx.emit(1, packet);
        } else {
            cx.drop(packet, Reason::TtlExpired);
        }
    }
}

impl Element for DecIpTtl {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        if !self.active {
            return;
        }
        let mut expired = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            let alive =
                packet.network_mut().first_chunk_mut().is_some_and(|header: &mut [u8; ipv4::HEADER]| {
                    !self.multicast && header[16] >> 4 == 14 || ipv4::decrement_ttl(header)
                });
            expired |= u64::from(!alive) << index;
        }
        batch.take(expired, |_, packet| self.expired(packet, cx));
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("drops"), Handler::read_write("active")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "drops" => Ok(self.drops.to_string()),
            "active" => Ok(unparse::boolean(self.active).to_owned()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "active" => self.active = written(value, "syntax error", cx)?,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}
