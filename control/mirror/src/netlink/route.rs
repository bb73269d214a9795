//! `RTM_NEWROUTE` and `RTM_DELROUTE`: the message that arrives a million times.
//!
//! Parsing allocates nothing for a route of up to two paths.

use super::{IPV4, IPV6, address, attributes, attributes_after, u16_at, u32_at, u32_value};
use crate::model::Path;
use ipnet::IpNet;
use smallvec::SmallVec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const FIXED: usize = 12;
const RTM_F_CLONED: u32 = 0x200;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_CACHEINFO: u16 = 12;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_PREF: u16 = 20;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;
const RTA_NH_ID: u16 = 30;
const RTAX_MTU: u16 = 2;

/// What a route message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteMessage {
    /// Destination, host bits zero.
    pub prefix: IpNet,
    /// Number of its table.
    pub table: u32,
    /// `RTPROT_*`: who made it.
    pub protocol: u8,
    /// `RTN_*`.
    pub kind: u8,
    /// `RT_SCOPE_*`.
    pub scope: u8,
    /// Type of service it is restricted to; 0 = none.
    pub tos: u8,
    /// Priority: the lowest wins.
    pub metric: u32,
    /// Router preference (RFC 4191): 0 medium, 1 high, 3 low.
    pub preference: u8,
    /// Path MTU set on the route, bytes; 0 = none. Linux holds forwarded packets to it, locked or
    /// not.
    pub mtu: u32,
    /// Whether it names the source of what this machine itself sends by it.
    pub sourced: bool,
    /// Only for packets from a source prefix (IPv6 subtrees).
    pub from: Option<IpNet>,
    /// When it expires, hundredths of a second from now.
    pub expires: Option<u32>,
    /// Number of the next-hop object it uses.
    pub object: Option<u32>,
    /// Ways out, when it uses no object.
    pub paths: SmallVec<[Path; 2]>,
}

/// How this machine sends to a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sending {
    /// How long a packet may be, as far as Linux has learned that on the way; `None`: as long as
    /// the interface says.
    pub mtu: Option<u32>,
    /// The address that it comes from, if nobody says another.
    pub source: Option<IpAddr>,
}

impl Sending {
    /// What a message says, of a route or of what Linux has learned about one destination.
    pub fn read(body: &[u8]) -> Sending {
        let mut sending = Sending::default();
        for (kind, value) in attributes_after(body, FIXED).into_iter().flatten() {
            match kind {
                RTA_METRICS => {
                    let mtu = attributes(value).find(|(kind, _)| *kind == RTAX_MTU);
                    sending.mtu = mtu.and_then(|(_, value)| u32_value(value));
                }
                RTA_PREFSRC => sending.source = address(value),
                _ => {}
            }
        }
        sending
    }
}

/// Parses the body; `None` for other families and for what is no route but a cached exception.
pub fn parse(body: &[u8]) -> Option<RouteMessage> {
    let fixed: &[u8; FIXED] = body.get(..FIXED)?.try_into().ok()?;
    let [family, length, source_length, tos, table, protocol, scope, kind, ..] = *fixed;
    if u32_at(fixed, 8)? & RTM_F_CLONED != 0 {
        return None;
    }
    let mut destination = match family {
        IPV4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IPV6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let mut route = RouteMessage {
        prefix: IpNet::default(),
        table: u32::from(table),
        protocol,
        kind,
        scope,
        tos,
        metric: 0,
        preference: 0,
        mtu: 0,
        sourced: false,
        from: None,
        expires: None,
        object: None,
        paths: SmallVec::new(),
    };
    let mut single = Path { ifindex: 0, gateway: None, weight: 1, encap: false };
    for (kind, value) in attributes_after(body, FIXED)? {
        match kind {
            RTA_DST => destination = address(value)?,
            RTA_SRC => route.from = IpNet::new(address(value)?, source_length).ok().map(|from| from.trunc()),
            RTA_OIF => single.ifindex = u32_value(value)?,
            RTA_GATEWAY => single.gateway = Some(address(value)?),
            RTA_VIA => single.gateway = Some(via(value)?),
            RTA_PRIORITY => route.metric = u32_value(value)?,
            RTA_PREFSRC => route.sourced = true,
            RTA_METRICS => route.mtu = mtu(value)?,
            RTA_MULTIPATH => multipath(value, &mut route.paths)?,
            RTA_CACHEINFO => route.expires = expires(value),
            RTA_TABLE => route.table = u32_value(value)?,
            RTA_PREF => route.preference = *value.first()?,
            RTA_ENCAP_TYPE => single.encap = u16_at(value, 0)? != 0,
            RTA_ENCAP => single.encap = true,
            RTA_NH_ID => route.object = Some(u32_value(value)?),
            _ => {}
        }
    }
    if destination.is_ipv4() != (family == IPV4) {
        return None;
    }
    if source_length == 0 {
        route.from = None;
    }
    // FPM sends some prefixes with host bits: the prefix is what counts.
    route.prefix = IpNet::new(destination, length).ok()?.trunc();
    if route.object.is_some() {
        route.paths.clear();
    } else if route.paths.is_empty() && (single.ifindex != 0 || single.gateway.is_some()) {
        route.paths.push(single);
    }
    Some(route)
}

/// `struct rtvia`: family (16), then an address of that family: RFC 8950's IPv6 gateway of an IPv4
/// route.
fn via(value: &[u8]) -> Option<IpAddr> {
    let family = u16_at(value, 0)?;
    let gateway = address(value.get(2..)?)?;
    (gateway.is_ipv4() == (family == u16::from(IPV4))).then_some(gateway)
}

/// The MTU among `RTAX_*`; 0 = none.
fn mtu(metrics: &[u8]) -> Option<u32> {
    attributes(metrics).find(|(kind, _)| *kind == RTAX_MTU).map_or(Some(0), |(_, value)| u32_value(value))
}

/// `struct rtnexthop` one after the other: length (16), flags (8), weight - 1 (8), interface (32),
/// attributes.
fn multipath(value: &[u8], paths: &mut SmallVec<[Path; 2]>) -> Option<()> {
    const FIXED: usize = 8;
    let mut rest = value;
    while rest.len() >= FIXED {
        let length = u16_at(rest, 0)? as usize;
        let entry = rest.get(..length).filter(|entry| entry.len() >= FIXED)?;
        let mut path =
            Path { ifindex: u32_at(entry, 4)?, gateway: None, weight: u32::from(entry[3]) + 1, encap: false };
        for (kind, value) in attributes(&entry[FIXED..]) {
            match kind {
                RTA_GATEWAY => path.gateway = Some(address(value)?),
                RTA_VIA => path.gateway = Some(via(value)?),
                RTA_ENCAP_TYPE => path.encap = u16_at(value, 0)? != 0,
                RTA_ENCAP => path.encap = true,
                _ => {}
            }
        }
        paths.push(path);
        rest = rest.get(super::align(length)..).unwrap_or(&[]);
    }
    Some(())
}

/// `rta_expires`, third word of `struct rta_cacheinfo`; 0 = never.
fn expires(value: &[u8]) -> Option<u32> {
    u32_at(value, 8).filter(|ticks| *ticks != 0 && *ticks <= i32::MAX as u32)
}
