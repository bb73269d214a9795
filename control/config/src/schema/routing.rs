//! What FRR is told: OSPF, and policies.

use super::*;

pub(super) static ROUTING: &[Key] = &[
    text("sockets", What::Path, "where FRR's daemons have their sockets").or("\"/run/frr\""),
    key("bfd", Shape::Table(BFD), "profiles of BFD, and sessions that no protocol asks for"),
    key("frr", Shape::Lines(What::Words), "lines as FRR's `show running-config` has them"),
];

static BFD: &[Key] = &[
    key("profile", Shape::Named { names: What::Name, keys: BFD_PROFILE }, "times, by name"),
    key("peer", Shape::Listed { by: "address", keys: BFD_PEER, inline: false }, "sessions"),
];

/// How BFD is spoken.
macro_rules! bfd {
    ($($first:expr),*) => {
        &[
            $($first,)*
            number("multiplier", 2, 255, "after how many missing packets a session is down").or("3"),
            text("transmit", What::Time, "between packets that are sent").or("\"300ms\""),
            text("receive", What::Time, "between packets that are received").or("\"300ms\""),
            number("minimum_ttl", 1, 254, "packets with a lower one are not believed").or("254"),
            flag("passive", "the other one begins").or("false"),
            flag("enabled", "whether it is spoken").or("true"),
        ]
    };
}
static BFD_PROFILE: &[Key] = bfd!();
static BFD_PEER: &[Key] = bfd!(
    text("address", What::Address, "with whom").needed(),
    text("local", What::Address, "from which address"),
    text("interface", What::Interface, "by which interface"),
    text("vrf", What::Interface, "in which VRF"),
    flag("multihop", "it may be several hops away").or("false"),
    text("profile", What::Name, "whose times it has")
);

/// OSPF of a family whose interfaces have these keys.
macro_rules! ospf {
    ($interface:expr $(, $more:expr)*) => {
        &[
            $($more,)*
            text("router_id", What::Address, "else FRR's choice"),
            number("reference_bandwidth", 1, 4_294_967, "in Mbit/s: what costs 1"),
            list("redistribute", What::Origin, "routes of others"),
            key("default", Shape::Table(DEFAULT), "tell of a default route"),
            key("area", Shape::Named { names: What::Words, keys: AREA }, "areas that are not as usual"),
            key("interface", Shape::Named { names: What::Interface, keys: $interface }, "interfaces"),
        ]
    };
}

pub(super) static OSPF: &[Key] = ospf!(
    OSPF_INTERFACE,
    key("vrf", Shape::Named { names: What::Interface, keys: OSPF_VRF }, "OSPF in a VRF")
);
pub(super) static OSPF6: &[Key] = ospf!(
    OSPF6_INTERFACE,
    key("vrf", Shape::Named { names: What::Interface, keys: OSPF6_VRF }, "OSPF in a VRF")
);
static OSPF_VRF: &[Key] = ospf!(OSPF_INTERFACE);
static OSPF6_VRF: &[Key] = ospf!(OSPF6_INTERFACE);

static LEVELS: [&str; 3] = words(&crate::routing::LEVELS);

pub(super) static ISIS: &[Key] = &[
    text("name", What::Name, "what FRR's instance is called").or("\"main\""),
    text("net", What::Words, "its area and system, such as 49.0001.1921.6800.1001.00").needed(),
    word("level", &LEVELS, "its levels").or("\"1-2\""),
    flag("overload", "others do not send transit through this router").or("false"),
    flag("log_neighbour_changes", "log that neighbours come and go").or("false"),
    number("lsp_mtu", 128, 4_352, "bytes of a packet with what it tells"),
    text("area_password", What::Secret, "of level 1, by MD5"),
    text("domain_password", What::Secret, "of level 2, by MD5"),
    key("ipv4", Shape::Table(ISIS_FAMILY), "what is told of IPv4"),
    key("ipv6", Shape::Table(ISIS_FAMILY), "what is told of IPv6"),
    key("interface", Shape::Named { names: What::Interface, keys: ISIS_INTERFACE }, "interfaces"),
];

static ISIS_FAMILY: &[Key] = &[
    list("redistribute", What::Origin, "routes of others"),
    key("default", Shape::Table(ISIS_DEFAULT), "tell of a default route"),
];

static ISIS_DEFAULT: &[Key] = &[
    flag("always", "also when this router has none").or("false"),
    number("metric", 1, 16_777_215, "its metric"),
    text("route_map", What::Name, "on what it depends, and how it is changed"),
];

static ISIS_INTERFACE: &[Key] = &[
    flag("ipv4", "routes IPv4").or("true"),
    flag("ipv6", "routes IPv6").or("true"),
    word("level", &LEVELS, "its levels, else those of [isis]"),
    flag("passive", "told of, and not spoken on").or("false"),
    flag("point_to_point", "one neighbour, and no election").or("false"),
    flag("bfd", "whether BFD tells that neighbours are gone").or("false"),
    number("metric", 1, 16_777_215, "what it costs").or("10"),
    text("hello", What::Time, "between hellos").or("\"3s\""),
    number("hello_multiplier", 2, 100, "after how many hellos a silent neighbour is gone").or("10"),
    number("priority", 0, 127, "to become the designated router").or("64"),
    text("password", What::Secret, "of hellos, by MD5"),
];

