//! Answers for `show routes`, `show neighbours` and `explain`. The names of the fields are stable.
//!
//! A full table is shown in pages: each call looks at a bounded number of prefixes and says where
//! to go on, so the control thread can answer a slow reader between its other work.

use crate::mirror::Mirror;
use crate::model::{Neighbour, Path, Route, SourceId, Table, Target, Ways, host};
use crate::programmer::{self, NextHopKey, Place};
use fib::{TableId, Tables};
use ipnet::IpNet;
use serde::Serialize;
use std::net::IpAddr;
use wire::Mac;

/// Prefixes that one page looks at, whether they pass the filter or not.
const LOOKED_AT: usize = 20_000;

/// Which routes to show. The default shows all of table `main`.
#[derive(Clone, Debug, Default)]
pub struct RouteFilter {
    /// Only prefixes inside this one, itself included.
    pub within: Option<IpNet>,
    /// Only IPv6 (`true`) or IPv4 (`false`).
    pub ipv6: Option<bool>,
    /// Only of this origin (`RTPROT_*`; [`crate::origin::Origins::number`]).
    pub origin: Option<u8>,
    /// Table `local` too.
    pub local: bool,
    /// Instead, the table of a VRF, by its number.
    pub vrf: Option<u32>,
}

/// A route, and what the plane does with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RouteLine {
    /// Destination.
    pub prefix: IpNet,
    /// Linux's number of its table: 254 is `main`, 255 `local`, others are VRFs'.
    pub table: u32,
    /// Who made it.
    pub origin: String,
    /// Who told it: `netlink` or `fpm`.
    pub source: &'static str,
    /// `unicast`, `local`, `blackhole`...
    pub kind: &'static str,
    /// Priority, lowest wins.
    pub metric: u32,
    /// Only packets from there.
    pub from: Option<IpNet>,
    /// Only packets of this type of service; 0 = all.
    pub tos: u8,
    /// Path MTU it sets; 0 = none.
    pub mtu: u32,
    /// The next-hop object it names.
    pub object: Option<u32>,
    /// Ways out.
    pub ways: Vec<HopLine>,
    /// Linux uses it for its prefix, before the others.
    pub best: bool,
    /// For the best: what the tables do: `forward`, `local`, `resolve` (connected network),
    /// `blackhole`, `unreachable`, `prohibit`, `no route` or `linux`; `missing` when the tables
    /// have no room. `None` for the others.
    pub programmed: Option<&'static str>,
    /// For the best: the next hop's number in the tables.
    pub next_hop: Option<u32>,
}

/// One way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HopLine {
    /// The next router; `None` = on the link.
    pub gateway: Option<IpAddr>,
    /// The interface's name, or its number when it is gone.
    pub device: String,
    /// Share.
    pub weight: u32,
    /// State of the gateway's neighbour entry; `None` when there is none.
    pub neighbour: Option<&'static str>,
    /// The gateway's Ethernet address.
    pub mac: Option<Mac>,
    /// The interface is Bifrost's.
    pub bound: bool,
}

/// Where packets to a prefix are led, as tables `main` and `local` decide for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    /// Destination.
    pub prefix: IpNet,
    /// `unicast`, `local`, `blackhole`...
    pub kind: &'static str,
    /// Interfaces by which they leave, by Linux's index.
    pub by: Vec<u32>,
}

/// A neighbour, and whether the plane sends to it by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NeighbourLine {
    /// Address.
    pub address: IpAddr,
    /// Interface.
    pub device: String,
    /// Ethernet address.
    pub mac: Option<Mac>,
    /// As `ip neighbour` says it.
    pub state: &'static str,
    /// The interface is Bifrost's and the neighbour resolved.
    pub usable: bool,
    /// It has an entry of its own in the tables.
    pub programmed: bool,
}

/// How a decision came about, for `explain`.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The route that decides.
    pub route: RouteLine,
    /// Set when the destination is a known host on that route's network, with an entry of its own.
    pub host: Option<NeighbourLine>,
}

