//! `/etc/network/interfaces`: ifupdown's, and of ifupdown2 and of the packages vlan, bridge-utils
//! and ifenslave what belongs to it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use config::{Asks, DhcpClient, Does, InterfaceKind, RouteAction, RouteTable, RoutingRule};
use ipnet::IpNet;

use crate::draft::Draft;
use crate::ip::word;

/// Reads what a file names: a pattern of files, or a folder. Their names, and their texts.
pub type Sourced<'a> = dyn FnMut(&str, bool) -> Result<Vec<(String, String)>, String> + 'a;

/// Files inside of files at most, and files in all.
const DEEPEST: usize = 8;
const MOST: usize = 1000;

/// A line, and where it stands.
struct Line {
    at: String,
    words: Vec<String>,
}

/// A stanza `iface`.
struct Stanza {
    name: String,
    family: String,
    method: String,
    at: String,
    options: Vec<Line>,
}

impl Draft {
    /// What such a file says, and what it sources.
    pub fn interfaces(&mut self, file: &str, text: &str, sourced: &mut Sourced) {
        let (mut stanzas, mut up) = (Vec::new(), BTreeSet::new());
        let mut files = 0;
        let mut sourced = |pattern: &str, is_folder| {
            let found = sourced(pattern, is_folder)?;
            files += found.len();
            if files > MOST { Err(format!("there are more than {MOST} files")) } else { Ok(found) }
        };
        self.stanzas(file, text, &mut sourced, 0, &mut stanzas, &mut up);
        let of_vlans: BTreeMap<String, String> = stanzas
            .iter()
            .flat_map(|stanza| {
                let parent = stanza.option(&["vlan-raw-device", "vlan_raw_device"]);
                parent.map(|parent| (stanza.name.clone(), parent.to_owned()))
            })
            .collect();
        for stanza in &stanzas {
            self.stanza(stanza, &of_vlans, &up);
        }
        // Who belongs to another one is set up by that.
        let members = self.interfaces.values().flat_map(|it| it.members.clone().unwrap_or_default());
        for name in members.collect::<BTreeSet<_>>() {
            self.interfaces.entry(name).and_modify(|it| it.enabled = true);
        }
    }

    fn stanzas(
        &mut self,
        file: &str,
        text: &str,
        sourced: &mut Sourced,
        depth: usize,
        stanzas: &mut Vec<Stanza>,
        up: &mut BTreeSet<String>,
    ) {
        let mut open = false;
        let mut mapping = false;
        for line in lines(file, text) {
            let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
            match words.as_slice() {
                ["auto" | "allow-auto" | "allow-hotplug", names @ ..] => {
                    (open, mapping) = (false, false);
                    up.extend(names.iter().map(|name| (*name).to_owned()));
                }
                ["iface", name, rest @ ..] => {
                    (open, mapping) = (true, false);
                    let (family, method) = match rest {
                        [family, method, ..] => (*family, *method),
                        _ => ("inet", ""),
                    };
                    if rest.len() > 2 {
                        self.leave(&line.at, rest[2..].join(" "), "what it inherits is not looked for");
                    }
                    let [name, family, method] = [*name, family, method].map(str::to_owned);
                    stanzas.push(Stanza { name, family, method, at: line.at, options: Vec::new() });
                }
                [how @ ("source" | "source-directory"), pattern] => {
                    (open, mapping) = (false, false);
                    if depth == DEEPEST {
                        self.leave(&line.at, *pattern, "files lead into files without an end");
                        continue;
                    }
                    let pattern = match (pattern.starts_with('/'), file.rsplit_once('/')) {
                        (false, Some((folder, _))) => format!("{folder}/{pattern}"),
                        _ => (*pattern).to_owned(),
                    };
                    match sourced(&pattern, *how == "source-directory") {
                        Ok(files) => files.iter().for_each(|(file, text)| {
                            self.stanzas(file, text, sourced, depth + 1, stanzas, up);
                        }),
                        Err(why) => self.leave(&line.at, pattern, why),
                    }
                }
                ["mapping", ..] => {
                    (open, mapping) = (false, true);
                    self.leave(&line.at, words.join(" "), "a name that a script chooses has no key");
                }
                [first, ..] if first.starts_with("allow-") || first.starts_with("no-") => open = false,
                _ if open => {
                    if let Some(stanza) = stanzas.last_mut() {
                        stanza.options.push(line);
                    }
                }
                _ if mapping => {}
                _ => self.leave(&line.at, words.join(" "), "it belongs to no interface"),
            }
        }
    }

