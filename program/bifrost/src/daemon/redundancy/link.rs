//! The sockets of an interface that virtual routers are on.
//!
//! One packet socket hears advertisements and questions for addresses, and sends what is for all on
//! the link: only by such a one can a frame have the virtual router's link address as its source.
//! It has the interface receive what is for that address, too. A second one is there to be in the
//! groups, so that switches that listen bring their packets.
//!
//! None of this is opened or closed when a router becomes active or backup: Linux may take long for
//! that, while it is busy with other interfaces.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use mirror::netlink::socket::add_bridge_address;
use port::classic::{BYTE, EQUAL, HALF, RETURN};
use port::socket::Instruction;
use port::{PacketSocket, PacketType, RawSocket, SocketOptions};
use vrrp::packet::{GROUP4, GROUP6};
use vrrp::{PROTOCOL, frame};
use wire::{Mac, ethernet, ipv4, ipv6, neighbour};

use crate::daemon::groups::Groups;

/// Advertisements, questions by ARP, and neighbour solicitations.
const HEARD: &[Instruction] = &[
    (HALF, 0, 0, 12),
    (EQUAL, 9, 0, ethernet::ARP as u32),
    (EQUAL, 0, 2, ethernet::IPV4 as u32),
    (BYTE, 0, 0, 14 + 9),
    (EQUAL, 6, 7, PROTOCOL as u32),
    (EQUAL, 0, 6, ethernet::IPV6 as u32),
    (BYTE, 0, 0, 14 + 6),
    (EQUAL, 3, 0, PROTOCOL as u32),
    (EQUAL, 0, 3, wire::protocol::ICMP6 as u32),
    (BYTE, 0, 0, 14 + 40),
    (EQUAL, 0, 1, neighbour::SOLICITATION as u32),
    (RETURN, 0, 0, u32::MAX),
    (RETURN, 0, 0, 0),
];

/// See the head of this file.
pub(super) struct Link {
    pub(super) ifindex: u32,
    /// What it is on a bridge, if it is on one.
    pub(super) bridge: Option<(u32, u16)>,
    socket: PacketSocket,
    groups: Groups,
}

/// What was heard.
pub(super) enum Heard<'a> {
    Question(frame::Question),
    /// What claims to be an advertisement: from, to, TTL, the payload.
    Advertisement(IpAddr, IpAddr, u8, &'a [u8]),
}

impl Link {
    /// Of an interface that is this on a bridge, if it is on one.
    pub(super) fn open(ifindex: u32, bridge: Option<(u32, u16)>) -> io::Result<Link> {
        let socket =
            PacketSocket::open(ifindex, SocketOptions { filter: HEARD, ..SocketOptions::default() })?;
        // Questions that the driver keeps from Linux are for the virtual router 0, which there is
        // not: a bridge would pass them on, and not here.
        if let Some((bridge, vlan)) = bridge {
            add_bridge_address(bridge, vlan, frame::virtual_mac(0, false).0)?;
        }
        Ok(Link { ifindex, bridge, socket, groups: Groups::default() })
    }

    /// Takes part in a virtual router: hears what is for it, speaking from this address.
    pub(super) fn join(&mut self, mac: Mac, own: IpAddr, addresses: &[IpAddr]) -> io::Result<()> {
        // A bridge's members receive everything, and for one more address it would hand Linux all
        // that it passes on.
        if self.bridge.is_none() {
            self.socket.take_address(self.ifindex, mac.0, true)?;
        }
        match own {
            IpAddr::V4(own) => self.groups.join4(GROUP4, own),
            IpAddr::V6(_) => {
                let asked = addresses.iter().filter_map(|address| match address {
                    IpAddr::V6(address) => Some(neighbour::solicited_node(*address)),
                    IpAddr::V4(_) => None,
                });
                let mut groups = std::iter::once(GROUP6).chain(asked);
                groups.try_for_each(|group| self.groups.join6(group, self.ifindex))
            }
        }
    }

    pub(super) fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.socket.send(frame)
    }

    /// The next thing that was heard; `None`: nothing waits. What is neither is passed over.
    pub(super) fn hear<'a>(&self, buffer: &'a mut [u8]) -> Option<Option<Heard<'a>>> {
        let received = self.socket.receive(buffer).ok()?;
        let frame: &'a [u8] = buffer.get(..received.captured)?;
        if let Some(question) = frame::question(frame) {
            return Some(Some(Heard::Question(question)));
        }
        // What is for somebody else is not for this machine, whatever its addresses say.
        let ours = matches!(received.kind, PacketType::Host | PacketType::Multicast);
        Some(advertisement(frame).filter(|_| ours))
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn advertisement(frame: &[u8]) -> Option<Heard<'_>> {
    let frame = ethernet::Frame::parse(frame).ok()?;
    match frame.ether_type() {
        ethernet::IPV4 => {
            let packet = ipv4::Packet::parse(frame.payload()).ok()?;
            let whole = packet.checksum_ok() && packet.fragment_offset() == 0 && !packet.more_fragments();
            let (from, to) = (packet.source().into(), packet.destination().into());
            let heard = Heard::Advertisement(from, to, packet.ttl(), packet.payload());
            (whole && packet.protocol() == PROTOCOL).then_some(heard)
        }
        ethernet::IPV6 => {
            let packet = ipv6::Packet::parse(frame.payload()).ok()?;
            let (from, to) = (packet.source().into(), packet.destination().into());
            let heard = Heard::Advertisement(from, to, packet.hop_limit(), packet.payload());
            (packet.next_header() == PROTOCOL).then_some(heard)
        }
        _ => None,
    }
}

/// A socket to speak to single peers by.
pub(super) fn to_peers(interface: &str, own: IpAddr) -> io::Result<RawSocket> {
    RawSocket::open(PROTOCOL, interface, own)
}
