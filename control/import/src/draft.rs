//! What is gathered from one source after another, and at last the file.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

use config::{
    Cores, DhcpRelay, Interface, InterfaceKind, Machine, Route, Router, Routing, RoutingRule, System,
};

use crate::write;

/// Something that could not be turned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Where it comes from, with its line where there is one.
    pub source: String,
    /// What it is.
    pub what: String,
    /// Why it could not be, and what becomes of it.
    pub why: String,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.source, self.what, self.why)
    }
}

/// What is gathered.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// By name.
    pub(crate) interfaces: BTreeMap<String, Interface>,
    /// In the order in which they were found.
    pub(crate) routes: Vec<Route>,
    /// The machine itself.
    pub(crate) system: System,
    /// A relay of DHCP; none where it has no servers.
    pub(crate) relay: Option<DhcpRelay>,
    /// Routing rules.
    pub(crate) rules: Vec<RoutingRule>,
    /// Sections that FRR is told, as they are written.
    pub(crate) routing: String,
    /// Cards that could be ports.
    pub(crate) cards: Vec<String>,
    /// What could not be turned.
    pub(crate) left: Vec<Left>,
}

/// A file, and what is missing in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The `router.toml`.
    pub text: String,
    /// What could not be turned.
    pub left: Vec<Left>,
}

impl Imported {
    /// The file, with what is missing as comments at its end.
    pub fn annotated(&self) -> String {
        let mut text = self.text.clone();
        if !self.left.is_empty() {
            text += "\n# What is not in this file:\n";
            self.left.iter().for_each(|left| text += &format!("# - {left}\n"));
        }
        text
    }
}

/// A file without a port says that this is meant.
const NO_PORTS: &str = "without_ports = \"on\"\n";

/// What reads a file here: whether it is one depends on nothing of this machine.
pub(crate) fn judged(text: &str) -> Result<Router, String> {
    let machine = Machine { cores: Cores(vec![0]) };
    Router::read("router.toml", text, &machine)
        .map_err(|mistakes| mistakes.0.first().map_or_else(String::new, |mistake| mistake.message.clone()))
}

impl Draft {
    /// Notes that something could not be turned.
    pub(crate) fn leave(
        &mut self,
        source: impl Into<String>,
        what: impl Into<String>,
        why: impl Into<String>,
    ) {
        // One line each, whatever the source had in it.
        let line = |text: String| text.replace(|c: char| c.is_control(), " ");
        let left = Left { source: line(source.into()), what: line(what.into()), why: line(why.into()) };
        if !self.left.contains(&left) {
            self.left.push(left);
        }
    }

    /// An interface, which is one that is there unless somebody says more.
    pub(crate) fn interface(&mut self, name: &str) -> &mut Interface {
        self.interfaces.entry(name.to_owned()).or_insert_with(|| Interface {
            name: name.to_owned(),
            kind: InterfaceKind::Ethernet,
            members: None,
            addresses: None,
            mtu: None,
            mac: None,
            vrf: None,
            description: None,
            wireguard: None,
            dhcp: None,
            client6: None,
            delegated: None,
            enabled: true,
        })
    }

    /// The file. What is wrong by itself stays out, and is told. `base` is a file that comes first:
    /// what it says already is not said again.
    pub fn finish(mut self, base: Option<&str>) -> Imported {
        let said = base.and_then(|text| judged(text).ok());
        let mut text = match base {
            Some(base) => base.trim_end().to_owned() + "\n",
            None => heading(&self.cards),
        };
        let mut sections = Vec::new();
        let interfaces = std::mem::take(&mut self.interfaces);
        let mut sorted: Vec<&Interface> = interfaces.values().collect();
        sorted.sort_by_cached_key(|it| (rank(it), natural(&it.name)));
        for it in sorted {
            let what = format!("[interface.{}]", write::name(&it.name));
            let there = said.iter().flat_map(|router| &router.interfaces).find(|other| other.name == it.name);
            match there {
                None => sections.push((what, write::interface(it))),
                Some(there) if there == it => {}
                Some(_) => self.leave("the file", what, "it is there otherwise, and stays as it is"),
            }
        }
        let mut body = self.sound(NO_PORTS, sections, true);
        let mut sections = Vec::new();
        let key = |route: &Route| (route.to, route.table.clone(), route.metric.unwrap_or(0));
        let there: Vec<&Route> = said.iter().flat_map(|router| &router.routes).collect();
        let mut seen: HashSet<_> = there.iter().map(|route| key(route)).collect();
        for route in std::mem::take(&mut self.routes) {
            let what = format!("the route to {}", route.to);
            match seen.insert(key(&route)) {
                true => sections.push((what, write::route(&route))),
                false if there.iter().any(|other| key(other) == key(&route) && other.way == route.way) => {}
                false => self.leave("the file", what, "there is one to it already, which stays as it is"),
            }
        }
        let needs = format!("{NO_PORTS}{body}");
        body += &self.sound(&needs, sections, false);
        let system = write::system(&self.system);
        match said.as_ref().map(|router| &router.system).filter(|there| **there != System::default()) {
            Some(there) if !system.is_empty() && *there != self.system => {
                self.leave("the file", "[system]", "it is there otherwise, and stays as it is");
            }
            None if !system.is_empty() => {
                body += &self.sound(NO_PORTS, vec![("[system]".to_owned(), system)], false);
            }
            _ => {}
        }
        let there = said.as_ref().is_some_and(|router| !router.dhcp_relays.is_empty());
        if let Some(relay) = self.relay.take() {
            let what = format!("[dhcp_relay.{}]", relay.name);
            match there {
                true => self.leave("the file", what, "there are relays already, which stay as they are"),
                false => body += &self.sound(NO_PORTS, vec![(what, write::relay(&relay))], false),
            }
        }
        let rules = self.rules(said.as_ref());
        let needs = format!("{NO_PORTS}{body}");
        body += &self.sound(&needs, rules, true);
        let routing = std::mem::take(&mut self.routing);
        match said.as_ref().map(|router| &router.routing).filter(|routing| routing.says_any()) {
            Some(there) if !routing.is_empty() => {
                let lines = |routing: &Routing| -> BTreeSet<String> {
                    frr::render(routing).0.into_iter().map(|node| frr::Config(vec![node]).text()).collect()
                };
                let found = judged(&format!("{NO_PORTS}{routing}")).map(|router| lines(&router.routing));
                if found.is_ok_and(|found| found != lines(there)) {
                    let why = "it says something else of FRR, which stays as it is";
                    self.leave("the file", "FRR's configuration", why);
                }
            }
            _ if !routing.is_empty() => body += &format!("\n{routing}"),
            _ => {}
        }
        text += &body;
        if let Err(why) = judged(&text) {
            self.leave("router.toml", "the whole", format!("{why}: mend it by hand"));
        }
        Imported { text: text.trim_start().to_owned(), left: self.left }
    }
}

