//! `router bgp`.

use std::net::IpAddr;

use ::frr::{Config, Node};

use super::{Names, keys, number, pieces, redistributed};
use crate::write::{name, text};

/// `[bgp]`, and those of VRFs behind it.
pub(super) fn bgp(running: &Config, names: &Names) -> Option<String> {
    let of = |node: &&Node| node.line.starts_with("router bgp ");
    let running = &Config(running.0.iter().filter(of).cloned().collect());
    let mut instances: Vec<&Node> = running.0.iter().collect();
    instances.sort_by_key(|node| node.line.contains(" vrf "));
    let mut whole = String::new();
    for node in instances {
        let words: Vec<&str> = node.line.split(' ').collect();
        let (asn, title, before) = match words.as_slice() {
            [_, _, asn] if whole.is_empty() => (number(asn)?, "bgp".to_owned(), String::new()),
            // Without one of the main table the model has no BGP.
            [_, _, asn, "vrf", vrf] if !whole.is_empty() => {
                (number(asn)?, format!("bgp.vrf.{}", name(vrf)), whole.clone())
            }
            _ => continue,
        };
        let head = format!("{before}[{title}]\nas = {asn}\n");
        let Some(section) = instance(node, &title, &head, running, names) else { continue };
        whole = section;
    }
    (!whole.is_empty()).then(|| whole + "\n")
}

fn instance(node: &Node, title: &str, head: &str, running: &Config, names: &Names) -> Option<String> {
    let own = node.children.iter().filter_map(|child| of_instance(&child.line)).collect();
    let policy = match node.children.iter().any(|child| child.line == "no bgp ebgp-requires-policy") {
        true => "ebgp_requires_policy = false\n",
        false => "",
    };
    let head = keys(&format!("{head}{policy}"), own, running);
    let mut parts: Vec<String> =
        ["ipv4", "ipv6"].iter().filter_map(|family| of_family(node, title, family, names)).collect();
    for child in &node.children {
        let words: Vec<&str> = child.line.split(' ').collect();
        if let ["neighbor", address, "remote-as", remote] = words.as_slice()
            && address.parse::<IpAddr>().is_ok()
        {
            parts.push(neighbour(node, title, address, remote, &head, running, names));
        }
    }
    pieces(&head, parts, running)
}

fn of_instance(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split(' ').collect();
    Some(match words.as_slice() {
        ["bgp", "router-id", id] => format!("router_id = {}", text(id)),
        ["bgp", "log-neighbor-changes"] => "log_neighbour_changes = true".to_owned(),
        ["bgp", "graceful-restart"] => "graceful_restart = true".to_owned(),
        ["timers", "bgp", keepalive, hold] => timers(keepalive, hold)?,
        _ => return None,
    })
}

/// Both in one piece, as they go together.
fn timers(keepalive: &str, hold: &str) -> Option<String> {
    Some(format!("keepalive = \"{}s\"\nhold = \"{}s\"", number(keepalive)?, number(hold)?))
}

fn family<'n>(node: &'n Node, family: &str) -> Option<&'n Node> {
    let line = format!("address-family {family} unicast");
    node.children.iter().find(|child| child.line == line)
}

fn of_family(node: &Node, title: &str, key: &str, names: &Names) -> Option<String> {
    let (mut networks, mut redistribute, mut paths) = (Vec::new(), Vec::new(), None);
    for child in &family(node, key)?.children {
        let words: Vec<&str> = child.line.split(' ').collect();
        match words.as_slice() {
            ["network", prefix] => networks.push(text(prefix)),
            ["network", prefix, "route-map", map] => {
                let map = names.key("route_map", "route-map", map)?;
                networks.push(format!("{{ prefix = {}, {map} }}", text(prefix)));
            }
            ["redistribute", ..] => redistribute.extend(redistributed(&child.line, names)),
            ["maximum-paths", most] => paths = number(most),
            _ => {}
        }
    }
    let mut lines = Vec::new();
    if !networks.is_empty() {
        lines.push(format!("networks = [{}]", networks.join(", ")));
    }
    if !redistribute.is_empty() {
        lines.push(format!("redistribute = [{}]", redistribute.join(", ")));
    }
    lines.extend(paths.map(|paths| format!("maximum_paths = {paths}")));
    (!lines.is_empty()).then(|| format!("\n[{title}.{key}]\n{}\n", lines.join("\n")))
}

