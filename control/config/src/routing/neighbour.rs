//! `[bgp.neighbour."ADDRESS"]`: who BGP speaks with; and `[bgp.group.NAME]`: what several
//! neighbours have in common.
//!
//! Groups are Bifrost's own. FRR is told each neighbour whole, so that a change of a group is a
//! change of its neighbours and of nothing else.

use std::collections::BTreeMap;
use std::net::IpAddr;

use toml::Spanned;
use toml::de::DeValue;

use super::bgp::timers;
use super::policy::{Family, ListKind};
use super::words::{Files, LINE, Used, Uses, line, name, seconds, secret};
use crate::interface::interface_name;
use crate::mistake::{Hint, Page, near};
use crate::secrets::Secret;
use crate::section::{Section, kind as kind_of, number_of};

/// Who BGP speaks with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// Its autonomous system.
    pub remote_as: RemoteAs,
    /// What it is called.
    pub description: Option<String>,
    /// The password of its TCP connection (RFC 2385).
    pub password: Option<Secret>,
    /// The interface or address that is spoken from.
    pub update_source: Option<String>,
    /// How many hops away a neighbour of another system may be.
    pub ebgp_multihop: Option<u8>,
    /// Packets from further away are not believed (RFC 5082).
    pub ttl_security: Option<u8>,
    /// Seconds between keepalives, and until it is gone when it is silent.
    pub timers: Option<(u16, u16)>,
    /// Seconds until it is called again when it does not answer.
    pub connect_retry: Option<u16>,
    /// Whether BFD tells that it is gone; by a profile of that name, or FRR's default.
    pub bfd: Option<Option<String>>,
    /// Whether it is waited for.
    pub passive: bool,
    /// Whether it is spoken with.
    pub enabled: bool,
    /// What is exchanged, in the order of [`Family::BOTH`]; `None`: nothing.
    pub families: [Option<NeighbourFamily>; 2],
}

/// A neighbour's autonomous system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteAs {
    /// By its number.
    Number(u32),
    /// This router's own.
    Internal,
    /// Any other.
    External,
}

/// What is exchanged with a neighbour in a family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeighbourFamily {
    /// A route map for what comes in, and one for what goes out; so the next two.
    pub route_map: [Option<String>; 2],
    /// Prefix lists.
    pub prefix_list: [Option<String>; 2],
    /// AS path lists.
    pub as_path_list: [Option<String>; 2],
    /// Whether this router is the next hop of all that it tells of.
    pub next_hop_self: Option<bool>,
    /// Whether what came in is kept as it was.
    pub soft_reconfiguration: Option<bool>,
    /// More prefixes end the session.
    pub maximum_prefix: Option<u32>,
    /// Whether a default route is told, and by which route map.
    pub default_originate: Option<Originate>,
    /// Whether the neighbour is a client of this route reflector.
    pub route_reflector_client: Option<bool>,
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

/// What a neighbour or a group says; what is `None` the group says, or nobody.
#[derive(Clone, Default)]
pub(super) struct Settings {
    remote_as: Option<RemoteAs>,
    description: Option<String>,
    password: Option<Secret>,
    update_source: Option<String>,
    ebgp_multihop: Option<u8>,
    ttl_security: Option<u8>,
    timers: Option<(u16, u16)>,
    connect_retry: Option<u16>,
    bfd: Option<Bfd>,
    passive: Option<bool>,
    enabled: Option<bool>,
    families: [Option<Exchange>; 2],
}

#[derive(Clone)]
enum Bfd {
    Off,
    On,
    Profile(String),
}

#[derive(Clone)]
enum Exchange {
    Nothing,
    As(Box<NeighbourFamily>),
}

impl Settings {
    /// With what the group says where these say nothing.
    fn or(self, group: &Settings) -> Settings {
        let group = group.clone();
        let [four, six] = self.families;
        let [group_four, group_six] = group.families;
        Settings {
            remote_as: self.remote_as.or(group.remote_as),
            description: self.description.or(group.description),
            password: self.password.or(group.password),
            update_source: self.update_source.or(group.update_source),
            ebgp_multihop: self.ebgp_multihop.or(group.ebgp_multihop),
            ttl_security: self.ttl_security.or(group.ttl_security),
            timers: self.timers.or(group.timers),
            connect_retry: self.connect_retry.or(group.connect_retry),
            bfd: self.bfd.or(group.bfd),
            passive: self.passive.or(group.passive),
            enabled: self.enabled.or(group.enabled),
            families: [exchange(four, group_four), exchange(six, group_six)],
        }
    }
}

fn exchange(own: Option<Exchange>, group: Option<Exchange>) -> Option<Exchange> {
    match (own, group) {
        (Some(Exchange::As(own)), Some(Exchange::As(group))) => Some(Exchange::As(Box::new(own.or(*group)))),
        (own, group) => own.or(group),
    }
}

