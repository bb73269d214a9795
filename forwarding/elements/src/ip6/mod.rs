//! IPv6, and neighbour discovery, which finds the Ethernet addresses of IPv6 hosts. See [the
//! library](crate).

mod check_ip6_header;
mod dec_ip6_hlim;
mod get_ip6_address;
mod icmp6_error;
mod ip6_fragmenter;
mod ip6_nd_advertiser;
mod ip6_nd_solicitor;
mod ip6_print;
mod lookup_ip6_route;
mod mark_ip6_header;
mod neighbour;
mod set_ip6_dscp;

use std::net::Ipv6Addr;

use graph::Class;
use graph::arguments::offset;
use port::Packet;

/// The classes of this folder.
pub const CLASSES: &[&Class] = &[
    &check_ip6_header::CLASS,
    &dec_ip6_hlim::CLASS,
    &get_ip6_address::CLASS,
    &icmp6_error::CLASS,
    &ip6_fragmenter::CLASS,
    &ip6_nd_advertiser::CLASS,
    &ip6_nd_solicitor::CLASS,
    &ip6_print::CLASS,
    &lookup_ip6_route::CLASS,
    &mark_ip6_header::CLASS,
    &set_ip6_dscp::CLASS,
];

/// The destination that a packet is annotated with.
#[inline(always)]
fn destination(packet: &Packet) -> Ipv6Addr {
    packet.annotation::<16>(offset::DST_IP6).into()
}

/// Annotates a packet with a destination.
#[inline(always)]
fn set_destination(packet: &mut Packet, address: Ipv6Addr) {
    packet.set_annotation(offset::DST_IP6, address.octets());
}