    fn stanza(&mut self, stanza: &Stanza, of_vlans: &BTreeMap<String, String>, up: &BTreeSet<String>) {
        // An alias is one more address of the same interface.
        let name = stanza.name.split(':').next().unwrap_or_default().to_owned();
        let ipv6 = stanza.family == "inet6";
        match stanza.method.as_str() {
            "static" | "manual" | "loopback" | "tunnel" | "v4tunnel" | "" => {}
            "dhcp" if !ipv6 => {
                let metric = stanza.option(&["metric"]).and_then(|metric| metric.parse().ok());
                self.interface(&name).dhcp = Some(DhcpClient { metric });
            }
            "dhcp" => self.interface(&name).client6.get_or_insert_default().address = true,
            "auto" if ipv6 => self.interface(&name).client6.get_or_insert_default().autoconf = true,
            other => {
                let why = "this method has no keys";
                return self.leave(&stanza.at, format!("{name}: {other}"), why);
            }
        }
        let kind = stanza.kind(of_vlans);
        let is_lo = stanza.method == "loopback";
        let says_nothing = is_lo && stanza.options.is_empty();
        if !self.interfaces.contains_key(&name) && !says_nothing {
            self.interface(&name).enabled = is_lo || up.contains(&name);
        }
        if up.contains(&name) && self.interfaces.contains_key(&name) {
            self.interface(&name).enabled = true;
        }
        if let Some(kind) = kind {
            self.interface(&name).kind = kind;
        }
        for line in &stanza.options {
            let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
            if !self.option(stanza, &name, &words) {
                let whole = format!("{}: {}", stanza.name, words.join(" "));
                self.leave(&line.at, whole, "there is no key for it, or it is not understood");
            }
        }
    }

    /// Whether an option of a stanza could be turned.
    fn option(&mut self, stanza: &Stanza, name: &str, words: &[&str]) -> bool {
        match words {
            ["address", address, ..] => {
                match net(address, stanza.option(&["netmask"]), stanza.family == "inet6") {
                    Some(net) => {
                        let list = self.interface(name).addresses.get_or_insert_default();
                        if !list.contains(&net) {
                            list.push(net);
                        }
                        true
                    }
                    None => false,
                }
            }
            ["gateway", gateway, ..] => {
                let metric = stanza.option(&["metric"]).and_then(|metric| metric.parse().ok());
                match gateway.parse::<IpAddr>() {
                    Ok(gateway) => {
                        self.default_route(gateway, name, metric.filter(|metric| *metric > 0));
                        true
                    }
                    Err(_) => false,
                }
            }
            ["mtu", mtu] => {
                let mtu = mtu.parse().ok();
                self.interface(name).mtu = mtu;
                mtu.is_some()
            }
            ["hwaddress", "ether", mac] | ["hwaddress", mac] => {
                self.interface(name).mac = Some(mac.to_lowercase());
                true
            }
            ["alias" | "description", text @ ..] => {
                self.interface(name).description = Some(text.join(" "));
                true
            }
            ["vrf", vrf] => {
                self.interface(name).vrf = Some((*vrf).to_owned());
                true
            }
            [
                "bridge_ports" | "bridge-ports" | "bond-slaves" | "bond_slaves" | "slaves" | "bond-ports",
                members @ ..,
            ] => {
                let patterns = members.iter().any(|it| matches!(*it, "regex" | "all" | "noregex" | "glob"));
                if !patterns {
                    let members = members.iter().filter(|it| **it != "none");
                    self.interface(name).members = Some(members.map(|it| (*it).to_owned()).collect());
                }
                !patterns
            }
            ["bond-master" | "bond_master", master] => {
                let list = self.interface(master).members.get_or_insert_default();
                if !list.iter().any(|member| member == name) {
                    list.push(name.to_owned());
                }
                true
            }
            ["up" | "post-up" | "pre-up", command @ ..] => self.command(command, name),
            // The way back, which the file does not need.
            ["down" | "pre-down" | "post-down", ..] => true,
            [key, ..] if OF_KINDS.contains(key) => true,
            ["netmask" | "metric" | "broadcast" | "network", ..] => true,
            ["bridge_stp" | "bridge-stp", "off" | "no" | "0"] => true,
            ["bridge_fd" | "bridge-fd" | "bridge_waitport" | "bridge_maxwait", ..] => true,
            _ => false,
        }
    }

