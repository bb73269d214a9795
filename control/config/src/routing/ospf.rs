//! `[ospf]` and `[ospf6]`: OSPF for IPv4 and for IPv6.

use std::net::Ipv4Addr;

use ipnet::IpNet;
use toml::Spanned;
use toml::de::DeValue;

use super::family::Family;
use super::words::{Files, Redistribute, Used, Uses, prefix, redistribute, router_id, seconds, secret};
use crate::interface::interface_name;
use crate::mistake::{Hint, Page};
use crate::secrets::Secret;
use crate::section::{Section, kind as kind_of, named, number_of};

/// OSPF of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ospf {
    /// The VRF; `None`: the main table.
    pub vrf: Option<String>,
    /// Of the main table: those of VRFs, by name.
    pub vrfs: Vec<Ospf>,
    /// `None`: FRR's choice.
    pub router_id: Option<Ipv4Addr>,
    /// The rate, in Mbit/s, of an interface whose cost is 1; `None`: FRR's default.
    pub reference_bandwidth: Option<u32>,
    /// Routes of others.
    pub redistribute: Vec<Redistribute>,
    /// Whether a default route is told of.
    pub default: Option<DefaultRoute>,
    /// Areas that are not as usual.
    pub areas: Vec<Area>,
    /// Interfaces that it speaks on or tells of, by name.
    pub interfaces: Vec<OspfInterface>,
}

/// How a default route is told of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefaultRoute {
    /// Also when this router has none of another protocol.
    pub always: bool,
    /// Its metric.
    pub metric: Option<u32>,
    /// 1 or 2; `None`: 2.
    pub metric_type: Option<u8>,
    /// On what it depends, and how it is changed.
    pub route_map: Option<String>,
}

/// An area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// Its number.
    pub id: Ipv4Addr,
    /// What comes into it.
    pub kind: AreaKind,
    /// Prefixes that are told of as one outside of it.
    pub ranges: Vec<IpNet>,
}

/// What comes into an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AreaKind {
    /// All.
    Normal,
    /// No external routes.
    Stub,
    /// Nothing but a default route.
    TotallyStub,
    /// No external routes but its own.
    Nssa,
}

/// An interface of OSPF's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OspfInterface {
    /// Its name.
    pub name: String,
    /// The number of its area.
    pub area: Ipv4Addr,
    /// Of packets that leave by it.
    pub cost: Option<u16>,
    /// Told of, and not spoken on.
    pub passive: bool,
    /// Seconds between two hellos.
    pub hello: Option<u16>,
    /// Seconds until a silent neighbour is gone.
    pub dead: Option<u16>,
    /// For the election of who speaks for the link; 0: never.
    pub priority: Option<u8>,
    /// What kind of a link it is, as FRR calls it.
    pub network: Option<&'static str>,
    /// What packets are signed with.
    pub authentication: Option<Authentication>,
    /// Whether BFD tells that a neighbour is gone.
    pub bfd: bool,
}

/// What packets are signed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// The number of the key, for MD5; `None`: a password that everybody on the link can read.
    pub key_id: Option<u8>,
    /// The key.
    pub key: Secret,
}

const AREA: &str = "the number of an area, such as 0 or \"0.0.0.0\"";

pub(super) fn ospf(
    page: &mut Page,
    mut section: Section,
    family: Family,
    uses: &mut Uses,
    files: &mut Files,
) -> Ospf {
    let title = if family == Family::Ipv4 { "ospf" } else { "ospf6" };
    let mut vrfs: Vec<Ospf> = Vec::new();
    for (name, keys) in named(page, &mut section, "vrf", &format!("{title}.vrf")) {
        match interface_name(name) {
            Ok(name) => {
                let title = format!("{title}.vrf.{name}");
                vrfs.push(of_table(page, keys, &title, Some(name), family, uses, files));
            }
            Err(wrong) => page.wrong(keys.at.clone(), wrong, Hint::expected("the name of a VRF")),
        }
    }
    let at = section.at.clone();
    let main = of_table(page, section, title, None, family, uses, files);
    // FRR has an interface in one VRF.
    let mut seen: Vec<&str> = Vec::new();
    for it in vrfs.iter().chain([&main]).flat_map(|it| &it.interfaces) {
        if seen.contains(&it.name.as_str()) {
            let message = format!("[{title}] has {} in two VRFs", it.name);
            page.wrong(at.clone(), message, Hint::expected("each interface once"));
        }
        seen.push(&it.name);
    }
    Ospf { vrfs, ..main }
}

fn of_table(
    page: &mut Page,
    mut section: Section,
    title: &str,
    vrf: Option<String>,
    family: Family,
    uses: &mut Uses,
    files: &mut Files,
) -> Ospf {
    let router_id = router_id(page, &mut section);
    let protocol = if family == Family::Ipv4 { "ospf" } else { "ospf6" };
    let bandwidth = section.number(page, "reference_bandwidth", 1..=4_294_967).map(|rate| rate as u32);
    let redistribute = redistribute(page, &mut section, family, protocol, uses);
    let default = section.section(page, "default", &format!("[{title}.default]")).map(|mut keys| {
        let default = DefaultRoute {
            always: keys.flag(page, "always").unwrap_or(false),
            metric: keys.number(page, "metric", 0..=0xff_fffe).map(|metric| metric as u32),
            metric_type: keys.number(page, "metric_type", 1..=2).map(|number| number as u8),
            route_map: uses.name(page, &mut keys, "route_map", Used::RouteMap),
        };
        keys.finish(page);
        default
    });
    let mut areas: Vec<Area> = Vec::new();
    for (name, keys) in named(page, &mut section, "area", &format!("{title}.area")) {
        let at = keys.at.clone();
        let Some(found) = area(page, name, keys, family) else { continue };
        if areas.iter().any(|other| other.id == found.id) {
            page.wrong(at, format!("area {} is there already", found.id), Hint::expected("each once"));
        }
        areas.push(found);
    }
    areas.sort_by_key(|area| area.id);
    let mut interfaces = Vec::new();
    for (name, keys) in named(page, &mut section, "interface", &format!("{title}.interface")) {
        match interface_name(name) {
            Ok(name) => interfaces.extend(interface(page, name, keys, family, files)),
            Err(wrong) => {
                page.wrong(keys.at.clone(), wrong, Hint::expected("the name of an interface"));
            }
        }
    }
    section.finish(page);
    Ospf {
        vrf,
        vrfs: Vec::new(),
        router_id,
        reference_bandwidth: bandwidth,
        redistribute,
        default,
        areas,
        interfaces,
    }
}

