//! `[bgp]`: BGP of the main table, and `[bgp.vrf.NAME]` of VRFs.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use toml::Spanned;

use super::advertised::{self, BgpFamily, Evpn};
use super::family::{AddressFamily, For};
use super::neighbour::{self, Listen, Neighbour};
use super::rpki::{self, Bmp, Rpki};
use super::speaker::{self, Settings};
use super::words::{Files, Uses, router_id, seconds};
use crate::interface::interface_name;
use crate::mistake::{Hint, Page};
use crate::section::{Section, named};

/// All of BGP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bgp {
    /// That of the main table first, then those of VRFs by name.
    pub instances: Vec<BgpInstance>,
    /// Whom RPKI is asked of.
    pub rpki: Option<Rpki>,
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
    /// Seconds that a restart takes at most, as neighbours are told.
    pub graceful_restart_time: Option<u16>,
    /// Seconds that routes of a neighbour which restarts are kept.
    pub graceful_restart_stale_time: Option<u16>,
    /// Seconds between keepalives, and until a silent neighbour is gone.
    pub timers: Option<(u16, u16)>,
    /// How many neighbours may come by themselves; `None`: FRR's default.
    pub listen_limit: Option<u16>,
    /// What it tells of by itself.
    pub families: BTreeMap<AddressFamily, BgpFamily>,
    /// What it tells of Ethernet addresses.
    pub evpn: Option<Evpn>,
    /// In the order of their names.
    pub neighbours: Vec<Neighbour>,
    /// Neighbours that come by themselves.
    pub listens: Vec<Listen>,
    /// Who is told of all that is heard, by name.
    pub bmp: Vec<Bmp>,
}

/// What is read once for all tables.
pub(super) struct Common<'c, 'f> {
    pub groups: BTreeMap<&'c str, Settings>,
    pub vrfs: Vec<&'c str>,
    /// Whether what is read now is of a VRF.
    pub in_vrf: bool,
    pub uses: &'c mut Uses,
    pub files: &'c mut Files<'f>,
}

/// What helps with what no VRF can have.
pub(super) const IN_MAIN: &str = "it in [bgp] only";
const AS: &str = "a whole number from 1 to 4,294,967,295";

pub(super) fn bgp(page: &mut Page, mut section: Section, uses: &mut Uses, files: &mut Files) -> Option<Bgp> {
    let mut groups = BTreeMap::new();
    for (name, keys) in named(page, &mut section, "group", "bgp.group") {
        groups.insert(name, speaker::group(page, keys, uses, files));
    }
    let vrfs = named(page, &mut section, "vrf", "bgp.vrf");
    let rpki = section.section(page, "rpki", "[bgp.rpki]").map(|keys| rpki::rpki(page, keys));
    let names = vrfs.iter().map(|(name, _)| *name).collect();
    let mut common = Common { groups, vrfs: names, in_vrf: false, uses, files };
    let mut instances = Vec::new();
    let main = instance(page, section, None, None, &mut common);
    let asn = main.as_ref().map(|main| main.asn);
    instances.extend(main);
    common.in_vrf = true;
    for (name, keys) in vrfs {
        match interface_name(name) {
            Ok(name) => instances.extend(instance(page, keys, Some(name), asn, &mut common)),
            Err(wrong) => page.wrong(keys.at.clone(), wrong, Hint::expected("the name of a VRF")),
        }
    }
    asn.map(|_| Bgp { instances, rpki })
}

fn instance(
    page: &mut Page,
    mut section: Section,
    vrf: Option<String>,
    usual: Option<u32>,
    common: &mut Common,
) -> Option<BgpInstance> {
    let asn = section.number(page, "as", 1..=u64::from(u32::MAX)).map(|number| number as u32);
    let asn = match vrf {
        None => section.require(page, "as", asn, AS),
        Some(_) => asn.or(usual),
    };
    let title = vrf.as_ref().map_or_else(|| "bgp".to_owned(), |vrf| format!("bgp.vrf.{vrf}"));
    let mut found = BgpInstance {
        asn: asn.unwrap_or(1),
        router_id: router_id(page, &mut section),
        ebgp_requires_policy: section.flag(page, "ebgp_requires_policy").unwrap_or(true),
        log_neighbour_changes: section.flag(page, "log_neighbour_changes").unwrap_or(false),
        graceful_restart: section.flag(page, "graceful_restart").unwrap_or(false),
        graceful_restart_time: seconds(page, &mut section, "graceful_restart_time", 1..=4_095),
        graceful_restart_stale_time: seconds(page, &mut section, "graceful_restart_stale_time", 1..=4_095),
        timers: timers(page, &mut section),
        listen_limit: section.number(page, "listen_limit", 1..=65_535).map(|number| number as u16),
        families: BTreeMap::new(),
        evpn: None,
        neighbours: Vec::new(),
        listens: Vec::new(),
        bmp: rpki::bmp(page, &mut section, &title),
        vrf,
    };
    for family in AddressFamily::ALL {
        let title = format!("{title}.{}", family.key());
        if matches!(family.purpose(), For::Vpn | For::Evpn) {
            continue;
        }
        if let Some(inner) = section.section(page, family.key(), &format!("[{title}]")) {
            let at = inner.at.clone();
            let read = advertised::of_family(page, inner, family, &title, &common.vrfs, common.uses);
            if common.in_vrf && !family.is_of_vrfs() {
                page.wrong(
                    at.clone(),
                    format!("FRR has no {} in a VRF", family.key()),
                    Hint::expected(IN_MAIN),
                );
            }
            // FRR 8.4 has one dampening for all tables.
            if common.in_vrf && read.dampening.is_some() {
                page.wrong(at, "FRR has no dampening of a VRF's own", Hint::expected(IN_MAIN));
            }
            found.families.insert(family, read);
        }
    }
    found.evpn = advertised::evpn(page, &mut section, &title, found.vrf.is_some());
    for (name, keys) in named(page, &mut section, "neighbour", &format!("{title}.neighbour")) {
        let at = keys.at.clone();
        let Some(neighbour) = neighbour::neighbour(page, name, keys, asn, common) else { continue };
        if found.neighbours.iter().any(|other| other.peer == neighbour.peer) {
            let message = format!("{} is a neighbour already", neighbour.peer);
            page.wrong(at, message, Hint::expected("each once"));
        }
        found.neighbours.push(neighbour);
    }
    for (name, keys) in named(page, &mut section, "listen", &format!("{title}.listen")) {
        let at = keys.at.clone();
        let Some(listen) = neighbour::listen(page, name, keys, asn, common) else { continue };
        let is_there = found.neighbours.iter().any(|other| other.peer.to_string() == listen.name);
        let range =
            listen.ranges.iter().find(|range| found.listens.iter().any(|other| other.ranges.contains(range)));
        if is_there {
            let message = format!("{} is a neighbour already", listen.name);
            page.wrong(at, message, Hint::expected("another name"));
        } else if let Some(range) = range {
            let message = format!("{range} is listened on already");
            page.wrong(at, message, Hint::expected("each once"));
        }
        found.listens.push(listen);
    }
    section.finish(page);
    asn.map(|_| found)
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
