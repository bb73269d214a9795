//! `[bgp.ipv4]` and the like: what of a family BGP tells of by itself, and what becomes of it.

use std::net::IpAddr;

use ipnet::IpNet;
use toml::Spanned;
use toml::de::DeValue;

use super::exchange::words;
use super::family::{AddressFamily, For};
use super::route_target::{RouteTarget, distinguisher, targets};
use super::words::{Redistribute, Used, Uses, items, minutes, number_or, prefix, redistribute};
use crate::mistake::{Hint, Page};
use crate::section::{Section, kind as kind_of};

/// What of a family BGP tells of by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BgpFamily {
    /// Prefixes that it tells of while Linux has a route to them.
    pub networks: Vec<Network>,
    /// Prefixes that it tells of while it knows a part of them.
    pub aggregates: Vec<Aggregate>,
    /// Routes of others.
    pub redistribute: Vec<Redistribute>,
    /// How many equal paths are used; `None`: FRR's default.
    pub maximum_paths: Option<u16>,
    /// The same among neighbours of the same system.
    pub maximum_paths_ibgp: Option<u16>,
    /// The distance of routes of other systems, of the same one, and of this router.
    pub distance: Option<[u8; 3]>,
    /// Whether routes that flap are not believed for a while (RFC 2439).
    pub dampening: Option<Dampening>,
    /// How a VRF's routes go to others and come from them (RFC 4364).
    pub vpn: Option<Vpn>,
    /// VRFs whose routes come in without more ado.
    pub import_vrfs: Vec<String>,
}

/// A prefix that BGP tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The prefix.
    pub prefix: IpNet,
    /// How it is changed.
    pub route_map: Option<String>,
}

/// A prefix that BGP tells of for what lies in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// The prefix.
    pub prefix: IpNet,
    /// Whether its parts are not told of.
    pub summary_only: bool,
    /// Whether it has the systems of all its parts.
    pub as_set: bool,
    /// How it is changed.
    pub route_map: Option<String>,
}

/// How routes are damped, as FRR says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dampening {
    /// Minutes until half of the penalty is gone.
    pub half_life: u16,
    /// Below which penalty a route is believed again.
    pub reuse: u16,
    /// Above which it is not.
    pub suppress: u16,
    /// Minutes that it is not believed at most.
    pub longest: u16,
}

/// How a VRF's routes go to others and come from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vpn {
    /// What tells its prefixes from those of other VRFs.
    pub rd: Option<String>,
    /// Its label of MPLS; as FRR says it.
    pub label: Option<String>,
    /// The next hop of what goes out.
    pub next_hop: Option<IpAddr>,
    /// What comes in.
    pub import: Vec<RouteTarget>,
    /// What goes out.
    pub export: Vec<RouteTarget>,
    /// Route maps for both.
    pub route_map: [Option<String>; 2],
}

/// What is told of Ethernet addresses, and of prefixes with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evpn {
    /// All VNIs that Linux has.
    pub advertise_all_vni: bool,
    /// The addresses of gateways.
    pub advertise_default_gw: bool,
    /// The addresses of bridges.
    pub advertise_svi_ip: bool,
    /// Whether what is for all goes to each.
    pub flooding: bool,
    /// Families whose routes are told of.
    pub advertise: Vec<&'static str>,
    /// As in [`Vpn`]; of a VRF.
    pub rd: Option<String>,
    /// What comes in.
    pub import: Vec<RouteTarget>,
    /// What goes out.
    pub export: Vec<RouteTarget>,
}