/// Whether a table is that of a VRF by its number, or without one `main` or `local`.
fn is_of(vrf: Option<u32>, table: Table) -> bool {
    match table {
        Table::Vrf(number) => vrf == Some(number),
        Table::Local | Table::Main => vrf.is_none(),
    }
}

impl Mirror {
    /// The next page of routes behind `after`; and where the page after it starts, `None` at the
    /// end. A page may be empty and not the last.
    pub fn routes_page(
        &self,
        tables: &Tables,
        filter: &RouteFilter,
        after: Option<IpNet>,
        limit: usize,
    ) -> (Vec<RouteLine>, Option<IpNet>) {
        let routes = &self.model.routes;
        let mut lines = Vec::new();
        let walk: Box<dyn Iterator<Item = (IpNet, &[Route])>> = match filter.within {
            Some(within) => Box::new(routes.within(within, after)),
            None => Box::new(routes.after(after)),
        };
        for (looked_at, (prefix, list)) in walk.enumerate() {
            if filter.ipv6.is_none_or(|ipv6| ipv6 == prefix.addr().is_ipv6()) {
                let passes = |line: &&Route| {
                    filter.origin.is_none_or(|origin| origin == line.origin)
                        && (filter.local || line.table != Table::Local)
                        && is_of(filter.vrf, line.table)
                };
                lines.extend(list.iter().filter(passes).map(|route| self.line(tables, prefix, list, route)));
            }
            if lines.len() >= limit || looked_at >= LOOKED_AT {
                return (lines, Some(prefix));
            }
        }
        (lines, None)
    }

    /// The routes of the longest prefix that covers all of `prefix` (itself, if it has routes),
    /// best first. Of a VRF's table by its number, or without one of `main` and `local`.
    pub fn routes_for(&self, tables: &Tables, vrf: Option<u32>, prefix: IpNet) -> Vec<RouteLine> {
        let routes = &self.model.routes;
        let covering =
            routes.covering(prefix.addr()).filter(|(cover, _)| cover.prefix_len() <= prefix.prefix_len());
        let mut lines = covering.map(|(cover, list)| {
            let own = list.iter().filter(|route| is_of(vrf, route.table));
            own.map(|route| self.line(tables, cover, list, route)).collect::<Vec<_>>()
        });
        lines.find(|lines| !lines.is_empty()).unwrap_or_default()
    }

    /// Where all prefixes lead, the next so many behind `after`; and where to go on, `None` at the
    /// end.
    pub fn leads_page(&self, after: Option<IpNet>, limit: usize) -> (Vec<Lead>, Option<IpNet>) {
        let mut leads = Vec::new();
        for (looked_at, (prefix, list)) in self.model.routes.after(after).enumerate() {
            if let Some(route) = self.programmer.best(&prefix, list, &self.model) {
                let by = match self.model.ways(route.target) {
                    Ways::Paths(paths) => paths.iter().map(|path| path.ifindex).collect(),
                    Ways::Blackhole => Vec::new(),
                };
                leads.push(Lead { prefix, kind: route.kind.name(), by });
            }
            if looked_at + 1 >= limit {
                return (leads, Some(prefix));
            }
        }
        (leads, None)
    }

    /// Whether packets to a prefix have a way: it has a route of its own in `main` or `local`, and
    /// the one that Linux would use does not reject, and is of that origin (as `ip route` names
    /// it), if one is asked for.
    pub fn leads(&self, prefix: &IpNet, from: Option<&str>) -> bool {
        let best = self.programmer.best(prefix, self.model.routes.at(prefix), &self.model);
        let of = |origin| from.is_none_or(|from| self.origins.name(origin) == from);
        best.is_some_and(|route| !route.kind.rejects() && of(route.origin))
    }

