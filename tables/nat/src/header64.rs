//! IP headers of one family for packets of the other (RFC 7915, 4.1 and 5.1).

use std::ops::Range;

use wire::{Fragment, Headers, Reason, ipv4, ipv6, protocol};

/// Bytes of an IPv6 fragment header.
pub(crate) const FRAGMENT_HEADER: usize = 8;
/// An IPv6 packet of the least MTU, as IPv4: up to here it may be fragmented (RFC 7915, 5.1).
const ALWAYS_FITS: usize = ipv6::MINIMUM_MTU - 20;

/// The IPv4 header of an IPv6 packet, of which at least the headers are there.
pub(crate) fn header4(
    ip: &[u8],
    headers: &Headers,
    [source, destination]: [[u8; 4]; 2],
    id: u16,
) -> Result<[u8; ipv4::HEADER], Reason> {
    let packet = ipv6::Packet::parse(ip).map_err(|_| Reason::Truncated)?;
    let fragment = extensions(ip, headers)?;
    if fragment.is_some() && headers.fragment != Fragment::Whole && headers.protocol == protocol::ICMP6 {
        return Err(Reason::Malformed);
    }
    let payload = usize::from(headers.length) - usize::from(headers.transport);
    let (id, word) = match fragment {
        Some(fragment) => (fragment.id as u16, fragment.offset | u16::from(fragment.more) << 13),
        None if ipv4::HEADER + payload <= ALWAYS_FITS => (id, 0),
        None => (0, ipv4::DONT_FRAGMENT),
    };
    let repr = ipv4::Repr {
        tos: packet.traffic_class(),
        id,
        fragment: word,
        ttl: headers.ttl,
        protocol: match headers.protocol {
            protocol::ICMP6 => protocol::ICMP,
            protocol::ICMP => return Err(Reason::Malformed),
            other => other,
        },
        source: source.into(),
        destination: destination.into(),
    };
    if ipv4::HEADER + payload > 65_535 {
        return Err(Reason::TooBig);
    }
    Ok(repr.header(payload))
}

pub(crate) struct FragmentHeader {
    /// In units of 8 bytes.
    pub offset: u16,
    more: bool,
    id: u32,
}

/// The fragment header, if there is one; `Malformed` where a header says that the packet must not
/// be translated.
pub(crate) fn extensions(ip: &[u8], headers: &Headers) -> Result<Option<FragmentHeader>, Reason> {
    let (mut next, mut at, mut found) = (ip[6], ipv6::HEADER, None);
    while at < usize::from(headers.transport) {
        let Some(extension) = ip.get(at..at + 8) else { return Err(Reason::Truncated) };
        let units = usize::from(extension[1]);
        at += match next {
            protocol::FRAGMENT => {
                let word = u16::from_be_bytes([extension[2], extension[3]]);
                let id = u32::from_be_bytes([extension[4], extension[5], extension[6], extension[7]]);
                found = Some(FragmentHeader { offset: word >> 3, more: word & 1 != 0, id });
                8
            }
            protocol::ROUTING if extension[3] != 0 => return Err(Reason::Malformed),
            protocol::AUTHENTICATION => return Err(Reason::Malformed),
            _ => (units + 1) * 8,
        };
        next = extension[0];
    }
    Ok(found)
}

/// An IPv6 header, with a fragment header behind it or without.
pub(crate) enum Header6 {
    Plain([u8; ipv6::HEADER]),
    Fragment([u8; ipv6::HEADER + FRAGMENT_HEADER]),
}

impl Header6 {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Header6::Plain(bytes) => bytes,
            Header6::Fragment(bytes) => bytes,
        }
    }
}

/// The IPv6 header of an IPv4 packet, of which at least the header is there.
pub(crate) fn header6(
    ip: &[u8],
    headers: &Headers,
    [source, destination]: [[u8; 16]; 2],
) -> Result<Header6, Reason> {
    let packet = ipv4::Packet::parse(ip).map_err(|_| Reason::Truncated)?;
    let routed = |place: Result<Range<usize>, usize>| {
        place.is_ok_and(|place| matches!(packet.options()[place.start], 131 | 137))
    };
    if ipv4::option::places(packet.options()).any(routed) {
        return Err(Reason::Malformed);
    }
    let next = match headers.protocol {
        protocol::ICMP if headers.fragment != Fragment::Whole => return Err(Reason::Malformed),
        protocol::ICMP => protocol::ICMP6,
        protocol::ICMP6 | protocol::IGMP => return Err(Reason::Malformed),
        other => other,
    };
    let payload = usize::from(headers.length) - usize::from(headers.transport);
    let repr = ipv6::Repr {
        traffic_class: packet.tos(),
        flow_label: 0,
        next_header: next,
        hop_limit: headers.ttl,
        source: source.into(),
        destination: destination.into(),
    };
    if headers.fragment == Fragment::Whole {
        return Ok(Header6::Plain(repr.header(payload)));
    }
    let mut bytes = [0; ipv6::HEADER + FRAGMENT_HEADER];
    let fixed = ipv6::Repr { next_header: protocol::FRAGMENT, ..repr }.header(payload + FRAGMENT_HEADER);
    bytes[..ipv6::HEADER].copy_from_slice(&fixed);
    bytes[40] = next;
    let word = (packet.fragment() & ipv4::FRAGMENT_OFFSET) << 3 | u16::from(packet.more_fragments());
    bytes[42..44].copy_from_slice(&word.to_be_bytes());
    bytes[46..48].copy_from_slice(&packet.id().to_be_bytes());
    Ok(Header6::Fragment(bytes))
}
