//! What is said for IPv4 and for IPv6, and what was heard: all that differs between the two.

use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ::discovery::{Advertisement, Domain, Preference, RaOption, Times, irdp};
use ipnet::Ipv4Net;
use wire::Mac;
use wire::neighbour::{ALL_NODES, Carried, group_mac};

/// A family, with what is to be said.
pub(super) trait Family: Clone + Debug + PartialEq {
    /// `ipv4`, `ipv6`.
    const NAME: &str;

    fn times(&self) -> Times;

    /// The address that it speaks from.
    fn from(&self) -> IpAddr;

    /// Where all hosts are.
    fn all(&self) -> (Mac, IpAddr);

    /// The frame for a host, or for all.
    fn frame(&self, to: (Mac, IpAddr)) -> Vec<u8>;

    /// Whether another router goes on to say the same from the same address: of this one no host
    /// need take leave.
    fn is_shared(&self) -> bool;

    /// That this router is none any more.
    fn ended(&self) -> Self;

    /// What is said now, and that what was said before and is not now, holds no longer.
    fn instead_of(&self, before: &Self) -> Self;

    /// Seconds for which hosts use the router, and how much it is preferred, in words.
    fn level(&self) -> (u16, String);

    /// What is tracked and not there.
    fn lacks(&self) -> &[String];

    /// What another router says otherwise that routers of one link should say alike (RFC 4861,
    /// 6.2.7).
    fn contradicts(&self, other: &Advertisement) -> Option<String>;
}

/// For IPv4.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Four {
    pub(super) mac: Mac,
    pub(super) shared: bool,
    pub(super) times: Times,
    pub(super) from: Ipv4Addr,
    /// The interface's: only hosts of these are answered.
    pub(super) nets: Vec<Ipv4Net>,
    pub(super) to: Ipv4Addr,
    pub(super) says: irdp::Advertisement,
    pub(super) lacks: Vec<String>,
}

impl Family for Four {
    const NAME: &str = "ipv4";

    fn times(&self) -> Times {
        self.times
    }

    fn from(&self) -> IpAddr {
        self.from.into()
    }

    fn all(&self) -> (Mac, IpAddr) {
        (irdp::group_mac(self.to), self.to.into())
    }

    fn is_shared(&self) -> bool {
        self.shared
    }

    fn frame(&self, (mac, to): (Mac, IpAddr)) -> Vec<u8> {
        let to = if let IpAddr::V4(to) = to { to } else { self.to };
        irdp::frame(self.mac, mac, self.from, to, &self.says.message())
    }

    fn ended(&self) -> Four {
        let says = irdp::Advertisement { lifetime: 0, ..self.says.clone() };
        Four { says, ..self.clone() }
    }

    /// An advertisement has one lifetime for all its addresses, so those that are gone are named as
    /// never to be used.
    fn instead_of(&self, before: &Four) -> Four {
        let mut now = self.clone();
        let here = |address| self.says.addresses.iter().any(|(own, _)| *own == address);
        let gone = before.says.addresses.iter().filter(|(address, _)| !here(*address));
        now.says.addresses.extend(gone.map(|(address, _)| (*address, irdp::NEVER)));
        now.says.addresses.truncate(irdp::ADDRESSES);
        now
    }

    fn level(&self) -> (u16, String) {
        let best = self.says.addresses.iter().map(|(_, level)| *level).max().unwrap_or(irdp::NEVER);
        (self.says.lifetime, level_in_words(best))
    }

    fn lacks(&self) -> &[String] {
        &self.lacks
    }

    fn contradicts(&self, _: &Advertisement) -> Option<String> {
        None
    }
}

/// `never`, or the number.
pub(super) fn level_in_words(level: i32) -> String {
    if level == irdp::NEVER { "never".to_owned() } else { level.to_string() }
}

/// For IPv6.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Six {
    pub(super) mac: Mac,
    pub(super) shared: bool,
    pub(super) times: Times,
    pub(super) from: Ipv6Addr,
    pub(super) says: Advertisement,
    pub(super) lacks: Vec<String>,
}

impl Family for Six {
    const NAME: &str = "ipv6";

    fn times(&self) -> Times {
        self.times
    }

    fn from(&self) -> IpAddr {
        self.from.into()
    }

    fn all(&self) -> (Mac, IpAddr) {
        (group_mac(ALL_NODES), ALL_NODES.into())
    }

    fn is_shared(&self) -> bool {
        self.shared
    }

