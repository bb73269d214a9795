//! `[bgp]`, `[ospf]`, `[ospf6]`, `[policy]` and `[routing]`: what FRR's daemons are told.
//!
//! Words are FRR's where it has one. What is absent is left to FRR and to whoever else tells it.

mod advertised;
mod bgp;
mod communities;
mod exchange;
mod family;
mod lists;
mod neighbour;
mod ospf;
mod policy;
mod route_map;
mod route_target;
mod speaker;
mod words;

pub(crate) use words::{PROTOCOLS, secret};

use std::path::PathBuf;

use toml::Spanned;

pub use advertised::{Aggregate, BgpFamily, Dampening, Evpn, Network, Vpn};
pub use bgp::{Bgp, BgpInstance};
pub use exchange::{AllowAs, NeighbourFamily, Originate};
pub use family::{AddressFamily, Family};
pub use neighbour::{Listen, Neighbour, Peer};
pub use ospf::{Area, AreaKind, Authentication, DefaultRoute, Ospf, OspfInterface};
pub use policy::{List, ListKind, Policy, RouteMap, RouteMapEntry};
pub use route_target::RouteTarget;
pub use speaker::{LocalAs, RemoteAs, Speaker};
pub use words::Redistribute;

use crate::mistake::{Hint, Page};
use crate::section::Section;
use words::{Files, Uses};

/// Where FRR's daemons have their sockets.
const SOCKETS: &str = "/run/frr";

/// All that FRR is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// The folder of the sockets by which FRR's shell asks its daemons.
    pub sockets: PathBuf,
    /// Lines of FRR's for what has no key.
    pub lines: String,
    /// `[bgp]`; absent: BGP is left to others.
    pub bgp: Option<Bgp>,
    /// `[ospf]`; absent: OSPF for IPv4 is left to others.
    pub ospf: Option<Ospf>,
    /// `[ospf6]`; absent: OSPF for IPv6 is left to others.
    pub ospf6: Option<Ospf>,
    /// `[policy]`; absent: lists and route maps are left to others.
    pub policy: Option<Policy>,
}

impl Default for Routing {
    fn default() -> Routing {
        Routing {
            sockets: PathBuf::from(SOCKETS),
            lines: String::new(),
            bgp: None,
            ospf: None,
            ospf6: None,
            policy: None,
        }
    }
}

impl Routing {
    /// Whether FRR is told anything.
    pub fn says_any(&self) -> bool {
        self.bgp.is_some()
            || self.ospf.is_some()
            || self.ospf6.is_some()
            || self.policy.is_some()
            || !self.lines.trim().is_empty()
    }
}

/// Reads the sections of the root that FRR is told.
pub(crate) fn routing(page: &mut Page, root: &mut Section, files: &mut Files) -> Routing {
    let mut uses = Uses::default();
    let own = root.section(page, "routing", "[routing]");
    let (sockets, lines) = own.map(|section| of_frr(page, section)).unwrap_or_default();
    let bgp = root.section(page, "bgp", "[bgp]").and_then(|s| bgp::bgp(page, s, &mut uses, files));
    let ospf = root.section(page, "ospf", "[ospf]");
    let ospf = ospf.map(|s| ospf::ospf(page, s, Family::Ipv4, &mut uses, files));
    let ospf6 = root.section(page, "ospf6", "[ospf6]");
    let ospf6 = ospf6.map(|s| ospf::ospf(page, s, Family::Ipv6, &mut uses, files));
    let policy = root.section(page, "policy", "[policy]").map(|s| policy::policy(page, s, &mut uses));
    let lines = lines.unwrap_or_default();
    if let Some(policy) = &policy {
        uses.check(page, policy, &lines);
    }
    Routing { sockets: sockets.unwrap_or_else(|| PathBuf::from(SOCKETS)), lines, bgp, ospf, ospf6, policy }
}

fn of_frr(page: &mut Page, mut section: Section) -> (Option<PathBuf>, Option<String>) {
    const FOLDER: &str = "the absolute path of a folder, such as \"/run/frr\"";
    const LINES: &str = "lines as FRR's `show running-config` has them";
    let sockets = section.text(page, "sockets", FOLDER, |text| {
        match text.starts_with('/') && text.len() < 80 && !text.contains(char::is_control) {
            true => Ok(PathBuf::from(text)),
            false => Err(format!("{text:?} is not that")),
        }
    });
    let at = section.value("frr").map(Spanned::span);
    let lines = section.text(page, "frr", LINES, |text| Ok(text.to_owned()));
    section.finish(page);
    let odd = |c: char| c.is_control() && c != '\n' && c != '\t';
    if let (Some(lines), Some(at)) = (&lines, at)
        && lines.value.contains(odd)
    {
        page.wrong(at, "frr: it has control characters", Hint::expected(LINES));
    }
    (sockets.map(|found| found.value), lines.map(|found| found.value.replace('\t', " ")))
}
