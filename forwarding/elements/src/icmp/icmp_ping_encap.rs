//! ICMPPingEncap: makes packets the data of ICMP echo requests.
//!
//! Group: icmp
//! Usage: `ICMPPingEncap(SRC, DST [, IDENTIFIER])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Puts an IPv4 header and an ICMP echo request's header in front of every packet, and sets the
//! destination annotation. Sequence numbers begin with 1.
//!
//! - `SRC` (IPv4 address): who asks
//! - `DST` (IPv4 address): who is asked
//! - `IDENTIFIER` (number to 65535): the requests' identifier; default 0
//!
//! Handlers:
//! - `src`, `dst` (read, write): the arguments
//!
//! See also: [ICMPPingSource], [ICMPPingResponder], [ICMPIPEncap]

use std::net::Ipv4Addr;

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use wire::{Reason, icmp4, ipv4, protocol};

pub const CLASS: Class = Class {
    name: "ICMPPingEncap",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("icmp_ping_encap.rs"),
    make,
};

struct IcmpPingEncap(Numbered);

/// A series of ICMP messages, numbered from 1, never 0.
pub(super) struct Numbered {
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
    pub(super) identifier: u16,
    number: u16,
}

impl Numbered {
    pub(super) fn new(source: Ipv4Addr, destination: Ipv4Addr, identifier: u16) -> Numbered {
        Numbered { source, destination, identifier, number: 1 }
    }

    /// Makes the packets of a batch messages of a type and code; only those whose types have them
    /// get an identifier and number.
    pub(super) fn encapsulate(
        &mut self,
        kind: (u8, u8),
        identified: bool,
        batch: &mut Batch,
        cx: &mut Context<'_>,
    ) {
        let mut failed = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            let header = ipv4::Repr {
                id: self.number,
                ttl: 255,
                protocol: protocol::ICMP,
                ..ipv4::Repr::new(self.source, self.destination)
            };
            let word = u32::from(self.identifier) << 16 | u32::from(self.number);
            let word = if identified { word.to_be_bytes() } else { [0; 4] };
            if super::encapsulate(packet, &header, kind, word) {
                self.number = self.number.checked_add(1).unwrap_or(1);
            } else {
                failed |= 1 << index;
            }
        }
        batch.take(failed, |_, packet| cx.drop(packet, Reason::NoBuffer));
    }

    pub(super) fn read(&self, handler: &str) -> Result<String, HandlerError> {
        match handler {
            "src" => Ok(self.source.to_string()),
            "dst" => Ok(self.destination.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    pub(super) fn write(&mut self, handler: &str, value: &str, cx: &Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "src" => self.source = cx.argument(value)?,
            "dst" => self.destination = cx.argument(value)?,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let (source, destination) = (args.mandatory("SRC"), args.mandatory("DST"));
    let identifier = args.keyword("IDENTIFIER").unwrap_or(0);
    args.finish()?;
    let series = Numbered::new(source.ok_or(Refused)?, destination.ok_or(Refused)?, identifier);
    Ok(Box::new(IcmpPingEncap(series)))
}

impl Element for IcmpPingEncap {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        self.0.encapsulate((icmp4::ECHO, 0), true, batch, cx);
    }

    fn handlers(&self) -> Vec<Handler> {
        ["src", "dst"].map(Handler::read_write).into()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        self.0.read(handler)
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.0.write(handler, value, cx)
    }
}
