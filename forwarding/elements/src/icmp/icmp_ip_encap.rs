//! ICMPIPEncap: makes packets the data of ICMP messages.
//!
//! Group: icmp
//! Usage: `ICMPIPEncap(SRC, DST, TYPE [, CODE, IDENTIFIER])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Puts an IPv4 header and an ICMP header in front of every packet, and sets the destination
//! annotation. Messages whose type has an identifier and a sequence number get them, numbered from
//! 1.
//!
//! - `SRC` (IPv4 address): from whom
//! - `DST` (IPv4 address): to whom
//! - `TYPE` (number or name): such as `echo`, `echo-reply`, `unreachable`
//! - `CODE` (number or name): default 0
//! - `IDENTIFIER` (number to 65535): default 0
//!
//! Handlers:
//! - `src`, `dst` (read, write): the arguments
//!
//! See also: [ICMPPingEncap], [ICMPError]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use wire::icmp4;

use super::icmp_ping_encap::Numbered;

pub const CLASS: Class = Class {
    name: "ICMPIPEncap",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("icmp_ip_encap.rs"),
    make,
};

struct IcmpIpEncap {
    series: Numbered,
    kind: (u8, u8),
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let (source, destination) = (args.mandatory("SRC"), args.mandatory("DST"));
    let kind = super::type_and_code(args);
    let identifier = args.keyword("IDENTIFIER").unwrap_or(0);
    args.finish()?;
    let series = Numbered::new(source.ok_or(Refused)?, destination.ok_or(Refused)?, identifier);
    Ok(Box::new(IcmpIpEncap { series, kind: kind.ok_or(Refused)? }))
}

impl Element for IcmpIpEncap {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        // Timestamp and information requests, and their replies, have them too (RFC 792).
        let identified = matches!(self.kind.0, icmp4::ECHO | icmp4::ECHO_REPLY | 13..=16);
        self.series.encapsulate(self.kind, identified, batch, cx);
    }

    fn handlers(&self) -> Vec<Handler> {
        ["src", "dst"].map(Handler::read_write).into()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        self.series.read(handler)
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.series.write(handler, value, cx)
    }
}
