//! What Linux has now.
//!
//! Not the operator's, and so not imported: what Linux makes by itself (link-local addresses,
//! connected and local routes, the devices that tunnel modules come with), addresses of DHCP and
//! SLAAC, and routes of other protocols (FRR's, DHCP's, those of router advertisements).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use config::{Asks, Does, Interface, InterfaceKind, RouteAction, RouteTable, RoutingRule, WireGuard};
use ipnet::IpNet;
use serde_json::Value;

use crate::draft::{Draft, natural};
use crate::ip;

/// The texts that say it.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    /// `ip -json -details address show`.
    pub links: String,
    /// `ip -4 -Numeric -json -details route show table all`, and the same with `-6`.
    pub routes: [String; 2],
    /// `ip -4 -Numeric -json -details rule show`, and the same with `-6`.
    pub rules: [String; 2],
    /// What interfaces of WireGuard have, by their names.
    pub wireguard: BTreeMap<String, WireGuard>,
    /// Interfaces whose address on the link somebody has set.
    pub set: BTreeSet<String>,
}

/// Protocols of routes that an operator or his scripts made: `boot`, `static`.
pub const GIVEN: [&str; 2] = ["3", "4"];
/// The same of rules: `ip rule` says nobody's.
pub const GIVEN_RULES: [&str; 3] = ["0", "3", "4"];
/// That of Bifrost's own.
const OURS: &str = "177";
const SOURCE: &str = "Linux";

/// Devices that come with a module of Linux's.
const MODULES: [&str; 10] =
    ["tunl0", "gre0", "gretap0", "erspan0", "sit0", "ip6tnl0", "ip6gre0", "ip_vti0", "ip6_vti0", "teql0"];

impl Draft {
    /// What Linux has.
    ///
    /// # Errors
    /// An answer of `ip`'s that is not understood.
    pub fn linux(&mut self, texts: &Texts) -> Result<(), String> {
        let wrong = |error| format!("ip says what is not understood: {error}");
        let mut links: Vec<ip::Link> = ip::read(texts.links.as_bytes()).map_err(wrong)?;
        links.sort_by_cached_key(|link| natural(&link.ifname));
        for link in &links {
            self.link(link, &links, texts);
        }
        for (text, ipv6) in texts.routes.iter().zip([false, true]) {
            let routes: Vec<ip::Route> = ip::read(text.as_bytes()).map_err(wrong)?;
            routes.iter().for_each(|route| self.linux_route(route, ipv6, &links));
        }
        for (text, ipv6) in texts.rules.iter().zip([false, true]) {
            let rules: Vec<ip::Rule> = ip::read(text.as_bytes()).map_err(wrong)?;
            rules.iter().for_each(|rule| self.linux_rule(rule, ipv6, &links));
        }
        Ok(())
    }

