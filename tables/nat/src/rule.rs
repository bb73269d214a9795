//! Rules: what is translated, and into what. They are checked when they are made
//! ([`Text::check`](crate::Text::check)); whoever holds [`Rules`] need not look again.
//!
//! The first rule that matches decides, once for where a flow goes (before its route is looked up)
//! and once for where it seems to come from (when the port it leaves by is known).
//!
//! | action | changes | `input` is | `output` is |
//! |---|---|---|---|
//! | none | nothing: what matches is exempt from the rules below | the port it comes by | the port it leaves by |
//! | masquerade, source, deterministic | the source | the port it comes by | the port it leaves by |
//! | destination | the destination | the port it comes by | - |
//! | one-to-one, nptv6 | the source outwards, the destination inwards | - | the port to the outside |
//! | nat64 | both | the port it comes by | - |

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{Addresses, Clamp, Deterministic, Nptv6, Prefix64};

/// All rules, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rules {
    /// Mappings at most, of all rules together.
    pub capacity: usize,
    /// Whether it is logged when a mapping is made or ends.
    pub log: bool,
    /// IPv4 packets that may be fragmented NAT64 makes IPv6 packets of that are no larger than
    /// this, whatever the way carries.
    pub lowest_ipv6_mtu: u16,
    /// The part of every range of ports that is given out; `None`: all of it.
    pub half: Option<Half>,
    /// The rules.
    pub rules: Vec<Rule>,
    /// Where TCP's segment size is held down.
    pub clamps: Vec<ClampRule>,
}

/// Mappings at most, unless something else is said.
pub(crate) const MAPPINGS: u64 = 1 << 20;
/// Addresses of one pool at most: its bitmaps take 25 KiB an address and protocol in use.
pub const MOST_ADDRESSES: u64 = 1 << 16;

impl From<Vec<Rule>> for Rules {
    /// Rules of which nothing else is said.
    fn from(rules: Vec<Rule>) -> Rules {
        let lowest_ipv6_mtu = Rules::LOWEST_IPV6_MTU;
        let capacity = MAPPINGS as usize;
        Rules { capacity, log: false, lowest_ipv6_mtu, half: None, rules, clamps: Vec::new() }
    }
}

impl Rules {
    /// The least MTU of IPv6 (RFC 7915, 4): what every way behind the router carries, even where
    /// its host cannot be told of a narrow one.
    pub const LOWEST_IPV6_MTU: u16 = 1280;

    /// What is to be logged when the rules begin to hold: the arithmetic of deterministic blocks
    /// (RFC 7422, 3), whose mappings are not.
    pub fn log_lines(&self) -> Vec<String> {
        let line = |rule: &Rule| match &rule.action {
            Action::Deterministic { blocks, .. } => {
                Some(format!("{} rule={:?}", blocks.log_line(), rule.name))
            }
            _ => None,
        };
        if self.log { self.rules.iter().filter_map(line).collect() } else { Vec::new() }
    }
}

/// Segments of TCP over some ports are held down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClampRule {
    /// Names or patterns of ports that packets come by; empty: all.
    pub input: Vec<String>,
    /// Names or patterns of ports that packets leave by; empty: all.
    pub output: Vec<String>,
    /// Whether it is for what leaves as IPv4, as IPv6.
    pub families: [bool; 2],
    /// To what.
    pub mss: Clamp,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Its name, unique.
    pub name: String,
    /// What it is for.
    pub matches: Match,
    /// What it does.
    pub action: Action,
    /// What Linux does in its stead while the plane is gone, if it cannot do the same.
    pub fallback: Option<Fallback>,
}

/// What a rule is for; what is empty matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Match {
    /// Names or patterns of ports.
    pub input: Vec<String>,
    /// Names or patterns of ports.
    pub output: Vec<String>,
    /// Names or patterns of ports that are not meant by `input`, which `router.toml` cannot say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_input: Vec<String>,
    /// The same of `output`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_output: Vec<String>,
    /// Source prefixes.
    pub source: Vec<IpNet>,
    /// Destination prefixes. In the choice of the source: the destination as it is by then.
    pub destination: Vec<IpNet>,
    /// Protocols by number.
    pub protocols: Vec<u8>,
    /// Source ports.
    pub source_ports: Vec<RangeInclusive<u16>>,
    /// Destination ports.
    pub destination_ports: Vec<RangeInclusive<u16>>,
}

