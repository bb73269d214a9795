//! Sections as they are written.

use config::{Interface, Kind, Route, RouteTable, System, Way};

/// A text in TOML.
pub(crate) fn text(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out += &format!("\\u{:04X}", c as u32),
            c => out.push(c),
        }
    }
    out + "\""
}

/// A name as a header has it.
pub(crate) fn name(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { text(name) }
}

/// A list of texts.
pub(crate) fn list<T: ToString>(items: &[T]) -> String {
    format!("[{}]", items.iter().map(|item| text(&item.to_string())).collect::<Vec<_>>().join(", "))
}

/// `[system]`, of what is gathered of it; nothing is empty.
pub(crate) fn system(it: &System) -> String {
    let mut lines = String::new();
    for (key, value) in [("hostname", &it.hostname), ("time_zone", &it.time_zone)] {
        value.iter().for_each(|value| lines += &format!("{key} = {}\n", text(value)));
    }
    if !it.name_servers.is_empty() {
        lines += &format!("name_servers = {}\n", list(&it.name_servers));
    }
    if !it.search.is_empty() {
        lines += &format!("search = {}\n", list(&it.search));
    }
    if lines.is_empty() { lines } else { format!("[system]\n{lines}") }
}

/// `[interface.NAME]`.
pub(crate) fn interface(it: &Interface) -> String {
    let mut lines = vec![format!("[interface.{}]", name(&it.name))];
    let mut say = |key: &str, value: String| lines.push(format!("{key} = {value}"));
    if it.kind != Kind::Ethernet {
        say("kind", text(it.kind.word()));
    }
    match &it.kind {
        Kind::Vlan { parent, id, protocol } => {
            say("parent", text(parent));
            say("id", id.to_string());
            if *protocol != "802.1Q" {
                say("protocol", text(protocol));
            }
        }
        Kind::Bond { mode, lacp_rate, miimon } => {
            say("mode", text(mode));
            lacp_rate.iter().for_each(|rate| say("lacp_rate", text(rate)));
            miimon.iter().for_each(|time| say("miimon", time.to_string()));
        }
        Kind::Vrf { table } => say("table", table.to_string()),
        Kind::Tunnel { local, remote, key, ttl, .. } => {
            say("local", text(&local.to_string()));
            say("remote", text(&remote.to_string()));
            key.iter().for_each(|key| say("key", key.to_string()));
            if *ttl != 64 {
                say("ttl", ttl.to_string());
            }
        }
        Kind::Ethernet | Kind::Bridge | Kind::Dummy => {}
    }
    it.members.iter().for_each(|members| say("members", list(members)));
    it.description.iter().for_each(|description| say("description", text(description)));
    it.vrf.iter().for_each(|vrf| say("vrf", text(vrf)));
    it.mac.iter().for_each(|mac| say("mac", text(mac)));
    it.mtu.iter().for_each(|mtu| say("mtu", mtu.to_string()));
    it.addresses.iter().for_each(|addresses| say("addresses", list(addresses)));
    if !it.enabled {
        say("enabled", "false".to_owned());
    }
    lines.join("\n") + "\n"
}

/// `[[route]]`.
pub(crate) fn route(route: &Route) -> String {
    let mut lines = vec!["[[route]]".to_owned()];
    let mut say = |key: &str, value: String| lines.push(format!("{key} = {value}"));
    let gateways = matches!(&route.way, Way::Via { gateways, .. } if !gateways.is_empty());
    match route.to.prefix_len() == 0 && gateways {
        true => say("to", text("default")),
        false => say("to", text(&route.to.to_string())),
    }
    match &route.way {
        Way::End(word) => say("kind", text(word)),
        Way::Via { gateways, device } => {
            match gateways.as_slice() {
                [] => {}
                [one] => say("via", text(&one.to_string())),
                several => say("via", list(several)),
            }
            device.iter().for_each(|device| say("device", text(device)));
        }
    }
    route.metric.iter().for_each(|metric| say("metric", metric.to_string()));
    match &route.table {
        RouteTable::Number(254) => {}
        RouteTable::Number(number) => say("table", number.to_string()),
        RouteTable::Vrf(vrf) => say("vrf", text(vrf)),
    }
    lines.join("\n") + "\n"
}
