//! What a notification does to the routes of its prefix.
//!
//! It must have the effect here that the change had on Linux's own lists, and the two families
//! differ. IPv4 (`fib_table_insert`): routes equal in type of service and metric form a list; the
//! message says whether the new one is alone (`EXCL`), behind them (`APPEND`), in place of the
//! first (`REPLACE`), or before them (none). IPv6 (`fib6_add_rt2node`): routes by gateways with
//! equal metric are one multipath route, of which each message shows the whole; but a withdrawal
//! shows only the paths that leave.
//!
//! Every operation may find its effect already there (a dump can run ahead of the notifications)
//! and then changes nothing.

use super::{Effect, Routes};
use crate::model::{Kind, Path, Route, SourceId, Table, Target};
use crate::netlink::route::RouteMessage;
use crate::netlink::{APPEND, EXCLUSIVE, REPLACE};
use ipnet::IpNet;
use smallvec::SmallVec;

const RTPROT_RA: u8 = 9;

impl Routes {
    /// Takes in an announcement.
    pub(crate) fn announce(&mut self, source: SourceId, message: &RouteMessage, flags: u16) -> Effect {
        match source {
            SourceId::Netlink => self.announce_linux(message, flags),
            SourceId::Fpm => self.announce_fpm(message),
        }
    }

    /// Takes in a withdrawal.
    pub(crate) fn withdraw(&mut self, source: SourceId, message: &RouteMessage) -> Effect {
        match source {
            SourceId::Netlink => self.withdraw_linux(message),
            SourceId::Fpm => self.withdraw_fpm(message),
        }
    }

    /// Takes in an announcement by Linux.
    fn announce_linux(&mut self, message: &RouteMessage, flags: u16) -> Effect {
        let Some(route) = self.route(message, SourceId::Netlink) else {
            let fresh = flags & REPLACE == 0;
            let tables = &mut self.counts.other_tables[usize::from(message.prefix.addr().is_ipv6())];
            *tables.entry(message.table).or_default() += usize::from(fresh);
            return Effect::Known;
        };
        let rid = self.rid(message.prefix, route.table);
        let effect = if message.prefix.addr().is_ipv4() {
            self.announce4(message.prefix, route, flags)
        } else {
            self.announce6(message.prefix, route, flags)
        };
        if rid && effect == Effect::Known { Effect::Changed } else { effect }
    }

    /// Takes out the routes of a prefix in one table that went with what they point at: Linux has
    /// them no more. Whether there were any.
    fn rid(&mut self, prefix: IpNet, table: Table) -> bool {
        let mut found = false;
        while let Some(at) = self
            .at(&prefix)
            .iter()
            .position(|r| r.table == table && r.kind == Kind::Unicast && self.targets.is_retired(r.target))
        {
            self.remove(prefix, at);
            found = true;
        }
        found
    }

    fn announce4(&mut self, prefix: IpNet, route: Route, flags: u16) -> Effect {
        let list = self.at(&prefix);
        if let Some(at) = list.iter().position(|old| old.same(&route)) {
            return self.mark(prefix, at, route);
        }
        let equal = |old: &Route| old.source == SourceId::Netlink && old.rank() == route.rank();
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
        let equal = |old: &Route| old.source == SourceId::Netlink && old.rank() == route.rank();
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
    fn withdraw_linux(&mut self, message: &RouteMessage) -> Effect {
        let Some(gone) = self.route(message, SourceId::Netlink) else {
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
        let leaves =
            |path: &Path| leaving.iter().any(|l| (l.ifindex, l.gateway) == (path.ifindex, path.gateway));
        let mut rest: SmallVec<[_; 2]> = had.iter().filter(|path| !leaves(path)).copied().collect();
        if rest.len() == had.len() {
            return Effect::Unknown;
        }
        if rest.is_empty() {
            return self.remove(prefix, at);
        }
        // Of one way Linux tells no weight.
        if let [path] = rest.as_mut_slice() {
            path.weight = 1;
        }
        let target = self.targets.intern(Target::Paths(rest));
        self.replace(prefix, at, Route { target, seen: self.generation(old.source), ..old })
    }

    /// Takes in a route from zebra, which tells one for each prefix and table: the latest counts.
    fn announce_fpm(&mut self, message: &RouteMessage) -> Effect {
        let Some(route) = self.route(message, SourceId::Fpm) else {
            return Effect::Known;
        };
        let list = self.at(&message.prefix);
        match list.iter().position(|old| old.source == SourceId::Fpm && old.table == route.table) {
            Some(at) if list[at].same(&route) => self.mark(message.prefix, at, route),
            Some(at) if list[at].rank() == route.rank() => self.replace(message.prefix, at, route),
            Some(at) => {
                self.remove(message.prefix, at);
                self.insert_sorted(message.prefix, route)
            }
            None => self.insert_sorted(message.prefix, route),
        }
    }

    /// Takes in a withdrawal by zebra, also of what it never told.
    fn withdraw_fpm(&mut self, message: &RouteMessage) -> Effect {
        let table = Table::from_number(message.table);
        let list = self.at(&message.prefix);
        match list.iter().position(|old| old.source == SourceId::Fpm && Some(old.table) == table) {
            Some(at) => self.remove(message.prefix, at),
            None => Effect::Known,
        }
    }
}
