//! What a router advertisement says besides: its options. Lifetimes are seconds; `u32::MAX` is for
//! ever.

use std::net::Ipv6Addr;

use ipnet::Ipv6Net;
use wire::{Mac, neighbour};

use crate::{Domain, Preference};

/// An option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RaOption {
    /// The router's link address (RFC 4861, 4.6.1).
    SourceLink(Mac),
    /// The link's MTU (RFC 4861, 4.6.4).
    Mtu(u32),
    /// A prefix of the link's (RFC 4861, 4.6.2).
    Prefix {
        /// It.
        prefix: Ipv6Net,
        /// Its addresses are reached without a router.
        on_link: bool,
        /// Hosts make addresses of their own in it.
        autonomous: bool,
        /// How long addresses in it are valid.
        valid: u32,
        /// How long they are chosen for new connections; not longer than `valid`.
        preferred: u32,
    },
    /// A prefix that this router has a way to (RFC 4191, 2.3).
    Route {
        /// It.
        prefix: Ipv6Net,
        /// Against other routers that have a way to it.
        preference: Preference,
        /// How long.
        lifetime: u32,
    },
    /// Name servers (RFC 8106, 5.1), one or more.
    Dns {
        /// They.
        servers: Vec<Ipv6Addr>,
        /// How long they may be asked.
        lifetime: u32,
    },
    /// Domains to look for short names in (RFC 8106, 5.2), one or more.
    Search {
        /// They.
        domains: Vec<Domain>,
        /// How long.
        lifetime: u32,
    },
    /// The prefix in which IPv4 is reached through NAT64 (RFC 8781).
    Pref64 {
        /// Of 32, 40, 48, 56, 64 or 96 bits.
        prefix: Ipv6Net,
        /// How long, at most 65,528 seconds; a multiple of 8 is carried.
        lifetime: u16,
    },
    /// Where the portal of a network is told of (RFC 8910): a URI of printable ASCII, at most 2,038
    /// bytes.
    CaptivePortal(String),
}

const MTU: u8 = 5;
const PREFIX: u8 = 3;
const ROUTE: u8 = 24;
const DNS: u8 = 25;
const SEARCH: u8 = 31;
const CAPTIVE_PORTAL: u8 = 37;
const PREF64: u8 = 38;

const ON_LINK: u8 = 0x80;
const AUTONOMOUS: u8 = 0x40;

/// Lengths of prefixes by the code of [`RaOption::Pref64`].
const PREF64_LENGTHS: [u8; 6] = [96, 64, 56, 48, 40, 32];

impl RaOption {
    /// Whether a prefix can be that of a NAT64.
    pub fn is_pref64(prefix: &Ipv6Net) -> bool {
        PREF64_LENGTHS.contains(&prefix.prefix_len())
    }

