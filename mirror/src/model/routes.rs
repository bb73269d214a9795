//! All routes of the tables `local` and `main`, of both families, by prefix.
//!
//! One ordered map: a full table's walk can stop anywhere and go on from its last prefix, which is how the audit, the
//! sweep and `show routes` work in slices while routes change. Each prefix has its routes in the order in which Linux
//! considers them; nearly all have one, stored in place.
//!
//! Notifications must have the effect on this map that the change had on Linux's own lists, and the two families
//! differ. IPv4 (`fib_table_insert`): routes equal in type of service and metric form a list; the message says whether
//! the new one is alone (`EXCL`), behind them (`APPEND`), in place of the first (`REPLACE`), or before them (none).
//! IPv6 (`fib6_add_rt2node`): routes by gateways with equal metric are one multipath route, of which each message
//! shows the whole; but a withdrawal shows only the paths that leave.
//!
//! Every operation may find its effect already there (a dump can run ahead of the notifications) and then changes
//! nothing.

use super::route::{Kind, Route, Table};
use super::target::{Source, Target, Targets};
use crate::netlink::route::RouteMessage;
use crate::netlink::{APPEND, EXCLUSIVE, REPLACE};
use ipnet::IpNet;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::ops::Bound;

const RTPROT_RA: u8 = 9;

/// The routes of one prefix.
pub type RouteList = SmallVec<[Route; 1]>;

/// See the module's description.
pub struct Routes {
    map: BTreeMap<IpNet, RouteList>,
    lengths: [[u32; 129]; 2],
    pub(crate) targets: Targets,
    counts: Counts,
    generations: [u8; 2],
}

/// How many routes there are of each sort.
#[derive(Clone, Debug)]
pub struct Counts {
    /// IPv4 and IPv6 routes by origin (`RTPROT_*`), as told by Linux.
    pub origins: [[usize; 256]; 2],
    /// The same, as told by zebra over FPM.
    pub fpm_origins: [[usize; 256]; 2],
    /// Routes restricted to a type of service or source, which are not used.
    pub restricted: usize,
    /// IPv4 and IPv6 routes in tables that are not used, by table number.
    pub other_tables: [HashMap<u32, usize>; 2],
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            origins: [[0; 256]; 2],
            fpm_origins: [[0; 256]; 2],
            restricted: 0,
            other_tables: Default::default(),
        }
    }
}

impl Default for Routes {
    fn default() -> Routes {
        Routes {
            map: BTreeMap::new(),
            lengths: [[0; 129]; 2],
            targets: Targets::default(),
            counts: Counts::default(),
            generations: [0; 2],
        }
    }
}

/// What came of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The prefix's routes changed.
    Changed,
    /// The prefix's routes changed, and Linux may have dropped another of them without saying so.
    Doubtful,
    /// They already were so.
    Known,
    /// A withdrawal of what is not here.
    Unknown,
}

impl Routes {
    /// The routes of exactly this prefix, best first; empty when it has none.
    pub fn at(&self, prefix: &IpNet) -> &[Route] {
        self.map.get(prefix).map_or(&[], |list| list.as_slice())
    }

