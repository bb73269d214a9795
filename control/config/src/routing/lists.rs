//! Lists of prefixes, AS paths and communities: their entries, in the form in which FRR shows them.

use std::ops::Range;

use ipnet::IpNet;
use toml::Spanned;
use toml::de::DeValue;

use super::communities::{communities, extended_communities, large_communities};
use super::family::Family;
use super::policy::{List, ListKind};
use super::words::{line, prefix};
use crate::mistake::{Hint, Page};
use crate::section::kind as kind_of;

/// What a list that has it is of, and its form; or what is wrong.
type Read = Result<(ListKind, String), String>;
/// How an entry of a list is read.
type ReadEntry = fn(&str) -> Read;

/// The keys of lists.
pub(super) const KINDS: [(&str, ReadEntry); 8] = [
    ("prefix_list", prefix_entry),
    ("as_path_list", |text| pattern(ListKind::AsPath, text)),
    ("community_list", community_entry),
    ("large_community_list", large_entry),
    ("extended_community_list", extended_entry),
    ("community_pattern", |text| pattern(ListKind::CommunityPattern, text)),
    ("large_community_pattern", |text| pattern(ListKind::LargeCommunityPattern, text)),
    ("extended_community_pattern", |text| pattern(ListKind::ExtendedCommunityPattern, text)),
];

pub(super) fn list(
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
        "extended_community_list" => "such as \"permit rt 65001:100\"",
        "community_pattern" => "such as \"permit ^65001:\"",
        "large_community_pattern" => "such as \"permit ^65001:1:\"",
        "extended_community_pattern" => "such as \"permit RT:65001:.*\"",
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

/// A regular expression.
fn pattern(kind: ListKind, text: &str) -> Read {
    let (action, rest) = action(text)?;
    let rest = line(rest).map_err(|_| format!("{text:?} is longer than 80 letters, or has odd ones"))?;
    Ok((kind, format!("{action} {rest}")))
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

fn extended_entry(text: &str) -> Read {
    let (action, rest) = action(text)?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let list = extended_communities(&words)?;
    Ok((ListKind::ExtendedCommunity, format!("{action} {list}")))
}
