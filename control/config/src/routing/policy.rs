//! `[policy]`: prefix lists, lists of AS paths and communities, and route maps.

use std::net::IpAddr;
use std::ops::Range;

use ipnet::IpNet;
use toml::Spanned;
use toml::de::DeValue;

use super::words::{LINE, Used, Uses, items, line, name, prefix};
use crate::interface::interface_name;
use crate::mistake::{Hint, Page};
use crate::section::{Section, kind as kind_of, number_of};

/// Lists and route maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Lists, by kind and name.
    pub lists: Vec<List>,
    /// Route maps, by name.
    pub route_maps: Vec<RouteMap>,
}

/// One of the two families of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// Both, in the order of arrays.
    pub const BOTH: [Family; 2] = [Family::Ipv4, Family::Ipv6];

    /// The key of a section.
    pub fn key(self) -> &'static str {
        match self {
            Family::Ipv4 => "ipv4",
            Family::Ipv6 => "ipv6",
        }
    }

    /// As people write it.
    pub fn word(self) -> &'static str {
        match self {
            Family::Ipv4 => "IPv4",
            Family::Ipv6 => "IPv6",
        }
    }

    /// Whether a prefix is of it.
    pub fn has(self, net: &IpNet) -> bool {
        matches!((self, net), (Family::Ipv4, IpNet::V4(_)) | (Family::Ipv6, IpNet::V6(_)))
    }
}

/// What a list is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// Prefixes of a family.
    Prefixes(Family),
    /// Regular expressions of AS paths.
    AsPath,
    /// Communities (RFC 1997).
    Community,
    /// Large communities (RFC 8092).
    LargeCommunity,
}

/// A list: the first entry that matches decides; what none matches is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// What it is of.
    pub kind: ListKind,
    /// Its name.
    pub name: String,
    /// What each permits or denies, in the form in which FRR shows it.
    pub entries: Vec<String>,
}

/// A route map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteMap {
    /// Its name.
    pub name: String,
    /// By their numbers.
    pub entries: Vec<RouteMapEntry>,
}

/// An entry of a route map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteMapEntry {
    /// Its place.
    pub seq: u16,
    /// Whether what it matches passes.
    pub permit: bool,
    /// What it must match and what it sets, as lines of FRR's.
    pub lines: Vec<String>,
}

pub(super) fn policy(page: &mut Page, mut section: Section, uses: &mut Uses) -> Policy {
    let mut lists = Vec::new();
    let kinds: [(&str, ReadEntry); 4] = [
        ("prefix_list", prefix_entry),
        ("as_path_list", as_path_entry),
        ("community_list", community_entry),
        ("large_community_list", large_entry),
    ];
    for (key, read) in kinds {
        for (name, at, entries) in arrays(page, &mut section, key) {
            lists.extend(list(page, key, name, at, &entries, read));
        }
    }
    let mut route_maps = Vec::new();
    for (name, at, entries) in arrays(page, &mut section, "route_map") {
        route_maps.extend(route_map(page, name, at, &entries, &lists, uses));
    }
    section.finish(page);
    Policy { lists, route_maps }
}

/// What a list that has it is of, and its form; or what is wrong.
type Read = Result<(ListKind, String), String>;
/// How an entry of a list is read.
type ReadEntry = fn(&str) -> Read;
/// An array's name, where it stands, and what it has.
type Named<'a> = (&'a str, Range<usize>, Vec<&'a Spanned<DeValue<'a>>>);

/// Every array of a table.
fn arrays<'a>(page: &mut Page, section: &mut Section<'a>, key: &'static str) -> Vec<Named<'a>> {
    let Some(value) = section.value(key) else { return Vec::new() };
    let expected = match key {
        "route_map" => "[[policy.route_map.NAME]], once for each entry".to_owned(),
        _ => format!("[policy.{key}], and in it NAME = [\"permit ...\"]"),
    };
    let DeValue::Table(table) = value.get_ref() else {
        let message = format!("{key} cannot be {}", kind_of(value.get_ref()));
        page.wrong(value.span(), message, Hint::expected(expected));
        return Vec::new();
    };
    let mut found = Vec::new();
    for (title, value) in table {
        if let Err(wrong) = name(title.get_ref()) {
            page.wrong(title.span(), wrong, Hint::expected("a name"));
            continue;
        }
        match value.get_ref() {
            DeValue::Array(list) => {
                found.push((title.get_ref().as_ref(), title.span(), list.iter().collect()));
            }
            other => {
                let message = format!("{key} {} cannot be {}", title.get_ref(), kind_of(other));
                page.wrong(value.span(), message, Hint::expected(expected.clone()));
            }
        }
    }
    found
}

