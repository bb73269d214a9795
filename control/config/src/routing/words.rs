//! What several sections of routing have: names, times, what is redistributed, and whether what is
//! named is there.

use std::io;
use std::net::Ipv4Addr;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use ipnet::IpNet;
use notation::duration;
use toml::Spanned;
use toml::de::DeValue;

use super::family::Family;
use super::policy::{ListKind, Policy};
use crate::mistake::{Hint, Page, near};
use crate::secrets::Secret;
use crate::section::{Section, kind as kind_of};

/// How files are read that the file names.
pub(crate) type Files<'a> = dyn FnMut(&Path) -> io::Result<String> + 'a;

/// Routes of another origin that a protocol tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redistribute {
    /// Whose, as FRR calls it.
    pub from: &'static str,
    /// Which of them, and how changed.
    pub route_map: Option<String>,
    /// The metric that they get.
    pub metric: Option<u32>,
    /// Of OSPF: 1 or 2; `None`: 2.
    pub metric_type: Option<u8>,
}

/// What is named somewhere, to be looked for when all is read.
#[derive(Default)]
pub(super) struct Uses(Vec<(Used, String, Range<usize>)>);

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Used {
    RouteMap,
    /// Of one family, or of any.
    PrefixList(Option<Family>),
    List(ListKind),
}

impl Used {
    fn word(self) -> &'static str {
        match self {
            Used::RouteMap => "route map",
            Used::PrefixList(_) | Used::List(ListKind::Prefixes(_)) => "prefix list",
            Used::List(ListKind::AsPath) => "AS path list",
            Used::List(ListKind::Community | ListKind::CommunityPattern) => "community list",
            Used::List(ListKind::LargeCommunity | ListKind::LargeCommunityPattern) => "large community list",
            Used::List(ListKind::ExtendedCommunity | ListKind::ExtendedCommunityPattern) => {
                "extended community list"
            }
        }
    }

    /// How FRR's lines begin that make one.
    fn head(self) -> &'static str {
        match self {
            Used::RouteMap => "route-map",
            Used::PrefixList(_) | Used::List(ListKind::Prefixes(_)) => "prefix-list",
            Used::List(ListKind::AsPath) => "as-path access-list",
            Used::List(ListKind::Community | ListKind::CommunityPattern) => "community-list",
            Used::List(ListKind::LargeCommunity | ListKind::LargeCommunityPattern) => "large-community-list",
            Used::List(ListKind::ExtendedCommunity | ListKind::ExtendedCommunityPattern) => {
                "extcommunity-list"
            }
        }
    }
}

impl Uses {
    /// A name that a key has, and what it names.
    pub fn name(
        &mut self,
        page: &mut Page,
        section: &mut Section,
        key: &'static str,
        used: Used,
    ) -> Option<String> {
        let expected = format!("the name of a {}", used.word());
        let found = section.text(page, key, &expected, name)?;
        self.0.push((used, found.value.clone(), found.at));
        Some(found.value)
    }

    /// Notes names of which there is nothing. FRR takes them, and then lets nothing pass.
    pub fn check(&self, page: &mut Page, policy: &Policy, lines: &str) {
        for (used, name, at) in &self.0 {
            let lists = |wanted: ListKind| {
                let kinds = policy.lists.iter().filter(move |list| list.kind.base() == wanted);
                kinds.map(|list| list.name.as_str()).collect::<Vec<_>>()
            };
            let known: Vec<&str> = match used {
                Used::RouteMap => policy.route_maps.iter().map(|map| map.name.as_str()).collect(),
                Used::PrefixList(Some(family)) => lists(ListKind::Prefixes(*family)),
                Used::PrefixList(None) => {
                    let mut both = lists(ListKind::Prefixes(Family::Ipv4));
                    both.extend(lists(ListKind::Prefixes(Family::Ipv6)));
                    both
                }
                Used::List(kind) => lists(*kind),
            };
            let by_frr = || {
                lines.lines().any(|line| {
                    line.contains(used.head()) && line.split_whitespace().any(|word| word == name)
                })
            };
            // Which family a list of the block is of is not known here.
            let is_there = known.contains(&name.as_str());
            if is_there || (*used != Used::PrefixList(None) && by_frr()) {
                continue;
            }
            let family = match used {
                Used::PrefixList(Some(family)) => format!(" of {}", family.word()),
                _ => String::new(),
            };
            let hint = Hint {
                expected: Some(match known.is_empty() {
                    true => format!("a {}{family} in [policy]", used.word()),
                    false => known.join(", "),
                }),
                meant: near(name, known.iter().copied()).map(|known| format!("{known:?}")),
            };
            page.wrong(at.clone(), format!("[policy] has no {}{family} {name:?}", used.word()), hint);
        }
    }
}

/// A name of FRR's: one word.
pub(super) fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    match (1..=63).contains(&text.len()) && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is no name: letters, digits and -_.: (63 at most)")),
    }
}

