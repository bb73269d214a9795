//! `[bgp.neighbour."ADDRESS".ipv4]` and the like: what is exchanged with a neighbour.

use toml::Spanned;
use toml::de::DeValue;

use super::family::{AddressFamily, For};
use super::policy::ListKind;
use super::words::{Used, Uses, minutes, number_or};
use crate::mistake::{Hint, Page};
use crate::section::{Section, kind as kind_of};

/// What is exchanged with a neighbour in a family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeighbourFamily {
    /// A route map for what comes in, and one for what goes out; so the next two.
    pub route_map: [Option<String>; 2],
    /// Prefix lists.
    pub prefix_list: [Option<String>; 2],
    /// AS path lists.
    pub as_path_list: [Option<String>; 2],
    /// By which route map prefixes are told of that an aggregate hides.
    pub unsuppress_map: Option<String>,
    /// Whether this router is the next hop of all that it tells of, in FRR's words.
    pub next_hop_self: Option<Option<&'static str>>,
    /// Whether what came in is kept as it was.
    pub soft_reconfiguration: Option<bool>,
    /// More prefixes end the session.
    pub maximum_prefix: Option<u32>,
    /// At how many per cent of them a line is logged.
    pub maximum_prefix_threshold: Option<u8>,
    /// Whether more prefixes are logged only.
    pub maximum_prefix_warning_only: Option<bool>,
    /// After how many minutes a session that ended so begins again.
    pub maximum_prefix_restart: Option<u16>,
    /// No more prefixes are told of.
    pub maximum_prefix_out: Option<u32>,
    /// Whether a default route is told, and by which route map.
    pub default_originate: Option<Originate>,
    /// Whether the neighbour is a client of this route reflector.
    pub route_reflector_client: Option<bool>,
    /// Whether it is a client of this route server.
    pub route_server_client: Option<bool>,
    /// How often this router's own system may be in a path that comes in.
    pub allowas_in: Option<AllowAs>,
    /// Whether the neighbour's system is replaced by this router's in paths that go out.
    pub as_override: Option<bool>,
    /// Which private AS numbers are taken out of paths that go out, in FRR's words.
    pub remove_private_as: Option<Option<&'static str>>,
    /// Which communities go out; `None`: all.
    pub send_community: Option<Vec<&'static str>>,
    /// Which paths go out besides the best (RFC 7911), as FRR says it.
    pub add_path: Option<&'static str>,
    /// Whether several paths to a prefix may come in.
    pub add_path_receive: Option<bool>,
    /// Of what comes in.
    pub weight: Option<u16>,
    /// Attributes that go out as they came in.
    pub unchanged: Option<Vec<&'static str>>,
}

/// Whether a default route is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Originate {
    /// It is not.
    Never,
    /// It is.
    Always,
    /// As a route map says.
    By(String),
}

/// How often this router's own system may be in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowAs {
    /// So many times.
    Times(u8),
    /// At its origin.
    Origin,
}

/// The kinds of communities, in FRR's order.
pub(super) const COMMUNITIES: [(&str, &str); 3] =
    [("standard", "standard"), ("extended", "extended"), ("large", "large")];
const ATTRIBUTES: [(&str, &str); 3] = [("as-path", "as-path"), ("next-hop", "next-hop"), ("med", "med")];

/// What a neighbour or a group says of a family.
#[derive(Clone)]
pub(super) enum Exchange {
    Nothing,
    As(Box<NeighbourFamily>),
}

impl Exchange {
    /// With what the group says where this says nothing.
    pub fn or(own: Option<Exchange>, group: Option<Exchange>) -> Option<Exchange> {
        match (own, group) {
            (Some(Exchange::As(own)), Some(Exchange::As(group))) => {
                Some(Exchange::As(Box::new(own.or(*group))))
            }
            (own, group) => own.or(group),
        }
    }
}

