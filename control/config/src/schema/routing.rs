//! What FRR is told: BGP, OSPF, and their policies.

use super::*;

pub(super) static ROUTING: &[Key] = &[
    text("sockets", What::Path, "where FRR's daemons have their sockets").or("\"/run/frr\""),
    key("frr", Shape::Lines(What::Words), "lines as FRR's `show running-config` has them"),
];

/// BGP of a table: `as`, and what only the main one has.
macro_rules! bgp {
    ($asn:expr $(, $more:expr)*) => {
        &[
            $asn,
            text("router_id", What::Address, "else FRR's choice"),
            flag("ebgp_requires_policy", "no routes to and from another AS without a policy").or("true"),
            flag("log_neighbour_changes", "log that sessions begin and end").or("false"),
            flag("graceful_restart", "neighbours keep forwarding while BGP restarts").or("false"),
            text("keepalive", What::Time, "between keepalives of all neighbours; with hold"),
            text("hold", What::Time, "until a silent neighbour is gone; with keepalive"),
            key("ipv4", Shape::Table(BGP_FAMILY), "what is told of IPv4"),
            key("ipv6", Shape::Table(BGP_FAMILY), "what is told of IPv6"),
            key("neighbour", Shape::Named { names: What::Address, keys: NEIGHBOUR }, "neighbours, by address"),
            $($more,)*
        ]
    };
}

pub(super) static BGP: &[Key] = bgp!(
    number("as", 1, U32, "the number of the autonomous system").needed(),
    key("group", Shape::Named { names: What::Name, keys: GROUP }, "the keys of a neighbour, for several"),
    key("vrf", Shape::Named { names: What::Interface, keys: BGP_VRF }, "BGP in a VRF")
);
static BGP_VRF: &[Key] = bgp!(number("as", 1, U32, "else that of the main table"));

static BGP_FAMILY: &[Key] = &[
    list("networks", What::Network, "prefixes that are told of while there is a route to them"),
    list("redistribute", What::Origin, "routes of others"),
    number("maximum_paths", 1, 64, "how many equal paths are used"),
];

/// A neighbour of BGP, or several alike.
macro_rules! neighbour {
    ($($first:expr),*) => {
        &[
            $($first,)*
            key("remote_as", Shape::NumberOr(&["internal", "external"]), "its autonomous system"),
            text("description", What::Words, "what it is called"),
            text("password", What::Secret, "of its TCP connection"),
            text("update_source", What::Words, "an address of this router, or an interface"),
            number("ebgp_multihop", 1, 255, "how many hops away it may be"),
            number("ttl_security", 1, 254, "packets from further away are not believed"),
            text("keepalive", What::Time, "between keepalives; with hold"),
            text("hold", What::Time, "until it is gone when it is silent; with keepalive"),
            text("connect_retry", What::Time, "until it is called again"),
            key("bfd", Shape::FlagOr(What::Name), "whether BFD tells that it is gone; or a profile of FRR's"),
            flag("passive", "wait for it"),
            flag("enabled", "whether it is spoken with"),
            key("ipv4", Shape::Table(EXCHANGE), "what is exchanged of IPv4"),
            key("ipv6", Shape::Table(EXCHANGE), "what is exchanged of IPv6"),
        ]
    };
}

static GROUP: &[Key] = neighbour!();
static NEIGHBOUR: &[Key] = neighbour!(text("group", What::Name, "whose keys it has, but for its own"));

static EXCHANGE: &[Key] = &[
    text("route_map_in", What::Name, "for what comes in"),
    text("route_map_out", What::Name, "for what goes out"),
    text("prefix_list_in", What::Name, "for what comes in"),
    text("prefix_list_out", What::Name, "for what goes out"),
    text("as_path_list_in", What::Name, "for what comes in"),
    text("as_path_list_out", What::Name, "for what goes out"),
    flag("next_hop_self", "this router is the next hop of all that it tells of"),
    flag("soft_reconfiguration", "keep what comes in as it was"),
    number("maximum_prefix", 1, U32, "more of them end the session"),
    key("default_originate", Shape::FlagOr(What::Name), "tell of a default route; or by a route map"),
    flag("route_reflector_client", "it is a client of this route reflector"),
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
    key("route_map", Shape::Map { names: What::Name, value: ROUTE_MAP }, "entries, in their order"),
];

const ROUTE_MAP: &Shape = &Shape::Listed { by: "", keys: ENTRY, inline: false };

static ENTRY: &[Key] = &[
    number("seq", 1, 65_535, "else 10 more than the one before"),
    word("action", &["permit", "deny"], "what becomes of what matches").or("\"permit\""),
    text("description", What::Words, "for whoever reads it"),
    key("match", Shape::Table(MATCH), "what a route must have, all of it"),
    key("set", Shape::Table(SET), "what is changed"),
    word("on_match", &["next"], "go on with the next entry"),
];

static MATCH: &[Key] = &[
    text("prefix_list", What::Name, "a prefix list"),
    text("as_path_list", What::Name, "a list of AS paths"),
    text("community_list", What::Name, "a list of communities"),
    text("large_community_list", What::Name, "a list of large communities"),
    text("interface", What::Interface, "the interface that it goes by"),
    number("tag", 1, U32, "its tag"),
    number("metric", 0, U32, "its metric"),
    text("neighbour", What::Address, "who told of it"),
];

static SET: &[Key] = &[
    number("local_preference", 0, U32, "the local preference"),
    list("community", What::Words, "communities, instead of those that there are"),
    list("add_community", What::Words, "communities that come to them"),
    list("large_community", What::Words, "large communities, instead of those that there are"),
    list("add_large_community", What::Words, "large communities that come to them"),
    number("metric", 0, U32, "the metric, or MED"),
    number("weight", 0, U32, "the weight"),
    number("tag", 1, U32, "the tag"),
    word("origin", &["igp", "egp", "incomplete"], "the origin"),
    number("metric_type", 1, 2, "the type of OSPF's metric"),
    text("next_hop", What::Address, "the next hop"),
    list("as_path_prepend", What::Number, "AS numbers in front of the path"),
];
