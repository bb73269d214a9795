//! `RTM_NEWNETCONF`: the per-interface settings of IPv4 and IPv6 that decide forwarding.

use super::{IPV4, IPV6, attributes_after, u32_value};

/// Its number.
pub const RTM_NEWNETCONF: u16 = 80;
const FIXED: usize = 1;
const NETCONFA_IFINDEX: u16 = 1;
const NETCONFA_FORWARDING: u16 = 2;
const NETCONFA_RP_FILTER: u16 = 3;
const NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN: u16 = 6;

/// What a netconf message says; a notification carries only what changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetconfMessage {
    /// Whether these are the settings of IPv6.
    pub ipv6: bool,
    /// The interface, or [`ALL`] or [`DEFAULT`].
    pub ifindex: i32,
    /// Forwarding is on.
    pub forwarding: Option<bool>,
    /// Reverse-path filter: 0 off, 1 strict, 2 loose (RFC 3704).
    pub rp_filter: Option<u8>,
    /// Routes by an interface without carrier are passed over.
    pub ignore_linkdown: Option<bool>,
}

/// `conf/all`.
pub const ALL: i32 = -1;
/// `conf/default`.
pub const DEFAULT: i32 = -2;

/// Parses the body.
pub fn parse(body: &[u8]) -> Option<NetconfMessage> {
    let family = *body.first()?;
    if family != IPV4 && family != IPV6 {
        return None;
    }
    let mut ifindex = None;
    let (mut forwarding, mut rp_filter, mut ignore_linkdown) = (None, None, None);
    for (kind, value) in attributes_after(body, FIXED)? {
        match kind {
            NETCONFA_IFINDEX => ifindex = Some(u32_value(value)? as i32),
            NETCONFA_FORWARDING => forwarding = Some(u32_value(value)? != 0),
            NETCONFA_RP_FILTER => rp_filter = Some(u32_value(value)?.min(2) as u8),
            NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN => ignore_linkdown = Some(u32_value(value)? != 0),
            _ => {}
        }
    }
    Some(NetconfMessage { ipv6: family == IPV6, ifindex: ifindex?, forwarding, rp_filter, ignore_linkdown })
}
