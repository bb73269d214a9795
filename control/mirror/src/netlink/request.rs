//! The requests that the mirror sends: dumps, and the wish that a neighbour be resolved.

use super::group::{GROUPS4, GROUPS6};
use super::station::{NDA_LLADDR, NDA_VLAN, NUD_PERMANENT};
use super::{BRIDGE, IPV4, IPV6};
use std::net::IpAddr;

const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;
/// A routing rule.
pub const RTM_NEWRULE: u16 = 32;
/// A routing rule that is gone.
pub const RTM_DELRULE: u16 = 33;
const RTM_GETRULE: u16 = 34;
const RTM_GETNETCONF: u16 = 82;
const RTM_GETNEXTHOP: u16 = 106;
const RTM_GETVLAN: u16 = 114;
const IFLA_EXT_MASK: u16 = 29;
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;
const NDA_DST: u16 = 1;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const NTF_USE: u8 = 1;
const NTF_SELF: u8 = 2;
const IFA_LOCAL: u16 = 2;
const IFA_F_NODAD: u8 = 2;

/// A table of Linux that can be read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// Interfaces.
    Links,
    /// Forwarding settings of IPv4.
    Netconf4,
    /// Forwarding settings of IPv6.
    Netconf6,
    /// Addresses of interfaces, both families.
    Addresses,
    /// Neighbours, both families.
    Neighbours,
    /// VLANs of bridges and their members.
    Vlans,
    /// Hosts on bridges, and behind ends of VXLANs.
    Stations,
    /// Next-hop objects.
    Objects,
    /// IPv4 routes of all tables.
    Routes4,
    /// IPv6 routes of all tables.
    Routes6,
}

impl What {
    /// All, in the order in which they depend on each other.
    pub const ALL: [What; 10] = [
        What::Links,
        What::Netconf4,
        What::Netconf6,
        What::Addresses,
        What::Neighbours,
        What::Vlans,
        What::Stations,
        What::Objects,
        What::Routes4,
        What::Routes6,
    ];
}

/// The request that dumps `what`; headers as strict checking wants them.
pub fn dump(what: What) -> Vec<u8> {
    let (kind, family, fixed) = match what {
        What::Links => (RTM_GETLINK, 0, 16),
        What::Netconf4 => (RTM_GETNETCONF, IPV4, 4),
        What::Netconf6 => (RTM_GETNETCONF, IPV6, 4),
        What::Addresses => (RTM_GETADDR, 0, 8),
        What::Neighbours => (RTM_GETNEIGH, 0, 12),
        What::Vlans => (RTM_GETVLAN, BRIDGE, super::vlan::FIXED),
        What::Stations => (RTM_GETNEIGH, BRIDGE, 12),
        What::Objects => (RTM_GETNEXTHOP, 0, 8),
        What::Routes4 => (RTM_GETROUTE, IPV4, 12),
        What::Routes6 => (RTM_GETROUTE, IPV6, 12),
    };
    let mut body = vec![0; fixed];
    body[0] = family;
    if what == What::Links {
        attribute(&mut body, IFLA_EXT_MASK, &RTEXT_FILTER_SKIP_STATS.to_ne_bytes());
    }
    message(kind, libc::NLM_F_REQUEST | libc::NLM_F_DUMP, &body)
}

/// The request that dumps the routing rules of a family.
pub fn dump_rules(ipv6: bool) -> Vec<u8> {
    let mut body = [0; 12];
    body[0] = if ipv6 { IPV6 } else { IPV4 };
    message(RTM_GETRULE, libc::NLM_F_REQUEST | libc::NLM_F_DUMP, &body)
}

/// The requests that dump Linux's multicast routes of a family, and the rules that choose among its
/// tables of these.
pub fn dump_groups(ipv6: bool) -> [Vec<u8>; 2] {
    let mut body = [0; 12];
    body[0] = if ipv6 { GROUPS6 } else { GROUPS4 };
    [RTM_GETROUTE, RTM_GETRULE].map(|kind| message(kind, libc::NLM_F_REQUEST | libc::NLM_F_DUMP, &body))
}

