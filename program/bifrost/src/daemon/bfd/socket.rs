//! The sockets of BFD: one to hear by for each address, port and interface, and one to send by for
//! each session.
//!
//! Of several that a packet is for, Linux gives it to the one that says most: an address, and an
//! interface. So sessions of one address, some bound to an interface and some not, have sockets
//! beside each other; nobody but this program's own user can join them.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use bfd::packet::SOURCE_PORTS;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrStorage, bind, recvmsg,
    setsockopt, socket, sockopt,
};

/// For network control (class selector 6, RFC 4594).
const TOS: i32 = 0xc0;
/// Nobody on the way has taken part (RFC 5881, section 5).
const HOPS: i32 = 255;
/// Ports that are tried before there is none.
const TRIES: u32 = 64;

/// What a socket hears: packets to an address and a port, by an interface (if it has a name), by
/// whose number an address of the link alone is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) local: IpAddr,
    pub(super) port: u16,
    pub(super) interface: String,
    pub(super) ifindex: u32,
}

impl Place {
    /// Whether what is heard at another place may be for who listens here.
    pub(super) fn includes(&self, other: &Place) -> bool {
        (self.local, self.port) == (other.local, other.port)
            && (self.interface.is_empty() || self.interface == other.interface)
    }

    fn at(&self, address: IpAddr, port: u16) -> SocketAddr {
        match address {
            IpAddr::V6(six) if six.is_unicast_link_local() => {
                SocketAddrV6::new(six, port, 0, self.ifindex).into()
            }
            other => (other, port).into(),
        }
    }

    fn socket(&self) -> nix::Result<OwnedFd> {
        let family = if self.local.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(family, SockType::Datagram, flags, None)?;
        if !self.interface.is_empty() {
            setsockopt(&socket, sockopt::BindToDevice, &self.interface.as_str().into())?;
        }
        Ok(socket)
    }
}

/// See the head of this file.
pub(super) struct Listener(OwnedFd);

/// A packet that was heard.
pub(super) struct Heard {
    pub(super) from: IpAddr,
    pub(super) hops: u8,
    pub(super) length: usize,
}

