//! A raw socket to send by: packets of one protocol of IP, to single hosts. Linux makes the headers
//! and finds the neighbour.

use std::io;
use std::mem::{size_of_val, zeroed};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The socket. While there is one, Linux does not tell senders that it knows no such protocol. It
/// hears nothing.
#[derive(Debug)]
pub struct RawSocket {
    fd: OwnedFd,
}

impl RawSocket {
    /// Opens one that sends by an interface only, from this address, with a TTL (hop limit) of 255.
    pub fn open(protocol: u8, interface: &str, source: IpAddr) -> io::Result<RawSocket> {
        let family = if source.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers; the descriptor is ours.
        let fd = unsafe { libc::socket(family, kind, protocol.into()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        let socket = RawSocket { fd: unsafe { OwnedFd::from_raw_fd(fd) } };
        crate::inject::hear_nothing(fd)?;
        socket.set(libc::SOL_SOCKET, libc::SO_BINDTODEVICE, interface.as_bytes())?;
        let hops = 255i32.to_ne_bytes();
        match source {
            IpAddr::V4(_) => socket.set(libc::IPPROTO_IP, libc::IP_TTL, &hops)?,
            IpAddr::V6(_) => socket.set(libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, &hops)?,
        }
        let (address, length) = address_of(source);
        // SAFETY: the kernel reads the address, which lives through the call and is no shorter than
        // `length`.
        let bound = unsafe { libc::bind(fd, (&raw const address).cast(), length) };
        if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
    }

    fn set(&self, level: libc::c_int, option: libc::c_int, value: &[u8]) -> io::Result<()> {
        let (fd, length) = (self.fd.as_raw_fd(), value.len() as libc::socklen_t);
        // SAFETY: the kernel reads the value, which lives through the call.
        let set = unsafe { libc::setsockopt(fd, level, option, value.as_ptr().cast(), length) };
        if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Sends a packet, from behind its IP header on.
    pub fn send_to(&self, payload: &[u8], to: IpAddr) -> io::Result<()> {
        let (address, length) = address_of(to);
        let fd = self.fd.as_raw_fd();
        // SAFETY: the kernel reads the packet and the address, which live through the call.
        let sent = unsafe {
            let (bytes, to) = (payload.as_ptr().cast(), (&raw const address).cast());
            libc::sendto(fd, bytes, payload.len(), 0, to, length)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// An address of either family, and how long it is.
fn address_of(address: IpAddr) -> (libc::sockaddr_in6, libc::socklen_t) {
    // SAFETY: plain numbers, valid when zero.
    let mut six: libc::sockaddr_in6 = unsafe { zeroed() };
    match address {
        IpAddr::V4(address) => {
            // SAFETY: as above.
            let mut four: libc::sockaddr_in = unsafe { zeroed() };
            four.sin_family = libc::AF_INET as libc::sa_family_t;
            four.sin_addr.s_addr = u32::from_ne_bytes(address.octets());
            // SAFETY: a sockaddr_in is shorter than a sockaddr_in6 and needs no more alignment.
            unsafe { (&raw mut six).cast::<libc::sockaddr_in>().write(four) };
            (six, size_of_val(&four) as libc::socklen_t)
        }
        IpAddr::V6(address) => {
            six.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            six.sin6_addr.s6_addr = address.octets();
            (six, size_of_val(&six) as libc::socklen_t)
        }
    }
}
