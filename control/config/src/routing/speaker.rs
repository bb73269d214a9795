//! How a neighbour of BGP is spoken with: what it says itself, and what its `[bgp.group.NAME]`
//! says.
//!
//! Groups are Bifrost's own. FRR is told each neighbour whole, so that a change of a group is a
//! change of its neighbours and of nothing else.

use std::collections::BTreeMap;
use std::net::IpAddr;

use toml::Spanned;
use toml::de::DeValue;

use super::bgp::{Common, IN_MAIN, timers};
use super::exchange::{Exchange, NeighbourFamily, exchange};
use super::family::AddressFamily;
use super::words::{Files, LINE, Uses, line, name, seconds, secret};
use crate::interface::interface_name;
use crate::mistake::{Hint, Page, near};
use crate::secrets::Secret;
use crate::section::{Section, kind as kind_of, number_of};

/// How a neighbour is spoken with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speaker {
    /// Its autonomous system.
    pub remote_as: RemoteAs,
    /// Which one this router is of for it, where that is another one.
    pub local_as: Option<LocalAs>,
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
    /// Whether a neighbour of another system must be on a link of this router.
    pub connected_check: bool,
    /// Seconds between keepalives, and until it is gone when it is silent.
    pub timers: Option<(u16, u16)>,
    /// Seconds until it is called again when it does not answer.
    pub connect_retry: Option<u16>,
    /// Seconds between two updates.
    pub advertisement_interval: Option<u16>,
    /// Whether BFD tells that it is gone; by a profile of that name, or FRR's default.
    pub bfd: Option<Option<String>>,
    /// Whether it is waited for.
    pub passive: bool,
    /// Whether it is spoken with.
    pub enabled: bool,
    /// Whether paths of another system must begin with it.
    pub enforce_first_as: bool,
    /// Whether next hops of IPv4 may be of IPv6 (RFC 8950).
    pub extended_next_hop: bool,
    /// What becomes of forwarding while one of the two restarts, as FRR says it.
    pub graceful_restart: Option<&'static str>,
    /// What is exchanged.
    pub families: BTreeMap<AddressFamily, NeighbourFamily>,
}

/// Another autonomous system that this router is of for a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAs {
    /// Its number.
    pub asn: u32,
    /// Whether it is put in front of paths that come in.
    pub prepend: bool,
    /// Whether it stands instead of this router's own in paths that go out.
    pub replace: bool,
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

/// What a neighbour or a group says; what is `None` the group says, or nobody.
#[derive(Clone, Default)]
pub(super) struct Settings {
    remote_as: Option<RemoteAs>,
    local_as: Option<LocalAs>,
    description: Option<String>,
    password: Option<Secret>,
    update_source: Option<String>,
    ebgp_multihop: Option<u8>,
    ttl_security: Option<u8>,
    connected_check: Option<bool>,
    timers: Option<(u16, u16)>,
    connect_retry: Option<u16>,
    advertisement_interval: Option<u16>,
    bfd: Option<Bfd>,
    passive: Option<bool>,
    enabled: Option<bool>,
    enforce_first_as: Option<bool>,
    extended_next_hop: Option<bool>,
    graceful_restart: Option<&'static str>,
    families: BTreeMap<AddressFamily, Exchange>,
}

#[derive(Clone)]
enum Bfd {
    Off,
    On,
    Profile(String),
}

impl Settings {
    /// With what the group says where these say nothing.
    fn or(mut self, group: &Settings) -> Settings {
        let group = group.clone();
        let families = AddressFamily::ALL.into_iter().filter_map(|family| {
            let both = Exchange::or(self.families.remove(&family), group.families.get(&family).cloned());
            Some((family, both?))
        });
        Settings {
            families: families.collect(),
            remote_as: self.remote_as.or(group.remote_as),
            local_as: self.local_as.or(group.local_as),
            description: self.description.or(group.description),
            password: self.password.or(group.password),
            update_source: self.update_source.or(group.update_source),
            ebgp_multihop: self.ebgp_multihop.or(group.ebgp_multihop),
            ttl_security: self.ttl_security.or(group.ttl_security),
            connected_check: self.connected_check.or(group.connected_check),
            timers: self.timers.or(group.timers),
            connect_retry: self.connect_retry.or(group.connect_retry),
            advertisement_interval: self.advertisement_interval.or(group.advertisement_interval),
            bfd: self.bfd.or(group.bfd),
            passive: self.passive.or(group.passive),
            enabled: self.enabled.or(group.enabled),
            enforce_first_as: self.enforce_first_as.or(group.enforce_first_as),
            extended_next_hop: self.extended_next_hop.or(group.extended_next_hop),
            graceful_restart: self.graceful_restart.or(group.graceful_restart),
        }
    }
}

