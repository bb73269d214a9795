//! One rule of `router.toml`, read key by key: every key that is wrong is noted, and the next one
//! read.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use wire::protocol;

use crate::rule::{
    Action, Dynamic, Fallback, Filtering, HOST_LIMIT, MOST_ADDRESSES, Match, Pooling, Rule, Spread, Target,
};
use crate::text::{RuleMistake, RuleText, Words};
use crate::{Addresses, Deterministic, Nptv6, Prefix64};

/// One rule, being read.
pub(crate) struct Reader<'t, 'm> {
    pub text: &'t RuleText,
    /// Which one.
    pub at: usize,
    pub mistakes: &'m mut Vec<RuleMistake>,
}

/// Which keys besides name and type mean something to a type.
const KEYS: [(&str, &[&str]); 8] = [
    ("none", &["in", "out", "source", "destination", "protocol", "source_ports", "ports"]),
    (
        "masquerade",
        &[
            "in",
            "out",
            "source",
            "destination",
            "protocol",
            "source_ports",
            "ports",
            "pool_ports",
            "filtering",
            "hairpin",
            "host_limit",
        ],
    ),
    (
        "source",
        &[
            "in",
            "out",
            "source",
            "destination",
            "protocol",
            "source_ports",
            "ports",
            "pool",
            "pool_ports",
            "pooling",
            "filtering",
            "hairpin",
            "host_limit",
            "fallback",
        ],
    ),
    (
        "deterministic",
        &[
            "in",
            "out",
            "destination",
            "protocol",
            "source_ports",
            "ports",
            "inside",
            "pool",
            "pool_ports",
            "block",
            "filtering",
            "hairpin",
            "fallback",
        ],
    ),
    (
        "destination",
        &[
            "in",
            "source",
            "destination",
            "protocol",
            "source_ports",
            "ports",
            "to",
            "spread",
            "hairpin",
            "fallback",
        ],
    ),
    ("one-to-one", &["out", "inside", "outside", "hairpin"]),
    (
        "nat64",
        &[
            "in",
            "source",
            "protocol",
            "source_ports",
            "ports",
            "prefix",
            "private",
            "pool",
            "pool_ports",
            "pooling",
            "filtering",
            "hairpin",
            "host_limit",
            "fallback",
        ],
    ),
    ("nptv6", &["out", "inside", "outside", "fallback"]),
];

/// What Linux has no words for.
const NEEDS_FALLBACK: &str = "Linux cannot do this while the plane is gone: say fallback = \"open\" (it passes \
                              untranslated) or \"closed\" (it is dropped)";

impl Reader<'_, '_> {
    pub fn wrong(&mut self, key: &'static str, message: impl Into<String>) {
        let name = self.text.name.clone();
        self.mistakes.push(RuleMistake { rule: Some(self.at), name, key, message: message.into() });
    }

