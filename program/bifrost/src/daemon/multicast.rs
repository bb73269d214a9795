//! Linux's multicast routes, given to the workers: those of which every interface is the plane's,
//! with the plane's interfaces for Linux's. The driver is told their groups, and hands packets to
//! these to workers; packets to others do not leave Linux's way.
//!
//! An entry is the plane's as a whole or Linux's as a whole. So nobody gets a packet twice, and
//! what the router itself has joined it receives.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fib::{GroupCount, GroupEntry, Groups, InterfaceFlags, InterfaceId, Leaving, TableId};
use mirror::multicast::joined;
use mirror::{GroupKey, GroupRoute, GroupRoutes};
use port::driver::MAX_GROUPS;
use tracing::warn;

use super::forwarding::Forwarding;

/// Pause between two looks at interfaces, and at what the router itself has joined.
const LOOK: Duration = Duration::from_millis(100);
/// How long one turn may take.
const SLICE: Duration = Duration::from_millis(5);

/// What the workers were given.
#[derive(Default)]
pub(crate) struct Multicast {
    /// Absent where Linux cannot be asked.
    linux: Option<GroupRoutes>,
    /// Linux's entries: what became of each, or why it is Linux's.
    entries: BTreeMap<GroupKey, Result<GroupEntry, String>>,
    counts: HashMap<GroupKey, Arc<GroupCount>>,
    generation: u64,
    looked: Option<Instant>,
    joined: HashSet<(u32, IpAddr)>,
}

/// What is asked of interfaces while entries are looked at.
struct Interfaces<'a> {
    forwarding: &'a Forwarding,
    known: HashMap<(u32, bool), Result<Vec<InterfaceId>, String>>,
}

impl Multicast {
    /// Subscribes.
    pub(super) fn new() -> Multicast {
        let linux = GroupRoutes::new();
        if let Err(error) = &linux {
            warn!("multicast stays with Linux: {error}");
        }
        Multicast { linux: linux.ok(), ..Multicast::default() }
    }

    /// What to wait on.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.linux.as_ref().map(AsFd::as_fd)
    }

    /// What Linux has, and what became of it: an entry of the plane's, or why it is not.
    pub(crate) fn entries(
        &self,
    ) -> impl Iterator<Item = (&GroupKey, &GroupRoute, &Result<GroupEntry, String>)> {
        let routes = self.linux.iter().flat_map(GroupRoutes::routes);
        routes.filter_map(|(key, route)| Some((key, route, self.entries.get(key)?)))
    }

    /// What passed by an entry.
    pub(crate) fn count(&self, key: &GroupKey) -> [u64; 2] {
        self.counts.get(key).map(|count| count.read()).unwrap_or_default()
    }

    /// Gives the workers what Linux has now. True: more of it waits.
    pub(super) fn follow(&mut self, forwarding: &mut Forwarding) -> bool {
        let Some(linux) = &mut self.linux else { return false };
        let more = linux.follow(Instant::now() + SLICE).unwrap_or_else(|error| {
            warn!("multicast routes are read again: {error}");
            false
        });
        let due = self.looked.is_none_or(|looked| looked.elapsed() >= LOOK);
        let anew = linux.generation() != self.generation;
        let any = !linux.routes().is_empty() || !self.entries.is_empty();
        if !(anew || due && any) {
            return more;
        }
        self.generation = linux.generation();
        if due && any {
            self.looked = Some(Instant::now());
            self.joined = joined();
        }
        let entries = self.compile(forwarding);
        if !same(&entries, &self.entries) {
            let ours = || entries.values().flatten();
            forwarding.plane.multicast().change(Groups::new(ours().cloned()));
            let groups = ours().flat_map(|entry| entry.inputs.iter().map(|input| (*input, entry.group)));
            if let Err(error) = forwarding.plane.driver_mut().set_groups(groups.collect()) {
                warn!("the driver is not told which groups are forwarded: {error}");
            }
        }
        self.entries = entries;
        more
    }

    fn compile(&mut self, forwarding: &Forwarding) -> BTreeMap<GroupKey, Result<GroupEntry, String>> {
        let Multicast { linux: Some(linux), joined, counts, .. } = self else { return BTreeMap::new() };
        let routes = linux.routes();
        counts.retain(|key, _| routes.contains_key(key));
        // An entry of any source to any group: trees in both directions.
        let both_ways = [false, true]
            .map(|ipv6| routes.keys().any(|(group, _)| group.is_unspecified() && group.is_ipv6() == ipv6));
        let for_all = |ipv6: bool| {
            let ruled = linux.ruled()[usize::from(ipv6)];
            match forwarding.plane.hooked() {
                true => Some("not beside the router's own filter, translation, flows, hooks or sFlow"),
                false => ruled.then_some("routing rules choose multicast tables (ip mrule)"),
            }
        };
        let for_all = [false, true].map(for_all);
        let mut interfaces = Interfaces { forwarding, known: HashMap::new() };
        let mut inputs = 0;
        let compiled = routes.iter().map(|(key, route)| {
            let family = usize::from(key.0.is_ipv6());
            let entry = match for_all[family] {
                Some(why) => Err(why.to_owned()),
                None => interfaces.entry(key, route, joined, both_ways[family]),
            };
            let entry = entry.and_then(|(from, outputs)| {
                inputs += from.len();
                if inputs > MAX_GROUPS {
                    return Err("there are too many".to_owned());
                }
                let count = counts.entry(*key).or_default().clone();
                Ok(GroupEntry { source: key.1, group: key.0, inputs: from, outputs, count })
            });
            (*key, entry)
        });
        compiled.collect()
    }
}

