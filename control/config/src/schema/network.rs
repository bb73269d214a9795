//! Interfaces, routes, and what is spoken with neighbours.

use super::*;
use crate::{InterfaceKind, Route};

static KINDS: [&str; 17] = words(&crate::interface::WORDS);
/// Those of bonds, and those of macvlans.
static MODES: [&str; 11] = both(words(&InterfaceKind::BOND_MODES), words(&InterfaceKind::MACVLAN_MODES));
static LACP_RATES: [&str; 2] = words(&InterfaceKind::LACP_RATES);
static VLAN_PROTOCOLS: [&str; 2] = words(&InterfaceKind::VLAN_PROTOCOLS);
static ENDS: [&str; 3] = words(&Route::ENDS);

pub(super) static INTERFACE: &[Key] = &[
    word("kind", &KINDS, "what it is; an ethernet is there already").or("\"ethernet\""),
    list("addresses", What::AddressWithLength, "all of its addresses"),
    number("mtu", 68, 65_535, "the longest packet"),
    flag("dhcp", "asks a DHCP server for an address of IPv4").or("false"),
    number("dhcp_metric", 1, U32, "of the routes that the DHCP server tells"),
    flag("autoconf", "makes addresses and a default route of what routers of IPv6 tell").or("false"),
    flag("dhcp6", "asks a DHCP server for an address of IPv6").or("false"),
    number("prefix_length", 1, 64, "of the prefix that it asks for, for those with prefix_of"),
    text("prefix_of", What::Interface, "has part of the prefix that this one is given"),
    number("prefix_number", 0, 65_535, "which part, of 64 bits each; else the first"),
    text("mac", What::Mac, "its link address"),
    text("vrf", What::Interface, "the VRF that it belongs to"),
    text("description", What::Words, "Linux's alias"),
    flag("enabled", "whether it is up").or("true"),
    list("members", What::Interface, "of a bridge or bond: all of its members"),
    text("parent", What::Interface, "of a vlan, macvlan or vxlan: the interface that it is on"),
    number("id", 1, 4094, "of a vlan: its tag"),
    word("protocol", &VLAN_PROTOCOLS, "of a vlan: the protocol of its tag").or("\"802.1Q\""),
    word("mode", &MODES, "of a bond: how it chooses members; of a macvlan: whom it speaks with"),
    word("lacp_rate", &LACP_RATES, "of a bond: how often LACP speaks"),
    number("miimon", 0, 60_000, "of a bond: milliseconds between two looks at the links"),
    number("table", 1, U32, "of a vrf: its routing table"),
    text("local", What::Address, "of a tunnel or vxlan: this end"),
    text("remote", What::Address, "of a tunnel or vxlan: the other end; of a vxlan also a group"),
    number("vni", 1, 16_777_215, "of a vxlan: its number"),
    number("port", 1, 65_535, "of a vxlan: its UDP port").or("4789"),
    flag("learning", "of a vxlan: learns from what comes where hosts are").or("true"),
    number("key", 0, U32, "of a gre, gretap or ip6gre tunnel: its key"),
    text("private_key", What::Secret, "of a wireguard: its own key"),
    number("listen_port", 1, 65_535, "of a wireguard: its UDP port; else Linux chooses one"),
    key("peer", Shape::Named { names: What::Name, keys: PEER }, "of a wireguard: all of its peers"),
    number("ttl", 0, 255, "of a tunnel: the TTL outside; 0: that of the packet inside").or("64"),
];

static PEER: &[Key] = &[
    text("public_key", What::Words, "who it is").needed(),
    text("preshared_key", What::Secret, "what both know besides their keys"),
    text("endpoint", What::Endpoint, "where it is first looked for; else it is found when it comes"),
    list("allowed_ips", What::Prefix, "whose packets come from it, and go to it"),
    number("keepalive", 0, 65_535, "seconds between two packets that keep a way open; 0: none").or("0"),
];

pub(super) static ROUTE: &[Key] = &[
    text("to", What::Prefix, "the prefix, or default").needed(),
    some("via", What::Address, "the gateway, or several"),
    text("device", What::Interface, "the interface; else the one on whose link the gateway is"),
    word("kind", &ENDS, "packets end here, in this way"),
    number("metric", 0, U32, "of several routes the lowest is used"),
    number("table", 1, U32, "the routing table; 254 is the main one").or("254"),
    text("vrf", What::Interface, "the VRF whose table it is in"),
];

