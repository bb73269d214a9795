//! The keys of `[bgp]`.

use super::*;

/// BGP of a table: `as`, and what only the main one has.
macro_rules! bgp {
    ($asn:expr, $evpn:expr $(, $more:expr)*) => {
        &[
            $asn,
            text("router_id", What::Address, "else FRR's choice"),
            flag("ebgp_requires_policy", "no routes to and from another AS without a policy").or("true"),
            flag("log_neighbour_changes", "log that sessions begin and end").or("false"),
            flag("graceful_restart", "neighbours keep forwarding while BGP restarts").or("false"),
            text("graceful_restart_time", What::Time, "that a restart takes at most").or("\"120s\""),
            text("graceful_restart_stale_time", What::Time, "that routes of who restarts are kept")
                .or("\"360s\""),
            text("keepalive", What::Time, "between keepalives of all neighbours; with hold"),
            text("hold", What::Time, "until a silent neighbour is gone; with keepalive"),
            number("listen_limit", 1, 65_535, "how many neighbours may come by themselves").or("100"),
            key("ipv4", Shape::Table(UNICAST), "what is told of IPv4"),
            key("ipv6", Shape::Table(UNICAST), "what is told of IPv6"),
            key("ipv4_multicast", Shape::Table(MULTICAST), "for the reverse path of multicast"),
            key("ipv6_multicast", Shape::Table(MULTICAST), "for the reverse path of multicast"),
            key("ipv4_labeled", Shape::Table(LABELED), "what is told of IPv4 with labels of MPLS"),
            key("ipv6_labeled", Shape::Table(LABELED), "what is told of IPv6 with labels of MPLS"),
            key("evpn", Shape::Table($evpn), "what is told of Ethernet addresses"),
            key("neighbour", Shape::Named { names: What::Address, keys: NEIGHBOUR }, "neighbours, by address"),
            key("listen", Shape::Named { names: What::Name, keys: LISTEN }, "neighbours that come by themselves"),
            key("bmp", Shape::Named { names: What::Name, keys: BMP }, "who is told of all that is heard"),
            $($more,)*
        ]
    };
}

pub(super) static BGP: &[Key] = bgp!(
    number("as", 1, U32, "the number of the autonomous system").needed(),
    EVPN,
    key("group", Shape::Named { names: What::Name, keys: GROUP }, "the keys of a neighbour, for several"),
    key("rpki", Shape::Table(RPKI), "caches that tell which system a prefix may come from"),
    key("vrf", Shape::Named { names: What::Interface, keys: BGP_VRF }, "BGP in a VRF")
);
static BGP_VRF: &[Key] = bgp!(number("as", 1, U32, "else that of the main table"), EVPN_VRF);

static RPKI: &[Key] = &[
    list("caches", What::Words, "hosts with ports, such as 192.0.2.9:3323; the first that answers counts")
        .needed(),
    text("polling", What::Time, "between two questions").or("\"3600s\""),
    text("expire", What::Time, "that answers are believed").or("\"7200s\""),
    text("retry", What::Time, "until one that does not answer is asked again").or("\"600s\""),
];

static BMP: &[Key] = &[
    list("connect", What::Words, "hosts with ports that are called"),
    text("source", What::Interface, "the interface that is called from"),
    text("listen", What::Endpoint, "where callers are waited for"),
    list("monitor", What::Words, "what is told, such as ipv4-pre-policy or ipv6-post-policy"),
    text("stats", What::Time, "between two statistics"),
    flag("mirror", "messages are told as they came").or("false"),
];

/// What of a family is told of.
macro_rules! family {
    ($($more:expr),*) => {
        &[
            list("networks", What::Network, "prefixes that are told of while there is a route to them"),
            key("dampening", Shape::Table(DAMPENING), "do not believe routes that flap"),
            $($more,)*
        ]
    };
}

