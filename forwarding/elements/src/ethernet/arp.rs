//! ARP frames as packets.

use port::Packet;
use wire::{Mac, arp, ethernet};

/// Bytes of an ARP frame without padding.
pub(super) const FRAME: usize = ethernet::HEADER + arp::LENGTH;

/// A frame with an ARP message from its sender, the network header marked. `None` when there is no
/// packet memory.
pub(super) fn frame(destination: Mac, message: &arp::Repr) -> Option<Packet> {
    let header = ethernet::Repr { destination, source: message.sender_mac, ether_type: ethernet::ARP };
    let mut bytes = [0; FRAME];
    bytes[..ethernet::HEADER].copy_from_slice(&header.header());
    bytes[ethernet::HEADER..].copy_from_slice(&message.emit());
    let mut packet = Packet::new(&bytes)?;
    packet.set_link(Some(0));
    packet.set_network(ethernet::HEADER as isize);
    Some(packet)
}

/// The ARP message for IPv4 in an Ethernet frame; `None` when it is none.
pub(super) fn message(frame: &[u8]) -> Option<arp::Repr> {
    let frame = ethernet::Frame::parse(frame).ok()?;
    if frame.ether_type() != ethernet::ARP {
        return None;
    }
    arp::Repr::parse(frame.payload()).ok()
}
