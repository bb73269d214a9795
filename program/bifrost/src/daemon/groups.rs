//! Sockets that are there to be in groups, so that NICs and switches that listen bring what is sent
//! to these.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// A socket for each family, opened when it is needed. It receives nothing: no datagram is for its
/// port.
#[derive(Default)]
pub(super) struct Groups([Option<UdpSocket>; 2]);

impl Groups {
    /// Joins a group of IPv4 on the interface that has this address. That it is in it already is
    /// right.
    pub(super) fn join4(&mut self, group: Ipv4Addr, own: Ipv4Addr) -> io::Result<()> {
        known(member(&mut self.0[0], Ipv4Addr::UNSPECIFIED.into())?.join_multicast_v4(&group, &own))
    }

    /// Joins a group of IPv6 on an interface.
    pub(super) fn join6(&mut self, group: Ipv6Addr, ifindex: u32) -> io::Result<()> {
        known(member(&mut self.0[1], Ipv6Addr::UNSPECIFIED.into())?.join_multicast_v6(&group, ifindex))
    }
}

fn member(socket: &mut Option<UdpSocket>, any: IpAddr) -> io::Result<&UdpSocket> {
    match socket {
        Some(socket) => Ok(socket),
        None => Ok(socket.insert(UdpSocket::bind((any, 0))?)),
    }
}

fn known(joined: io::Result<()>) -> io::Result<()> {
    match joined {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(()),
        joined => joined,
    }
}
