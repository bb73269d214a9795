//! `[[policy.route_map.NAME]]`: entries of route maps, as lines of FRR's.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

use super::communities::{communities, large_communities};
use super::family::Family;
use super::policy::{List, ListKind, RouteMap, RouteMapEntry};
use super::route_target::RouteTarget;
use super::words::{LINE, PROTOCOLS, Used, Uses, items, line, number_or};
use crate::interface::interface_name;
use crate::mistake::{Hint, Page};
use crate::section::{Section, kind as kind_of, number_of};

pub(super) fn route_map(
    page: &mut Page,
    name: &str,
    at: Range<usize>,
    items: &[&Spanned<DeValue>],
    lists: &[List],
    uses: &mut Uses,
) -> Option<RouteMap> {
    if items.is_empty() {
        let expected = "[[policy.route_map.NAME]], once for each entry";
        page.wrong(at, format!("route_map {name} has no entries"), Hint::expected(expected));
        return None;
    }
    let mut entries: Vec<RouteMapEntry> = Vec::new();
    for item in items {
        let DeValue::Table(table) = item.get_ref() else {
            let message = format!("route_map {name} cannot have {}", kind_of(item.get_ref()));
            page.wrong(item.span(), message, Hint::expected("[[policy.route_map.NAME]] sections"));
            continue;
        };
        let title = format!("[[policy.route_map.{name}]]");
        let mut keys = Section::new(title, item.span(), table);
        let usual = entries.last().map_or(10, |last| u64::from(last.seq) + 10);
        let seq = keys.number(page, "seq", 1..=65_535).unwrap_or(usual.min(65_535)) as u16;
        if let Some(last) = entries.last().filter(|last| last.seq >= seq) {
            let at = keys.value("seq").map_or(item.span(), Spanned::span);
            let message = format!("seq {seq} comes after {}", last.seq);
            page.wrong(at, message, Hint::expected("numbers that go up"));
        }
        let permit = keys.choice(page, "action", &[("permit", true), ("deny", false)]).unwrap_or(true);
        let mut lines = Vec::new();
        if let Some(found) = keys.text(page, "description", LINE, line) {
            lines.push(format!("description {}", found.value));
        }
        if let Some(inner) = keys.section(page, "match", "match") {
            matches(page, inner, lists, uses, &mut lines);
        }
        if let Some(inner) = keys.section(page, "set", "set") {
            sets(page, inner, uses, &mut lines);
        }
        if let Some(name) = uses.name(page, &mut keys, "call", Used::RouteMap) {
            lines.push(format!("call {name}"));
        }
        let next = number_or(page, &mut keys, "on_match", 2..=65_535, &[("next", 0)], |number| number);
        if let Some(to) = next.filter(|to| (1..=u64::from(seq)).contains(to)) {
            let at = keys.value("on_match").map_or(item.span(), Spanned::span);
            page.wrong(at, format!("on_match goes back from {seq} to {to}"), Hint::expected("a later entry"));
        }
        if next.is_some() && !permit {
            let at = keys.value("on_match").map_or(item.span(), Spanned::span);
            page.wrong(at, "an entry that denies goes nowhere", Hint::expected("no on_match"));
        }
        lines.extend(next.map(|to| match to {
            0 => "on-match next".to_owned(),
            to => format!("on-match goto {to}"),
        }));
        keys.finish(page);
        entries.push(RouteMapEntry { seq, permit, lines });
    }
    Some(RouteMap { name: name.to_owned(), entries })
}

/// Whether a prefix list is of IPv6.
fn is_six(lists: &[List], name: &str) -> bool {
    lists.iter().any(|list| list.name == name && list.kind == ListKind::Prefixes(Family::Ipv6))
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is no address"))
}

const U32: u64 = u32::MAX as u64;