    fn frame(&self, (mac, to): (Mac, IpAddr)) -> Vec<u8> {
        let to = if let IpAddr::V6(to) = to { to } else { ALL_NODES };
        let message = self.says.message();
        Carried { from_mac: self.mac, to_mac: mac, from: self.from, to, message: &message }.emit()
    }

    /// No default router, and no way to what it said it has one. What it said of the link stays
    /// true.
    fn ended(&self) -> Six {
        let mut ended = self.clone();
        ended.says.lifetime = 0;
        for option in &mut ended.says.options {
            if let RaOption::Route { lifetime, .. } = option {
                *lifetime = 0;
            }
        }
        ended
    }

    fn instead_of(&self, before: &Six) -> Six {
        let mut now = self.clone();
        let here = |option: &RaOption| now.says.options.iter().any(|one| is_about_the_same(one, option));
        let gone: Vec<RaOption> = before
            .says
            .options
            .iter()
            .filter(|option| !here(option))
            .filter_map(|option| withdrawn(option, &now.says))
            .collect();
        for option in gone {
            now.says.options.push(option);
            if now.says.message().len() > config::MOST {
                now.says.options.pop();
            }
        }
        now
    }

    fn level(&self) -> (u16, String) {
        (self.says.lifetime, rank_in_words(self.says.lifetime, self.says.preference))
    }

    fn lacks(&self) -> &[String] {
        &self.lacks
    }

    fn contradicts(&self, other: &Advertisement) -> Option<String> {
        let own = &self.says;
        let set = |one: u32, other: u32| one != 0 && other != 0 && one != other;
        if set(own.hop_limit.into(), other.hop_limit.into()) {
            return Some(format!("hop limit {}, here {}", other.hop_limit, own.hop_limit));
        }
        if (own.managed, own.other) != (other.managed, other.other) {
            let flags = |it: &Advertisement| format!("managed {}, other {}", it.managed, it.other);
            return Some(format!("{}; here {}", flags(other), flags(own)));
        }
        if set(own.reachable, other.reachable) || set(own.retransmit, other.retransmit) {
            return Some("other times for neighbours".to_owned());
        }
        own.options.iter().find_map(|one| {
            other.options.iter().find_map(|another| match (one, another) {
                (RaOption::Mtu(one), RaOption::Mtu(another)) if one != another => {
                    Some(format!("MTU {another}, here {one}"))
                }
                (
                    RaOption::Prefix { prefix, valid, preferred, .. },
                    RaOption::Prefix { prefix: same, valid: other_valid, preferred: other_preferred, .. },
                ) if prefix == same && (valid, preferred) != (other_valid, other_preferred) => {
                    Some(format!("other lifetimes of {prefix}"))
                }
                _ => None,
            })
        })
    }
}

/// `low`, `medium`, `high`, or `none` where it is no default router.
pub(super) fn rank_in_words(lifetime: u16, preference: Preference) -> String {
    let word = match preference {
        _ if lifetime == 0 => "none",
        Preference::Low => "low",
        Preference::Medium => "medium",
        Preference::High => "high",
    };
    word.to_owned()
}

fn is_about_the_same(one: &RaOption, other: &RaOption) -> bool {
    match (one, other) {
        (RaOption::Prefix { prefix: one, .. }, RaOption::Prefix { prefix: other, .. })
        | (RaOption::Route { prefix: one, .. }, RaOption::Route { prefix: other, .. })
        | (RaOption::Pref64 { prefix: one, .. }, RaOption::Pref64 { prefix: other, .. }) => one == other,
        (RaOption::Dns { servers: one, .. }, RaOption::Dns { servers: other, .. }) => one == other,
        (RaOption::Search { domains: one, .. }, RaOption::Search { domains: other, .. }) => one == other,
        _ => false,
    }
}