fn area_id(text: &str) -> Result<Ipv4Addr, String> {
    match (text.parse::<Ipv4Addr>(), text.parse::<u32>()) {
        (Ok(id), _) => Ok(id),
        (_, Ok(number)) if !text.starts_with('+') => Ok(number.into()),
        _ => Err(format!("{text:?} is no number of an area")),
    }
}

fn area(page: &mut Page, name: &str, mut keys: Section, family: Family) -> Option<Area> {
    let at = keys.at.clone();
    let id = area_id(name).map_err(|wrong| page.wrong(at.clone(), wrong, Hint::expected(AREA))).ok();
    let kinds = [
        ("normal", AreaKind::Normal),
        ("stub", AreaKind::Stub),
        ("totally-stub", AreaKind::TotallyStub),
        ("nssa", AreaKind::Nssa),
    ];
    let kind = keys.choice(page, "kind", &kinds).unwrap_or(AreaKind::Normal);
    if kind != AreaKind::Normal && id == Some(Ipv4Addr::UNSPECIFIED) {
        let message = "the backbone, area 0, is a normal one";
        page.wrong(at, message, Hint::expected("kind \"normal\""));
    }
    let ranges = keys.texts(page, "ranges", "a list of prefixes", |text| match prefix(text) {
        Ok(net) if family.has(&net) => Ok(net),
        Ok(_) => Err(format!("{text:?} is not of {}", family.word())),
        Err(wrong) => Err(wrong),
    });
    keys.finish(page);
    Some(Area { id: id?, kind, ranges: ranges.unwrap_or_default() })
}

fn interface(
    page: &mut Page,
    name: String,
    mut keys: Section,
    family: Family,
    files: &mut Files,
) -> Option<OspfInterface> {
    let area = match keys.value("area").map(|value| (value.span(), value.get_ref())) {
        Some((at, value @ DeValue::Integer(_))) => {
            let id = number_of(value).and_then(|number| u32::try_from(number).ok()).map(Ipv4Addr::from);
            if id.is_none() {
                page.wrong(at, "area is out of range", Hint::expected(AREA));
            }
            id
        }
        Some((at, other)) if !matches!(other, DeValue::String(_)) => {
            page.wrong(at, format!("area cannot be {}", kind_of(other)), Hint::expected(AREA));
            None
        }
        _ => keys.text(page, "area", AREA, area_id).map(|found| found.value),
    };
    let area = keys.require(page, "area", area, AREA);
    let networks: &[(&str, &str)] = match family {
        Family::Ipv4 => &[
            ("broadcast", "broadcast"),
            ("point-to-point", "point-to-point"),
            ("point-to-multipoint", "point-to-multipoint"),
            ("non-broadcast", "non-broadcast"),
        ],
        Family::Ipv6 => &[("broadcast", "broadcast"), ("point-to-point", "point-to-point")],
    };
    let (hello, dead) =
        (seconds(page, &mut keys, "hello", 1..=65_535), seconds(page, &mut keys, "dead", 1..=65_535));
    // FRR's defaults are 10 and 40 seconds.
    if let Some(at) = keys.value("dead").or(keys.value("hello")).map(Spanned::span)
        && dead.unwrap_or(40) <= hello.unwrap_or(10)
    {
        page.wrong(at, "a neighbour is gone before its next hello", Hint::expected("dead longer than hello"));
    }
    let found = OspfInterface {
        name,
        cost: keys.number(page, "cost", 1..=65_535).map(|cost| cost as u16),
        passive: keys.flag(page, "passive").unwrap_or(false),
        hello,
        dead,
        priority: keys.number(page, "priority", 0..=255).map(|number| number as u8),
        network: keys.choice(page, "network", networks),
        authentication: match family {
            Family::Ipv4 => authentication(page, &mut keys, files),
            Family::Ipv6 => None,
        },
        bfd: keys.flag(page, "bfd").unwrap_or(false),
        area: area.unwrap_or(Ipv4Addr::UNSPECIFIED),
    };
    keys.finish(page);
    area.map(|_| found)
}

fn authentication(page: &mut Page, keys: &mut Section, files: &mut Files) -> Option<Authentication> {
    let mut inner = keys.section(page, "authentication", "authentication")?;
    let key_id = inner.number(page, "key_id", 1..=255).map(|number| number as u8);
    let most = if inner.value("key_id").is_some() { 16 } else { 8 };
    let key = secret(page, &mut inner, "key", most, files);
    let key = inner.require(page, "key", key, "the key");
    inner.finish(page);
    Some(Authentication { key_id, key: key? })
}
