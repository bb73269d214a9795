//! How a frame with tags becomes one of its interface: as Linux shows it there, without them.
//!
//! The addresses move up to the type behind the tags, and the frame begins there; so no element behind this knows of tags, and what
//! is handed to Linux is what the VLAN's interface would have received.

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

/// Takes the tags off a frame of an interface of the plane's, which is then the packet's input. False, and nothing done, where it is
/// none's: Linux has it.
#[inline(never)]
pub(super) fn enter(hops: &Hops<'_>, packet: &mut Packet) -> bool {
    // It has entered: what is left are tags inside those of its interface, and no port's.
    if packet.input >= InterfaceId::FIRST_LOGICAL {
        return false;
    }
    let tags = packet.data().get(ADDRESSES..).and_then(|rest| rest.first_chunk());
    let Some((interface, length)) = tags.and_then(|tags| hops.enter(PortId(packet.input.0), tags)) else {
        return false;
    };
    packet.data_mut().copy_within(..ADDRESSES, length);
    packet.input = interface;
    packet.pull(length)
}
