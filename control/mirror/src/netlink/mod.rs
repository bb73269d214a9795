//! The netlink messages that the mirror reads, as checked types.
//!
//! Why an own parser when `netlink-packet-route` exists: a full table arrives as a million route
//! messages, and that library builds a vector of owned attributes for each; it refuses a whole
//! message when one attribute, even one that nobody here reads, has a size it does not know, which
//! with a newer kernel would lose a port; and FPM carries the same messages from a socket that is
//! not the kernel's. What is needed is small: walk the attributes, take the dozen that matter,
//! ignore the rest. Sockets come from `netlink-sys`.
//!
//! All numbers are in host byte order, addresses in network order (RFC 3549). A message whose fixed
//! part is cut short, or whose needed attribute has the wrong size, parses to `None` and is counted
//! as malformed; an attribute list cut short ends there.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub mod address;
pub mod conntrack;
pub mod diag;
pub mod group;
pub mod link;
pub mod neighbour;
pub mod netconf;
pub mod netfilter;
pub mod nexthop;
pub mod request;
pub mod route;
pub mod rule;
pub mod socket;
pub mod station;
pub mod tc;
pub mod vlan;
pub mod vtep;
pub mod wireguard;
pub mod xfrm;

/// `AF_INET` as the byte that stands in netlink headers.
pub const IPV4: u8 = libc::AF_INET as u8;
/// `AF_INET6` as the byte that stands in netlink headers.
pub const IPV6: u8 = libc::AF_INET6 as u8;

/// `AF_BRIDGE`: what bridges say of their members, and of hosts behind these.
pub const BRIDGE: u8 = libc::AF_BRIDGE as u8;

/// Flags of `nlmsghdr` that notifications carry: how the entry joined the others of its key.
pub const REPLACE: u16 = libc::NLM_F_REPLACE as u16;
/// See [`REPLACE`]: the entry stands behind its equals.
pub const APPEND: u16 = libc::NLM_F_APPEND as u16;
/// See [`REPLACE`]: the entry has no equal.
pub const EXCLUSIVE: u16 = libc::NLM_F_EXCL as u16;
/// The dump was interrupted by a change and may miss or repeat entries.
pub const INTERRUPTED: u16 = libc::NLM_F_DUMP_INTR as u16;

const HEADER: usize = 16;

/// One netlink message, header parsed.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// `RTM_*` or `NLMSG_*`.
    pub kind: u16,
    /// `NLM_F_*`.
    pub flags: u16,
    /// Sequence number of the request that this answers.
    pub sequence: u32,
    /// What follows the header.
    pub body: &'a [u8],
}

/// The messages in one datagram or FPM frame. Stops at the first whose length is not possible.
pub fn messages(bytes: &[u8]) -> Messages<'_> {
    Messages { rest: bytes, torn: false }
}

/// Iterator over [`messages`].
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
    torn: bool,
}

impl Messages<'_> {
    /// Whether the iteration ended at bytes that are no message.
    pub fn torn(&self) -> bool {
        self.torn
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        if self.rest.is_empty() || self.torn {
            return None;
        }
        let length = u32_at(self.rest, 0).unwrap_or(0) as usize;
        if length < HEADER || length > self.rest.len() {
            self.torn = true;
            return None;
        }
        let (message, _) = self.rest.split_at(length);
        self.rest = self.rest.get(align(length)..).unwrap_or(&[]);
        Some(Message {
            kind: u16_at(message, 4)?,
            flags: u16_at(message, 6)?,
            sequence: u32_at(message, 8)?,
            body: &message[HEADER..],
        })
    }
}

/// What an `NLMSG_ERROR` says.
pub fn error(message: &Message<'_>) -> io::Error {
    io::Error::from_raw_os_error(-message.body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code)))
}

/// The attributes (`struct rtattr`) in `bytes`: type without its flag bits, and value.
pub fn attributes(bytes: &[u8]) -> Attributes<'_> {
    Attributes(bytes)
}

/// Iterator over [`attributes`].
#[derive(Clone, Debug)]
pub struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let length = u16_at(self.0, 0)? as usize;
        let kind = u16_at(self.0, 2)? & 0x3fff;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(align(length)..).unwrap_or(&[]);
        Some((kind, value))
    }
}

/// The attributes that follow a fixed part of `fixed` bytes.
fn attributes_after(body: &[u8], fixed: usize) -> Option<Attributes<'_>> {
    Some(Attributes(body.get(align(fixed)..)?))
}

const fn align(length: usize) -> usize {
    (length + 3) & !3
}

#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// An attribute that holds one `u32`.
#[inline]
pub(crate) fn u32_value(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.try_into().ok()?))
}

/// An attribute that holds an address of either family.
#[inline]
fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?))),
        16 => Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?))),
        _ => None,
    }
}

/// An attribute that holds a NUL-terminated string.
fn string(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// An attribute that holds an Ethernet address.
fn mac(value: &[u8]) -> Option<[u8; 6]> {
    value.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_message_ends_the_iteration() {
        let mut bytes = vec![0u8; 20];
        bytes[0] = 20;
        bytes[4] = 24;
        assert_eq!(messages(&bytes).count(), 1);
        bytes[0] = 15;
        let mut iteration = messages(&bytes);
        assert!(iteration.next().is_none() && iteration.torn());
        bytes[0] = 21;
        let mut iteration = messages(&bytes);
        assert!(iteration.next().is_none() && iteration.torn());
    }

    #[test]
    fn every_parser_survives_hostile_bytes() {
        let mut random = chance::Random(0x9e37_79b9_7f4a_7c15_u64);
        let mut random = move || random.next();
        let seed = request::tests_route_message();
        for round in 0..300_000 {
            let mut bytes = seed.clone();
            if round % 3 == 0 {
                bytes = (0..random() % 200).map(|_| random() as u8).collect();
            }
            for _ in 0..random() % 6 {
                if !bytes.is_empty() {
                    let at = random() as usize % bytes.len();
                    bytes[at] = random() as u8;
                }
            }
            bytes.truncate(random() as usize % 220);
            for message in messages(&bytes) {
                parse_all(message.body);
            }
            parse_all(&bytes);
        }
    }

    fn parse_all(body: &[u8]) {
        std::hint::black_box((
            route::parse(body),
            link::parse(body),
            link::parse_bridged(body),
            (station::parse(body), vlan::parse(body), vtep::parse(body)),
            address::parse(body),
            neighbour::parse(body),
            nexthop::parse(body),
            netconf::parse(body),
            (group::parse(body), group::chooses_table(body), group::tells_interfaces(body)),
            rule::parse(body),
            (wireguard::parse_family(body), wireguard::parse_device(body, &mut wireguard::Device::default())),
            netfilter::parse_chain(body),
            netfilter::parse_generation(body),
            netfilter::parse_own_rule(netfilter::CHAIN + 3, body),
        ));
    }
}
