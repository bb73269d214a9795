//! Lists and route maps.

use std::collections::BTreeMap;

use ::frr::{Config, Node};

use super::{Names, fits};
use crate::write::{list, name, text};

/// The kinds of lists: how FRR's lines begin, the key, and by what they are named.
const KINDS: [(&str, &str, &str); 9] = [
    ("ip prefix-list ", "prefix_list", "prefix-list"),
    ("ipv6 prefix-list ", "prefix_list", "prefix-list"),
    ("bgp as-path access-list ", "as_path_list", "as-path"),
    ("bgp community-list standard ", "community_list", "community"),
    ("bgp large-community-list standard ", "large_community_list", "large-community"),
    ("bgp extcommunity-list standard ", "extended_community_list", "extended-community"),
    ("bgp community-list expanded ", "community_pattern", "community"),
    ("bgp large-community-list expanded ", "large_community_pattern", "large-community"),
    ("bgp extcommunity-list expanded ", "extended_community_pattern", "extended-community"),
];

/// Whether a line is of a list or a route map.
pub(super) fn is_of_policy(line: &str) -> bool {
    line.starts_with("route-map ") || KINDS.iter().any(|(head, _, _)| line.starts_with(head))
}

/// `[policy]` as far as it can be said, and the names of all that FRR has.
pub(super) fn policy(running: &Config) -> (Option<String>, Names) {
    let mut names = Names::default();
    // By key, then by name: the entries.
    let mut lists: BTreeMap<&str, Vec<(&str, Vec<&str>)>> = BTreeMap::new();
    for (head, key, word) in KINDS {
        for line in running.0.iter().filter_map(|node| node.line.strip_prefix(head)) {
            let Some((called, rest)) = line.split_once(' ') else { continue };
            names.0.insert((word, called.to_owned()));
            let entry =
                rest.strip_prefix("seq ").and_then(|rest| rest.split_once(' ')).map(|(_, entry)| entry);
            let of_key = lists.entry(key).or_default();
            match of_key.last_mut().filter(|(last, _)| *last == called) {
                Some((_, entries)) => entries.extend(entry),
                None => of_key.push((called, entry.into_iter().collect())),
            }
        }
    }
    let mut sections = BTreeMap::<&str, Vec<(&str, String)>>::new();
    for (key, lists) in &lists {
        for (called, entries) in lists {
            let line = format!("{} = {}\n", name(called), list(entries));
            let is_twice = sections.get(key).is_some_and(|all| all.iter().any(|(other, _)| other == called));
            let whole =
                fits(&format!("[policy.{key}]\n{line}"), running) && covers(running, called, entries.len());
            if whole && !is_twice {
                sections.entry(key).or_default().push((called, line));
            }
        }
    }
    let mut maps: Vec<(&str, Vec<&Node>)> = Vec::new();
    for node in running.0.iter().filter(|node| node.line.starts_with("route-map ")) {
        let called = node.line.split(' ').nth(1).unwrap_or_default();
        names.0.insert(("route-map", called.to_owned()));
        match maps.iter_mut().find(|(other, _)| *other == called) {
            Some((_, entries)) => entries.push(node),
            None => maps.push((called, vec![node])),
        }
    }
    let has = |key: &str, called: &str| {
        sections.get(key).is_some_and(|all| all.iter().any(|(other, _)| *other == called))
    };
    let mut written = Vec::new();
    for (called, entries) in maps {
        let map: Option<String> = entries.iter().map(|node| entry(called, node, &has)).collect();
        let Some(map) = map else { continue };
        // What it names is with it.
        let named = sections.iter().map(|(key, lists)| {
            let lists = lists.iter().filter(|(list, _)| map.contains(&text(list)));
            format!("[policy.{key}]\n{}", lists.map(|(_, line)| line.as_str()).collect::<String>())
        });
        if fits(&format!("{}{map}", named.collect::<String>()), running) {
            written.push(map);
        }
    }
    if sections.is_empty() && written.is_empty() {
        return (None, names);
    }
    let mut whole = String::new();
    for (key, lists) in &sections {
        let lines: String = lists.iter().map(|(_, line)| line.as_str()).collect();
        whole += &format!("[policy.{key}]\n{lines}\n");
    }
    whole += &written.join("\n");
    (Some(whole), names)
}

/// Whether a list has no more lines than these entries.
fn covers(running: &Config, called: &str, entries: usize) -> bool {
    let of = |head: &str| {
        let start = format!("{head}{called} ");
        running.0.iter().filter(|node| node.line.starts_with(&start)).count()
    };
    KINDS.iter().any(|(head, _, _)| of(head) == entries)
}

/// A list of one kind or of its patterns, which FRR names alike.
fn either(
    has: &impl Fn(&str, &str) -> bool,
    list: &'static str,
    pattern: &'static str,
    called: &str,
) -> Option<String> {
    (has(list, called) || has(pattern, called)).then(|| format!("{list} = {}", text(called)))
}

