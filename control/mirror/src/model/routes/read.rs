//! Reads of whole tables: what was read is compared with what is here, and what a read did not
//! mention is gone. Each read is a generation; a route carries that of the read in which it was
//! last told.

use super::{Effect, RouteList, Routes, host};
use crate::model::{Route, SourceId, Table};
use ipnet::IpNet;
use std::collections::HashMap;
use std::ops::Bound;

impl Routes {
    /// Compares what Linux has for a prefix in one table with what is here, and marks it as seen
    /// when equal. `group` comes from [`Routes::route`] and is emptied.
    pub(crate) fn settle(
        &mut self,
        prefix: IpNet,
        table: Table,
        group: &mut Vec<Route>,
        repair: bool,
    ) -> Effect {
        let generation = self.generation(SourceId::Netlink);
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
    pub(crate) fn begin_read(&mut self, source: SourceId) {
        self.generations[source as usize] = self.generation(source).wrapping_add(1);
    }

    /// The prefixes behind `after` of one family and source that have routes not seen in this read;
    /// walks at most `limit` prefixes and returns where it stopped, `None` at the end.
    pub(crate) fn unseen(
        &self,
        ipv6: bool,
        source: SourceId,
        after: Option<IpNet>,
        limit: usize,
    ) -> (Vec<(IpNet, Table)>, Option<IpNet>) {
        let first = if ipv6 { IpNet::V6(Default::default()) } else { IpNet::V4(Default::default()) };
        let mut found = Vec::new();
        let mut last = None;
        let start = after.map_or(Bound::Included(first), Bound::Excluded);
        for (prefix, list) in self.map.range((start, Bound::Included(host(first.broadcast())))).take(limit) {
            let stale = |route: &&Route| route.source == source && route.seen != self.generation(source);
            // Routes of one table stand side by side.
            for route in list.iter().filter(stale) {
                if found.last() != Some(&(*prefix, route.table)) {
                    found.push((*prefix, route.table));
                }
            }
            last = Some(*prefix);
        }
        (found, last)
    }

    /// Removes a source's routes of a prefix and table that were not seen in this read.
    pub(crate) fn sweep(&mut self, prefix: IpNet, table: Table, source: SourceId) -> Effect {
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
}

/// Whether Linux told this route, in this table.
fn told(route: &Route, table: Table) -> bool {
    route.source == SourceId::Netlink && route.table == table
}

/// Whether the list has, in this table, the routes of `group`, which it sorts. IPv6 routes of equal
/// rank have no order that matters.
fn same_group(list: &RouteList, table: Table, group: &mut [Route], prefix: IpNet) -> bool {
    group.sort_by_key(Route::rank);
    let mut have = list.iter().filter(|old| told(old, table));
    if prefix.addr().is_ipv4() || group.len() < 2 {
        return group.iter().all(|new| have.next().is_some_and(|old| old.same(new))) && have.next().is_none();
    }
    let have: Vec<_> = have.collect();
    have.len() == group.len() && group.iter().all(|new| have.iter().any(|old| old.same(new)))
}
