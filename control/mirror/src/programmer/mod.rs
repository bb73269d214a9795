//! From the model to the plane's tables.
//!
//! For each prefix, what the tables hold is a function of the model ([`Programmer::desired`]): the
//! best route's key, or, inside a connected network, the way to one known host. A change marks the
//! prefixes it may affect; programming a prefix means computing that function and writing the
//! result, so it does not matter how often or in which order prefixes are marked, and the audit is
//! the same function once more.
//!
//! Whatever cannot be decided at once is Linux's until it is (a next hop that says `Punt`): a
//! target whose interfaces went down is redirected to Linux in one store, and the prefixes are then
//! worked through in slices for their next best route ([`Programmer::rescan`]).

mod adjacency;
#[cfg(test)]
mod bridge_tests;
mod decision;
mod hops;
mod legs;
mod next_hop_key;
mod place;
mod room;
#[cfg(test)]
mod tests;

pub(crate) use adjacency::Key as AdjacencyKey;
pub(crate) use legs::Legs;
pub use next_hop_key::NextHopKey;
pub(crate) use place::Place;

use crate::kind::{Bond, Bridge};
use crate::model::{Changes, Gateways, Model, SourceId, Table, Target, TargetId, host};
use fib::{AdjacencyId, FibError, InterfaceId, NextHop, NextHopId, TableId, Tables};
use hops::Hops;
use ipnet::IpNet;
use next_hop_key::Ports;
use place::Vrfs;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Instant;
use wire::Mac;

/// Prefixes between two looks at the clock.
const BETWEEN_CLOCKS: usize = 64;

/// See the module's description.
pub(crate) struct Programmer {
    ports: Ports,
    pub hops: Hops,
    linux: Option<NextHopId>,
    pending: VecDeque<Place>,
    vrfs: Vrfs,
    /// Linux looks into table `local` before that of a VRF; for IPv4 and IPv6.
    local_first: [bool; 2],
    /// Routing rules may pass over default routes; for IPv4 and IPv6.
    pub(super) no_defaults: [bool; 2],
    /// The table that routes what comes in by each interface.
    table_of: HashMap<u32, Option<TableId>>,
    rescan: Rescan,
    /// What table `local` says at prefixes that may cover others.
    covers: HashMap<IpNet, NextHopKey>,
    liveness: HashMap<u32, (bool, bool, bool, bool)>,
    bonding: HashMap<u32, Bonding>,
    objects: HashMap<TargetId, next_hop_key::Nature>,
    /// Whether zebra's routes count, instead of what Linux says of FRR's protocols.
    fpm: bool,
    missing: BTreeSet<Place>,
    shields: BTreeSet<Place>,
    written: [usize; 2],
    overflows: u64,
    failures: u64,
}

/// What an interface is as a bond or bridge, and as a member of one.
#[derive(Clone, Copy, PartialEq)]
struct Bonding {
    bond: Option<Bond>,
    bridge: Option<Bridge>,
    master: Option<u32>,
    sends: bool,
}

/// How far the walk over all prefixes has come.
enum Rescan {
    Idle,
    After(Option<IpNet>),
}

impl Programmer {
    pub fn new() -> Programmer {
        Programmer {
            ports: Ports::new(),
            hops: Hops::default(),
            linux: None,
            pending: VecDeque::new(),
            vrfs: Vrfs::default(),
            local_first: [true; 2],
            no_defaults: [false; 2],
            table_of: HashMap::new(),
            rescan: Rescan::Idle,
            covers: HashMap::new(),
            liveness: HashMap::new(),
            bonding: HashMap::new(),
            objects: HashMap::new(),
            fpm: false,
            missing: BTreeSet::new(),
            shields: BTreeSet::new(),
            written: [0; 2],
            overflows: 0,
            failures: 0,
        }
    }

    /// Which interface of the plane's one of Linux's is.
    pub fn interface(&self, ifindex: u32) -> Option<InterfaceId> {
        self.ports.get(&ifindex)?.first()
    }

    /// Writes that the tables refused for other reasons than room.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Whether everything marked has been programmed.
    pub fn idle(&self) -> bool {
        self.pending.is_empty() && matches!(self.rescan, Rescan::Idle)
    }