impl Match {
    /// Whether nothing is said of the port that packets leave by.
    pub fn leaves_anywhere(&self) -> bool {
        self.output.is_empty() && self.not_output.is_empty()
    }

    /// Whether it is about packets that leave by a port, and says so; `is`: whether a word means
    /// it.
    pub fn names_output(&self, is: impl Fn(&str) -> bool) -> bool {
        let any = |words: &[String]| words.iter().any(|word| is(word));
        !self.leaves_anywhere() && (self.output.is_empty() || any(&self.output)) && !any(&self.not_output)
    }
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Action {
    /// What matches stays as it is.
    None,
    /// The source becomes the address of the port that the packet leaves by.
    Masquerade(Dynamic),
    /// The source becomes one of a pool.
    Source {
        /// The pool.
        addresses: Addresses,
        /// How its ports are given out.
        #[serde(flatten)]
        dynamic: Dynamic,
    },
    /// The source becomes what follows from it (RFC 7422); `ports` and `pooling` of `dynamic` have
    /// no meaning.
    Deterministic {
        /// The arithmetic.
        blocks: Deterministic,
        /// What passes inwards.
        #[serde(flatten)]
        dynamic: Dynamic,
    },
    /// The destination becomes another.
    Destination {
        /// Where to; at least one.
        targets: Vec<Target>,
        /// How one of several is chosen.
        spread: Spread,
        /// Whether hosts on other ports than `input` may use it, and hosts on the target's own port
        /// get answers by way of this router.
        hairpin: bool,
    },
    /// Every address of one prefix for the same of another.
    OneToOne {
        /// The prefix inside.
        inside: IpNet,
        /// The prefix outside, of the same family and length.
        outside: IpNet,
        /// Whether hosts inside reach each other by their addresses outside.
        hairpin: bool,
    },
    /// IPv6 hosts reach IPv4 (RFC 6146); it is the PLAT of 464XLAT (RFC 6877) as well.
    Nat64 {
        /// What stands before IPv4 addresses.
        prefix: Prefix64,
        /// The IPv4 addresses that the hosts appear with.
        addresses: Addresses,
        /// Whether the well-known prefix may stand before addresses that are not global.
        private: bool,
        /// How ports are given out.
        #[serde(flatten)]
        dynamic: Dynamic,
    },
    /// One IPv6 prefix for another (RFC 6296).
    Nptv6(Nptv6),
}

/// Mappings of one host unless a rule says otherwise. A busy host has some hundred at a time, a
/// resolver or a mail relay some thousand; one that has more is itself a router with many behind
/// it, or takes the ports of an address, 64,512 by protocol, away from all others.
pub const HOST_LIMIT: u32 = 8192;

/// How outside ports are given out, and who may use them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dynamic {
    /// The ports; where they reach below 1,024, low ports are given to low ports only (RFC 4787,
    /// REQ-3).
    pub ports: RangeInclusive<u16>,
    /// Whether a host has one address for all its mappings (RFC 4787, REQ-2).
    pub pooling: Pooling,
    /// Who may send to a mapping (RFC 4787, section 5).
    pub filtering: Filtering,
    /// Whether hosts inside reach each other's mappings (RFC 4787, REQ-9).
    pub hairpin: bool,
    /// Mappings of one host at most (RFC 6888, REQ-3): [`HOST_LIMIT`] unless a rule says otherwise;
    /// of deterministic rules the block.
    pub host_limit: Option<u32>,
}

/// The part of a range of ports that one of two routers gives out, where both translate into the
/// same addresses. Each knows the other's mappings by sharing flows; only new ones could meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Half {
    /// From the first one on; it has one more where their number is odd.
    Lower,
    /// The rest.
    Upper,
}