    pub(crate) fn default_route(&mut self, gateway: IpAddr, name: &str, metric: Option<u32>) {
        let to = if gateway.is_ipv6() { "::/0" } else { "0.0.0.0/0" };
        let Ok(to) = to.parse() else { return };
        let on_link = matches!(gateway, IpAddr::V6(it) if it.is_unicast_link_local());
        let of = self.interfaces.get(name).and_then(|it| it.addresses.as_ref());
        let in_subnet = of.is_some_and(|list| list.iter().any(|net| net.contains(&gateway)));
        let device = (on_link || !in_subnet).then(|| name.to_owned());
        let way = RouteAction::Via { gateways: vec![gateway], device };
        let table = match self.interfaces.get(name).and_then(|it| it.vrf.clone()) {
            Some(vrf) => RouteTable::Vrf(vrf),
            None => RouteTable::Number(254),
        };
        self.routes.push(config::Route { to, table, metric, way });
    }

    /// `ip route add ...` and `ip address add ...`, as people have them done.
    fn command(&mut self, words: &[&str], name: &str) -> bool {
        let mut words = words;
        if let [.., "||", "true"] = words {
            words = &words[..words.len() - 2];
        }
        if let [first, rest @ ..] = words
            && (*first == "/sbin/ip" || *first == "/usr/sbin/ip" || *first == "/bin/ip")
        {
            return self.command(&[&["ip"], rest].concat(), name);
        }
        let interface = |word: &str| matches!(word, "$IFACE" | "${IFACE}") || word == name;
        match words {
            ["ip", "-6" | "-4", rest @ ..] => self.command(&[&["ip"], rest].concat(), name),
            ["ip", "link", "set", rest @ ..] => {
                matches!(rest, [it, "up"] | ["dev", it, "up"] if interface(it))
            }
            ["ip", "a" | "addr" | "address", "add", address, "dev", it] if interface(it) => {
                let Ok(net) = address.parse::<IpNet>() else { return false };
                self.interface(name).addresses.get_or_insert_default().push(net);
                true
            }
            ["ip", "r" | "ro" | "route", "add" | "replace", rest @ ..] => {
                let Some(route) = route(rest, name) else { return false };
                self.routes.push(route);
                true
            }
            ["ip", "ru" | "rule", "add", rest @ ..] => {
                let Some(rule) = rule(rest) else { return false };
                self.rules.push(rule);
                true
            }
            _ => false,
        }
    }
}

/// Options of kinds, which are read with them.
const OF_KINDS: [&str; 20] = [
    "vlan-raw-device",
    "vlan_raw_device",
    "vlan-id",
    "bond-mode",
    "bond_mode",
    "bond-miimon",
    "bond_miimon",
    "bond-lacp-rate",
    "bond_lacp_rate",
    "vrf-table",
    "mode",
    "endpoint",
    "local",
    "ttl",
    "tunnel-mode",
    "tunnel-local",
    "tunnel-endpoint",
    "tunnel-ttl",
    "link-type",
    "tunnel-key",
];

