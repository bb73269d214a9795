//! The sockets of a relay.
//!
//! Hosts of IPv4 that have no address yet are heard by frames, those of IPv6 by a socket in the
//! hosts6 of servers and relays on their link. Servers are asked from this router's own address,
//! and answer there. So nothing listens at addresses of other interfaces, where another program may
//! serve hosts itself.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt,
};
use port::classic::{ANY_OF, BYTE, EQUAL, HALF, HALF_BEHIND, HEADER, RETURN, TAGGED, WORD};
use port::socket::Instruction;
use port::{PacketSocket, PacketType, SocketOptions};
use relay::{four, six};
use wire::{Mac, checksum, ethernet, ipv4, protocol, udp};

/// Whole datagrams of UDP over IPv4 to the port of servers, without a tag: others are a VLAN's.
const HEARD: &[Instruction] = &[
    (WORD, 0, 0, TAGGED),
    (EQUAL, 0, 10, 0),
    (HALF, 0, 0, 12),
    (EQUAL, 0, 8, ethernet::IPV4 as u32),
    (BYTE, 0, 0, 14 + 9),
    (EQUAL, 0, 6, protocol::UDP as u32),
    (HALF, 0, 0, 14 + 6),
    (ANY_OF, 4, 0, 0x3fff),
    (HEADER, 0, 0, 14),
    (HALF_BEHIND, 0, 0, 14 + 2),
    (EQUAL, 0, 1, four::SERVER as u32),
    (RETURN, 0, 0, u32::MAX),
    (RETURN, 0, 0, 0),
];

/// The hosts4 to hosts of IPv4 on an interface.
pub(super) struct HostSocket {
    socket: PacketSocket,
    pub(super) ifindex: u32,
}

impl HostSocket {
    pub(super) fn open(ifindex: u32) -> io::Result<HostSocket> {
        let options = SocketOptions { filter: HEARD, ..SocketOptions::default() };
        Ok(HostSocket { socket: PacketSocket::open(ifindex, options)?, ifindex })
    }

    /// The next message to all on the link, or to this router there; none: nothing waits. What is
    /// to others, such as a server that a host knows already, is passed over.
    pub(super) fn hear<'b>(&self, own: Ipv4Addr, buffer: &'b mut [u8]) -> Option<Option<&'b [u8]>> {
        let received = self.socket.receive(buffer).ok()?;
        let is_heard =
            matches!(received.kind, PacketType::Host | PacketType::Multicast | PacketType::Broadcast);
        let frame = buffer.get(..received.captured).filter(|_| is_heard);
        Some(frame.and_then(|frame| {
            let ip = ipv4::Packet::parse(ethernet::Frame::parse(frame).ok()?.payload()).ok()?;
            let to = ip.destination();
            let is_ours = ip.checksum_ok() && (to == own || to.is_broadcast());
            is_ours.then_some(udp::Datagram::parse(ip.payload()).ok()?.payload())
        }))
    }

    /// Gives a host what a server answers: it need not have the address yet.
    pub(super) fn send(&self, source: Mac, answer: &four::Answer) -> io::Result<()> {
        let destination = answer.mac.map_or(Mac::BROADCAST, Mac);
        let link = ethernet::Repr { destination, source, ether_type: ethernet::IPV4 };
        let ip = ipv4::Repr { protocol: protocol::UDP, ..ipv4::Repr::new(answer.gateway, answer.to) };
        let length = udp::HEADER + answer.message.len();
        let (from, to) = (u32::from(answer.gateway), u32::from(answer.to));
        let pseudo = checksum::pseudo4(from, to, protocol::UDP, length as u16);
        let udp = udp::header(four::SERVER, four::CLIENT, &answer.message, pseudo);
        self.socket.send(&[&link.header()[..], &ip.header(length), &udp, &answer.message].concat())
    }
}

impl AsFd for HostSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Where hosts of IPv6 on an interface are heard and answered.
pub(super) fn hosts6(ifindex: u32) -> io::Result<UdpSocket> {
    let socket = bound(SocketAddrV6::new(six::ALL, six::SERVER, 0, ifindex).into())?;
    socket.join_multicast_v6(&six::ALL, ifindex)?;
    Ok(socket)
}

/// Where servers are asked from, and answer.
pub(super) fn bound(at: SocketAddr) -> io::Result<UdpSocket> {
    let family = if at.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(family, SockType::Datagram, flags, None)?;
    if at.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
    }
    bind(socket.as_raw_fd(), &SockaddrStorage::from(at))?;
    Ok(socket.into())
}

/// A host of IPv6, or another relay, on an interface.
pub(super) fn host6(address: Ipv6Addr, port: u16, ifindex: u32) -> SocketAddr {
    let scope = if address.is_unicast_link_local() { ifindex } else { 0 };
    SocketAddrV6::new(address, port, 0, scope).into()
}