    /// Appends it.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.extend([0, 0]);
        let kind = match self {
            RaOption::SourceLink(mac) => {
                bytes.extend(mac.0);
                neighbour::SOURCE_LINK
            }
            RaOption::Mtu(mtu) => {
                bytes.extend([0, 0]);
                bytes.extend(mtu.to_be_bytes());
                MTU
            }
            RaOption::Prefix { prefix, on_link, autonomous, valid, preferred } => {
                let flags = [(*on_link, ON_LINK), (*autonomous, AUTONOMOUS)];
                let flags = flags.iter().filter(|flag| flag.0).map(|flag| flag.1).sum();
                bytes.extend([prefix.prefix_len(), flags]);
                bytes.extend(valid.to_be_bytes());
                bytes.extend(preferred.to_be_bytes());
                bytes.extend([0; 4]);
                bytes.extend(prefix.trunc().addr().octets());
                PREFIX
            }
            RaOption::Route { prefix, preference, lifetime } => {
                bytes.extend([prefix.prefix_len(), preference.bits()]);
                bytes.extend(lifetime.to_be_bytes());
                let used = usize::from(prefix.prefix_len()).div_ceil(64) * 8;
                bytes.extend(&prefix.trunc().addr().octets()[..used]);
                ROUTE
            }
            RaOption::Dns { servers, lifetime } => {
                bytes.extend([0, 0]);
                bytes.extend(lifetime.to_be_bytes());
                servers.iter().for_each(|server| bytes.extend(server.octets()));
                DNS
            }
            RaOption::Search { domains, lifetime } => {
                bytes.extend([0, 0]);
                bytes.extend(lifetime.to_be_bytes());
                domains.iter().for_each(|domain| domain.write(bytes));
                SEARCH
            }
            RaOption::Pref64 { prefix, lifetime } => {
                let code = PREF64_LENGTHS.iter().position(|length| *length == prefix.prefix_len());
                bytes.extend((lifetime & !7 | code.unwrap_or(0) as u16).to_be_bytes());
                bytes.extend(&prefix.trunc().addr().octets()[..12]);
                PREF64
            }
            RaOption::CaptivePortal(uri) => {
                bytes.extend(uri.as_bytes());
                CAPTIVE_PORTAL
            }
        };
        bytes.resize(start + (bytes.len() - start).next_multiple_of(8), 0);
        bytes[start] = kind;
        bytes[start + 1] = ((bytes.len() - start) / 8) as u8;
    }

    /// Reads what stands behind type and length. `None`: it is one that is not known here, or makes
    /// no sense.
    pub(crate) fn read(kind: u8, value: &[u8]) -> Option<RaOption> {
        let word = |at: usize| value.get(at..at + 4)?.first_chunk().copied().map(u32::from_be_bytes);
        let address = |at: usize| value.get(at..at + 16)?.first_chunk::<16>().copied().map(Ipv6Addr::from);
        let net = |address: [u8; 16], length: u8| {
            Ipv6Net::new(address.into(), length).ok().map(|prefix| prefix.trunc())
        };
        Some(match (kind, value.len()) {
            (neighbour::SOURCE_LINK, 6) => RaOption::SourceLink(Mac(*value.first_chunk()?)),
            (MTU, 6) => RaOption::Mtu(word(2)?),
            (PREFIX, 30) => {
                let (valid, preferred) = (word(2)?, word(6)?);
                RaOption::Prefix {
                    prefix: net(address(14)?.octets(), value[0])?,
                    on_link: value[1] & ON_LINK != 0,
                    autonomous: value[1] & AUTONOMOUS != 0,
                    valid,
                    preferred: Some(preferred).filter(|preferred| *preferred <= valid)?,
                }
            }
            (ROUTE, 6 | 14 | 22) => {
                let mut address = [0; 16];
                address[..value.len() - 6].copy_from_slice(&value[6..]);
                let fits = usize::from(value[0]).div_ceil(64) * 8 <= value.len() - 6;
                let prefix = net(address, value[0]).filter(|_| fits)?;
                RaOption::Route { prefix, preference: Preference::of(value[1])?, lifetime: word(2)? }
            }
            (DNS, 22..) if (value.len() - 6).is_multiple_of(16) => {
                let servers = (6..value.len()).step_by(16).filter_map(address).collect();
                RaOption::Dns { servers, lifetime: word(2)? }
            }
            (SEARCH, 14..) => {
                let (mut domains, mut names) = (Vec::new(), &value[6..]);
                while names.first().is_some_and(|length| *length != 0) {
                    let (domain, more) = Domain::read(names)?;
                    domains.push(domain);
                    names = more;
                }
                let lifetime = word(2)?;
                (!domains.is_empty()).then_some(RaOption::Search { domains, lifetime })?
            }
            (PREF64, 14) => {
                let head = u16::from_be_bytes([value[0], value[1]]);
                let mut address = [0; 16];
                address[..12].copy_from_slice(&value[2..]);
                let length = *PREF64_LENGTHS.get(usize::from(head & 7))?;
                RaOption::Pref64 { prefix: net(address, length)?, lifetime: head & !7 }
            }
            (CAPTIVE_PORTAL, _) => {
                let end = value.iter().rposition(|byte| *byte != 0)? + 1;
                let uri = std::str::from_utf8(&value[..end]).ok()?;
                let right = uri.bytes().all(|byte| byte.is_ascii_graphic());
                right.then(|| RaOption::CaptivePortal(uri.to_owned()))?
            }
            _ => return None,
        })
    }
}
