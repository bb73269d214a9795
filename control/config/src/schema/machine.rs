//! What the machine gives to the router, and how it is reached: workers, memory, limits, sockets.

use super::*;

pub(super) static WORKERS: &[Key] = &[
    text("cores", What::Cores, "cores to pin a worker to, such as 2-5,8; else all but the first"),
    word("busy_poll", SWITCH, "poll the driver from the socket").or("\"auto\""),
];

pub(super) static MEMORY: &[Key] = &[
    number("frames", 0, 4_194_304, "packet buffers of 4096 bytes; 0: 16384 for each worker").or("0"),
    word("hugepages", SWITCH, "keep them in huge pages").or("\"auto\""),
];

pub(super) static TABLES: &[Key] = &[
    number("ipv4", 1_024, 10_000_000, "IPv4 routes").or("1500000"),
    number("ipv6", 1_024, 10_000_000, "IPv6 routes").or("500000"),
    number("next_hops", 1_024, 4_194_304, "next hops").or("131072"),
];

pub(super) static PATHS: &[Key] = &[text(
    "key",
    What::Hidden,
    "what the choice is made with: 8 to 1024 letters; routers with the same key choose alike",
)];

pub(super) static POLICE: &[Key] = &[
    key("routing", Shape::Inline(LIMIT), "routing protocols, BFD, VRRP, LLDP and other non-IP"),
    key("management", Shape::Inline(LIMIT), "SSH, SNMP, NETCONF, DNS, NTP, DHCP, RADIUS, TACACS+, HTTP(S)"),
    key("icmp", Shape::Inline(LIMIT), "ICMP and ICMPv6"),
    key("rest", Shape::Inline(LIMIT), "everything else for this machine"),
    key("unresolved", Shape::Inline(LIMIT), "transit whose neighbour Linux shall resolve"),
    key("transit", Shape::Inline(LIMIT), "transit that Linux forwards; without it there is no limit"),
    key("neighbour", Shape::Inline(LIMIT), "ARP, neighbour discovery"),
];

static LIMIT: &[Key] =
    &[number("rate", 1, 100_000_000, "packets a second"), number("burst", 1, 100_000_000, "packets at once")];

pub(super) static AUDIT: &[Key] =
    &[text("interval", What::Time, "the time that one whole comparison may take, 1s to 1h").or("\"10s\"")];

pub(super) static CONTROL: &[Key] = &[
    text("socket", What::Path, "where the daemon listens").or("\"/run/bifrost/control.sock\""),
    text("group", What::Account, "who may use it besides root"),
    text("operate_group", What::Account, "who may do what leaves the configuration as it is"),
    text("read_group", What::Account, "who may ask, and change nothing"),
    text("mode", What::Words, "its permissions, in octal").or("\"0660\""),
    number("revisions", 2, 10_000, "how many configurations that were in force are kept").or("100"),
];

pub(super) static API: &[Key] = &[
    key("listen", Shape::OneOrMore(What::Endpoint), "where it listens, such as 192.0.2.1:8443").needed(),
    text("certificate", What::Path, "the certificate in PEM; without it one is made, and kept"),
    text("private_key", What::Path, "the certificate's private key in PEM"),
    text("tokens", What::Path, "who may use it: what `bifrost token` writes").needed(),
];

pub(super) static METRICS: &[Key] =
    &[text("listen", What::Endpoint, "where Prometheus asks, such as 127.0.0.1:9117").needed()];

pub(super) static LOG: &[Key] =
    &[word("level", &["error", "warn", "info", "debug", "trace"], "the least important that is logged")
        .or("\"info\"")];
