//! VyOS's `config.boot`: interfaces, VRFs, static routes, relays of DHCP, and the machine itself.
//! Other parts are told, each by its name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use config::{Delegated, DhcpClient, DhcpRelay, InterfaceKind, RouteAction, RouteTable};
use ipnet::IpNet;

use crate::draft::Draft;
use crate::ip::word;

/// A word of the file, what stands behind it, and what is in its braces.
#[derive(Clone, Debug, Default)]
struct Node {
    line: usize,
    words: Vec<String>,
    children: Vec<Node>,
}

/// Braces inside of braces at most.
const DEEPEST: usize = 32;
const UNKNOWN: &str = "there is no key for it here";

/// Modes of bonds, as VyOS calls them.
const MODES: [(&str, &str); 7] = [
    ("802.3ad", "802.3ad"),
    ("active-backup", "active-backup"),
    ("broadcast", "broadcast"),
    ("round-robin", "balance-rr"),
    ("transmit-load-balance", "balance-tlb"),
    ("adaptive-load-balance", "balance-alb"),
    ("xor-hash", "balance-xor"),
];

impl Draft {
    /// What such a file says.
    pub fn vyos(&mut self, file: &str, text: &str) {
        let root = match read(text) {
            Ok(root) => root,
            Err((line, why)) => return self.leave(format!("{file}:{line}"), "the file", why),
        };
        for section in &root {
            match section.name() {
                "interfaces" => section.children.iter().for_each(|it| self.vyos_interface(file, it)),
                "vrf" => section.children.iter().for_each(|it| self.vyos_vrf(file, it)),
                "system" => self.vyos_system(file, section),
                "protocols" => self.protocols(file, section, None),
                "service" => self.vyos_services(file, section),
                _ => self.not_taken(file, section, &[]),
            }
        }
    }

    /// Notes each thing of a part that is not taken.
    fn not_taken(&mut self, file: &str, node: &Node, above: &[&str]) {
        let words: Vec<&str> = above.iter().copied().chain(node.words.iter().map(String::as_str)).collect();
        // By parts of parts; more would be as long as the file.
        match node.children.is_empty() || words.len() > 1 {
            true => {
                let secret = words.iter().any(|word| word.contains("password") || word.contains("key"));
                let words = if secret { &words[..words.len() - 1] } else { &words[..] };
                self.leave(format!("{file}:{}", node.line), words.join(" "), UNKNOWN);
            }
            false => node.children.iter().for_each(|child| self.not_taken(file, child, &words)),
        }
    }

    fn vyos_interface(&mut self, file: &str, node: &Node) {
        let Some(name) = node.words.get(1) else { return self.not_taken(file, node, &["interfaces"]) };
        let kind = match node.name() {
            "ethernet" | "loopback" => Some(InterfaceKind::Ethernet),
            "dummy" => Some(InterfaceKind::Dummy),
            "bridge" => Some(InterfaceKind::Bridge),
            "bonding" => mode(node.value("mode").unwrap_or("802.3ad")).map(|mode| InterfaceKind::Bond {
                mode,
                lacp_rate: node.value("lacp-rate").and_then(|rate| word(&InterfaceKind::LACP_RATES, rate)),
                miimon: node.value("mii-mon-interval").and_then(|time| time.parse().ok()),
            }),
            "tunnel" => tunnel(node),
            _ => None,
        };
        match kind {
            Some(kind) => self.vyos_device(file, name, kind, node),
            None => self.not_taken(file, node, &["interfaces"]),
        }
    }

