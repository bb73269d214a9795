//! All routes of the tables `local` and `main` and of VRFs, of both families, by prefix.
//!
//! One ordered map: a full table's walk can stop anywhere and go on from its last prefix, which is
//! how the audit, the sweep and `show routes` work in slices while routes change. Each prefix has
//! its routes in the order in which Linux considers them; nearly all have one, stored in place.
//! Routes come and go by notifications (`announcement`) and by reads of whole tables (`read`).

mod announcement;
mod read;

use super::route::{Kind, Route, Table};
use super::target::{SourceId, Target, Targets};
use crate::netlink::route::RouteMessage;
use ipnet::IpNet;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::Bound;

const RTPROT_KERNEL: u8 = 2;

/// The routes of one prefix.
pub type RouteList = SmallVec<[Route; 1]>;

/// See the module's description.
pub struct Routes {
    map: BTreeMap<IpNet, RouteList>,
    lengths: [[u32; 129]; 2],
    local: LocalPrefixes,
    /// The tables of VRFs, and how many routes each has.
    vrfs: BTreeMap<u32, usize>,
    pub(crate) targets: Targets,
    counts: Counts,
    generations: [u8; 2],
    /// Source prefixes that routes are or were restricted to, by number less 1. All beyond 65,534
    /// share a number.
    sources: Vec<IpNet>,
}

/// How many routes there are of each sort.
#[derive(Clone, Debug)]
pub struct Counts {
    /// IPv4 and IPv6 routes by origin (`RTPROT_*`), as told by Linux.
    pub origins: [[usize; 256]; 2],
    /// The same, as told by zebra over FPM.
    pub fpm_origins: [[usize; 256]; 2],
    /// Routes restricted to a type of service or source: their prefixes are Linux's.
    pub restricted: usize,
    /// IPv6 routes that name a source of their own.
    pub sourced6: usize,
    /// IPv4 and IPv6 routes in tables that are not used, by table number.
    pub other_tables: [HashMap<u32, usize>; 2],
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            origins: [[0; 256]; 2],
            fpm_origins: [[0; 256]; 2],
            restricted: 0,
            sourced6: 0,
            other_tables: Default::default(),
        }
    }
}