/// A text in one line, as FRR keeps it.
pub(super) fn line(text: &str) -> Result<String, String> {
    let single = text.split_whitespace().collect::<Vec<_>>().join(" ") == text;
    match (1..=80).contains(&text.len()) && single && text.chars().all(|c| c == ' ' || c.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err("it cannot be that".to_owned()),
    }
}

/// What [`line`] takes.
pub(super) const LINE: &str = "1 to 80 letters in one line, with single spaces";

/// The router's number.
pub(super) fn router_id(page: &mut Page, section: &mut Section) -> Option<Ipv4Addr> {
    const ID: &str = "a number in the form of an IPv4 address, such as \"192.0.2.1\"";
    let found = section.text(page, "router_id", ID, |text| match text.parse::<Ipv4Addr>() {
        Ok(id) if !id.is_unspecified() => Ok(id),
        _ => Err(format!("{text:?} is no router id")),
    });
    found.map(|found| found.value)
}

/// Whole seconds.
pub(super) fn seconds(
    page: &mut Page,
    section: &mut Section,
    key: &'static str,
    range: RangeInclusive<u64>,
) -> Option<u16> {
    let expected = format!("whole seconds from \"{}s\" to \"{}s\"", range.start(), range.end());
    let found = section.text(page, key, &expected, |text| match duration(text) {
        Some(time) if time.subsec_nanos() == 0 && range.contains(&time.as_secs()) => {
            Ok(time.as_secs() as u16)
        }
        Some(_) => Err(format!("{text:?} is out of range")),
        None => Err(format!("{text:?} is not a time")),
    });
    found.map(|found| found.value)
}

/// Whole minutes.
pub(super) fn minutes(
    page: &mut Page,
    section: &mut Section,
    key: &'static str,
    range: RangeInclusive<u64>,
) -> Option<u16> {
    let expected = format!("whole minutes from \"{}m\" to \"{}m\"", range.start(), range.end());
    let found = section.text(page, key, &expected, |text| match duration(text) {
        Some(time)
            if time.subsec_nanos() == 0
                && time.as_secs().is_multiple_of(60)
                && range.contains(&(time.as_secs() / 60)) =>
        {
            Ok((time.as_secs() / 60) as u16)
        }
        Some(_) => Err(format!("{text:?} is out of range")),
        None => Err(format!("{text:?} is not a time")),
    });
    found.map(|found| found.value)
}

