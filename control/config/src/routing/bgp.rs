//! `[bgp]`: BGP of the main table, and `[bgp.vrf.NAME]` of VRFs.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::IpNet;
use toml::Spanned;
use toml::de::DeValue;

use super::neighbour::{self, Neighbour, Settings};
use super::policy::Family;
use super::words::{Files, Redistribute, Used, Uses, items, prefix, redistribute, router_id, seconds};
use crate::interface::interface_name;
use crate::mistake::{Hint, Page};
use crate::section::{Section, kind as kind_of, named};

/// All of BGP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bgp {
    /// That of the main table first, then those of VRFs by name.
    pub instances: Vec<BgpInstance>,
}

/// BGP of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BgpInstance {
    /// The VRF; `None`: the main table.
    pub vrf: Option<String>,
    /// The number of its autonomous system.
    pub asn: u32,
    /// `None`: FRR's choice.
    pub router_id: Option<Ipv4Addr>,
    /// Whether neighbours of other systems need a policy in each direction before routes are
    /// exchanged (RFC 8212).
    pub ebgp_requires_policy: bool,
    /// Whether it logs that a session begins or ends.
    pub log_neighbour_changes: bool,
    /// Whether neighbours keep forwarding while this router's BGP restarts (RFC 4724).
    pub graceful_restart: bool,
    /// Seconds between keepalives, and until a silent neighbour is gone.
    pub timers: Option<(u16, u16)>,
    /// By family, in the order of [`Family::BOTH`].
    pub families: [BgpFamily; 2],
    /// In the order of their addresses as texts.
    pub neighbours: Vec<Neighbour>,
}

/// What of a family BGP tells of by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BgpFamily {
    /// Prefixes that it tells of while Linux has a route to them.
    pub networks: Vec<Network>,
    /// Routes of others.
    pub redistribute: Vec<Redistribute>,
    /// How many equal paths are used; `None`: FRR's default.
    pub maximum_paths: Option<u16>,
}

/// A prefix that BGP tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The prefix.
    pub prefix: IpNet,
    /// How it is changed.
    pub route_map: Option<String>,
}

const AS: &str = "a whole number from 1 to 4,294,967,295";

pub(super) fn bgp(page: &mut Page, mut section: Section, uses: &mut Uses, files: &mut Files) -> Option<Bgp> {
    let mut groups = BTreeMap::new();
    for (name, keys) in named(page, &mut section, "group", "bgp.group") {
        groups.insert(name, neighbour::group(page, keys, uses, files));
    }
    let vrfs = named(page, &mut section, "vrf", "bgp.vrf");
    let mut instances = Vec::new();
    let main = instance(page, section, None, None, &groups, uses, files);
    let asn = main.as_ref().map(|main| main.asn);
    instances.extend(main);
    for (name, keys) in vrfs {
        match interface_name(name) {
            Ok(name) => instances.extend(instance(page, keys, Some(name), asn, &groups, uses, files)),
            Err(wrong) => page.wrong(keys.at.clone(), wrong, Hint::expected("the name of a VRF")),
        }
    }
    asn.map(|_| Bgp { instances })
}

