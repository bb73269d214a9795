//! What Linux has of what the file can say: interfaces with their addresses, and Bifrost's routes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use config::{InterfaceKind, Router};
use import::ip;
use ipnet::IpNet;
use mirror::netlink::socket;
use mirror::netlink::wireguard::Device;
use serde::Deserialize;

use super::rules::{self, Rules};
use super::wanted::asked_for;
use super::{Asked, GROUP, PROTOCOL};
use crate::daemon;

/// Interfaces, and Bifrost's routes and rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Linux {
    pub links: BTreeMap<String, Link>,
    pub routes: BTreeMap<Key, Way>,
    /// Those of the routes that others made, and by which protocol.
    pub theirs: BTreeMap<Key, u8>,
    pub rules: Rules,
}

/// An interface.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Link {
    /// [`InterfaceKind::Ethernet`]: one that cannot be made here.
    pub kind: InterfaceKind,
    /// Whether Bifrost made it.
    pub ours: bool,
    pub up: bool,
    /// `None`: whatever it will be.
    pub mtu: Option<u32>,
    pub mac: Option<String>,
    pub alias: String,
    pub master: Option<String>,
    /// Of WireGuard.
    pub wireguard: Device,
    /// Those that somebody gave it, without link-local ones that the file does not list.
    pub addresses: Vec<IpNet>,
}

impl Link {
    /// One that has just been made.
    pub fn new(kind: InterfaceKind, ours: bool) -> Link {
        let (alias, addresses) = (String::new(), Vec::new());
        let wireguard = Device::default();
        Link { kind, ours, up: false, mtu: None, mac: None, alias, master: None, wireguard, addresses }
    }