impl Listener {
    pub(super) fn open(place: &Place) -> io::Result<Listener> {
        let socket = place.socket()?;
        setsockopt(&socket, sockopt::ReusePort, &true)?;
        match place.local {
            IpAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4RecvTtl, &true)?,
            IpAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6RecvHopLimit, &true)?,
        }
        bind(socket.as_raw_fd(), &SockaddrStorage::from(place.at(place.local, place.port)))?;
        Ok(Listener(socket))
    }

    /// The next packet; none: nothing waits. What has no sender or no TTL is passed over.
    pub(super) fn hear(&self, buffer: &mut [u8]) -> Option<Option<Heard>> {
        let mut control = nix::cmsg_space!(i32);
        let mut parts = [IoSliceMut::new(buffer)];
        let received = loop {
            match recvmsg::<SockaddrStorage>(
                self.0.as_raw_fd(),
                &mut parts,
                Some(&mut control),
                MsgFlags::MSG_DONTWAIT,
            ) {
                Err(Errno::EINTR) => {}
                other => break other.ok()?,
            }
        };
        let hops = received.cmsgs().ok().and_then(|messages| {
            messages.into_iter().find_map(|message| match message {
                ControlMessageOwned::Ipv4Ttl(hops) | ControlMessageOwned::Ipv6HopLimit(hops) => {
                    u8::try_from(hops).ok()
                }
                _ => None,
            })
        });
        let from = received.address.and_then(|from| {
            let four = from.as_sockaddr_in().map(|from| IpAddr::V4(from.ip()));
            four.or_else(|| from.as_sockaddr_in6().map(|from| IpAddr::V6(from.ip())))
        });
        let length = received.bytes;
        Some(from.zip(hops).map(|(from, hops)| Heard { from, hops, length }))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// See the head of this file.
pub(super) struct Sender {
    socket: UdpSocket,
    to: SocketAddr,
}

impl Sender {
    /// `number` spreads the ports of several.
    pub(super) fn open(place: &Place, peer: IpAddr, number: u32) -> io::Result<Sender> {
        let socket = place.socket()?;
        match place.local {
            IpAddr::V4(_) => {
                setsockopt(&socket, sockopt::Ipv4Ttl, &HOPS)?;
                setsockopt(&socket, sockopt::Ipv4Tos, &TOS)?;
            }
            IpAddr::V6(_) => {
                setsockopt(&socket, sockopt::Ipv6Ttl, &HOPS)?;
                setsockopt(&socket, sockopt::Ipv6TClass, &TOS)?;
            }
        }
        let (first, count) = (*SOURCE_PORTS.start(), SOURCE_PORTS.len() as u32);
        let mut last = Err(Errno::EADDRINUSE);
        for port in (0..TRIES).map(|more| first + (number.wrapping_add(more) % count) as u16) {
            last = bind(socket.as_raw_fd(), &SockaddrStorage::from(place.at(place.local, port)));
            if last != Err(Errno::EADDRINUSE) {
                break;
            }
        }
        last?;
        Ok(Sender { socket: socket.into(), to: place.at(peer, place.port) })
    }

    /// Sends a packet. One that cannot be sent is as one that is lost.
    pub(super) fn send(&self, packet: &[u8]) -> bool {
        self.socket.send_to(packet, self.to).is_ok()
    }
}

/// The address that Linux sends from to a peer.
pub(super) fn local_towards(peer: IpAddr, interface: &str, ifindex: u32) -> io::Result<IpAddr> {
    let any: IpAddr = match peer {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let place = Place { local: any, port: bfd::packet::PORT, interface: interface.to_owned(), ifindex };
    let socket = UdpSocket::from(place.socket()?);
    socket.connect(place.at(peer, place.port))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(local: &str, interface: &str) -> Place {
        Place { local: local.parse().unwrap(), port: 3999, interface: interface.into(), ifindex: 0 }
    }

    #[test]
    fn the_socket_of_an_address_hears_what_one_of_any_does_not() {
        for local in ["127.0.0.83", "::1"] {
            let here = place(local, "lo");
            let any = if here.local.is_ipv4() { "0.0.0.0" } else { "::" };
            let theirs = Listener::open(&Place { local: any.parse().unwrap(), ..place(any, "") }).unwrap();
            let ours = Listener::open(&here).unwrap();
            let sender = Sender::open(&here, here.local, 70_000).unwrap();
            assert!(SOURCE_PORTS.contains(&sender.socket.local_addr().unwrap().port()));
            assert!(sender.send(b"hello"));
            let mut buffer = [0; 64];
            let heard = loop {
                if let Some(heard) = ours.hear(&mut buffer) {
                    break heard.unwrap();
                }
            };
            assert_eq!((heard.from, heard.hops, heard.length), (here.local, 255, 5));
            assert!(theirs.hear(&mut buffer).is_none() && ours.hear(&mut buffer).is_none());
            drop(ours);
            assert!(sender.send(b"hello"));
            while theirs.hear(&mut buffer).is_none() {}
        }
    }

    #[test]
    fn what_comes_by_an_interface_is_for_who_names_it_and_for_who_names_none() {
        let (any, lo) = (place("127.0.0.84", ""), place("127.0.0.84", "lo"));
        let [_any, by_lo] = [&any, &lo].map(|place| Listener::open(place).unwrap());
        assert!(Sender::open(&any, any.local, 5).unwrap().send(b"hello"));
        let mut buffer = [0; 64];
        while by_lo.hear(&mut buffer).is_none() {}
        assert!(any.includes(&lo) && lo.includes(&lo) && any.includes(&any) && !lo.includes(&any));
        assert!(!any.includes(&place("127.0.0.85", "")) && !any.includes(&Place { port: 1, ..any.clone() }));
    }

    #[test]
    fn linux_says_where_it_would_send_from() {
        let peer = "127.0.0.1".parse().unwrap();
        assert_eq!(local_towards(peer, "", 0).unwrap(), peer);
        assert!(local_towards(peer, "no-such-port", 0).is_err());
    }
}
