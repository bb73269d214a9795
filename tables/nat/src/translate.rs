//! Packets of one family made packets of the other (RFC 7915), for flows of NAT64 (RFC 6146).
//!
//! The data stays where it is in memory: what is in front of it, the IP header and, in an ICMP
//! error, the header of the message and that of the packet it quotes, is written anew before it. So
//! a packet is a place in a buffer, and there must be [`GROWTH`] bytes free in front of it; what
//! comes back is the new place.
//!
//! What is decided here, where RFC 7915 leaves a choice or names a loss:
//! - Traffic class and TOS are copied, the flow label is 0, TTL and hop limit are copied (the
//!   router decrements them as it forwards).
//! - IPv6 packets of up to 1,260 bytes as IPv4 may be fragmented on their way (DF clear, an
//!   identification of their own), longer ones may not. Fragments keep their offset and the low
//!   half of their identification. IPv4 packets get a fragment header only if they are fragments.
//! - IPv4 options, hop-by-hop and destination options are left behind. Packets with a source route,
//!   or a routing header with segments left, or an authentication header are refused (`Malformed`).
//! - UDP without checksum: over IPv6 it must have one, so it is computed; of a fragment it cannot
//!   be, and that is refused.
//! - ICMP that is fragmented is refused, for its checksum covers the length of the whole; so is all
//!   ICMP that has no like in the other family.
//! - Extensions of ICMP errors (RFC 4884) are left behind; the quote is kept.
//! - An ICMP error's checksum is verified and computed anew: errors are short and rare. All others
//!   are corrected by the difference, so that what came damaged leaves damaged.

use std::ops::Range;

use flow::{Tuple, is_error};
use wire::checksum::{self, pseudo6};
use wire::headers::unmapped;
use wire::{Fragment, Headers, Reason, icmp4, icmp6, ipv4, ipv6, protocol};

use crate::header64::{FRAGMENT_HEADER, header4, header6};
use crate::icmp::{Message, Mtus};
use crate::prefix64::Prefix64;
use crate::rewrite::{ipv4_of, is_ipv4};
use crate::upper64::{quoted_to_ipv4, quoted_to_ipv6, upper_to_ipv4, upper_to_ipv6};

/// Bytes that a packet may grow at its front: twice (in an ICMP error the quote grows too) what an
/// IPv6 header and a fragment header have above an IPv4 header.
pub const GROWTH: usize = 2 * (ipv6::HEADER + FRAGMENT_HEADER - ipv4::HEADER);

/// What one worker knows to translate with.
#[derive(Clone, Debug)]
pub struct Translator {
    /// Behind which IPv4 addresses appear in IPv6.
    pub prefixes: Vec<Prefix64>,
    /// MTUs towards the two sides, of which errors about size speak.
    pub mtus: Mtus,
    /// The next identification of an IPv4 packet that may be fragmented.
    id: u16,
}

impl Translator {
    /// One with the prefixes of all rules ([`Nat::prefixes64`](crate::Nat::prefixes64));
    /// identifications count from `id`, which should differ among workers.
    pub fn new(prefixes: Vec<Prefix64>, mtus: Mtus, id: u16) -> Translator {
        Translator { prefixes, mtus, id }
    }

    fn extract(&self, address: &[u8; 16]) -> Option<[u8; 4]> {
        self.prefixes.iter().find_map(|prefix| prefix.extract(address))
    }

    /// An IPv4 address behind the prefix that another one is behind.
    fn embed_like(&self, other: &[u8; 16], address: [u8; 4]) -> Option<[u8; 16]> {
        let prefix = self.prefixes.iter().find(|prefix| prefix.extract(other).is_some())?;
        Some(prefix.embed(address))
    }

