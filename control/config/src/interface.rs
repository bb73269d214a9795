//! `[interface.NAME]`: an interface of Linux's, as Bifrost makes it.

use std::net::IpAddr;

use ipnet::IpNet;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::client::{self, Asks, Client6, Delegated, DhcpClient, asks};
use crate::mistake::{Hint, Page};
use crate::pattern::is_interface_name;
use crate::routing::Files;
use crate::section::{Section, kind as kind_of};
use crate::topology;
use crate::wireguard::{WireGuard, wireguard};

/// An interface as it is to be. What is `None` is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name in Linux.
    pub name: String,
    /// What it is.
    pub kind: InterfaceKind,
    /// Of a bridge or bond: all of its members.
    pub members: Option<Vec<String>>,
    /// All of its addresses, without those that Linux makes by itself.
    pub addresses: Option<Vec<IpNet>>,
    /// The longest packet.
    pub mtu: Option<u32>,
    /// Its Ethernet address, in small letters.
    pub mac: Option<String>,
    /// The VRF that it belongs to; `None`: none of the file's.
    pub vrf: Option<String>,
    /// Linux's alias.
    pub description: Option<String>,
    /// Of a [`InterfaceKind::Wireguard`]: its keys, port and peers.
    pub wireguard: Option<WireGuard>,
    /// It asks a DHCP server for an address of IPv4; `None`: it does not.
    pub dhcp: Option<DhcpClient>,
    /// What it asks routers and servers of IPv6 for; `None`: nothing.
    pub client6: Option<Client6>,
    /// It has part of a prefix that another one was given; `None`: it has not.
    pub delegated: Option<Delegated>,
    /// Whether it is up.
    pub enabled: bool,
}

/// What an interface is. Words are those of iproute2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceKind {
    /// One that is there, whatever it is.
    Ethernet,
    /// What has a tag on another one.
    Vlan {
        /// The other one.
        parent: String,
        /// The tag, 1 to 4094.
        id: u16,
        /// `802.1Q` or `802.1ad`.
        protocol: &'static str,
    },
    /// A bridge.
    Bridge,
    /// A bond.
    Bond {
        /// How it chooses members.
        mode: &'static str,
        /// How often LACP speaks: `slow` or `fast`.
        lacp_rate: Option<&'static str>,
        /// Milliseconds between two looks at members' carrier.
        miimon: Option<u32>,
    },
    /// A VRF.
    Vrf {
        /// Its routing table.
        table: u32,
    },
    /// One that leads nowhere, for addresses of the machine.
    Dummy,
    /// What has an Ethernet address of its own on another one.
    Macvlan {
        /// The other one.
        parent: String,
        /// Whom it speaks with on that.
        mode: &'static str,
    },
    /// Ethernet in UDP (RFC 7348).
    Vxlan(Vxlan),
    /// WireGuard.
    Wireguard,
    /// A tunnel over IPv4 or IPv6.
    Tunnel {
        /// One of [`InterfaceKind::TUNNELS`].
        mode: &'static str,
        /// This end.
        local: IpAddr,
        /// The other end, of the same family.
        remote: IpAddr,
        /// GRE's key.
        key: Option<u32>,
        /// Of the outer header; 0: that of the packet inside.
        ttl: u8,
    },
}

/// A VXLAN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vxlan {
    /// Its number (VNI), 1 to 2^24 - 1.
    pub vni: u32,
    /// This end; `None`: what Linux chooses.
    pub local: Option<IpAddr>,
    /// Where frames go to that nobody is known for: a host, or a group; `None`: nowhere.
    pub remote: Option<IpAddr>,
    /// The interface that it sends by.
    pub parent: Option<String>,
    /// The UDP port.
    pub port: u16,
    /// Whether it learns where hosts are from what comes.
    pub learning: bool,
}

