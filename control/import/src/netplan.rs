//! Netplan's files: `network:` with its kinds of interfaces.

use std::net::{IpAddr, Ipv4Addr};

use config::{Asks, DhcpClient, Does, InterfaceKind, RouteAction, RouteTable, RoutingRule};
use ipnet::IpNet;

use crate::draft::Draft;
use crate::ip::word;
use crate::yaml::{self, Value, Yaml};

const UNKNOWN: &str = "there is no key for it, or it is not understood";

impl Draft {
    /// What such a file says. Of several, those that come later say more of the same interfaces.
    pub fn netplan(&mut self, file: &str, text: &str) {
        let root = match yaml::read(text) {
            Ok(Some(root)) => root,
            Ok(None) => return,
            Err((line, why)) => return self.leave(format!("{file}:{line}"), "the file", why),
        };
        for (key, network) in root.map() {
            if key != "network" {
                self.leave(format!("{file}:{}", network.line), key, UNKNOWN);
                continue;
            }
            for (key, value) in network.map() {
                match key.as_str() {
                    "version" | "renderer" => {}
                    "ethernets" | "bonds" | "bridges" | "vlans" | "tunnels" | "vrfs" | "dummy-devices" => {
                        for (name, it) in value.map() {
                            self.device(file, key, name, it);
                        }
                    }
                    other => self.leave(format!("{file}:{}", value.line), other, UNKNOWN),
                }
            }
        }
        // Who is in a VRF is said with the VRF.
        for (name, vrf) in root.get("network").and_then(|it| it.get("vrfs")).map_or(&[][..], Yaml::map) {
            for member in vrf.get("interfaces").map_or(&[][..], Yaml::list).iter().filter_map(Yaml::text) {
                self.interface(member).vrf = Some(name.clone());
            }
        }
    }

    fn device(&mut self, file: &str, kinds: &str, name: &str, it: &Yaml) {
        let at = |yaml: &Yaml| format!("{file}:{}", yaml.line);
        let renamed = it.get("set-name").and_then(Yaml::text);
        if it.get("match").is_some() && renamed.is_none_or(|renamed| renamed != name) {
            let why = "which interface it matches is not known: name the section as the interface";
            return self.leave(at(it), name, why);
        }
        let Some(kind) = kind_of(kinds, it) else {
            return self.leave(at(it), name, format!("this is none of the {kinds} that Bifrost makes"));
        };
        let parameters = it.get("parameters").map_or(&[][..], Yaml::map);
        for (key, value) in parameters.iter().filter(|(key, value)| !is_taken(&kind, key, value)) {
            self.leave(at(value), format!("{name}: {key}"), UNKNOWN);
        }
        self.interface(name).kind = kind;
        if matches!(kinds, "bonds" | "bridges") {
            let members = it
                .get("interfaces")
                .map(|members| members.list().iter().filter_map(Yaml::text).map(str::to_owned).collect());
            self.interface(name).members = members;
        }
        for (key, value) in it.map() {
            if !self.key_of_device(file, kinds, name, it, key, value) {
                self.leave(at(value), format!("{name}: {key}"), UNKNOWN);
            }
        }
    }

