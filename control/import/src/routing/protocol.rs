//! IS-IS, RIP and PIM.

use std::collections::BTreeMap;

use ::frr::{Config, Node};

use super::{Names, fits, keys, number, options, pieces, redistributed};
use crate::write::{list, name, text};

/// `[isis]`, `[rip]`, `[ripng]` and `[pim]`.
pub(super) fn protocols(running: &Config, names: &Names) -> Vec<String> {
    let sections =
        [isis(running, names), rip(running, names, "rip"), rip(running, names, "ripng"), pim(running)];
    sections.into_iter().flatten().map(|section| section + "\n").collect()
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// The interfaces of FRR, each with its lines.
fn interfaces(running: &Config) -> impl Iterator<Item = (&str, &Node)> {
    running.0.iter().filter_map(|node| Some((node.line.strip_prefix("interface ")?, node)))
}

/// What of interfaces is a section's: `head` is what it has of each, or nothing; `key` turns a
/// line.
fn of_interfaces(
    running: &Config,
    section: &str,
    start: &str,
    head: impl Fn(&str, &Node) -> Option<String>,
    key: impl Fn(&[&str], &Node) -> Option<String>,
) -> Vec<String> {
    let mut parts = Vec::new();
    for (it, node) in interfaces(running) {
        let Some(head) = head(it, node) else { continue };
        let mut part = format!("\n[{section}.interface.{}]\n{head}", name(it));
        for key in node.children.iter().filter_map(|child| key(&words(&child.line), node)) {
            if fits(&format!("{start}{part}{key}\n"), running) {
                part += &format!("{key}\n");
            }
        }
        parts.push(part);
    }
    parts
}

fn has(node: &Node, line: &str) -> bool {
    node.children.iter().any(|child| child.line == line)
}

fn isis(running: &Config, names: &Names) -> Option<String> {
    let node = running.0.iter().find(|node| node.line.starts_with("router isis "))?;
    let called = node.line.strip_prefix("router isis ")?;
    let net = node.children.iter().find_map(|child| child.line.strip_prefix("net "))?;
    let mut head = format!("[isis]\nnet = {}\n", text(net));
    if called != "main" {
        head += &format!("name = {}\n", text(called));
    }
    let levels = node.children.iter().find_map(|child| child.line.strip_prefix("is-type "));
    let level = match levels {
        Some("level-1") => "1",
        Some("level-2-only") => "2",
        _ => "1-2",
    };
    head += &format!("level = {}\n", text(level));
    let mut own = Vec::new();
    // By family: what is redistributed, and how a default route is told.
    let mut families = BTreeMap::<&str, (Vec<String>, Option<String>)>::new();
    for child in &node.children {
        let words = words(&child.line);
        match words.as_slice() {
            ["set-overload-bit"] => own.push("overload = true".to_owned()),
            ["log-adjacency-changes"] => own.push("log_neighbour_changes = true".to_owned()),
            ["lsp-mtu", bytes] => own.extend(number(bytes).map(|bytes| format!("lsp_mtu = {bytes}"))),
            [key @ ("area-password" | "domain-password"), "md5", secret] => {
                own.push(format!("{} = {}", key.replace('-', "_"), text(secret)));
            }
            // Of levels that say the same one is enough; else the section would say too much.
            ["redistribute", family, from, _, rest @ ..] => {
                let line = format!("redistribute {from} {}", rest.join(" "));
                let entries = &mut families.entry(family).or_default().0;
                let entry = redistributed(line.trim_end(), names);
                entries.extend(entry.filter(|entry| !entries.contains(entry)));
            }
            ["default-information", "originate", family, _, rest @ ..] => {
                let keys = options(rest, names).map(|keys| keys.join(", "));
                families.entry(family).or_default().1 = keys.map(|keys| format!("{{ {keys} }}"));
            }
            _ => {}
        }
    }
    let start = keys(&head, own, running);
    let mut parts = Vec::new();
    for (family, (entries, default)) in families {
        if !entries.is_empty() {
            parts.push(format!("\n[isis.{family}]\nredistribute = [{}]\n", entries.join(", ")));
        }
        if let Some(default) = default {
            let whole = parts.pop().filter(|part| part.starts_with(&format!("\n[isis.{family}]")));
            let whole = whole.unwrap_or_else(|| format!("\n[isis.{family}]\n"));
            parts.push(format!("{whole}default = {default}\n"));
        }
    }
    parts.extend(of_interfaces(
        running,
        "isis",
        &start,
        |_, node| {
            let [four, six] = ["ip", "ipv6"].map(|word| has(node, &format!("{word} router isis {called}")));
            let off = |is: bool, key: &str| if is { String::new() } else { format!("{key} = false\n") };
            (four || six).then(|| off(four, "ipv4") + &off(six, "ipv6"))
        },
        |words, _| {
            Some(match words {
                ["isis", "circuit-type", "level-1"] => "level = \"1\"".to_owned(),
                ["isis", "circuit-type", "level-2-only"] => "level = \"2\"".to_owned(),
                ["isis", "circuit-type", "level-1-2"] => "level = \"1-2\"".to_owned(),
                ["isis", "passive"] => "passive = true".to_owned(),
                ["isis", "bfd"] => "bfd = true".to_owned(),
                ["isis", "network", "point-to-point"] => "point_to_point = true".to_owned(),
                ["isis", key @ ("metric" | "priority"), value] => format!("{key} = {}", number(value)?),
                ["isis", "hello-interval", time] => format!("hello = \"{}s\"", number(time)?),
                ["isis", "hello-multiplier", times] => format!("hello_multiplier = {}", number(times)?),
                ["isis", "password", "md5", secret] => format!("password = {}", text(secret)),
                _ => return None,
            })
        },
    ));
    pieces(&start, parts, running)
}

fn rip(running: &Config, names: &Names, section: &str) -> Option<String> {
    let node = running.context(&format!("router {section}"))?;
    let (mut own, mut redistribute, mut neighbours, mut nets) = (Vec::new(), vec![], vec![], vec![]);
    for child in &node.children {
        match words(&child.line).as_slice() {
            ["default-information", "originate"] => own.push("default = true".to_owned()),
            ["default-metric", metric] => {
                own.extend(number(metric).map(|it| format!("default_metric = {it}")))
            }
            ["redistribute", ..] => redistribute.extend(redistributed(&child.line, names)),
            ["timers", "basic", update, timeout, garbage] => own
                .push(format!("update = \"{update}s\"\ntimeout = \"{timeout}s\"\ngarbage = \"{garbage}s\"")),
            ["neighbor", address] => neighbours.push(*address),
            ["network", net] if net.contains('/') => nets.push(*net),
            _ => {}
        }
    }
    if !redistribute.is_empty() {
        own.push(format!("redistribute = [{}]", redistribute.join(", ")));
    }
    for (key, entries) in [("neighbours", neighbours), ("networks", nets)] {
        own.extend((!entries.is_empty()).then(|| format!("{key} = {}", list(&entries))));
    }
    let start = keys(&format!("[{section}]\n"), own, running);
    let mut parts = Vec::new();
    for it in node.children.iter().filter_map(|child| child.line.strip_prefix("network ")) {
        if it.contains('/') {
            continue;
        }
        let mut part = format!("\n[{section}.interface.{}]\n", name(it));
        if has(node, &format!("passive-interface {it}")) {
            part += "passive = true\n";
        }
        let there = running.context(&format!("interface {it}"));
        let lines = there.map_or(&[][..], |there| &there.children);
        let key = lines.iter().find_map(|line| line.line.strip_prefix("ip rip authentication string "));
        if let Some(key) = key.filter(|_| section == "rip") {
            let digest = there.is_some_and(|there| has(there, "ip rip authentication mode md5"));
            part += &format!("key = {}\n", text(key));
            part += if digest { "" } else { "md5 = false\n" };
        }
        parts.push(part);
    }
    pieces(&start, parts, running)
}

fn pim(running: &Config) -> Option<String> {
    let mut points = BTreeMap::<&str, Vec<&str>>::new();
    let mut head = "[pim]\n".to_owned();
    for node in &running.0 {
        match words(&node.line).as_slice() {
            ["ip", "pim", "rp", point, group] => points.entry(point).or_default().push(group),
            ["ip", "pim", "ssm", "prefix-list", called] => head += &format!("ssm_list = {}\n", text(called)),
            ["ip", "pim", "ecmp"] => head += "ecmp = true\n",
            _ => {}
        }
    }
    for (point, groups) in points {
        head += &format!("rendezvous_point.{} = {{ groups = {} }}\n", text(point), list(&groups));
    }
    let parts = of_interfaces(
        running,
        "pim",
        &head,
        |_, node| {
            let igmp = has(node, "ip igmp");
            let plain = if has(node, "ip pim") { "" } else { "enabled = false\n" };
            let mut keys = Vec::new();
            let mut joined = Vec::new();
            for child in &node.children {
                match words(&child.line).as_slice() {
                    ["ip", "igmp", "version", version] => keys.push(format!("version = {version}")),
                    ["ip", "igmp", "query-interval", time] => {
                        keys.push(format!("query_interval = \"{time}s\""))
                    }
                    ["ip", "igmp", "join", group] => joined.push(*group),
                    _ => {}
                }
            }
            keys.extend((!joined.is_empty()).then(|| format!("join = {}", list(&joined))));
            let keys = keys.join(", ");
            let igmp_keys = if igmp { format!("igmp = {{ {keys} }}\n") } else { String::new() };
            (igmp || plain.is_empty()).then(|| format!("{plain}{igmp_keys}"))
        },
        |words, _| {
            Some(match words {
                ["ip", "pim", "passive"] => "passive = true".to_owned(),
                ["ip", "pim", "bfd"] => "bfd = true".to_owned(),
                ["ip", "pim", "hello", time] => format!("hello = \"{}s\"", number(time)?),
                ["ip", "pim", "drpriority", it] => format!("priority = {}", number(it)?),
                _ => return None,
            })
        },
    );
    // Without an interface there is no section.
    let (first, rest) = parts.split_first()?;
    pieces(&format!("{head}{first}"), rest.to_vec(), running)
}
