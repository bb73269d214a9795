//! Values of nftables as numbers: names that `nft` prints for some of them.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};
use rules::FlowState;
use serde_json::Value;
use wire::protocol;

/// Names and what they stand for.
type Names = &'static [(&'static str, u16)];

/// Types of ICMP (`nft describe icmp type`).
const ICMP: Names = &[
    ("echo-reply", 0),
    ("destination-unreachable", 3),
    ("source-quench", 4),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
    ("info-request", 15),
    ("info-reply", 16),
    ("address-mask-request", 17),
    ("address-mask-reply", 18),
];

/// Codes of ICMP (`nft describe icmp code`).
const ICMP_CODES: Names = &[
    ("net-unreachable", 0),
    ("host-unreachable", 1),
    ("prot-unreachable", 2),
    ("port-unreachable", 3),
    ("frag-needed", 4),
    ("net-prohibited", 9),
    ("host-prohibited", 10),
    ("admin-prohibited", 13),
];

/// Types of ICMPv6 (`nft describe icmpv6 type`).
const ICMP6: Names = &[
    ("destination-unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("mld-listener-query", 130),
    ("mld-listener-report", 131),
    ("mld-listener-done", 132),
    ("mld-listener-reduction", 132),
    ("nd-router-solicit", 133),
    ("nd-router-advert", 134),
    ("nd-neighbor-solicit", 135),
    ("nd-neighbor-advert", 136),
    ("nd-redirect", 137),
    ("router-renumbering", 138),
    ("ind-neighbor-solicit", 141),
    ("ind-neighbor-advert", 142),
    ("mld2-listener-report", 143),
];

/// Codes of ICMPv6 (`nft describe icmpv6 code`).
const ICMP6_CODES: Names = &[
    ("no-route", 0),
    ("admin-prohibited", 1),
    ("addr-unreachable", 3),
    ("port-unreachable", 4),
    ("policy-fail", 5),
    ("reject-route", 6),
];

/// Protocols that have another name elsewhere (`nft describe inet_proto`).
const PROTOCOLS: Names = &[("ipv6", 41), ("ipv6-icmp", 58), ("ipip", 94), ("hopopt", 0)];

/// Flags of TCP.
const FLAGS: Names = &[
    ("fin", 1),
    ("syn", 2),
    ("rst", 4),
    ("psh", 8),
    ("ack", 16),
    ("urg", 32),
    ("ecn", 64),
    ("ece", 64),
    ("cwr", 128),
];

/// States of connections, as bits of [`rules::FlowState`].
const STATES: Names = &[
    ("new", FlowState::New as u16),
    ("established", FlowState::Established as u16),
    ("related", FlowState::Related as u16),
    ("invalid", FlowState::Invalid as u16),
    ("untracked", FlowState::Untracked as u16),
];

/// The same, by the bits that the kernel has for them (`NF_CT_STATE_BIT`).
const BITS: &[(u32, FlowState)] = &[
    (1, FlowState::Invalid),
    (2, FlowState::Established),
    (4, FlowState::Related),
    (8, FlowState::New),
    (64, FlowState::Untracked),
];

/// What the kernel notes of connections whose destination is translated (`IPS_DST_NAT`).
pub(crate) const DNAT: u32 = 32;
/// The same of both (`IPS_SRC_NAT`).
const TRANSLATED: Names = &[("snat", 16), ("dnat", DNAT as u16)];

/// What names stand for in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Protocol,
    Dscp,
    Flags,
    State,
    /// Whether a connection is translated.
    Status,
    IcmpType {
        ipv6: bool,
    },
    IcmpCode {
        ipv6: bool,
    },
}

/// The number that a value is.
pub(crate) fn number(kind: Kind, value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => {
            let number = number.as_u64()?.try_into().ok()?;
            match kind {
                Kind::State => states(number),
                Kind::Status => TRANSLATED.iter().any(|(_, bit)| u32::from(*bit) == number).then_some(number),
                _ => Some(number),
            }
        }
        Value::String(name) => named(kind, name),
        // Bits, all of them set.
        Value::Array(several) if [Kind::Flags, Kind::State, Kind::Status].contains(&kind) => {
            several.iter().try_fold(0, |bits, one| Some(bits | number(kind, one)?))
        }
        Value::Object(object) => number(kind, object.get("|")?),
        _ => None,
    }
}

/// States by the kernel's bits; none where one is unknown.
fn states(bits: u32) -> Option<u32> {
    let known = BITS.iter().filter(|(bit, _)| bits & bit != 0);
    let (seen, states) =
        known.fold((0, 0), |(seen, states), (bit, state)| (seen | bit, states | *state as u32));
    (seen == bits).then_some(states)
}

fn named(kind: Kind, name: &str) -> Option<u32> {
    let find = |names: Names| names.iter().find(|(known, _)| *known == name).map(|(_, n)| u32::from(*n));
    match kind {
        Kind::Plain => None,
        Kind::Protocol => protocol::number(name).map(u32::from).or_else(|| find(PROTOCOLS)),
        Kind::Dscp => rules::code_point(name).map(u32::from),
        Kind::Flags => find(FLAGS),
        Kind::State => find(STATES),
        Kind::Status => find(TRANSLATED),
        Kind::IcmpType { ipv6: false } => find(ICMP),
        Kind::IcmpType { ipv6: true } => find(ICMP6),
        Kind::IcmpCode { ipv6: false } => find(ICMP_CODES),
        Kind::IcmpCode { ipv6: true } => find(ICMP6_CODES),
    }
}

/// The numbers from one to another that a value is.
pub(crate) fn range(kind: Kind, value: &Value) -> Option<(u32, u32)> {
    match &value["range"] {
        Value::Array(ends) => match ends.as_slice() {
            [first, last] => Some((number(kind, first)?, number(kind, last)?)),
            _ => None,
        },
        _ => number(kind, value).map(|number| (number, number)),
    }
}

/// The prefixes that a value of addresses is.
pub(crate) fn prefixes(value: &Value) -> Option<Vec<IpNet>> {
    let address = |value: &Value| value.as_str()?.parse::<IpAddr>().ok();
    if let Some(address) = address(value) {
        return Some(vec![IpNet::from(address)]);
    }
    let prefix = &value["prefix"];
    if !prefix.is_null() {
        let length = prefix["len"].as_u64()?.try_into().ok()?;
        return IpNet::new(address(&prefix["addr"])?, length).ok().map(|net| vec![net.trunc()]);
    }
    let ends = value["range"].as_array()?;
    match (address(ends.first()?)?, address(ends.get(1)?)?) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            Some(Ipv4Subnets::new(first, last, 0).map(IpNet::V4).collect())
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => {
            Some(Ipv6Subnets::new(first, last, 0).map(IpNet::V6).collect())
        }
        _ => None,
    }
}

/// An element without what is said about it.
pub(crate) fn bare(element: &Value) -> &Value {
    match &element["elem"]["val"] {
        Value::Null => element,
        value => value,
    }
}