    fn vyos_device(&mut self, file: &str, name: &str, kind: InterfaceKind, node: &Node) {
        let is_bond = matches!(kind, InterfaceKind::Bond { .. });
        let is_bridge = kind == InterfaceKind::Bridge;
        let is_tunnel = matches!(kind, InterfaceKind::Tunnel { .. });
        self.interface(name).kind = kind;
        for child in &node.children {
            let value = child.words.get(1).map(String::as_str);
            let at = format!("{file}:{}", child.line);
            match (child.name(), value) {
                ("address", Some("dhcp")) => self.interface(name).dhcp = Some(DhcpClient::default()),
                ("address", Some("dhcpv6")) => {
                    self.interface(name).client6.get_or_insert_default().address = true;
                }
                ("ipv6", _) => self.vyos_ipv6(file, name, child),
                ("dhcpv6-options", _) => self.vyos_delegation(file, name, child),
                ("address", Some(address)) => match address.parse::<IpNet>() {
                    Ok(net) => self.interface(name).addresses.get_or_insert_default().push(net),
                    Err(_) => self.leave(at, format!("{name}: address {address}"), UNKNOWN),
                },
                ("description", Some(text)) => self.interface(name).description = Some(text.to_owned()),
                ("mtu", Some(mtu)) if mtu.parse::<u32>().is_ok() => {
                    self.interface(name).mtu = mtu.parse().ok();
                }
                ("mac", Some(mac)) => self.interface(name).mac = Some(mac.to_lowercase()),
                ("vrf", Some(vrf)) => self.interface(name).vrf = Some(vrf.to_owned()),
                ("disable", _) => self.interface(name).enabled = false,
                // What the card is, which VyOS finds its name by.
                ("hw-id", _) => {}
                ("vif", Some(id)) => self.vif(file, name, id, child),
                ("member", _) if is_bond || is_bridge => {
                    let members = child.children.iter().filter(|it| it.name() == "interface");
                    let names = members.filter_map(|it| it.words.get(1).cloned()).collect();
                    self.interface(name).members = Some(names);
                }
                ("mode" | "lacp-rate" | "mii-mon-interval", _) if is_bond => {}
                ("encapsulation" | "source-address" | "remote", _) if is_tunnel => {}
                _ => self.not_taken(file, child, &[name]),
            }
        }
    }

    fn vif(&mut self, file: &str, parent: &str, id: &str, node: &Node) {
        let vlan = format!("{parent}.{id}");
        match id.parse() {
            Ok(id) => {
                let kind = InterfaceKind::Vlan { parent: parent.to_owned(), id, protocol: "802.1Q" };
                self.vyos_device(file, &vlan, kind, node);
            }
            Err(_) => self.leave(format!("{file}:{}", node.line), format!("{parent}: vif {id}"), UNKNOWN),
        }
    }

    fn vyos_services(&mut self, file: &str, node: &Node) {
        for child in &node.children {
            match child.name() {
                "dhcp-relay" | "dhcpv6-relay" => self.vyos_relay(file, child),
                _ => self.not_taken(file, child, &["service"]),
            }
        }
    }

    /// Relays of both families: one with the interfaces of both.
    fn vyos_relay(&mut self, file: &str, node: &Node) {
        let ours = || DhcpRelay { name: "vyos".to_owned(), circuit_id: true, ..DhcpRelay::default() };
        let mut relay = self.relay.take().unwrap_or_else(ours);
        for child in &node.children {
            match (child.name(), child.words.get(1)) {
                ("listen-interface", Some(name)) if !relay.interfaces.contains(name) => {
                    relay.interfaces.push(name.clone());
                }
                ("server", Some(server)) if server.parse::<Ipv4Addr>().is_ok() => {
                    relay.servers4.extend(server.parse::<Ipv4Addr>());
                }
                // By which interface a server is reached, routes say.
                ("listen-interface" | "upstream-interface", Some(_)) => {
                    let addresses = child.children.iter().filter(|it| it.name() == "address");
                    let servers = addresses.filter_map(|it| it.words.get(1)?.parse::<Ipv6Addr>().ok());
                    if child.name() == "upstream-interface" {
                        relay.servers6.extend(servers.filter(|it| !it.is_multicast()));
                    }
                }
                ("relay-options", _) => {
                    for option in &child.children {
                        match option.name() {
                            "relay-agents-packets" => {
                                relay.trusted = option.words.get(1).is_some_and(|word| word != "discard");
                            }
                            _ => self.not_taken(file, option, &["service", node.name(), child.name()]),
                        }
                    }
                }
                _ => self.not_taken(file, child, &["service", node.name()]),
            }
        }
        let serves = !(relay.servers4.is_empty() && relay.servers6.is_empty());
        match serves && !relay.interfaces.is_empty() {
            true => self.relay = Some(relay),
            false => {
                let why = "it says no server, or not which interfaces have hosts (listen-interface)";
                self.leave(format!("{file}:{}", node.line), format!("service {}", node.name()), why);
            }
        }
    }