pub(super) fn of_family(
    page: &mut Page,
    mut section: Section,
    family: AddressFamily,
    title: &str,
    vrfs: &[&str],
    uses: &mut Uses,
) -> BgpFamily {
    let mut found = BgpFamily {
        networks: networks(page, &mut section, family, uses),
        dampening: dampening(page, &mut section, title),
        ..BgpFamily::default()
    };
    let purpose = family.purpose();
    if purpose != For::Multicast {
        found.maximum_paths = section.number(page, "maximum_paths", 1..=64).map(|number| number as u16);
        found.maximum_paths_ibgp =
            section.number(page, "maximum_paths_ibgp", 1..=64).map(|number| number as u16);
    }
    if purpose != For::Labeled {
        found.distance = distance(page, &mut section);
    }
    if let (For::Unicast, Some(addresses)) = (purpose, family.addresses()) {
        found.aggregates = aggregates(page, &mut section, family, uses);
        found.redistribute = redistribute(page, &mut section, addresses, "bgp", uses);
        found.vpn = vpn(page, &mut section, title, uses);
        let known = |text: &str| match vrfs.contains(&text) || text == "default" {
            true => Ok(text.to_owned()),
            false => Err(format!("there is no [bgp.vrf.{text}]")),
        };
        let imported = section.texts(page, "import_vrfs", "VRFs of [bgp.vrf], or \"default\"", known);
        found.import_vrfs = imported.unwrap_or_default();
        if let (Some(_), false) = (&found.vpn, found.import_vrfs.is_empty()) {
            let at = section.value("import_vrfs").map_or(section.at.clone(), Spanned::span);
            page.wrong(at, "import_vrfs and vpn exclude each other in FRR", Hint::expected("one of them"));
        }
    }
    section.finish(page);
    found
}

/// A prefix of a family.
fn of(family: AddressFamily, text: &str) -> Result<IpNet, String> {
    let net = prefix(text)?;
    match family.addresses() {
        Some(addresses) if !addresses.has(&net) => Err(format!("{text:?} is not of {}", addresses.word())),
        _ => Ok(net),
    }
}

/// A list of prefixes, plain ones or such with more.
fn prefixes<'a, T>(
    page: &mut Page,
    section: &mut Section<'a>,
    key: &'static str,
    family: AddressFamily,
    expected: &str,
    mut read: impl FnMut(&mut Page, IpNet, Option<&mut Section<'a>>) -> T,
) -> Vec<T> {
    let mut seen: Vec<IpNet> = Vec::new();
    items(page, section, key, expected, |page, item| {
        let (net, found) = match item.get_ref() {
            DeValue::String(text) => match of(family, text) {
                Ok(net) => (net, read(page, net, None)),
                Err(wrong) => {
                    page.wrong(item.span(), format!("{key}: {wrong}"), Hint::expected(expected));
                    return None;
                }
            },
            DeValue::Table(table) => {
                let mut keys = Section::new(key, item.span(), table);
                let net = keys.text(page, "prefix", "a prefix", |text| of(family, text));
                let net = keys.require(page, "prefix", net, "a prefix").map(|found| found.value);
                let none = || IpNet::from(std::net::IpAddr::from([0; 4]));
                let found = read(page, net.unwrap_or_else(none), Some(&mut keys));
                keys.finish(page);
                (net?, found)
            }
            other => {
                let message = format!("{key} cannot have {}", kind_of(other));
                page.wrong(item.span(), message, Hint::expected(expected));
                return None;
            }
        };
        if seen.contains(&net) {
            page.wrong(item.span(), format!("{net} is listed twice"), Hint::expected("each once"));
        }
        seen.push(net);
        Some(found)
    })
}

fn networks(page: &mut Page, section: &mut Section, family: AddressFamily, uses: &mut Uses) -> Vec<Network> {
    const NETWORKS: &str =
        "a list of prefixes, such as \"192.0.2.0/24\", or of { prefix = \"...\", route_map = \"...\" }";
    prefixes(page, section, "networks", family, NETWORKS, |page, prefix, keys| {
        let route_map = keys.and_then(|keys| uses.name(page, keys, "route_map", Used::RouteMap));
        Network { prefix, route_map }
    })
}

