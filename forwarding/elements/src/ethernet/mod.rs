//! Ethernet: link headers, VLAN tags, and ARP, which finds the Ethernet addresses of IPv4 hosts.
//! See [the library](crate).

mod arp;
mod arp_faker;
mod arp_print;
mod arp_querier;
mod arp_responder;
mod arp_table;
pub(crate) mod drop_broadcasts;
mod ether_encap;
mod ether_mirror;
mod ether_rewrite;
mod ether_vlan_encap;
mod host_ether_filter;
mod mark_mac_header;
pub(crate) mod neighbours;
mod set_vlan_anno;
mod strip_ether_vlan_header;
mod vlan_decap;
mod vlan_encap;
mod vlan_tag;

use graph::Class;
use port::Packet;

/// The classes of this folder.
pub const CLASSES: &[&Class] = &[
    &arp_faker::CLASS,
    &arp_print::CLASS,
    &arp_querier::CLASS,
    &arp_responder::CLASS,
    &arp_table::CLASS,
    &drop_broadcasts::CLASS,
    &ether_encap::CLASS,
    &ether_mirror::CLASS,
    &ether_rewrite::CLASS,
    &ether_vlan_encap::CLASS,
    &ether_vlan_encap::OLD_NAME,
    &host_ether_filter::CLASS,
    &mark_mac_header::CLASS,
    &set_vlan_anno::CLASS,
    &set_vlan_anno::OLD_NAME,
    &strip_ether_vlan_header::CLASS,
    &strip_ether_vlan_header::OLD_NAME,
    &vlan_decap::CLASS,
    &vlan_encap::CLASS,
];

/// Puts a link header in front of a packet, and says where it is. False, and nothing done, without
/// room for it.
#[inline(always)]
pub(crate) fn encapsulate<const N: usize>(packet: &mut Packet, header: &[u8; N]) -> bool {
    let done = packet.prepend(header);
    if done {
        packet.set_link(Some(0));
    }
    done
}
