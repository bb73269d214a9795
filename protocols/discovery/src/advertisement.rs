//! Router advertisements and solicitations of IPv6 (RFC 4861, 4.1 and 4.2; preferences: RFC 4191).

use std::net::Ipv6Addr;

use wire::Mac;
use wire::neighbour::{Carried, SOURCE_LINK, options};

use crate::RaOption;

/// ICMPv6 types.
const SOLICITATION: u8 = 133;
const ADVERTISEMENT: u8 = 134;

/// Bytes of an advertisement without options.
pub const HEADER: usize = 16;

const MANAGED: u8 = 0x80;
const OTHER: u8 = 0x40;

/// How much a router is preferred (RFC 4191, 2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preference {
    /// Others are better.
    Low,
    /// As good as others.
    #[default]
    Medium,
    /// Better than others.
    High,
}

impl Preference {
    pub(crate) fn bits(self) -> u8 {
        match self {
            Preference::Low => 0x18,
            Preference::Medium => 0,
            Preference::High => 0x08,
        }
    }

    /// `None`: the bits that are reserved.
    pub(crate) fn of(bits: u8) -> Option<Preference> {
        [Preference::Low, Preference::Medium, Preference::High]
            .into_iter()
            .find(|preference| preference.bits() == bits & 0x18)
    }
}

/// What a router says of itself and of the link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertisement {
    /// The hop limit for hosts; 0: it says nothing of it.
    pub hop_limit: u8,
    /// Addresses come from DHCPv6.
    pub managed: bool,
    /// Other things come from DHCPv6.
    pub other: bool,
    /// As a default router. Without meaning where `lifetime` is 0.
    pub preference: Preference,
    /// Seconds for which it is a default router; 0: it is none.
    pub lifetime: u16,
    /// Milliseconds for which a neighbour is held to be there; 0: nothing is said.
    pub reachable: u32,
    /// Milliseconds between two solicitations; 0: nothing is said.
    pub retransmit: u32,
    /// Besides.
    pub options: Vec<RaOption>,
}

impl Advertisement {
    /// From the ICMP type on. The checksum is for who carries it.
    pub fn message(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[0] = ADVERTISEMENT;
        bytes[4] = self.hop_limit;
        let flags = [(self.managed, MANAGED), (self.other, OTHER)];
        let flags: u8 = flags.iter().filter(|flag| flag.0).map(|flag| flag.1).sum();
        // RFC 4191, 2.2: without a lifetime the preference is medium.
        let preference = if self.lifetime == 0 { Preference::Medium } else { self.preference };
        bytes[5] = flags | preference.bits();
        bytes[6..8].copy_from_slice(&self.lifetime.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.reachable.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.retransmit.to_be_bytes());
        self.options.iter().for_each(|option| option.write(&mut bytes));
        bytes
    }

    fn read(message: &[u8]) -> Option<Advertisement> {
        let (head, more) = message.split_first_chunk::<HEADER>()?;
        let lifetime = u16::from_be_bytes([head[6], head[7]]);
        let preference = Preference::of(head[5]).filter(|_| lifetime > 0);
        let known = options(more).collect::<Option<Vec<_>>>()?;
        Some(Advertisement {
            hop_limit: head[4],
            managed: head[5] & MANAGED != 0,
            other: head[5] & OTHER != 0,
            preference: preference.unwrap_or_default(),
            lifetime,
            reachable: u32::from_be_bytes([head[8], head[9], head[10], head[11]]),
            retransmit: u32::from_be_bytes([head[12], head[13], head[14], head[15]]),
            options: known.into_iter().filter_map(|(kind, value)| RaOption::read(kind, value)).collect(),
        })
    }
}

/// What was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A host asks who is there.
    Solicitation {
        /// Its link address.
        mac: Mac,
        /// Its address; unspecified, where it has none yet.
        from: Ipv6Addr,
    },
    /// A router says that it is.
    Advertisement {
        /// Its address, link-local.
        from: Ipv6Addr,
        /// What it says.
        advertisement: Advertisement,
    },
}

/// Reads a frame; `None` when it is neither, or fails one of the tests of RFC 4861, 6.1.
pub fn hear(frame: &[u8]) -> Option<Heard> {
    let Carried { from_mac, from, message, .. } = Carried::parse(frame)?;
    match *message {
        [SOLICITATION, 0, _, _, _, _, _, _, ref more @ ..] => {
            let known = options(more).collect::<Option<Vec<_>>>()?;
            let names_nobody = !known.iter().any(|(kind, _)| *kind == SOURCE_LINK);
            let host = if from.is_unspecified() { names_nobody } else { !from.is_multicast() };
            host.then_some(Heard::Solicitation { mac: from_mac, from })
        }
        [ADVERTISEMENT, 0, ..] if from.is_unicast_link_local() => {
            let advertisement = Advertisement::read(message)?;
            Some(Heard::Advertisement { from, advertisement })
        }
        _ => None,
    }
}