    /// Makes an interface Bifrost's (`Some`), or no longer (`None`).
    pub fn bind(&mut self, ifindex: u32, legs: Option<Legs>, model: &Model, tables: &mut Tables) {
        let before = match legs.clone() {
            Some(legs) => self.ports.insert(ifindex, legs),
            None => self.ports.remove(&ifindex),
        };
        if before == legs {
            return;
        }
        for id in self.hops.using_link(model, ifindex) {
            self.refresh(id, model, tables);
        }
        self.hosts_on(ifindex, self.vrfs.of_link(ifindex, model), model);
    }

    /// Marks the hosts known on an interface, in the table that routes what comes in by it.
    fn hosts_on(&mut self, ifindex: u32, table: Option<TableId>, model: &Model) {
        let Some(table) = table else { return };
        let hosts = model.neighbours.iter().filter(|(index, ..)| *index == ifindex);
        self.pending.extend(hosts.map(|(_, address, _)| Place { table, prefix: host(address) }));
    }

    /// The table that routes what comes in by an interface; `None` where there is no room for that
    /// of its VRF.
    pub fn table_of(&self, ifindex: u32, model: &Model) -> Option<TableId> {
        self.vrfs.of_link(ifindex, model)
    }

    /// Where a route of one of Linux's tables is decided.
    pub fn place(&self, prefix: IpNet, table: Table) -> Option<Place> {
        Some(Place { table: self.vrfs.of(table)?, prefix })
    }

    /// The plane's table for one of Linux's, beside the main one.
    pub fn table_of_number(&self, number: u32) -> Option<TableId> {
        self.vrfs.id(number)
    }

    /// Whether default routes may be passed over, for IPv4 and IPv6: hosts that only such a route
    /// leads to must not seem to have one of their own then.
    pub fn pass_over_defaults(&mut self, passed_over: [bool; 2]) {
        if self.no_defaults != passed_over {
            self.no_defaults = passed_over;
            self.rescan_all();
        }
    }

    /// Whether Linux looks into table `local` before that of a VRF, for IPv4 and IPv6: its rules
    /// say so.
    pub fn look_into_local_first(&mut self, first: [bool; 2]) {
        if self.local_first != first {
            self.local_first = first;
            self.rescan_all();
        }
    }

    /// Chooses whether what a source has told counts. What Linux tells always does, where no other
    /// takes its place.
    pub fn believe(&mut self, source: SourceId, believed: bool) {
        if source == SourceId::Fpm && self.fpm != believed {
            self.fpm = believed;
            self.rescan_all();
        }
    }

    /// Whether zebra's routes count.
    pub fn uses_fpm(&self) -> bool {
        self.fpm
    }

    /// Starts (again) the walk over all prefixes.
    pub fn rescan_all(&mut self) {
        self.rescan = Rescan::After(None);
    }

    /// Gateways are lost or not, which was `before`: what leads by them is written at once. How
    /// many next hops these are.
    pub fn gateways_changed(&mut self, before: &Gateways, model: &Model, tables: &mut Tables) -> usize {
        let concerned = self.hops.differing_by(model, before);
        concerned.iter().for_each(|id| self.refresh(*id, model, tables));
        concerned.len()
    }

