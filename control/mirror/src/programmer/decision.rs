//! What the tables must hold for a prefix, as a function of the model.
//!
//! One table of the plane stands for Linux's `local` and `main`, and its longest match must come
//! out as Linux's does. That takes care where a prefix of `local` covers a longer one of `main`
//! (AnyIP: `ip route add local 192.0.2.0/24 dev lo`).
//!
//! - IPv6: Linux looks into `local` first, whole (`fib6_rule_lookup`). So the longer prefix does
//!   what the shorter one says. A `throw` in `local` ends the search there, and `main` decides.
//! - IPv4: both are one trie, and the longest match of both counts, until the first routing rule is
//!   ever made in the namespace; from then on it is as in IPv6 (`fib_unmerge`). Nothing that can be
//!   read tells which holds, so where it matters, Linux decides, packet by packet.
//!
//! A VRF's table says what its routes say; where Linux's rules look into `local` first, as they do
//! unless somebody has changed that, what `local` says counts before. What neither says, the
//! plane's readers ask the main table.
//!
//! A prefix with a route for some packets only, by their type of service or source, is Linux's as a
//! whole: it looks for the longest destination first, and only there at the rest. Longer prefixes
//! without such routes are not concerned.

use super::next_hop_key::{self, NextHopKey};
use super::{Place, Programmer};
use crate::model::{Kind, Model, Neighbour, Route, SourceId, Table, host};
use crate::origin;
use fib::TableId;
use ipnet::IpNet;
use std::net::IpAddr;

impl Programmer {
    /// What must be written at the place, shields included.
    pub fn next_hop_key_of(&self, place: Place, model: &Model) -> Option<NextHopKey> {
        if self.shields.contains(&place) {
            return Some(NextHopKey::Linux);
        }
        self.desired(place, model)
    }

    /// What the tables must hold at a place; `None` = nothing.
    pub fn desired(&self, Place { table, prefix }: Place, model: &Model) -> Option<NextHopKey> {
        match self.vrfs.number(table) {
            _ if table == TableId::MAIN => self.desired_in_main(prefix, model),
            Some(number) => self.desired_in_vrf(prefix, number, model),
            None => None,
        }
    }

    fn desired_in_vrf(&self, prefix: IpNet, number: u32, model: &Model) -> Option<NextHopKey> {
        let routes = model.routes.at(&prefix);
        let table = Table::Vrf(number);
        let best = self.best_of(table, &prefix, routes, model);
        if let Some(route) = self.local_before_vrfs(prefix, model) {
            let placed = best.or_else(|| self.best_of(Table::Local, &prefix, routes, model)).is_some();
            return placed.then(|| next_hop_key::next_hop_key(&prefix, route, model));
        }
        if is_restricted(routes, |of| of == table) {
            return Some(NextHopKey::Linux);
        }
        if let Some(route) = best {
            return Some(next_hop_key::next_hop_key(&prefix, route, model));
        }
        let whole = prefix.prefix_len() == prefix.max_prefix_len();
        let host = whole.then(|| self.host_in_vrf(prefix.addr(), number, model)).flatten();
        host.or_else(|| self.throws_in_local(prefix, model).then_some(NextHopKey::Linux))
    }

    /// Whether a `throw` of table `local` leads from exactly this prefix to what shorter ones of a
    /// VRF's say, which only Linux looks for.
    fn throws_in_local(&self, prefix: IpNet, model: &Model) -> bool {
        let routes = model.routes.at(&prefix);
        self.local_first[usize::from(prefix.addr().is_ipv6())]
            && self.best_of(Table::Local, &prefix, routes, model).is_some_and(|best| best.kind == Kind::Throw)
    }

