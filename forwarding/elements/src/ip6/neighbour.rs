//! Messages of neighbour discovery as packets of a graph.

use port::Packet;
use wire::neighbour::Message;
use wire::{ethernet, ipv6};

/// The message's frame, its headers marked. `None` when there is no packet memory.
pub(super) fn packet(message: &Message) -> Option<Packet> {
    let mut packet = Packet::new(&message.emit())?;
    packet.set_link(Some(0));
    packet.set_network(ethernet::HEADER as isize);
    packet.set_transport(Some((ethernet::HEADER + ipv6::HEADER) as isize));
    Some(packet)
}