impl Draft {
    /// Sections of rules that the file does not have yet, one for both families where they say the
    /// same.
    fn rules(&mut self, said: Option<&Router>) -> Vec<(String, String)> {
        let mut found: Vec<RoutingRule> = Vec::new();
        for rule in std::mem::take(&mut self.rules) {
            let other = |it: &&mut RoutingRule| {
                it.ipv4 && rule.ipv6 && RoutingRule { ipv4: false, ipv6: true, ..(*it).clone() } == rule
            };
            match found.iter_mut().find(other) {
                Some(same) => same.ipv6 = true,
                None => found.push(rule),
            }
        }
        found.sort_by_key(|rule| rule.priority);
        let there = said.map(|router| router.routing_rules.as_slice()).unwrap_or_default();
        let same = |one: &RoutingRule, other: &RoutingRule| {
            one.priority == other.priority && (one.ipv4 && other.ipv4 || one.ipv6 && other.ipv6)
        };
        let mut sections = Vec::new();
        for rule in found {
            let what = format!("the rule {}", rule.priority);
            match there.iter().find(|other| same(other, &rule)) {
                None => sections.push((what, write::rule(&rule))),
                Some(other) if *other == rule => {}
                Some(_) => {
                    self.leave("the file", what, "there is one of this priority, which stays as it is")
                }
            }
        }
        sections
    }

    /// Sections that a file can have, behind what they need; the rest is told. `all`: they need
    /// each other, in this order.
    fn sound(&mut self, needs: &str, sections: Vec<(String, String)>, all: bool) -> String {
        let text = |sections: &[(String, String)]| -> String {
            sections.iter().map(|(_, section)| format!("\n{section}")).collect()
        };
        let whole = text(&sections);
        if judged(&format!("{needs}{whole}")).is_ok() {
            return whole;
        }
        let mut sound = String::new();
        for (what, section) in sections {
            let before = if all { sound.as_str() } else { "" };
            match judged(&format!("{needs}{before}\n{section}")) {
                Ok(_) => sound += &format!("\n{section}"),
                Err(why) => self.leave("router.toml", what, why),
            }
        }
        sound
    }
}

fn heading(cards: &[String]) -> String {
    let mut text = "# Made by `bifrost import`: what is there, and nothing else.\n\n".to_owned();
    text += "# Bifrost takes no interface yet. To have it forward, replace this line by ports:\n";
    text += NO_PORTS;
    for card in cards {
        text += &format!("#\n# [[port]]\n# name = {}\n", write::text(card));
    }
    text
}

/// What others lie on comes first.
fn rank(it: &Interface) -> u8 {
    match &it.kind {
        InterfaceKind::Ethernet if it.name == "lo" => 0,
        InterfaceKind::Vrf { .. } => 1,
        InterfaceKind::Ethernet => 2,
        InterfaceKind::Bond { .. } => 3,
        InterfaceKind::Vlan { .. } | InterfaceKind::Macvlan { .. } => 4,
        InterfaceKind::Bridge => 5,
        InterfaceKind::Dummy => 6,
        InterfaceKind::Vxlan(_) | InterfaceKind::Wireguard => 7,
        InterfaceKind::Tunnel { .. } => 8,
    }
}

/// A name, with its numbers by their value.
pub(crate) fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts: Vec<(String, u64)> = vec![(String::new(), 0)];
    let mut in_number = false;
    for c in name.chars() {
        let is_digit = c.is_ascii_digit();
        if in_number && !is_digit {
            parts.push((String::new(), 0));
        }
        if let Some((text, number)) = parts.last_mut() {
            match c.to_digit(10).filter(|_| is_digit) {
                Some(digit) => *number = number.saturating_mul(10).saturating_add(u64::from(digit)),
                None => text.push(c),
            }
        }
        in_number = is_digit;
    }
    parts
}
