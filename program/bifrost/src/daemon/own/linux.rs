//! What Linux has of what the file can say: interfaces with their addresses, and Bifrost's routes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Stdio;

use config::{Kind, Router};
use ipnet::IpNet;
use serde::Deserialize;

use super::{GROUP, PROTOCOL};
use crate::daemon::tool;

/// Interfaces and Bifrost's routes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Linux {
    pub links: BTreeMap<String, Link>,
    pub routes: BTreeMap<Key, Way>,
}

/// An interface.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Link {
    /// [`Kind::Ethernet`]: one that cannot be made here.
    pub kind: Kind,
    /// Whether Bifrost made it.
    pub ours: bool,
    pub up: bool,
    /// `None`: whatever it will be.
    pub mtu: Option<u32>,
    pub mac: Option<String>,
    pub alias: String,
    pub master: Option<String>,
    /// Those that somebody gave it, without link-local ones that the file does not list.
    pub addresses: Vec<IpNet>,
}

impl Link {
    /// One that has just been made.
    pub fn new(kind: Kind, ours: bool) -> Link {
        let (alias, addresses) = (String::new(), Vec::new());
        Link { kind, ours, up: false, mtu: None, mac: None, alias, master: None, addresses }
    }

    /// What it lies on.
    pub fn parent(&self) -> Option<&str> {
        match &self.kind {
            Kind::Vlan { parent, .. } => Some(parent),
            _ => None,
        }
    }
}

/// What a table can have once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub table: u32,
    pub to: IpNet,
    pub metric: u32,
}