fn aggregates(
    page: &mut Page,
    section: &mut Section,
    family: AddressFamily,
    uses: &mut Uses,
) -> Vec<Aggregate> {
    const AGGREGATES: &str =
        "a list of prefixes, such as \"192.0.2.0/24\", or of { prefix = \"...\", summary_only = true }";
    prefixes(page, section, "aggregates", family, AGGREGATES, |page, prefix, keys| {
        let Some(keys) = keys else {
            return Aggregate { prefix, summary_only: false, as_set: false, route_map: None };
        };
        Aggregate {
            prefix,
            summary_only: keys.flag(page, "summary_only").unwrap_or(false),
            as_set: keys.flag(page, "as_set").unwrap_or(false),
            route_map: uses.name(page, keys, "route_map", Used::RouteMap),
        }
    })
}

fn distance(page: &mut Page, section: &mut Section) -> Option<[u8; 3]> {
    let mut keys = section.section(page, "distance", "distance")?;
    let found = [("external", 20), ("internal", 200), ("local", 200)]
        .map(|(key, usual)| keys.number(page, key, 1..=255).map_or(usual, |number| number as u8));
    keys.finish(page);
    Some(found)
}

fn dampening(page: &mut Page, section: &mut Section, title: &str) -> Option<Dampening> {
    let mut keys = section.section(page, "dampening", &format!("[{title}.dampening]"))?;
    let half_life = minutes(page, &mut keys, "half_life", 1..=45).unwrap_or(15);
    let reuse = keys.number(page, "reuse", 1..=20_000).map_or(750, |number| number as u16);
    let suppress = keys.number(page, "suppress", 1..=20_000).map_or(2_000, |number| number as u16);
    let longest = minutes(page, &mut keys, "longest", 1..=255).unwrap_or(half_life * 4);
    if suppress <= reuse {
        let at = keys.value("suppress").or(keys.value("reuse")).map_or(keys.at.clone(), Spanned::span);
        page.wrong(at, "suppress is not more than reuse", Hint::expected("suppress above reuse"));
    }
    keys.finish(page);
    Some(Dampening { half_life, reuse, suppress, longest })
}

fn vpn(page: &mut Page, section: &mut Section, title: &str, uses: &mut Uses) -> Option<Vpn> {
    let mut keys = section.section(page, "vpn", &format!("[{title}.vpn]"))?;
    let label = number_or(page, &mut keys, "label", 16..=1_048_575, &[("auto", 0)], |label| label);
    let next_hop = keys.text(page, "next_hop", "an address", |text| {
        text.parse::<IpAddr>().map_err(|_| format!("{text:?} is no address"))
    });
    let found = Vpn {
        rd: distinguisher(page, &mut keys),
        label: label.map(|label| if label == 0 { "auto".to_owned() } else { label.to_string() }),
        next_hop: next_hop.map(|found| found.value),
        import: targets(page, &mut keys, "import"),
        export: targets(page, &mut keys, "export"),
        route_map: ["route_map_import", "route_map_export"]
            .map(|key| uses.name(page, &mut keys, key, Used::RouteMap)),
    };
    if !found.export.is_empty() {
        keys.require(page, "rd", found.rd.as_ref(), "such as \"65001:1\", where there is an export");
    }
    keys.finish(page);
    Some(found)
}

pub(super) fn evpn(page: &mut Page, section: &mut Section, title: &str, of_vrf: bool) -> Option<Evpn> {
    let mut keys = section.section(page, "evpn", &format!("[{title}.evpn]"))?;
    let advertise = words(page, &mut keys, "advertise", &[("ipv4", "ipv4"), ("ipv6", "ipv6")]);
    let mut found = Evpn { flooding: true, advertise: advertise.unwrap_or_default(), ..Evpn::default() };
    match of_vrf {
        true => {
            found.rd = distinguisher(page, &mut keys);
            found.import = targets(page, &mut keys, "import");
            found.export = targets(page, &mut keys, "export");
        }
        false => {
            found.advertise_all_vni = keys.flag(page, "advertise_all_vni").unwrap_or(false);
            found.advertise_default_gw = keys.flag(page, "advertise_default_gw").unwrap_or(false);
            found.advertise_svi_ip = keys.flag(page, "advertise_svi_ip").unwrap_or(false);
            found.flooding = keys.flag(page, "flooding").unwrap_or(true);
        }
    }
    keys.finish(page);
    Some(found)
}
