//! ICMPError: tells the sender of a packet what went wrong with it.
//!
//! Group: icmp
//! Usage: `ICMPError(SRC, TYPE [, CODE, BADADDRS, MTU, PMTU, SET_FIX_ANNO])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Expects IPv4 packets whose network header is marked. For each, an ICMP error to its sender
//! leaves, with the packet's header and the beginning of its data. The error has its destination
//! annotation set, and usually the one that tells [FixIPSrc] to put the address of the interface
//! that it leaves by in the place of `SRC`. Lead it back to the route lookup, as if it had come in
//! from outside.
//!
//! As RFC 1812, 4.3.2.7 says there is no error about ICMP errors, later fragments, packets to a
//! broadcast or multicast address or in a broadcast frame, and packets whose source is no single
//! host. If a packet came by a source route, the error goes back by the same route (4.3.2.6).
//!
//! - `SRC` (IPv4 address): the errors' source
//! - `TYPE` (number or name): `unreachable`, `sourcequench`, `redirect`, `timeexceeded`,
//!   `parameterproblem`
//! - `CODE` (number or name): what it is exactly; default 0. Of `unreachable`: `net`, `host`,
//!   `protocol`, `port`, `needfrag`, `srcroutefail`, `netunknown`, `hostunknown`, `isolated`,
//!   `netprohibited`, `hostprohibited`, `tosnet`, `toshost`, `filterprohibited`, `hostprecedence`,
//!   `precedencecutoff`; of `redirect`: `net`, `host`, `tosnet`, `toshost`; of `timeexceeded`:
//!   `transit`, `reassembly`; of `parameterproblem`: `erroratptr`, `missingopt`, `length`
//! - `BADADDRS` (IPv4 addresses): further addresses that are no single host, such as the networks'
//!   broadcast addresses
//! - `MTU` (bytes): the largest error; default 576
//! - `PMTU` (bytes): what `needfrag` says the next link takes; default 0
//! - `SET_FIX_ANNO` (boolean): whether to set the annotation for FixIPSrc; default true
//!
//! A `redirect` names the gateway in the destination annotation; `erroratptr` points to where
//! [IPGWOptions] found the mistake.
//!
//! Handlers:
//! - `src`, `mtu`, `pmtu` (read, write): the arguments
//! - `config` (read, write): its arguments
//!
//! ```click
//! ttl :: DecIPTTL; ttl[1] -> ICMPError(10.0.0.1, timeexceeded) -> [0]rt;
//! ```
//!
//! See also: [DecIPTTL], [FixIPSrc], [IPGWOptions], [ICMP6Error]

use std::net::Ipv4Addr;

use graph::arguments::{Arguments, Refused, offset};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::{Packet, PacketType};
use wire::icmp4::{self, unreachable};
use wire::{Reason, checksum, ipv4, protocol};

use super::copy_from_network;
use crate::basic::of_type;

pub const CLASS: Class = Class {
    name: "ICMPError",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("icmp_error.rs"),
    make,
};

/// Code of a parameter problem: the pointer says where.
const AT_POINTER: u8 = 0;
/// Loose and strict source route, without the bit that says they are copied.
const SOURCE_ROUTES: [u8; 2] = [131, 137];
/// Time to live of errors, as Click's.
const TTL: u8 = 200;

struct IcmpError {
    source: Ipv4Addr,
    icmp_type: u8,
    code: u8,
    bad: Vec<Ipv4Addr>,
    mtu: u32,
    path_mtu: u32,
    fix: bool,
    /// Identification of the next error.
    id: u16,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let source = args.mandatory("SRC");
    let kind = super::type_and_code(args);
    let bad = args.optional::<Vec<Ipv4Addr>>("BADADDRS").unwrap_or_default();
    let mtu = args.keyword("MTU").unwrap_or(576);
    let path_mtu = args.keyword("PMTU").unwrap_or(0);
    let fix = args.keyword("SET_FIX_ANNO").unwrap_or(true);
    if let Some((icmp_type, _)) = kind.filter(|(icmp_type, _)| !is_error(*icmp_type)) {
        args.wrong("TYPE", format!("ICMP type {icmp_type} is not an error type"));
    }
    args.finish()?;
    let (icmp_type, code) = kind.ok_or(Refused)?;
    let source = source.ok_or(Refused)?;
    Ok(Box::new(IcmpError { source, icmp_type, code, bad, mtu, path_mtu, fix, id: 1 }))
}

/// The five types that are errors for certain; [`icmp4::is_error`] takes unknown ones for errors
/// too.
fn is_error(icmp_type: u8) -> bool {
    matches!(
        icmp_type,
        icmp4::UNREACHABLE
            | icmp4::SOURCE_QUENCH
            | icmp4::REDIRECT
            | icmp4::TIME_EXCEEDED
            | icmp4::PARAMETER_PROBLEM
    )
}

