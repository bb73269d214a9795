//! SetIP6DSCP: sets the differentiated services code point of IPv6 packets.
//!
//! Group: ip6
//! Usage: `SetIP6DSCP(DSCP)`
//! Ports: 1 input, 1 output; agnostic
//!
//! Expects IPv6 packets whose network header is marked.
//!
//! - `DSCP` (0 to 63): the code point
//!
//! Handlers:
//! - `dscp` (read, write): the argument
//! - `config` (read, write): its arguments
//!
//! See also: [SetIPDSCP], [CheckIP6Header]

use graph::arguments::{Arguments, Refused, parse_integer};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};

pub const CLASS: Class = Class {
    name: "SetIP6DSCP",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("set_ip6_dscp.rs"),
    make,
};

struct SetIp6Dscp(u8);

fn code_point(text: &str) -> Result<u8, String> {
    match parse_integer(text, 0, u32::MAX.into())? {
        number @ 0..=0x3f => Ok(number as u8),
        _ => Err("diffserv code point out of range".to_owned()),
    }
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let dscp = args.mandatory_with("DSCP", |text, _| code_point(text));
    args.finish()?;
    Ok(Box::new(SetIp6Dscp(dscp.ok_or(Refused)?)))
}

impl Element for SetIp6Dscp {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        // The traffic class lies across two bytes: version, DSCP, ECN, flow label are 4, 6, 2 and
        // 20 bits.
        for packet in batch.packets_mut() {
            if let Some([first, second]) = packet.network_mut().first_chunk_mut() {
                *first = *first & 0xf0 | self.0 >> 2;
                *second = *second & 0x3f | self.0 << 6;
            }
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("dscp").replacing(Some(0), "DSCP")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "dscp" => Ok(self.0.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