pub(super) static RULE: &[Key] = &[
    number("priority", 1, U32, "its place: the lowest is asked first").needed(),
    word("family", &["ipv4", "ipv6"], "only of this family; else that of its prefixes, or both"),
    flag("not", "for all packets but these").or("false"),
    text("from", What::Prefix, "source"),
    text("to", What::Prefix, "destination"),
    text("in", What::Interface, "the interface that they came in by; lo: this machine's own"),
    text("out", What::Interface, "the interface that their socket is bound to"),
    number("mark", 0, U32, "their mark"),
    number("mask", 1, U32, "bits of the mark that count; else all"),
    number("tos", 4, 252, "their type of service, a multiple of 4; of IPv4 up to 28"),
    text("protocol", What::Protocol, "their protocol"),
    text("source_ports", What::Ports, "their source ports"),
    text("ports", What::Ports, "their destination ports"),
    number("table", 1, U32, "this table is asked"),
    text("vrf", What::Interface, "the table of this VRF is asked"),
    number("suppress_prefix_length", 0, 128, "routes whose prefixes are no longer do not count"),
    number("goto", 1, U32, "the rules from this priority on decide"),
    word("action", &ENDS, "packets end here, in this way"),
];

pub(super) static VRRP: &[Key] = &[
    text("interface", What::Interface, "the interface").needed(),
    number("id", 1, 255, "its number on the link, the same on all routers").needed(),
    list("addresses", What::Address, "the same on all routers; of IPv6 a link-local one first").needed(),
    number("priority", 1, 255, "the highest is active; 255: the addresses are this machine's own").or("100"),
    text("interval", What::Time, "between two advertisements, from 10ms").or("\"1s\""),
    number("version", 2, 3, "3, or 2 towards old routers").or("3"),
    flag("preempt", "take over from an active router of a lower priority").or("true"),
    text("preempt_delay", What::Time, "when so much time has passed since this one came up").or("\"0s\""),
    flag("accept", "the addresses answer while this router is active").or("true"),
    list("peers", What::Address, "who else takes part, where multicast does not reach them"),
    text("sync", What::Name, "those with the same word are active together or not at all"),
    key(
        "track",
        Shape::Listed { by: "", keys: TRACK_NUMBER, inline: true },
        "what must be there, or the priority is lower",
    ),
];

static TRACK_NUMBER: &[Key] = &[
    text("interface", What::Interface, "an interface that is up"),
    text("route", What::Prefix, "a route to exactly this prefix"),
    text("bfd", What::Address, "a BFD session to this address that is up"),
    word("flows", &["shared"], "the flows of the other router ([sharing]), unless it is not there"),
    text("from", What::Words, "who made the route, such as bgp, ospf or static"),
    text("ping", What::Address, "a host that answers (ICMP echo)"),
    text("interval", What::Time, "how often it is asked, 100ms to 60s").or("\"1s\""),
    number("count", 1, 100, "so many unanswered in a row: it is lost; answered: it is back").or("3"),
    number("lower", 0, U32, "so much lower without it; else not at all"),
];

static TRACK_WORD: &[Key] = &[
    text("interface", What::Interface, "an interface that is up"),
    text("route", What::Prefix, "a route to exactly this prefix"),
    text("bfd", What::Address, "a BFD session to this address that is up"),
    word("flows", &["shared"], "the flows of the other router ([sharing]), unless it is not there"),
    text("from", What::Words, "who made the route, such as bgp, ospf or static"),
    text("ping", What::Address, "a host that answers (ICMP echo)"),
    text("interval", What::Time, "how often it is asked, 100ms to 60s").or("\"1s\""),
    number("count", 1, 100, "so many unanswered in a row: it is lost; answered: it is back").or("3"),
    word("lower", RANKS, "the preference without it; else no default router"),
];

const RANKS: &[&str] = &["low", "medium", "high"];

pub(super) static DISCOVERY: &[Key] = &[
    text("interface", What::Interface, "the interface").needed(),
    key("ipv4", Shape::Table(DISCOVERY4), "ICMP router discovery (RFC 1256)"),
    key("ipv6", Shape::Table(DISCOVERY6), "router advertisements (RFC 4861)"),
];

static DISCOVERY4: &[Key] = &[
    text("vrrp", What::Name, "speak for this virtual router while it is active here"),
    text("interval", What::Time, "the longest time between two advertisements, 4s to 30m").or("\"10m\""),
    text("least_interval", What::Time, "the shortest; else three quarters of it"),
    text("lifetime", What::Time, "how long hosts believe it; else three times the interval"),
    flag("broadcast", "to all on the link, for hosts that do not know groups").or("false"),
    key("preference", Shape::NumberOr(&["never"]), "hosts use the highest one").or("0"),
    key(
        "addresses",
        Shape::Map { names: What::Address, value: &Shape::NumberOr(&["never"]) },
        "another preference for single addresses of the interface",
    ),
    key(
        "track",
        Shape::Listed { by: "", keys: TRACK_NUMBER, inline: true },
        "what must be there, or preferences are lower",
    ),
];