impl IcmpError {
    /// The error about a packet; `None` where there must be none, or no packet memory.
    fn about(&mut self, packet: &Packet, wall: i64) -> Option<Packet> {
        let bytes = packet.network();
        let ip = ipv4::Packet::parse(bytes).ok()?;
        let answered = ip.fragment_offset() == 0
            && self.is_one_host(ip.destination())
            && self.is_source(ip.source())
            && !matches!(packet.annotations().kind, PacketType::Broadcast | PacketType::Multicast);
        let about_error = ip.protocol() == protocol::ICMP
            && bytes.get(ip.header_len()).is_none_or(|icmp_type| is_error(*icmp_type));
        if !answered || about_error {
            return None;
        }
        let pointer = packet.annotation_byte(offset::ICMP_PARAMPROB);
        let route = source_route(ip.options());
        if route.is_some() && self.icmp_type == icmp4::REDIRECT {
            return None;
        }
        // The route back is not taken when it is the route that is wrong.
        let wrong = |at: usize, option: &[u8]| {
            let at = ipv4::HEADER + at;
            self.is_pointing() && (at..at + option.len()).contains(&pointer.into())
        };
        let route = route.filter(|(at, option)| !wrong(*at, option)).map(|(_, option)| option);
        let options = route.map_or(Vec::new(), reversed);
        let header = ipv4::HEADER + options.len();

        let least = header + icmp4::HEADER;
        let mut error = vec![0; least.max(self.mtu as usize).min(usize::from(u16::MAX))];
        let length = least + copy_from_network(packet, &mut error[least..]);
        error.truncate(length);
        let repr = ipv4::Repr {
            id: self.id,
            ttl: TTL,
            protocol: protocol::ICMP,
            ..ipv4::Repr::new(self.source, ip.source())
        };
        self.id = self.id.wrapping_add(1);
        error[..ipv4::HEADER].copy_from_slice(&repr.header(length - ipv4::HEADER));
        error[0] = 0x40 | (header / 4) as u8;
        error[ipv4::HEADER..header].copy_from_slice(&options);
        error[10..12].fill(0);
        let sum = checksum::of(&error[..header]);
        error[10..12].copy_from_slice(&sum.to_be_bytes());

        let icmp = &mut error[header..];
        (icmp[0], icmp[1]) = (self.icmp_type, self.code);
        match (self.icmp_type, self.code) {
            (icmp4::PARAMETER_PROBLEM, AT_POINTER) => icmp[4] = pointer,
            (icmp4::REDIRECT, _) => {
                icmp[4..8].copy_from_slice(&packet.destination);
            }
            (icmp4::UNREACHABLE, unreachable::FRAGMENTATION_NEEDED) => {
                icmp[6..8].copy_from_slice(&(self.path_mtu as u16).to_be_bytes());
            }
            _ => {}
        }
        let sum = checksum::of(icmp);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());

        let mut answer = Packet::new(&error)?;
        answer.input = packet.input;
        answer.set_network(0);
        answer.set_transport(Some(header as isize));
        answer.annotations_mut().timestamp = wall;
        answer.destination = ip.source().octets();
        if self.fix {
            answer.set_annotation_byte(offset::FIX_IP_SRC, 1);
        }
        Some(answer)
    }

    fn is_pointing(&self) -> bool {
        (self.icmp_type, self.code) == (icmp4::PARAMETER_PROBLEM, AT_POINTER)
    }

    fn is_one_host(&self, address: Ipv4Addr) -> bool {
        !address.is_broadcast() && !address.is_multicast() && !self.bad.contains(&address)
    }

    /// Whether errors may be sent to an address (RFC 1812, 5.3.7).
    fn is_source(&self, address: Ipv4Addr) -> bool {
        self.is_one_host(address) && !matches!(address.octets()[0], 0 | 127 | 240..)
    }

    /// What becomes of the packet that the error is about.
    fn reason(&self) -> Reason {
        match (self.icmp_type, self.code) {
            (icmp4::TIME_EXCEEDED, _) => Reason::TtlExpired,
            (icmp4::UNREACHABLE, unreachable::NET) => Reason::NoRoute,
            (icmp4::UNREACHABLE, unreachable::FRAGMENTATION_NEEDED) => Reason::TooBig,
            (icmp4::UNREACHABLE, 9 | 10 | unreachable::PROHIBITED) => Reason::Prohibit,
            (icmp4::UNREACHABLE, _) => Reason::Unreachable,
            (icmp4::PARAMETER_PROBLEM, _) => Reason::Malformed,
            // A copy: the packet itself went on.
            _ => Reason::Discarded,
        }
    }
}

