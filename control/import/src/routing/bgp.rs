//! `router bgp`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ::frr::{Config, Node};

use super::{Names, bfd, keys, number, pieces, redistributed};
use crate::write::{list, name as write_name, text};

/// Families that BGP exchanges: the key, and FRR's words.
const FAMILIES: [(&str, &str); 9] = [
    ("ipv4", "ipv4 unicast"),
    ("ipv4_multicast", "ipv4 multicast"),
    ("ipv4_labeled", "ipv4 labeled-unicast"),
    ("vpnv4", "ipv4 vpn"),
    ("ipv6", "ipv6 unicast"),
    ("ipv6_multicast", "ipv6 multicast"),
    ("ipv6_labeled", "ipv6 labeled-unicast"),
    ("vpnv6", "ipv6 vpn"),
    ("evpn", "l2vpn evpn"),
];

/// `[bgp]`, and those of VRFs behind it.
pub(super) fn bgp(running: &Config, names: &Names) -> Option<String> {
    let of = |node: &&Node| node.line.starts_with("router bgp ") || node.line == "rpki";
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
                (number(asn)?, format!("bgp.vrf.{}", write_name(vrf)), whole.clone())
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
    let mut parts = Vec::new();
    if title == "bgp" {
        parts.extend(running.context("rpki").and_then(bfd::rpki));
    }
    parts.extend(node.children.iter().filter_map(|child| bfd::bmp(child, title)));
    for (key, frr) in FAMILIES {
        parts.extend(of_family(node, title, key, frr, names));
    }
    for child in &node.children {
        let words: Vec<&str> = child.line.split(' ').collect();
        let (name, section, remote) = match words.as_slice() {
            ["neighbor", address, "remote-as", remote] if address.parse::<IpAddr>().is_ok() => {
                (*address, format!("[{title}.neighbour.{}]\n", text(address)), remote)
            }
            ["neighbor", it, "interface", "remote-as", remote] => {
                (*it, format!("[{title}.neighbour.{}]\ninterface = {}\n", write_name(it), text(it)), remote)
            }
            ["neighbor", group, "remote-as", remote] => {
                let end = format!(" peer-group {group}");
                let ranges = node.children.iter().filter_map(|child| {
                    child.line.strip_prefix("bgp listen range ")?.strip_suffix(end.as_str())
                });
                let ranges: Vec<&str> = ranges.collect();
                if ranges.is_empty() {
                    continue;
                }
                (
                    *group,
                    format!("[{title}.listen.{}]\nranges = {}\n", write_name(group), list(&ranges)),
                    remote,
                )
            }
            _ => continue,
        };
        parts.push(neighbour(node, name, &section, remote, &head, running, names));
    }
    pieces(&head, parts, running)
}

fn of_instance(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split(' ').collect();
    Some(match words.as_slice() {
        ["bgp", "router-id", id] => format!("router_id = {}", text(id)),
        ["bgp", "log-neighbor-changes"] => "log_neighbour_changes = true".to_owned(),
        ["bgp", "graceful-restart"] => "graceful_restart = true".to_owned(),
        ["bgp", "graceful-restart", "restart-time", time] => {
            format!("graceful_restart_time = \"{}s\"", number(time)?)
        }
        ["bgp", "graceful-restart", "stalepath-time", time] => {
            format!("graceful_restart_stale_time = \"{}s\"", number(time)?)
        }
        ["bgp", "listen", "limit", most] => format!("listen_limit = {}", number(most)?),
        ["timers", "bgp", keepalive, hold] => timers(keepalive, hold)?,
        _ => return None,
    })
}

/// Both in one piece, as they go together.
fn timers(keepalive: &str, hold: &str) -> Option<String> {
    Some(format!("keepalive = \"{}s\"\nhold = \"{}s\"", number(keepalive)?, number(hold)?))
}

fn family<'n>(node: &'n Node, family: &str) -> Option<&'n Node> {
    let line = format!("address-family {family}");
    node.children.iter().find(|child| child.line == line)
}