    /// What table `local` says of all of a prefix, where Linux looks into that before a VRF's.
    fn local_before_vrfs<'a>(&self, prefix: IpNet, model: &'a Model) -> Option<&'a Route> {
        let first = self.local_first[usize::from(prefix.addr().is_ipv6())];
        let cover = first.then(|| self.local_cover(prefix, model)).flatten();
        cover.map(|(_, route)| route).filter(|route| route.kind != Kind::Throw)
    }

    fn desired_in_main(&self, prefix: IpNet, model: &Model) -> Option<NextHopKey> {
        if is_restricted(model.routes.at(&prefix), in_main) {
            return Some(NextHopKey::Linux);
        }
        if let Some(route) = self.best(&prefix, model.routes.at(&prefix), model) {
            let covered = self.covered(prefix, model);
            return Some(covered.unwrap_or_else(|| next_hop_key::next_hop_key(&prefix, route, model)));
        }
        if prefix.prefix_len() < prefix.max_prefix_len() {
            return None;
        }
        self.host(prefix.addr(), model)
    }

    /// What table `local` makes of a prefix with routes, where that is not what its best route
    /// says.
    fn covered(&self, prefix: IpNet, model: &Model) -> Option<NextHopKey> {
        let throws = |(cover, route): &(IpNet, &Route)| *cover == prefix && route.kind == Kind::Throw;
        match self.local_cover(prefix, model) {
            // Where main leads instead may be said by a shorter prefix.
            Some(cover) if throws(&cover) && self.leaves_main_open(prefix, model) => Some(NextHopKey::Linux),
            Some((cover, route)) if cover != prefix && route.kind != Kind::Throw => {
                let ipv6 = prefix.addr().is_ipv6();
                Some(if ipv6 { next_hop_key::next_hop_key(&prefix, route, model) } else { NextHopKey::Linux })
            }
            _ => None,
        }
    }

    /// Whether a `throw` of table `local` leads to something else than the best route of `main` for
    /// the same prefix.
    fn leaves_main_open(&self, prefix: IpNet, model: &Model) -> bool {
        let ipv4 = prefix.addr().is_ipv4();
        ipv4 || self.best_of(Table::Main, &prefix, model.routes.at(&prefix), model).is_none()
    }

    /// The route of `prefix` that Linux would use, if no other prefix of table `local` takes its
    /// place.
    pub fn best<'a>(&self, prefix: &IpNet, routes: &'a [Route], model: &Model) -> Option<&'a Route> {
        let of = |table| self.best_of(table, prefix, routes, model);
        match of(Table::Local) {
            Some(route) if route.kind == Kind::Throw => of(Table::Main).or(Some(route)),
            Some(route) => Some(route),
            None => of(Table::Main),
        }
    }

    /// The one that Linux would use of those that are in the same of the plane's tables as one of
    /// this table.
    pub fn best_like<'a>(
        &self,
        table: Table,
        prefix: &IpNet,
        routes: &'a [Route],
        model: &Model,
    ) -> Option<&'a Route> {
        if in_main(table) {
            self.best(prefix, routes, model)
        } else {
            self.best_of(table, prefix, routes, model)
        }
    }

    fn best_of<'a>(
        &self,
        table: Table,
        prefix: &IpNet,
        routes: &'a [Route],
        model: &Model,
    ) -> Option<&'a Route> {
        let ipv6 = prefix.addr().is_ipv6();
        let mut usable =
            routes.iter().filter(|route| route.table == table && self.usable(route, ipv6, model));
        let first = usable.next()?;
        // Equal IPv6 routes that do not join go by router preference.
        let equal = usable.take_while(|route| ipv6 && route.rank() == first.rank());
        Some(equal.fold(first, |best, route| if route.preference < best.preference { route } else { best }))
    }

    /// What table `local` says at exactly this prefix.
    pub fn says_local(&self, prefix: IpNet, model: &Model) -> Option<NextHopKey> {
        let route = self.best_of(Table::Local, &prefix, model.routes.at(&prefix), model)?;
        Some(next_hop_key::next_hop_key(&prefix, route, model))
    }

    /// What table `local` says of all of `prefix`, itself or by a shorter one.
    fn local_cover<'a>(&self, prefix: IpNet, model: &'a Model) -> Option<(IpNet, &'a Route)> {
        let mut covering = model.routes.local_covering(prefix);
        covering.find_map(|(cover, routes)| {
            self.best_of(Table::Local, &cover, routes, model).map(|route| (cover, route))
        })
    }

    fn usable(&self, route: &Route, ipv6: bool, model: &Model) -> bool {
        let told_by = match route.source {
            SourceId::Fpm => self.fpm,
            // What zebra tells of VRFs' tables is not followed.
            SourceId::Netlink => !(self.fpm && in_main(route.table) && origin::is_frr(route.origin)),
        };
        told_by
            && !route.is_restricted()
            && (route.kind != Kind::Unicast || next_hop_key::alive(model, route.target, ipv6))
    }

    /// The same of a VRF.
    fn host_in_vrf(&self, address: IpAddr, number: u32, model: &Model) -> Option<NextHopKey> {
        if never_a_host(address) {
            return None;
        }
        let table = Table::Vrf(number);
        let (prefix, route) = self.covering_in_vrf(number, address, model)?;
        if prefix.prefix_len() == 0 && self.no_defaults[usize::from(address.is_ipv6())] {
            return None;
        }
        let mut longer = model.routes.covering(address).take_while(|(cover, _)| *cover != prefix);
        let of_it = |of| of == table;
        if longer.any(|(_, routes)| is_restricted(routes, of_it))
            || is_restricted(model.routes.at(&prefix), of_it)
        {
            return None;
        }
        // A route to the network of another VRF's interface leaves its hosts to Linux.
        let ifindex = next_hop_key::on_link(model, route).filter(|on| model.vrf_of(*on) == Some(number))?;
        self.host_on(ifindex, address, route, model)
    }

    fn host_on(&self, ifindex: u32, address: IpAddr, route: &Route, model: &Model) -> Option<NextHopKey> {
        let neighbour = model.neighbours.find(ifindex, address)?;
        let usable = neighbour.usable().is_some() && self.ports.contains_key(&ifindex);
        usable.then_some(NextHopKey::Host { ifindex, address, mtu: route.mtu, sourced: route.sourced })
    }

    /// The way to a known host on a connected network.
    fn host(&self, address: IpAddr, model: &Model) -> Option<NextHopKey> {
        if never_a_host(address) {
            return None;
        }
        let mut found = model.neighbours.within(address, address);
        let known = |(ifindex, _, n): &(u32, IpAddr, &Neighbour)| {
            n.usable().is_some() && self.ports.contains_key(ifindex)
        };
        if !found.any(|neighbour| known(&neighbour)) {
            return None;
        }
        let (prefix, route) = self.covering(address, model)?;
        if prefix.prefix_len() == 0 && self.no_defaults[usize::from(address.is_ipv6())] {
            return None;
        }
        // Which way packets to the host take is Linux's to say.
        let mut longer = model.routes.covering(address).take_while(|(cover, _)| *cover != prefix);
        if longer.any(|(_, routes)| is_restricted(routes, in_main))
            || is_restricted(model.routes.at(&prefix), in_main)
        {
            return None;
        }
        if address.is_ipv4() && route.table == Table::Main && self.covered(prefix, model).is_some() {
            return None;
        }
        let ifindex = next_hop_key::on_link(model, route).filter(|on| model.vrf_of(*on).is_none())?;
        self.host_on(ifindex, address, route, model)
    }

    /// The route of a VRF's own table for `address`.
    fn covering_in_vrf<'a>(
        &self,
        number: u32,
        address: IpAddr,
        model: &'a Model,
    ) -> Option<(IpNet, &'a Route)> {
        let mut covering = model.routes.covering(address);
        covering.find_map(|(prefix, routes)| {
            let route = self.best_of(Table::Vrf(number), &prefix, routes, model)?;
            Some((prefix, route))
        })
    }

    /// The route that Linux would use for `address` where this table routes.
    pub fn covering_in<'a>(
        &self,
        table: TableId,
        address: IpAddr,
        model: &'a Model,
    ) -> Option<(IpNet, &'a Route)> {
        let Some(number) = self.vrfs.number(table) else { return self.covering(address, model) };
        let local =
            self.local_first[usize::from(address.is_ipv6())].then(|| self.local_cover(host(address), model));
        let local = local.flatten().filter(|(_, route)| route.kind != Kind::Throw);
        let own =
            || self.covering_in_vrf(number, address, model).filter(|(_, route)| route.kind != Kind::Throw);
        local.or_else(own).or_else(|| self.covering(address, model))
    }

    /// The route that Linux would use for `address`.
    pub fn covering<'a>(&self, address: IpAddr, model: &'a Model) -> Option<(IpNet, &'a Route)> {
        let mut covering = model.routes.covering(address);
        if address.is_ipv4() {
            return covering
                .find_map(|(prefix, routes)| self.best(&prefix, routes, model).map(|route| (prefix, route)));
        }
        let local = self.local_cover(host(address), model).filter(|(_, route)| route.kind != Kind::Throw);
        local.or_else(|| {
            covering.find_map(|(prefix, routes)| {
                self.best_of(Table::Main, &prefix, routes, model).map(|route| (prefix, route))
            })
        })
    }
}

/// Whether some routes of a prefix, in these tables, are for some packets only.
fn is_restricted(routes: &[Route], tables: impl Fn(Table) -> bool) -> bool {
    routes.iter().any(|route| route.is_restricted() && tables(route.table))
}

fn in_main(table: Table) -> bool {
    matches!(table, Table::Local | Table::Main)
}

/// Whether an address is of those that have no entry of their own.
fn never_a_host(address: IpAddr) -> bool {
    address.is_multicast() || matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}