/// A solicitation by a host that has an address, or none; from the ICMP type on.
pub fn solicitation(link: Option<Mac>) -> Vec<u8> {
    let mut message = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    if let Some(link) = link {
        RaOption::SourceLink(link).write(&mut message);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipnet::Ipv6Net;
    use proptest::prelude::*;
    use wire::neighbour::ALL_NODES;

    fn router() -> Ipv6Addr {
        "fe80::1".parse().unwrap()
    }

    fn around(from: Ipv6Addr, message: &[u8]) -> Vec<u8> {
        Carried { from_mac: Mac([2; 6]), to_mac: Mac::BROADCAST, from, to: ALL_NODES, message }.emit()
    }

    fn any_net(lengths: impl Strategy<Value = u8>) -> impl Strategy<Value = Ipv6Net> {
        (any::<u128>(), lengths)
            .prop_map(|(address, length)| Ipv6Net::new(address.into(), length).unwrap().trunc())
    }

    fn any_preference() -> impl Strategy<Value = Preference> {
        prop::sample::select(vec![Preference::Low, Preference::Medium, Preference::High])
    }

    fn any_option() -> impl Strategy<Value = RaOption> {
        let domain = "[a-z0-9-]{1,20}(\\.[a-z]{1,8}){0,3}".prop_map(|name| name.parse().unwrap());
        let pref64 = any_net(prop::sample::select(vec![32u8, 40, 48, 56, 64, 96]));
        prop_oneof![
            any::<[u8; 6]>().prop_map(|mac| RaOption::SourceLink(Mac(mac))),
            any::<u32>().prop_map(RaOption::Mtu),
            (any_net(0u8..=128), any::<[bool; 2]>(), any::<u32>(), any::<u32>()).prop_map(
                |(prefix, [on_link, autonomous], one, other)| RaOption::Prefix {
                    prefix,
                    on_link,
                    autonomous,
                    valid: one.max(other),
                    preferred: one.min(other),
                }
            ),
            (any_net(0u8..=128), any_preference(), any::<u32>())
                .prop_map(|(prefix, preference, lifetime)| RaOption::Route { prefix, preference, lifetime }),
            (prop::collection::vec(any::<u128>().prop_map(Ipv6Addr::from), 1..9), any::<u32>())
                .prop_map(|(servers, lifetime)| RaOption::Dns { servers, lifetime }),
            (prop::collection::vec(domain, 1..5), any::<u32>())
                .prop_map(|(domains, lifetime)| RaOption::Search { domains, lifetime }),
            (pref64, any::<u16>())
                .prop_map(|(prefix, lifetime)| RaOption::Pref64 { prefix, lifetime: lifetime & !7 }),
            "https://[a-z0-9./?=]{1,90}".prop_map(RaOption::CaptivePortal),
        ]
    }

    proptest! {
        #[test]
        fn what_is_said_is_heard(
            (numbers, lifetime, flags) in (any::<[u32; 2]>(), 1u16.., any::<[bool; 2]>()),
            (hop_limit, preference) in (any::<u8>(), any_preference()),
            options in prop::collection::vec(any_option(), 0..9),
        ) {
            let ([reachable, retransmit], [managed, other]) = (numbers, flags);
            let advertisement = Advertisement {
                hop_limit, managed, other, preference, lifetime, reachable, retransmit, options,
            };
            let frame = around(router(), &advertisement.message());
            prop_assert_eq!(hear(&frame), Some(Heard::Advertisement { from: router(), advertisement }));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 133u8..=134) {
            crate::fuzz(&bytes);
            crate::fuzz(&[&[kind, 0, 0, 0][..], &bytes].concat());
        }
    }

    #[test]
    fn who_asks_is_known_unless_he_breaks_the_rules() {
        let mac = Mac([2; 6]);
        let host: Ipv6Addr = "fe80::2".parse().unwrap();
        let none = Ipv6Addr::UNSPECIFIED;
        assert_eq!(
            hear(&around(host, &solicitation(Some(mac)))),
            Some(Heard::Solicitation { mac, from: host })
        );
        assert_eq!(hear(&around(none, &solicitation(None))), Some(Heard::Solicitation { mac, from: none }));
        assert_eq!(hear(&around(none, &solicitation(Some(mac)))), None);
        assert_eq!(hear(&around(host, &solicitation(None)[..7])), None);
        let mut over_a_router = around(host, &solicitation(None));
        over_a_router[14 + 7] = 254;
        assert_eq!(hear(&over_a_router), None);
        let global = "2001:db8::1".parse().unwrap();
        assert_eq!(hear(&around(global, &Advertisement::default().message())), None, "not link-local");
    }

    #[test]
    fn who_is_no_default_router_has_no_preference() {
        let said = Advertisement { preference: Preference::High, ..Advertisement::default() };
        assert_eq!(said.message()[5], 0);
    }
}