    fn keys(&self) -> [(&'static str, bool); 21] {
        let text = self.text;
        [
            ("in", text.r#in.is_some()),
            ("out", text.out.is_some()),
            ("source", text.source.is_some()),
            ("destination", text.destination.is_some()),
            ("protocol", text.protocol.is_some()),
            ("source_ports", text.source_ports.is_some()),
            ("ports", text.ports.is_some()),
            ("pool", text.pool.is_some()),
            ("pool_ports", text.pool_ports.is_some()),
            ("pooling", text.pooling.is_some()),
            ("filtering", text.filtering.is_some()),
            ("hairpin", text.hairpin.is_some()),
            ("host_limit", text.host_limit.is_some()),
            ("block", text.block.is_some()),
            ("to", text.to.is_some()),
            ("spread", text.spread.is_some()),
            ("inside", text.inside.is_some()),
            ("outside", text.outside.is_some()),
            ("prefix", text.prefix.is_some()),
            ("private", text.private.is_some()),
            ("fallback", text.fallback.is_some()),
        ]
    }

    /// The rule; `None` if something in it is wrong.
    pub fn rule(&mut self) -> Option<Rule> {
        let before = self.mistakes.len();
        let name = self.text.name.clone().filter(|name| !name.is_empty());
        if name.is_none() {
            self.wrong("name", "a rule needs a name: logs and counters show it");
        }
        let kind = self.text.r#type.as_deref().unwrap_or_default();
        let Some((kind, known)) = KEYS.iter().find(|(name, _)| *name == kind) else {
            let names: Vec<_> = KEYS.iter().map(|(name, _)| format!("{name:?}")).collect();
            self.wrong("type", format!("one of {} is expected", names.join(", ")));
            return None;
        };
        for (key, there) in self.keys() {
            if there && !known.contains(&key) {
                self.wrong(key, format!("has no meaning in a rule of type {kind:?}"));
            }
        }
        let matches = self.matches();
        self.sides(kind, &matches);
        let action = self.action(kind, &matches);
        let words = [("open", Fallback::Open), ("closed", Fallback::Closed)];
        let fallback = self.choice("fallback", self.text.fallback.as_deref(), &words);
        let rule = Rule { name: name.unwrap_or_default(), matches, action: action?, fallback };
        if self.text.fallback.is_none() && !crate::nftables::can_express(&rule) {
            self.wrong("fallback", NEEDS_FALLBACK);
        }
        (self.mistakes.len() == before).then_some(rule)
    }

    fn matches(&mut self) -> Match {
        let text = self.text;
        let list = |words: &Option<Words>| words.as_ref().map(|w| w.list().to_vec()).unwrap_or_default();
        let found = Match {
            input: list(&text.r#in),
            output: list(&text.out),
            source: self.each("source", &text.source, net_of),
            destination: self.each("destination", &text.destination, net_of),
            protocols: self.each("protocol", &text.protocol, protocol_of),
            source_ports: self.each("source_ports", &text.source_ports, |w| notation::ports(w, 0)),
            destination_ports: self.each("ports", &text.ports, |w| notation::ports(w, 0)),
            ..Match::default()
        };
        let ports = !found.source_ports.is_empty() || !found.destination_ports.is_empty();
        if ports && (found.protocols.is_empty() || !found.protocols.iter().all(|p| protocol::has_ports(*p))) {
            self.wrong("protocol", "ports need protocols that have ports: \"tcp\", \"udp\", \"sctp\", ...");
        }
        found
    }

    /// Some actions need to know which side is which.
    fn sides(&mut self, kind: &str, matches: &Match) {
        let hairpin = self.text.hairpin == Some(true);
        let needs_out = match kind {
            "masquerade" | "one-to-one" | "nptv6" => true,
            "source" | "deterministic" => hairpin,
            _ => false,
        };
        if needs_out && matches.output.is_empty() {
            self.wrong("out", "the ports to the outside are expected, like \"wan0\"");
        }
        if kind == "destination" && matches.input.is_empty() && matches.destination.is_empty() {
            self.wrong(
                "destination",
                "it would catch everything: say `in` (for the port's own addresses) or `destination`",
            );
        }
    }

    fn action(&mut self, kind: &str, matches: &Match) -> Option<Action> {
        let text = self.text;
        Some(match kind {
            "none" => Action::None,
            "masquerade" => Action::Masquerade(self.dynamic(1024)?),
            "source" => {
                let (addresses, dynamic) = (self.pool(), self.dynamic(1));
                Action::Source { addresses: addresses?, dynamic: dynamic? }
            }
            "deterministic" => {
                let inside =
                    self.need("inside", text.inside.as_deref(), "an IPv4 prefix", |w| w.parse().ok());
                let (addresses, dynamic) = (self.pool(), self.dynamic(1024));
                let dynamic = Dynamic { host_limit: None, ..dynamic? };
                if *dynamic.ports.end() != 65_535 {
                    self.wrong("pool_ports", "blocks reach up to 65535: \"N-65535\" is expected");
                }
                let Some(size) = text.block else {
                    self.wrong("block", "a number of ports for each address inside is expected");
                    return None;
                };
                match Deterministic::new(inside?, addresses?, *dynamic.ports.start(), size) {
                    Ok(blocks) => Action::Deterministic { blocks, dynamic },
                    Err(error) => {
                        self.wrong("block", error.to_string());
                        return None;
                    }
                }
            }
            "destination" => {
                let words = [("hash", Spread::Hash), ("round-robin", Spread::RoundRobin)];
                let spread = self.choice("spread", text.spread.as_deref(), &words).unwrap_or_default();
                let hairpin = text.hairpin.unwrap_or(false);
                Action::Destination { targets: self.targets(matches)?, spread, hairpin }
            }
            "one-to-one" => {
                let prefix = |w: &str| net_of(w).ok();
                let inside = self.need("inside", text.inside.as_deref(), "a prefix", prefix);
                let outside = self.need("outside", text.outside.as_deref(), "a prefix", prefix);
                let (inside, outside) = (inside?, outside?);
                let alike = |net: IpNet| (net.max_prefix_len(), net.prefix_len());
                if alike(inside) != alike(outside) {
                    self.wrong("outside", format!("a prefix as long as {inside} is expected"));
                }
                Action::OneToOne { inside, outside, hairpin: text.hairpin.unwrap_or(false) }
            }
            "nat64" => {
                let prefix = match text.prefix.as_deref().unwrap_or("64:ff9b::/96").parse::<Prefix64>() {
                    Ok(prefix) => Some(prefix),
                    Err(error) => {
                        self.wrong("prefix", error.to_string());
                        None
                    }
                };
                if matches.source.iter().any(|net| matches!(net, IpNet::V4(_))) {
                    self.wrong("source", "the hosts of NAT64 have IPv6 prefixes");
                }
                let (addresses, dynamic) = (self.pool(), self.dynamic(1));
                let addresses = addresses?;
                if addresses.ranges().iter().any(|range| range.is_ipv6()) {
                    self.wrong("pool", "NAT64 needs IPv4 addresses");
                }
                let private = text.private.unwrap_or(false);
                Action::Nat64 { prefix: prefix?, addresses, private, dynamic: dynamic? }
            }
            _ => {
                let prefix = |w: &str| w.parse().ok();
                let inside = self.need("inside", text.inside.as_deref(), "an IPv6 prefix", prefix);
                let outside = self.need("outside", text.outside.as_deref(), "an IPv6 prefix", prefix);
                match Nptv6::new(inside?, outside?) {
                    Ok(nptv6) => Action::Nptv6(nptv6),
                    Err(error) => {
                        self.wrong("outside", error.to_string());
                        return None;
                    }
                }
            }
        })
    }

    /// A block is a host's limit as it is. `low`: the lowest port given out when nothing is said. A
    /// port's own address shares its low ports with the router.
    fn dynamic(&mut self, low: u16) -> Option<Dynamic> {
        let text = self.text;
        let pooling = [("paired", Pooling::Paired), ("arbitrary", Pooling::Arbitrary)];
        let filtering = [
            ("address-and-port-dependent", Filtering::AddressAndPortDependent),
            ("endpoint-independent", Filtering::EndpointIndependent),
        ];
        let ports = match text.pool_ports.as_deref().map(|word| notation::ports(word, 1)) {
            None => Some(low..=65_535),
            Some(Ok(ports)) => Some(ports),
            Some(Err(message)) => {
                self.wrong("pool_ports", message);
                None
            }
        };
        Some(Dynamic {
            pooling: self.choice("pooling", text.pooling.as_deref(), &pooling).unwrap_or_default(),
            filtering: self.choice("filtering", text.filtering.as_deref(), &filtering).unwrap_or_default(),
            hairpin: text.hairpin.unwrap_or(false),
            host_limit: match text.host_limit {
                Some(0) => None,
                limit => Some(limit.unwrap_or(HOST_LIMIT)),
            },
            ports: ports?,
        })
    }

    fn pool(&mut self) -> Option<Addresses> {
        let Some(words) = &self.text.pool else {
            self.wrong("pool", "addresses are expected, like \"203.0.113.8/29\"");
            return None;
        };
        match words.list().join(",").parse::<Addresses>() {
            Ok(pool) if pool.len() > MOST_ADDRESSES => {
                self.wrong("pool", format!("at most {MOST_ADDRESSES} addresses, not {}", pool.len()));
                None
            }
            Ok(pool) => Some(pool),
            Err(error) => {
                self.wrong("pool", error.to_string());
                None
            }
        }
    }

    fn targets(&mut self, matches: &Match) -> Option<Vec<Target>> {
        if self.text.to.is_none() {
            self.wrong("to", "a target is expected, like \"192.168.1.10:8080\"");
            return None;
        }
        let targets = self.each("to", &self.text.to, target_of);
        for target in &targets {
            self.target(target, matches);
        }
        (!targets.is_empty()).then_some(targets)
    }

    fn target(&mut self, target: &Target, matches: &Match) {
        let family = target.net.max_prefix_len();
        if matches.destination.iter().any(|net| net.max_prefix_len() != family) {
            self.wrong("to", "destination and target are of one family");
        }
        if target.net.prefix_len() != family {
            let alike = |net: &IpNet| net.prefix_len() == target.net.prefix_len();
            if matches.destination.is_empty() || !matches.destination.iter().all(alike) {
                self.wrong("to", format!("{} needs a destination prefix of the same length", target.net));
            }
        }
        if let Some(ports) = &target.ports {
            let width = |range: &RangeInclusive<u16>| range.end() - range.start();
            if matches.protocols.is_empty() || !matches.protocols.iter().all(|p| protocol::has_ports(*p)) {
                self.wrong("protocol", "a target with a port needs protocols that have ports");
            }
            let fits = matches!(&matches.destination_ports[..], [range] if width(range) == width(ports));
            if width(ports) != 0 && !fits {
                self.wrong("to", "a target with a range of ports needs `ports` to be one range as wide");
            }
        }
    }

    fn need<T>(
        &mut self,
        key: &'static str,
        word: Option<&str>,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let found = word.and_then(read);
        if found.is_none() {
            match word {
                Some(word) => self.wrong(key, format!("{word:?} is not {expected}")),
                None => self.wrong(key, format!("{expected} is expected")),
            }
        }
        found
    }

    fn choice<T: Copy>(&mut self, key: &'static str, word: Option<&str>, words: &[(&str, T)]) -> Option<T> {
        let word = word?;
        let found = words.iter().find(|(name, _)| *name == word);
        if found.is_none() {
            let names: Vec<_> = words.iter().map(|(name, _)| format!("{name:?}")).collect();
            self.wrong(key, format!("cannot be {word:?}; {} is expected", names.join(" or ")));
        }
        found.map(|(_, chosen)| *chosen)
    }

    fn each<T>(
        &mut self,
        key: &'static str,
        words: &Option<Words>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let mut found = Vec::new();
        // Words may hold several themselves, after commas.
        for word in words.iter().flat_map(Words::list).flat_map(|word| word.split(',')).map(str::trim) {
            match read(word) {
                Ok(value) => found.push(value),
                Err(message) => self.wrong(key, message),
            }
        }
        found
    }
}

fn net_of(word: &str) -> Result<IpNet, String> {
    let net = word.parse::<IpNet>().or_else(|_| word.parse::<IpAddr>().map(IpNet::from));
    net.map(|net| net.trunc()).map_err(|_| format!("{word:?} is neither a prefix nor an address"))
}

fn protocol_of(word: &str) -> Result<u8, String> {
    protocol::number(word)
        .or_else(|| word.parse().ok())
        .ok_or_else(|| format!("{word:?} is no protocol: \"tcp\", \"udp\", \"icmp\", ... or a number"))
}

/// `192.0.2.1`, `192.0.2.0/24`, `192.0.2.1:80`, `192.0.2.1:80-90`, `[2001:db8::1]:80`.
pub(crate) fn target_of(word: &str) -> Result<Target, String> {
    if let Ok(net) = net_of(word) {
        return Ok(Target { net, ports: None });
    }
    let syntax = || format!("{word:?} is no target, like \"192.168.1.10:8080\" or \"[2001:db8::10]:8080\"");
    let (address, ports) = word.rsplit_once(':').ok_or_else(syntax)?;
    let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let net = net_of(bare.unwrap_or(address)).map_err(|_| syntax())?;
    if bare.is_some() != matches!(net, IpNet::V6(_)) {
        return Err(syntax());
    }
    Ok(Target { net, ports: Some(notation::ports(ports, 1).map_err(|_| syntax())?) })
}