    fn link(&mut self, link: &ip::Link, links: &[ip::Link], texts: &Texts) {
        let kind = link.linkinfo.info_kind.as_str();
        let given: Vec<&ip::Address> = link.addr_info.iter().filter(|it| it.is_given()).collect();
        let of_module = MODULES.contains(&link.ifname.as_str()) || kind == "ifb";
        if of_module && !link.is_up() && given.is_empty() {
            return;
        }
        let program = program_of(&link.ifname).or(link.master.as_deref().and_then(program_of));
        if let Some(program) = program {
            let why = format!("{program} makes it, and goes on doing so");
            return self.leave(SOURCE, &link.ifname, why);
        }
        if matches!(kind, "tun" | "ppp") {
            let why = format!("a program made it ({kind}), and goes on doing so");
            return self.leave(SOURCE, &link.ifname, why);
        }
        let wireguard = texts.wireguard.get(&link.ifname).cloned();
        let made = link.kind().filter(|kind| *kind != InterfaceKind::Wireguard || wireguard.is_some());
        if made.is_none() && !matches!(kind, "" | "veth" | "ifb") {
            let why = match kind {
                "wireguard" => {
                    "Linux tells its keys to root alone: who made it must go on doing so".to_owned()
                }
                _ => format!("Bifrost makes no {kind}: who made it must go on doing so"),
            };
            self.leave(SOURCE, &link.ifname, why);
        }
        let (name, is_lo) = (link.ifname.as_str(), link.flags.iter().any(|flag| flag == "LOOPBACK"));
        let master = link.master.as_ref().and_then(|name| links.iter().find(|it| it.ifname == *name));
        let of = master.map(|master| (master, master.kind()));
        let of_bond = matches!(of, Some((_, Some(InterfaceKind::Bond { .. }))));
        let mut it = Interface {
            name: name.to_owned(),
            kind: made.unwrap_or(InterfaceKind::Ethernet),
            members: None,
            addresses: None,
            mtu: Some(link.mtu).filter(|mtu| !of_bond && !is_lo && self.is_said(link, links, *mtu)),
            mac: link.mac().filter(|mac| !of_bond && is_set(link, links, &texts.set, mac)),
            vrf: None,
            description: link.ifalias.clone().filter(|text| !text.is_empty()),
            wireguard,
            dhcp: None,
            client6: None,
            delegated: None,
            enabled: link.is_up(),
        };
        match &of {
            Some((master, Some(InterfaceKind::Vrf { .. }))) => it.vrf = Some(master.ifname.clone()),
            Some((_, Some(InterfaceKind::Bridge | InterfaceKind::Bond { .. }))) | None => {}
            Some((master, _)) => {
                let why = format!("it belongs to {}, which stays so", master.ifname);
                self.leave(SOURCE, name, why);
            }
        }
        if matches!(it.kind, InterfaceKind::Bridge | InterfaceKind::Bond { .. }) {
            it.members = self.members(link, links);
        }
        self.options(link);
        let addresses: Vec<IpNet> =
            given.iter().filter(|it| !is_of_linux(it)).filter_map(|it| it.net()).collect();
        it.addresses = Some(addresses).filter(|list| !list.is_empty());
        self.other_addresses(link);
        let says_nothing = it == Interface { enabled: true, ..bare(name) };
        let carries = |other: &ip::Link| other.kind().is_some_and(|kind| kind.parent() == Some(name));
        // Who belongs to another one, or carries one, is up by that.
        let needless = says_nothing && (is_lo || link.master.is_some() || links.iter().any(carries));
        let is_card = matches!(kind, "" | "veth") && !is_lo;
        if is_card && link.is_up() && !matches!(of, Some((_, Some(InterfaceKind::Bridge)))) {
            self.cards.push(name.to_owned());
        }
        if !needless {
            self.interfaces.insert(name.to_owned(), it);
        }
    }

    /// Whether an MTU is not what Linux gives such an interface by itself.
    fn is_said(&self, link: &ip::Link, links: &[ip::Link], mtu: u32) -> bool {
        let of = |name: &str| links.iter().find(|it| it.ifname == name).map(|it| it.mtu);
        match link.kind() {
            Some(InterfaceKind::Vlan { parent, .. }) => of(&parent) != Some(mtu),
            Some(InterfaceKind::Wireguard) => mtu != 1420,
            // More than a file can say.
            Some(InterfaceKind::Vrf { .. }) => mtu <= 65_535 && mtu != 1500,
            Some(InterfaceKind::Macvlan { parent, .. }) => of(&parent) != Some(mtu),
            Some(InterfaceKind::Vxlan(vxlan)) => {
                // What stands in front of its frames: 50 bytes, or 70 with IPv6.
                let outer = if vxlan.remote.is_some_and(|end| end.is_ipv6()) { 70 } else { 50 };
                let parent = vxlan.parent.as_deref().and_then(of);
                mtu != parent.map_or(1500, |parent| parent.saturating_sub(outer))
            }
            Some(InterfaceKind::Tunnel { mode, key, .. }) => {
                let key = if key.is_some() { 4 } else { 0 };
                let usual = match mode {
                    "gre" => 1476 - key,
                    "gretap" => 1462 - key,
                    "ip6gre" => 1448 - key,
                    "ip6tnl" | "ipip6" | "ip6ip6" => 1452,
                    _ => 1480,
                };
                mtu != usual
            }
            _ => mtu != 1500,
        }
    }

    /// All members, unless some come and go.
    fn members(&mut self, link: &ip::Link, links: &[ip::Link]) -> Option<Vec<String>> {
        let members = || links.iter().filter(|it| it.master.as_ref() == Some(&link.ifname));
        if let Some(tap) = members().find(|it| it.linkinfo.info_kind == "tun") {
            let why = format!("they come and go ({} is a program's), and are left as they are", tap.ifname);
            self.leave(SOURCE, format!("members of {}", link.ifname), why);
            return None;
        }
        Some(members().map(|it| it.ifname.clone()).collect())
    }