fn neighbour(
    node: &Node,
    title: &str,
    address: &str,
    remote: &str,
    head: &str,
    running: &Config,
    names: &Names,
) -> String {
    let own = |node: &Node| -> Vec<Vec<String>> {
        let start = format!("neighbor {address} ");
        let lines = node.children.iter().filter_map(|child| child.line.strip_prefix(&start));
        lines.map(|rest| rest.split(' ').map(str::to_owned).collect()).collect()
    };
    let lines = own(node);
    // What its group of FRR's says is not known here: it stays in FRR's lines.
    if lines.iter().any(|words| words[0] == "peer-group") {
        return String::new();
    }
    let remote = number(remote).unwrap_or_else(|| text(remote));
    let title = format!("{title}.neighbour.{}", text(address));
    // FRR shows a family as one that is not exchanged, or as one that is, as its default is.
    let usual = node.children.iter().all(|child| child.line != "no bgp default ipv4-unicast");
    let mut exchanged = Vec::new();
    for key in ["ipv4", "ipv6"] {
        let lines = family(node, key).map(&own).unwrap_or_default();
        let has = |line: &[&str]| lines.iter().any(|words| words == line);
        let off = node.children.iter().chain(family(node, key).map_or(&[][..], |it| &it.children));
        let is_off = off.clone().any(|child| child.line == format!("no neighbor {address} activate"));
        let is_on = has(&["activate"]) || key == "ipv4" && usual && !is_off;
        exchanged.push((key, is_on, lines));
    }
    let start = format!("\n[{title}]\nremote_as = {remote}\n");
    let flags: String = exchanged.iter().map(|(key, is_on, _)| format!("{key} = {is_on}\n")).collect();
    let mut section = start;
    for key in lines.iter().filter_map(|words| of_neighbour(words)) {
        if super::fits(&format!("{head}{section}{key}\n{flags}"), running) {
            section += &format!("{key}\n");
        }
    }
    // That of its address goes without saying.
    let is_v6 = address.contains(':');
    let plain = |on: [bool; 2]| on == [!is_v6, is_v6];
    let policies: Vec<Vec<String>> = exchanged
        .iter()
        .map(|(_, is_on, lines)| match is_on {
            true => lines.iter().filter_map(|words| exchange(words, names)).collect(),
            false => Vec::new(),
        })
        .collect();
    let on = [exchanged[0].1, exchanged[1].1];
    if policies.iter().all(Vec::is_empty) {
        return if plain(on) { section } else { section + &flags };
    }
    let mut inner = String::new();
    for ((key, is_on, _), policies) in exchanged.iter().zip(policies) {
        match (is_on, policies.is_empty()) {
            (false, _) if plain(on) || !*is_on && on[usize::from(is_v6)] => {}
            (is_on, true) => section += &format!("{key} = {is_on}\n"),
            (_, false) => {
                let mut table = format!("\n[{title}.{key}]\n");
                for line in policies {
                    if super::fits(&format!("{head}{section}{inner}{table}{line}\n"), running) {
                        table += &format!("{line}\n");
                    }
                }
                inner += &table;
            }
        }
    }
    section + &inner
}

fn of_neighbour(words: &[String]) -> Option<String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Some(match words.as_slice() {
        ["description", rest @ ..] => format!("description = {}", text(&rest.join(" "))),
        ["password", password] => format!("password = {}", text(password)),
        ["shutdown"] => "enabled = false".to_owned(),
        ["passive"] => "passive = true".to_owned(),
        ["ebgp-multihop", hops] => format!("ebgp_multihop = {}", number(hops)?),
        ["ttl-security", "hops", hops] => format!("ttl_security = {}", number(hops)?),
        ["bfd"] => "bfd = true".to_owned(),
        ["update-source", source] => format!("update_source = {}", text(source)),
        ["timers", "connect", time] => format!("connect_retry = \"{}s\"", number(time)?),
        ["timers", keepalive, hold] => timers(keepalive, hold)?,
        _ => return None,
    })
}

fn exchange(words: &[String], names: &Names) -> Option<String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Some(match words.as_slice() {
        ["next-hop-self"] => "next_hop_self = true".to_owned(),
        ["route-reflector-client"] => "route_reflector_client = true".to_owned(),
        ["soft-reconfiguration", "inbound"] => "soft_reconfiguration = true".to_owned(),
        ["default-originate"] => "default_originate = true".to_owned(),
        ["default-originate", "route-map", map] => names.key("default_originate", "route-map", map)?,
        ["maximum-prefix", most] => format!("maximum_prefix = {}", number(most)?),
        ["prefix-list", list, way @ ("in" | "out")] => {
            names.key(&format!("prefix_list_{way}"), "prefix-list", list)?
        }
        ["route-map", map, way @ ("in" | "out")] => {
            names.key(&format!("route_map_{way}"), "route-map", map)?
        }
        ["filter-list", list, way @ ("in" | "out")] => {
            names.key(&format!("as_path_list_{way}"), "as-path", list)?
        }
        _ => return None,
    })
}