    /// What decides about packets for `address` that a table routes; `None` = no route.
    pub fn explain(&self, tables: &Tables, table: TableId, address: IpAddr) -> Option<Explanation> {
        let (prefix, route) = self.programmer.covering_in(table, address, &self.model)?;
        let list = self.model.routes.at(&prefix);
        let own = Place { table, prefix: host(address) };
        let host = match self.programmer.desired(own, &self.model) {
            Some(NextHopKey::Host { ifindex, .. }) => self
                .model
                .neighbours
                .find(ifindex, address)
                .map(|neighbour| self.neighbour_line(tables, ifindex, address, neighbour)),
            _ => None,
        };
        Some(Explanation { route: self.line(tables, prefix, list, route), host })
    }

    /// All neighbours that Linux knows, by address, behind `after`, and where to go on.
    pub fn neighbours_page(
        &self,
        tables: &Tables,
        after: Option<(IpAddr, u32)>,
        limit: usize,
    ) -> (Vec<NeighbourLine>, Option<(IpAddr, u32)>) {
        let mut walk = self.model.neighbours.after(after);
        let mut lines = Vec::new();
        for (ifindex, address, neighbour) in walk.by_ref() {
            lines.push(self.neighbour_line(tables, ifindex, address, neighbour));
            if lines.len() >= limit {
                return (lines, Some((address, ifindex)));
            }
        }
        (lines, None)
    }

    fn neighbour_line(
        &self,
        tables: &Tables,
        ifindex: u32,
        address: IpAddr,
        neighbour: &Neighbour,
    ) -> NeighbourLine {
        let bound = self.programmer.interface(ifindex).is_some();
        NeighbourLine {
            address,
            device: self.device(ifindex),
            mac: neighbour.mac,
            state: neighbour.state_name(),
            usable: bound && neighbour.usable().is_some(),
            programmed: self.programmer.table_of(ifindex, &self.model).is_some_and(|table| {
                programmer::at(tables, Place { table, prefix: host(address) }).is_some()
            }),
        }
    }

    fn line(&self, tables: &Tables, prefix: IpNet, list: &[Route], route: &Route) -> RouteLine {
        let best = self
            .programmer
            .best_like(route.table, &prefix, list, &self.model)
            .is_some_and(|best| std::ptr::eq(best, route));
        let place = self.programmer.place(prefix, route.table);
        let next_hop = place.and_then(|place| programmer::at(tables, place)).filter(|_| best);
        let target = self.model.routes.targets().at(route.target);
        let ways = match self.model.ways(route.target) {
            Ways::Paths(paths) => paths.iter().map(|path| self.way(path)).collect(),
            Ways::Blackhole => Vec::new(),
        };
        RouteLine {
            prefix,
            table: route.table.number(),
            origin: self.origins.name(route.origin),
            source: match route.source {
                SourceId::Netlink => "netlink",
                SourceId::Fpm => "fpm",
            },
            kind: route.kind.name(),
            metric: route.metric,
            from: self.model.routes.from(route),
            tos: route.tos,
            mtu: route.mtu,
            object: match target {
                Target::Object(_, id) => Some(*id),
                Target::Paths(_) => None,
            },
            ways,
            best,
            programmed: best.then(|| match next_hop {
                Some(id) => programmer::says(&tables.next_hop(id)),
                None => "missing",
            }),
            next_hop: next_hop.map(|id| id.0),
        }
    }

    fn way(&self, path: &Path) -> HopLine {
        let neighbour = path.gateway.and_then(|gateway| self.model.neighbours.find(path.ifindex, gateway));
        HopLine {
            gateway: path.gateway,
            device: self.device(path.ifindex),
            weight: path.weight,
            neighbour: neighbour.map(|neighbour| neighbour.state_name()),
            mac: neighbour.and_then(|neighbour| neighbour.mac),
            bound: self.programmer.interface(path.ifindex).is_some(),
        }
    }

    fn device(&self, ifindex: u32) -> String {
        self.model.links.by_index(ifindex).map_or_else(|| ifindex.to_string(), |link| link.name.clone())
    }
}
