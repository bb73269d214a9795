//! Rules as they stand in `router.toml`, and everything that can be wrong with them.
//!
//! ```toml
//! [nat]
//! mappings = 1000000
//!
//! [[nat.rule]]
//! name = "home"
//! type = "masquerade"
//! out = "wan0"
//! source = "192.168.0.0/16"
//!
//! [[nat.rule]]
//! name = "web"
//! type = "destination"
//! in = "wan0"
//! protocol = "tcp"
//! ports = "443"
//! to = ["192.168.1.10:8443", "192.168.1.11:8443"]
//! hairpin = true
//!
//! [[nat.clamp]]
//! out = "ppp*"
//! mss = "path"
//! ```
//!
//! The structs take any words, so that a file is read whole and [`Text::check`] can say all that is
//! wrong with it.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;

use crate::Clamp;
use crate::reader::Reader;
use crate::rule::{ClampRule, Half, MAPPINGS, Rules};

/// Mappings at most: their numbers have 26 bits in each of 64 shards, and memory ends long before.
const MOST_MAPPINGS: u64 = 1 << 28;
/// One word, or a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Words {
    /// `"a"`
    One(String),
    /// `["a", "b"]`
    Many(Vec<String>),
}

impl Words {
    pub(crate) fn list(&self) -> &[String] {
        match self {
            Words::One(word) => std::slice::from_ref(word),
            Words::Many(words) => words,
        }
    }
}

/// `[nat]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Text {
    /// Mappings at most.
    pub mappings: Option<u64>,
    /// Whether mappings are logged.
    pub log: Option<bool>,
    /// What NAT64 fragments IPv4 packets to that may be fragmented.
    pub lowest_ipv6_mtu: Option<u64>,
    /// Which part of the ports is given out.
    pub half: Option<Half>,
    /// `[[nat.rule]]`
    pub rule: Vec<RuleText>,
    /// `[[nat.clamp]]`
    pub clamp: Vec<ClampText>,
}

/// `[[nat.clamp]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClampText {
    /// Ports that the packets leave by.
    pub out: Option<Words>,
    /// `"path"` or a number of bytes.
    pub mss: Clamp,
}

/// `[[nat.rule]]`. Which keys mean something depends on the type.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuleText {
    /// Any name that no other rule has.
    pub name: Option<String>,
    /// See [`Action::name`](crate::Action::name).
    pub r#type: Option<String>,
    /// Ports that packets come by.
    pub r#in: Option<Words>,
    /// Ports that packets leave by.
    pub out: Option<Words>,
    /// Source prefixes.
    pub source: Option<Words>,
    /// Destination prefixes.
    pub destination: Option<Words>,
    /// Protocols by name or number.
    pub protocol: Option<Words>,
    /// Source ports and ranges.
    pub source_ports: Option<Words>,
    /// Destination ports and ranges.
    pub ports: Option<Words>,
    /// Addresses of a pool.
    pub pool: Option<Words>,
    /// Ports that are given out, a range.
    pub pool_ports: Option<String>,
    /// `"paired"` or `"arbitrary"`.
    pub pooling: Option<String>,
    /// `"address-and-port-dependent"` or `"endpoint-independent"`.
    pub filtering: Option<String>,
    /// Whether hosts inside may use outside addresses.
    pub hairpin: Option<bool>,
    /// Mappings of one host at most; 0: any number.
    pub host_limit: Option<u32>,
    /// Ports of a deterministic block.
    pub block: Option<u16>,
    /// Targets of a destination rule.
    pub to: Option<Words>,
    /// `"hash"` or `"round-robin"`.
    pub spread: Option<String>,
    /// The prefix inside.
    pub inside: Option<String>,
    /// The prefix outside.
    pub outside: Option<String>,
    /// The prefix of NAT64.
    pub prefix: Option<String>,
    /// Whether the well-known prefix may stand before private addresses.
    pub private: Option<bool>,
    /// `"open"` or `"closed"`.
    pub fallback: Option<String>,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct RuleMistake {
    /// Which rule, from 0; `None` for `[nat]` itself.
    pub rule: Option<usize>,
    /// Its name, where it has one.
    pub name: Option<String>,
    /// The key at fault.
    pub key: &'static str,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

impl fmt::Display for RuleMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.rule, &self.name) {
            (Some(_), Some(name)) => write!(f, "nat rule {name:?}: ")?,
            (Some(rule), None) => write!(f, "nat rule {}: ", rule + 1)?,
            (None, _) => write!(f, "nat: ")?,
        }
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl Text {
    /// The rules, or all that is wrong with them.
    pub fn check(&self) -> Result<Rules, Vec<RuleMistake>> {
        let mut mistakes = Vec::new();
        let capacity = self.mappings.unwrap_or(MAPPINGS);
        if !(1..=MOST_MAPPINGS).contains(&capacity) {
            let message = format!("a whole number from 1 to {MOST_MAPPINGS} is expected");
            mistakes.push(RuleMistake { rule: None, name: None, key: "mappings", message });
        }
        let lowest = self.lowest_ipv6_mtu.unwrap_or(Rules::LOWEST_IPV6_MTU.into());
        let lowest_ipv6_mtu = u16::try_from(lowest).unwrap_or_default();
        if lowest_ipv6_mtu < Rules::LOWEST_IPV6_MTU {
            let message = format!("{} to {} bytes are expected", Rules::LOWEST_IPV6_MTU, u16::MAX);
            mistakes.push(RuleMistake { rule: None, name: None, key: "lowest_ipv6_mtu", message });
        }
        let (mut rules, mut names) = (Vec::new(), HashSet::new());
        for (at, text) in self.rule.iter().enumerate() {
            let mut reader = Reader { text, at, mistakes: &mut mistakes };
            rules.extend(reader.rule());
            if let Some(name) = &text.name
                && !names.insert(name)
            {
                reader.wrong("name", format!("there is another rule {name:?}; names must differ"));
            }
        }
        let clamps = self.clamp.iter().map(|clamp| ClampRule {
            input: Vec::new(),
            families: [true; 2],
            output: clamp.out.as_ref().map(|words| words.list().to_vec()).unwrap_or_default(),
            mss: clamp.mss,
        });
        let clamps: Vec<ClampRule> = clamps.collect();
        for rule in rules.iter().filter(|_| self.half.is_some()) {
            if rule.action.dynamic().is_some_and(|dynamic| dynamic.ports.start() == dynamic.ports.end()) {
                let message = "one port has no halves".to_owned();
                let at = self.rule.iter().position(|text| text.name.as_ref() == Some(&rule.name));
                let name = Some(rule.name.clone());
                mistakes.push(RuleMistake { rule: at, name, key: "pool_ports", message });
            }
        }
        for clamp in &clamps {
            if let Clamp::To(mss) = clamp.mss
                && !(88..=65_495).contains(&mss)
            {
                // RFC 9293, 3.7.1 knows no least; 88 is the least of Linux.
                let message = "\"path\", or 88 to 65495 bytes, is expected".to_owned();
                mistakes.push(RuleMistake { rule: None, name: None, key: "mss", message });
            }
        }
        match mistakes.is_empty() {
            true => {
                let (capacity, log) = (capacity as usize, self.log.unwrap_or(false));
                Ok(Rules { capacity, log, lowest_ipv6_mtu, half: self.half, rules, clamps })
            }
            false => Err(mistakes),
        }
    }
}