    /// Whether a key of a device could be turned.
    fn key_of_device(
        &mut self,
        file: &str,
        kinds: &str,
        name: &str,
        it: &Yaml,
        key: &str,
        value: &Yaml,
    ) -> bool {
        let at = |yaml: &Yaml| format!("{file}:{}", yaml.line);
        let vrf = (kinds == "vrfs").then_some(name);
        match (key, value.text()) {
            ("addresses", _) => value.list().iter().all(|address| self.one_address(name, address)),
            ("mtu", Some(mtu)) => mtu.parse().map(|mtu| self.interface(name).mtu = Some(mtu)).is_ok(),
            ("macaddress", Some(mac)) => {
                self.interface(name).mac = Some(mac.to_lowercase());
                true
            }
            ("gateway4" | "gateway6", Some(gateway)) => self.gateway(name, gateway),
            ("routes", _) => {
                for route in value.list() {
                    if let Err(why) = self.netplan_route(name, vrf, route) {
                        self.leave(at(route), format!("{name}: a route"), why);
                    }
                }
                true
            }
            ("routing-policy", _) => {
                for rule in value.list() {
                    if let Err(why) = self.netplan_rule(vrf, rule) {
                        self.leave(at(rule), format!("{name}: a rule"), why);
                    }
                }
                true
            }
            ("dhcp4", Some(word)) if is_true(word) => {
                let overrides = it.get("dhcp4-overrides").and_then(|it| it.get("route-metric"));
                let metric = overrides.and_then(Yaml::text).and_then(|metric| metric.parse().ok());
                self.interface(name).dhcp = Some(DhcpClient { metric });
                true
            }
            ("dhcp4-overrides", _) => value.map().iter().all(|(key, _)| key == "route-metric"),
            ("dhcp6" | "accept-ra", Some(word)) if is_true(word) => {
                let client = self.interface(name).client6.get_or_insert_default();
                *(if key == "dhcp6" { &mut client.address } else { &mut client.autoconf }) = true;
                true
            }
            ("dhcp4" | "dhcp6" | "accept-ra" | "optional" | "critical", _) => true,
            (
                "match" | "set-name" | "interfaces" | "parameters" | "link" | "id" | "table" | "renderer",
                _,
            )
            | ("mode" | "local" | "remote" | "ttl", _) => true,
            ("key", Some(_)) if kinds == "tunnels" => true,
            _ => false,
        }
    }

    fn one_address(&mut self, name: &str, address: &Yaml) -> bool {
        let Some(net) = address.text().and_then(|text| text.parse::<IpNet>().ok()) else { return false };
        let list = self.interface(name).addresses.get_or_insert_default();
        if !list.contains(&net) {
            list.push(net);
        }
        true
    }

    fn gateway(&mut self, name: &str, gateway: &str) -> bool {
        let Ok(gateway) = gateway.parse::<IpAddr>() else { return false };
        self.default_route(gateway, name, None);
        true
    }

    fn netplan_route(&mut self, name: &str, vrf: Option<&str>, route: &Yaml) -> Result<(), String> {
        let Value::Map(keys) = &route.value else { return Err(UNKNOWN.to_owned()) };
        let known = ["to", "via", "metric", "table", "type"];
        if let Some((key, _)) = keys.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            return Err(format!("there is no key for {key}"));
        }
        let text = |key: &str| route.get(key).and_then(Yaml::text);
        let number = |key: &str| match text(key) {
            None => Ok(None),
            Some(text) => text.parse::<u32>().map(Some).map_err(|_| format!("{key} is no number")),
        };
        let gateway =
            text("via").map(|via| via.parse::<IpAddr>().map_err(|_| format!("{via} is no gateway")));
        let gateway = gateway.transpose()?;
        let ipv6 = gateway.is_some_and(|it| it.is_ipv6());
        let to = match text("to").ok_or("it leads nowhere")? {
            "default" if ipv6 => "::/0",
            "default" => "0.0.0.0/0",
            other => other,
        };
        let to = to.parse::<IpNet>().or_else(|_| to.parse::<IpAddr>().map(IpNet::from));
        let way = match text("type") {
            Some(end) if end != "unicast" => RouteAction::End(
                word(&config::Route::ENDS, end).ok_or_else(|| format!("there is no kind {end}"))?,
            ),
            _ => {
                let on_link = matches!(gateway, Some(IpAddr::V6(it)) if it.is_unicast_link_local());
                let device = (gateway.is_none() || on_link).then(|| name.to_owned());
                RouteAction::Via { gateways: gateway.into_iter().collect(), device }
            }
        };
        let table = match vrf {
            Some(vrf) => RouteTable::Vrf(vrf.to_owned()),
            None => RouteTable::Number(number("table")?.unwrap_or(254)),
        };
        let metric = number("metric")?;
        self.routes.push(config::Route { to: to.map_err(|_| UNKNOWN)?, table, metric, way });
        Ok(())
    }
}