impl NeighbourFamily {
    fn or(mut self, group: NeighbourFamily) -> NeighbourFamily {
        // What becomes of more prefixes goes with their number.
        if self.maximum_prefix.is_none() {
            self.maximum_prefix = group.maximum_prefix;
            self.maximum_prefix_threshold = self.maximum_prefix_threshold.or(group.maximum_prefix_threshold);
            self.maximum_prefix_warning_only =
                self.maximum_prefix_warning_only.or(group.maximum_prefix_warning_only);
            self.maximum_prefix_restart = self.maximum_prefix_restart.or(group.maximum_prefix_restart);
        }
        let both = |[a, b]: [Option<String>; 2], [c, d]: [Option<String>; 2]| [a.or(c), b.or(d)];
        NeighbourFamily {
            route_map: both(self.route_map, group.route_map),
            prefix_list: both(self.prefix_list, group.prefix_list),
            as_path_list: both(self.as_path_list, group.as_path_list),
            unsuppress_map: self.unsuppress_map.or(group.unsuppress_map),
            next_hop_self: self.next_hop_self.or(group.next_hop_self),
            soft_reconfiguration: self.soft_reconfiguration.or(group.soft_reconfiguration),
            maximum_prefix: self.maximum_prefix,
            maximum_prefix_threshold: self.maximum_prefix_threshold,
            maximum_prefix_warning_only: self.maximum_prefix_warning_only,
            maximum_prefix_restart: self.maximum_prefix_restart,
            maximum_prefix_out: self.maximum_prefix_out.or(group.maximum_prefix_out),
            default_originate: self.default_originate.or(group.default_originate),
            route_reflector_client: self.route_reflector_client.or(group.route_reflector_client),
            route_server_client: self.route_server_client.or(group.route_server_client),
            allowas_in: self.allowas_in.or(group.allowas_in),
            as_override: self.as_override.or(group.as_override),
            remove_private_as: self.remove_private_as.or(group.remove_private_as),
            send_community: self.send_community.or(group.send_community),
            add_path: self.add_path.or(group.add_path),
            add_path_receive: self.add_path_receive.or(group.add_path_receive),
            weight: self.weight.or(group.weight),
            unchanged: self.unchanged.or(group.unchanged),
        }
    }

    /// What of it does not go together: the key, and what is wrong.
    pub(super) fn clash(&self, internal: Option<bool>) -> Option<(&'static str, &'static str)> {
        let limit = self.maximum_prefix.is_some();
        let warns = self.maximum_prefix_warning_only == Some(true);
        let client = self.route_reflector_client == Some(true);
        let all = [
            (
                client && internal == Some(false),
                "route_reflector_client",
                "it is for neighbours of the same system",
            ),
            (
                client && self.route_server_client == Some(true),
                "route_server_client",
                "a client of the route reflector cannot be one of the route server",
            ),
            (
                self.as_override == Some(true) && internal == Some(true),
                "as_override",
                "it is for neighbours of other systems",
            ),
            (
                matches!(self.remove_private_as, Some(Some(_))) && internal == Some(true),
                "remove_private_as",
                "it is for neighbours of other systems",
            ),
            (
                !limit && self.maximum_prefix_threshold.is_some(),
                "maximum_prefix_threshold",
                "it needs maximum_prefix",
            ),
            (!limit && warns, "maximum_prefix_warning_only", "it needs maximum_prefix"),
            (
                !limit && self.maximum_prefix_restart.is_some(),
                "maximum_prefix_restart",
                "it needs maximum_prefix",
            ),
            (
                warns && self.maximum_prefix_restart.is_some(),
                "maximum_prefix_restart",
                "no session ends with maximum_prefix_warning_only",
            ),
        ];
        all.into_iter().find(|(is, ..)| *is).map(|(_, key, wrong)| (key, wrong))
    }
}

/// `true`, `false`, or what is exchanged.
pub(super) fn exchange(
    page: &mut Page,
    keys: &mut Section,
    family: AddressFamily,
    uses: &mut Uses,
) -> Option<Exchange> {
    let key = family.key();
    let value = keys.value(key)?;
    match value.get_ref() {
        DeValue::Table(_) => {}
        DeValue::Boolean(true) => return Some(Exchange::As(Box::default())),
        DeValue::Boolean(false) => return Some(Exchange::Nothing),
        other => {
            let hint = Hint::expected("true, false, or a section with what is exchanged");
            page.wrong(value.span(), format!("{key} cannot be {}", kind_of(other)), hint);
            return None;
        }
    }
    let mut inner = keys.section(page, key, &format!("the neighbour's {key}"))?;
    let mut found = of_any(page, &mut inner, uses);
    if family.purpose() != For::Evpn {
        of_prefixes(page, &mut inner, family, uses, &mut found);
    }
    if !matches!(family.purpose(), For::Vpn | For::Evpn) {
        found.default_originate = originate(page, &mut inner, uses);
    }
    inner.finish(page);
    Some(Exchange::As(Box::new(found)))
}