fn of_family(node: &Node, title: &str, key: &str, frr: &str, names: &Names) -> Option<String> {
    let (mut networks, mut redistribute, mut aggregates) = (Vec::new(), Vec::new(), Vec::new());
    let (mut vrfs, mut vpn, mut targets) = (Vec::new(), Vec::new(), BTreeMap::<&str, Vec<&str>>::new());
    let mut lines = Vec::new();
    for child in &family(node, frr)?.children {
        let words: Vec<&str> = child.line.split(' ').collect();
        match words.as_slice() {
            ["network", prefix] => networks.push(text(prefix)),
            ["network", prefix, "route-map", map] => {
                let map = names.key("route_map", "route-map", map)?;
                networks.push(format!("{{ prefix = {}, {map} }}", text(prefix)));
            }
            ["aggregate-address", prefix] => aggregates.push(text(prefix)),
            ["aggregate-address", prefix, rest @ ..] => aggregates.extend(aggregate(prefix, rest, names)),
            ["redistribute", ..] => redistribute.extend(redistributed(&child.line, names)),
            ["maximum-paths", "ibgp", most] => {
                lines.extend(number(most).map(|most| format!("maximum_paths_ibgp = {most}")));
            }
            ["maximum-paths", most] => {
                lines.extend(number(most).map(|most| format!("maximum_paths = {most}")));
            }
            ["distance", "bgp", external, internal, local] => lines.push(format!(
                "distance = {{ external = {external}, internal = {internal}, local = {local} }}"
            )),
            ["bgp", "dampening", rest @ ..] => lines.push(dampening(rest)),
            ["import", "vrf", vrf] => vrfs.push(*vrf),
            ["label", "vpn", "export", "auto"] => vpn.push("label = \"auto\"".to_owned()),
            ["label", "vpn", "export", label] => {
                vpn.extend(number(label).map(|label| format!("label = {label}")));
            }
            ["rd", "vpn", "export", rd] => vpn.push(format!("rd = {}", text(rd))),
            ["nexthop", "vpn", "export", hop] => vpn.push(format!("next_hop = {}", text(hop))),
            ["rt", "vpn", way @ ("import" | "export"), all @ ..] => {
                vpn.push(format!("{way} = {}", list(all)));
            }
            ["route-map", "vpn", way, map] => {
                vpn.extend(names.key(&format!("route_map_{way}"), "route-map", map));
            }
            [word @ ("advertise-all-vni" | "advertise-default-gw" | "advertise-svi-ip")] => {
                lines.push(format!("{} = true", word.replace('-', "_")));
            }
            ["flooding", "disable"] => lines.push("flooding = false".to_owned()),
            ["advertise", family @ ("ipv4" | "ipv6"), "unicast"] => {
                targets.entry("advertise").or_default().push(family);
            }
            ["rd", rd] => lines.push(format!("rd = {}", text(rd))),
            ["route-target", way @ ("import" | "export"), target] => {
                targets.entry(way).or_default().push(target);
            }
            _ => {}
        }
    }
    for (key, entries) in [("networks", networks), ("aggregates", aggregates), ("redistribute", redistribute)]
    {
        if !entries.is_empty() {
            lines.push(format!("{key} = [{}]", entries.join(", ")));
        }
    }
    if !vrfs.is_empty() {
        lines.push(format!("import_vrfs = {}", list(&vrfs)));
    }
    if !vpn.is_empty() {
        lines.push(format!("vpn = {{ {} }}", vpn.join(", ")));
    }
    lines.extend(targets.iter().map(|(key, all)| format!("{key} = {}", list(all))));
    (!lines.is_empty()).then(|| format!("\n[{title}.{key}]\n{}\n", lines.join("\n")))
}

fn aggregate(prefix: &str, options: &[&str], names: &Names) -> Option<String> {
    let mut keys = vec![format!("prefix = {}", text(prefix))];
    let mut options = options.iter();
    while let Some(option) = options.next() {
        keys.push(match *option {
            "summary-only" => "summary_only = true".to_owned(),
            "as-set" => "as_set = true".to_owned(),
            "route-map" => names.key("route_map", "route-map", options.next()?)?,
            _ => return None,
        });
    }
    Some(format!("{{ {} }}", keys.join(", ")))
}

fn dampening(numbers: &[&str]) -> String {
    let keys = match numbers {
        [half_life] => format!(" half_life = \"{half_life}m\" "),
        [half_life, reuse, suppress, longest] => format!(
            " half_life = \"{half_life}m\", reuse = {reuse}, suppress = {suppress}, longest = \"{longest}m\" "
        ),
        _ => String::new(),
    };
    format!("dampening = {{{keys}}}")
}