impl Draft {
    fn netplan_rule(&mut self, vrf: Option<&str>, rule: &Yaml) -> Result<(), String> {
        let Value::Map(keys) = &rule.value else { return Err(UNKNOWN.to_owned()) };
        let known = ["from", "to", "table", "priority", "mark", "type-of-service"];
        if let Some((key, _)) = keys.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            return Err(format!("there is no key for {key}"));
        }
        let text = |key: &str| rule.get(key).and_then(Yaml::text);
        let number = |key: &str| match text(key) {
            None => Ok(None),
            Some(text) => text.parse::<u32>().map(Some).map_err(|_| format!("{key} is no number")),
        };
        let net = |key: &str| match text(key) {
            None => Ok(None),
            Some(text) => {
                let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
                net.map(Some).map_err(|_| format!("{key} is no prefix"))
            }
        };
        let asks = Asks {
            from: net("from")?,
            to: net("to")?,
            mark: number("mark")?.map(|mark| (mark, u32::MAX)),
            tos: u8::try_from(number("type-of-service")?.unwrap_or(0)).map_err(|_| UNKNOWN)?,
            ..Asks::default()
        };
        let ipv6 = asks.from.or(asks.to).ok_or(UNKNOWN)?.addr().is_ipv6();
        let table = match vrf {
            Some(vrf) => RouteTable::Vrf(vrf.to_owned()),
            None => RouteTable::Number(number("table")?.unwrap_or(254)),
        };
        let priority = number("priority")?.ok_or("it has no priority, and Linux would choose one")?;
        let does = Does::Look { table, suppress: None };
        self.rules.push(RoutingRule { priority, ipv4: !ipv6, ipv6, asks, does });
        Ok(())
    }
}

/// As netplan reads it.
fn is_true(word: &str) -> bool {
    ["true", "on", "yes", "y"].iter().any(|it| it.eq_ignore_ascii_case(word))
}

/// What of Bifrost's a device is: `kinds` is the list that it stands in.
fn kind_of(kinds: &str, it: &Yaml) -> Option<InterfaceKind> {
    let text = |key: &str| it.get(key).and_then(Yaml::text);
    let parameter = |key: &str| it.get("parameters").and_then(|it| it.get(key)).and_then(Yaml::text);
    match kinds {
        "ethernets" => Some(InterfaceKind::Ethernet),
        "bridges" => Some(InterfaceKind::Bridge),
        "dummy-devices" => Some(InterfaceKind::Dummy),
        "bonds" => word(&InterfaceKind::BOND_MODES, parameter("mode").unwrap_or("balance-rr")).map(|mode| {
            InterfaceKind::Bond {
                mode,
                lacp_rate: parameter("lacp-rate").and_then(|rate| word(&InterfaceKind::LACP_RATES, rate)),
                miimon: parameter("mii-monitor-interval")
                    .and_then(|time| time.trim_end_matches("ms").parse().ok()),
            }
        }),
        "vlans" => text("link")
            .zip(text("id").and_then(|id| id.parse().ok()))
            .map(|(parent, id)| InterfaceKind::Vlan { parent: parent.to_owned(), id, protocol: "802.1Q" }),
        "vrfs" => {
            text("table").and_then(|table| table.parse().ok()).map(|table| InterfaceKind::Vrf { table })
        }
        _ => tunnel(&text),
    }
}

/// Whether a parameter is part of the kind already.
fn is_taken(kind: &InterfaceKind, key: &str, value: &Yaml) -> bool {
    match kind {
        InterfaceKind::Bond { lacp_rate, .. } if key == "lacp-rate" => lacp_rate.is_some(),
        InterfaceKind::Bond { miimon, .. } if key == "mii-monitor-interval" => miimon.is_some(),
        InterfaceKind::Bond { .. } => key == "mode",
        InterfaceKind::Bridge => key == "stp" && value.text() == Some("false"),
        _ => false,
    }
}

/// A number of 32 bits, which some write as an address.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().or_else(|| text.parse::<Ipv4Addr>().ok().map(u32::from))
}

fn tunnel<'t>(text: &impl Fn(&str) -> Option<&'t str>) -> Option<InterfaceKind> {
    Some(InterfaceKind::Tunnel {
        mode: word(&InterfaceKind::TUNNELS, text("mode")?)?,
        local: text("local")?.parse().ok()?,
        remote: text("remote")?.parse().ok()?,
        key: text("key").map(|key| number(key).ok_or(())).transpose().ok()?,
        ttl: text("ttl").map_or(Ok(0), str::parse).ok()?,
    })
}