/// An entry of a route map, if all of it can be said.
fn entry(called: &str, node: &Node, has: &impl Fn(&str, &str) -> bool) -> Option<String> {
    let words: Vec<&str> = node.line.split(' ').collect();
    let [_, _, action @ ("permit" | "deny"), seq] = words.as_slice() else { return None };
    let (mut matches, mut sets, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for child in &node.children {
        let words: Vec<&str> = child.line.split(' ').collect();
        match words.as_slice() {
            ["match", words @ ..] => matches.push(matched(words, has)?),
            ["set", words @ ..] => sets.push(set(words, has)?),
            ["description", rest @ ..] => lines.push(format!("description = {}", text(&rest.join(" ")))),
            ["on-match", "next"] => lines.push("on_match = \"next\"".to_owned()),
            ["on-match", "goto", entry] => lines.push(format!("on_match = {}", super::number(entry)?)),
            _ => return None,
        }
    }
    let mut all = vec![format!("[[policy.route_map.{}]]\nseq = {seq}", name(called))];
    if *action == "deny" {
        all.push("action = \"deny\"".to_owned());
    }
    all.extend(lines);
    for (key, found) in [("match", matches), ("set", sets)] {
        if !found.is_empty() {
            all.push(format!("{key} = {{ {} }}", found.join(", ")));
        }
    }
    Some(all.join("\n") + "\n")
}

/// What an entry matches: the words behind `match`, as a key with its value.
fn matched(words: &[&str], has: &impl Fn(&str, &str) -> bool) -> Option<String> {
    let known =
        |key: &'static str, called: &str| has(key, called).then(|| format!("{key} = {}", text(called)));
    Some(match words {
        ["ip" | "ipv6", "address", "prefix-list", list] => known("prefix_list", list)?,
        ["ip" | "ipv6", "next-hop", "prefix-list", list] => {
            known("prefix_list", list)?.replacen("prefix_list", "next_hop_list", 1)
        }
        ["ip", "route-source", "prefix-list", list] => {
            known("prefix_list", list)?.replacen("prefix_list", "route_source_list", 1)
        }
        ["ip" | "ipv6", "next-hop", "address", hop] => format!("next_hop = {}", text(hop)),
        ["extcommunity", list] => either(has, "extended_community_list", "extended_community_pattern", list)?,
        ["source-vrf", vrf] => format!("source_vrf = {}", text(vrf)),
        ["source-protocol", from] => format!("source_protocol = {}", text(from)),
        ["rpki", state] => format!("rpki = {}", text(state)),
        ["origin", origin] => format!("origin = {}", text(origin)),
        ["probability", value] => format!("probability = {}", super::number(value)?),
        ["local-preference", value] => format!("local_preference = {}", super::number(value)?),
        ["as-path", list] => known("as_path_list", list)?,
        ["community", list] => either(has, "community_list", "community_pattern", list)?,
        ["large-community", list] => either(has, "large_community_list", "large_community_pattern", list)?,
        [key @ ("interface" | "peer"), value] => {
            let key = if *key == "peer" { "neighbour" } else { key };
            format!("{key} = {}", text(value))
        }
        [key @ ("tag" | "metric"), value] => format!("{key} = {}", super::number(value)?),
        _ => return None,
    })
}

/// What an entry sets: the words behind `set`, as a key with its value.
fn set(words: &[&str], has: &impl Fn(&str, &str) -> bool) -> Option<String> {
    Some(match words {
        ["local-preference", value] => format!("local_preference = {}", super::number(value)?),
        [key @ ("metric" | "weight" | "tag" | "distance" | "table"), value] => {
            format!("{key} = {}", super::number(value)?)
        }
        ["origin", value] => format!("origin = {}", text(value)),
        ["metric-type", value] => format!("metric_type = {}", super::number(value.strip_prefix("type-")?)?),
        ["ip", "next-hop", hop] | ["ipv6", "next-hop", "global", hop] => format!("next_hop = {}", text(hop)),
        ["ipv6", "next-hop", "local", hop] => format!("next_hop_local = {}", text(hop)),
        ["ipv6", "next-hop", word] => format!("next_hop_ipv6 = {}", text(word)),
        ["src", source] => format!("source = {}", text(source)),
        ["originator-id", id] => format!("originator_id = {}", text(id)),
        ["atomic-aggregate"] => "atomic_aggregate = true".to_owned(),
        ["comm-list", called, "delete"] => {
            either(has, "community_list", "community_pattern", called)?;
            format!("delete_communities = {}", text(called))
        }
        ["large-comm-list", called, "delete"] => {
            either(has, "large_community_list", "large_community_pattern", called)?;
            format!("delete_large_communities = {}", text(called))
        }
        ["extcommunity", kind @ ("rt" | "soo"), values @ ..] => {
            let key = if *kind == "rt" { "route_targets" } else { "site_of_origin" };
            format!("{key} = {}", list(values))
        }
        ["as-path", "prepend", "last-as", times] => {
            format!("as_path_prepend_last = {}", super::number(times)?)
        }
        ["as-path", "exclude", path @ ..] => {
            let path: Option<Vec<String>> = path.iter().map(|asn| super::number(asn)).collect();
            format!("as_path_exclude = [{}]", path?.join(", "))
        }
        ["as-path", "prepend", path @ ..] => {
            let path: Option<Vec<String>> = path.iter().map(|asn| super::number(asn)).collect();
            format!("as_path_prepend = [{}]", path?.join(", "))
        }
        [kind @ ("community" | "large-community"), values @ ..] => {
            let key = kind.replace('-', "_");
            let (key, values) = match values {
                ["none"] => (key, &[][..]),
                [values @ .., "additive"] => (format!("add_{key}"), values),
                values => (key, values),
            };
            format!("{key} = {}", list(values))
        }
        _ => return None,
    })
}