impl InterfaceKind {
    /// The modes of bonds.
    pub const BOND_MODES: [(&str, &str); 7] = same([
        "802.3ad",
        "active-backup",
        "balance-xor",
        "balance-rr",
        "broadcast",
        "balance-tlb",
        "balance-alb",
    ]);
    /// How often LACP speaks.
    pub const LACP_RATES: [(&str, &str); 2] = same(["slow", "fast"]);
    /// Protocols of tags.
    pub const VLAN_PROTOCOLS: [(&str, &str); 2] = same(["802.1Q", "802.1ad"]);
    /// Whom macvlans speak with.
    pub const MACVLAN_MODES: [(&str, &str); 4] = same(["bridge", "private", "vepa", "passthru"]);
    /// Tunnels: what packets are carried in by GRE (`gretap`: frames), in IPv4 and in IPv6.
    /// `ip6tnl` carries both families.
    pub const TUNNELS: [(&str, &str); 8] =
        same(["gre", "gretap", "ipip", "sit", "ip6gre", "ip6tnl", "ipip6", "ip6ip6"]);
    /// The port of VXLAN (RFC 7348).
    pub const VXLAN_PORT: u16 = 4789;

    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            InterfaceKind::Ethernet => "ethernet",
            InterfaceKind::Vlan { .. } => "vlan",
            InterfaceKind::Bridge => "bridge",
            InterfaceKind::Bond { .. } => "bond",
            InterfaceKind::Vrf { .. } => "vrf",
            InterfaceKind::Dummy => "dummy",
            InterfaceKind::Macvlan { .. } => "macvlan",
            InterfaceKind::Vxlan(_) => "vxlan",
            InterfaceKind::Wireguard => "wireguard",
            InterfaceKind::Tunnel { mode, .. } => mode,
        }
    }

    /// What it lies on.
    pub fn parent(&self) -> Option<&str> {
        match self {
            InterfaceKind::Vlan { parent, .. } | InterfaceKind::Macvlan { parent, .. } => Some(parent),
            InterfaceKind::Vxlan(vxlan) => vxlan.parent.as_deref(),
            _ => None,
        }
    }

    /// Whether it carries Ethernet frames, so that it could be a member of a bridge.
    pub fn has_frames(&self) -> bool {
        match self {
            InterfaceKind::Vrf { .. } | InterfaceKind::Wireguard => false,
            InterfaceKind::Tunnel { mode, .. } => *mode == "gretap",
            _ => true,
        }
    }
}

/// Words that stand for themselves.
const fn same<const N: usize>(words: [&'static str; N]) -> [(&'static str, &'static str); N] {
    let mut pairs = [("", ""); N];
    let mut at = 0;
    while at < N {
        pairs[at] = (words[at], words[at]);
        at += 1;
    }
    pairs
}

const NAME: &str = "the name of an interface, such as \"eth0\"";
/// Kinds.
pub(crate) const WORDS: [(&str, &str); 17] = same([
    "ethernet",
    "vlan",
    "bridge",
    "bond",
    "vrf",
    "dummy",
    "macvlan",
    "vxlan",
    "wireguard",
    "gre",
    "gretap",
    "ipip",
    "sit",
    "ip6gre",
    "ip6tnl",
    "ipip6",
    "ip6ip6",
]);

/// Every section of this kind, in the order of their names.
pub(crate) fn interfaces(page: &mut Page, value: &Spanned<DeValue>, files: &mut Files) -> Vec<Interface> {
    let DeValue::Table(table) = value.get_ref() else {
        let hint = Hint::expected("sections [interface.NAME]");
        page.wrong(value.span(), format!("interface cannot be {}", kind_of(value.get_ref())), hint);
        return Vec::new();
    };
    let mut found: Vec<Interface> = Vec::new();
    for (name, section) in table {
        let title = format!("[interface.{}]", name.get_ref());
        if let Err(wrong) = interface_name(name.get_ref()) {
            page.wrong(name.span(), format!("{title}: {wrong}"), Hint::expected(NAME));
            continue;
        }
        let DeValue::Table(keys) = section.get_ref() else {
            let message = format!("{title} cannot be {}", kind_of(section.get_ref()));
            page.wrong(section.span(), message, Hint::expected(format!("a section {title}")));
            continue;
        };
        found.extend(one(page, name.get_ref(), Section::new(title, name.span(), keys), files));
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    topology::check(page, table, &found);
    client::check(page, table, &found);
    found
}

/// A name that Linux takes, and `ip` reads in a line of its own.
pub(crate) fn interface_name(text: &str) -> Result<String, String> {
    let odd = |c: char| !c.is_ascii_graphic() || matches!(c, '"' | '\'' | '#' | '\\');
    match is_interface_name(text) && !text.contains(odd) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} cannot be the name of an interface here")),
    }
}