static UNICAST: &[Key] = family!(
    PATHS,
    PATHS_IBGP,
    DISTANCE,
    list("aggregates", What::Network, "prefixes that are told of for what lies in them"),
    list("redistribute", What::Origin, "routes of others"),
    key("vpn", Shape::Table(VPN), "how routes go to other VRFs and come from them"),
    list("import_vrfs", What::Interface, "VRFs whose routes come in without more ado")
);
static MULTICAST: &[Key] = family!(DISTANCE);
static LABELED: &[Key] = family!(PATHS, PATHS_IBGP);

const PATHS: Key = number("maximum_paths", 1, 64, "how many equal paths are used");
const PATHS_IBGP: Key = number("maximum_paths_ibgp", 1, 64, "the same among neighbours of the same system");
const DISTANCE: Key =
    key("distance", Shape::Inline(DISTANCES), "of routes, against those of other protocols");

static DISTANCES: &[Key] = &[
    number("external", 1, 255, "of routes of other systems").or("20"),
    number("internal", 1, 255, "of routes of the same system").or("200"),
    number("local", 1, 255, "of this router's own").or("200"),
];

static DAMPENING: &[Key] = &[
    text("half_life", What::Time, "until half of the penalty is gone").or("\"15m\""),
    number("reuse", 1, 20_000, "the penalty below which a route is believed again").or("750"),
    number("suppress", 1, 20_000, "the penalty above which it is not").or("2000"),
    text("longest", What::Time, "that it is not believed at most; else four half lives"),
];

static VPN: &[Key] = &[
    text("rd", What::Words, "what tells its prefixes from those of other VRFs, such as 65001:1"),
    key("label", Shape::NumberOr(&["auto"]), "its label of MPLS"),
    text("next_hop", What::Address, "the next hop of what goes out"),
    list("import", What::Words, "route targets of what comes in"),
    list("export", What::Words, "route targets of what goes out"),
    text("route_map_import", What::Name, "for what comes in"),
    text("route_map_export", What::Name, "for what goes out"),
];

static EVPN: &[Key] = &[
    ADVERTISE,
    flag("advertise_all_vni", "tell of all VNIs of this machine").or("false"),
    flag("advertise_default_gw", "tell of the addresses of gateways").or("false"),
    flag("advertise_svi_ip", "tell of the addresses of bridges").or("false"),
    flag("flooding", "what is for all goes to each").or("true"),
];
static EVPN_VRF: &[Key] = &[
    ADVERTISE,
    text("rd", What::Words, "what tells its prefixes from those of other VRFs, such as 65001:1"),
    list("import", What::Words, "route targets of what comes in"),
    list("export", What::Words, "route targets of what goes out"),
];
const ADVERTISE: Key = list("advertise", What::Words, "families whose routes are told of: ipv4, ipv6");

/// A neighbour of BGP, or several alike.
macro_rules! neighbour {
    ($($first:expr),*) => {
        &[
            $($first,)*
            key("remote_as", Shape::NumberOr(&["internal", "external"]), "its autonomous system"),
            key("local_as", Shape::Inline(LOCAL_AS), "the system that this router is of for it"),
            text("description", What::Words, "what it is called"),
            text("password", What::Secret, "of its TCP connection"),
            text("update_source", What::Words, "an address of this router, or an interface"),
            number("ebgp_multihop", 1, 255, "how many hops away it may be"),
            number("ttl_security", 1, 254, "packets from further away are not believed"),
            flag("connected_check", "one of another system must be on a link of this router"),
            text("keepalive", What::Time, "between keepalives; with hold"),
            text("hold", What::Time, "until it is gone when it is silent; with keepalive"),
            text("connect_retry", What::Time, "until it is called again"),
            text("advertisement_interval", What::Time, "between two updates"),
            key("bfd", Shape::FlagOr(What::Name), "whether BFD tells that it is gone; or a profile"),
            flag("passive", "wait for it"),
            flag("enabled", "whether it is spoken with"),
            flag("enforce_first_as", "paths of another system begin with it"),
            flag("extended_next_hop", "next hops of IPv4 may be of IPv6"),
            word("graceful_restart", &["on", "helper", "off"], "whether forwarding goes on in a restart"),
            key("ipv4", Shape::Table(EXCHANGE), "what is exchanged of IPv4"),
            key("ipv6", Shape::Table(EXCHANGE), "what is exchanged of IPv6"),
            key("ipv4_multicast", Shape::Table(EXCHANGE), "for the reverse path of multicast"),
            key("ipv6_multicast", Shape::Table(EXCHANGE), "for the reverse path of multicast"),
            key("ipv4_labeled", Shape::Table(EXCHANGE), "what is exchanged of IPv4 with labels of MPLS"),
            key("ipv6_labeled", Shape::Table(EXCHANGE), "what is exchanged of IPv6 with labels of MPLS"),
            key("vpnv4", Shape::Table(EXCHANGE_VPN), "what is exchanged of IPv4 of VRFs"),
            key("vpnv6", Shape::Table(EXCHANGE_VPN), "what is exchanged of IPv6 of VRFs"),
            key("evpn", Shape::Table(EXCHANGE_EVPN), "what is exchanged of Ethernet addresses"),
        ]
    };
}