    fn vyos_ipv6(&mut self, file: &str, name: &str, node: &Node) {
        for child in &node.children {
            let (own, others): (Vec<_>, Vec<_>) =
                child.children.iter().partition(|it| child.name() == "address" && it.name() == "autoconf");
            if !own.is_empty() {
                self.interface(name).client6.get_or_insert_default().autoconf = true;
            }
            match child.children.is_empty() {
                true => self.not_taken(file, child, &[name, "ipv6"]),
                false => others.iter().for_each(|it| self.not_taken(file, it, &[name, "ipv6", child.name()])),
            }
        }
    }

    /// Prefixes that a server gives an interface, for others.
    fn vyos_delegation(&mut self, file: &str, name: &str, node: &Node) {
        for child in &node.children {
            if child.name() != "pd" {
                self.not_taken(file, child, &[name, "dhcpv6-options"]);
                continue;
            }
            for it in &child.children {
                match (it.name(), it.words.get(1)) {
                    // What is given to nobody is not asked for.
                    ("length", Some(length))
                        if length.parse::<u8>().is_ok() && child.value("interface").is_some() =>
                    {
                        let client = self.interface(name).client6.get_or_insert_default();
                        client.prefix_length = length.parse().ok();
                    }
                    ("interface", Some(other)) => {
                        let number = it.value("sla-id").and_then(|number| number.parse().ok()).unwrap_or(0);
                        let part = Delegated { from: name.to_owned(), number };
                        self.interface(other).delegated = Some(part);
                    }
                    _ => self.not_taken(file, it, &[name, "dhcpv6-options", "pd"]),
                }
            }
        }
    }

    fn vyos_system(&mut self, file: &str, node: &Node) {
        let domain = node.value("domain-name");
        for child in &node.children {
            let value = child.words.get(1).map(String::as_str).unwrap_or_default();
            match child.name() {
                "host-name" => {
                    let name = domain.map_or_else(|| value.to_owned(), |domain| format!("{value}.{domain}"));
                    self.system.hostname = Some(name);
                }
                "domain-name" if node.value("host-name").is_some() => {}
                "time-zone" => self.system.time_zone = Some(value.to_owned()),
                "name-server" if value.parse::<IpAddr>().is_ok() => {
                    self.system.name_servers.extend(value.parse::<IpAddr>());
                }
                "domain-search" if !value.is_empty() => self.system.search.push(value.to_owned()),
                _ => self.not_taken(file, child, &["system"]),
            }
        }
    }

    fn vyos_vrf(&mut self, file: &str, node: &Node) {
        let table = node.value("table").and_then(|table| table.parse().ok());
        let (Some(name), Some(table)) = (node.words.get(1), table) else {
            return self.not_taken(file, node, &["vrf"]);
        };
        self.interface(name).kind = InterfaceKind::Vrf { table };
        for child in &node.children {
            match child.name() {
                "table" => {}
                "protocols" => self.protocols(file, child, Some(name)),
                "description" => self.interface(name).description = child.words.get(1).cloned(),
                _ => self.not_taken(file, child, &[name]),
            }
        }
    }

    fn protocols(&mut self, file: &str, node: &Node, vrf: Option<&str>) {
        for protocol in &node.children {
            if protocol.name() != "static" {
                self.not_taken(file, protocol, &["protocols"]);
                continue;
            }
            for route in &protocol.children {
                let done = match (route.name(), route.words.get(1)) {
                    ("route" | "route6", Some(to)) => self.vyos_route(to, route, vrf),
                    _ => None,
                };
                if done.is_none() {
                    self.not_taken(file, route, &["protocols", "static"]);
                }
            }
        }
    }