fn one(page: &mut Page, name: &str, mut section: Section, files: &mut Files) -> Option<Interface> {
    let kind = kind(page, &mut section);
    let of_wireguard = kind == Some(InterfaceKind::Wireguard);
    let wireguard = of_wireguard.then(|| wireguard(page, &mut section, &format!("interface.{name}"), files));
    let is_master = matches!(kind, None | Some(InterfaceKind::Bridge | InterfaceKind::Bond { .. }));
    let members = is_master.then(|| section.texts(page, "members", NAME, interface_name)).flatten();
    let addresses =
        section.texts(page, "addresses", "addresses with their length, such as \"192.0.2.1/24\"", address);
    let mtu = section.number(page, "mtu", 68..=65_535).map(|mtu| mtu as u32);
    let ipv6 = addresses.iter().flatten().any(|address| address.addr().is_ipv6());
    if let (Some(..1_280), true, Some(at)) = (mtu, ipv6, section.value("mtu").map(Spanned::span)) {
        page.wrong(
            at,
            "mtu is too short for IPv6, of which there are addresses",
            Hint::expected("1,280 or more"),
        );
    }
    let mac = section.text(page, "mac", "an address of one station, such as \"02:00:00:00:00:01\"", mac);
    let vrf = section.text(page, "vrf", "the name of a VRF", interface_name);
    let described = "at most 250 letters in one line, without \\, \" and #";
    let description = section.text(page, "description", described, |text| {
        let odd = |c: char| c.is_control() || matches!(c, '"' | '#' | '\\');
        match text.len() <= 250 && !text.contains(odd) {
            true => Ok(text.to_owned()),
            false => Err("it cannot be a description".to_owned()),
        }
    });
    let enabled = section.flag(page, "enabled");
    let Asks { dhcp, client6, delegated } = asks(page, &mut section, kind.as_ref(), vrf.is_some());
    // Of what is no kind no key is unknown.
    let kind = kind?;
    section.finish(page);
    Some(Interface {
        name: name.to_owned(),
        kind,
        members,
        addresses,
        mtu,
        mac: mac.map(|found| found.value),
        vrf: vrf.map(|found| found.value),
        description: description.map(|found| found.value),
        wireguard: wireguard.map_or(Some(None), |read| read.map(Some))?,
        dhcp,
        client6,
        delegated,
        enabled: enabled.unwrap_or(true),
    })
}

fn kind(page: &mut Page, section: &mut Section) -> Option<InterfaceKind> {
    let word = match section.value("kind") {
        None => "ethernet",
        Some(_) => section.choice(page, "kind", &WORDS)?,
    };
    Some(match word {
        "ethernet" => InterfaceKind::Ethernet,
        "bridge" => InterfaceKind::Bridge,
        "dummy" => InterfaceKind::Dummy,
        "vlan" => {
            let parent = section.text(page, "parent", NAME, interface_name);
            let parent = section.require(page, "parent", parent, NAME);
            let id = section.number(page, "id", 1..=4094);
            let id = section.require(page, "id", id, "a whole number from 1 to 4,094");
            let protocol =
                section.choice(page, "protocol", &InterfaceKind::VLAN_PROTOCOLS).unwrap_or("802.1Q");
            InterfaceKind::Vlan { parent: parent?.value, id: id? as u16, protocol }
        }
        "bond" => {
            let mode = section.choice(page, "mode", &InterfaceKind::BOND_MODES);
            let mode = section.require(page, "mode", mode, "a mode such as \"802.3ad\" or \"active-backup\"");
            let lacp_rate = section.choice(page, "lacp_rate", &InterfaceKind::LACP_RATES);
            let miimon = section.number(page, "miimon", 0..=60_000).map(|time| time as u32);
            if let (Some(_), Some(mode), Some(at)) =
                (lacp_rate, mode.filter(|mode| *mode != "802.3ad"), section.value("lacp_rate"))
            {
                page.wrong(at.span(), format!("a bond of mode {mode:?} has no lacp_rate"), Hint::default());
            }
            InterfaceKind::Bond { mode: mode?, lacp_rate, miimon }
        }
        "vrf" => {
            let expected = "a whole number from 1 to 4,294,967,295 but 253 to 255";
            let table = section.number(page, "table", 1..=u64::from(u32::MAX));
            let table = section.require(page, "table", table, expected)? as u32;
            if let (253..=255, Some(at)) = (table, section.value("table").map(Spanned::span)) {
                page.wrong(at, format!("table {table} is Linux's own"), Hint::expected(expected));
            }
            InterfaceKind::Vrf { table }
        }
        "macvlan" => {
            let parent = section.text(page, "parent", NAME, interface_name);
            let parent = section.require(page, "parent", parent, NAME);
            let mode = section.choice(page, "mode", &InterfaceKind::MACVLAN_MODES).unwrap_or("bridge");
            InterfaceKind::Macvlan { parent: parent?.value, mode }
        }
        "wireguard" => InterfaceKind::Wireguard,
        "vxlan" => InterfaceKind::Vxlan(vxlan(page, section)?),
        mode => {
            let ipv6 = mode.starts_with("ip6") || mode == "ipip6";
            let (family, expected) = match ipv6 {
                false => ("IPv4", "an IPv4 address, such as \"192.0.2.1\""),
                true => ("IPv6", "an IPv6 address, such as \"2001:db8::1\""),
            };
            let mut end = |key| {
                let end = section.text(page, key, expected, |text| match text.parse::<IpAddr>() {
                    Ok(end) if end.is_ipv6() == ipv6 && is_host(end) => Ok(end),
                    _ => Err(format!("{text:?} is no {family} address of a host")),
                });
                section.require(page, key, end, expected)
            };
            let (local, remote) = (end("local"), end("remote"));
            let key = match mode {
                "gre" | "gretap" | "ip6gre" => {
                    section.number(page, "key", 0..=u64::from(u32::MAX)).map(|key| key as u32)
                }
                _ => None,
            };
            let ttl = section.number(page, "ttl", 0..=255).map_or(64, |ttl| ttl as u8);
            InterfaceKind::Tunnel { mode, local: local?.value, remote: remote?.value, key, ttl }
        }
    })
}

