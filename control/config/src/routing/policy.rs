//! `[policy]`: prefix lists, lists of AS paths and communities, and route maps.

use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

use super::family::Family;
use super::lists::{KINDS, list};
use super::route_map::route_map;
use super::words::{Uses, name};
use crate::mistake::{Hint, Page};
use crate::section::{Section, kind as kind_of};

/// Lists and route maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Lists, by kind and name.
    pub lists: Vec<List>,
    /// Route maps, by name.
    pub route_maps: Vec<RouteMap>,
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
    /// Extended communities (RFC 4360).
    ExtendedCommunity,
    /// Regular expressions of communities.
    CommunityPattern,
    /// Regular expressions of large communities.
    LargeCommunityPattern,
    /// Regular expressions of extended communities.
    ExtendedCommunityPattern,
}

impl ListKind {
    /// The kind as whose lists those of it are named: FRR has them among each other.
    pub fn base(self) -> ListKind {
        match self {
            ListKind::CommunityPattern => ListKind::Community,
            ListKind::LargeCommunityPattern => ListKind::LargeCommunity,
            ListKind::ExtendedCommunityPattern => ListKind::ExtendedCommunity,
            other => other,
        }
    }
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
    for (key, read) in KINDS {
        for (name, at, entries) in arrays(page, &mut section, key) {
            let found = list(page, key, name, at, &entries, read);
            lists.extend(found.filter(|found| is_new(page, &lists, found, &entries)));
        }
    }
    let mut route_maps = Vec::new();
    for (name, at, entries) in arrays(page, &mut section, "route_map") {
        route_maps.extend(route_map(page, name, at, &entries, &lists, uses));
    }
    section.finish(page);
    Policy { lists, route_maps }
}

/// Whether no list of its kind has its name: FRR knows those of patterns by the same names.
fn is_new(page: &mut Page, lists: &[List], found: &List, entries: &[&Spanned<DeValue>]) -> bool {
    let same = |list: &&List| list.kind.base() == found.kind.base() && list.name == found.name;
    let is_new = lists.iter().find(same).is_none();
    if let (false, Some(first)) = (is_new, entries.first()) {
        let message = format!("there is a list {} already", found.name);
        page.wrong(first.span(), message, Hint::expected("another name"));
    }
    is_new
}
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