fn matches(page: &mut Page, mut keys: Section, lists: &[List], uses: &mut Uses, lines: &mut Vec<String>) {
    for (key, word) in [("prefix_list", "address"), ("next_hop_list", "next-hop")] {
        if let Some(name) = uses.name(page, &mut keys, key, Used::PrefixList(None)) {
            let family = if is_six(lists, &name) { "ipv6" } else { "ip" };
            lines.push(format!("match {family} {word} prefix-list {name}"));
        }
    }
    let source = Used::PrefixList(Some(Family::Ipv4));
    let source = uses.name(page, &mut keys, "route_source_list", source);
    lines.extend(source.map(|name| format!("match ip route-source prefix-list {name}")));
    let hop = keys.text(page, "next_hop", "an address", address);
    lines.extend(hop.map(|found| match found.value {
        IpAddr::V4(hop) => format!("match ip next-hop address {hop}"),
        IpAddr::V6(hop) => format!("match ipv6 next-hop address {hop}"),
    }));
    for (key, kind, word) in [
        ("as_path_list", ListKind::AsPath, "as-path"),
        ("community_list", ListKind::Community, "community"),
        ("large_community_list", ListKind::LargeCommunity, "large-community"),
        ("extended_community_list", ListKind::ExtendedCommunity, "extcommunity"),
    ] {
        let name = uses.name(page, &mut keys, key, Used::List(kind));
        lines.extend(name.map(|name| format!("match {word} {name}")));
    }
    for (key, word) in [("interface", "interface"), ("source_vrf", "source-vrf")] {
        let found = keys.text(page, key, "the name of an interface", interface_name);
        lines.extend(found.map(|found| format!("match {word} {}", found.value)));
    }
    for (key, least, most, word) in [
        ("tag", 1, U32, "tag"),
        ("metric", 0, U32, "metric"),
        ("local_preference", 0, U32, "local-preference"),
        ("probability", 0, 100, "probability"),
    ] {
        let number = keys.number(page, key, least..=most);
        lines.extend(number.map(|number| format!("match {word} {number}")));
    }
    let peer = keys.text(page, "neighbour", "the address of a neighbour, or \"local\"", |text| match text {
        "local" => Ok(text.to_owned()),
        other => address(other).map(|it| it.to_string()),
    });
    lines.extend(peer.map(|found| format!("match peer {}", found.value)));
    let origin = keys.choice(page, "origin", &ORIGINS);
    lines.extend(origin.map(|origin| format!("match origin {origin}")));
    let from = keys.choice(page, "source_protocol", &PROTOCOLS);
    lines.extend(from.map(|from| format!("match source-protocol {from}")));
    let states = [("valid", "valid"), ("invalid", "invalid"), ("notfound", "notfound")];
    let state = keys.choice(page, "rpki", &states);
    lines.extend(state.map(|state| format!("match rpki {state}")));
    keys.finish(page);
}

const ORIGINS: [(&str, &str); 3] = [("igp", "igp"), ("egp", "egp"), ("incomplete", "incomplete")];

fn sets(page: &mut Page, mut keys: Section, uses: &mut Uses, lines: &mut Vec<String>) {
    for (key, least, most, word) in [
        ("local_preference", 0, U32, "local-preference"),
        ("metric", 0, U32, "metric"),
        ("weight", 0, U32, "weight"),
        ("tag", 1, U32, "tag"),
        ("distance", 1, 255, "distance"),
        ("table", 1, U32, "table"),
    ] {
        let number = keys.number(page, key, least..=most);
        lines.extend(number.map(|number| format!("set {word} {number}")));
    }
    let origin = keys.choice(page, "origin", &ORIGINS);
    lines.extend(origin.map(|origin| format!("set origin {origin}")));
    let kind = keys.number(page, "metric_type", 1..=2);
    lines.extend(kind.map(|kind| format!("set metric-type type-{kind}")));
    next_hops(page, &mut keys, lines);
    let source = keys.text(page, "source", "an address", address);
    lines.extend(source.map(|found| format!("set src {}", found.value)));
    let originator = keys.text(page, "originator_id", "a number in the form of an IPv4 address", |text| {
        text.parse::<Ipv4Addr>().map_err(|_| format!("{text:?} is no router id"))
    });
    lines.extend(originator.map(|found| format!("set originator-id {}", found.value)));
    if keys.flag(page, "atomic_aggregate") == Some(true) {
        lines.push("set atomic-aggregate".to_owned());
    }
    let last = keys.number(page, "as_path_prepend_last", 1..=10);
    let path = systems(page, &mut keys, "as_path_prepend");
    if let (Some(_), false) = (last, path.is_empty()) {
        let at = keys.value("as_path_prepend_last").map_or(keys.at.clone(), Spanned::span);
        let message = "as_path_prepend and as_path_prepend_last exclude each other";
        page.wrong(at, message, Hint::expected("one of them"));
    }
    lines.extend(last.map(|times| format!("set as-path prepend last-as {times}")));
    for (word, path) in [("prepend", path), ("exclude", systems(page, &mut keys, "as_path_exclude"))] {
        if !path.is_empty() {
            lines.push(format!("set as-path {word} {}", path.join(" ")));
        }
    }
    set_communities(page, &mut keys, lines);
    for (key, kind, word) in [
        ("delete_communities", ListKind::Community, "comm-list"),
        ("delete_large_communities", ListKind::LargeCommunity, "large-comm-list"),
    ] {
        let name = uses.name(page, &mut keys, key, Used::List(kind));
        lines.extend(name.map(|name| format!("set {word} {name} delete")));
    }
    keys.finish(page);
}