/// RIP, and RIPng, with what only one of them has.
macro_rules! rip {
    ($interface:expr $(, $more:expr)*) => {
        &[
            flag("default", "tell of a default route").or("false"),
            number("default_metric", 1, 16, "the metric of routes of others").or("1"),
            list("redistribute", What::Origin, "routes of others"),
            text("update", What::Time, "between two updates").or("\"30s\""),
            text("timeout", What::Time, "until a route that nobody tells of is gone").or("\"180s\""),
            text("garbage", What::Time, "that others are told that it is gone").or("\"120s\""),
            list("networks", What::Prefix, "interfaces with addresses in these take part"),
            key("interface", Shape::Named { names: What::Interface, keys: $interface }, "interfaces"),
            $($more,)*
        ]
    };
}

pub(super) static RIP: &[Key] =
    rip!(RIP_INTERFACE, list("neighbours", What::Address, "who is told without multicast"));
pub(super) static RIPNG: &[Key] = rip!(RIPNG_INTERFACE);
const PASSIVE: Key = flag("passive", "heard, and not spoken on");
static RIPNG_INTERFACE: &[Key] = &[PASSIVE];
static RIP_INTERFACE: &[Key] = &[
    PASSIVE,
    text("key", What::Secret, "what packets are signed with"),
    flag("md5", "by MD5; else a password in clear"),
];

pub(super) static PIM: &[Key] = &[
    key(
        "rendezvous_point",
        Shape::Named { names: What::Address, keys: RENDEZVOUS },
        "where senders and receivers meet, by address",
    ),
    text("ssm_list", What::Name, "a prefix list, of groups of single sources"),
    flag("ecmp", "spread groups over equal paths").or("false"),
    key("interface", Shape::Named { names: What::Interface, keys: PIM_INTERFACE }, "interfaces").needed(),
];
static RENDEZVOUS: &[Key] = &[list("groups", What::Prefix, "of which groups; else of all")];
static PIM_INTERFACE: &[Key] = &[
    flag("enabled", "PIM is spoken; else IGMP alone").or("true"),
    flag("passive", "told of, and not spoken on").or("false"),
    flag("bfd", "whether BFD tells that neighbours are gone").or("false"),
    text("hello", What::Time, "between hellos").or("\"30s\""),
    number("priority", 1, U32, "to become the designated router").or("1"),
    key("igmp", Shape::Table(IGMP), "hosts are asked which groups they want"),
];
static IGMP: &[Key] = &[
    number("version", 2, 3, "its version").or("3"),
    text("query_interval", What::Time, "between two questions").or("\"125s\""),
    list("join", What::Address, "groups that this router is in itself"),
];

static DEFAULT: &[Key] = &[
    flag("always", "also when this router has none").or("false"),
    number("metric", 0, 0xff_fffe, "its metric"),
    number("metric_type", 1, 2, "its type"),
    text("route_map", What::Name, "on what it depends, and how it is changed"),
];

static AREA: &[Key] = &[
    word("kind", &["normal", "stub", "totally-stub", "nssa"], "what comes into it").or("\"normal\""),
    list("ranges", What::Prefix, "told of as one outside of the area"),
];

/// An interface of OSPF's, with these kinds of links, and what only one family has.
macro_rules! ospf_interface {
    ($networks:expr $(, $more:expr)*) => {
        &[
            key("area", Shape::NumberOrText(What::Words), "its area, such as 0 or 0.0.0.0").needed(),
            number("cost", 1, 65_535, "what it costs"),
            flag("passive", "told of, and not spoken on").or("false"),
            text("hello", What::Time, "between hellos"),
            text("dead", What::Time, "until a silent neighbour is gone"),
            number("priority", 0, 255, "to become the designated router"),
            word("network", $networks, "what kind of a link it is"),
            flag("bfd", "whether BFD tells that neighbours are gone").or("false"),
            $($more,)*
        ]
    };
}

static OSPF_INTERFACE: &[Key] =
    ospf_interface!(NETWORKS, key("authentication", Shape::Inline(AUTHENTICATION), "MD5, or a password"));
static OSPF6_INTERFACE: &[Key] = ospf_interface!(&["broadcast", "point-to-point"]);
const NETWORKS: &[&str] = &["broadcast", "point-to-point", "point-to-multipoint", "non-broadcast"];

static AUTHENTICATION: &[Key] = &[
    number("key_id", 1, 255, "of MD5; without it a password in clear"),
    text("key", What::Secret, "the key").needed(),
];

const ENTRIES: &Shape = &Shape::List(What::Words);