/// Modes of bonds, by their numbers.
const MODES: [&str; 7] =
    ["balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"];

impl Stanza {
    fn option(&self, keys: &[&str]) -> Option<&str> {
        let line = self.options.iter().find(|line| keys.contains(&line.words[0].as_str()))?;
        line.words.get(1).map(String::as_str)
    }

    fn has(&self, keys: &[&str]) -> bool {
        self.options.iter().any(|line| keys.contains(&line.words[0].as_str()))
    }

    fn kind(&self, of_vlans: &BTreeMap<String, String>) -> Option<InterfaceKind> {
        let number = |keys: &[&str]| self.option(keys).and_then(|text| text.parse::<u32>().ok());
        if self.has(&["bridge_ports", "bridge-ports"]) {
            return Some(InterfaceKind::Bridge);
        }
        if self.has(&["bond-slaves", "bond_slaves", "slaves", "bond-ports", "bond-mode", "bond_mode"])
            && !self.has(&["bond-master", "bond_master"])
        {
            let mode = self.option(&["bond-mode", "bond_mode"]).unwrap_or("balance-rr");
            let mode = mode.parse().ok().and_then(|number: usize| MODES.get(number)).unwrap_or(&mode);
            let rate = match self.option(&["bond-lacp-rate", "bond_lacp_rate"]) {
                Some("1" | "fast") => Some("fast"),
                Some("0" | "slow") => Some("slow"),
                _ => None,
            };
            return Some(InterfaceKind::Bond {
                mode: word(&InterfaceKind::BOND_MODES, mode)?,
                lacp_rate: rate,
                miimon: number(&["bond-miimon", "bond_miimon"]),
            });
        }
        if let Some(table) = number(&["vrf-table"]) {
            return Some(InterfaceKind::Vrf { table });
        }
        if matches!(self.method.as_str(), "tunnel" | "v4tunnel") || self.has(&["tunnel-mode"]) {
            let mode = match self.method.as_str() {
                "v4tunnel" => "sit",
                _ => self.option(&["mode", "tunnel-mode"]).unwrap_or("gre"),
            };
            return Some(InterfaceKind::Tunnel {
                mode: word(&InterfaceKind::TUNNELS, mode)?,
                local: self.option(&["local", "tunnel-local"])?.parse().ok()?,
                remote: self.option(&["endpoint", "tunnel-endpoint"])?.parse().ok()?,
                key: number(&["tunnel-key"]),
                ttl: number(&["ttl", "tunnel-ttl"]).and_then(|ttl| u8::try_from(ttl).ok()).unwrap_or(0),
            });
        }
        if self.option(&["link-type"]) == Some("dummy") || self.name.starts_with("dummy") {
            return Some(InterfaceKind::Dummy);
        }
        // eth0.10, or vlan10 on what is said.
        let name = self.name.split(':').next().unwrap_or_default();
        let (parent, id) = match (of_vlans.get(name), name.rsplit_once('.')) {
            (Some(parent), Some((_, id))) => (parent.clone(), id.parse().ok()),
            (Some(parent), None) => {
                let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
                (parent.clone(), number(&["vlan-id"]).map(|id| id as u16).or(digits.parse().ok()))
            }
            (None, Some((parent, id))) => (parent.to_owned(), id.parse().ok()),
            (None, None) => return None,
        };
        Some(InterfaceKind::Vlan { parent, id: id?, protocol: "802.1Q" })
    }
}