/// A name for each direction.
fn both(
    page: &mut Page,
    keys: &mut Section,
    names: [&'static str; 2],
    used: Used,
    uses: &mut Uses,
) -> [Option<String>; 2] {
    names.map(|key| uses.name(page, keys, key, used))
}

/// What every family has.
fn of_any(page: &mut Page, keys: &mut Section, uses: &mut Uses) -> NeighbourFamily {
    let allowas_in = number_or(page, keys, "allowas_in", 1..=10, &[("origin", AllowAs::Origin)], |times| {
        AllowAs::Times(times as u8)
    });
    NeighbourFamily {
        route_map: both(page, keys, ["route_map_in", "route_map_out"], Used::RouteMap, uses),
        next_hop_self: flag_or(page, keys, "next_hop_self", "", &[("force", " force")]),
        soft_reconfiguration: keys.flag(page, "soft_reconfiguration"),
        route_reflector_client: keys.flag(page, "route_reflector_client"),
        route_server_client: keys.flag(page, "route_server_client"),
        allowas_in,
        ..NeighbourFamily::default()
    }
}

/// What families have that are of prefixes.
fn of_prefixes(
    page: &mut Page,
    keys: &mut Section,
    family: AddressFamily,
    uses: &mut Uses,
    found: &mut NeighbourFamily,
) {
    const MOST: std::ops::RangeInclusive<u64> = 1..=u32::MAX as u64;
    const PRIVATE: [(&str, &str); 3] =
        [("all", " all"), ("replace", " replace-AS"), ("all-replace", " all replace-AS")];
    let lists = ["prefix_list_in", "prefix_list_out"];
    found.prefix_list = both(page, keys, lists, Used::PrefixList(family.addresses()), uses);
    let lists = ["as_path_list_in", "as_path_list_out"];
    found.as_path_list = both(page, keys, lists, Used::List(ListKind::AsPath), uses);
    found.unchanged = words(page, keys, "unchanged", &ATTRIBUTES);
    found.unsuppress_map = uses.name(page, keys, "unsuppress_map", Used::RouteMap);
    found.maximum_prefix = keys.number(page, "maximum_prefix", MOST).map(|n| n as u32);
    found.maximum_prefix_threshold = keys.number(page, "maximum_prefix_threshold", 1..=100).map(|n| n as u8);
    found.maximum_prefix_warning_only = keys.flag(page, "maximum_prefix_warning_only");
    found.maximum_prefix_restart = minutes(page, keys, "maximum_prefix_restart", 1..=65_535);
    found.maximum_prefix_out = keys.number(page, "maximum_prefix_out", MOST).map(|n| n as u32);
    found.as_override = keys.flag(page, "as_override");
    found.remove_private_as = flag_or(page, keys, "remove_private_as", "", &PRIVATE);
    found.send_community = words(page, keys, "send_community", &COMMUNITIES);
    let paths = [("all", "addpath-tx-all-paths"), ("best-per-as", "addpath-tx-bestpath-per-AS")];
    found.add_path = keys.choice(page, "add_path", &paths);
    found.add_path_receive = keys.flag(page, "add_path_receive");
    found.weight = keys.number(page, "weight", 0..=65_535).map(|n| n as u16);
}

fn originate(page: &mut Page, keys: &mut Section, uses: &mut Uses) -> Option<Originate> {
    match keys.value("default_originate").map(Spanned::get_ref)? {
        DeValue::String(_) => uses.name(page, keys, "default_originate", Used::RouteMap).map(Originate::By),
        _ => keys.flag(page, "default_originate").map(|on| match on {
            true => Originate::Always,
            false => Originate::Never,
        }),
    }
}

/// `false`, `true` (`yes`), or one of some words.
fn flag_or(
    page: &mut Page,
    keys: &mut Section,
    key: &'static str,
    yes: &'static str,
    words: &[(&'static str, &'static str)],
) -> Option<Option<&'static str>> {
    match keys.value(key)?.get_ref() {
        DeValue::String(_) => keys.choice(page, key, words).map(Some),
        _ => keys.flag(page, key).map(|on| on.then_some(yes)),
    }
}

/// A list of some words, in the order in which they are known.
pub(super) fn words(
    page: &mut Page,
    keys: &mut Section,
    key: &'static str,
    known: &[(&'static str, &'static str)],
) -> Option<Vec<&'static str>> {
    let names: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
    let expected = format!("a list of {}", names.join(", "));
    let found = keys.texts(page, key, &expected, |text| match names.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is none of them")),
    })?;
    let has = |word: &str| found.iter().any(|other| other == word);
    Some(known.iter().filter(|(word, _)| has(word)).map(|(_, said)| *said).collect())
}
