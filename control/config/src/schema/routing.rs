//! What FRR is told: OSPF, and policies.

use super::*;

pub(super) static ROUTING: &[Key] = &[
    text("sockets", What::Path, "where FRR's daemons have their sockets").or("\"/run/frr\""),
    key("frr", Shape::Lines(What::Words), "lines as FRR's `show running-config` has them"),
];

/// OSPF of a family whose interfaces have these keys.
macro_rules! ospf {
    ($interface:expr) => {
        &[
            text("router_id", What::Address, "else FRR's choice"),
            number("reference_bandwidth", 1, 4_294_967, "in Mbit/s: what costs 1"),
            list("redistribute", What::Origin, "routes of others"),
            key("default", Shape::Table(DEFAULT), "tell of a default route"),
            key("area", Shape::Named { names: What::Words, keys: AREA }, "areas that are not as usual"),
            key("interface", Shape::Named { names: What::Interface, keys: $interface }, "interfaces"),
        ]
    };
}

pub(super) static OSPF: &[Key] = ospf!(OSPF_INTERFACE);
pub(super) static OSPF6: &[Key] = ospf!(OSPF6_INTERFACE);

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

static PROTOCOLS: [&str; 9] = words(crate::routing::PROTOCOLS);

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