fn list(
    page: &mut Page,
    key: &str,
    name: &str,
    at: Range<usize>,
    items: &[&Spanned<DeValue>],
    read: ReadEntry,
) -> Option<List> {
    let expected = match key {
        "prefix_list" => "such as \"permit 192.0.2.0/24\", \"deny 10.0.0.0/8 ge 9 le 24\"",
        "as_path_list" => "such as \"permit ^65002_\"",
        "community_list" => "such as \"permit 65001:100 no-export\"",
        _ => "such as \"permit 65001:1:100\"",
    };
    if items.is_empty() {
        page.wrong(at, format!("{key} {name} has no entries"), Hint::expected(expected));
        return None;
    }
    let mut found: Option<List> = None;
    for item in items {
        let text = match item.get_ref() {
            DeValue::String(text) => text.as_ref(),
            other => {
                let message = format!("{key} {name} cannot have {}", kind_of(other));
                page.wrong(item.span(), message, Hint::expected(expected));
                continue;
            }
        };
        let (kind, entry) = match read(text) {
            Ok(read) => read,
            Err(wrong) => {
                page.wrong(item.span(), format!("{key} {name}: {wrong}"), Hint::expected(expected));
                continue;
            }
        };
        let list = found.get_or_insert_with(|| List { kind, name: name.to_owned(), entries: Vec::new() });
        if list.kind != kind {
            let message = format!("{key} {name} has prefixes of both families");
            page.wrong(item.span(), message, Hint::expected("a list for each family"));
        } else if list.entries.contains(&entry) {
            let message = format!("{key} {name} has {entry:?} twice");
            page.wrong(item.span(), message, Hint::expected("each entry once"));
        } else {
            list.entries.push(entry);
        }
    }
    found
}

/// `permit` or `deny`, and the rest.
fn action(text: &str) -> Result<(&str, &str), String> {
    let (action, rest) = text.split_once(' ').unwrap_or((text, ""));
    match matches!(action, "permit" | "deny") && !rest.is_empty() {
        true => Ok((action, rest)),
        false => Err(format!("{text:?} does not say permit or deny, and what")),
    }
}

fn prefix_entry(text: &str) -> Read {
    let (action, rest) = action(text)?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let net = prefix(words.first().copied().unwrap_or_default())?;
    let (family, most) = match net {
        IpNet::V4(_) => (Family::Ipv4, 32),
        IpNet::V6(_) => (Family::Ipv6, 128),
    };
    let (mut ge, mut le) = (None, None);
    for pair in words[1..].chunks(2) {
        let (place, number) = match pair {
            ["ge", number] => (&mut ge, number.parse::<u8>().ok()),
            ["le", number] => (&mut le, number.parse::<u8>().ok()),
            _ => return Err(format!("{text:?} has more than ge and le behind the prefix")),
        };
        if number.is_none() || place.is_some() {
            return Err(format!("{text:?} has no length, or two, behind ge or le"));
        }
        *place = number;
    }
    let (least, longest) = (ge.unwrap_or(net.prefix_len() + 1), le.unwrap_or(most));
    if (ge.is_some() || le.is_some()) && !(net.prefix_len() < least && least <= longest && longest <= most) {
        return Err(format!("{text:?}: the length, ge and le go up, to {most} at most"));
    }
    let mut entry = format!("{action} {net}");
    ge.iter().for_each(|ge| entry += &format!(" ge {ge}"));
    // As FRR shows it: with ge, le 32 goes without saying.
    le.filter(|le| ge.is_none() || *le != most).iter().for_each(|le| entry += &format!(" le {le}"));
    Ok((ListKind::Prefixes(family), entry))
}

