//! UDP and TCP: headers checked, checksums set, headers put in front. See [the library](crate).

mod check_header;
mod set_checksum;
mod strip_tcp_header;
mod udp_ip_encap;

use graph::Class;
use port::Packet;
use wire::checksum::{self, Sum};
use wire::ipv4;

/// The classes of this folder.
pub const CLASSES: &[&Class] = &[
    &check_header::CHECK_TCP_HEADER,
    &check_header::CHECK_UDP_HEADER,
    &set_checksum::SET_TCP_CHECKSUM,
    &set_checksum::SET_UDP_CHECKSUM,
    &strip_tcp_header::CLASS,
    &udp_ip_encap::CLASS,
];

/// The parts of a packet behind an IPv4 header whose network header is marked, in order; the first
/// is in the first segment.
fn parts_behind<'a>(packet: &'a Packet, ip: &ipv4::Packet<'_>) -> impl Iterator<Item = &'a [u8]> {
    let first = packet.network().get(ip.header_len()..).unwrap_or_default();
    std::iter::once(first).chain(packet.segments().skip(1))
}

/// How many bytes a packet has behind its IPv4 header, with what is behind its end.
fn length_behind(packet: &Packet, ip: &ipv4::Packet<'_>) -> usize {
    parts_behind(packet, ip).map(<[u8]>::len).sum()
}

/// The sum of the first `length` bytes behind the IPv4 header and their pseudo-header, which has
/// the destination at the end of a source route.
fn sum_behind(packet: &Packet, ip: &ipv4::Packet<'_>, length: usize) -> Sum {
    let mut left = length;
    let parts = parts_behind(packet, ip).map(|part| {
        let part = &part[..part.len().min(left)];
        left -= part.len();
        part
    });
    let destination = ipv4::option::route_end(ip.options()).unwrap_or(ip.destination());
    checksum::pseudo4(ip.source().into(), destination.into(), ip.protocol(), length as u16).with_parts(parts)
}