impl Half {
    /// The half of a range. The upper one of a single port is empty.
    pub(crate) fn of(self, ports: &RangeInclusive<u16>) -> RangeInclusive<u16> {
        let (low, high) = (*ports.start(), *ports.end());
        let middle = low + high.saturating_sub(low) / 2;
        match self {
            Half::Lower => low..=middle,
            Half::Upper if middle < high => middle + 1..=high,
            Half::Upper => RangeInclusive::new(1, 0),
        }
    }

    /// The half of a range, or all of it.
    pub(crate) fn of_any(half: Option<Half>, ports: &RangeInclusive<u16>) -> RangeInclusive<u16> {
        half.map_or_else(|| ports.clone(), |half| half.of(ports))
    }
}

/// Which address of a pool a host's next mapping has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// That of its other mappings; when its ports are used up, the host gets no more.
    #[default]
    Paired,
    /// Any.
    Arbitrary,
}

/// Who may open a flow towards a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filtering {
    /// Whom the host has sent to: the flow table knows them.
    #[default]
    AddressAndPortDependent,
    /// Everybody.
    EndpointIndependent,
}

/// Where a destination rule leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Target {
    /// The address, or the prefix whose host part is kept.
    pub net: IpNet,
    /// The ports: one for all, or a range as wide as the rule's; `None`: unchanged.
    pub ports: Option<RangeInclusive<u16>>,
}

/// How one of several targets is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// By the client's address: it stays with one.
    #[default]
    Hash,
    /// One after the other.
    RoundRobin,
}

/// What becomes of what a rule is for when it is Linux that forwards, and cannot do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fallback {
    /// It passes untranslated.
    Open,
    /// It is dropped.
    Closed,
}

impl Rule {
    /// As it is where a half of the ports is given out, or all of them.
    pub(crate) fn given_out(&self, half: Option<Half>) -> Rule {
        let mut rule = self.clone();
        if let Action::Masquerade(dynamic) | Action::Source { dynamic, .. } = &mut rule.action {
            dynamic.ports = Half::of_any(half, &dynamic.ports);
        }
        rule
    }
}

impl Action {
    /// The word for it in `router.toml`.
    pub const fn name(&self) -> &'static str {
        match self {
            Action::None => "none",
            Action::Masquerade(_) => "masquerade",
            Action::Source { .. } => "source",
            Action::Deterministic { .. } => "deterministic",
            Action::Destination { .. } => "destination",
            Action::OneToOne { .. } => "one-to-one",
            Action::Nat64 { .. } => "nat64",
            Action::Nptv6(_) => "nptv6",
        }
    }

    /// How it gives out ports, if it does.
    pub fn dynamic(&self) -> Option<&Dynamic> {
        match self {
            Action::Masquerade(dynamic)
            | Action::Source { dynamic, .. }
            | Action::Deterministic { dynamic, .. }
            | Action::Nat64 { dynamic, .. } => Some(dynamic),
            _ => None,
        }
    }

    /// Its pool, if it has one of its own.
    pub fn addresses(&self) -> Option<&Addresses> {
        match self {
            Action::Source { addresses, .. } | Action::Nat64 { addresses, .. } => Some(addresses),
            Action::Deterministic { blocks, .. } => Some(&blocks.outside),
            _ => None,
        }
    }
}

/// The address of `to` with the host part of `address`, as both prefixes are equally long.
pub(crate) fn moved(address: IpAddr, to: IpNet) -> IpAddr {
    match (address, to) {
        (IpAddr::V4(address), IpNet::V4(to)) => {
            let host = u32::from(address) & u32::from(to.hostmask());
            IpAddr::V4((u32::from(to.network()) | host).into())
        }
        (IpAddr::V6(address), IpNet::V6(to)) => {
            let host = u128::from(address) & u128::from(to.hostmask());
            IpAddr::V6((u128::from(to.network()) | host).into())
        }
        (address, _) => address,
    }
}