    /// Takes over what changed. Next hops and adjacencies are written at once, prefixes when
    /// [`Programmer::work`] is called.
    pub fn take(&mut self, changes: &mut Changes, model: &Model, tables: &mut Tables) {
        if std::mem::take(&mut changes.vrfs) {
            self.follow_vrfs(model, tables);
        }
        for ifindex in changes.links_gone.drain(..) {
            self.bind(ifindex, None, model, tables);
            self.liveness.remove(&ifindex);
            self.table_of.remove(&ifindex);
            self.bonding.remove(&ifindex);
            self.refresh_bonds(ifindex, model, tables);
            self.refresh_link(ifindex, model, tables);
            self.rescan_all();
        }
        for ifindex in std::mem::take(&mut changes.links) {
            self.link_changed(ifindex, model, tables);
        }
        for ifindex in std::mem::take(&mut changes.vlans) {
            self.refresh_bonds(ifindex, model, tables);
        }
        for target in std::mem::take(&mut changes.retired) {
            self.hops.of_target(target).into_iter().for_each(|id| self.refresh(id, model, tables));
            self.objects.remove(&target);
            self.rescan_all();
        }
        for (source, id) in std::mem::take(&mut changes.objects) {
            let Some(target) = model.routes.targets().find(&Target::Object(source, id)) else {
                continue;
            };
            self.hops.of_target(target).into_iter().for_each(|id| self.refresh(id, model, tables));
            // Only a change of nature concerns the prefixes; else the next hop's one store was all.
            let nature = next_hop_key::nature(model, target);
            if self.objects.insert(target, nature) != Some(nature) {
                self.rescan_all();
            }
        }
        for (ifindex, address) in std::mem::take(&mut changes.neighbours) {
            self.refresh_neighbour(ifindex, address, model, tables);
            if self.ports.contains_key(&ifindex)
                && let Some(table) = self.vrfs.of_link(ifindex, model)
            {
                self.pending.push_back(Place { table, prefix: host(address) });
            }
        }
        // Behind its neighbours: where somebody new is may be told before it is known who that is.
        for station in std::mem::take(&mut changes.stations) {
            // The bridge's, and those of the VLANs on it; or the VXLAN's.
            let on_it = self.ports.iter().filter(|(_, legs)| legs.are_on(station.bridge));
            for ifindex in on_it.map(|(ifindex, _)| *ifindex).collect::<Vec<_>>() {
                if station.mac == Mac([0; 6]) {
                    // Whoever is not known is elsewhere.
                    if let Err(error) = self.hops.adjacencies.refresh_link(ifindex, model, tables) {
                        self.note(&error);
                    }
                    self.refresh_bonds(ifindex, model, tables);
                }
                for address in model.neighbours.at(ifindex, station.mac).collect::<Vec<_>>() {
                    self.refresh_neighbour(ifindex, address, model, tables);
                }
            }
        }
        for (prefix, table) in changes.prefixes.drain(..) {
            // Linux may look into it for VRFs as well.
            if table == Table::Local {
                self.pending.extend(self.vrfs.ids().map(|table| Place { table, prefix }));
            }
            if let Some(table) = self.vrfs.of(table) {
                self.pending.push_back(Place { table, prefix });
                self.hosts_within(Place { table, prefix }, model);
            }
        }
    }

    /// What leads to a neighbour, which is another now, or elsewhere.
    fn refresh_neighbour(&mut self, ifindex: u32, address: IpAddr, model: &Model, tables: &mut Tables) {
        match self.hops.adjacencies.refresh_neighbour(ifindex, address, model, tables) {
            Ok(users) => users.into_iter().for_each(|id| self.refresh(id, model, tables)),
            Err(error) => self.note(&error),
        }
    }

    /// Marks the hosts known inside a prefix.
    fn hosts_within(&mut self, Place { table, prefix }: Place, model: &Model) {
        if prefix.prefix_len() < prefix.max_prefix_len() {
            let hosts = model.neighbours.within(prefix.network(), prefix.broadcast());
            let own = hosts.filter(|(ifindex, ..)| self.vrfs.of_link(*ifindex, model) == Some(table));
            self.pending.extend(own.map(|(_, address, _)| Place { table, prefix: host(address) }));
        }
    }

    /// VRFs or rules came or went: each of their tables has one, and those of others are empty.
    fn follow_vrfs(&mut self, model: &Model, tables: &mut Tables) {
        let (new, gone) = self.vrfs.follow(&model.tables_beside());
        for (_, table) in gone {
            let left: Vec<_> =
                tables.iter().filter(|(of, ..)| *of == table).map(|(.., prefix, _)| prefix).collect();
            self.pending.extend(left.into_iter().map(|prefix| Place { table, prefix }));
        }
        if !new.is_empty() {
            self.rescan_all();
        }
    }

    fn link_changed(&mut self, ifindex: u32, model: &Model, tables: &mut Tables) {
        let Some(link) = model.links.by_index(ifindex) else {
            return;
        };
        if let Err(error) = self.hops.adjacencies.refresh_link(ifindex, model, tables) {
            self.note(&error);
        }
        let liveness = (link.up, link.running, link.ignore_linkdown4, link.ignore_linkdown6);
        if self.liveness.insert(ifindex, liveness) != Some(liveness) {
            self.refresh_link(ifindex, model, tables);
            self.rescan_all();
        }
        let table = self.vrfs.of_link(ifindex, model);
        let before = self.table_of.insert(ifindex, table);
        if let Some(before) = before.filter(|before| *before != table) {
            self.hosts_on(ifindex, before, model);
            self.hosts_on(ifindex, table, model);
        }
        let sends = link.transmits() || link.is_sent_by_bridge();
        let bonding = Bonding { bond: link.bond(), bridge: link.bridge(), master: link.master, sends };
        if self.bonding.insert(ifindex, bonding) != Some(bonding) {
            self.refresh_bonds(ifindex, model, tables);
        }
    }