/// Whether the workers would be given the same.
fn same(
    one: &BTreeMap<GroupKey, Result<GroupEntry, String>>,
    other: &BTreeMap<GroupKey, Result<GroupEntry, String>>,
) -> bool {
    let given = |all: &'_ BTreeMap<GroupKey, Result<GroupEntry, String>>| {
        let ours = all.values().flatten();
        ours.map(|entry| (entry.group, entry.source, entry.inputs.clone(), entry.outputs.clone()))
            .collect::<Vec<_>>()
    };
    given(one) == given(other)
}

impl Interfaces<'_> {
    fn name(&self, ifindex: u32) -> String {
        let link = self.forwarding.mirror.model().links.by_index(ifindex);
        link.map_or_else(|| format!("interface {ifindex}"), |link| link.name.clone())
    }

    /// The plane's interfaces for those of an entry, or why it is Linux's.
    fn entry(
        &mut self,
        (group, source): &GroupKey,
        route: &GroupRoute,
        joined: &HashSet<(u32, IpAddr)>,
        both_ways: bool,
    ) -> Result<(Vec<InterfaceId>, Vec<Leaving>), String> {
        let (mut outputs, any_source) = (route.outputs.clone(), source.is_unspecified());
        if any_source {
            if group.is_unspecified() || both_ways {
                return Err("trees in both directions stay with Linux".to_owned());
            }
            // Linux finds it by the interfaces that it has; packets do not go back.
            if outputs.iter().all(|(interface, _)| *interface != route.input) {
                return Err("it does not have the interface that packets come in by".to_owned());
            }
            outputs.retain(|(interface, _)| *interface != route.input);
        }
        if route.several {
            return Err("there are several of it".to_owned());
        }
        if route.input == 0 {
            return Err("the interface that packets come in by is gone".to_owned());
        }
        let all = [route.input].into_iter().chain(outputs.iter().map(|(interface, _)| *interface));
        if let Some(member) = all.clone().find(|interface| joined.contains(&(*interface, *group))) {
            return Err(format!("the router itself has joined it on {}", self.name(member)));
        }
        let inputs = self.inputs(route.input, group.is_ipv6())?;
        let leaving = outputs.iter().map(|(interface, threshold)| {
            Ok(Leaving { interface: self.output(*interface)?, threshold: *threshold })
        });
        Ok((inputs, leaving.collect::<Result<_, String>>()?))
    }

    /// Those by which packets come in.
    fn inputs(&mut self, ifindex: u32, ipv6: bool) -> Result<Vec<InterfaceId>, String> {
        if let Some(known) = self.known.get(&(ifindex, ipv6)) {
            return known.clone();
        }
        let forwards = if ipv6 { InterfaceFlags::FORWARD6 } else { InterfaceFlags::FORWARD4 };
        let ids = self.ids(ifindex).and_then(|ids| {
            let entry = |id: &InterfaceId| self.forwarding.tables.interface(*id);
            let entries: Vec<_> = ids.iter().filter_map(entry).collect();
            // Of a bond some may be in reserve.
            if entries.iter().all(|entry| !entry.flags.contains(forwards)) {
                return Err(format!("what comes in by {} is Linux's to forward", self.name(ifindex)));
            }
            if entries.iter().any(|entry| entry.table != TableId::MAIN) {
                let name = self.name(ifindex);
                return Err(format!("not the main table alone decides what comes in by {name}"));
            }
            Ok(ids)
        });
        self.known.insert((ifindex, ipv6), ids.clone());
        ids
    }

    /// The one by which packets leave.
    fn output(&self, ifindex: u32) -> Result<InterfaceId, String> {
        let ids = self.ids(ifindex)?;
        let bond = self.forwarding.plane.interfaces_of(ifindex).any(|(_, port)| port.whole.is_some());
        let entry = ids.first().and_then(|id| self.forwarding.tables.interface(*id));
        match (ids.as_slice(), entry) {
            ([id], Some(entry)) if !bond => {
                if !entry.flags.contains(InterfaceFlags::QUEUE) {
                    return Err(format!("no worker can send by {}", self.name(ifindex)));
                }
                if entry.table.of_addresses() != TableId::MAIN {
                    return Err(format!("{} belongs to a VRF", self.name(ifindex)));
                }
                Ok(*id)
            }
            _ => Err(format!("{} is made of several ports", self.name(ifindex))),
        }
    }

    /// The plane's interfaces that are this one of Linux's.
    fn ids(&self, ifindex: u32) -> Result<Vec<InterfaceId>, String> {
        let Forwarding { plane, tables, .. } = self.forwarding;
        if plane.is_tunnel(ifindex) {
            return Err(format!("{} is a tunnel", self.name(ifindex)));
        }
        if plane.is_on_bridge(ifindex) {
            return Err(format!(
                "{} is a bridge or lies on one, whose members have it from Linux",
                self.name(ifindex)
            ));
        }
        let there = |id: &InterfaceId| tables.interface(*id).is_some_and(|entry| entry.ifindex == ifindex);
        let taken = plane.interfaces_of(ifindex).filter(|(_, port)| port.taken.is_some());
        let ids: Vec<InterfaceId> = taken.map(|(id, _)| id).filter(there).collect();
        if ids.is_empty() { Err(format!("{} is not Bifrost's", self.name(ifindex))) } else { Ok(ids) }
    }
}