fn is_host(address: IpAddr) -> bool {
    !address.is_unspecified() && !address.is_multicast()
}

fn vxlan(page: &mut Page, section: &mut Section) -> Option<Vxlan> {
    const END: &str = "an address, such as \"192.0.2.1\"";
    let vni = section.number(page, "vni", 1..=(1 << 24) - 1).map(|vni| vni as u32);
    let vni = section.require(page, "vni", vni, "a whole number from 1 to 16,777,215");
    let local = section.text(page, "local", END, |text| match text.parse::<IpAddr>() {
        Ok(end) if is_host(end) => Ok(end),
        _ => Err(format!("{text:?} is no address of a host")),
    });
    let remote = section.text(page, "remote", END, |text| match text.parse::<IpAddr>() {
        Ok(end) if !end.is_unspecified() => Ok(end),
        _ => Err(format!("{text:?} is no address of a host or group")),
    });
    let parent = section.text(page, "parent", NAME, interface_name);
    let port = section.number(page, "port", 1..=65_535).map_or(InterfaceKind::VXLAN_PORT, |port| port as u16);
    let learning = section.flag(page, "learning").unwrap_or(true);
    if let (Some(local), Some(remote)) = (&local, &remote)
        && local.value.is_ipv6() != remote.value.is_ipv6()
    {
        page.wrong(remote.at.clone(), "the two ends are of different families", Hint::expected("one family"));
    }
    if let (Some(remote), None) = (remote.as_ref().filter(|it| it.value.is_multicast()), &parent) {
        page.wrong(remote.at.clone(), "a group is on one interface", Hint::expected("a parent as well"));
    }
    let [local, remote] = [local, remote].map(|end| end.map(|found| found.value));
    Some(Vxlan { vni: vni?, local, remote, parent: parent.map(|found| found.value), port, learning })
}

fn address(text: &str) -> Result<IpNet, String> {
    let net: IpNet =
        text.parse().map_err(|_| format!("{text:?} is not an address with the length of its subnet"))?;
    let it = net.addr();
    match it.is_unspecified() || it.is_multicast() {
        true => Err(format!("{it} cannot be an address of an interface")),
        false => Ok(net),
    }
}

pub(crate) fn mac(text: &str) -> Result<String, String> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|byte| u8::from_str_radix(byte, 16).ok().filter(|_| byte.len() == 2 && !byte.starts_with('+')))
        .collect();
    match bytes.as_deref() {
        Some(bytes @ [first, ..]) if bytes.len() == 6 && first & 1 == 0 && bytes.iter().any(|b| *b != 0) => {
            Ok(text.to_lowercase())
        }
        _ => Err(format!("{text:?} is no address of a station")),
    }
}

/// Where a key of a section stands, or else the section.
pub(crate) fn place(table: &DeTable, name: &str, key: &str) -> std::ops::Range<usize> {
    let Some((title, section)) = table.get_key_value(name) else { return 0..0 };
    let keys = section.get_ref().as_table();
    keys.and_then(|keys| keys.get(key)).map_or(title.span(), Spanned::span)
}