/// A neighbour, or a group of such that come by themselves: `start` is its section so far.
fn neighbour(
    node: &Node,
    name: &str,
    start: &str,
    remote: &str,
    head: &str,
    running: &Config,
    names: &Names,
) -> String {
    let own = |node: &Node| -> Vec<Vec<String>> {
        let (start, off) = (format!("neighbor {name} "), format!("no neighbor {name} send-community"));
        let words = |rest: &str| rest.split(' ').map(str::to_owned).collect();
        let lines = node.children.iter().filter_map(|child| {
            let off = || child.line.strip_prefix(&off).map(|kind| words(&format!("off{kind}")));
            child.line.strip_prefix(&start).map(words).or_else(off)
        });
        lines.collect()
    };
    let lines = own(node);
    // What its group of FRR's says is not known here: it stays in FRR's lines.
    if lines.iter().any(|words| words.len() == 2 && words[0] == "peer-group") {
        return String::new();
    }
    let remote = number(remote).unwrap_or_else(|| text(remote));
    // FRR shows a family as one that is not exchanged, or as one that is, as its default is.
    let usual = node.children.iter().all(|child| child.line != "no bgp default ipv4-unicast");
    let mut exchanged = Vec::new();
    for (key, frr) in FAMILIES {
        let lines = family(node, frr).map(&own).unwrap_or_default();
        let has = |line: &[&str]| lines.iter().any(|words| words == line);
        let off = node.children.iter().chain(family(node, frr).map_or(&[][..], |it| &it.children));
        let is_off = off.clone().any(|child| child.line == format!("no neighbor {name} activate"));
        let is_on = has(&["activate"]) || key == "ipv4" && usual && !is_off;
        exchanged.push((key, is_on, lines));
    }
    let mut section = format!("\n{start}remote_as = {remote}\n");
    // That of its address goes without saying.
    let plain = match name.contains(':') {
        true => "ipv6",
        false if start.contains("ranges = ") => "",
        false => "ipv4",
    };
    let on: Vec<&str> = exchanged.iter().filter(|(_, is_on, _)| *is_on).map(|(key, ..)| *key).collect();
    let flags: String = match on.as_slice() {
        [one] if *one == plain => String::new(),
        [] => format!("{} = false\n", if plain.is_empty() { "ipv4" } else { plain }),
        on => on.iter().map(|key| format!("{key} = true\n")).collect(),
    };
    let profile = lines.iter().any(|words| words.len() == 3 && words[0] == "bfd");
    let said = lines.iter().filter(|words| !(profile && **words == ["bfd"]));
    for key in said.filter_map(|words| of_neighbour(words)) {
        if super::fits(&format!("{head}{section}{key}\n{flags}"), running) {
            section += &format!("{key}\n");
        }
    }
    let title = start.lines().next().unwrap_or_default().trim_matches(['[', ']']);
    let (mut plainly, mut inner) = (String::new(), String::new());
    for (key, is_on, lines) in &exchanged {
        let policies = exchange(lines, names);
        match (is_on, policies.is_empty()) {
            (false, _) => {}
            (true, true) => plainly += &format!("{key} = true\n"),
            (true, false) => {
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
    if inner.is_empty() { section + &flags } else { section + &plainly + &inner }
}

fn of_neighbour(words: &[String]) -> Option<String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Some(match words.as_slice() {
        ["description", rest @ ..] => format!("description = {}", text(&rest.join(" "))),
        ["password", password] => format!("password = {}", text(password)),
        ["shutdown"] => "enabled = false".to_owned(),
        ["passive"] => "passive = true".to_owned(),
        ["disable-connected-check"] => "connected_check = false".to_owned(),
        ["enforce-first-as"] => "enforce_first_as = true".to_owned(),
        ["capability", "extended-nexthop"] => "extended_next_hop = true".to_owned(),
        ["advertisement-interval", time] => format!("advertisement_interval = \"{}s\"", number(time)?),
        ["graceful-restart"] => "graceful_restart = \"on\"".to_owned(),
        ["graceful-restart-helper"] => "graceful_restart = \"helper\"".to_owned(),
        ["graceful-restart-disable"] => "graceful_restart = \"off\"".to_owned(),
        ["local-as", asn] => format!("local_as = {{ as = {} }}", number(asn)?),
        ["local-as", asn, "no-prepend"] => format!("local_as = {{ as = {}, prepend = false }}", number(asn)?),
        ["local-as", asn, "no-prepend", "replace-as"] => {
            format!("local_as = {{ as = {}, prepend = false, replace = true }}", number(asn)?)
        }
        ["ebgp-multihop", hops] => format!("ebgp_multihop = {}", number(hops)?),
        ["ttl-security", "hops", hops] => format!("ttl_security = {}", number(hops)?),
        ["bfd"] => "bfd = true".to_owned(),
        ["bfd", "profile", profile] => format!("bfd = {}", text(profile)),
        ["update-source", source] => format!("update_source = {}", text(source)),
        ["timers", "connect", time] => format!("connect_retry = \"{}s\"", number(time)?),
        ["timers", keepalive, hold] => timers(keepalive, hold)?,
        _ => return None,
    })
}

/// What is exchanged, as keys.
fn exchange(lines: &[Vec<String>], names: &Names) -> Vec<String> {
    let mut found: Vec<String> = lines.iter().filter_map(|words| of_exchange(words, names)).collect();
    let off: Vec<&str> = lines
        .iter()
        .filter(|words| words[0] == "off")
        .map(|words| words.get(1).map_or("standard", String::as_str))
        .collect();
    if !off.is_empty() {
        let sent: Vec<&str> =
            ["standard", "extended", "large"].into_iter().filter(|kind| !off.contains(kind)).collect();
        found.push(format!("send_community = {}", list(&sent)));
    }
    found
}

fn of_exchange(words: &[String], names: &Names) -> Option<String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Some(match words.as_slice() {
        ["next-hop-self"] => "next_hop_self = true".to_owned(),
        ["next-hop-self", "force"] => "next_hop_self = \"force\"".to_owned(),
        ["route-reflector-client"] => "route_reflector_client = true".to_owned(),
        ["route-server-client"] => "route_server_client = true".to_owned(),
        ["soft-reconfiguration", "inbound"] => "soft_reconfiguration = true".to_owned(),
        ["default-originate"] => "default_originate = true".to_owned(),
        ["default-originate", "route-map", map] => names.key("default_originate", "route-map", map)?,
        ["maximum-prefix", most, rest @ ..] => {
            let mut keys = format!("maximum_prefix = {}", number(most)?);
            let mut rest = rest.iter();
            while let Some(word) = rest.next() {
                keys += &match *word {
                    "warning-only" => "\nmaximum_prefix_warning_only = true".to_owned(),
                    "restart" => format!("\nmaximum_prefix_restart = \"{}m\"", number(rest.next()?)?),
                    other => format!("\nmaximum_prefix_threshold = {}", number(other)?),
                };
            }
            keys
        }
        ["maximum-prefix-out", most] => format!("maximum_prefix_out = {}", number(most)?),
        ["allowas-in"] => "allowas_in = 3".to_owned(),
        ["allowas-in", "origin"] => "allowas_in = \"origin\"".to_owned(),
        ["allowas-in", times] => format!("allowas_in = {}", number(times)?),
        ["as-override"] => "as_override = true".to_owned(),
        ["remove-private-AS"] => "remove_private_as = true".to_owned(),
        ["remove-private-AS", "all"] => "remove_private_as = \"all\"".to_owned(),
        ["remove-private-AS", "replace-AS"] => "remove_private_as = \"replace\"".to_owned(),
        ["remove-private-AS", "all", "replace-AS"] => "remove_private_as = \"all-replace\"".to_owned(),
        ["addpath-tx-all-paths"] => "add_path = \"all\"".to_owned(),
        ["addpath-tx-bestpath-per-AS"] => "add_path = \"best-per-as\"".to_owned(),
        ["disable-addpath-rx"] => "add_path_receive = false".to_owned(),
        ["weight", weight] => format!("weight = {}", number(weight)?),
        ["attribute-unchanged", which @ ..] => format!("unchanged = {}", list(which)),
        ["unsuppress-map", map] => names.key("unsuppress_map", "route-map", map)?,
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
