//! `router ospf`, `router ospf6`, and what they have of interfaces.

use std::collections::BTreeMap;

use ::frr::{Config, Node};

use super::{Names, keys, number, options, pieces, redistributed};
use crate::write::{name, text};

/// `[ospf]` and `[ospf6]`.
pub(super) fn ospf(running: &Config, names: &Names) -> Vec<String> {
    [("ospf", "ip ospf "), ("ospf6", "ipv6 ospf6 ")]
        .into_iter()
        .filter_map(|(section, head)| one(running, names, section, head))
        .collect()
}

fn one(running: &Config, names: &Names, section: &str, head: &str) -> Option<String> {
    let of = |node: &&Node| node.line.starts_with("router ospf") || node.line.starts_with("interface ");
    let running = &Config(running.0.iter().filter(of).cloned().collect());
    let main = table(running, names, section, section, head, None)?;
    let mut whole = main;
    let vrfs = running.0.iter().filter_map(|node| node.line.strip_prefix(&format!("router {section} vrf ")));
    for vrf in vrfs {
        let title = format!("{section}.vrf.{}", name(vrf));
        whole += &table(running, names, section, &title, head, Some((vrf, &whole))).unwrap_or_default();
    }
    Some(whole + "\n")
}

/// OSPF of a table; of a VRF with what comes before it.
fn table(
    running: &Config,
    names: &Names,
    section: &str,
    title: &str,
    head: &str,
    vrf: Option<(&str, &str)>,
) -> Option<String> {
    let of_vrf = vrf.map_or_else(String::new, |(vrf, _)| format!(" vrf {vrf}"));
    let before = vrf.map_or("", |(_, before)| before);
    let node = running.context(&format!("router {section}{of_vrf}"))?;
    let mut own = Vec::new();
    let mut redistribute = Vec::new();
    let (mut default, mut areas) = (None, BTreeMap::<&str, (Option<&str>, Vec<&str>)>::new());
    for child in &node.children {
        let words: Vec<&str> = child.line.split(' ').collect();
        match words.as_slice() {
            [word, "router-id", id] if *word == section => own.push(format!("router_id = {}", text(id))),
            ["auto-cost", "reference-bandwidth", rate] => {
                own.extend(number(rate).map(|rate| format!("reference_bandwidth = {rate}")));
            }
            ["redistribute", ..] => redistribute.extend(redistributed(&child.line, names)),
            ["default-information", "originate", rest @ ..] => default = options(rest, names),
            ["area", area, "range", prefix] => areas.entry(area).or_default().1.push(prefix),
            ["area", area, kind @ ..] => {
                let kind = match kind {
                    ["stub"] => "stub",
                    ["stub", "no-summary"] => "totally-stub",
                    ["nssa"] => "nssa",
                    _ => continue,
                };
                areas.entry(area).or_default().0 = Some(kind);
            }
            _ => {}
        }
    }
    if !redistribute.is_empty() {
        own.push(format!("redistribute = [{}]", redistribute.join(", ")));
    }
    let mut parts = Vec::new();
    parts.extend(default.map(|keys| {
        let keys: String = keys.iter().map(|key| format!("{key}\n")).collect();
        format!("\n[{title}.default]\n{keys}")
    }));
    for (area, (kind, ranges)) in areas {
        let mut lines = vec![format!("\n[{title}.area.{}]", text(area))];
        lines.extend(kind.map(|kind| format!("kind = {}", text(kind))));
        if !ranges.is_empty() {
            lines.push(format!("ranges = {}", crate::write::list(&ranges)));
        }
        parts.push(lines.join("\n") + "\n");
    }
    let gap = if before.is_empty() { "" } else { "\n" };
    let start = keys(&format!("{before}{gap}[{title}]\n"), own, running);
    // FRR does not say of which VRF an interface is: it stays with the main table.
    let interfaces = running.0.iter().filter(|node| vrf.is_none() && node.line.starts_with("interface "));
    parts.extend(interfaces.filter_map(|it| interface(it, section, head, &start, running)));
    pieces(&start, parts, running).map(|text| text[before.len()..].to_owned())
}

fn interface(node: &Node, section: &str, head: &str, start: &str, running: &Config) -> Option<String> {
    let it = node.line.strip_prefix("interface ")?;
    let lines: Vec<&str> = node.children.iter().filter_map(|child| child.line.strip_prefix(head)).collect();
    let area = lines.iter().find_map(|line| line.strip_prefix("area "))?;
    let mut text_of = format!("\n[{section}.interface.{}]\narea = {}\n", name(it), text(area));
    let mut found = Vec::new();
    let digest: Vec<&&str> = lines.iter().filter(|line| line.starts_with("message-digest-key ")).collect();
    for line in &lines {
        let words: Vec<&str> = line.split(' ').collect();
        found.extend(match words.as_slice() {
            ["cost", cost] => number(cost).map(|cost| format!("cost = {cost}")),
            ["priority", number_] => number(number_).map(|number| format!("priority = {number}")),
            ["network", kind] => Some(format!("network = {}", text(kind))),
            ["passive"] => Some("passive = true".to_owned()),
            ["bfd"] => Some("bfd = true".to_owned()),
            ["message-digest-key", id, "md5", key] if digest.len() == 1 => {
                number(id).map(|id| format!("authentication = {{ key_id = {id}, key = {} }}", text(key)))
            }
            ["authentication-key", key] if digest.is_empty() => {
                Some(format!("authentication = {{ key = {} }}", text(key)))
            }
            _ => None,
        });
    }
    let time = |key: &str| {
        let word = format!("{key}-interval ");
        let found = lines.iter().find_map(|line| line.strip_prefix(&word)).and_then(number);
        found.map(|time| format!("{key} = \"{time}s\"\n")).unwrap_or_default()
    };
    // One may not do without the other.
    let times = time("hello") + &time("dead");
    found.extend((!times.is_empty()).then(|| times.trim_end().to_owned()));
    for key in found {
        if super::fits(&format!("{start}{text_of}{key}\n"), running) {
            text_of += &format!("{key}\n");
        }
    }
    Some(text_of)
}