impl NeighbourFamily {
    fn or(self, group: NeighbourFamily) -> NeighbourFamily {
        let both = |[a, b]: [Option<String>; 2], [c, d]: [Option<String>; 2]| [a.or(c), b.or(d)];
        NeighbourFamily {
            route_map: both(self.route_map, group.route_map),
            prefix_list: both(self.prefix_list, group.prefix_list),
            as_path_list: both(self.as_path_list, group.as_path_list),
            next_hop_self: self.next_hop_self.or(group.next_hop_self),
            soft_reconfiguration: self.soft_reconfiguration.or(group.soft_reconfiguration),
            maximum_prefix: self.maximum_prefix.or(group.maximum_prefix),
            default_originate: self.default_originate.or(group.default_originate),
            route_reflector_client: self.route_reflector_client.or(group.route_reflector_client),
        }
    }
}

pub(super) fn group(page: &mut Page, mut keys: Section, uses: &mut Uses, files: &mut Files) -> Settings {
    let settings = settings(page, &mut keys, uses, files);
    keys.finish(page);
    settings
}

pub(super) fn neighbour(
    page: &mut Page,
    written: &str,
    mut keys: Section,
    asn: Option<u32>,
    groups: &BTreeMap<&str, Settings>,
    uses: &mut Uses,
    files: &mut Files,
) -> Option<Neighbour> {
    const ADDRESS: &str = "the address of a host, such as [bgp.neighbour.\"192.0.2.2\"]";
    let link_local = |it: &IpAddr| matches!(it, IpAddr::V6(it) if it.is_unicast_link_local());
    let address = match written.parse::<IpAddr>() {
        Ok(it) if it.is_unspecified() || it.is_multicast() || link_local(&it) => {
            page.wrong(keys.at.clone(), format!("{it} cannot be a neighbour here"), Hint::expected(ADDRESS));
            None
        }
        Ok(it) => Some(it),
        Err(_) => {
            page.wrong(keys.at.clone(), format!("{written:?} is no address"), Hint::expected(ADDRESS));
            None
        }
    };
    let group = keys.text(page, "group", "the name of a [bgp.group.NAME]", |text| Ok(text.to_owned()));
    let settings = settings(page, &mut keys, uses, files);
    let settings = match group {
        None => settings,
        Some(found) => match groups.get(found.value.as_str()) {
            Some(group) => settings.or(group),
            None => {
                let known = || groups.keys().copied();
                let hint = Hint {
                    expected: Some(match groups.is_empty() {
                        true => "the name of a [bgp.group.NAME]".to_owned(),
                        false => known().collect::<Vec<_>>().join(", "),
                    }),
                    meant: near(&found.value, known()).map(|known| format!("{known:?}")),
                };
                page.wrong(found.at, format!("there is no group {:?}", found.value), hint);
                settings
            }
        },
    };
    if settings.ebgp_multihop.is_some() && settings.ttl_security.is_some() {
        let at = keys.value("ttl_security").map_or(keys.at.clone(), Spanned::span);
        let message = "ttl_security and ebgp_multihop exclude each other";
        page.wrong(at, message, Hint::expected("one of them"));
    }
    let internal = match settings.remote_as {
        Some(RemoteAs::Number(number)) => asn.map(|asn| asn == number),
        Some(RemoteAs::Internal) => Some(true),
        Some(RemoteAs::External) => Some(false),
        None => None,
    };
    if settings.ebgp_multihop.is_some() && internal == Some(true) {
        let at = keys.value("ebgp_multihop").map_or(keys.at.clone(), Spanned::span);
        let message = "ebgp_multihop is for neighbours of other systems";
        page.wrong(at, message, Hint::expected("no ebgp_multihop"));
    }
    for (family, exchange) in Family::BOTH.into_iter().zip(&settings.families) {
        let client = matches!(exchange, Some(Exchange::As(it)) if it.route_reflector_client == Some(true));
        if client && internal == Some(false) {
            let at = keys.value(family.key()).map_or(keys.at.clone(), Spanned::span);
            let message = "route_reflector_client is for neighbours of the same system";
            page.wrong(at, message, Hint::expected("no route_reflector_client"));
        }
    }
    let remote_as = keys.require(page, "remote_as", settings.remote_as, REMOTE_AS);
    keys.finish(page);
    let address = address?;
    let [four, six] = settings.families;
    let families = match (four, six) {
        // Who says nothing of families exchanges that of the address.
        (None, None) => [address.is_ipv4(), address.is_ipv6()].map(|is| is.then(NeighbourFamily::default)),
        (four, six) => [four, six].map(|family| match family {
            Some(Exchange::As(family)) => Some(*family),
            Some(Exchange::Nothing) | None => None,
        }),
    };
    Some(Neighbour {
        address,
        remote_as: remote_as?,
        description: settings.description,
        password: settings.password,
        update_source: settings.update_source,
        ebgp_multihop: settings.ebgp_multihop,
        ttl_security: settings.ttl_security,
        timers: settings.timers,
        connect_retry: settings.connect_retry,
        bfd: match settings.bfd {
            None | Some(Bfd::Off) => None,
            Some(Bfd::On) => Some(None),
            Some(Bfd::Profile(profile)) => Some(Some(profile)),
        },
        passive: settings.passive.unwrap_or(false),
        enabled: settings.enabled.unwrap_or(true),
        families,
    })
}