    /// What it lies on.
    pub fn parent(&self) -> Option<&str> {
        self.kind.parent()
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
    /// Reads them. Routes and rules that somebody else made are read as well where they are as
    /// `asked` says: they are the file's, and need not be made.
    ///
    /// # Errors
    /// When `ip` cannot be run, or says what is not understood; for the operator.
    pub fn read(router: &Router, asked: &Asked) -> Result<Linux, String> {
        let links: Vec<ip::Link> = ask(&["-json", "-details", "address", "show"])?;
        let mut linux = Linux {
            links: links.iter().map(|text| (text.ifname.clone(), link(text))).collect(),
            ..Linux::default()
        };
        let is_asked = |name: &String, link: &Link| link.ours || asked.wireguard.contains(name);
        let mut secret: Vec<_> = (linux.links.iter_mut())
            .filter(|(name, link)| link.kind == InterfaceKind::Wireguard && is_asked(name, link))
            .collect();
        if !secret.is_empty() {
            let wrong = |error| format!("cannot ask Linux of WireGuard: {error}");
            let mut socket = socket::WireGuard::open().map_err(wrong)?;
            for (name, link) in &mut secret {
                link.wireguard = socket.device(name).map_err(wrong)?;
            }
        }
        let rules = rules::asked_for(&asked.rules, &linux.links, |_| {});
        linux.rules = Rules::read(&rules)?;
        let asked = asked_for(&asked.routes, &linux.links, |_| {});
        let protocol = PROTOCOL.to_string();
        let mut protocols = vec![protocol.as_str()];
        if !asked.is_empty() {
            protocols.extend(import::GIVEN);
        }
        // With neither family `ip` shows both, but asks for IPv4 first and may stop there.
        for family in ["-4", "-6"] {
            for protocol in &protocols {
                let all = ["-Numeric", "-json", "-details", family];
                let show = ["route", "show", "table", "all", "protocol", protocol];
                let texts: Vec<ip::Route> = ask(&[&all[..], &show[..]].concat())?;
                let found = texts.iter().filter_map(|text| route(text, family == "-6"));
                let ours = *protocol == protocols[0];
                for (key, way) in found {
                    let is_asked = || asked.get(&key).is_some_and(|asked| asked.is(&way));
                    if linux.routes.contains_key(&key) || !ours && !is_asked() {
                        continue;
                    }
                    linux.routes.insert(key, way);
                    if !ours {
                        linux.theirs.insert(key, protocol.parse().unwrap_or(PROTOCOL));
                    }
                }
            }
        }
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

/// What `ip` says to these words.
pub(super) fn ask<T: for<'de> Deserialize<'de>>(words: &[&str]) -> Result<Vec<T>, String> {
    let said = daemon::ip::ask(words)?;
    ip::read(&said).map_err(|error| format!("ip {} says what is not understood: {error}", words.join(" ")))
}

/// An interface, as `ip` shows it.
fn link(text: &ip::Link) -> Link {
    let given = text.addr_info.iter().filter(|address| address.is_given());
    Link {
        kind: text.kind().unwrap_or(InterfaceKind::Ethernet),
        ours: text.group == GROUP.to_string(),
        up: text.is_up(),
        mtu: Some(text.mtu),
        addresses: given.filter_map(ip::Address::net).collect(),
        mac: text.mac(),
        alias: text.ifalias.clone().unwrap_or_default(),
        master: text.master.clone(),
        wireguard: Device::default(),
    }
}

/// A route, as `ip` shows it.
fn route(text: &ip::Route, ipv6: bool) -> Option<(Key, Way)> {
    let hops = || text.hops().into_iter().map(|(gateway, device)| Hop { gateway, device }).collect();
    let way = text.end().map_or_else(|| Way::Via(hops()), Way::End);
    Some((Key { table: text.table(), to: text.to(ipv6)?, metric: text.metric.unwrap_or(0) }, way))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: &str = r#"[{"ifname": "gre1", "link": null, "flags": ["UP"], "mtu": 1476, "group": "45552",
        "address": "192.0.2.1", "linkinfo": {"info_kind": "gre", "info_data":
        {"remote": "192.0.2.7", "local": "192.0.2.1", "ttl": 0, "ikey": "0.0.0.7", "okey": "0.0.0.7"}},
        "addr_info": [{"family": "inet", "local": "10.0.0.1", "address": "10.0.0.2", "prefixlen": 32, "scope": "global"},
        {"family": "inet", "local": "10.1.0.1", "prefixlen": 24, "scope": "global", "dynamic": true},
        {"family": "inet6", "local": "2001:db8::2", "prefixlen": 64, "scope": "global", "mngtmpaddr": true},
        {"family": "inet", "local": "127.0.0.1", "prefixlen": 8, "scope": "host"},
        {"family": "inet6", "local": "2001:db8::1", "prefixlen": 64, "scope": "global"}]}, {}]"#;

    #[test]
    fn an_interface_has_what_was_given_to_it() {
        let text = ADDRESSES.replace(", {}]", "]");
        let link = link(&ip::read::<ip::Link>(text.as_bytes()).unwrap()[0]);
        let (local, remote) = ("192.0.2.1".parse().unwrap(), "192.0.2.7".parse().unwrap());
        let kind = InterfaceKind::Tunnel { mode: "gre", local, remote, key: Some(7), ttl: 0 };
        let addresses = vec!["2001:db8::1/64".parse().unwrap()];
        assert_eq!(link, Link { up: true, mtu: Some(1476), addresses, ..Link::new(kind, true) });
        // What has no name is not understood, and nothing at all is an empty list.
        assert!(ip::read::<ip::Link>(ADDRESSES.as_bytes()).is_err());
        assert!(ip::read::<ip::Link>(b"\n").unwrap().is_empty());
    }

    #[test]
    fn a_route_is_what_ip_shows_of_it() {
        const ROUTES: &str = r#"[{"type":"1","dst":"default","gateway":"192.0.2.2","dev":"br0","table":"254"},
            {"type":"7","dst":"10.0.0.0/9","table":"7","metric":5},
            {"type":"1","dst":"10.9.9.9","table":"254","nexthops":[
            {"gateway":"192.0.2.3","dev":"br0","weight":1},{"gateway":"192.0.2.4","dev":"br0","weight":1}]}]"#;
        let texts: Vec<ip::Route> = ip::read(ROUTES.as_bytes()).unwrap();
        let routes: BTreeMap<Key, Way> = texts.iter().filter_map(|text| route(text, false)).collect();
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
