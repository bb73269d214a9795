//! `[bgp]`, `[ospf]`, `[ospf6]`, `[policy]` and `[routing]`: what FRR's daemons are told.
//!
//! Words are FRR's where it has one. What is absent is left to FRR and to whoever else tells it.

mod advertised;
mod bfd;
mod bgp;
mod communities;
mod exchange;
mod family;
mod lists;
mod neighbour;
mod ospf;
mod policy;
mod protocol;
mod route_map;
mod route_target;
mod rpki;
mod speaker;
mod words;

pub(crate) use protocol::LEVELS;
pub(crate) use words::{Files, PROTOCOLS, secret};

use std::path::PathBuf;

use toml::Spanned;

pub use advertised::{Aggregate, BgpFamily, Dampening, Evpn, Network, Vpn};
pub use bfd::{BfdPeer, BfdSessions, BfdTimes};
pub use bgp::{Bgp, BgpInstance};
pub use exchange::{AllowAs, NeighbourFamily, Originate};
pub use family::{AddressFamily, Family};
pub use neighbour::{Listen, Neighbour, Peer};
pub use ospf::{Area, AreaKind, Authentication, DefaultRoute, Ospf, OspfInterface};
pub use policy::{List, ListKind, Policy, RouteMap, RouteMapEntry};
pub use protocol::{Lines, Protocol};
pub use route_target::RouteTarget;
pub use rpki::{Bmp, Rpki, RpkiCache};
pub use speaker::{LocalAs, RemoteAs, Speaker};
pub use words::Redistribute;

use crate::mistake::{Hint, Page};
use crate::section::Section;
use words::Uses;

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
    /// `[isis]`; absent: IS-IS is left to others. So the next three.
    pub isis: Option<Protocol>,
    /// `[rip]`.
    pub rip: Option<Protocol>,
    /// `[ripng]`.
    pub ripng: Option<Protocol>,
    /// `[pim]`.
    pub pim: Option<Protocol>,
    /// `[routing.bfd]`; absent: BFD is left to others.
    pub bfd: Option<BfdSessions>,
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
            isis: None,
            rip: None,
            ripng: None,
            pim: None,
            bfd: None,
            policy: None,
        }
    }
}

impl Routing {
    /// Protocols that are kept as lines, each with its section.
    pub fn protocols(&self) -> [(&'static str, Option<&Protocol>); 4] {
        [
            ("isis", self.isis.as_ref()),
            ("rip", self.rip.as_ref()),
            ("ripng", self.ripng.as_ref()),
            ("pim", self.pim.as_ref()),
        ]
    }

    /// Whether FRR is told anything.
    pub fn says_any(&self) -> bool {
        self.bgp.is_some()
            || self.ospf.is_some()
            || self.ospf6.is_some()
            || self.protocols().iter().any(|(_, it)| it.is_some())
            || self.bfd.is_some()
            || self.policy.is_some()
            || !self.lines.trim().is_empty()
    }
}

/// Reads the sections of the root that FRR is told.
pub(crate) fn routing(page: &mut Page, root: &mut Section, files: &mut Files) -> Routing {
    let mut uses = Uses::default();
    let own = root.section(page, "routing", "[routing]");
    let (sockets, lines, bfd) = own.map(|section| of_frr(page, section)).unwrap_or_default();
    let bgp = root.section(page, "bgp", "[bgp]").and_then(|s| bgp::bgp(page, s, &mut uses, files));
    let ospf = root.section(page, "ospf", "[ospf]");
    let ospf = ospf.map(|s| ospf::ospf(page, s, Family::Ipv4, &mut uses, files));
    let ospf6 = root.section(page, "ospf6", "[ospf6]");
    let ospf6 = ospf6.map(|s| ospf::ospf(page, s, Family::Ipv6, &mut uses, files));
    let isis = root.section(page, "isis", "[isis]");
    let isis = isis.map(|s| protocol::isis(page, s, &mut uses, files));
    let rip = root.section(page, "rip", "[rip]");
    let rip = rip.map(|s| protocol::rip(page, s, Family::Ipv4, &mut uses, files));
    let ripng = root.section(page, "ripng", "[ripng]");
    let ripng = ripng.map(|s| protocol::rip(page, s, Family::Ipv6, &mut uses, files));
    let pim = root.section(page, "pim", "[pim]").map(|s| protocol::pim(page, s, &mut uses));
    let policy = root.section(page, "policy", "[policy]").map(|s| policy::policy(page, s, &mut uses));
    let lines = lines.unwrap_or_default();
    if let Some(policy) = &policy {
        uses.check(page, policy, &lines);
    }
    Routing {
        sockets: sockets.unwrap_or_else(|| PathBuf::from(SOCKETS)),
        lines,
        bgp,
        ospf,
        ospf6,
        isis,
        rip,
        ripng,
        pim,
        bfd,
        policy,
    }
}

fn of_frr(page: &mut Page, mut section: Section) -> (Option<PathBuf>, Option<String>, Option<BfdSessions>) {
    const FOLDER: &str = "the absolute path of a folder, such as \"/run/frr\"";
    const LINES: &str = "lines as FRR's `show running-config` has them";
    let sockets = section.text(page, "sockets", FOLDER, |text| {
        match text.starts_with('/') && text.len() < 80 && !text.contains(char::is_control) {
            true => Ok(PathBuf::from(text)),
            false => Err(format!("{text:?} is not that")),
        }
    });
    let bfd = section.section(page, "bfd", "[routing.bfd]").map(|keys| bfd::bfd(page, keys));
    let at = section.value("frr").map(Spanned::span);
    let lines = section.text(page, "frr", LINES, |text| Ok(text.to_owned()));
    section.finish(page);
    let odd = |c: char| c.is_control() && c != '\n' && c != '\t';
    if let (Some(lines), Some(at)) = (&lines, at)
        && lines.value.contains(odd)
    {
        page.wrong(at, "frr: it has control characters", Hint::expected(LINES));
    }
    (sockets.map(|found| found.value), lines.map(|found| found.value.replace('\t', " ")), bfd)
}
