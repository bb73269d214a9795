//! The mirror's netlink sockets.
//!
//! One socket hears what changes, one sends wishes about neighbours, and each dump has a socket of
//! its own: closing it ends the dump, and its messages cannot mix with others. The kernel makes a
//! dump's next piece when the last is read, so a dump that is read slowly costs nothing in between.
//!
//! Sockets belong to the network namespace of the thread that opens them; the thread that owns the
//! mirror must stay in one.

use super::conntrack::Connection;
use super::request::{self, What};
use super::route::Sending;
use super::{self as netlink, diag, netfilter, tc, wireguard, xfrm};
use netlink_sys::protocols::{
    NETLINK_GENERIC, NETLINK_NETFILTER, NETLINK_ROUTE, NETLINK_SOCK_DIAG, NETLINK_XFRM,
};
use netlink_sys::{Socket, SocketAddr};
use nix::sys::socket::{setsockopt, sockopt};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Larger than any datagram that the kernel sends here (it limits dumps to 32 KiB).
const DATAGRAM: usize = 64 * 1024;

const GROUPS: [u32; 13] = [
    1,  // RTNLGRP_LINK
    3,  // RTNLGRP_NEIGH
    4,  // RTNLGRP_TC
    5,  // RTNLGRP_IPV4_IFADDR
    7,  // RTNLGRP_IPV4_ROUTE
    8,  // RTNLGRP_IPV4_RULE
    9,  // RTNLGRP_IPV6_IFADDR
    11, // RTNLGRP_IPV6_ROUTE
    19, // RTNLGRP_IPV6_RULE
    24, // RTNLGRP_IPV4_NETCONF
    25, // RTNLGRP_IPV6_NETCONF
    32, // RTNLGRP_NEXTHOP
    33, // RTNLGRP_BRVLAN
];

/// Those of multicast routing, and what tells of the interfaces that take part.
const OF_MULTICAST: [u32; 4] = [
    6,  // RTNLGRP_IPV4_MROUTE
    10, // RTNLGRP_IPV6_MROUTE
    24, // RTNLGRP_IPV4_NETCONF
    25, // RTNLGRP_IPV6_NETCONF
];

/// Hears every change.
pub struct Notifications {
    socket: Socket,
    buffer: Vec<u8>,
}

/// What [`Notifications::receive`] found.
pub enum Received<'a> {
    /// Messages.
    Messages(&'a [u8]),
    /// Nothing waits.
    Nothing,
    /// The socket overflowed: messages were lost.
    Lost,
}

impl Notifications {
    /// Subscribes. `receive_buffer` in bytes; a process without `CAP_NET_ADMIN` gets what the
    /// system allows.
    pub fn open(receive_buffer: usize) -> io::Result<Notifications> {
        Notifications::of(&GROUPS, receive_buffer)
    }

    /// As [`open`](Self::open), to multicast routing alone.
    pub fn groups(receive_buffer: usize) -> io::Result<Notifications> {
        Notifications::of(&OF_MULTICAST, receive_buffer)
    }

    fn of(groups: &[u32], receive_buffer: usize) -> io::Result<Notifications> {
        let socket = open(NETLINK_ROUTE)?;
        let fd = borrow(&socket);
        if setsockopt(&fd, sockopt::RcvBufForce, &receive_buffer).is_err() {
            setsockopt(&fd, sockopt::RcvBuf, &receive_buffer)?;
        }
        for group in groups {
            socket.add_membership(*group)?;
        }
        Ok(Notifications { socket, buffer: vec![0; DATAGRAM] })
    }

