//! `show mirror`: where routes come from, and how well the mirror keeps up. The names of the fields
//! are stable.

use crate::audit::Stage;
use crate::mirror::Mirror;
use crate::model::SourceId;
use crate::source::Source;
use serde::Serialize;
use std::collections::BTreeMap;

/// What the mirror tells of itself.
#[derive(Clone, Debug, Serialize)]
pub struct MirrorStatus {
    /// `netlink`, or `netlink+fpm` while zebra's routes are in force.
    pub source: &'static str,
    /// Linux's tables have been read whole and the plane's hold all of it.
    pub ready: bool,
    /// Prefixes with a route in `local` or `main`.
    pub prefixes_ipv4: usize,
    /// The same, IPv6.
    pub prefixes_ipv6: usize,
    /// Routes by origin, as Linux tells.
    pub origins: Vec<OriginCount>,
    /// Routes by origin, as zebra tells.
    pub fpm_origins: Vec<OriginCount>,
    /// Routes in tables that are not used yet, by table number.
    pub other_tables: BTreeMap<u32, usize>,
    /// Routes for some packets only (type of service, source prefix), which are not used yet.
    pub restricted: usize,
    /// Routing rules beyond those that Linux starts with, IPv4.
    pub rules_ipv4: usize,
    /// The same, IPv6.
    pub rules_ipv6: usize,
    /// The first of them, as `ip rule` writes them, with their family before.
    pub rules: Vec<String>,
    /// Different things that routes point at.
    pub targets: usize,
    /// Next-hop objects of Linux.
    pub next_hop_objects: usize,
    /// Next hops in the tables.
    pub next_hops: usize,
    /// Adjacencies in the tables.
    pub adjacencies: usize,
    /// Neighbours that Linux knows.
    pub neighbours: usize,
    /// Gateways of routes in use that do not answer.
    pub unresolved: usize,
    /// Netlink messages heard.
    pub messages: u64,
    /// Netlink messages that could not be read.
    pub malformed: u64,
    /// Withdrawals of routes that were not known.
    pub unknown_withdrawals: u64,
    /// Times that netlink lost messages.
    pub overflows: u64,
    /// Times that tables of Linux were read again.
    pub rereads: u64,
    /// Things that changed while they were read, and are to be read again.
    pub unsure: usize,
    /// Prefixes without room in the tables now: Linux forwards them.
    pub missing: usize,
    /// Times that a table had no room.
    pub table_full: u64,
    /// Changes that the tables refused for other reasons.
    pub refused: u64,
    /// Requests about neighbours sent to Linux.
    pub neighbour_requests: u64,
    /// The audit; `None` when it is off.
    pub audit: Option<AuditStatus>,
    /// The talk with zebra; `None` when FPM is off.
    pub fpm: Option<FpmStatus>,
}

/// Routes of one origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OriginCount {
    /// Its name.
    pub origin: String,
    /// IPv4 routes.
    pub ipv4: usize,
    /// IPv6 routes.
    pub ipv6: usize,
}

/// What the audit did.
#[derive(Clone, Debug, Serialize)]
pub struct AuditStatus {
    /// Complete rounds.
    pub rounds: u64,
    /// Differences found, each of which was repaired.
    pub differences: u64,
    /// Seconds since the last round ended.
    pub last_seconds_ago: Option<u64>,
    /// `waiting`, `comparing`, `confirming` or `tables`.
    pub stage: &'static str,
}

/// How the talk with zebra stands.
#[derive(Clone, Debug, Serialize)]
pub struct FpmStatus {
    /// `away`, `telling` or `steady`.
    pub state: &'static str,
    /// Zebra's routes are in force.
    pub in_force: bool,
    /// Times that zebra connected.
    pub connections: u64,
    /// Frames received.
    pub frames: u64,
    /// Messages received.
    pub messages: u64,
    /// Messages about what is not mirrored over FPM.
    pub passed_over: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Next-hop objects of zebra.
    pub next_hop_objects: usize,
}

impl Mirror {
    /// What `show mirror` prints.
    pub fn status(&self) -> MirrorStatus {
        let counts = self.model.routes.counts();
        let linux = self.source(SourceId::Netlink).map(Source::counters).unwrap_or_default();
        let mut other_tables = BTreeMap::new();
        for (table, count) in counts.other_tables.iter().flatten().filter(|(_, count)| **count > 0) {
            *other_tables.entry(*table).or_default() += count;
        }
        let [rules4, rules6] = self.policy.rules();
        let (missing, table_full) = self.programmer.overflow();
        MirrorStatus {
            source: if self.programmer.uses_fpm() { "netlink+fpm" } else { "netlink" },
            ready: self.ready(),
            prefixes_ipv4: self.model.routes.len_of(false),
            prefixes_ipv6: self.model.routes.len_of(true),
            origins: self.by_origin(&counts.origins),
            fpm_origins: self.by_origin(&counts.fpm_origins),
            other_tables,
            restricted: counts.restricted,
            rules_ipv4: rules4.count,
            rules_ipv6: rules6.count,
            rules: rules4.first.iter().chain(&rules6.first).cloned().collect(),
            targets: self.model.routes.targets().len(),
            next_hop_objects: self.model.objects.iter(SourceId::Netlink).count(),
            next_hops: self.programmer.hops.len(),
            adjacencies: self.programmer.hops.adjacencies.len(),
            neighbours: self.model.neighbours.len(),
            unresolved: self.programmer.hops.adjacencies.unresolved().count(),
            messages: linux.messages,
            malformed: linux.malformed,
            unknown_withdrawals: self.counters.unknown_withdrawals,
            overflows: linux.lost,
            rereads: self.counters.rereads,
            unsure: self.unsure(),
            missing,
            table_full,
            refused: self.programmer.failures(),
            neighbour_requests: self.resolver.sent,
            audit: self.audit_status(),
            fpm: self.fpm_status(),
        }
    }

    fn by_origin(&self, counts: &[[usize; 256]; 2]) -> Vec<OriginCount> {
        let known = (0..=255u8).filter(|origin| counts.iter().any(|family| family[usize::from(*origin)] > 0));
        known
            .map(|origin| OriginCount {
                origin: self.origins.name(origin),
                ipv4: counts[0][usize::from(origin)],
                ipv6: counts[1][usize::from(origin)],
            })
            .collect()
    }

    fn audit_status(&self) -> Option<AuditStatus> {
        self.audit.as_ref().map(|audit| AuditStatus {
            rounds: audit.rounds,
            differences: audit.differences,
            last_seconds_ago: audit.last.map(|last| last.elapsed().as_secs()),
            stage: match audit.stage {
                Stage::Waiting(_) => "waiting",
                Stage::Comparing => "comparing",
                Stage::Suspecting(..) | Stage::Confirming => "confirming",
                Stage::Tables(_) => "tables",
            },
        })
    }

    fn fpm_status(&self) -> Option<FpmStatus> {
        let source = self.source(SourceId::Fpm)?;
        let (talk, counters) = (source.talk()?, source.counters());
        Some(FpmStatus {
            state: talk.state,
            in_force: self.programmer.uses_fpm(),
            connections: talk.connections,
            frames: counters.frames,
            messages: counters.messages,
            passed_over: counters.passed_over,
            malformed: counters.malformed,
            next_hop_objects: self.model.objects.iter(SourceId::Fpm).count(),
        })
    }
}