    /// Makes the IPv6 packet at `at` in `buffer` an IPv4 packet: one that came as `seen` and leaves
    /// as `to`, or an ICMPv6 error of that direction. Returns where it is now.
    ///
    /// Refused packets (see the head of this file; `Truncated` for what is cut short, `BadVersion`
    /// for tuples of the wrong family) may have been changed in part: drop them.
    pub fn to_ipv4(
        &mut self,
        buffer: &mut [u8],
        at: usize,
        headers: &Headers,
        seen: &Tuple,
        to: &Tuple,
    ) -> Result<Range<usize>, Reason> {
        let end = end_of(buffer, at, headers)?;
        if headers.version != 6 {
            return Err(Reason::BadVersion);
        }
        if is_error(headers) {
            return self.error_to_ipv4(buffer, at..end, headers, seen, to);
        }
        let transport = at + usize::from(headers.transport);
        self.id = self.id.wrapping_add(1);
        let header = header4(&buffer[at..end], headers, ipv4_of(to)?, self.id)?;
        let from = [headers.source, headers.destination];
        upper_to_ipv4(&mut buffer[transport..end], headers, from, to)?;
        // An IPv6 header is longer, so there is room.
        let start = transport - ipv4::HEADER;
        buffer[start..transport].copy_from_slice(&header);
        Ok(start..end)
    }

    /// Makes the IPv4 packet at `at` in `buffer` an IPv6 packet, as [`Translator::to_ipv4`] does
    /// the reverse; `NoBuffer` when there is no room in front.
    pub fn to_ipv6(
        &mut self,
        buffer: &mut [u8],
        at: usize,
        headers: &Headers,
        seen: &Tuple,
        to: &Tuple,
    ) -> Result<Range<usize>, Reason> {
        let end = end_of(buffer, at, headers)?;
        if headers.version != 4 || is_ipv4(&to.source) || is_ipv4(&to.destination) {
            return Err(Reason::BadVersion);
        }
        if is_error(headers) {
            return self.error_to_ipv6(buffer, at..end, headers, seen, to);
        }
        let transport = at + usize::from(headers.transport);
        let header = header6(&buffer[at..end], headers, [to.source, to.destination])?;
        upper_to_ipv6(&mut buffer[transport..end], headers, to)?;
        let start = transport.checked_sub(header.bytes().len()).ok_or(Reason::NoBuffer)?;
        buffer[start..transport].copy_from_slice(header.bytes());
        Ok(start..end)
    }

