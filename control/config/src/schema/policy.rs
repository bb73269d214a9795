//! What becomes of packets besides being routed: filter, flows, translation, elements.

use super::*;

pub(super) static GRAPH: &[Key] = &[
    text("prerouting", What::Click, "what may be forwarded, before the lookup of its route"),
    text("forward", What::Click, "what will be forwarded, before its TTL is decremented"),
    text("postrouting", What::Click, "frames as they leave"),
    text("punt", What::Click, "what workers hand to Linux"),
];

pub(super) static FILTER: &[Key] = &[
    key(
        "sets",
        Shape::Map { names: What::Name, value: &Shape::List(What::Prefix) },
        "sets of addresses, for rules",
    ),
    key("input", Shape::Table(CHAIN), "all that comes in by a port, before it is routed"),
    key("forward", Shape::Table(CHAIN), "transit, when its way is known"),
    key("output", Shape::Table(CHAIN), "all that leaves by a port"),
    key("chains", Shape::Named { names: What::Name, keys: CHAIN }, "chains that rules jump to"),
    text("rules_file", What::Path, "chains in a file of their own"),
];

static CHAIN: &[Key] = &[
    word("policy", &["accept", "drop"], "what becomes of what no rule decides"),
    key("rules", Shape::Lines(What::Rule), "the rules, tried from the top"),
    text("rules_file", What::Path, "rules in a file of their own"),
];

pub(super) static EXPECT: &[Key] =
    &[key("sentences", Shape::Lines(What::Sentence), "which packets, and what becomes of them")];

pub(super) static FLOW: &[Key] = &[
    number("memory", 4, 1 << 20, "MiB of the table; 119 bytes a flow").or("128"),
    number("fragments", 64, 1 << 20, "fragmented packets that are known at the same time").or("4096"),
    word("pickup", ON_OFF, "whether connections met in mid-stream become flows").or("\"on\""),
    word("ftp", ON_OFF, "whether data connections that FTP announces are related").or("\"on\""),
    key("timeouts", Shape::Table(TIMEOUTS), "how long a flow lives without a packet"),
];

static TIMEOUTS: &[Key] = &[
    text("tcp_opening", What::Time, "a connection that begins").or("\"4m\""),
    text("tcp_established", What::Time, "one that stands").or("\"124m\""),
    text("tcp_closing", What::Time, "one that ends").or("\"4m\""),
    text("tcp_finished", What::Time, "one that has ended").or("\"10s\""),
    text("udp", What::Time, "UDP of a few packets").or("\"2m\""),
    text("udp_stream", What::Time, "UDP in both directions").or("\"5m\""),
    text("icmp", What::Time, "ICMP").or("\"1m\""),
    text("other", What::Time, "other protocols").or("\"10m\""),
    text("fragment", What::Time, "fragments of a packet").or("\"30s\""),
    text("active", What::Time, "after how long a flow that goes on is accounted for").or("\"30m\""),
    text("pressed", What::Time, "idle for so long, a flow may have to make room in a full table")
        .or("\"1m\""),
];

pub(super) static NAT: &[Key] = &[
    number("mappings", 1, 1 << 28, "mappings at most"),
    flag("log", "a line in the log when a mapping is made or ends").or("false"),
    number("lowest_ipv6_mtu", 1_280, 65_535, "what NAT64 fragments to").or("1280"),
    word("half", &["lower", "upper"], "of every range of ports; the other half is another router's"),
    key(
        "rule",
        Shape::Listed { by: "name", keys: NAT_RULE, inline: false },
        "rules; the first that matches decides",
    ),
    key(
        "clamp",
        Shape::Listed { by: "", keys: CLAMP, inline: false },
        "the segment size of TCP, held down to what fits",
    ),
];

static NAT_RULE: &[Key] = &[
    text("name", What::Name, "any name that no other rule has").needed(),
    word(
        "type",
        &["none", "masquerade", "source", "deterministic", "destination", "one-to-one", "nat64", "nptv6"],
        "what becomes of addresses",
    )
    .needed(),
    some("in", What::Port, "ports that packets come by"),
    some("out", What::Port, "ports that packets leave by"),
    some("source", What::Prefix, "their source"),
    some("destination", What::Prefix, "their destination"),
    some("protocol", What::Protocol, "their protocol"),
    some("source_ports", What::Ports, "their source ports"),
    some("ports", What::Ports, "their destination ports"),
    some("pool", What::Prefix, "addresses that are given out"),
    text("pool_ports", What::Ports, "ports that are given out, a range"),
    word("pooling", &["paired", "arbitrary"], "whether a host keeps its address"),
    word("filtering", &["address-and-port-dependent", "endpoint-independent"], "who may answer"),
    flag("hairpin", "whether hosts inside may use outside addresses"),
    number("host_limit", 0, U32, "mappings of one host at most; 0: any number"),
    number("block", 0, 65_535, "ports of a deterministic block"),
    some("to", What::Words, "the target of a port forward, such as 192.168.1.10:8443"),
    word("spread", &["hash", "round-robin"], "how flows are spread over several targets"),
    text("inside", What::Prefix, "the prefix inside"),
    text("outside", What::Prefix, "the prefix outside"),
    text("prefix", What::Prefix, "the prefix of NAT64"),
    flag("private", "whether the well-known prefix may stand before private addresses"),
    word("fallback", &["open", "closed"], "what becomes of it while the plane is gone"),
];

static CLAMP: &[Key] = &[
    some("out", What::Port, "ports that packets leave by"),
    key("mss", Shape::NumberOr(&["path"]), "path, or a number of bytes").needed(),
];