/// The request that Linux treat the neighbour as in use: an unknown one is asked for, a stale one
/// is probed, a reachable one is left alone (`NTF_USE`).
pub fn resolve(ifindex: u32, address: IpAddr) -> Vec<u8> {
    let mut body = vec![0; 12];
    body[0] = if address.is_ipv4() { IPV4 } else { IPV6 };
    body[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    body[10] = NTF_USE;
    match address {
        IpAddr::V4(address) => attribute(&mut body, NDA_DST, &address.octets()),
        IpAddr::V6(address) => attribute(&mut body, NDA_DST, &address.octets()),
    }
    message(RTM_NEWNEIGH, libc::NLM_F_REQUEST | libc::NLM_F_CREATE, &body)
}

/// The question by which route this machine sends, from one of its addresses or whichever suits, by
/// an interface or whichever leads there.
pub fn route(from: Option<IpAddr>, to: IpAddr, by: Option<u32>) -> Vec<u8> {
    let mut body = vec![0; 12];
    let (family, bits) = if to.is_ipv4() { (IPV4, 32) } else { (IPV6, 128) };
    (body[0], body[1], body[2]) = (family, bits, if from.is_some() { bits } else { 0 });
    for (kind, address) in [(RTA_DST, to)].into_iter().chain(from.map(|from| (RTA_SRC, from))) {
        match address {
            IpAddr::V4(address) => attribute(&mut body, kind, &address.octets()),
            IpAddr::V6(address) => attribute(&mut body, kind, &address.octets()),
        }
    }
    if let Some(by) = by {
        attribute(&mut body, RTA_OIF, &by.to_ne_bytes());
    }
    message(RTM_GETROUTE, libc::NLM_F_REQUEST, &body)
}

/// The request that an interface have an address, alone in its subnet, or have it no more. Nobody
/// is asked whether it is another's already.
pub fn address(ifindex: u32, address: IpAddr, have: bool) -> Vec<u8> {
    let mut body = vec![0; 8];
    let (family, bits) = if address.is_ipv4() { (IPV4, 32) } else { (IPV6, 128) };
    (body[0], body[1], body[2]) = (family, bits, IFA_F_NODAD);
    body[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    match address {
        IpAddr::V4(address) => attribute(&mut body, IFA_LOCAL, &address.octets()),
        IpAddr::V6(address) => attribute(&mut body, IFA_LOCAL, &address.octets()),
    }
    let (kind, flags) = if have { (RTM_NEWADDR, libc::NLM_F_CREATE) } else { (RTM_DELADDR, 0) };
    message(kind, libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags, &body)
}

/// The request that a bridge take frames to an Ethernet address for its own, in a VLAN of its, or
/// in none (0).
pub fn bridge_address(bridge: u32, vlan: u16, mac: [u8; 6]) -> Vec<u8> {
    let mut body = vec![0; 12];
    body[0] = BRIDGE;
    body[4..8].copy_from_slice(&bridge.to_ne_bytes());
    body[8..10].copy_from_slice(&NUD_PERMANENT.to_ne_bytes());
    body[10] = NTF_SELF;
    attribute(&mut body, NDA_LLADDR, &mac);
    if vlan != 0 {
        attribute(&mut body, NDA_VLAN, &vlan.to_ne_bytes());
    }
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    message(RTM_NEWNEIGH, flags, &body)
}

pub(super) fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(super::align(body.len()), 0);
}

pub(super) fn message(kind: u16, flags: i32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(super::HEADER + body.len());
    bytes.extend_from_slice(&((super::HEADER + body.len()) as u32).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&(flags as u16).to_ne_bytes());
    bytes.extend_from_slice(&1u32.to_ne_bytes());
    bytes.extend_from_slice(&0u32.to_ne_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// A route message with a nested list of next hops: the seed of the fuzz tests.
#[cfg(test)]
pub fn tests_route_message() -> Vec<u8> {
    let mut body = vec![IPV4, 24, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
    attribute(&mut body, 1, &[192, 0, 2, 0]);
    attribute(&mut body, 6, &20u32.to_ne_bytes());
    let mut hops = Vec::new();
    for last in [1, 2] {
        hops.extend_from_slice(&16u16.to_ne_bytes());
        hops.extend_from_slice(&[0, 0]);
        hops.extend_from_slice(&3u32.to_ne_bytes());
        attribute(&mut hops, 5, &[10, 0, 0, last]);
    }
    attribute(&mut body, 9, &hops);
    message(24, 0, &body)
}