/// A route by the words of `ip route add`.
fn route(words: &[&str], name: &str) -> Option<config::Route> {
    let (mut words, end) = match words {
        [end @ ("blackhole" | "unreachable" | "prohibit"), rest @ ..] => (rest.iter(), Some(*end)),
        words => (words.iter(), None),
    };
    let prefix = *words.next()?;
    let (mut gateway, mut device, mut metric, mut table) = (None, None, None, 254);
    while let Some(word) = words.next() {
        let value = *words.next()?;
        match *word {
            "via" => gateway = Some(value.parse::<IpAddr>().ok()?),
            "dev" if matches!(value, "$IFACE" | "${IFACE}") => device = Some(name.to_owned()),
            "dev" => device = Some(value.to_owned()),
            "metric" => metric = Some(value.parse().ok()?),
            "table" => table = value.parse().ok()?,
            _ => return None,
        }
    }
    let ipv6 = gateway.is_some_and(|it| it.is_ipv6());
    let to = match prefix {
        "default" if ipv6 => "::/0".parse().ok()?,
        "default" => "0.0.0.0/0".parse().ok()?,
        other => other.parse::<IpNet>().or_else(|_| other.parse::<IpAddr>().map(IpNet::from)).ok()?,
    };
    let way = match end {
        Some(end) if gateway.is_none() && device.is_none() => {
            RouteAction::End(word(&config::Route::ENDS, end)?)
        }
        Some(_) => return None,
        None if gateway.is_none() && device.is_none() => return None,
        None => {
            // The gateway's link tells it, but for addresses that are on every one.
            let on_link = matches!(gateway, Some(IpAddr::V6(it)) if it.is_unicast_link_local());
            let device = device.filter(|_| gateway.is_none() || on_link || table != 254);
            RouteAction::Via { gateways: gateway.into_iter().collect(), device }
        }
    };
    Some(config::Route { to, table: RouteTable::Number(table), metric, way })
}

/// A rule by the words of `ip rule add`. Its prefixes tell the family, and only who chose its
/// priority knows its place.
fn rule(words: &[&str]) -> Option<RoutingRule> {
    let (mut asks, mut priority, mut table) = (Asks::default(), None, 254);
    let mut words = words.iter();
    let net = |text: &str| text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).ok();
    while let Some(word) = words.next() {
        let value = *words.next()?;
        match *word {
            "from" if value == "all" => {}
            "from" => asks.from = Some(net(value)?),
            "to" => asks.to = Some(net(value)?),
            "iif" => asks.input = Some(value.to_owned()),
            "oif" => asks.output = Some(value.to_owned()),
            "priority" | "pref" | "prio" | "order" => priority = Some(value.parse().ok()?),
            "table" | "lookup" => table = value.parse().ok()?,
            _ => return None,
        }
    }
    let ipv6 = asks.from.or(asks.to)?.addr().is_ipv6();
    let does = Does::Look { table: RouteTable::Number(table), suppress: None };
    Some(RoutingRule { priority: priority?, ipv4: !ipv6, ipv6, asks, does })
}

/// An address with the length of its subnet, which may stand elsewhere.
fn net(address: &str, mask: Option<&str>, ipv6: bool) -> Option<IpNet> {
    if let Ok(net) = address.parse::<IpNet>() {
        return Some(net);
    }
    let address: IpAddr = address.parse().ok()?;
    let length = match mask {
        None => {
            if ipv6 {
                64
            } else {
                32
            }
        }
        Some(mask) => match mask.parse::<Ipv4Addr>() {
            Ok(mask) => ipnet::ipv4_mask_to_prefix(mask).ok()?,
            Err(_) => mask.parse().ok()?,
        },
    };
    IpNet::new(address, length).ok()
}

/// Lines with words, without comments; one that ends with a backslash goes on in the next.
fn lines(file: &str, text: &str) -> Vec<Line> {
    let mut found = Vec::new();
    let mut begun: Option<(usize, String)> = None;
    for (number, line) in text.lines().enumerate() {
        if begun.is_none() && line.trim_start().starts_with('#') {
            continue;
        }
        let (first, before) = begun.take().unwrap_or((number + 1, String::new()));
        let (line, goes_on) = match line.strip_suffix('\\') {
            Some(line) => (line, true),
            None => (line, false),
        };
        let whole = before + line;
        if goes_on {
            begun = Some((first, whole + " "));
            continue;
        }
        let words: Vec<String> = whole.split_whitespace().map(str::to_owned).collect();
        if !words.is_empty() {
            found.push(Line { at: format!("{file}:{first}"), words });
        }
    }
    found
}