pub(super) fn group(page: &mut Page, mut keys: Section, uses: &mut Uses, files: &mut Files) -> Settings {
    let settings = settings(page, &mut keys, uses, files);
    keys.finish(page);
    settings
}

/// What a neighbour says, and its group. `usual`: what is exchanged when nothing is said of it.
/// `behind`: it is behind an interface, and has no address.
pub(super) fn speaker(
    page: &mut Page,
    mut keys: Section,
    asn: Option<u32>,
    usual: AddressFamily,
    behind: bool,
    common: &mut Common,
) -> Option<Speaker> {
    let group = keys.text(page, "group", "the name of a [bgp.group.NAME]", |text| Ok(text.to_owned()));
    let settings = settings(page, &mut keys, common.uses, common.files);
    let settings = match group {
        None => settings,
        Some(found) => match common.groups.get(found.value.as_str()) {
            Some(group) => settings.or(group),
            None => {
                let known = || common.groups.keys().copied();
                let hint = Hint {
                    expected: Some(match common.groups.is_empty() {
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
    clashes(page, &mut keys, &settings, asn, behind, common.in_vrf);
    let remote_as = keys.require(page, "remote_as", settings.remote_as, REMOTE_AS);
    keys.finish(page);
    let mut families = BTreeMap::new();
    if settings.families.is_empty() {
        families.insert(usual, NeighbourFamily::default());
    }
    for (family, exchange) in settings.families {
        if let Exchange::As(exchange) = exchange {
            families.insert(family, *exchange);
        }
    }
    Some(Speaker {
        remote_as: remote_as?,
        local_as: settings.local_as,
        description: settings.description,
        password: settings.password,
        update_source: settings.update_source,
        ebgp_multihop: settings.ebgp_multihop,
        ttl_security: settings.ttl_security,
        connected_check: settings.connected_check.unwrap_or(true),
        timers: settings.timers,
        connect_retry: settings.connect_retry,
        advertisement_interval: settings.advertisement_interval,
        bfd: match settings.bfd {
            None | Some(Bfd::Off) => None,
            Some(Bfd::On) => Some(None),
            Some(Bfd::Profile(profile)) => Some(Some(profile)),
        },
        passive: settings.passive.unwrap_or(false),
        enabled: settings.enabled.unwrap_or(true),
        enforce_first_as: settings.enforce_first_as.unwrap_or(false),
        // Behind an interface it goes without saying.
        extended_next_hop: settings.extended_next_hop.unwrap_or(false) && !behind,
        graceful_restart: settings.graceful_restart,
        families,
    })
}

/// What does not go together.
fn clashes(
    page: &mut Page,
    keys: &mut Section,
    settings: &Settings,
    asn: Option<u32>,
    behind: bool,
    in_vrf: bool,
) {
    let mut wrong = |key: &'static str, message: &str, hint: &str| {
        let at = keys.value(key).map_or(keys.at.clone(), Spanned::span);
        page.wrong(at, message, Hint::expected(hint));
    };
    let internal = match settings.remote_as {
        Some(RemoteAs::Number(number)) => asn.map(|asn| asn == number),
        Some(RemoteAs::Internal) => Some(true),
        Some(RemoteAs::External) => Some(false),
        None => None,
    };
    if settings.ebgp_multihop.is_some() && settings.ttl_security.is_some() {
        wrong("ttl_security", "ttl_security and ebgp_multihop exclude each other", "one of them");
    }
    if settings.ebgp_multihop.is_some() && internal == Some(true) {
        let message = "ebgp_multihop is for neighbours of other systems";
        wrong("ebgp_multihop", message, "no ebgp_multihop");
    }
    if settings.connected_check == Some(false) && internal == Some(true) {
        let message = "connected_check is for neighbours of other systems";
        wrong("connected_check", message, "no connected_check");
    }
    for (has, key) in [
        (settings.update_source.is_some(), "update_source"),
        (settings.ebgp_multihop.is_some(), "ebgp_multihop"),
        (settings.ttl_security.is_some_and(|hops| hops > 1), "ttl_security"),
        (settings.connected_check == Some(false), "connected_check"),
    ] {
        if behind && has {
            wrong(key, &format!("{key} is not for who is behind an interface"), &format!("no {key}"));
        }
    }
    if let Some(local) = settings.local_as {
        if internal == Some(true) {
            wrong("local_as", "local_as is for neighbours of other systems", "no local_as");
        } else if Some(local.asn) == asn || settings.remote_as == Some(RemoteAs::Number(local.asn)) {
            wrong("local_as", "local_as is the system of one of the two", "another system");
        } else if local.replace && local.prepend {
            wrong("local_as", "replace goes with prepend = false", "prepend = false");
        }
    }
    for (family, exchange) in &settings.families {
        let Exchange::As(exchange) = exchange else { continue };
        if in_vrf && !family.is_of_vrfs() {
            wrong(family.key(), &format!("FRR has no {} in a VRF", family.key()), IN_MAIN);
        }
        if let Some((key, message)) = exchange.clash(internal) {
            wrong(family.key(), &format!("{key}: {message}"), &format!("no {key}"));
        }
    }
    let has = |family| matches!(settings.families.get(&family), Some(Exchange::As(_)));
    for (plain, labeled) in
        [(AddressFamily::Ipv4, AddressFamily::Ipv4Labeled), (AddressFamily::Ipv6, AddressFamily::Ipv6Labeled)]
    {
        if has(plain) && has(labeled) {
            let message = format!("{} and {} exclude each other", plain.key(), labeled.key());
            wrong(labeled.key(), &message, "one of them");
        }
    }
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
    let families = AddressFamily::ALL
        .into_iter()
        .filter_map(|family| Some((family, exchange(page, keys, family, uses)?)))
        .collect();
    let restarts = [
        ("on", "graceful-restart"),
        ("helper", "graceful-restart-helper"),
        ("off", "graceful-restart-disable"),
    ];
    Settings {
        remote_as: remote_as(page, keys),
        local_as: local_as(page, keys),
        description: keys.text(page, "description", LINE, line).map(|found| found.value),
        password: secret(page, keys, "password", 80, files),
        update_source: keys.text(page, "update_source", SOURCE, source).map(|found| found.value),
        ebgp_multihop: hops(page, keys, "ebgp_multihop", 255),
        ttl_security: hops(page, keys, "ttl_security", 254),
        connected_check: keys.flag(page, "connected_check"),
        timers: timers(page, keys),
        connect_retry: seconds(page, keys, "connect_retry", 1..=65_535),
        advertisement_interval: seconds(page, keys, "advertisement_interval", 0..=600),
        bfd: bfd(page, keys),
        passive: keys.flag(page, "passive"),
        enabled: keys.flag(page, "enabled"),
        enforce_first_as: keys.flag(page, "enforce_first_as"),
        extended_next_hop: keys.flag(page, "extended_next_hop"),
        graceful_restart: keys.choice(page, "graceful_restart", &restarts),
        families,
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

fn local_as(page: &mut Page, keys: &mut Section) -> Option<LocalAs> {
    let mut inner = keys.section(page, "local_as", "local_as")?;
    let asn = inner.number(page, "as", 1..=u64::from(u32::MAX)).map(|number| number as u32);
    let asn = inner.require(page, "as", asn, "the number of an autonomous system");
    let prepend = inner.flag(page, "prepend").unwrap_or(true);
    let replace = inner.flag(page, "replace").unwrap_or(false);
    inner.finish(page);
    Some(LocalAs { asn: asn?, prepend, replace })
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