impl Default for Routes {
    fn default() -> Routes {
        Routes {
            map: BTreeMap::new(),
            lengths: [[0; 129]; 2],
            local: LocalPrefixes::default(),
            vrfs: BTreeMap::new(),
            targets: Targets::default(),
            counts: Counts::default(),
            generations: [0; 2],
            sources: Vec::new(),
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

    /// The prefixes of table `local` that contain all of `prefix`, longest first.
    pub(crate) fn local_covering(&self, prefix: IpNet) -> impl Iterator<Item = (IpNet, &[Route])> {
        self.local.covering(prefix).map(|cover| (cover, self.at(&cover)))
    }

    /// Whether the prefix has routes in table `local`.
    pub(crate) fn is_in_local(&self, prefix: &IpNet) -> bool {
        self.local.routes.contains_key(prefix)
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

    fn generation(&self, source: SourceId) -> u8 {
        self.generations[source as usize]
    }

    /// The message as a route, holding a reference to its target; `None` when its table is not
    /// used.
    pub(crate) fn route(&mut self, message: &RouteMessage, source: SourceId) -> Option<Route> {
        let table = self.table(message.table, source)?;
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
        Some(Route {
            metric: message.metric,
            target: self.targets.intern(target),
            mtu: message.mtu,
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
            // Of the routes of networks that it is in, the kernel says so of every one.
            sourced: message.sourced && message.protocol != RTPROT_KERNEL,
            from: message.from.map_or(0, |from| self.number_of(from)),
            seen: self.generation(source),
        })
    }

    /// The table with this number, if it is used. Of VRFs' tables only what Linux says counts.
    pub(crate) fn table(&self, number: u32, source: SourceId) -> Option<Table> {
        let vrf =
            || (source == SourceId::Netlink && self.vrfs.contains_key(&number)).then_some(Table::Vrf(number));
        Table::from_number(number).or_else(vrf)
    }

    /// These are the tables of VRFs from now on. What was there of others goes: the prefixes that
    /// it was of.
    pub(crate) fn follow_vrfs(&mut self, numbers: &BTreeSet<u32>) -> Vec<(IpNet, Table)> {
        let gone: BTreeMap<u32, usize> =
            self.vrfs.iter().filter(|(number, _)| !numbers.contains(number)).map(|(n, c)| (*n, *c)).collect();
        let is_gone = |table: Table| matches!(table, Table::Vrf(number) if gone.contains_key(&number));
        let mut forgotten = Vec::new();
        if gone.values().any(|count| *count > 0) {
            for (prefix, list) in &self.map {
                let of = list.iter().map(|route| route.table).filter(|table| is_gone(*table));
                forgotten.extend(of.map(|table| (*prefix, table)));
            }
        }
        for (prefix, table) in &forgotten {
            if let Some(at) = self.at(prefix).iter().position(|route| route.table == *table) {
                self.remove(*prefix, at);
            }
        }
        self.vrfs.retain(|number, _| numbers.contains(number));
        for number in numbers {
            self.vrfs.entry(*number).or_default();
        }
        forgotten.dedup();
        forgotten
    }

    fn number_of(&mut self, source: IpNet) -> u16 {
        let known = self.sources.iter().position(|known| *known == source);
        let at = known.unwrap_or_else(|| {
            if self.sources.len() < usize::from(u16::MAX) {
                self.sources.push(source);
            }
            self.sources.len() - 1
        });
        at as u16 + 1
    }

    /// The sources that a route is restricted to.
    pub fn from(&self, route: &Route) -> Option<IpNet> {
        usize::from(route.from).checked_sub(1).and_then(|at| self.sources.get(at)).copied()
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
            SourceId::Netlink => &mut self.counts.origins,
            SourceId::Fpm => &mut self.counts.fpm_origins,
        };
        let count = &mut origins[usize::from(prefix.addr().is_ipv6())][usize::from(route.origin)];
        let step = |count: &mut usize| if added { *count += 1 } else { *count -= 1 };
        step(count);
        if route.is_restricted() {
            step(&mut self.counts.restricted);
        }
        if route.sourced && prefix.addr().is_ipv6() {
            step(&mut self.counts.sourced6);
        }
        match route.table {
            Table::Local => self.local.count(prefix, added),
            Table::Vrf(number) => self.vrfs.get_mut(&number).into_iter().for_each(step),
            Table::Main => {}
        }
    }
}

/// The prefixes of table `local`, which are few, apart from the many of `main`: Linux looks there
/// first, whole, so each decision about a route of `main` asks whether one of these covers it.
#[derive(Default)]
struct LocalPrefixes {
    routes: BTreeMap<IpNet, u32>,
    lengths: BTreeMap<(bool, u8), u32>,
}

impl LocalPrefixes {
    fn count(&mut self, prefix: IpNet, added: bool) {
        let length = (prefix.addr().is_ipv6(), prefix.prefix_len());
        if added {
            *self.routes.entry(prefix).or_default() += 1;
            *self.lengths.entry(length).or_default() += 1;
        } else {
            one_less(&mut self.routes, &prefix);
            one_less(&mut self.lengths, &length);
        }
    }

    fn covering(&self, prefix: IpNet) -> impl Iterator<Item = IpNet> {
        let ipv6 = prefix.addr().is_ipv6();
        let lengths = self.lengths.range((ipv6, 0)..=(ipv6, prefix.prefix_len())).rev();
        let covers = lengths.filter_map(move |((_, length), _)| IpNet::new(prefix.addr(), *length).ok());
        covers.map(|cover| cover.trunc()).filter(|cover| self.routes.contains_key(cover))
    }
}

fn one_less<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// The prefix that holds only `address`.
pub(crate) fn host(address: IpAddr) -> IpNet {
    IpNet::from(address)
}