fn as_path_entry(text: &str) -> Read {
    let (action, rest) = action(text)?;
    let rest = line(rest).map_err(|_| format!("{text:?} is longer than 80 letters, or has odd ones"))?;
    Ok((ListKind::AsPath, format!("{action} {rest}")))
}

fn community_entry(text: &str) -> Read {
    let (action, rest) = action(text)?;
    let list = communities(rest.split_whitespace())?;
    Ok((ListKind::Community, format!("{action} {list}")))
}

fn large_entry(text: &str) -> Read {
    let (action, rest) = action(text)?;
    let list = large_communities(rest.split_whitespace())?;
    Ok((ListKind::LargeCommunity, format!("{action} {list}")))
}

/// Names of communities, and their values.
const WELL_KNOWN: [(&str, u32); 5] = [
    ("graceful-shutdown", 0xffff_0000),
    ("blackhole", 0xffff_029a),
    ("no-export", 0xffff_ff01),
    ("no-advertise", 0xffff_ff02),
    ("local-AS", 0xffff_ff03),
];

/// Communities as FRR shows them: each once, by value.
fn communities<'t>(words: impl Iterator<Item = &'t str>) -> Result<String, String> {
    let value = |word: &str| {
        let known = WELL_KNOWN.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
        known.or_else(|| {
            let (high, low) = word.split_once(':')?;
            Some(u32::from(half(high)?) << 16 | u32::from(half(low)?))
        })
    };
    let mut values = Vec::new();
    for word in words {
        values.push(value(word).ok_or_else(|| format!("{word:?} is no community"))?);
    }
    values.sort_unstable();
    values.dedup();
    if values.is_empty() {
        return Err("there is no community".to_owned());
    }
    let shown = |value: &u32| {
        let known = WELL_KNOWN.iter().find(|(_, known)| known == value);
        known.map_or_else(|| format!("{}:{}", value >> 16, value & 0xffff), |(name, _)| (*name).to_owned())
    };
    Ok(values.iter().map(shown).collect::<Vec<_>>().join(" "))
}

fn half(text: &str) -> Option<u16> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// Large communities as FRR shows them.
fn large_communities<'t>(words: impl Iterator<Item = &'t str>) -> Result<String, String> {
    let mut values = Vec::new();
    for word in words {
        let parts: Option<Vec<u32>> =
            word.split(':').map(|part| part.parse().ok().filter(|_| !part.starts_with('+'))).collect();
        match parts {
            Some(parts) if parts.len() == 3 => values.push(parts),
            _ => return Err(format!("{word:?} is no large community")),
        }
    }
    values.sort_unstable();
    values.dedup();
    if values.is_empty() {
        return Err("there is no large community".to_owned());
    }
    let shown = |parts: &Vec<u32>| format!("{}:{}:{}", parts[0], parts[1], parts[2]);
    Ok(values.iter().map(shown).collect::<Vec<_>>().join(" "))
}

fn route_map(
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
            sets(page, inner, &mut lines);
        }
        if keys.choice(page, "on_match", &[("next", ())]).is_some() {
            lines.push("on-match next".to_owned());
        }
        keys.finish(page);
        entries.push(RouteMapEntry { seq, permit, lines });
    }
    Some(RouteMap { name: name.to_owned(), entries })
}