const REMOTE_AS: &str = "a whole number from 1 to 4,294,967,295, \"internal\" or \"external\"";

fn settings(page: &mut Page, keys: &mut Section, uses: &mut Uses, files: &mut Files) -> Settings {
    const SOURCE: &str = "an address of this router, or the name of an interface";
    let hops = |page: &mut Page, keys: &mut Section, key, most| {
        keys.number(page, key, 1..=most).map(|number| number as u8)
    };
    let source = |text: &str| match text.parse::<IpAddr>() {
        Ok(address) => Ok(address.to_string()),
        Err(_) => interface_name(text),
    };
    Settings {
        remote_as: remote_as(page, keys),
        description: keys.text(page, "description", LINE, line).map(|found| found.value),
        password: secret(page, keys, "password", 80, files),
        update_source: keys.text(page, "update_source", SOURCE, source).map(|found| found.value),
        ebgp_multihop: hops(page, keys, "ebgp_multihop", 255),
        ttl_security: hops(page, keys, "ttl_security", 254),
        timers: timers(page, keys),
        connect_retry: seconds(page, keys, "connect_retry", 1..=65_535),
        bfd: bfd(page, keys),
        passive: keys.flag(page, "passive"),
        enabled: keys.flag(page, "enabled"),
        families: Family::BOTH.map(|family| of_family(page, keys, family, uses)),
    }
}

fn remote_as(page: &mut Page, keys: &mut Section) -> Option<RemoteAs> {
    let value = keys.value("remote_as")?;
    match value.get_ref() {
        DeValue::String(_) => {
            let words = [("internal", RemoteAs::Internal), ("external", RemoteAs::External)];
            return keys.choice(page, "remote_as", &words);
        }
        other => match number_of(other).and_then(|number| u32::try_from(number).ok()) {
            Some(number @ 1..) => return Some(RemoteAs::Number(number)),
            _ => page.wrong(
                value.span(),
                match number_of(other) {
                    Some(_) => "remote_as is out of range".to_owned(),
                    None => format!("remote_as cannot be {}", kind_of(other)),
                },
                Hint::expected(REMOTE_AS),
            ),
        },
    }
    None
}

fn bfd(page: &mut Page, keys: &mut Section) -> Option<Bfd> {
    match keys.value("bfd")?.get_ref() {
        DeValue::String(_) => {
            let found = keys.text(page, "bfd", "true, false, or the name of a profile of FRR's", name)?;
            Some(Bfd::Profile(found.value))
        }
        _ => Some(if keys.flag(page, "bfd")? { Bfd::On } else { Bfd::Off }),
    }
}

/// `true`, `false`, or what is exchanged.
fn of_family(page: &mut Page, keys: &mut Section, family: Family, uses: &mut Uses) -> Option<Exchange> {
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
    let mut named = |page: &mut Page, keys, used| {
        let [coming, going]: [&'static str; 2] = keys;
        [uses.name(page, &mut inner, coming, used), uses.name(page, &mut inner, going, used)]
    };
    let route_map = named(page, ["route_map_in", "route_map_out"], Used::RouteMap);
    let lists = ["prefix_list_in", "prefix_list_out"];
    let prefix_list = named(page, lists, Used::PrefixList(Some(family)));
    let lists = ["as_path_list_in", "as_path_list_out"];
    let as_path_list = named(page, lists, Used::List(ListKind::AsPath));
    let default_originate = match inner.value("default_originate").map(Spanned::get_ref) {
        None => None,
        Some(DeValue::String(_)) => {
            uses.name(page, &mut inner, "default_originate", Used::RouteMap).map(Originate::By)
        }
        Some(_) => inner.flag(page, "default_originate").map(|on| match on {
            true => Originate::Always,
            false => Originate::Never,
        }),
    };
    let found = NeighbourFamily {
        route_map,
        prefix_list,
        as_path_list,
        next_hop_self: inner.flag(page, "next_hop_self"),
        soft_reconfiguration: inner.flag(page, "soft_reconfiguration"),
        maximum_prefix: inner.number(page, "maximum_prefix", 1..=u64::from(u32::MAX)).map(|n| n as u32),
        default_originate,
        route_reflector_client: inner.flag(page, "route_reflector_client"),
    };
    inner.finish(page);
    Some(Exchange::As(Box::new(found)))
}
