//! What other daemons serve to hosts.

use super::*;

pub(super) static SERVICE: &[Key] = &[
    key("dhcp", Shape::Table(DHCP), "hosts get addresses of IPv4, by Kea"),
    key("dhcp6", Shape::Table(DHCP6), "hosts get addresses of IPv6, by Kea"),
    key("dns", Shape::Table(DNS), "names are resolved for hosts, by unbound"),
    key("lldp", Shape::Table(LLDP), "neighbours are told who this is, by lldpd"),
    key("ntp", Shape::Table(NTP), "the machine's clock, and who may ask it, by chrony"),
    text("root", What::Path, "a folder in front of the paths of all their files").or("\"/\""),
    text("manager", What::Path, "a program that starts and stops them where systemd does not run"),
];

// What DHCP has for both families.
const RELAYED: Key = list("interfaces", What::Interface, "where relays' packets come in");
const LEASE: Key = text("lease", What::Time, "how long an address is a host's").or("\"1h\"");
const AT: Key = text("interface", What::Interface, "where its hosts are; else they are behind a relay");
const LEASE_HERE: Key = text("lease", What::Time, "how long an address is a host's; else as everywhere");
const OPTIONS: Key = key(
    "options",
    Shape::Map { names: What::Name, value: &Shape::Text(What::Words) },
    "other options, by Kea's names",
);

static DHCP: &[Key] =
    &[RELAYED, LEASE, key("subnet", Shape::Named { names: What::Name, keys: SUBNET }, "the subnets")];

static SUBNET: &[Key] = &[
    text("prefix", What::Prefix, "its prefix").needed(),
    AT,
    list("pools", What::Words, "addresses that hosts get, such as 192.0.2.100-192.0.2.199"),
    list("routers", What::Address, "their default routers"),
    list("dns", What::Address, "their name servers"),
    text("domain", What::Words, "the domain of their names"),
    list("ntp", What::Address, "their NTP servers"),
    LEASE_HERE,
    OPTIONS,
    key(
        "reservation",
        Shape::Named { names: What::Name, keys: RESERVATION },
        "hosts that always have the same address",
    ),
];

static RESERVATION: &[Key] = &[
    text("mac", What::Mac, "its link address").needed(),
    text("address", What::Address, "its address").needed(),
];

static DHCP6: &[Key] =
    &[RELAYED, LEASE, key("subnet", Shape::Named { names: What::Name, keys: SUBNET6 }, "the subnets")];

static SUBNET6: &[Key] = &[
    text("prefix", What::Prefix, "its prefix").needed(),
    AT,
    list("pools", What::Words, "addresses that hosts get, such as 2001:db8:1::1000-2001:db8:1::1fff"),
    list("dns", What::Address, "their name servers"),
    list("search", What::Words, "domains that names are looked for in"),
    LEASE_HERE,
    OPTIONS,
    key(
        "reservation",
        Shape::Named { names: What::Name, keys: RESERVATION6 },
        "hosts that always have the same address",
    ),
];

static RESERVATION6: &[Key] = &[
    text("duid", What::Words, "the number by which it is known; else by mac"),
    text("mac", What::Mac, "its link address; else by duid"),
    text("address", What::Address, "its address").needed(),
];

static DNS: &[Key] = &[
    list("listen", What::Address, "where it listens").needed(),
    list("access", What::Prefix, "who may ask, besides this machine").needed(),
    list("forward", What::Words, "who is asked; with #NAME by TLS; else names are resolved from the root"),
    text("dns64", What::Prefix, "the prefix by which hosts that have IPv6 only reach IPv4"),
    key(
        "records",
        Shape::Map { names: What::Name, value: &Shape::OneOrMore(What::Address) },
        "addresses of names",
    ),
    key("zone", Shape::Named { names: What::Name, keys: ZONE }, "domains for which others are asked"),
];

static ZONE: &[Key] = &[list("forward", What::Words, "who is asked for it").needed()];

static LLDP: &[Key] = &[
    list("interfaces", What::Interface, "where it speaks and listens; else at every card"),
    list("management", What::Address, "addresses by which this machine is managed"),
    number("interval", 1, 3600, "seconds between two frames").or("30"),
    number("hold", 2, 10, "for how many of these neighbours believe one").or("4"),
];

static NTP: &[Key] = &[
    list("servers", What::Words, "servers, by name or address"),
    list("pools", What::Words, "names behind which are several servers"),
    flag("nts", "all of them prove who they are (NTS)").or("false"),
    list("serve", What::Prefix, "who may ask this machine"),
    number("local_stratum", 1, 15, "tell the machine's own clock while no server is there"),
];