/// A whole number, or one of some words.
pub(super) fn number_or<T: Copy>(
    page: &mut Page,
    section: &mut Section,
    key: &'static str,
    range: RangeInclusive<u64>,
    words: &[(&'static str, T)],
    of: impl Fn(u64) -> T,
) -> Option<T> {
    match section.value(key)?.get_ref() {
        DeValue::String(_) => section.choice(page, key, words),
        _ => section.number(page, key, range).map(of),
    }
}

/// A prefix without bits behind its length.
pub(super) fn prefix(text: &str) -> Result<IpNet, String> {
    let net: IpNet = text.parse().map_err(|_| format!("{text:?} is no prefix"))?;
    match net == net.trunc() {
        true => Ok(net),
        false => Err(format!("{text:?} has bits behind its length; perhaps meant: \"{}\"", net.trunc())),
    }
}

/// Whose routes there are, as FRR calls them.
pub(crate) const PROTOCOLS: [(&str, &str); 9] = [
    ("connected", "connected"),
    ("kernel", "kernel"),
    ("static", "static"),
    ("bgp", "bgp"),
    ("ospf", "ospf"),
    ("ospf6", "ospf6"),
    ("rip", "rip"),
    ("ripng", "ripng"),
    ("isis", "isis"),
];

/// Where routes of a family come from.
fn protocols(family: Family) -> [(&'static str, &'static str); 7] {
    let [ospf, rip] = match family {
        Family::Ipv4 => ["ospf", "rip"],
        Family::Ipv6 => ["ospf6", "ripng"],
    };
    ["connected", "kernel", "static", "bgp", ospf, rip, "isis"].map(|word| (word, word))
}

/// A list of what the protocol `into` redistributes: words, or tables with `from`.
pub(super) fn redistribute(
    page: &mut Page,
    section: &mut Section,
    family: Family,
    into: &str,
    uses: &mut Uses,
) -> Vec<Redistribute> {
    let others: Vec<_> = protocols(family).into_iter().filter(|(word, _)| *word != into).collect();
    let protocols = &others[..];
    let ospf = into != "bgp";
    let words: Vec<&str> = protocols.iter().map(|(word, _)| *word).collect();
    let expected = format!("a list of {}, or of {{ from = \"...\", route_map = \"...\" }}", words.join(", "));
    let read = |page: &mut Page, item: &Spanned<DeValue>| match item.get_ref() {
        DeValue::String(text) => {
            let found = protocols.iter().find(|(word, _)| *word == text.as_ref());
            if found.is_none() {
                let hint = Hint {
                    expected: Some(expected.clone()),
                    meant: near(text, words.iter().copied()).map(|word| format!("{word:?}")),
                };
                page.wrong(item.span(), format!("redistribute cannot have {text:?}"), hint);
            }
            let (from, _) = found?;
            Some(Redistribute { from, route_map: None, metric: None, metric_type: None })
        }
        DeValue::Table(table) => {
            let mut section = Section::new("redistribute", item.span(), table);
            let from = section.choice(page, "from", protocols);
            let from = section.require(page, "from", from, &words.join(", "));
            let route_map = uses.name(page, &mut section, "route_map", Used::RouteMap);
            let metric = section.number(page, "metric", 0..=0xff_fffe).map(|metric| metric as u32);
            let metric_type = match ospf {
                true => section.number(page, "metric_type", 1..=2).map(|number| number as u8),
                false => None,
            };
            section.finish(page);
            Some(Redistribute { from: from?, route_map, metric, metric_type })
        }
        other => {
            page.wrong(
                item.span(),
                format!("redistribute cannot have {}", kind_of(other)),
                Hint::expected(expected.clone()),
            );
            None
        }
    };
    let list = items(page, section, "redistribute", &expected, read);
    twice(page, section, "redistribute", list.iter().map(|it| it.from));
    list
}

/// What a list has, each as `read` understands it.
pub(super) fn items<'a, T>(
    page: &mut Page,
    section: &mut Section<'a>,
    key: &'static str,
    expected: &str,
    mut read: impl FnMut(&mut Page, &'a Spanned<DeValue<'a>>) -> Option<T>,
) -> Vec<T> {
    let Some(value) = section.value(key) else { return Vec::new() };
    let DeValue::Array(list) = value.get_ref() else {
        let message = format!("{key} cannot be {}", kind_of(value.get_ref()));
        page.wrong(value.span(), message, Hint::expected(expected));
        return Vec::new();
    };
    list.iter().filter_map(|item| read(page, item)).collect()
}

/// Notes what a list has more than once.
pub(super) fn twice<T: PartialEq + std::fmt::Display>(
    page: &mut Page,
    section: &mut Section,
    key: &'static str,
    items: impl Iterator<Item = T>,
) {
    let mut seen: Vec<T> = Vec::new();
    for item in items {
        if seen.contains(&item) {
            let at = section.value(key).map_or(section.at.clone(), Spanned::span);
            page.wrong(at, format!("{key}: {item} is listed twice"), Hint::expected("each once"));
        }
        seen.push(item);
    }
}

/// A secret: a text, or where it is, in a file or in the environment.
pub(crate) fn secret(
    page: &mut Page,
    keys: &mut Section,
    key: &'static str,
    most: usize,
    files: &mut Files,
) -> Option<Secret> {
    let expected = format!(
        "1 to {most} letters without spaces, or {{ file = \"...\" }} or {{ env = \"...\" }} that has them"
    );
    let value = keys.value(key)?;
    let (text, at) = match value.get_ref() {
        DeValue::String(text) => (text.to_string(), value.span()),
        DeValue::Table(table) => elsewhere(page, Section::new(key, value.span(), table), files)?,
        other => {
            let message = format!("{key} cannot be {}", kind_of(other));
            page.wrong(value.span(), message, Hint::expected(expected));
            return None;
        }
    };
    if !(1..=most).contains(&text.len()) || !text.chars().all(|c| c.is_ascii_graphic()) {
        page.wrong(at, format!("this cannot be a {key}"), Hint::expected(expected));
        return None;
    }
    Some(Secret::new(text))
}

/// What a file or the environment has, and where that is said.
fn elsewhere(page: &mut Page, mut keys: Section, files: &mut Files) -> Option<(String, Range<usize>)> {
    let file = keys.text(page, "file", "the path of a file", |text| Ok(text.to_owned()));
    let variable = keys.text(page, "env", "the name of a variable", |text| Ok(text.to_owned()));
    let at = keys.at.clone();
    keys.finish(page);
    let (at, text, has) = match (file, variable) {
        (Some(file), None) => {
            let text = files(Path::new(&file.value)).map_err(|error| error.to_string());
            (
                file.at,
                text.map_err(|why| format!("cannot read {:?}: {why}", file.value)),
                "a file that has it",
            )
        }
        (None, Some(variable)) => {
            let text = std::env::var(&variable.value);
            let text = text.map_err(|_| format!("the environment here has no {}", variable.value));
            (variable.at, text, "a variable that the daemon is started with")
        }
        _ => {
            let hint = Hint::expected("either file = \"...\" or env = \"...\"");
            page.wrong(at, "where it is, is to be said once", hint);
            return None;
        }
    };
    match text {
        Ok(text) => Some((text.trim_end().to_owned(), at)),
        Err(message) => {
            page.wrong(at, message, Hint::expected(has));
            None
        }
    }
}