    /// What an interface has of its kind that no key says.
    fn options(&mut self, link: &ip::Link) {
        let usual: &[(&str, &[&str])] = match link.kind() {
            Some(InterfaceKind::Bridge) => &[("stp_state", &["0"]), ("vlan_filtering", &["0"])],
            Some(InterfaceKind::Bond { .. }) => &[
                ("xmit_hash_policy", &["layer2"]),
                ("primary", &[]),
                ("arp_interval", &["0"]),
                ("updelay", &["0"]),
                ("downdelay", &["0"]),
            ],
            Some(InterfaceKind::Vlan { .. }) => &[("ingress_qos", &[]), ("egress_qos", &[])],
            Some(InterfaceKind::Vxlan(_)) => {
                &[("ttl", &["0"]), ("tos", &[]), ("ageing", &["300"]), ("df", &["unset"])]
            }
            Some(InterfaceKind::Tunnel { .. }) => {
                &[("tos", &["0x0", "0"]), ("pmtudisc", &["true"]), ("link", &[])]
            }
            _ => &[],
        };
        for (key, values) in usual {
            let Some(value) = link.linkinfo.info_data.get(*key) else { continue };
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if !values.contains(&value.as_str()) {
                let why = "there is no key for it: Linux keeps it while the interface is there";
                self.leave(SOURCE, format!("{}: {key} {value}", link.ifname), why);
            }
        }
    }

    /// Addresses that the file does not get.
    fn other_addresses(&mut self, link: &ip::Link) {
        for address in &link.addr_info {
            let Some(net) = address.net() else { continue };
            if let Some(peer) = address.address {
                let what = format!("{}: address {net} with the other end {peer}", link.ifname);
                self.leave(SOURCE, what, "there is no key for it, and it stays as it is");
            } else if address.is_learned() && !address.temporary {
                let by = if net.addr().is_ipv4() { "DHCP" } else { "router advertisements or DHCPv6" };
                let why = format!("it comes by {by}, and who asked for it goes on");
                self.leave(SOURCE, format!("{}: address {net}", link.ifname), why);
            }
        }
    }

    fn linux_route(&mut self, route: &ip::Route, ipv6: bool, links: &[ip::Link]) {
        let end = route.end();
        let is_of_kind = end.is_some() || matches!(route.kind.as_str(), "" | "1" | "unicast");
        let given = GIVEN.contains(&route.protocol.as_str()) || route.protocol == OURS;
        if !is_of_kind || !given || route.table() == 255 {
            return;
        }
        let family = if ipv6 { "-6 " } else { "" };
        let what = format!("ip {family}route {} table {}", route.dst, route.table());
        let stays = |why: &str| format!("{why}: it stays Linux's");
        let Some(to) = route.to(ipv6) else {
            return self.leave(SOURCE, what, stays("it is not understood"));
        };
        if let Some(why) = unsaid(route) {
            return self.leave(SOURCE, what, stays(&why));
        }
        let table = table_of(route.table(), links);
        let way = match end {
            Some(word) => RouteAction::End(word),
            None => match by(&route.hops(), table != RouteTable::Number(254), links) {
                Some(way) => way,
                None => {
                    let why = "its gateways are not told apart by their subnets";
                    return self.leave(SOURCE, what, stays(why));
                }
            },
        };
        let usual = if ipv6 { 1024 } else { 0 };
        self.routes.push(config::Route {
            to,
            table,
            metric: route.metric.filter(|metric| *metric != usual),
            way,
        });
    }

    fn linux_rule(&mut self, rule: &ip::Rule, ipv6: bool, links: &[ip::Link]) {
        let said = rule.said();
        let looks = match &said {
            Ok((asks, Does::Look { table, suppress: None })) if *asks == Asks::default() => *table,
            _ => 0,
        };
        let of_linux = matches!((rule.priority, looks), (0, 255) | (32_766, 254) | (32_767, 253));
        let protocol = rule.protocol().to_string();
        // Rules that say nothing of it are by older tools.
        let given = GIVEN_RULES.contains(&protocol.as_str()) || protocol == OURS;
        if of_linux || rule.rest.contains_key("l3mdev") || !given {
            return;
        }
        let (asks, does) = match said {
            Ok(said) => said,
            Err(key) => {
                let family = if ipv6 { "-6 " } else { "" };
                let what = format!("ip {family}rule {}", rule.priority);
                return self.leave(SOURCE, what, format!("there is no key for {key}: it stays Linux's"));
            }
        };
        let does = match does {
            Does::Look { table, suppress } => Does::Look { table: table_of(table, links), suppress },
            Does::GoTo(priority) => Does::GoTo(priority),
            Does::End(word) => Does::End(word),
        };
        let found = RoutingRule { priority: rule.priority, ipv4: !ipv6, ipv6, asks, does };
        self.rules.push(found);
    }
}

/// A table, by the VRF that has it.
fn table_of(table: u32, links: &[ip::Link]) -> RouteTable {
    let vrf =
        links.iter().find(|it| matches!(it.kind(), Some(InterfaceKind::Vrf { table: of }) if of == table));
    vrf.map_or(RouteTable::Number(table), |vrf| RouteTable::Vrf(vrf.ifname.clone()))
}

