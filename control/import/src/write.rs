//! Sections as they are written.

use config::{
    DhcpRelay, Does, Interface, InterfaceKind, PublicKey, Route, RouteAction, RouteTable, RoutingRule,
    System, WireGuardPeer,
};

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
    if it.kind != InterfaceKind::Ethernet {
        say("kind", text(it.kind.word()));
    }
    kind(&it.kind, &mut say);
    if let Some(wireguard) = &it.wireguard {
        say("private_key", key(wireguard.private_key.reveal()));
        wireguard.listen_port.iter().for_each(|port| say("listen_port", port.to_string()));
    }
    it.members.iter().for_each(|members| say("members", list(members)));
    if let Some(client) = &it.dhcp {
        say("dhcp", "true".to_owned());
        client.metric.iter().for_each(|metric| say("dhcp_metric", metric.to_string()));
    }
    if let Some(client) = &it.client6 {
        if client.autoconf {
            say("autoconf", "true".to_owned());
        }
        if client.address {
            say("dhcp6", "true".to_owned());
        }
        client.prefix_length.iter().for_each(|length| say("prefix_length", length.to_string()));
    }
    if let Some(part) = &it.delegated {
        say("prefix_of", text(&part.from));
        say("prefix_number", part.number.to_string());
    }
    it.description.iter().for_each(|description| say("description", text(description)));
    it.vrf.iter().for_each(|vrf| say("vrf", text(vrf)));
    it.mac.iter().for_each(|mac| say("mac", text(mac)));
    it.mtu.iter().for_each(|mtu| say("mtu", mtu.to_string()));
    it.addresses.iter().for_each(|addresses| say("addresses", list(addresses)));
    if !it.enabled {
        say("enabled", "false".to_owned());
    }
    let mut text = lines.join("\n") + "\n";
    for one in it.wireguard.iter().flat_map(|wireguard| &wireguard.peers) {
        text += &peer(&it.name, one);
    }
    text
}

/// The keys of an interface that are of its kind only.
fn kind(kind: &InterfaceKind, say: &mut impl FnMut(&str, String)) {
    match kind {
        InterfaceKind::Vlan { parent, id, protocol } => {
            say("parent", text(parent));
            say("id", id.to_string());
            if *protocol != "802.1Q" {
                say("protocol", text(protocol));
            }
        }
        InterfaceKind::Bond { mode, lacp_rate, miimon } => {
            say("mode", text(mode));
            lacp_rate.iter().for_each(|rate| say("lacp_rate", text(rate)));
            miimon.iter().for_each(|time| say("miimon", time.to_string()));
        }
        InterfaceKind::Vrf { table } => say("table", table.to_string()),
        InterfaceKind::Macvlan { parent, mode } => {
            say("parent", text(parent));
            if *mode != "bridge" {
                say("mode", text(mode));
            }
        }
        InterfaceKind::Vxlan(vxlan) => {
            say("vni", vxlan.vni.to_string());
            vxlan.local.iter().for_each(|local| say("local", text(&local.to_string())));
            vxlan.remote.iter().for_each(|remote| say("remote", text(&remote.to_string())));
            vxlan.parent.iter().for_each(|parent| say("parent", text(parent)));
            if vxlan.port != InterfaceKind::VXLAN_PORT {
                say("port", vxlan.port.to_string());
            }
            if !vxlan.learning {
                say("learning", "false".to_owned());
            }
        }
        InterfaceKind::Tunnel { local, remote, key, ttl, .. } => {
            say("local", text(&local.to_string()));
            say("remote", text(&remote.to_string()));
            key.iter().for_each(|key| say("key", key.to_string()));
            if *ttl != 64 {
                say("ttl", ttl.to_string());
            }
        }
        InterfaceKind::Ethernet | InterfaceKind::Bridge | InterfaceKind::Dummy | InterfaceKind::Wireguard => {
        }
    }
}

/// `[interface.NAME.peer.PEER]`.
fn peer(interface: &str, peer: &WireGuardPeer) -> String {
    let mut lines = vec![format!("[interface.{}.peer.{}]", name(interface), name(&peer.name))];
    let mut say = |key: &str, value: String| lines.push(format!("{key} = {value}"));
    say("public_key", key(&peer.public_key.0));
    peer.preshared_key.iter().for_each(|psk| say("preshared_key", key(psk.reveal())));
    peer.endpoint.iter().for_each(|end| say("endpoint", text(&end.to_string())));
    say("allowed_ips", list(&peer.allowed_ips.iter().collect::<Vec<_>>()));
    if peer.keepalive > 0 {
        say("keepalive", peer.keepalive.to_string());
    }
    lines.join("\n") + "\n"
}