pub(super) static POLICY: &[Key] = &[
    key(
        "prefix_list",
        Shape::Map { names: What::Name, value: ENTRIES },
        "such as \"permit 192.0.2.0/24 le 32\"",
    ),
    key("as_path_list", Shape::Map { names: What::Name, value: ENTRIES }, "such as \"permit ^65002_\""),
    key("community_list", Shape::Map { names: What::Name, value: ENTRIES }, "such as \"permit 65001:100\""),
    key(
        "large_community_list",
        Shape::Map { names: What::Name, value: ENTRIES },
        "such as \"permit 65001:1:1\"",
    ),
    key(
        "extended_community_list",
        Shape::Map { names: What::Name, value: ENTRIES },
        "such as \"permit rt 65001:100\"",
    ),
    key("community_pattern", Shape::Map { names: What::Name, value: ENTRIES }, "such as \"permit ^65001:\""),
    key(
        "large_community_pattern",
        Shape::Map { names: What::Name, value: ENTRIES },
        "such as \"permit ^65001:1:\"",
    ),
    key(
        "extended_community_pattern",
        Shape::Map { names: What::Name, value: ENTRIES },
        "such as \"permit RT:65001:.*\"",
    ),
    key("route_map", Shape::Map { names: What::Name, value: ROUTE_MAP }, "entries, in their order"),
];

const ROUTE_MAP: &Shape = &Shape::Listed { by: "", keys: ENTRY, inline: false };

static ENTRY: &[Key] = &[
    number("seq", 1, 65_535, "else 10 more than the one before"),
    word("action", &["permit", "deny"], "what becomes of what matches").or("\"permit\""),
    text("description", What::Words, "for whoever reads it"),
    key("match", Shape::Table(MATCH), "what a route must have, all of it"),
    key("set", Shape::Table(SET), "what is changed"),
    text("call", What::Name, "a route map that must permit it as well"),
    key("on_match", Shape::NumberOr(&["next"]), "go on with the next entry, or with that of this number"),
];

static PROTOCOLS: [&str; 9] = words(&crate::routing::PROTOCOLS);

static MATCH: &[Key] = &[
    text("prefix_list", What::Name, "a prefix list"),
    text("next_hop_list", What::Name, "a prefix list, of its next hop"),
    text("route_source_list", What::Name, "a prefix list, of who told of it"),
    text("next_hop", What::Address, "its next hop"),
    text("as_path_list", What::Name, "a list of AS paths"),
    text("community_list", What::Name, "a list of communities"),
    text("large_community_list", What::Name, "a list of large communities"),
    text("extended_community_list", What::Name, "a list of extended communities"),
    text("interface", What::Interface, "the interface that it goes by"),
    text("source_vrf", What::Interface, "the VRF that it comes from"),
    number("tag", 1, U32, "its tag"),
    number("metric", 0, U32, "its metric"),
    number("local_preference", 0, U32, "its local preference"),
    number("probability", 0, 100, "so many per cent of all"),
    text("neighbour", What::Address, "who told of it; or local"),
    word("origin", &["igp", "egp", "incomplete"], "its origin"),
    word("source_protocol", &PROTOCOLS, "whose it is"),
    word("rpki", &["valid", "invalid", "notfound"], "what RPKI says of its origin"),
];

static SET: &[Key] = &[
    number("local_preference", 0, U32, "the local preference"),
    list("community", What::Words, "communities, instead of those that there are; []: none"),
    list("add_community", What::Words, "communities that come to them"),
    text("delete_communities", What::Name, "a list of communities that are taken away"),
    list("large_community", What::Words, "large communities, instead of those that there are; []: none"),
    list("add_large_community", What::Words, "large communities that come to them"),
    text("delete_large_communities", What::Name, "a list of large communities that are taken away"),
    list("route_targets", What::Words, "route targets, such as 65001:1"),
    list("site_of_origin", What::Words, "the site of origin, such as 65001:1"),
    number("metric", 0, U32, "the metric, or MED"),
    number("weight", 0, U32, "the weight"),
    number("tag", 1, U32, "the tag"),
    number("distance", 1, 255, "the distance"),
    number("table", 1, U32, "the table of Linux's"),
    word("origin", &["igp", "egp", "incomplete"], "the origin"),
    number("metric_type", 1, 2, "the type of OSPF's metric"),
    text("next_hop", What::Address, "the next hop; or peer-address, unchanged"),
    word("next_hop_ipv6", &["peer-address", "prefer-global"], "the next hop of IPv6"),
    text("next_hop_local", What::Address, "the link-local next hop"),
    text("source", What::Address, "the address that this machine speaks from by it"),
    text("originator_id", What::Address, "the originator of route reflection"),
    flag("atomic_aggregate", "whether it is an atomic aggregate"),
    list("as_path_prepend", What::Number, "AS numbers in front of the path"),
    number("as_path_prepend_last", 1, 10, "the first AS of the path, so many times more"),
    list("as_path_exclude", What::Number, "AS numbers that are taken out of the path"),
];