    /// The ways over bonds and bridges that have this interface as a member, or are it.
    fn refresh_bonds(&mut self, ifindex: u32, model: &Model, tables: &mut Tables) {
        let concerned = self.ports.iter().filter(|(_, legs)| legs.depend_on(ifindex));
        for above in concerned.map(|(above, _)| *above).collect::<Vec<_>>() {
            self.refresh_link(above, model, tables);
        }
    }

    fn refresh_link(&mut self, ifindex: u32, model: &Model, tables: &mut Tables) {
        for id in self.hops.using_link(model, ifindex) {
            self.refresh(id, model, tables);
        }
    }

    fn refresh(&mut self, id: NextHopId, model: &Model, tables: &mut Tables) {
        if let Err(error) = self.hops.refresh(id, model, &self.ports, tables) {
            self.note(&error);
        }
    }

    /// Programs what is marked until `deadline`; whether more waits.
    pub fn work(&mut self, model: &mut Model, tables: &mut Tables, deadline: Instant) -> bool {
        loop {
            for _ in 0..BETWEEN_CLOCKS {
                let Some(place) = self.pending.pop_front() else {
                    break;
                };
                self.program(place, model, tables);
            }
            if Instant::now() >= deadline {
                return !self.idle();
            }
            if self.pending.is_empty() && !self.rescan_step(model, tables) {
                return false;
            }
        }
    }

    /// A few prefixes of the walk; whether it goes on.
    fn rescan_step(&mut self, model: &mut Model, tables: &mut Tables) -> bool {
        let Rescan::After(after) = self.rescan else {
            return false;
        };
        let (next, last) = self.places_after(after, BETWEEN_CLOCKS, model);
        for place in next {
            // What it covers comes behind it in the walk.
            self.note_cover(place, model);
            if !self.is_programmed(place, model, tables) {
                self.program(place, model, tables);
                self.hosts_within(place, model);
            }
        }
        self.rescan = match last {
            Some(last) => Rescan::After(Some(last)),
            None => {
                let hosts = model.neighbours.iter().filter_map(|(ifindex, address, _)| {
                    Some(Place { table: self.vrfs.of_link(ifindex, model)?, prefix: host(address) })
                });
                self.pending.extend(hosts);
                Rescan::Idle
            }
        };
        true
    }

    /// The places of the prefixes behind `after` about which the model says something, at least
    /// `some`, if there are so many; and the last of these prefixes.
    pub fn places_after(
        &self,
        after: Option<IpNet>,
        some: usize,
        model: &Model,
    ) -> (Vec<Place>, Option<IpNet>) {
        let (mut places, mut last) = (Vec::new(), None);
        for (prefix, routes) in model.routes.after(after) {
            let of = routes.iter().filter_map(|route| self.vrfs.of(route.table));
            let own = places.len();
            // Routes of one table stand side by side.
            of.for_each(|table| {
                if places[own..].last() != Some(&Place { table, prefix }) {
                    places.push(Place { table, prefix });
                }
            });
            if model.routes.is_in_local(&prefix) {
                places.extend(self.vrfs.ids().map(|table| Place { table, prefix }));
            }
            last = Some(prefix);
            if places.len() >= some {
                break;
            }
        }
        (places, last)
    }

    /// Whether the tables hold at a place what the model says.
    pub fn is_programmed(&self, place: Place, model: &Model, tables: &Tables) -> bool {
        let has = at(tables, place);
        match self.next_hop_key_of(place, model) {
            Some(next_hop_key) => has.is_some() && has == self.hops.find(&next_hop_key),
            None => has.is_none(),
        }
    }

    /// Writes what the model says of a place.
    pub fn program(&mut self, place: Place, model: &mut Model, tables: &mut Tables) {
        self.note_cover(place, model);
        let prefix = place.prefix;
        if !self.missing.is_empty() {
            self.missing.remove(&place);
            if prefix.prefix_len() < prefix.max_prefix_len() {
                let to = Place { prefix: host(prefix.broadcast()), ..place };
                let inside = self.missing.range(place..=to).next().is_some();
                if inside && at(tables, place).is_none() {
                    self.shields.insert(place);
                }
            }
        }
        let Some(next_hop_key) = self.next_hop_key_of(place, model) else {
            if let Some(old) = remove(tables, place) {
                self.written[usize::from(prefix.addr().is_ipv6())] -= 1;
                self.hops.release(old, model, tables);
            }
            return;
        };
        let id = match self.hops.acquire(next_hop_key, model, &self.ports, tables) {
            Ok(id) => id,
            Err(error) => {
                self.note(&error);
                match self.hops.find(&next_hop_key) {
                    // Made, but it says Punt for now.
                    Some(id) => id,
                    None => return self.leave_to_linux(place, model, tables),
                }
            }
        };
        self.store(place, id, model, tables);
    }