/// What says that an option holds no longer, but for what is said of it still; of some nothing can
/// say so.
fn withdrawn(option: &RaOption, now: &Advertisement) -> Option<RaOption> {
    let asks = |server: &Ipv6Addr| {
        now.options.iter().any(|one| matches!(one, RaOption::Dns { servers, .. } if servers.contains(server)))
    };
    let looks = |domain: &Domain| {
        now.options
            .iter()
            .any(|one| matches!(one, RaOption::Search { domains, .. } if domains.contains(domain)))
    };
    Some(match option.clone() {
        RaOption::Prefix { prefix, on_link, autonomous, .. } => {
            RaOption::Prefix { prefix, on_link, autonomous, valid: 0, preferred: 0 }
        }
        RaOption::Route { prefix, preference, .. } => RaOption::Route { prefix, preference, lifetime: 0 },
        RaOption::Dns { mut servers, .. } => {
            servers.retain(|server| !asks(server));
            (!servers.is_empty()).then_some(RaOption::Dns { servers, lifetime: 0 })?
        }
        RaOption::Search { mut domains, .. } => {
            domains.retain(|domain| !looks(domain));
            (!domains.is_empty()).then_some(RaOption::Search { domains, lifetime: 0 })?
        }
        RaOption::Pref64 { prefix, .. } => RaOption::Pref64 { prefix, lifetime: 0 },
        RaOption::SourceLink(_) | RaOption::Mtu(_) | RaOption::CaptivePortal(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const TIMES: Times = Times { interval: [Duration::from_secs(200); 2], answer: Duration::from_secs(1) };

    fn six(options: Vec<RaOption>) -> Six {
        let says = Advertisement { lifetime: 1800, options, ..Advertisement::default() };
        Six {
            mac: Mac::default(),
            shared: false,
            times: TIMES,
            from: "fe80::1".parse().unwrap(),
            says,
            lacks: Vec::new(),
        }
    }

    fn prefix(text: &str, valid: u32) -> RaOption {
        let prefix = text.parse().unwrap();
        RaOption::Prefix { prefix, on_link: true, autonomous: true, valid, preferred: valid }
    }

    fn dns(servers: &[&str], lifetime: u32) -> RaOption {
        RaOption::Dns { servers: servers.iter().map(|server| server.parse().unwrap()).collect(), lifetime }
    }

    #[test]
    fn what_is_said_no_longer_is_taken_back() {
        let before = six(vec![prefix("2001:db8:1::/64", 9), dns(&["2001:db8::1", "2001:db8::2"], 9)]);
        let now = six(vec![prefix("2001:db8:2::/64", 9), dns(&["2001:db8::2", "2001:db8::3"], 9)]);
        let said = now.instead_of(&before).says.options;
        assert_eq!(said[..2], now.says.options[..]);
        assert_eq!(said[2..], [prefix("2001:db8:1::/64", 0), dns(&["2001:db8::1"], 0)]);
        // What is there again, in whatever words, is not taken back.
        let longer = six(vec![prefix("2001:db8:1::/64", 99)]);
        let only = [prefix("2001:db8:1::/64", 99), dns(&["2001:db8::1", "2001:db8::2"], 0)];
        assert_eq!(longer.instead_of(&before).says.options, only);
        // However much it is, it fits into a packet.
        let many = |from: u16| {
            let net = |n: u16| prefix(&format!("2001:db8:{n:x}::/64"), 9);
            six((from..from + 30).map(net).collect())
        };
        assert!(many(100).instead_of(&many(0)).says.message().len() <= config::MOST);
    }

    #[test]
    fn addresses_that_are_gone_are_never_used() {
        let four = |last: &[u8]| Four {
            mac: Mac::default(),
            shared: false,
            times: TIMES,
            from: Ipv4Addr::new(192, 0, 2, 1),
            nets: Vec::new(),
            to: irdp::ALL_HOSTS,
            says: irdp::Advertisement {
                lifetime: 1800,
                addresses: last.iter().map(|last| (Ipv4Addr::new(192, 0, 2, *last), 5)).collect(),
            },
            lacks: Vec::new(),
        };
        let said = four(&[1, 3]).instead_of(&four(&[1, 2])).says.addresses;
        assert_eq!(said.iter().map(|(_, level)| *level).collect::<Vec<_>>(), [5, 5, irdp::NEVER]);
        assert_eq!(four(&[1]).ended().says.lifetime, 0);
    }

    #[test]
    fn routers_of_a_link_that_say_otherwise_are_noticed() {
        let own = six(vec![RaOption::Mtu(1500), prefix("2001:db8:1::/64", 9)]);
        let said = |other: Advertisement| own.contradicts(&other);
        assert_eq!(said(own.says.clone()), None);
        assert_eq!(said(Advertisement::default()), None, "what it says nothing of");
        let options = vec![RaOption::Mtu(1400)];
        assert_eq!(
            said(Advertisement { options, ..Advertisement::default() }).unwrap(),
            "MTU 1400, here 1500"
        );
        let options = vec![prefix("2001:db8:1::/64", 10)];
        assert!(said(Advertisement { options, ..Advertisement::default() }).unwrap().contains("lifetimes"));
        assert!(said(Advertisement { managed: true, ..Advertisement::default() }).is_some());
    }
}
