//! ICMP6Error: tells the sender of an IPv6 packet what went wrong with it.
//!
//! Group: ip6
//! Usage: `ICMP6Error(SRC, TYPE, CODE [, PMTU])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Expects IPv6 packets whose network header is marked. For each, an ICMPv6 error or redirect to
//! its sender leaves, with up to 568 bytes of the packet; its destination annotation is set. Lead
//! it back to the route lookup, as if it had come in from outside.
//!
//! As RFC 4443, 2.4 (e) says there is no error about ICMPv6 errors and redirects, packets to a
//! multicast address or in a broadcast frame, and packets whose source is no single host.
//!
//! - `SRC` (IPv6 address): the errors' source
//! - `TYPE` (number): 1 unreachable, 2 packet too big, 3 time exceeded, 4 parameter problem, 137
//!   redirect
//! - `CODE` (number): what it is exactly
//! - `PMTU` (bytes): what "packet too big" says the next link takes; default 1500
//!
//! A redirect names the gateway in the destination annotation. A parameter problem with code 0
//! points to where the annotation `ICMP_PARAMPROB` says.
//!
//! See also: [DecIP6HLIM], [IP6Fragmenter], [ICMPError]

use std::net::Ipv6Addr;

use graph::arguments::{Arguments, Refused, offset};
use graph::{Batch, Class, Context, Element, Setup};
use port::{Packet, PacketType};
use wire::{Reason, checksum, icmp6, ipv6, protocol};

use super::{destination, set_destination};

pub const CLASS: Class = Class {
    name: "ICMP6Error",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("icmp6_error.rs"),
    make,
};

/// How much of a packet an error quotes, as Click's.
const QUOTE: usize = 568;

struct Icmp6Error {
    source: Ipv6Addr,
    icmp_type: u8,
    code: u8,
    path_mtu: u32,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let source = args.mandatory::<Ipv6Addr>("SRC");
    let (icmp_type, code) = (args.mandatory::<u8>("TYPE"), args.mandatory::<u8>("CODE"));
    let path_mtu = args.keyword("PMTU").unwrap_or(1500);
    if source.is_some_and(|source| source.is_unspecified()) {
        args.wrong("SRC", "not configured");
    }
    if let Some(number) = icmp_type.filter(|number| !matches!(number, 1..=4 | &icmp6::REDIRECT)) {
        args.wrong("TYPE", format!("ICMP6 type {number} is not an error or redirect type"));
    }
    args.finish()?;
    let (source, icmp_type, code) = (source.ok_or(Refused)?, icmp_type.ok_or(Refused)?, code.ok_or(Refused)?);
    Ok(Box::new(Icmp6Error { source, icmp_type, code, path_mtu }))
}

impl Icmp6Error {
    fn about(&self, packet: &Packet) -> Option<Packet> {
        let bytes = packet.network();
        let ip = ipv6::Packet::parse(bytes).ok()?;
        let upper = ip.upper_layer();
        let about_error = upper.protocol == protocol::ICMP6
            && !upper.later_fragment
            && bytes
                .get(upper.offset)
                .is_none_or(|icmp_type| icmp6::is_error(*icmp_type) || *icmp_type == icmp6::REDIRECT);
        let (from, to) = (ip.source(), ip.destination());
        let one_host = !(from.is_multicast() || from.is_unspecified() || from.is_loopback());
        let group = matches!(packet.annotations().kind, PacketType::Broadcast | PacketType::Multicast);
        if about_error || !one_host || to.is_multicast() || group {
            return None;
        }
        let mut message = vec![self.icmp_type, self.code, 0, 0];
        let word = match (self.icmp_type, self.code) {
            (icmp6::PACKET_TOO_BIG, 0) => self.path_mtu,
            (icmp6::PARAMETER_PROBLEM, 0) => packet.annotation_byte(offset::ICMP_PARAMPROB).into(),
            _ => 0,
        };
        message.extend(word.to_be_bytes());
        if self.icmp_type == icmp6::REDIRECT {
            message.extend(destination(packet).octets());
            message.extend(to.octets());
        }
        let all = std::iter::once(bytes).chain(packet.segments().skip(1)).flatten();
        message.extend(all.take(QUOTE));
        let sum =
            checksum::pseudo6(self.source.to_bits(), from.to_bits(), protocol::ICMP6, message.len() as u32);
        let sum = sum.with(&message).finish();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let header =
            ipv6::Repr { next_header: protocol::ICMP6, hop_limit: 255, ..ipv6::Repr::new(self.source, from) };
        let mut error = Packet::new(&[&header.header(message.len())[..], &message].concat())?;
        error.input = packet.input;
        error.set_network(0);
        error.set_transport(Some(ipv6::HEADER as isize));
        set_destination(&mut error, from);
        error.set_annotation_byte(offset::FIX_IP_SRC, 1);
        Some(error)
    }

    /// What becomes of the packet that the error is about.
    fn reason(&self) -> Reason {
        match (self.icmp_type, self.code) {
            (icmp6::UNREACHABLE, icmp6::unreachable::NO_ROUTE) => Reason::NoRoute,
            (icmp6::UNREACHABLE, icmp6::unreachable::PROHIBITED) => Reason::Prohibit,
            (icmp6::UNREACHABLE, _) => Reason::Unreachable,
            (icmp6::PACKET_TOO_BIG, _) => Reason::TooBig,
            (icmp6::TIME_EXCEEDED, _) => Reason::TtlExpired,
            (icmp6::PARAMETER_PROBLEM, _) => Reason::Malformed,
            // A copy: the packet itself went on.
            _ => Reason::Discarded,
        }
    }
}

impl Element for Icmp6Error {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let (reason, mut without) = (self.reason(), 0u64);
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            match self.about(packet) {
                Some(error) => cx.drop(std::mem::replace(packet, error), reason),
                None => without |= 1 << index,
            }
        }
        batch.take(without, |_, packet| {
            cx.count_suppressed();
            cx.drop(packet, reason);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::Pool;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn errors_about_anything_are_right(mut bytes in proptest::collection::vec(any::<u8>(), 0..700), kind in 0usize..5) {
            Pool::heap(4).install();
            if let Some(header) = bytes.first_chunk_mut::<40>() {
                header[0] = 0x60;
                (header[8], header[24]) = (0x20, 0x20);
            }
            let mut packet = Packet::new(&bytes).unwrap();
            packet.set_network(0);
            let icmp_type = [1, 2, 3, 4, icmp6::REDIRECT][kind];
            let element = Icmp6Error { source: Ipv6Addr::LOCALHOST, icmp_type, code: 0, path_mtu: 1280 };
            let Some(error) = element.about(&packet) else { return Ok(()) };
            let ip = ipv6::Packet::parse(error.data()).unwrap();
            prop_assert_eq!(ipv6::HEADER + usize::from(ip.payload_len()), error.len());
            let sum = checksum::pseudo6(ip.source().to_bits(), ip.destination().to_bits(), 58, ip.payload().len() as u32);
            prop_assert_eq!(sum.with(ip.payload()).fold(), 0xffff);
            let quote = &ip.payload()[if kind == 4 { 40 } else { 8 }..];
            prop_assert_eq!(quote, &bytes[..bytes.len().min(QUOTE)]);
        }
    }
}