    /// What a prefix of table `local` says counts for all prefixes inside it: when that changes, so
    /// may they.
    fn note_cover(&mut self, Place { table, prefix }: Place, model: &Model) {
        if table != TableId::MAIN {
            return;
        }
        let in_local = model.routes.is_in_local(&prefix);
        if prefix.prefix_len() == prefix.max_prefix_len() || !(in_local || self.covers.contains_key(&prefix))
        {
            return;
        }
        let says = self.says_local(prefix, model);
        let said = match says {
            Some(next_hop_key) => self.covers.insert(prefix, next_hop_key),
            None => self.covers.remove(&prefix),
        };
        if said != says {
            self.rescan_all();
        }
    }

    fn store(&mut self, place: Place, id: NextHopId, model: &mut Model, tables: &mut Tables) {
        match tables.insert(place.table, place.prefix, id) {
            Ok(Some(old)) => self.hops.release(old, model, tables),
            Ok(None) => self.written[usize::from(place.prefix.addr().is_ipv6())] += 1,
            Err(error) => {
                self.hops.release(id, model, tables);
                self.note(&error);
                self.shield(place, model, tables);
            }
        }
    }

    /// Prepares what must work when nothing else fits.
    pub fn prepare(&mut self, model: &mut Model, tables: &mut Tables) -> Result<(), FibError> {
        if self.linux.is_none() {
            self.linux = Some(self.hops.acquire(NextHopKey::Linux, model, &self.ports, tables)?);
        }
        Ok(())
    }

    /// How many IPv4 and IPv6 prefixes were written to the tables.
    pub fn written(&self) -> [usize; 2] {
        self.written
    }

    /// Corrects that, after the tables were found to differ.
    pub fn set_written(&mut self, written: [usize; 2]) {
        self.written = written;
    }

    /// The neighbour that an adjacency leads to.
    pub fn neighbour(&self, id: AdjacencyId) -> Option<(u32, IpAddr)> {
        self.hops.adjacencies.neighbour(id)
    }

    /// Compares a next hop's words with what was written, and that with the model; repairs. Tells
    /// what differed.
    pub fn audit_hop(&mut self, id: NextHopId, model: &Model, tables: &mut Tables) -> Option<String> {
        let (next_hop_key, _) = self.hops.next_hop_key(id)?;
        let is = tables.next_hop(id);
        let wrote = self.hops.content(id)?.clone();
        let mangled = is != wrote;
        if mangled {
            self.hops.distrust(id, is.clone());
        }
        self.refresh(id, model, tables);
        let now = self.hops.content(id)?;
        (mangled || *now != wrote).then(|| {
            let of = next_hop_key.in_words(model);
            format!("packets {of} were treated otherwise ({}) than must be ({})", says(&is), says(now))
        })
    }

    fn note(&mut self, error: &FibError) {
        if !matches!(error, FibError::Full { .. }) {
            self.failures += 1;
            tracing::error!(%error, "the tables refused a change; Linux forwards what it concerns");
            return;
        }
        if self.overflows == 0 {
            tracing::warn!(%error, "no room: Linux forwards what does not fit (said once; see show mirror)");
        }
        self.overflows += 1;
    }
}

/// The next hop stored at exactly this place.
pub(crate) fn at(tables: &Tables, place: Place) -> Option<NextHopId> {
    tables.get(place.table, place.prefix)
}

pub(crate) fn remove(tables: &mut Tables, place: Place) -> Option<NextHopId> {
    tables.remove(place.table, place.prefix)
}

/// What a next hop does, in words that `show routes` prints.
pub(crate) fn says(next_hop: &NextHop) -> &'static str {
    match next_hop {
        NextHop::None => "no route",
        NextHop::Forward(_) | NextHop::Sourced(_) => "forward",
        NextHop::Local => "local",
        NextHop::Glean(_) => "resolve",
        NextHop::Blackhole => "blackhole",
        NextHop::Unreachable => "unreachable",
        NextHop::Prohibit => "prohibit",
        NextHop::Punt | NextHop::Foreign(_) => "linux",
    }
}