/// A source route of which a part has been gone, with its place in the options.
fn source_route(options: &[u8]) -> Option<(usize, &[u8])> {
    let mut at = 0;
    while let Some(rest) = options.get(at..) {
        match *rest {
            [] | [ipv4::option::END, ..] => return None,
            [ipv4::option::NOP, ..] => at += 1,
            [kind, length, ..] if length >= 2 && usize::from(length) <= rest.len() => {
                let option = &rest[..usize::from(length)];
                let pointer = option.get(2).copied().unwrap_or_default();
                let begun = pointer >= 4 && pointer % 4 == 0 && pointer <= length.saturating_add(1);
                if SOURCE_ROUTES.contains(&kind) && begun {
                    return Some((at, option));
                }
                at += usize::from(length);
            }
            _ => return None,
        }
    }
    None
}

/// The part of a source route that has been gone, the other way round, as padded options.
fn reversed(route: &[u8]) -> Vec<u8> {
    let &[kind, _, pointer, ref addresses @ ..] = route else { return Vec::new() };
    let gone = addresses.get(..usize::from(pointer) - 4).unwrap_or(addresses);
    let mut options = vec![kind, gone.len() as u8 + 3, 4];
    options.extend(gone.rchunks_exact(4).flatten());
    options.resize(options.len().next_multiple_of(4), ipv4::option::END);
    options
}

impl Element for IcmpError {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let (wall, reason, mut without) = (cx.wall(), self.reason(), 0u64);
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            match self.about(packet, wall) {
                Some(error) => cx.drop(std::mem::replace(packet, error), reason),
                None => without |= 1 << index,
            }
        }
        batch.take(without, |_, packet| {
            cx.count_suppressed();
            cx.drop(packet, reason);
        });
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![
            Handler::read("src").replacing(Some(0), "SRC"),
            Handler::read("mtu").replacing(None, "MTU"),
            Handler::read("pmtu").replacing(None, "PMTU"),
        ]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "src" => Ok(self.source.to_string()),
            "mtu" => Ok(self.mtu.to_string()),
            "pmtu" => Ok(self.path_mtu.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        if let Some(old) = of_type::<IcmpError>(old) {
            self.id = old.id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::Pool;
    use proptest::prelude::*;

    fn error(icmp_type: u8, mtu: u32) -> IcmpError {
        let (code, bad, path_mtu) = (0, Vec::new(), 0);
        IcmpError { source: [10, 0, 0, 1].into(), icmp_type, code, bad, mtu, path_mtu, fix: true, id: 1 }
    }

    #[test]
    fn a_route_is_gone_back() {
        let route = [137, 15, 12, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3];
        assert_eq!(source_route(&route), Some((0, &route[..])));
        assert_eq!(reversed(&route), [137, 11, 4, 2, 2, 2, 2, 1, 1, 1, 1, 0]);
        let behind = [1, 137, 7, 8, 1, 2, 3, 4, 0];
        assert_eq!(source_route(&behind), Some((1, &behind[1..8])));
        assert_eq!(reversed(&behind[1..8]), [137, 7, 4, 1, 2, 3, 4, 0]);
        assert_eq!(source_route(&[137, 7, 5, 1, 2, 3, 4]), None);
        assert_eq!(source_route(&[137, 9, 4, 1]), None);
    }

    proptest! {
        #[test]
        fn errors_about_anything_are_right(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), options in 5u8..=15, mtu in 0u32..700, kind in 0usize..5, route: bool) {
            Pool::heap(4).install();
            let bytes = {
                if let Some(header) = bytes.first_chunk_mut::<20>() {
                    header[0] = 0x40 | options;
                    header[2] = 0xff;
                    (header[6], header[7]) = (0, 0);
                    (header[12], header[16]) = (10, 10);
                }
                if route && let Some(first) = bytes.get_mut(20..23) {
                    first.copy_from_slice(&[131, 11, 8]);
                }
                bytes
            };
            let mut packet = Packet::new(&bytes).unwrap();
            packet.set_network(0);
            let kind = [3, 4, 5, 11, 12][kind];
            let Some(answer) = error(kind, mtu).about(&packet, 0) else { return Ok(()) };
            let ip = ipv4::Packet::parse(answer.data()).unwrap();
            prop_assert!(ip.checksum_ok() && checksum::verify(ip.payload()));
            prop_assert_eq!(usize::from(ip.total_len()), answer.len());
            prop_assert!(answer.len() <= (mtu as usize).max(60 + icmp4::HEADER));
            let quoted = &ip.payload()[icmp4::HEADER..];
            prop_assert_eq!(quoted, &bytes[..quoted.len()]);
        }
    }
}