    /// One datagram, without waiting.
    pub fn receive(&mut self) -> io::Result<Received<'_>> {
        match receive(&self.socket, &mut self.buffer) {
            Ok(length) => Ok(Received::Messages(&self.buffer[..length])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Received::Nothing),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(Received::Lost),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Notifications {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// XFRMNLGRP_POLICY
const IPSEC_POLICIES: u32 = 4;

/// One table of Linux being read.
pub struct Dump {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Dump {
    /// Asks for `what`.
    pub fn start(what: What) -> io::Result<Dump> {
        Dump::ask(NETLINK_ROUTE, &request::dump(what))
    }

    /// Asks for the routing rules of a family.
    pub fn rules(ipv6: bool) -> io::Result<Dump> {
        Dump::ask(NETLINK_ROUTE, &request::dump_rules(ipv6))
    }

    /// Asks for the multicast routes of a family.
    pub fn groups(ipv6: bool) -> io::Result<Dump> {
        let [routes, _] = request::dump_groups(ipv6);
        Dump::ask(NETLINK_ROUTE, &routes)
    }

    /// Asks for the rules that choose among tables of these.
    pub fn group_rules(ipv6: bool) -> io::Result<Dump> {
        let [_, rules] = request::dump_groups(ipv6);
        Dump::ask(NETLINK_ROUTE, &rules)
    }

    /// Asks for the chains of nftables.
    pub fn chains() -> io::Result<Dump> {
        Dump::ask(NETLINK_NETFILTER, &netfilter::dump_chains())
    }

    /// Asks for all queueing disciplines.
    pub fn qdiscs() -> io::Result<Dump> {
        Dump::ask(NETLINK_ROUTE, &tc::dump_qdiscs())
    }

    /// Asks for the filters at an interface's way in, or out.
    pub fn traffic_filters(ifindex: u32, egress: bool) -> io::Result<Dump> {
        Dump::ask(NETLINK_ROUTE, &tc::dump_filters(ifindex, egress))
    }

    /// Asks for IPsec policies; an error where Linux has no IPsec.
    pub fn ipsec() -> io::Result<Dump> {
        Dump::ask(NETLINK_XFRM, &xfrm::dump_policies())
    }

    /// Asks for the rules of the table of nftables that Linux is given.
    pub fn own_rules() -> io::Result<Dump> {
        Dump::ask(NETLINK_NETFILTER, &netfilter::dump_own_rules())
    }

    fn ask(protocol: isize, request: &[u8]) -> io::Result<Dump> {
        let socket = open(protocol)?;
        socket.set_netlink_get_strict_chk(true)?;
        socket.send(request, 0)?;
        Ok(Dump { socket, buffer: vec![0; DATAGRAM] })
    }

    /// The next piece. The kernel makes it while this call runs.
    pub fn receive(&mut self) -> io::Result<&[u8]> {
        let length = receive(&self.socket, &mut self.buffer)?;
        Ok(&self.buffer[..length])
    }
}

/// The sessions of TCP that this machine has.
pub fn sessions() -> io::Result<Vec<diag::Session>> {
    let mut found = Vec::new();
    for ipv6 in [false, true] {
        let mut dump = Dump::ask(NETLINK_SOCK_DIAG, &diag::dump(ipv6))?;
        'family: loop {
            for message in netlink::messages(dump.receive()?) {
                match i32::from(message.kind) {
                    libc::NLMSG_DONE => break 'family,
                    // No such family here.
                    libc::NLMSG_ERROR if ipv6 => break 'family,
                    libc::NLMSG_ERROR => return Err(netlink::error(&message)),
                    _ => found.extend(diag::parse(message.body)),
                }
            }
        }
    }
    Ok(found)
}

/// Sends wishes about neighbours; the outcome arrives as a notification.
pub struct Requests {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Requests {
    /// Opens it.
    pub fn open() -> io::Result<Requests> {
        Ok(Requests { socket: open(NETLINK_ROUTE)?, buffer: vec![0; DATAGRAM] })
    }

    /// Asks Linux to resolve or refresh a neighbour. Whether it can is heard in the notifications;
    /// what it answers here (say, the interface has just gone) changes nothing.
    pub fn resolve(&mut self, ifindex: u32, address: IpAddr) -> io::Result<()> {
        self.socket.send(&request::resolve(ifindex, address), 0)?;
        while receive(&self.socket, &mut self.buffer).is_ok() {}
        Ok(())
    }
}

/// Gives interfaces addresses, and takes them.
pub struct Addresses {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Addresses {
    /// Opens it.
    pub fn open() -> io::Result<Addresses> {
        Ok(Addresses { socket: open(NETLINK_ROUTE)?, buffer: vec![0; DATAGRAM] })
    }

    /// An interface is to have an address, alone in its subnet, or not to have it.
    pub fn set(&mut self, ifindex: u32, address: IpAddr, have: bool) -> io::Result<()> {
        self.socket.send(&request::address(ifindex, address, have), 0)?;
        acknowledged(&self.socket, &mut self.buffer)
    }
}

/// Has a bridge take frames to an Ethernet address for its own, in a VLAN of its, or in none (0).
/// Nothing is left when the bridge goes.
///
/// # Errors
/// Linux's.
pub fn add_bridge_address(bridge: u32, vlan: u16, mac: [u8; 6]) -> io::Result<()> {
    let socket = open(NETLINK_ROUTE)?;
    socket.send(&request::bridge_address(bridge, vlan, mac), 0)?;
    acknowledged(&socket, &mut vec![0; DATAGRAM])
}

/// Hears that IPsec policies changed.
pub struct IpsecChanges {
    socket: Socket,
    buffer: Vec<u8>,
}

impl IpsecChanges {
    /// Subscribes; an error where Linux has no IPsec.
    pub fn open() -> io::Result<IpsecChanges> {
        let socket = open(NETLINK_XFRM)?;
        socket.add_membership(IPSEC_POLICIES)?;
        Ok(IpsecChanges { socket, buffer: vec![0; DATAGRAM] })
    }

    /// Whether something changed since the last question.
    pub fn any(&mut self) -> bool {
        let mut any = false;
        loop {
            match receive(&self.socket, &mut self.buffer) {
                Ok(_) => any = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return any,
                // Too much at once: that is a change as well, and there may be more.
                Err(_) => return true,
            }
        }
    }
}

/// In which directions IPsec blocks packets without a policy; an error where Linux has no IPsec, or
/// cannot say.
pub fn ipsec_blocks() -> io::Result<Vec<&'static str>> {
    let socket = open(NETLINK_XFRM)?;
    socket.send(&xfrm::get_default(), 0)?;
    // Linux answers before the request returns.
    let mut buffer = vec![0; DATAGRAM];
    let length = receive(&socket, &mut buffer)?;
    match netlink::messages(&buffer[..length]).next() {
        Some(message) if message.kind == xfrm::XFRM_MSG_GETDEFAULT => {
            xfrm::parse_default(message.body).ok_or_else(|| io::ErrorKind::InvalidData.into())
        }
        Some(message) if i32::from(message.kind) == libc::NLMSG_ERROR => Err(netlink::error(&message)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// How this machine sends to a destination, from one of its addresses or whichever suits, by an
/// interface or whichever leads there.
///
/// # Errors
/// Where there is no way.
pub fn sending(from: Option<IpAddr>, to: IpAddr, by: Option<u32>) -> io::Result<Sending> {
    let socket = open(NETLINK_ROUTE)?;
    socket.send(&request::route(from, to, by), 0)?;
    // Linux answers before the request returns.
    let mut buffer = vec![0; DATAGRAM];
    let length = receive(&socket, &mut buffer)?;
    match netlink::messages(&buffer[..length]).next() {
        Some(message) if message.kind == libc::RTM_NEWROUTE => Ok(Sending::read(message.body)),
        Some(message) if i32::from(message.kind) == libc::NLMSG_ERROR => Err(netlink::error(&message)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Asks Linux of WireGuard, and tells it.
pub struct WireGuard {
    socket: Socket,
    buffer: Vec<u8>,
    family: u16,
}

impl WireGuard {
    /// Opens it; an error where Linux has no WireGuard.
    pub fn open() -> io::Result<WireGuard> {
        let socket = open(NETLINK_GENERIC)?;
        let mut buffer = vec![0; DATAGRAM];
        socket.send(&wireguard::get_family(), 0)?;
        // Linux answers before the request returns.
        let length = receive(&socket, &mut buffer)?;
        let family = match netlink::messages(&buffer[..length]).next() {
            Some(message) if i32::from(message.kind) == libc::NLMSG_ERROR => {
                return Err(netlink::error(&message));
            }
            Some(message) => wireguard::parse_family(message.body).ok_or(io::ErrorKind::InvalidData)?,
            None => return Err(io::ErrorKind::InvalidData.into()),
        };
        Ok(WireGuard { socket, buffer, family })
    }

    /// What an interface has.
    ///
    /// # Errors
    /// It is none of WireGuard's, or not there.
    pub fn device(&mut self, name: &str) -> io::Result<wireguard::Device> {
        self.socket.send(&wireguard::get_device(self.family, name), 0)?;
        let mut device = wireguard::Device::default();
        loop {
            let length = receive(&self.socket, &mut self.buffer)?;
            for message in netlink::messages(&self.buffer[..length]) {
                match i32::from(message.kind) {
                    libc::NLMSG_DONE => return Ok(device),
                    libc::NLMSG_ERROR => return Err(netlink::error(&message)),
                    _ => wireguard::parse_device(message.body, &mut device)
                        .ok_or(io::ErrorKind::InvalidData)?,
                }
            }
        }
    }

    /// Gives an interface a private key, a port; what is `None` stays.
    ///
    /// # Errors
    /// What Linux says.
    pub fn set_device(
        &mut self,
        name: &str,
        private_key: Option<&wireguard::Key>,
        port: Option<u16>,
    ) -> io::Result<()> {
        self.tell(&wireguard::set_device(self.family, name, private_key, port))
    }

    /// Gives an interface a peer, in the place of the one of that key, or takes it.
    ///
    /// # Errors
    /// What Linux says.
    pub fn set_peer(
        &mut self,
        name: &str,
        key: &wireguard::Key,
        peer: Option<&wireguard::Peer>,
    ) -> io::Result<()> {
        self.tell(&wireguard::set_peer(self.family, name, key, peer))
    }

    fn tell(&mut self, request: &[u8]) -> io::Result<()> {
        self.socket.send(request, 0)?;
        acknowledged(&self.socket, &mut self.buffer)
    }
}

/// The answer to a request that wants one.
fn acknowledged(socket: &Socket, buffer: &mut [u8]) -> io::Result<()> {
    let length = receive(socket, buffer)?;
    match netlink::messages(&buffer[..length]).next() {
        Some(message) if i32::from(message.kind) == libc::NLMSG_ERROR => match netlink::error(&message) {
            error if error.raw_os_error() == Some(0) => Ok(()),
            error => Err(error),
        },
        _ => Ok(()),
    }
}

/// Tells Linux's conntrack of connections, many at once.
pub struct Conntrack {
    socket: Socket,
    buffer: Vec<u8>,
    waiting: Vec<u8>,
    refused: usize,
}

impl Conntrack {
    /// Bytes of messages that are sent together.
    const TOGETHER: usize = 32 << 10;

    /// Opens it; an error where Linux has no conntrack.
    pub fn open() -> io::Result<Conntrack> {
        let (socket, buffer) = (open(NETLINK_NETFILTER)?, vec![0; DATAGRAM]);
        Ok(Conntrack { socket, buffer, waiting: Vec::new(), refused: 0 })
    }

    /// Linux is to know a connection. False: it has none such.
    ///
    /// # Errors
    /// The question was not heard.
    pub fn tell(&mut self, connection: &Connection) -> io::Result<bool> {
        let Some(message) = connection.message() else { return Ok(false) };
        if self.waiting.len() + message.len() > Conntrack::TOGETHER {
            self.send()?;
        }
        self.waiting.extend_from_slice(&message);
        Ok(true)
    }

    /// How many Linux did not take.
    ///
    /// # Errors
    /// As [`tell`](Self::tell).
    pub fn finish(mut self) -> io::Result<usize> {
        self.send()?;
        Ok(self.refused)
    }

    fn send(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.socket.send(&self.waiting, 0)?;
        self.waiting.clear();
        // Linux answers before the request returns, and says only what went wrong.
        while let Ok(length) = receive(&self.socket, &mut self.buffer) {
            let messages = netlink::messages(&self.buffer[..length]);
            self.refused += messages.filter(|message| i32::from(message.kind) == libc::NLMSG_ERROR).count();
        }
        Ok(())
    }
}

/// Asks how often nftables changed.
pub struct Netfilter {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Netfilter {
    /// Opens it; an error where Linux has no netfilter.
    pub fn open() -> io::Result<Netfilter> {
        Ok(Netfilter { socket: open(NETLINK_NETFILTER)?, buffer: vec![0; DATAGRAM] })
    }

    /// A number that moves with every change; an error where Linux has no nftables, or does not let
    /// this process ask.
    pub fn generation(&mut self) -> io::Result<u32> {
        self.socket.send(&netfilter::get_generation(), 0)?;
        // Linux answers before the request returns.
        let length = receive(&self.socket, &mut self.buffer)?;
        let mut messages = netlink::messages(&self.buffer[..length]);
        match messages.next() {
            Some(message) if message.kind == netfilter::GENERATION => {
                netfilter::parse_generation(message.body).ok_or_else(|| io::ErrorKind::InvalidData.into())
            }
            Some(message) if i32::from(message.kind) == libc::NLMSG_ERROR => Err(netlink::error(&message)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn open(protocol: isize) -> io::Result<Socket> {
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.set_non_blocking(true)?;
    Ok(socket)
}

/// One datagram from the kernel; what other processes send is passed over.
fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        let mut space = &mut *buffer;
        let (length, sender) = socket.recv_from(&mut space, 0)?;
        if sender.port_number() == 0 {
            return Ok(length);
        }
    }
}

fn borrow(socket: &Socket) -> BorrowedFd<'_> {
    socket.as_fd()
}
