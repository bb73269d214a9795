//! What the control thread says of routes, neighbours and the mirror.

use std::collections::HashSet;

use crate::control::RouteQuery;
use crate::control::status::*;
use mirror::show::{HopLine, NeighbourLine, RouteFilter, RouteLine};

use super::forwarding::Forwarding;
use crate::subject::{origins, received};

/// Neighbours shown at most in one page of the mirror's.
const NEIGHBOURS: usize = 4096;

impl Forwarding {
    pub(super) fn routes(
        &self,
        query: &RouteQuery,
        after: Option<&RouteEntry>,
        limit: usize,
    ) -> Result<Vec<RouteEntry>, String> {
        let vrf = query.vrf.as_ref().map(|name| {
            let link = self.mirror.model().links.by_name(name);
            link.and_then(|link| link.vrf()).ok_or_else(|| format!("no VRF is named \"{name}\""))
        });
        let vrf = vrf.transpose()?;
        if let Some(address) = query.address {
            // All of them at once: they are the routes of one prefix.
            let lines = if after.is_some() {
                Vec::new()
            } else {
                self.mirror.routes_for(&self.tables, vrf, address.into())
            };
            return Ok(lines.iter().map(route).collect());
        }
        let filter = RouteFilter { within: query.within, local: true, vrf, ..RouteFilter::default() };
        let mut next = Some(after.map(|entry| entry.prefix));
        let mut entries: Vec<RouteEntry> = Vec::new();
        while let Some(from) = next {
            let room = limit - entries.len();
            let (lines, go_on) = self.mirror.routes_page(&self.tables, &filter, from, room);
            entries.extend(lines.iter().map(route));
            if entries.len() >= limit {
                break;
            }
            next = go_on.map(Some);
        }
        keep_whole_prefixes(&mut entries, limit);
        Ok(entries)
    }

    pub(crate) fn neighbours(&self) -> Vec<Neighbour> {
        let ours: HashSet<&str> = self.plane.in_use().map(|interface| interface.name.as_str()).collect();
        let mut neighbours = Vec::new();
        let mut after = None;
        loop {
            let (lines, next) = self.mirror.neighbours_page(&self.tables, after, NEIGHBOURS);
            neighbours.extend(lines.iter().filter(|line| ours.contains(line.device.as_str())).map(neighbour));
            match next {
                Some(_) => after = next,
                None => return neighbours,
            }
        }
    }

    /// What passed, all lanes together, and whether the tables are Linux's.
    pub(super) fn summary(&self) -> Summary {
        let lanes = self.plane.ports().iter().map(|port| received(&self.plane.driver_counters(port)));
        Summary {
            lanes: lanes.fold(Lanes::default(), |a, b| Lanes {
                express: a.express + b.express,
                worker: a.worker + b.worker,
                linux: a.linux + b.linux,
            }),
            routes: origins(&self.mirror),
            synced: self.mirror.ready(),
        }
    }
}

/// Cuts entries above `limit`, but not between two of one prefix: the next page goes on by prefix.
fn keep_whole_prefixes(entries: &mut Vec<RouteEntry>, limit: usize) {
    if entries.len() <= limit {
        return;
    }
    let last = entries[limit].prefix;
    let cut = entries.iter().position(|entry| entry.prefix == last).filter(|cut| *cut > 0);
    entries.truncate(cut.unwrap_or(limit));
}

pub(super) fn route(line: &RouteLine) -> RouteEntry {
    RouteEntry {
        prefix: line.prefix,
        origin: line.origin.clone(),
        table: line.table,
        metric: line.metric,
        from: line.from,
        tos: (line.tos != 0).then(|| format!("{:#04x}", line.tos)),
        kind: kind(line),
        next_hops: line.ways.iter().map(next_hop).collect(),
        selected: line.best,
        programmed: line.programmed.is_some_and(|programmed| programmed != "missing"),
    }
}

fn kind(line: &RouteLine) -> RouteKind {
    match (line.programmed, line.kind) {
        (Some("linux" | "missing"), "unicast") => RouteKind::Linux,
        // Also where a prefix of table local covers it.
        (Some("local"), _) | (_, "local" | "broadcast" | "anycast" | "multicast") => RouteKind::Local,
        (_, "blackhole") => RouteKind::Blackhole,
        (_, "prohibit") => RouteKind::Prohibit,
        (_, "unreachable" | "throw") => RouteKind::Unreachable,
        _ if line.ways.iter().all(|way| way.gateway.is_none()) => RouteKind::Connected,
        _ => RouteKind::Forward,
    }
}

fn next_hop(way: &HopLine) -> NextHop {
    NextHop {
        via: way.gateway,
        dev: way.device.clone(),
        weight: u16::try_from(way.weight).unwrap_or(u16::MAX),
        mac: way.mac.map(|mac| mac.to_string()),
        resolved: way.bound && way.mac.is_some(),
    }
}

fn neighbour(line: &NeighbourLine) -> Neighbour {
    Neighbour {
        address: line.address,
        dev: line.device.clone(),
        mac: line.mac.map(|mac| mac.to_string()),
        state: line.state.to_owned(),
        programmed: line.programmed,
    }
}