fn next_hops(page: &mut Page, keys: &mut Section, lines: &mut Vec<String>) {
    const HOP: &str = "an address, \"peer-address\" or \"unchanged\"";
    let hop = keys.text(page, "next_hop", HOP, |text| match text {
        "peer-address" | "unchanged" => Ok(format!("set ip next-hop {text}")),
        other => address(other).map(|hop| match hop {
            IpAddr::V4(hop) => format!("set ip next-hop {hop}"),
            IpAddr::V6(hop) => format!("set ipv6 next-hop global {hop}"),
        }),
    });
    lines.extend(hop.map(|found| found.value));
    let words = [("peer-address", "peer-address"), ("prefer-global", "prefer-global")];
    let six = keys.choice(page, "next_hop_ipv6", &words);
    lines.extend(six.map(|word| format!("set ipv6 next-hop {word}")));
    let local = keys.text(page, "next_hop_local", "a link-local address", |text| match address(text)? {
        IpAddr::V6(local) if local.is_unicast_link_local() => Ok(local),
        _ => Err(format!("{text:?} is not link-local")),
    });
    lines.extend(local.map(|found| format!("set ipv6 next-hop local {}", found.value)));
}

/// A list of AS numbers.
fn systems(page: &mut Page, keys: &mut Section, key: &'static str) -> Vec<String> {
    let number = |value: &DeValue| match value {
        DeValue::String(text) => text.parse().ok(),
        other => number_of(other),
    };
    items(page, keys, key, "a list of AS numbers", |page: &mut Page, item: &Spanned<DeValue>| {
        match number(item.get_ref()) {
            Some(number @ 1..=0xffff_ffff) => Some(number.to_string()),
            _ => {
                let hint = Hint::expected("a list of AS numbers, such as [65001, 65001]");
                page.wrong(item.span(), "this is no AS number", hint);
                None
            }
        }
    })
}

fn set_communities(page: &mut Page, keys: &mut Section, lines: &mut Vec<String>) {
    const SMALL: &str = "a list of communities, such as [\"65001:100\", \"no-export\"]";
    const LARGE: &str = "a list of large communities, such as [\"65001:1:100\"]";
    for (keys_of, word, expected, shown) in [
        (["community", "add_community"], "community", SMALL, small as fn(&[String]) -> _),
        (["large_community", "add_large_community"], "large-community", LARGE, large),
    ] {
        let [whole, added] = keys_of.map(|key| {
            let list =
                keys.texts(page, key, expected, |text| shown(&[text.to_owned()]).map(|_| text.to_owned()));
            list.map(|list| shown(&list).ok())
        });
        if let (Some(_), Some(_), Some(at)) = (&whole, &added, keys.value(keys_of[1]).map(Spanned::span)) {
            let message = format!("{} and {} exclude each other", keys_of[0], keys_of[1]);
            page.wrong(at, message, Hint::expected("one of them"));
        }
        // An empty list takes all away.
        lines.extend(whole.map(|list| format!("set {word} {}", list.unwrap_or_else(|| "none".to_owned()))));
        lines.extend(added.flatten().map(|list| format!("set {word} {list} additive")));
    }
    for (key, word) in [("route_targets", "rt"), ("site_of_origin", "soo")] {
        let expected = "a list of numbers, such as [\"65001:100\"]";
        let list = keys.texts(page, key, expected, RouteTarget::read).map(RouteTarget::several);
        if let Some(list) = list.filter(|list| !list.is_empty()) {
            let list: Vec<String> = list.iter().map(ToString::to_string).collect();
            lines.push(format!("set extcommunity {word} {}", list.join(" ")));
        }
    }
}

fn small(words: &[String]) -> Result<String, String> {
    communities(words.iter().map(String::as_str))
}

fn large(words: &[String]) -> Result<String, String> {
    large_communities(words.iter().map(String::as_str))
}