/// A key as `wg` writes it, which is how public ones are shown.
fn key(key: &[u8; 32]) -> String {
    text(&PublicKey(*key).to_string())
}

/// A section of a relay.
pub(crate) fn relay(it: &DhcpRelay) -> String {
    let four = it.servers4.iter().map(ToString::to_string);
    let servers: Vec<String> = four.chain(it.servers6.iter().map(ToString::to_string)).collect();
    let mut said = format!("[dhcp_relay.{}]\n", name(&it.name));
    said += &format!("interfaces = {}\nservers = {}\n", list(&it.interfaces), list(&servers));
    if !it.circuit_id {
        said += "circuit_id = false\n";
    }
    it.remote_id.iter().for_each(|name| said += &format!("remote_id = {}\n", text(name)));
    if it.trusted {
        said += "trusted = true\n";
    }
    said
}

/// `[[route]]`.
pub(crate) fn route(route: &Route) -> String {
    let mut lines = vec!["[[route]]".to_owned()];
    let mut say = |key: &str, value: String| lines.push(format!("{key} = {value}"));
    let gateways = matches!(&route.way, RouteAction::Via { gateways, .. } if !gateways.is_empty());
    match route.to.prefix_len() == 0 && gateways {
        true => say("to", text("default")),
        false => say("to", text(&route.to.to_string())),
    }
    match &route.way {
        RouteAction::End(word) => say("kind", text(word)),
        RouteAction::Via { gateways, device } => {
            match gateways.as_slice() {
                [] => {}
                [one] => say("via", text(&one.to_string())),
                several => say("via", list(several)),
            }
            device.iter().for_each(|device| say("device", text(device)));
        }
    }
    route.metric.iter().for_each(|metric| say("metric", metric.to_string()));
    if route.table != RouteTable::Number(254) {
        lines.push(table(&route.table));
    }
    lines.join("\n") + "\n"
}

/// `[[rule]]`.
pub(crate) fn rule(rule: &RoutingRule) -> String {
    let RoutingRule { priority, ipv4, ipv6, asks, does } = rule;
    let mut lines = vec!["[[rule]]".to_owned(), format!("priority = {priority}")];
    let mut say = |key: &str, value: String| lines.push(format!("{key} = {value}"));
    if ipv4 != ipv6 && asks.from.is_none() && asks.to.is_none() {
        say("family", text(if *ipv4 { "ipv4" } else { "ipv6" }));
    }
    if asks.not {
        say("not", "true".to_owned());
    }
    asks.from.iter().for_each(|from| say("from", text(&from.to_string())));
    asks.to.iter().for_each(|to| say("to", text(&to.to_string())));
    asks.input.iter().for_each(|name| say("in", text(name)));
    asks.output.iter().for_each(|name| say("out", text(name)));
    if let Some((mark, mask)) = asks.mark {
        say("mark", format!("{mark:#x}"));
        if mask != u32::MAX {
            say("mask", format!("{mask:#x}"));
        }
    }
    if asks.tos != 0 {
        say("tos", asks.tos.to_string());
    }
    let protocol = |number| wire::protocol::name(number).map_or_else(|| number.to_string(), str::to_owned);
    asks.protocol.iter().for_each(|number| say("protocol", text(&protocol(*number))));
    let range = |(first, last): (u16, u16)| match first == last {
        true => text(&first.to_string()),
        false => text(&format!("{first}-{last}")),
    };
    asks.source_ports.iter().for_each(|ports| say("source_ports", range(*ports)));
    asks.ports.iter().for_each(|ports| say("ports", range(*ports)));
    match does {
        Does::Look { table: of, suppress } => {
            let suppress = suppress.map(|length| format!("suppress_prefix_length = {length}"));
            lines.extend([Some(table(of)), suppress].into_iter().flatten());
        }
        Does::GoTo(priority) => say("goto", priority.to_string()),
        Does::End(word) => say("action", text(word)),
    }
    lines.join("\n") + "\n"
}

fn table(table: &RouteTable) -> String {
    match table {
        RouteTable::Number(number) => format!("table = {number}"),
        RouteTable::Vrf(vrf) => format!("vrf = {}", text(vrf)),
    }
}