    /// `None`: not all of it can be said.
    fn vyos_route(&mut self, to: &str, node: &Node, vrf: Option<&str>) -> Option<()> {
        let to: IpNet = to.parse().ok()?;
        // Ways of the same distance are one route.
        let mut ways: Vec<(Option<u32>, RouteAction)> = Vec::new();
        for child in &node.children {
            let (mut distance, mut device) = (None, None);
            for option in &child.children {
                match (option.name(), option.words.get(1)) {
                    ("distance", Some(text)) => distance = Some(text.parse().ok()?),
                    ("interface", Some(name)) => device = Some(name.clone()),
                    _ => return None,
                }
            }
            let way = match (child.name(), child.words.get(1)) {
                ("next-hop", Some(gateway)) => {
                    RouteAction::Via { gateways: vec![gateway.parse::<IpAddr>().ok()?], device }
                }
                ("interface", Some(name)) => {
                    RouteAction::Via { gateways: Vec::new(), device: Some(name.clone()) }
                }
                ("blackhole", None) => RouteAction::End("blackhole"),
                ("reject", None) => RouteAction::End("unreachable"),
                _ => return None,
            };
            let same = ways.iter_mut().find(|(other, _)| *other == distance);
            match (same, way) {
                (None, way) => ways.push((distance, way)),
                (
                    Some((_, RouteAction::Via { gateways, device })),
                    RouteAction::Via { gateways: more, device: other },
                ) if *device == other && !more.is_empty() && !gateways.is_empty() => {
                    gateways.extend(more);
                }
                _ => return None,
            }
        }
        let table = || vrf.map_or(RouteTable::Number(254), |vrf| RouteTable::Vrf(vrf.to_owned()));
        let routes = ways.into_iter().map(|(metric, way)| config::Route { to, table: table(), metric, way });
        self.routes.extend(routes);
        (!node.children.is_empty()).then_some(())
    }
}

fn mode(text: &str) -> Option<&'static str> {
    MODES.iter().find(|(name, _)| *name == text).map(|(_, mode)| *mode)
}

fn tunnel(node: &Node) -> Option<InterfaceKind> {
    let mode = word(&InterfaceKind::TUNNELS, node.value("encapsulation")?)?;
    let end = |key: &str| node.value(key)?.parse().ok();
    Some(InterfaceKind::Tunnel {
        mode,
        local: end("source-address")?,
        remote: end("remote")?,
        key: None,
        ttl: 64,
    })
}

impl Node {
    fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.children.iter().find(|child| child.name() == key)?.words.get(1).map(String::as_str)
    }
}

/// Reads words and braces; what is wrong, with its line.
fn read(text: &str) -> Result<Vec<Node>, (usize, &'static str)> {
    let mut open = vec![Node::default()];
    let mut in_comment = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if in_comment || line.starts_with("/*") {
            in_comment = !line.ends_with("*/");
            continue;
        }
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        if line == "}" {
            let done = open.pop().unwrap_or_default();
            match open.last_mut() {
                Some(above) => above.children.push(done),
                None => return Err((number, "a brace closes nothing")),
            }
            continue;
        }
        let (line, opens) = match line.strip_suffix('{') {
            Some(line) => (line.trim_end(), true),
            None => (line, false),
        };
        let words = words(line).ok_or((number, "a quote is not closed"))?;
        let node = Node { line: number, words, children: Vec::new() };
        if open.len() >= DEEPEST {
            return Err((number, "this is too deep"));
        }
        match (opens, open.last_mut()) {
            (true, _) => open.push(node),
            (false, Some(above)) => above.children.push(node),
            (false, None) => return Err((number, "a brace closes nothing")),
        }
    }
    match open.len() {
        1 => Ok(open.remove(0).children),
        _ => Err((open.last().map_or(1, |node| node.line), "a brace is not closed")),
    }
}

fn words(line: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
        let (word, behind) = match quote {
            Some(quote) => {
                let end = rest[1..].find(quote)? + 1;
                (&rest[1..end], &rest[end + 1..])
            }
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        found.push(word.to_owned());
        rest = behind.trim_start();
    }
    Some(found)
}
