//! DecIP6HLIM: decrements the hop limit of IPv6 packets.
//!
//! Group: ip6
//! Usage: `DecIP6HLIM()`
//! Ports: 1 input, 1 or 2 outputs; first output agnostic, second push
//!
//! Expects IPv6 packets whose network header is marked. Those whose hop limit is used up (0 or 1)
//! leave by output 1 as they came, or are dropped when that is not connected; usually an
//! [ICMP6Error] tells their sender.
//!
//! Handlers:
//! - `drops` (read): how many were used up
//!
//! ```click
//! hlim :: DecIP6HLIM; hlim[1] -> ICMP6Error(2001:db8::1, 3, 0) -> [0]rt;
//! ```
//!
//! See also: [DecIPTTL], [ICMP6Error]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use wire::Reason;

pub const CLASS: Class = Class {
    name: "DecIP6HLIM",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("dec_ip6_hlim.rs"),
    make,
};

struct DecIp6Hlim {
    drops: u64,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    args.finish()?;
    Ok(Box::new(DecIp6Hlim { drops: 0 }))
}

impl Element for DecIp6Hlim {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut expired = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            match packet.network_mut().get_mut(7).filter(|limit| **limit > 1) {
                Some(limit) => *limit -= 1,
                None => expired |= 1 << index,
            }
        }
        if expired == 0 {
            return;
        }
        self.drops += u64::from(expired.count_ones());
        if cx.has_output(1) {
            cx.emit_some(1, batch, expired);
        } else {
            batch.take(expired, |_, packet| cx.drop(packet, Reason::TtlExpired));
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