static GROUP: &[Key] = neighbour!();
static NEIGHBOUR: &[Key] = neighbour!(
    text("group", What::Name, "whose keys it has, but for its own"),
    text("interface", What::Interface, "it is behind this interface, alone; its name is any then")
);
static LISTEN: &[Key] = neighbour!(
    text("group", What::Name, "whose keys it has, but for its own"),
    list("ranges", What::Prefix, "where they come from").needed()
);

static LOCAL_AS: &[Key] = &[
    number("as", 1, U32, "its number").needed(),
    flag("prepend", "put it in front of paths that come in").or("true"),
    flag("replace", "have it instead of this router's own in paths that go out").or("false"),
];

/// What is exchanged: what every family has, and more.
macro_rules! exchange {
    ($($more:expr),*) => {
        &[
            text("route_map_in", What::Name, "for what comes in"),
            text("route_map_out", What::Name, "for what goes out"),
            key("next_hop_self", Shape::FlagOr(What::Words), "this router is the next hop; or force"),
            flag("soft_reconfiguration", "keep what comes in as it was"),
            flag("route_reflector_client", "it is a client of this route reflector"),
            flag("route_server_client", "it is a client of this route server"),
            key("allowas_in", Shape::NumberOr(&["origin"]), "how often its own system may be in a path"),
            $($more,)*
        ]
    };
}

/// The same, and what families have that are of prefixes.
macro_rules! exchange_prefixes {
    ($($more:expr),*) => {
        exchange!(
            text("prefix_list_in", What::Name, "for what comes in"),
            text("prefix_list_out", What::Name, "for what goes out"),
            text("as_path_list_in", What::Name, "for what comes in"),
            text("as_path_list_out", What::Name, "for what goes out"),
            list("unchanged", What::Words, "what goes out as it came in: as-path, next-hop, med"),
            text("unsuppress_map", What::Name, "by it prefixes are told of that an aggregate hides"),
            number("maximum_prefix", 1, U32, "more of them end the session"),
            number("maximum_prefix_threshold", 1, 100, "log at so many per cent of them"),
            flag("maximum_prefix_warning_only", "log more of them, and go on"),
            text("maximum_prefix_restart", What::Time, "until a session that ended so begins again"),
            number("maximum_prefix_out", 1, U32, "tell of no more"),
            flag("as_override", "replace its system by this router's in paths that go out"),
            key("remove_private_as", Shape::FlagOr(What::Words), "or all, replace, all-replace"),
            list("send_community", What::Words, "which go out, all without it: standard, extended, large"),
            word("add_path", &["all", "best-per-as"], "which paths go out besides the best"),
            flag("add_path_receive", "several paths to a prefix may come in"),
            number("weight", 0, 65_535, "of what comes in")
            $(, $more)*
        )
    };
}

static EXCHANGE: &[Key] = exchange_prefixes!(key(
    "default_originate",
    Shape::FlagOr(What::Name),
    "tell of a default route; or by a route map"
));
static EXCHANGE_VPN: &[Key] = exchange_prefixes!();
static EXCHANGE_EVPN: &[Key] = exchange!();