/// A rule of each kind, for tests.
#[cfg(test)]
pub(crate) const EVERYTHING: &str = r#"
mappings = 1000

[[rule]]
name = "vpn"
type = "none"
in = "lan0"
destination = "10.0.0.0/8"

[[rule]]
name = "home"
type = "masquerade"
out = "wan0"
source = "192.168.0.0/16"
hairpin = true

[[rule]]
name = "pool"
type = "source"
out = "ppp*"
protocol = ["tcp", "udp"]
pool = "203.0.113.16/28"
host_limit = 1000

[[rule]]
name = "two"
type = "source"
out = "wan0"
source = "172.16.0.0/12"
pool = ["203.0.113.40", "203.0.113.42"]
pooling = "arbitrary"
filtering = "endpoint-independent"

[[rule]]
name = "carrier"
type = "deterministic"
out = "wan0"
inside = "100.64.0.0/22"
pool = "198.51.100.0/26"
block = 2016
fallback = "closed"

[[rule]]
name = "web"
type = "destination"
in = "wan0"
protocol = "tcp"
ports = "443"
to = ["192.168.1.10:8443", "192.168.1.11:8443"]
hairpin = true

[[rule]]
name = "range"
type = "destination"
destination = "203.0.113.7"
protocol = "udp"
ports = "2000-2001"
to = "192.168.1.12:3000-3001"
spread = "round-robin"

[[rule]]
name = "six"
type = "destination"
destination = "2001:db8::5"
protocol = "tcp"
ports = "80, 8080"
to = "[2001:db8:1::5]:80"

[[rule]]
name = "net"
type = "one-to-one"
out = "wan0"
inside = "10.1.0.0/28"
outside = "203.0.113.64/28"

[[rule]]
name = "one"
type = "one-to-one"
out = "wan0"
inside = "10.1.0.90/32"
outside = "203.0.113.90/32"
hairpin = true

[[rule]]
name = "plat"
type = "nat64"
pool = "203.0.113.100"
private = true
fallback = "closed"

[[rule]]
name = "site"
type = "nptv6"
out = "wan0"
inside = "fd00:1:2::/48"
outside = "2001:db8:9::/48"
fallback = "open"

[[clamp]]
out = "ppp*"
mss = "path"

