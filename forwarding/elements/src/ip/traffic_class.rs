//! # SetIPDSCP: sets the differentiated services code point of IPv4 packets.
//!
//! Group: ip
//! Usage: `SetIPDSCP(DSCP)`
//! Ports: 1 input, 1 output; agnostic
//!
//! Sets the code point (RFC 2474) and updates the header's checksum for it. Expects marked headers.
//!
//! - `DSCP` (number to 63): the code point
//!
//! Handlers:
//! - `dscp` (read, write): the argument
//! - `config` (read, write): its arguments
//!
//! See also: [SetIPECN], [MarkIPCE], [SetIP6DSCP], [IPClassifier]
//!
//! # SetIPECN: sets the bits for explicit congestion notification of IPv4 packets.
//!
//! Group: ip
//! Usage: `SetIPECN(ECN)`
//! Ports: 1 input, 1 output; agnostic
//!
//! Sets the two bits (RFC 3168) and updates the header's checksum for them. Expects marked headers.
//!
//! - `ECN` (number to 3, or word): `no` or `-`: 0; `ect1` or `ECT(1)`: 1; `ect2` or `ECT(0)`: 2;
//!   `ce` or `CE`: 3
//!
//! Handlers:
//! - `ecn` (read, write): the argument
//! - `config` (read, write): its arguments
//!
//! See also: [SetIPDSCP], [MarkIPCE]
//!
//! # MarkIPCE: says that packets have met congestion.
//!
//! Group: ip
//! Usage: `MarkIPCE([FORCE])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Sets the bits for explicit congestion notification of IPv4 packets to 3, congestion experienced
//! (RFC 3168), and updates the header's checksum. Packets whose ends don't know of it, with 0
//! there, are dropped. Expects marked headers.
//!
//! - `FORCE` (boolean): whether to mark also packets whose ends don't know of it. Default false.
//!
//! Handlers:
//! - `drops` (read): how many packets were dropped
//!
//! See also: [SetIPECN], [SetIPDSCP], [RED]

use graph::arguments::{Argument, Arguments, Raw, Refused, Scope, parse_error};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Reason, checksum};

/// See [`SetBits`].
pub const SET_IP_DSCP: Class = Class {
    name: "SetIPDSCP",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("traffic_class.rs"),
    make: |args, _| make::<Dscp>(args),
};
/// See [`SetBits`].
pub const SET_IP_ECN: Class = Class {
    name: "SetIPECN",
    make: |args: &mut Arguments<'_>, _: &mut Setup<'_>| make::<Ecn>(args),
    ..SET_IP_DSCP
};
/// See [`MarkIpCe`].
pub const MARK_IP_CE: Class = Class { name: "MarkIPCE", make: make_mark, ..SET_IP_DSCP };

const ECN: u8 = 3;
const CONGESTED: u8 = 3;

/// Some of the bits of the type of service.
trait Bits: Argument + Copy + Send + 'static {
    const CLASS: Class;
    const KEYWORD: &'static str;
    const HANDLER: &'static str;
    const MASK: u8;
    /// Their value, in its place.
    fn value(self) -> u8;
    /// As they are written.
    fn text(self) -> String;
}

#[derive(Clone, Copy)]
struct Dscp(u8);

impl Argument for Dscp {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Dscp, String> {
        match u8::try_from(u32::parse(text, scope)?) {
            Ok(value) if value < 64 => Ok(Dscp(value)),
            _ => Err("diffserv code point out of range".to_owned()),
        }
    }
}

impl Bits for Dscp {
    const CLASS: Class = SET_IP_DSCP;
    const KEYWORD: &'static str = "DSCP";
    const HANDLER: &'static str = "dscp";
    const MASK: u8 = !ECN;

    fn value(self) -> u8 {
        self.0 << 2
    }

    fn text(self) -> String {
        self.0.to_string()
    }
}

#[derive(Clone, Copy)]
struct Ecn(u8);

impl Argument for Ecn {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Ecn, String> {
        match Raw::parse(text, scope)?.0.as_str() {
            "0" | "no" | "-" => Ok(Ecn(0)),
            "1" | "ect1" | "ECT(1)" => Ok(Ecn(1)),
            "2" | "ect2" | "ECT(0)" => Ok(Ecn(2)),
            "3" | "ce" | "CE" => Ok(Ecn(CONGESTED)),
            "" => Err(parse_error()),
            _ => Err("bad ECN argument".to_owned()),
        }
    }
}

impl Bits for Ecn {
    const CLASS: Class = SET_IP_ECN;
    const KEYWORD: &'static str = "ECN";
    const HANDLER: &'static str = "ecn";
    const MASK: u8 = ECN;

    fn value(self) -> u8 {
        self.0
    }

    fn text(self) -> String {
        self.0.to_string()
    }
}

/// Sets some of the bits of the type of service.
struct SetBits<B>(B);

fn make<B: Bits>(args: &mut Arguments<'_>) -> Result<Box<dyn Element>, Refused> {
    let bits = args.mandatory::<B>(B::KEYWORD);
    args.finish()?;
    Ok(Box::new(SetBits(bits.ok_or(Refused)?)))
}

/// Sets the bits in `mask` of the type of service, and the checksum with them; nothing without a
/// header.
#[inline]
fn set(packet: &mut Packet, mask: u8, value: u8) {
    let Some(header) = packet.network_mut().first_chunk_mut::<20>() else { return };
    let word = |header: &[u8; 20], at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let before = word(header, 0);
    header[1] = header[1] & !mask | value & mask;
    let sum = checksum::update(word(header, 10), before, word(header, 0));
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

impl<B: Bits> Element for SetBits<B> {
    fn class(&self) -> &'static str {
        B::CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            set(packet, B::MASK, self.0.value());
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read(B::HANDLER).replacing(Some(0), B::KEYWORD)]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        if handler == B::HANDLER { Ok(self.0.text()) } else { Err(HandlerError::unknown(handler)) }
    }
}

/// Marks packets that have met congestion.
struct MarkIpCe {
    force: bool,
    drops: u32,
}

fn make_mark(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let force = args.optional("FORCE").unwrap_or(false);
    args.finish()?;
    Ok(Box::new(MarkIpCe { force, drops: 0 }))
}

impl Element for MarkIpCe {
    fn class(&self) -> &'static str {
        MARK_IP_CE.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut unaware = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            let ecn = packet.network().get(1).map_or(0, |tos| tos & ECN);
            if ecn == 0 && !self.force {
                unaware |= 1 << index;
            } else if ecn != CONGESTED {
                set(packet, ECN, CONGESTED);
            }
        }
        self.drops = self.drops.wrapping_add(unaware.count_ones());
        batch.take(unaware, |_, packet| cx.drop(packet, Reason::QueueFull));
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