    /// Walks on from behind `after` (from the start when `None`).
    pub fn after(&self, after: Option<IpNet>) -> impl Iterator<Item = (IpNet, &[Route])> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.map.range((from, Bound::Unbounded)).map(|(prefix, list)| (*prefix, list.as_slice()))
    }

    /// Prefixes inside `outer`, itself included, that come behind `after`.
    pub fn within(&self, outer: IpNet, after: Option<IpNet>) -> impl Iterator<Item = (IpNet, &[Route])> {
        let from = after.filter(|after| *after >= outer).map_or(Bound::Included(outer), Bound::Excluded);
        let to = host(outer.broadcast());
        let outside = matches!(from, Bound::Excluded(after) if after >= to);
        let range = if outside { None } else { Some(self.map.range((from, Bound::Included(to)))) };
        range.into_iter().flatten().map(|(prefix, list)| (*prefix, list.as_slice()))
    }

    /// The prefixes that contain `address`, longest first.
    pub fn covering(&self, address: IpAddr) -> impl Iterator<Item = (IpNet, &[Route])> {
        let lengths = &self.lengths[usize::from(address.is_ipv6())];
        let longest = host(address).prefix_len();
        (0..=longest).rev().filter(|length| lengths[usize::from(*length)] > 0).filter_map(move |length| {
            let prefix = IpNet::new(address, length).ok()?.trunc();
            self.map.get(&prefix).map(|list| (prefix, list.as_slice()))
        })
    }

    /// How many prefixes have a route.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// How many prefixes of one family have a route.
    pub fn len_of(&self, ipv6: bool) -> usize {
        self.lengths[usize::from(ipv6)].iter().map(|count| *count as usize).sum()
    }

    /// Counts by sort.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What the routes point at.
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Takes in an announcement by Linux.
    pub(crate) fn announce(&mut self, message: &RouteMessage, flags: u16) -> Effect {
        let Some(route) = self.route(message, Source::Netlink) else {
            let fresh = flags & REPLACE == 0;
            let tables = &mut self.counts.other_tables[usize::from(message.prefix.addr().is_ipv6())];
            *tables.entry(message.table).or_default() += usize::from(fresh);
            return Effect::Known;
        };
        if message.prefix.addr().is_ipv4() {
            self.announce4(message.prefix, route, flags)
        } else {
            self.announce6(message.prefix, route, flags)
        }
    }

    fn announce4(&mut self, prefix: IpNet, route: Route, flags: u16) -> Effect {
        let list = self.at(&prefix);
        if let Some(at) = list.iter().position(|old| old.same(&route)) {
            return self.mark(prefix, at, route);
        }
        let equal = |old: &Route| old.source == Source::Netlink && old.rank() == route.rank();
        let first = list.iter().position(equal);
        let behind = list.iter().rposition(equal).map(|last| last + 1);
        match first {
            Some(first) if flags & REPLACE != 0 => self.replace(prefix, first, route),
            Some(first) if flags & (APPEND | EXCLUSIVE) == 0 => self.insert(prefix, first, route),
            _ => {
                let sorted = list.partition_point(|old| old.rank() <= route.rank());
                self.insert(prefix, behind.unwrap_or(sorted), route)
            }
        }
    }

    fn announce6(&mut self, prefix: IpNet, route: Route, flags: u16) -> Effect {
        let list = self.at(&prefix);
        let equal = |old: &Route| old.source == Source::Netlink && old.rank() == route.rank();
        let joins = self.joins(&route);
        let alike = list.iter().position(|old| equal(old) && self.joins(old) == joins);
        let same_target = list.iter().position(|old| equal(old) && old.target == route.target);
        let replaced = if flags & REPLACE != 0 {
            alike.or_else(|| list.iter().position(equal))
        } else if joins {
            alike
        } else {
            same_target
        };
        // Linux replaces the first of a sort even when the new one has an equal behind it.
        let known = match replaced {
            Some(at) if list[at].same(&route) => Some(at),
            Some(_) if flags & REPLACE != 0 => None,
            _ => list.iter().position(|old| old.same(&route)),
        };
        if let Some(at) = known {
            return self.mark(prefix, at, route);
        }
        // A multipath route that replaces one of another sort is told like a new one.
        let doubtful = joins && replaced.is_none() && list.iter().any(equal);
        let effect = match replaced {
            Some(at) => self.replace(prefix, at, route),
            None => {
                let sorted = list.partition_point(|old| old.rank() <= route.rank());
                self.insert(prefix, sorted, route)
            }
        };
        if doubtful { Effect::Doubtful } else { effect }
    }

    /// Whether equal IPv6 routes join with this one to a multipath route (`rt6_qualify_for_ecmp`).
    fn joins(&self, route: &Route) -> bool {
        match self.targets.at(route.target) {
            Target::Paths(paths) => {
                route.origin != RTPROT_RA
                    && !paths.is_empty()
                    && paths.iter().all(|path| path.gateway.is_some())
            }
            Target::Object(..) => false,
        }
    }

    /// Takes in a withdrawal by Linux.
    pub(crate) fn withdraw(&mut self, message: &RouteMessage) -> Effect {
        let Some(gone) = self.route(message, Source::Netlink) else {
            let tables = &mut self.counts.other_tables[usize::from(message.prefix.addr().is_ipv6())];
            if let Some(count) = tables.get_mut(&message.table) {
                *count = count.saturating_sub(1);
            }
            return Effect::Known;
        };
        let effect = self.withdraw_route(message.prefix, &gone);
        self.targets.release(gone.target);
        effect
    }

    fn withdraw_route(&mut self, prefix: IpNet, gone: &Route) -> Effect {
        let list = self.at(&prefix);
        let equal =
            |old: &Route| old.source == gone.source && old.rank() == gone.rank() && old.kind == gone.kind;
        let exact = list.iter().position(|old| equal(old) && old.target == gone.target);
        if exact.is_none()
            && prefix.addr().is_ipv6()
            && self.joins(gone)
            && let Some(at) = list.iter().position(|old| equal(old) && self.joins(old))
        {
            return self.leave(prefix, at, gone);
        }
        match exact.or_else(|| list.iter().position(equal)) {
            Some(at) => self.remove(prefix, at),
            None => Effect::Unknown,
        }
    }

    /// Takes the paths of `gone` out of the IPv6 multipath route at `at`.
    fn leave(&mut self, prefix: IpNet, at: usize, gone: &Route) -> Effect {
        let old = self.at(&prefix)[at];
        let (Target::Paths(had), Target::Paths(leaving)) =
            (self.targets.at(old.target), self.targets.at(gone.target))
        else {
            return Effect::Unknown;
        };
        let leaves = |path: &super::Path| {
            leaving.iter().any(|l| (l.ifindex, l.gateway) == (path.ifindex, path.gateway))
        };
        let rest: SmallVec<[_; 2]> = had.iter().filter(|path| !leaves(path)).copied().collect();
        if rest.len() == had.len() {
            return Effect::Unknown;
        }
        if rest.is_empty() {
            return self.remove(prefix, at);
        }
        let target = self.targets.intern(Target::Paths(rest));
        self.replace(prefix, at, Route { target, seen: self.generation(old.source), ..old })
    }

    /// Takes in a route from zebra, which tells one for each prefix and table: the latest counts.
    pub(crate) fn announce_fpm(&mut self, message: &RouteMessage) -> Effect {
        let Some(route) = self.route(message, Source::Fpm) else {
            return Effect::Known;
        };
        let list = self.at(&message.prefix);
        match list.iter().position(|old| old.source == Source::Fpm && old.table == route.table) {
            Some(at) if list[at].same(&route) => self.mark(message.prefix, at, route),
            Some(at) if list[at].rank() == route.rank() => self.replace(message.prefix, at, route),
            Some(at) => {
                self.remove(message.prefix, at);
                self.insert_sorted(message.prefix, route)
            }
            None => self.insert_sorted(message.prefix, route),
        }
    }

    /// Takes in a withdrawal by zebra.
    pub(crate) fn withdraw_fpm(&mut self, message: &RouteMessage) -> Effect {
        let table = Table::from_number(message.table);
        let list = self.at(&message.prefix);
        match list.iter().position(|old| old.source == Source::Fpm && Some(old.table) == table) {
            Some(at) => self.remove(message.prefix, at),
            None => Effect::Unknown,
        }
    }

    /// Compares what Linux has for a prefix in one table with what is here, and marks it as seen when equal. `group`
    /// comes from [`Routes::route`] and is emptied.
    pub(crate) fn settle(
        &mut self,
        prefix: IpNet,
        table: Table,
        group: &mut Vec<Route>,
        repair: bool,
    ) -> Effect {
        let generation = self.generation(Source::Netlink);
        let differs = match self.map.get_mut(&prefix) {
            Some(list) if same_group(list, table, group, prefix) => {
                list.iter_mut().filter(|old| told(old, table)).for_each(|old| old.seen = generation);
                false
            }
            Some(_) => true,
            None => !group.is_empty(),
        };
        if !differs || !repair {
            group.drain(..).for_each(|route| self.targets.release(route.target));
            return if differs { Effect::Changed } else { Effect::Known };
        }
        while let Some(at) = self.at(&prefix).iter().position(|old| told(old, table)) {
            self.remove(prefix, at);
        }
        for route in group.drain(..) {
            self.insert_sorted(prefix, route);
        }
        Effect::Changed
    }

    /// Starts a new read: what is not marked or told again until its end is gone.
    pub(crate) fn begin_read(&mut self, source: Source) {
        self.generations[source as usize] = self.generation(source).wrapping_add(1);
    }

    fn generation(&self, source: Source) -> u8 {
        self.generations[source as usize]
    }

    /// The prefixes behind `after` of one family and source that have routes not seen in this read; walks at most
    /// `limit` prefixes and returns where it stopped, `None` at the end.
    pub(crate) fn unseen(
        &self,
        ipv6: bool,
        source: Source,
        after: Option<IpNet>,
        limit: usize,
    ) -> (Vec<(IpNet, Table)>, Option<IpNet>) {
        let first = if ipv6 { IpNet::V6(Default::default()) } else { IpNet::V4(Default::default()) };
        let mut found = Vec::new();
        let mut last = None;
        let start = after.map_or(Bound::Included(first), Bound::Excluded);
        for (prefix, list) in self.map.range((start, Bound::Included(host(first.broadcast())))).take(limit) {
            let stale = |route: &&Route| route.source == source && route.seen != self.generation(source);
            for table in [Table::Local, Table::Main] {
                if list.iter().filter(stale).any(|route| route.table == table) {
                    found.push((*prefix, table));
                }
            }
            last = Some(*prefix);
        }
        (found, last)
    }

    /// Removes a source's routes of a prefix and table that were not seen in this read.
    pub(crate) fn sweep(&mut self, prefix: IpNet, table: Table, source: Source) -> Effect {
        let mut effect = Effect::Known;
        let stale = |r: &Route, generation| r.source == source && r.table == table && r.seen != generation;
        while let Some(at) = self.at(&prefix).iter().position(|route| stale(route, self.generation(source))) {
            effect = self.remove(prefix, at);
        }
        effect
    }

    /// Sets the counts of tables that are not used to what a read found.
    pub(crate) fn set_other_tables(&mut self, ipv6: bool, counted: HashMap<u32, usize>) {
        self.counts.other_tables[usize::from(ipv6)] = counted;
    }

    /// The message as a route, holding a reference to its target; `None` when its table is not used.
    pub(crate) fn route(&mut self, message: &RouteMessage, source: Source) -> Option<Route> {
        let table = Table::from_number(message.table)?;
        let kind = Kind::from_number(message.kind);
        let mut target = match message.object {
            _ if kind.rejects() => Target::Paths(SmallVec::new()),
            Some(id) => Target::Object(source, id),
            None => Target::Paths(message.paths.clone()),
        };
        if let Target::Paths(paths) = &mut target
            && paths.len() > 1
        {
            paths.sort_unstable();
        }
        // Linux honours the MTU of an IPv6 route for forwarded packets only when it is locked
        // (ip6_dst_mtu_maybe_forward).
        let honoured = message.prefix.addr().is_ipv4() || message.mtu_locked;
        Some(Route {
            metric: message.metric,
            target: self.targets.intern(target),
            mtu: if honoured { message.mtu } else { 0 },
            table,
            source,
            kind,
            origin: message.protocol,
            tos: message.tos,
            preference: match message.preference {
                1 => 0,
                3 => 2,
                _ => 1,
            },
            restricted: message.tos != 0 || message.from_source,
            seen: self.generation(source),
        })
    }

    fn insert_sorted(&mut self, prefix: IpNet, route: Route) -> Effect {
        let at = self.at(&prefix).partition_point(|old| old.rank() <= route.rank());
        self.insert(prefix, at, route)
    }

    fn insert(&mut self, prefix: IpNet, at: usize, route: Route) -> Effect {
        self.count(prefix, &route, true);
        let list = self.map.entry(prefix).or_default();
        if list.is_empty() {
            self.lengths[usize::from(prefix.addr().is_ipv6())][usize::from(prefix.prefix_len())] += 1;
        }
        list.insert(at, route);
        Effect::Changed
    }

    fn replace(&mut self, prefix: IpNet, at: usize, route: Route) -> Effect {
        let old = self.at(&prefix)[at];
        self.count(prefix, &old, false);
        self.count(prefix, &route, true);
        self.targets.release(old.target);
        if let Some(list) = self.map.get_mut(&prefix) {
            list[at] = route;
        }
        Effect::Changed
    }

    fn mark(&mut self, prefix: IpNet, at: usize, told: Route) -> Effect {
        self.targets.release(told.target);
        if let Some(list) = self.map.get_mut(&prefix) {
            list[at].seen = told.seen;
        }
        Effect::Known
    }

    fn remove(&mut self, prefix: IpNet, at: usize) -> Effect {
        let Some(list) = self.map.get_mut(&prefix) else {
            return Effect::Unknown;
        };
        let old = list.remove(at);
        if list.is_empty() {
            self.map.remove(&prefix);
            self.lengths[usize::from(prefix.addr().is_ipv6())][usize::from(prefix.prefix_len())] -= 1;
        }
        self.count(prefix, &old, false);
        self.targets.release(old.target);
        Effect::Changed
    }

    fn count(&mut self, prefix: IpNet, route: &Route, added: bool) {
        let origins = match route.source {
            Source::Netlink => &mut self.counts.origins,
            Source::Fpm => &mut self.counts.fpm_origins,
        };
        let count = &mut origins[usize::from(prefix.addr().is_ipv6())][usize::from(route.origin)];
        let step = |count: &mut usize| if added { *count += 1 } else { *count -= 1 };
        step(count);
        if route.restricted {
            step(&mut self.counts.restricted);
        }
    }
}

/// The prefix that holds only `address`.
pub(crate) fn host(address: IpAddr) -> IpNet {
    IpNet::from(address)
}

/// Whether Linux told this route, in this table.
fn told(route: &Route, table: Table) -> bool {
    route.source == Source::Netlink && route.table == table
}

/// Whether the list has, in this table, the routes of `group`, which it sorts. IPv6 routes of equal rank have no order
/// that matters.
fn same_group(list: &RouteList, table: Table, group: &mut [Route], prefix: IpNet) -> bool {
    group.sort_by_key(Route::rank);
    let mut have = list.iter().filter(|old| told(old, table));
    if prefix.addr().is_ipv4() || group.len() < 2 {
        return group.iter().all(|new| have.next().is_some_and(|old| old.same(new))) && have.next().is_none();
    }
    let have: Vec<_> = have.collect();
    have.len() == group.len() && group.iter().all(|new| have.iter().any(|old| old.same(new)))
}
