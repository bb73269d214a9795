//! IPEncap: makes packets the data of IPv4 packets.
//!
//! Group: ip
//! Usage: `IPEncap(PROTO, SRC, DST [, keywords TTL, DSCP, ECT, CE, TOS, DF])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Puts an IPv4 header in front of every packet, marks it, and sets the destination annotation.
//! Packets are numbered from 0.
//!
//! - `PROTO` (number or name): what the packets are, such as `ipip` or 4 for IPv4 in IPv4
//! - `SRC` (IPv4 address): from whom
//! - `DST` (IPv4 address, or `DST_ANNO`): to whom; `DST_ANNO`: to the address in the packet's
//!   destination annotation
//! - `TTL` (byte): default 250
//! - `DSCP` (number below 63): the differentiated services code point. Default 0.
//! - `ECT` (boolean, or 2): true or 1: the ends know of explicit congestion notification, ECT(1);
//!   2: ECT(0). Default false.
//! - `CE` (boolean): whether congestion was met. Default false.
//! - `TOS` (byte): all of the type of service, instead of `DSCP`, `ECT` and `CE`
//! - `DF` (boolean): whether the packets may not be fragmented. Default false.
//!
//! Handlers:
//! - `src`, `dst` (read, write): the arguments
//! - `config` (read, write): its arguments
//!
//! See also: [UDPIPEncap], [ICMPIPEncap], [StripIPHeader]

use std::net::Ipv4Addr;

use graph::arguments::{
    Argument, Arguments, Blame, Keyword, Kind, Refused, Scope, parse_error, parse_integer,
};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Reason, ipv4};

use crate::basic::of_type;

/// See [`IpEncap`].
pub const CLASS: Class = Class {
    name: "IPEncap",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ip_encap.rs"),
    make,
};

/// To whom packets go.
#[derive(Clone, Copy)]
pub(crate) enum Destination {
    Address(Ipv4Addr),
    /// Whom their annotations say.
    Annotation,
}

impl Destination {
    /// Reads it; `mistake` is said of what it can't be.
    pub(crate) fn parse(text: &str, scope: &Scope<'_>, mistake: &str) -> Result<Destination, String> {
        match text {
            "DST_ANNO" => Ok(Destination::Annotation),
            _ => Ipv4Addr::parse(text, scope).map(Destination::Address).map_err(|_| mistake.to_owned()),
        }
    }

    /// That of a packet, which is noted on it.
    pub(crate) fn of(self, packet: &mut Packet) -> Ipv4Addr {
        match self {
            Destination::Annotation => Ipv4Addr::from(packet.destination),
            Destination::Address(address) => {
                packet.destination = address.octets();
                address
            }
        }
    }
}

const WRONG_DESTINATION: &str = "DST argument should be IP address or 'DST_ANNO'";

/// Makes IPv4 packets.
struct IpEncap {
    /// What is the same in all headers.
    header: ipv4::Repr,
    destination: Destination,
    id: u16,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let protocol = args.mandatory_with("PROTO", |text, scope| match scope.number(Kind::Protocol, text) {
        Some(number) => u8::try_from(number).map_err(|_| "bad IP protocol".to_owned()),
        None => parse_integer(text, 0, 255).map(|number| number as u8).map_err(|_| parse_error()),
    });
    let source = args.mandatory("SRC");
    let destination =
        args.mandatory_with("DST", |text, scope| Destination::parse(text, scope, WRONG_DESTINATION));
    let tos = args.keyword::<u32>("TOS");
    let ttl = args.keyword("TTL").unwrap_or(250);
    let dscp = args.keyword::<u32>("DSCP");
    let ect = args.keyword_with("ECT", |text, scope| {
        let Keyword(word) = Argument::parse(text, scope)?;
        match (word.as_str(), bool::parse(&word, scope)) {
            ("2", _) => Ok(2),
            (_, Ok(capable)) => Ok(u8::from(capable)),
            _ => Err(format!("bad ECT value '{word}'")),
        }
    });
    let ect = ect.unwrap_or(0);
    let congested = args.keyword("CE").unwrap_or(false);
    let whole = args.keyword("DF").unwrap_or(false);
    let mistake = match (tos, dscp) {
        (Some(_), Some(_)) => "cannot set both TOS and DSCP",
        (Some(_), _) if ect != 0 || congested => "cannot set both TOS and ECN bits",
        (Some(256..), _) => "TOS too large; max 255",
        (_, Some(63..)) => "DSCP too large; max 63",
        _ if ect != 0 && congested => "can set at most one ECN option",
        _ => "",
    };
    if !mistake.is_empty() {
        args.wrong(Blame::Element, mistake);
    }
    args.finish()?;
    let tos = tos.or(dscp.map(|dscp| dscp << 2)).map_or(0, |tos| tos as u8);
    let header = ipv4::Repr {
        tos: tos | if congested { 3 } else { ect },
        ttl,
        protocol: protocol.ok_or(Refused)?,
        fragment: if whole { ipv4::DONT_FRAGMENT } else { 0 },
        ..ipv4::Repr::new(source.ok_or(Refused)?, Ipv4Addr::UNSPECIFIED)
    };
    Ok(Box::new(IpEncap { header, destination: destination.ok_or(Refused)?, id: 0 }))
}

impl IpEncap {
    /// False, and nothing done, when there is no room in front of the packet.
    fn encapsulate(&mut self, packet: &mut Packet) -> bool {
        let length = packet.total_len();
        if packet.headroom() < ipv4::HEADER {
            return false;
        }
        let destination = self.destination.of(packet);
        let Some(front) = packet.push(ipv4::HEADER) else { return false };
        front.copy_from_slice(&ipv4::Repr { id: self.id, destination, ..self.header }.header(length));
        self.id = self.id.wrapping_add(1);
        packet.set_network(0);
        packet.set_transport(Some(ipv4::HEADER as isize));
        true
    }
}

impl Element for IpEncap {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut failed = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            failed |= u64::from(!self.encapsulate(packet)) << index;
        }
        batch.take(failed, |_, packet| cx.drop(packet, Reason::NoBuffer));
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("src").replacing(Some(1), "SRC"), Handler::read("dst").replacing(Some(2), "DST")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match (handler, self.destination) {
            ("src", _) => Ok(self.header.source.to_string()),
            ("dst", Destination::Annotation) => Ok("DST_ANNO".to_owned()),
            ("dst", Destination::Address(address)) => Ok(address.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        if let Some(old) = of_type::<IpEncap>(old) {
            self.id = old.id;
        }
    }
}
