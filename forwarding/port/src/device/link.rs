//! How an interface's link stands, and how often it was lost.

use std::io;

use super::netlink::{HEADER, Socket, attributes, number};

const IFLA_IFNAME: u16 = 3;
const IFLA_CARRIER_DOWN_COUNT: u16 = 48;
/// struct nlmsghdr and struct ifinfomsg
const HEADERS: usize = HEADER + 16;

/// How a link stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The interface's index: another one than before is another interface of the same name.
    pub ifindex: u32,
    /// Whether it is meant to be up.
    pub up: bool,
    /// Whether frames can pass: there is a carrier, too.
    pub running: bool,
    /// How often the carrier was lost, since the interface is there. The kernel counts at once,
    /// however short it was.
    pub losses: u32,
}

/// The link of the interface with this name, in this thread's network namespace.
pub(super) fn named(name: &str) -> io::Result<Link> {
    let socket = Socket::open(libc::NETLINK_ROUTE)?;
    let name = [name.as_bytes(), &[0]].concat();
    let reply = socket.request(libc::RTM_GETLINK, &[0; 16], IFLA_IFNAME, &name)?;
    parse(&reply).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

fn parse(message: &[u8]) -> Option<Link> {
    let flags = number(message.get(24..28)?) as libc::c_int;
    let counts = |(kind, _): &(u16, &[u8])| *kind == IFLA_CARRIER_DOWN_COUNT;
    Some(Link {
        ifindex: number(message.get(20..24)?) as u32,
        up: flags & libc::IFF_UP != 0,
        running: flags & libc::IFF_RUNNING != 0,
        losses: attributes(message.get(HEADERS..)?).find(counts).map_or(0, |(_, count)| number(count) as u32),
    })
}
