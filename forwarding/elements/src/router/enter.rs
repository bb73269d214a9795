//! How a frame with tags becomes one of its interface: as Linux shows it there, without them.
//!
//! The addresses move up to the type behind the tags, and the frame begins there. So no element
//! behind this knows of tags, and what is handed to Linux is what the VLAN's interface would have
//! received.

use fib::{Hops, InterfaceId, PortId};
use port::Packet;
use wire::ethernet;

/// Bytes of the two addresses.
pub(super) const ADDRESSES: usize = 12;

/// Whether the type of a frame says that a tag follows.
#[inline(always)]
pub(super) fn is_tag(ether_type: u16) -> bool {
    matches!(ether_type, ethernet::VLAN | ethernet::QINQ)
}

/// Takes the tags off a frame of an interface of the plane's, which is the packet's input from then
/// on. False, and nothing done, where no such interface has these tags: Linux has the frame.
#[inline(never)]
pub(super) fn enter(hops: &Hops<'_>, packet: &mut Packet) -> bool {
    // It has entered already: tags that are left are inside those of its interface.
    if packet.input >= InterfaceId::FIRST_LOGICAL {
        return false;
    }
    let tags = packet.data().get(ADDRESSES..).and_then(|rest| rest.first_chunk());
    let Some((interface, length)) = tags.and_then(|tags| hops.enter(PortId(packet.input.0), tags)) else {
        return false;
    };
    hops.count_received(interface, packet.len());
    packet.data_mut().copy_within(..ADDRESSES, length);
    packet.input = interface;
    packet.pull(length)
}