fn matches(page: &mut Page, mut keys: Section, lists: &[List], uses: &mut Uses, lines: &mut Vec<String>) {
    let mut named = |page: &mut Page, keys: &mut Section, key, used| uses.name(page, keys, key, used);
    if let Some(name) = named(page, &mut keys, "prefix_list", Used::PrefixList(None)) {
        let is_six = |list: &List| list.name == name && list.kind == ListKind::Prefixes(Family::Ipv6);
        let family = if lists.iter().any(is_six) { "ipv6" } else { "ip" };
        lines.push(format!("match {family} address prefix-list {name}"));
    }
    for (key, kind, word) in [
        ("as_path_list", ListKind::AsPath, "as-path"),
        ("community_list", ListKind::Community, "community"),
        ("large_community_list", ListKind::LargeCommunity, "large-community"),
    ] {
        let name = named(page, &mut keys, key, Used::List(kind));
        lines.extend(name.map(|name| format!("match {word} {name}")));
    }
    let interface = keys.text(page, "interface", "the name of an interface", interface_name);
    lines.extend(interface.map(|found| format!("match interface {}", found.value)));
    let tag = keys.number(page, "tag", 1..=u64::from(u32::MAX));
    lines.extend(tag.map(|tag| format!("match tag {tag}")));
    let metric = keys.number(page, "metric", 0..=u64::from(u32::MAX));
    lines.extend(metric.map(|metric| format!("match metric {metric}")));
    let peer = keys.text(page, "neighbour", "the address of a neighbour", |text| {
        text.parse::<IpAddr>().map_err(|_| format!("{text:?} is no address"))
    });
    lines.extend(peer.map(|found| format!("match peer {}", found.value)));
    keys.finish(page);
}

fn sets(page: &mut Page, mut keys: Section, lines: &mut Vec<String>) {
    for (key, least, word) in [
        ("local_preference", 0, "local-preference"),
        ("metric", 0, "metric"),
        ("weight", 0, "weight"),
        ("tag", 1, "tag"),
    ] {
        let number = keys.number(page, key, least..=u64::from(u32::MAX));
        lines.extend(number.map(|number| format!("set {word} {number}")));
    }
    let origins = [("igp", "igp"), ("egp", "egp"), ("incomplete", "incomplete")];
    let origin = keys.choice(page, "origin", &origins);
    lines.extend(origin.map(|origin| format!("set origin {origin}")));
    let kind = keys.number(page, "metric_type", 1..=2);
    lines.extend(kind.map(|kind| format!("set metric-type type-{kind}")));
    let hop = keys.text(page, "next_hop", "an address", |text| {
        text.parse::<IpAddr>().map_err(|_| format!("{text:?} is no address"))
    });
    lines.extend(hop.map(|found| match found.value {
        IpAddr::V4(hop) => format!("set ip next-hop {hop}"),
        IpAddr::V6(hop) => format!("set ipv6 next-hop global {hop}"),
    }));
    let number = |value: &DeValue| match value {
        DeValue::String(text) => text.parse().ok(),
        other => number_of(other),
    };
    let read = |page: &mut Page, item: &Spanned<DeValue>| match number(item.get_ref()) {
        Some(number @ 1..=0xffff_ffff) => Some(number.to_string()),
        _ => {
            let hint = Hint::expected("a list of AS numbers, such as [65001, 65001]");
            page.wrong(item.span(), "this is no AS number", hint);
            None
        }
    };
    let path = items(page, &mut keys, "as_path_prepend", "a list of AS numbers", read);
    if !path.is_empty() {
        lines.push(format!("set as-path prepend {}", path.join(" ")));
    }
    const SMALL: &str = "a list of communities, such as [\"65001:100\", \"no-export\"]";
    const LARGE: &str = "a list of large communities, such as [\"65001:1:100\"]";
    for (keys_of, word, expected, shown) in [
        (["community", "add_community"], "community", SMALL, small as fn(&[String]) -> _),
        (["large_community", "add_large_community"], "large-community", LARGE, large),
    ] {
        let [whole, added] = keys_of.map(|key| {
            let list =
                keys.texts(page, key, expected, |text| shown(&[text.to_owned()]).map(|_| text.to_owned()));
            list.filter(|list| !list.is_empty()).and_then(|list| shown(&list).ok())
        });
        if let (Some(_), Some(_), Some(at)) = (&whole, &added, keys.value(keys_of[1]).map(Spanned::span)) {
            let message = format!("{} and {} exclude each other", keys_of[0], keys_of[1]);
            page.wrong(at, message, Hint::expected("one of them"));
        }
        lines.extend(whole.map(|list| format!("set {word} {list}")));
        lines.extend(added.map(|list| format!("set {word} {list} additive")));
    }
    keys.finish(page);
}

fn small(words: &[String]) -> Result<String, String> {
    communities(words.iter().map(String::as_str))
}

fn large(words: &[String]) -> Result<String, String> {
    large_communities(words.iter().map(String::as_str))
}