static DISCOVERY6: &[Key] = &[
    text("vrrp", What::Name, "speak for this virtual router while it is active here"),
    text("interval", What::Time, "the longest time between two advertisements, 4s to 65535s").or("\"10m\""),
    text("least_interval", What::Time, "the shortest; else a third of it"),
    text("lifetime", What::Time, "how long this is a default router; 0s: it is none"),
    word("preference", RANKS, "as a default router").or("\"medium\""),
    number("hop_limit", 0, 255, "that hosts shall use; 0: they are not told").or("64"),
    flag("managed", "addresses come from DHCPv6").or("false"),
    flag("other", "other things come from DHCPv6").or("false"),
    text("reachable", What::Time, "how long a neighbour is held to be there"),
    text("retransmit", What::Time, "between two solicitations"),
    number("mtu", 1_280, 65_535, "of the link"),
    text("valid", What::Time, "how long prefixes are valid").or("\"30d\""),
    text("preferred", What::Time, "how long they are preferred").or("\"7d\""),
    key(
        "prefixes",
        Shape::Listed { by: "prefix", keys: PREFIXES, inline: true },
        "instead of those of the interface",
    ),
    key(
        "routes",
        Shape::Listed { by: "prefix", keys: ROUTES, inline: true },
        "more specific routes by this router",
    ),
    list("dns", What::Address, "name servers"),
    list("search", What::Words, "domains that names are looked for in"),
    text("pref64", What::Prefix, "the prefix of NAT64"),
    text("captive_portal", What::Words, "the URI of a captive portal's API"),
    key(
        "track",
        Shape::Listed { by: "", keys: TRACK_WORD, inline: true },
        "what must be there, or the preference is lower",
    ),
];

static PREFIXES: &[Key] = &[
    text("prefix", What::Prefix, "the prefix").needed(),
    text("valid", What::Time, "how long it is valid"),
    text("preferred", What::Time, "how long it is preferred"),
    flag("on_link", "its hosts are on the link").or("true"),
    flag("autonomous", "hosts make addresses of it").or("true"),
];

static ROUTES: &[Key] = &[
    text("prefix", What::Prefix, "the prefix").needed(),
    word("preference", RANKS, "among routes to it").or("\"medium\""),
    text("lifetime", What::Time, "how long it holds"),
];

pub(super) static DHCP_RELAY: &[Key] = &[
    list("interfaces", What::Interface, "where hosts are").needed(),
    list("servers", What::Address, "who is asked, by the hosts of its family: all of them").needed(),
    flag("circuit_id", "servers of IPv4 are told the interface's name (option 82)").or("true"),
    text("remote_id", What::Words, "a name of this router for servers of IPv4 (option 82)"),
    flag("trusted", "hosts' messages may have that option already, of a switch").or("false"),
];

pub(super) static BFD: &[Key] = &[
    text("frr", What::Endpoint, "where FRR's bfdd listens, on this machine").or("\"127.0.0.1:50700\""),
    list("users", What::Account, "whose bfdd is believed, besides root's").or("[\"frr\"]"),
    key(
        "peer",
        Shape::Named { names: What::Gateway, keys: BFD_PEER },
        "whose sessions are authenticated, by address",
    ),
];

static BFD_PEER: &[Key] = &[key(
    "keys",
    Shape::Listed { by: "id", keys: BFD_KEY, inline: true },
    "packets are signed by the first, and believed by each",
)
.needed()];

static BFD_KEY: &[Key] = &[
    number("id", 0, 255, "by which packets name it, the same at both ends").needed(),
    word("type", &BFD_KINDS, "what packets show of it, the same at both ends").needed(),
    text("key", What::Secret, "the key itself: 16 bytes at most, 20 for SHA1").needed(),
];

static BFD_KINDS: [&str; bfd::Kind::NAMED.len()] = words(&bfd::Kind::NAMED);

pub(super) static SHARING: &[Key] = &[
    text("listen", What::Address, "this router's address towards the other one").needed(),
    text("peer", What::Address, "the other router's address").needed(),
    number("port", 1, 65_535, "the UDP port of both").or("3781"),
    text("interface", What::Interface, "the interface that alone leads to the other router"),
    text("key", What::Secret, "64 hexadecimal digits, the same on both").needed(),
];

pub(super) static REPAIR: &[Key] = &[
    text("gateway", What::Gateway, "the one that routes name").needed(),
    text("backup", What::Gateway, "who takes its place while it is lost").needed(),
];

pub(super) static FPM: &[Key] = &[
    text("listen", What::Endpoint, "where zebra connects to, such as 127.0.0.1:2620").needed(),
    list("users", What::Account, "who may, besides root").or("[\"frr\"]"),
];