/// What becomes of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Via(Vec<Hop>),
    /// They end here, by a word of `ip route`.
    End(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hop {
    pub gateway: Option<IpAddr>,
    /// `None`: that on whose link the gateway is.
    pub device: Option<String>,
}

impl Way {
    /// Whether it goes by an interface.
    pub fn by(&self, name: &str) -> bool {
        matches!(self, Way::Via(hops) if hops.iter().any(|hop| hop.device.as_deref() == Some(name)))
    }

    /// Whether Linux, having `other`, has what this asks for.
    pub fn is(&self, other: &Way) -> bool {
        let (Way::Via(these), Way::Via(others)) = (self, other) else { return self == other };
        let sorted = |hops: &Vec<Hop>| {
            let mut hops: Vec<Hop> = hops.clone();
            hops.sort();
            hops
        };
        let same = |(this, other): (&Hop, &Hop)| {
            this.gateway == other.gateway && (this.device.is_none() || this.device == other.device)
        };
        these.len() == others.len() && sorted(these).iter().zip(&sorted(others)).all(same)
    }
}

impl Linux {
    /// Reads them.
    ///
    /// # Errors
    /// When `ip` cannot be run, or says what is not understood; for the operator.
    pub fn read(router: &Router) -> Result<Linux, String> {
        let links: Vec<LinkText> = ask(&["-json", "-details", "address", "show"])?;
        let protocol = PROTOCOL.to_string();
        let all = ["-Numeric", "-json", "-details"];
        let mut routes = BTreeMap::new();
        // With neither family `ip` shows both, but asks for IPv4 first and may stop there.
        for family in ["-4", "-6"] {
            let show = [family, "route", "show", "table", "all", "protocol", &protocol];
            let texts: Vec<RouteText> = ask(&[&all[..], &show[..]].concat())?;
            routes.extend(texts.iter().filter_map(|text| text.route(family == "-6")));
        }
        let mut linux = Linux {
            links: links.into_iter().map(|text| (text.ifname.clone(), text.link())).collect(),
            routes,
        };
        for (name, link) in &mut linux.links {
            let listed = router.interfaces.iter().find(|it| it.name == *name);
            let listed = listed.and_then(|it| it.addresses.as_deref()).unwrap_or_default();
            link.addresses.retain(|net| !is_link_local(net) || listed.contains(net));
        }
        Ok(linux)
    }

    /// How many lie under an interface.
    pub fn depth(&self, name: &str) -> usize {
        let parent = |name: &str| self.links.get(name).and_then(Link::parent).map(str::to_owned);
        std::iter::successors(parent(name), |name| parent(name)).take(self.links.len()).count()
    }

    /// Names of all, what lies on another one behind that.
    pub fn upwards(&self) -> Vec<String> {
        let mut names: Vec<String> = self.links.keys().cloned().collect();
        names.sort_by_cached_key(|name| self.depth(name));
        names
    }
}

fn is_link_local(net: &IpNet) -> bool {
    match net.addr() {
        IpAddr::V4(it) => it.is_link_local(),
        IpAddr::V6(it) => it.is_unicast_link_local(),
    }
}

fn ask<T: for<'de> Deserialize<'de>>(words: &[&str]) -> Result<Vec<T>, String> {
    let mut ip = tool::command("ip", "iproute2")?;
    ip.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = ip.output().map_err(|error| format!("cannot run ip: {error}"))?;
    if !output.status.success() {
        return Err(format!("ip {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim()));
    }
    read(&output.stdout)
        .map_err(|error| format!("ip {} says what is not understood: {error}", words.join(" ")))
}

fn read<T: for<'de> Deserialize<'de>>(text: &[u8]) -> Result<Vec<T>, serde_json::Error> {
    match text.trim_ascii() {
        [] => Ok(Vec::new()),
        text => serde_json::from_slice(text),
    }
}

#[derive(Deserialize)]
struct LinkText {
    ifname: String,
    #[serde(default)]
    flags: Vec<String>,
    mtu: u32,
    #[serde(default)]
    group: String,
    address: Option<String>,
    ifalias: Option<String>,
    master: Option<String>,
    link: Option<String>,
    #[serde(default)]
    linkinfo: Info,
    #[serde(default)]
    addr_info: Vec<AddressText>,
}

#[derive(Default, Deserialize)]
struct Info {
    #[serde(default)]
    info_kind: String,
    #[serde(default)]
    info_data: serde_json::Value,
}

#[derive(Deserialize)]
struct AddressText {
    local: Option<IpAddr>,
    /// The other end of a line.
    address: Option<IpAddr>,
    prefixlen: u8,
    #[serde(default)]
    scope: String,
    /// By DHCP or SLAAC.
    #[serde(default)]
    dynamic: bool,
    #[serde(default)]
    temporary: bool,
}

impl LinkText {
    fn link(self) -> Link {
        let kind = self.kind().unwrap_or(Kind::Ethernet);
        // Tunnels and VRFs have none of their own, nor has a bridge without members.
        let none = "00:00:00:00:00:00";
        let owns = |mac: &String| mac.len() == none.len() && mac != none && !matches!(kind, Kind::Vrf { .. });
        let mac = self.address.filter(owns);
        let given = self.addr_info.iter().filter(|text| {
            text.address.is_none() && !text.dynamic && !text.temporary && text.scope != "host"
        });
        Link {
            kind,
            ours: self.group == GROUP.to_string(),
            up: self.flags.iter().any(|flag| flag == "UP"),
            mtu: Some(self.mtu),
            addresses: given.filter_map(|text| IpNet::new(text.local?, text.prefixlen).ok()).collect(),
            mac,
            alias: self.ifalias.unwrap_or_default(),
            master: self.master,
        }
    }

    /// What it is, if it is something that could be made here.
    fn kind(&self) -> Option<Kind> {
        let data = &self.linkinfo.info_data;
        let text = |key: &str| data.get(key).and_then(serde_json::Value::as_str);
        let number = |key: &str| data.get(key).and_then(serde_json::Value::as_u64);
        Some(match self.linkinfo.info_kind.as_str() {
            "bridge" => Kind::Bridge,
            "dummy" => Kind::Dummy,
            "vrf" => Kind::Vrf { table: u32::try_from(number("table")?).ok()? },
            "vlan" => Kind::Vlan {
                parent: self.link.clone()?,
                id: u16::try_from(number("id")?).ok()?,
                protocol: word(&Kind::VLAN_PROTOCOLS, text("protocol")?)?,
            },
            "bond" => Kind::Bond {
                mode: word(&Kind::BOND_MODES, text("mode")?)?,
                lacp_rate: text("ad_lacp_rate").and_then(|rate| word(&Kind::LACP_RATES, rate)),
                miimon: number("miimon").and_then(|time| u32::try_from(time).ok()),
            },
            mode => Kind::Tunnel {
                mode: word(&Kind::TUNNELS, mode)?,
                local: text("local")?.parse().ok()?,
                remote: text("remote")?.parse().ok()?,
                // As an address, and of both directions the same here.
                key: text("ikey").and_then(|key| key.parse::<Ipv4Addr>().ok()).map(u32::from),
                ttl: number("ttl").and_then(|ttl| u8::try_from(ttl).ok()).unwrap_or(0),
            },
        })
    }
}

fn word(words: &[(&'static str, &'static str)], text: &str) -> Option<&'static str> {
    words.iter().map(|(word, _)| *word).find(|word| *word == text)
}

#[derive(Deserialize)]
struct RouteText {
    dst: String,
    table: Option<String>,
    metric: Option<u32>,
    #[serde(rename = "type", default)]
    kind: String,
    gateway: Option<IpAddr>,
    dev: Option<String>,
    #[serde(default)]
    nexthops: Vec<HopText>,
}

#[derive(Deserialize)]
struct HopText {
    gateway: Option<IpAddr>,
    dev: Option<String>,
}

impl RouteText {
    fn route(&self, ipv6: bool) -> Option<(Key, Way)> {
        let to = match (self.dst.as_str(), ipv6) {
            ("default", false) => "0.0.0.0/0",
            ("default", true) => "::/0",
            (other, _) => other,
        };
        let to = to.parse::<IpNet>().or_else(|_| to.parse::<IpAddr>().map(IpNet::from)).ok()?;
        let way = match self.kind.as_str() {
            "6" | "blackhole" => Way::End("blackhole"),
            "7" | "unreachable" => Way::End("unreachable"),
            "8" | "prohibit" => Way::End("prohibit"),
            _ if self.nexthops.is_empty() => {
                Way::Via(vec![Hop { gateway: self.gateway, device: self.dev.clone() }])
            }
            _ => {
                let hops = self.nexthops.iter();
                Way::Via(hops.map(|hop| Hop { gateway: hop.gateway, device: hop.dev.clone() }).collect())
            }
        };
        let table = self.table.as_ref().and_then(|table| table.parse().ok()).unwrap_or(254);
        Some((Key { table, to, metric: self.metric.unwrap_or(0) }, way))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: &str = r#"[{"ifname": "gre1", "link": null, "flags": ["UP"], "mtu": 1476, "group": "45552",
        "address": "192.0.2.1", "linkinfo": {"info_kind": "gre", "info_data":
        {"remote": "192.0.2.7", "local": "192.0.2.1", "ttl": 0, "ikey": "0.0.0.7", "okey": "0.0.0.7"}},
        "addr_info": [{"family": "inet", "local": "10.0.0.1", "address": "10.0.0.2", "prefixlen": 32, "scope": "global"},
        {"family": "inet", "local": "10.1.0.1", "prefixlen": 24, "scope": "global", "dynamic": true},
        {"family": "inet", "local": "127.0.0.1", "prefixlen": 8, "scope": "host"},
        {"family": "inet6", "local": "2001:db8::1", "prefixlen": 64, "scope": "global"}]}, {}]"#;

    #[test]
    fn an_interface_has_what_was_given_to_it() {
        let text = ADDRESSES.replace(", {}]", "]");
        let link = read::<LinkText>(text.as_bytes()).unwrap().remove(0).link();
        let (local, remote) = ("192.0.2.1".parse().unwrap(), "192.0.2.7".parse().unwrap());
        let kind = Kind::Tunnel { mode: "gre", local, remote, key: Some(7), ttl: 0 };
        let addresses = vec!["2001:db8::1/64".parse().unwrap()];
        assert_eq!(link, Link { up: true, mtu: Some(1476), addresses, ..Link::new(kind, true) });
        // What has no name is not understood, and nothing at all is an empty list.
        assert!(read::<LinkText>(ADDRESSES.as_bytes()).is_err());
        assert!(read::<LinkText>(b"\n").unwrap().is_empty());
    }

    #[test]
    fn a_route_is_what_ip_shows_of_it() {
        const ROUTES: &str = r#"[{"type":"1","dst":"default","gateway":"192.0.2.2","dev":"br0","table":"254"},
            {"type":"7","dst":"10.0.0.0/9","table":"7","metric":5},
            {"type":"1","dst":"10.9.9.9","table":"254","nexthops":[
            {"gateway":"192.0.2.3","dev":"br0","weight":1},{"gateway":"192.0.2.4","dev":"br0","weight":1}]}]"#;
        let texts: Vec<RouteText> = read(ROUTES.as_bytes()).unwrap();
        let routes: BTreeMap<Key, Way> = texts.iter().filter_map(|text| text.route(false)).collect();
        let key = |table, to: &str, metric| Key { table, to: to.parse().unwrap(), metric };
        let hop = |gateway: &str| Hop { gateway: gateway.parse().ok(), device: Some("br0".to_owned()) };
        assert_eq!(routes[&key(254, "0.0.0.0/0", 0)], Way::Via(vec![hop("192.0.2.2")]));
        assert_eq!(routes[&key(7, "10.0.0.0/9", 5)], Way::End("unreachable"));
        let two = Way::Via(vec![hop("192.0.2.3"), hop("192.0.2.4")]);
        assert_eq!(routes[&key(254, "10.9.9.9/32", 0)], two);
        let asked = |gateway: &str| Hop { gateway: gateway.parse().ok(), device: None };
        assert!(Way::Via(vec![asked("192.0.2.4"), asked("192.0.2.3")]).is(&two));
        assert!(!Way::Via(vec![asked("192.0.2.4")]).is(&two));
    }
}