[[clamp]]
mss = 1400
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::target_of;
    use crate::rule::{Action, Pooling};
    use proptest::prelude::*;

    fn mistakes(text: &str) -> Vec<String> {
        let read: Text = toml::from_str(text).unwrap();
        read.check().map_or_else(|all| all.iter().map(RuleMistake::to_string).collect(), |_| Vec::new())
    }

    #[test]
    fn a_rule_of_each_kind_is_read() {
        let rules = toml::from_str::<Text>(EVERYTHING).unwrap().check().unwrap();
        assert_eq!((rules.capacity, rules.rules.len(), rules.clamps.len()), (1000, 12, 2));
        let kinds: Vec<_> = rules.rules.iter().map(|rule| rule.action.name()).collect();
        assert_eq!(kinds[..3], ["none", "masquerade", "source"]);
        let Action::Masquerade(dynamic) = &rules.rules[1].action else { panic!() };
        assert_eq!((dynamic.ports.clone(), dynamic.pooling), (1024..=65_535, Pooling::Paired));
    }

    #[test]
    fn one_port_has_no_halves() {
        let rule = "[[rule]]\nname = \"a\"\ntype = \"source\"\nout = \"wan0\"\npool = \"203.0.113.1\"\n\
                    pool_ports = ";
        assert_eq!(mistakes(&format!("half = \"upper\"\n{rule}\"7000-7001\"")), [""; 0]);
        let found = mistakes(&format!("half = \"upper\"\n{rule}\"7000\""));
        assert_eq!(found, ["nat rule \"a\": pool_ports: one port has no halves"]);
        assert_eq!(mistakes(&format!("{rule}\"7000\"")), [""; 0]);
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let text = r#"
mappings = 0
lowest_ipv6_mtu = 1279
[[rule]]
name = "a"
type = "masquerade"
pool = "1.2.3.4"
source = ["10.0.0.0/8", "10.0.0"]
protocol = "tpc"
[[rule]]
name = "a"
type = "snat"
[[rule]]
type = "nat64"
pool = "2001:db8::1"
prefix = "2001:db8::/33"
[[rule]]
name = "b"
type = "destination"
to = "10.0.0.1:80-90"
ports = "80"
[[rule]]
name = "c"
type = "deterministic"
out = "wan0"
inside = "100.64.0.0/30"
pool = "198.51.100.1"
fallback = "open"
[[clamp]]
mss = 1
"#;
        let found = mistakes(text);
        for expected in [
            "nat: mappings: a whole number from 1",
            "nat: lowest_ipv6_mtu: 1280 to 65535 bytes are expected",
            "nat rule \"a\": pool: has no meaning in a rule of type \"masquerade\"",
            "nat rule \"a\": source: \"10.0.0\" is neither a prefix nor an address",
            "nat rule \"a\": protocol: \"tpc\" is no protocol",
            "nat rule \"a\": out: the ports to the outside are expected",
            "nat rule \"a\": type: one of \"none\"",
            "nat rule \"a\": name: there is another rule",
            "nat rule 3: name: a rule needs a name",
            "nat rule 3: pool: NAT64 needs IPv4 addresses",
            "nat rule 3: prefix: 2001:db8::/33: its length must be",
            "nat rule \"b\": destination: it would catch everything",
            "nat rule \"b\": protocol: ports need protocols",
            "nat rule \"b\": to: a target with a range",
            "nat rule \"c\": block: a number of ports",
            "nat: mss: \"path\", or 88",
        ] {
            assert!(
                found.iter().any(|message| message.starts_with(expected)),
                "{expected}\nnot in\n{found:#?}"
            );
        }
    }

    #[test]
    fn what_linux_cannot_do_needs_a_choice() {
        let found = mistakes("[[rule]]\nname = \"p\"\ntype = \"nat64\"\npool = \"203.0.113.1\"\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("nat rule \"p\": fallback: Linux cannot do this"), "{found:?}");
    }

    #[test]
    fn targets_are_read() {
        for word in
            ["10.0.0.1", "10.0.0.0/24", "10.0.0.1:80", "10.0.0.1:80-90", "[2001:db8::1]:80", "2001:db8::1"]
        {
            assert!(target_of(word).is_ok(), "{word}");
        }
        for word in
            ["", ":80", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:90-80", "[10.0.0.1]:80", "10.0.0.1:80:90"]
        {
            assert!(target_of(word).is_err(), "{word}");
        }
    }

    proptest! {
        #[test]
        fn mutated_files_never_panic(mutations in proptest::collection::vec((any::<usize>(), 32u8..127), 1..5)) {
            let mut text = EVERYTHING.as_bytes().to_vec();
            for (at, byte) in mutations {
                let at = at % text.len();
                text[at] = byte;
            }
            let text = String::from_utf8(text).unwrap();
            if let Ok(Ok(rules)) = toml::from_str::<Text>(&text).map(|read| read.check()) {
                crate::nftables(&rules, &[], &[], crate::Told::Here, |_, _| false);
            }
        }
    }
}
