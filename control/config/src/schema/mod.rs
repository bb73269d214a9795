//! The keys of `router.toml`: one description, from which completion, help, set-lines and the JSON
//! Schema are made.
//!
//! The readers decide what a file may say; this says what can be written into one. A test asks the
//! readers for every key here, and holds what they know against it, so neither has a key that the
//! other lacks (`tests/schema.rs`).

mod bgp;
mod forwarding;
mod json;
mod machine;
mod network;
mod policy;
mod records;
mod routing;
mod service;
mod system;

pub use json::json_schema;

/// A key of a table.
#[derive(Debug)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// What it may have.
    pub shape: Shape,
    /// What it is for, in a line.
    pub about: &'static str,
    /// What is in force without it, in TOML; empty: nothing, or what depends on other things.
    pub default: &'static str,
    /// Whether its table is wrong without it.
    pub required: bool,
}

/// What a key may have.
#[derive(Debug)]
pub enum Shape {
    /// A table with these keys.
    Table(&'static [Key]),
    /// The same, written in a line: `{ rate = 1, burst = 1 }`.
    Inline(&'static [Key]),
    /// A table for each name.
    Named {
        /// What names are.
        names: What,
        /// The keys of each.
        keys: &'static [Key],
    },
    /// A value for each name.
    Map {
        /// What names are.
        names: What,
        /// What each has.
        value: &'static Shape,
    },
    /// A list of tables.
    Listed {
        /// The key by which operators tell them apart; empty: by their number.
        by: &'static str,
        /// The keys of each.
        keys: &'static [Key],
        /// Written in a line each, and not as `[[...]]`.
        inline: bool,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number.
    Number {
        /// The least.
        least: i64,
        /// The greatest.
        most: i64,
    },
    /// A whole number, or one of these words.
    NumberOr(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// `true`, `false`, or a text.
    FlagOr(What),
    /// A whole number, or a text.
    NumberOrText(What),
    /// A text.
    Text(What),
    /// A text of several lines.
    Lines(What),
    /// A list of texts.
    List(What),
    /// A text, or a list of them.
    OneOrMore(What),
}

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An IP address.
    Address,
    /// An IP address, with its interface where that is not told by it.
    Gateway,
    /// An IP address and its length.
    AddressWithLength,
    /// An address and a port.
    Endpoint,
    /// A prefix or an address.
    Prefix,
    /// An interface of Linux's.
    Interface,
    /// A port: an interface's name, or a pattern.
    Port,
    /// A link address.
    Mac,
    /// A time with its unit.
    Time,
    /// A number of bytes with its unit.
    Size,
    /// A path.
    Path,
    /// A name that is chosen here.
    Name,
    /// A user or group of the machine.
    Account,
    /// A rule of the filter.
    Rule,
    /// What is to stay true of packets.
    Sentence,
    /// A path through elements, in Click's language.
    Click,
    /// A protocol by name or number.
    Protocol,
    /// Ports of TCP or UDP.
    Ports,
    /// Cores of the machine.
    Cores,
    /// What nobody else is to know: it may be in a file, or in the environment.
    Secret,
    /// The same, in the file alone.
    Hidden,
    /// A prefix, in a list of BGP's also with more:
    /// `{ prefix = "192.0.2.0/24", route_map = "out" }`.
    Network,
    /// Where routes come from, also with more: `{ from = "static", metric = 10 }`.
    Origin,
    /// A whole number, in a list.
    Number,
    /// Any words.
    Words,
}

impl What {
    /// How help shows a place for one.
    pub fn label(self) -> &'static str {
        match self {
            What::Address => "ADDRESS",
            What::Gateway => "ADDRESS[%INTERFACE]",
            What::AddressWithLength => "ADDRESS/LENGTH",
            What::Endpoint => "ADDRESS:PORT",
            What::Prefix => "PREFIX",
            What::Interface => "INTERFACE",
            What::Port => "PORT",
            What::Mac => "MAC",
            What::Time => "TIME",
            What::Size => "SIZE",
            What::Path => "PATH",
            What::Name => "NAME",
            What::Account => "ACCOUNT",
            What::Rule => "RULE",
            What::Sentence => "SENTENCE",
            What::Click => "ELEMENTS",
            What::Protocol => "PROTOCOL",
            What::Ports => "PORTS",
            What::Cores => "CORES",
            What::Secret | What::Hidden => "SECRET",
            What::Network => "PREFIX",
            What::Origin => "PROTOCOL",
            What::Number => "NUMBER",
            What::Words => "TEXT",
        }
    }

    /// One in words, with an example.
    pub fn about(self) -> &'static str {
        match self {
            What::Address => "an address, such as 192.0.2.1",
            What::Gateway => "an address, such as 192.0.2.1 or fe80::1%eth0",
            What::AddressWithLength => "an address with its length, such as 192.0.2.1/24",
            What::Endpoint => "an address and a port, such as 192.0.2.9:4739",
            What::Prefix => "a prefix, such as 192.0.2.0/24",
            What::Interface => "an interface of Linux's, such as eth0",
            What::Port => "a port, or a pattern such as eth*",
            What::Mac => "a link address, such as 02:00:00:00:00:01",
            What::Time => "a time with its unit, such as 10s, 5m or 1h",
            What::Size => "a size with its unit, such as 256MiB",
            What::Path => "a path from /",
            What::Name => "a name that you choose",
            What::Account => "a user or group of this machine",
            What::Sentence => "a sentence, such as: ssh from 192.0.2.0/24 reaches me",
            What::Rule => "a rule, such as: accept tcp to 192.0.2.0/24 port 80",
            What::Click => "elements, such as: input -> Counter -> output",
            What::Protocol => "a protocol, such as tcp",
            What::Ports => "ports, such as 443 or 2000-2001",
            What::Cores => "cores, such as 1-3 or 2-5,8",
            What::Secret | What::Hidden => "a secret",
            What::Network => "a prefix, such as 192.0.2.0/24",
            What::Origin => "where routes come from, such as connected or static",
            What::Number => "a whole number",
            What::Words => "a text; quote it if it has spaces",
        }
    }

    /// Whether it is more than a word, so that all that follows belongs to it.
    pub fn is_sentence(self) -> bool {
        matches!(self, What::Rule | What::Sentence | What::Click | What::Words)
    }
}

/// The keys of the file itself.
pub static ROOT: &[Key] = &[
    required(
        "port",
        Shape::Listed { by: "name", keys: forwarding::PORT, inline: false },
        "interfaces that Bifrost takes",
    ),
    key(
        "interface",
        Shape::Named { names: What::Interface, keys: network::INTERFACE },
        "interfaces that Bifrost makes in Linux, or changes",
    ),
    key(
        "route",
        Shape::Listed { by: "to", keys: network::ROUTE, inline: false },
        "static routes, which Linux gets",
    ),
    key(
        "rule",
        Shape::Listed { by: "", keys: network::RULE, inline: false },
        "routing rules, which Linux gets",
    ),
    key("routing", Shape::Table(routing::ROUTING), "how FRR is reached, and lines of its own"),
    key("bgp", Shape::Table(bgp::BGP), "BGP, by FRR"),
    key("ospf", Shape::Table(routing::OSPF), "OSPF for IPv4, by FRR"),
    key("ospf6", Shape::Table(routing::OSPF6), "OSPF for IPv6, by FRR"),
    key("isis", Shape::Table(routing::ISIS), "IS-IS, by FRR"),
    key("rip", Shape::Table(routing::RIP), "RIP, by FRR"),
    key("ripng", Shape::Table(routing::RIPNG), "RIP for IPv6, by FRR"),
    key("pim", Shape::Table(routing::PIM), "PIM and IGMP, by FRR"),
    key("policy", Shape::Table(routing::POLICY), "lists and route maps of FRR's"),
    key("workers", Shape::Table(machine::WORKERS), "threads that forward, and their cores"),
    key("memory", Shape::Table(machine::MEMORY), "packet buffers"),
    key("tables", Shape::Table(machine::TABLES), "the most entries that tables can hold"),
    key("paths", Shape::Table(machine::PATHS), "which of several equal paths a flow takes"),
    key("police", Shape::Table(machine::POLICE), "limits on what is handed to Linux, for each port"),
    word(
        "linux_filter",
        &["respect", "adopt", "ignore"],
        "what is done where Linux has a firewall of its own",
    )
    .or("\"respect\""),
    word(
        "linux_rules",
        &["respect", "ignore"],
        "what is done where Linux has rules (ip rule) that are not followed",
    )
    .or("\"respect\""),
    key("graph", Shape::Table(policy::GRAPH), "elements of your own in the router's graph"),
    key("filter", Shape::Table(policy::FILTER), "the filter: sets, chains and rules"),
    key("flow", Shape::Table(policy::FLOW), "the flow table"),
    key("nat", Shape::Table(policy::NAT), "address translation"),
    key("expect", Shape::Table(policy::EXPECT), "what is to stay true, whatever is changed"),
    key("flow_log", Shape::Table(records::FLOW_LOG), "records of flows, to files and collectors"),
    key("sflow", Shape::Table(records::SFLOW), "samples of packets for collectors"),
    key("mirror", Shape::Table(records::MIRROR), "copies of packets, sent by an interface"),
    key(
        "vrrp",
        Shape::Named { names: What::Name, keys: network::VRRP },
        "addresses that several routers have together",
    ),
    key(
        "discovery",
        Shape::Named { names: What::Name, keys: network::DISCOVERY },
        "hosts are told of this router",
    ),
    key(
        "dhcp_relay",
        Shape::Named { names: What::Name, keys: network::DHCP_RELAY },
        "hosts' questions for addresses are passed to servers elsewhere",
    ),
    key("bfd", Shape::Table(network::BFD), "BFD sessions of FRR's are run here"),
    key("sharing", Shape::Table(network::SHARING), "flows are shared with another router"),
    key(
        "repair",
        Shape::Listed { by: "gateway", keys: network::REPAIR, inline: false },
        "by whom packets go while a gateway is lost",
    ),
    key("system", Shape::Table(system::SYSTEM), "the machine itself"),
    key("service", Shape::Table(service::SERVICE), "what other daemons serve to hosts"),
    key("fpm", Shape::Table(network::FPM), "FRR's zebra as a source of routes"),
    key("audit", Shape::Table(machine::AUDIT), "the comparison of the plane's tables with Linux's"),
    key("control", Shape::Table(machine::CONTROL), "the control socket, and the history"),
    key("api", Shape::Table(machine::API), "the interface for programs: HTTPS and JSON"),
    key("metrics", Shape::Table(machine::METRICS), "figures for Prometheus"),
    key("log", Shape::Table(machine::LOG), "what is logged"),
    word("without_ports", &["on", "off"], "whether a file without a port is meant so").or("\"off\""),
];

/// The key of this name.
pub fn find(keys: &'static [Key], name: &str) -> Option<&'static Key> {
    keys.iter().find(|key| key.name == name)
}

/// The words of pairs.
const fn words<T, const N: usize>(pairs: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut words = [""; N];
    let mut at = 0;
    while at < N {
        words[at] = pairs[at].0;
        at += 1;
    }
    words
}

/// The words of two lists.
const fn both<const N: usize, const M: usize, const ALL: usize>(
    one: [&'static str; N],
    other: [&'static str; M],
) -> [&'static str; ALL] {
    let mut words = [""; ALL];
    let mut at = 0;
    while at < ALL {
        words[at] = if at < N { one[at] } else { other[at - N] };
        at += 1;
    }
    words
}

const fn key(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, shape, about, default: "", required: false }
}

const fn required(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, shape, about, default: "", required: true }
}

const fn word(name: &'static str, words: &'static [&'static str], about: &'static str) -> Key {
    key(name, Shape::Word(words), about)
}

const fn text(name: &'static str, what: What, about: &'static str) -> Key {
    key(name, Shape::Text(what), about)
}

const fn number(name: &'static str, least: i64, most: i64, about: &'static str) -> Key {
    key(name, Shape::Number { least, most }, about)
}

const fn flag(name: &'static str, about: &'static str) -> Key {
    key(name, Shape::Flag, about)
}

const fn list(name: &'static str, what: What, about: &'static str) -> Key {
    key(name, Shape::List(what), about)
}

const fn some(name: &'static str, what: What, about: &'static str) -> Key {
    key(name, Shape::OneOrMore(what), about)
}

impl Key {
    /// The same with a default.
    const fn or(self, default: &'static str) -> Key {
        Key { name: self.name, shape: self.shape, about: self.about, default, required: self.required }
    }

    /// The same, which must be there.
    const fn needed(self) -> Key {
        Key { name: self.name, shape: self.shape, about: self.about, default: self.default, required: true }
    }
}

/// On, off, or as the machine can.
const SWITCH: &[&str] = &["auto", "on", "off"];
const ON_OFF: &[&str] = &["on", "off"];
/// The greatest number of 32 bits.
const U32: i64 = u32::MAX as i64;