/// Who makes bridges of this name, and changes their members when it likes.
fn program_of(name: &str) -> Option<&'static str> {
    const PROGRAMS: [(&str, &str); 6] = [
        ("docker", "Docker"),
        ("virbr", "libvirt"),
        ("podman", "Podman"),
        ("cni", "a container runtime"),
        ("lxcbr", "LXC"),
        ("lxdbr", "LXD"),
    ];
    let numbered = |rest: &str| rest.chars().all(|c| c.is_ascii_digit());
    let known = PROGRAMS.iter().find(|(head, _)| name.strip_prefix(head).is_some_and(numbered));
    let of_docker = name
        .strip_prefix("br-")
        .is_some_and(|rest| rest.len() == 12 && rest.chars().all(|c| c.is_ascii_hexdigit()));
    known.map(|(_, program)| *program).or(of_docker.then_some("Docker"))
}

fn bare(name: &str) -> Interface {
    Draft::default().interface(name).clone()
}

/// Those that Linux and others make for a link alone.
fn is_of_linux(address: &ip::Address) -> bool {
    match address.local {
        Some(IpAddr::V4(it)) => it.is_link_local() && address.scope == "link",
        Some(IpAddr::V6(it)) => it.is_unicast_link_local(),
        None => true,
    }
}

/// Whether somebody gave an interface its address on the link, and no other one did.
fn is_set(link: &ip::Link, links: &[ip::Link], set: &BTreeSet<String>, mac: &str) -> bool {
    let of = |name: &str| links.iter().find(|it| it.ifname == name).and_then(ip::Link::mac);
    let inherited = match link.kind() {
        Some(InterfaceKind::Vlan { parent, .. }) => of(&parent).as_deref() == Some(mac),
        Some(InterfaceKind::Bridge | InterfaceKind::Bond { .. }) => links
            .iter()
            .filter(|it| it.master.as_ref() == Some(&link.ifname))
            .any(|it| it.permaddr.as_ref().or(it.address.as_ref()).is_some_and(|other| other == mac)),
        _ => false,
    };
    set.contains(&link.ifname) && !inherited
}

/// What a route says that the file cannot.
fn unsaid(route: &ip::Route) -> Option<String> {
    let odd =
        |flags: &[String]| flags.iter().find(|flag| !matches!(flag.as_str(), "linkdown" | "dead")).cloned();
    if let Some(flag) = odd(&route.flags).or(route.nexthops.iter().find_map(|hop| odd(&hop.flags))) {
        return Some(format!("there is no key for {flag}"));
    }
    const KNOWN: [&str; 3] = ["scope", "pref", "nhid"];
    let is_odd = |(key, value): &(&String, &Value)| match key.as_str() {
        "pref" => value.as_str() != Some("medium"),
        key => !KNOWN.contains(&key),
    };
    let rest = route.rest.iter().find(is_odd).map(|(key, _)| key.clone());
    let of_hops = route.nexthops.iter().find_map(|hop| hop.rest.keys().next().cloned());
    if let Some(key) = rest.or(of_hops) {
        return Some(format!("there is no key for {key}"));
    }
    let mut weights = route.nexthops.iter().map(|hop| hop.weight.unwrap_or(1));
    let first = weights.next();
    weights.any(|weight| Some(weight) != first).then(|| "there is no key for weights".to_owned())
}

/// The way by gateways, with the interface where the gateways alone do not tell it.
fn by(
    hops: &[(Option<IpAddr>, Option<String>)],
    other_table: bool,
    links: &[ip::Link],
) -> Option<RouteAction> {
    let gateways: Vec<IpAddr> = hops.iter().filter_map(|(gateway, _)| *gateway).collect();
    let device = hops.first().and_then(|(_, device)| device.clone());
    let same = hops.iter().all(|(_, other)| *other == device);
    let on_subnets = |gateway: &IpAddr| -> Vec<&str> {
        let has = |link: &&ip::Link| {
            link.addr_info.iter().filter_map(ip::Address::net).any(|net| net.contains(gateway))
        };
        links.iter().filter(has).map(|link| link.ifname.as_str()).collect()
    };
    let told = hops.iter().all(|(gateway, device)| match (gateway, device) {
        (Some(IpAddr::V6(gateway)), _) if gateway.is_unicast_link_local() => false,
        (Some(gateway), Some(device)) => on_subnets(gateway) == [device.as_str()],
        _ => false,
    });
    if gateways.is_empty() {
        return (hops.len() == 1 && device.is_some()).then_some(RouteAction::Via { gateways, device });
    }
    if gateways.len() != hops.len() || !same && (!told || other_table) {
        return None;
    }
    Some(RouteAction::Via { gateways, device: device.filter(|_| !told || other_table) })
}