fn instance(
    page: &mut Page,
    mut section: Section,
    vrf: Option<String>,
    usual: Option<u32>,
    groups: &BTreeMap<&str, Settings>,
    uses: &mut Uses,
    files: &mut Files,
) -> Option<BgpInstance> {
    let asn = section.number(page, "as", 1..=u64::from(u32::MAX)).map(|number| number as u32);
    let asn = match vrf {
        None => section.require(page, "as", asn, AS),
        Some(_) => asn.or(usual),
    };
    let router_id = router_id(page, &mut section);
    let ebgp_requires_policy = section.flag(page, "ebgp_requires_policy").unwrap_or(true);
    let log_neighbour_changes = section.flag(page, "log_neighbour_changes").unwrap_or(false);
    let graceful_restart = section.flag(page, "graceful_restart").unwrap_or(false);
    let timers = timers(page, &mut section);
    let title = vrf.as_ref().map_or_else(|| "bgp".to_owned(), |vrf| format!("bgp.vrf.{vrf}"));
    let families = Family::BOTH.map(|family| {
        let inner = section.section(page, family.key(), &format!("[{title}.{}]", family.key()));
        inner.map(|inner| of_family(page, inner, family, uses)).unwrap_or_default()
    });
    let mut neighbours: Vec<Neighbour> = Vec::new();
    for (name, keys) in named(page, &mut section, "neighbour", &format!("{title}.neighbour")) {
        let at = keys.at.clone();
        let Some(found) = neighbour::neighbour(page, name, keys, asn, groups, uses, files) else { continue };
        if neighbours.iter().any(|other| other.address == found.address) {
            let message = format!("{} is a neighbour already", found.address);
            page.wrong(at, message, Hint::expected("each once"));
        }
        neighbours.push(found);
    }
    section.finish(page);
    Some(BgpInstance {
        vrf,
        asn: asn?,
        router_id,
        ebgp_requires_policy,
        log_neighbour_changes,
        graceful_restart,
        timers,
        families,
        neighbours,
    })
}

/// Seconds between keepalives, and until a silent neighbour is gone.
pub(super) fn timers(page: &mut Page, section: &mut Section) -> Option<(u16, u16)> {
    let keepalive = seconds(page, section, "keepalive", 1..=21_845);
    let hold = seconds(page, section, "hold", 3..=65_535);
    let places = [section.value("keepalive"), section.value("hold")].map(|value| value.map(Spanned::span));
    match (places, keepalive.zip(hold)) {
        ([Some(_), Some(at)], Some((keepalive, hold))) if keepalive * 3 > hold => {
            page.wrong(at, "hold is less than three times keepalive", Hint::expected("a longer time"));
            None
        }
        ([Some(at), None] | [None, Some(at)], _) => {
            page.wrong(at, "keepalive and hold go together", Hint::expected("both, or none of them"));
            None
        }
        (_, both) => both,
    }
}

fn of_family(page: &mut Page, mut section: Section, family: Family, uses: &mut Uses) -> BgpFamily {
    const NETWORKS: &str =
        "a list of prefixes, such as \"192.0.2.0/24\", or of { prefix = \"...\", route_map = \"...\" }";
    let in_family = |text: &str| match prefix(text) {
        Ok(net) if family.has(&net) => Ok(net),
        Ok(_) => Err(format!("{text:?} is not of {}", family.word())),
        Err(wrong) => Err(wrong),
    };
    let mut networks: Vec<Network> = Vec::new();
    let found = items(page, &mut section, "networks", NETWORKS, |page, item| match item.get_ref() {
        DeValue::String(text) => match in_family(text) {
            Ok(prefix) => Some((Network { prefix, route_map: None }, item.span())),
            Err(wrong) => {
                page.wrong(item.span(), format!("networks: {wrong}"), Hint::expected(NETWORKS));
                None
            }
        },
        DeValue::Table(table) => {
            let mut keys = Section::new("networks", item.span(), table);
            let net = keys.text(page, "prefix", "a prefix", in_family);
            let net = keys.require(page, "prefix", net, "a prefix");
            let route_map = uses.name(page, &mut keys, "route_map", Used::RouteMap);
            keys.finish(page);
            Some((Network { prefix: net?.value, route_map }, item.span()))
        }
        other => {
            let message = format!("networks cannot have {}", kind_of(other));
            page.wrong(item.span(), message, Hint::expected(NETWORKS));
            None
        }
    });
    for (network, at) in found {
        if networks.iter().any(|other| other.prefix == network.prefix) {
            let message = format!("{} is listed twice", network.prefix);
            page.wrong(at, message, Hint::expected("each once"));
        }
        networks.push(network);
    }
    let redistribute = redistribute(page, &mut section, family, "bgp", uses);
    let maximum_paths = section.number(page, "maximum_paths", 1..=64).map(|number| number as u16);
    section.finish(page);
    BgpFamily { networks, redistribute, maximum_paths }
}