    fn error_to_ipv4(
        &mut self,
        buffer: &mut [u8],
        place: Range<usize>,
        headers: &Headers,
        seen: &Tuple,
        to: &Tuple,
    ) -> Result<Range<usize>, Reason> {
        let [to_source, to_destination] = ipv4_of(to)?;
        let icmp = place.start + usize::from(headers.transport);
        if headers.fragment != Fragment::Whole {
            return Err(Reason::Malformed);
        }
        let message = buffer.get(icmp..place.end).ok_or(Reason::Truncated)?;
        let pseudo = pseudo6(
            number(headers.source),
            number(headers.destination),
            protocol::ICMP6,
            message.len() as u32,
        );
        if pseudo.with(message).fold() != 0xffff {
            return Err(Reason::BadChecksum);
        }
        let translated = Message::from_ipv6(message, self.mtus)?;
        let quote = icmp + icmp6::HEADER..(icmp + icmp6::HEADER + translated.quote).min(place.end);
        let quoted = Headers::quoted(&buffer[quote.clone()])?;
        let inner = to.reversed();
        let quote_header = header4(&buffer[quote.clone()], &quoted, ipv4_of(&inner)?, 0)?;
        let upper = quote.start + usize::from(quoted.transport);
        let from = [quoted.source, quoted.destination];
        if quoted.fragment != Fragment::Later {
            let upper = buffer.get_mut(upper..quote.end).ok_or(Reason::Truncated)?;
            quoted_to_ipv4(upper, &quoted, from, &inner)?;
        }
        // Who complains has an IPv4 address if it is one embedded; else it is hidden behind the
        // flow's (RFC 6146, 3.5).
        let source = match headers.source == seen.source {
            true => to_source,
            false => self.extract(&headers.source).unwrap_or(to_source),
        };
        let length = icmp4::HEADER + ipv4::HEADER + (quote.end - upper);
        self.id = self.id.wrapping_add(1);
        let tos = ipv6::Packet::parse(&buffer[place.clone()]).map_or(0, |packet| packet.traffic_class());
        let outer = ipv4::Repr {
            tos,
            id: self.id,
            fragment: 0,
            ttl: headers.ttl,
            protocol: protocol::ICMP,
            source: source.into(),
            destination: to_destination.into(),
        }
        .header(length);
        let mut start = upper;
        put_before(buffer, &mut start, &quote_header)?;
        put_before(buffer, &mut start, &translated.header)?;
        let sum = checksum::of(&buffer[start..quote.end]);
        buffer[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
        put_before(buffer, &mut start, &outer)?;
        Ok(start..quote.end)
    }

    fn error_to_ipv6(
        &mut self,
        buffer: &mut [u8],
        place: Range<usize>,
        headers: &Headers,
        seen: &Tuple,
        to: &Tuple,
    ) -> Result<Range<usize>, Reason> {
        let icmp = place.start + usize::from(headers.transport);
        if headers.fragment != Fragment::Whole {
            return Err(Reason::Malformed);
        }
        let message = buffer.get(icmp..place.end).ok_or(Reason::Truncated)?;
        if !checksum::verify(message) {
            return Err(Reason::BadChecksum);
        }
        let translated = Message::from_ipv4(message, self.mtus)?;
        let quote = icmp + icmp4::HEADER..(icmp + icmp4::HEADER + translated.quote).min(place.end);
        let quoted = Headers::quoted(&buffer[quote.clone()])?;
        let inner = to.reversed();
        let quote_header = header6(&buffer[quote.clone()], &quoted, [inner.source, inner.destination])?;
        let upper = quote.start + usize::from(quoted.transport);
        // No ICMPv6 error is longer than the least MTU (RFC 4443, 2.4 (c)).
        let room = ipv6::MINIMUM_MTU - ipv6::HEADER - icmp6::HEADER - quote_header.bytes().len();
        let quote_end = quote.end.min(upper + room);
        if quoted.fragment != Fragment::Later {
            let upper = buffer.get_mut(upper..quote_end).ok_or(Reason::Truncated)?;
            quoted_to_ipv6(upper, &quoted, &inner)?;
        }
        let source = match headers.source == seen.source {
            true => to.source,
            false => {
                let router = unmapped(&headers.source).ok_or(Reason::BadVersion)?;
                self.embed_like(&to.source, router).unwrap_or(to.source)
            }
        };
        let length = icmp6::HEADER + quote_header.bytes().len() + (quote_end - upper);
        let outer = ipv6::Repr {
            traffic_class: buffer[place.start + 1],
            flow_label: 0,
            next_header: protocol::ICMP6,
            hop_limit: headers.ttl,
            source: source.into(),
            destination: to.destination.into(),
        }
        .header(length);
        let mut start = upper;
        put_before(buffer, &mut start, quote_header.bytes())?;
        put_before(buffer, &mut start, &translated.header)?;
        let pseudo = pseudo6(number(source), number(to.destination), protocol::ICMP6, length as u32);
        let sum = pseudo.with(&buffer[start..quote_end]).finish();
        buffer[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
        put_before(buffer, &mut start, &outer)?;
        Ok(start..quote_end)
    }
}

fn number(address: [u8; 16]) -> u128 {
    u128::from_be_bytes(address)
}

fn put_before(buffer: &mut [u8], start: &mut usize, bytes: &[u8]) -> Result<(), Reason> {
    let from = start.checked_sub(bytes.len()).ok_or(Reason::NoBuffer)?;
    buffer[from..*start].copy_from_slice(bytes);
    *start = from;
    Ok(())
}

/// Where the packet ends; its header is before that.
fn end_of(buffer: &[u8], at: usize, headers: &Headers) -> Result<usize, Reason> {
    let end = at.checked_add(usize::from(headers.length)).ok_or(Reason::Truncated)?;
    if end > buffer.len() || headers.transport > headers.length { Err(Reason::Truncated) } else { Ok(end) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragment6::fragment6;
    use crate::header64::extensions;
    use crate::packets::{self, Plan, checksums_hold, plan, upper_holds};
    use proptest::prelude::*;

    fn translator() -> Translator {
        Translator::new(vec![Prefix64::WELL_KNOWN], Mtus { ipv4: 1500, ipv6: 1500 }, 7)
    }

    /// The packet with room in front.
    fn roomy(packet: &[u8]) -> Vec<u8> {
        [&[0xee; GROWTH][..], packet].concat()
    }

    fn tuple(version: u8, protocol: u8, octets: [[u8; 16]; 2], ports: [u16; 2]) -> Tuple {
        let protocol = match (version, protocol) {
            (4, protocol::ICMP6) => protocol::ICMP,
            (6, protocol::ICMP) => protocol::ICMP6,
            _ => protocol,
        };
        let ports = match protocol {
            protocol::ICMP | protocol::ICMP6 => [ports[0]; 2],
            protocol::GRE => [0; 2],
            _ => ports,
        };
        let [source, destination] = octets.map(|octets| packets::address(version, octets));
        let [source_port, destination_port] = ports;
        Tuple { source, destination, source_port, destination_port, protocol, table: 0 }
    }

    fn to4(packet: &[u8], to: &Tuple) -> Vec<u8> {
        let headers = Headers::parse(packet).unwrap();
        let seen = Tuple::of(&headers, 0);
        let mut buffer = roomy(packet);
        let place = translator().to_ipv4(&mut buffer, GROWTH, &headers, &seen, to).unwrap();
        buffer[place].to_vec()
    }

    fn to6(packet: &[u8], to: &Tuple) -> Vec<u8> {
        let headers = Headers::parse(packet).unwrap();
        let seen = Tuple::of(&headers, 0);
        let mut buffer = roomy(packet);
        let place = translator().to_ipv6(&mut buffer, GROWTH, &headers, &seen, to).unwrap();
        buffer[place].to_vec()
    }

    proptest! {
        #[test]
        fn there_and_back_from_ipv6(plan in plan(&[6]), octets: [[u8; 16]; 2], ports: [u16; 2]) {
            let to = tuple(4, plan.protocol, octets, ports);
            let there = to4(&plan.packet(), &to);
            checksums_hold(&there);
            let headers = Headers::parse(&there).unwrap();
            prop_assert_eq!(Tuple::of(&headers, 0), to);
            prop_assert_eq!((headers.ttl, there[1]), (plan.ttl, plan.tos));
            let plain = Plan { options: false, ..plan }.packet();
            let back = to6(&there, &Tuple::of(&Headers::parse(&plain).unwrap(), 0));
            prop_assert_eq!(back, plain);
        }

        #[test]
        fn there_and_back_from_ipv4(plan in plan(&[4]), octets: [[u8; 16]; 2], ports: [u16; 2]) {
            let to = tuple(6, plan.protocol, octets, ports);
            let there = to6(&plan.packet(), &to);
            checksums_hold(&there);
            prop_assert_eq!(Tuple::of(&Headers::parse(&there).unwrap(), 0), to);
            let plain = Plan { options: false, bare: false, ..plan }.packet();
            let mut back = to4(&there, &Tuple::of(&Headers::parse(&plain).unwrap(), 0));
            checksums_hold(&back);
            back[4..6].copy_from_slice(&plain[4..6]);
            ipv4::set_checksum(&mut back[..20]);
            prop_assert_eq!(back, plain);
        }

        #[test]
        fn fragments_stay_fragments(plan in plan(&[4, 6]), octets: [[u8; 16]; 2], ports: [u16; 2]) {
            let query = matches!(plan.protocol, protocol::ICMP | protocol::ICMP6);
            let ports = if plan.protocol == protocol::SCTP { plan.ports } else { ports };
            let other = 10 - plan.version;
            let to = tuple(other, plan.protocol, octets, ports);
            let (mut upper, mut whole) = (Vec::new(), false);
            for packet in (Plan { bare: false, ..plan.clone() }).fragments(24) {
                let headers = Headers::parse(&packet).unwrap();
                whole = headers.fragment == Fragment::Whole;
                if query && !whole {
                    let mut buffer = roomy(&packet);
                    let refused = match other {
                        4 => translator().to_ipv4(&mut buffer, GROWTH, &headers, &to, &to),
                        _ => translator().to_ipv6(&mut buffer, GROWTH, &headers, &to, &to),
                    };
                    prop_assert_eq!(refused, Err(Reason::Malformed));
                    return Ok(());
                }
                let there = if other == 4 { to4(&packet, &to) } else { to6(&packet, &to) };
                checksums_hold(&there);
                let new = Headers::parse(&there).unwrap();
                prop_assert_eq!(new.fragment, headers.fragment);
                if !whole {
                    prop_assert_eq!(new.fragment_id, 0x1234);
                }
                upper.extend_from_slice(&there[usize::from(new.transport)..]);
            }
            prop_assert!(whole || upper.len() > 24);
            upper_holds(to.source, to.destination, to.protocol, &upper);
        }

        #[test]
        fn errors_become_errors(plan in plan(&[4, 6]), octets: [[u8; 16]; 2], ports: [u16; 2], router: [u8; 16], cut in 8usize..300, which in 0usize..3) {
            let plan = Plan { bare: false, ..plan };
            let other = 10 - plan.version;
            let quoted = Tuple::of(&Headers::parse(&plan.packet()).unwrap(), 0);
            let mut to = tuple(other, plan.protocol, octets, ports);
            if other == 6 {
                to.source = Prefix64::WELL_KNOWN.embed([203, 0, 113, 7]);
            }
            let kinds = if other == 6 { [(3, 3), (11, 0), (3, 4)] } else { [(1, 4), (3, 0), (2, 0)] };
            let front = usize::from(Headers::parse(&plan.packet()).unwrap().transport);
            let mut router = packets::address(plan.version, router);
            if plan.version == 6 && which == 0 {
                router = Prefix64::WELL_KNOWN.embed([192, 0, 2, 99]);
            }
            let packet = plan.error(router, kinds[which].0, kinds[which].1, front + cut);
            let headers = Headers::parse(&packet).unwrap();
            let mut buffer = roomy(&packet);
            let seen = quoted.reversed();
            let place = match other {
                4 => translator().to_ipv4(&mut buffer, GROWTH, &headers, &seen, &to).unwrap(),
                _ => translator().to_ipv6(&mut buffer, GROWTH, &headers, &seen, &to).unwrap(),
            };
            let there = &buffer[place];
            if plan.protocol != protocol::SCTP {
                checksums_hold(there);
            }
            let new = Headers::parse(there).unwrap();
            prop_assert_eq!((new.version, new.destination), (other, to.destination));
            prop_assert_eq!((new.icmp_type, new.icmp_code), [[(1, 4), (3, 0), (2, 0)], [(3, 3), (11, 0), (3, 4)]][usize::from(other == 4)][which]);
            let inner = Headers::quoted(crate::errors::quote(there, &new).unwrap()).unwrap();
            prop_assert_eq!(Tuple::of(&inner, 0), to.reversed());
            if other == 6 {
                let embedded = Prefix64::WELL_KNOWN.embed(unmapped(&router).unwrap());
                prop_assert_eq!(new.source, if router == seen.source { to.source } else { embedded });
            } else if which == 0 {
                prop_assert_eq!(unmapped(&new.source), Some([192, 0, 2, 99]));
            }
        }

        #[test]
        fn mutated_packets_never_panic(
            plan in plan(&[4, 6]),
            mutations in proptest::collection::vec((0usize..160, any::<u8>()), 0..4),
            error in proptest::option::of(0u8..13),
            octets: [[u8; 16]; 2],
            room in 0usize..=GROWTH,
        ) {
            let mut packet = match error {
                Some(icmp_type) => plan.error(plan.destination, icmp_type, 0, 80),
                None => plan.packet(),
            };
            for (at, byte) in mutations {
                if let Some(place) = packet.get_mut(at) {
                    *place = byte;
                }
            }
            if let Ok(headers) = Headers::parse(&packet) {
                let seen = Tuple::of(&headers, 0);
                let to = tuple(10 - headers.version, headers.protocol, octets, [5, 6]);
                for to in [to, seen] {
                    let mut buffer = roomy(&packet)[GROWTH - room..].to_vec();
                    let _ = translator().to_ipv4(&mut buffer, room, &headers, &seen, &to);
                    let mut buffer = roomy(&packet)[GROWTH - room..].to_vec();
                    let _ = translator().to_ipv6(&mut buffer, room, &headers, &seen, &to);
                }
            }
        }

        #[test]
        fn fragments_of_a_large_packet_make_it_up(length in 1200usize..5000, mtu in 1280usize..1600) {
            let plan = Plan {
                version: 6,
                protocol: protocol::UDP,
                source: packets::address(6, [1; 16]),
                destination: packets::address(6, [2; 16]),
                ports: [1, 2],
                payload: (0..length).map(|i| i as u8).collect(),
                bare: false,
                options: false,
                ttl: 64,
                tos: 0,
            };
            let packet = plan.packet();
            let mut upper = Vec::new();
            let done = fragment6(&packet, mtu, 99, |header, data| {
                let fragment = [&header[..], data].concat();
                assert!(fragment.len() <= mtu);
                let headers = Headers::parse(&fragment).unwrap();
                assert_eq!(headers.fragment_id, 99);
                assert_eq!(extensions(&fragment, &headers).unwrap().unwrap().offset as usize * 8, upper.len());
                upper.extend_from_slice(data);
            });
            prop_assert_eq!(done, packet.len() > mtu);
            if done {
                prop_assert_eq!(&upper, &packet[40..]);
            }
        }
    }

    #[test]
    fn sizes_in_errors_are_those_of_the_other_side() {
        let mtus = Mtus { ipv4: 1400, ipv6: 9000 };
        let word = |message: Message| u32::from_be_bytes(message.header[4..].try_into().unwrap());
        let from4 = |mtu: u16| Message::from_ipv4(&[3, 4, 0, 0, 0, 0, (mtu >> 8) as u8, mtu as u8], mtus);
        assert_eq!(word(from4(1380).unwrap()), 1400);
        assert_eq!(word(from4(9000).unwrap()), 1420);
        assert_eq!(word(from4(576).unwrap()), 1280);
        let from6 = Message::from_ipv6(&[2, 0, 0, 0, 0, 0, 5, 0], mtus).unwrap();
        assert_eq!((from6.header[0], from6.header[1], word(from6)), (3, 4, 1260));
        // What was fragmented has a header more in IPv6: told 1,260, its sender would be told the
        // same again.
        let mut fragments = vec![2, 0, 0, 0, 0, 0, 5, 0];
        let quoted =
            ipv6::Repr { next_header: protocol::FRAGMENT, ..ipv6::Repr::new([1; 16].into(), [2; 16].into()) };
        fragments.extend(quoted.header(1260));
        assert_eq!(word(Message::from_ipv6(&fragments, mtus).unwrap()), 1252);
        // A router that does not say: the next lower plateau of the packet's length.
        let mut old = vec![3, 4, 0, 0, 0, 0, 0, 0];
        old.extend(ipv4::Repr::new([1, 1, 1, 1].into(), [2, 2, 2, 2].into()).header(1480 - 20));
        assert_eq!(word(Message::from_ipv4(&old, mtus).unwrap()), 1280);
        assert!(Message::from_ipv4(&[5, 0, 0, 0, 0, 0, 0, 0], mtus).is_err());
        assert!(Message::from_ipv6(&[133, 0, 0, 0, 0, 0, 0, 0], mtus).is_err());
    }

    #[test]
    fn large_packets_may_not_be_fragmented_and_small_ones_may() {
        let plan = |payload: usize| Plan {
            version: 6,
            protocol: protocol::UDP,
            source: packets::address(6, [1; 16]),
            destination: packets::address(6, [2; 16]),
            ports: [1, 2],
            payload: vec![0; payload],
            bare: false,
            options: false,
            ttl: 64,
            tos: 0,
        };
        let to = tuple(4, protocol::UDP, [[1; 16], [2; 16]], [3, 4]);
        let small = to4(&plan(1232).packet(), &to);
        assert_eq!((small.len(), small[6], [small[4], small[5]]), (1260, 0, [0, 8]));
        let large = to4(&plan(1233).packet(), &to);
        assert_eq!((large.len(), large[6], [large[4], large[5]]), (1261, 0x40, [0, 0]));
    }
}
