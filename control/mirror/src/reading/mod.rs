//! Reading whole tables of Linux, to load them, or to compare.
//!
//! A read must agree with the notifications that arrive meanwhile. The rule: subscribe first, then
//! dump; what a notification *touched* since the dump began is passed over, because the dump may be
//! older or newer than it. All else did not change while the dump ran, so the dump is right about
//! it, and what it did not mention is gone. Before that last conclusion the notifications are
//! drained once more. What was touched is right if the model was right about it before, and a load
//! happens when that is in doubt: so it is left as *unsure*, and read again by itself, until it was
//! read once without being touched.
//!
//! One table needs more. Linux resumes a dump of IPv6 routes by counting: when the table changed
//! since the last datagram, it begins at the root and passes over as many prefixes as it told
//! already (`fib6_dump_table`). A prefix that came in front is made up for by telling one twice,
//! and one that went by leaving one out, of which nothing is said (`NLM_F_DUMP_INTR` is not set).
//! So a dump during which IPv6 routes changed is read again and what it left out is not gone, until
//! one brings nothing new. IPv4's resumes by prefix.
//!
//! The same walk serves three purposes. *Load* makes the model equal to what is read. *Compare*
//! repairs nothing, and collects suspects. *Confirm* reads again, some time after, and only what
//! then still differs counts as a difference: it is repaired, counted and told.

mod routes;
mod vlans;

use crate::model::{Changes, MemberVlans, Model, Remote, Route, SourceId, Station, Table};
use crate::netlink::request::What;
use crate::netlink::socket::Dump;
use crate::netlink::{self, Message, address, link, neighbour, netconf, nexthop, route, station, vlan, vtep};
use ipnet::IpNet;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::net::IpAddr;

/// Restarts of a dump that changes keep interrupting, before what it says is taken as it is.
const RESTARTS: u32 = 8;
/// Dumps that may leave something out, before what none of them mentioned is gone.
const PASSES: u32 = 8;
/// Changes during a comparison that make it futile.
const FUTILE: usize = 20_000;

/// What a message or a difference is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    Link(u32),
    Address(u32, IpNet),
    Neighbour(u32, IpAddr),
    Vlans(u32),
    Station(Station),
    Remote(Remote),
    Object(u32),
    Prefix(IpNet),
}

impl Subject {
    /// For the log.
    fn in_words(&self, model: &Model) -> String {
        let name = |ifindex: u32| {
            model
                .links
                .by_index(ifindex)
                .map_or_else(|| format!("number {ifindex}"), |link| link.name.clone())
        };
        match self {
            Subject::Link(ifindex) => format!("the interface {}", name(*ifindex)),
            Subject::Address(ifindex, net) => format!("the address {net} of {}", name(*ifindex)),
            Subject::Neighbour(ifindex, address) => format!("the neighbour {address} on {}", name(*ifindex)),
            Subject::Vlans(ifindex) => format!("the VLANs of {}", name(*ifindex)),
            Subject::Station(host) => format!("the host {} on {}", host.mac, name(host.bridge)),
            Subject::Remote(host) => format!("the host {} behind {}", host.mac, name(host.vxlan)),
            Subject::Object(id) => format!("the next-hop object {id}"),
            Subject::Prefix(prefix) => format!("a route to {prefix}"),
        }
    }
}

/// See the module's description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Load,
    Compare,
    Confirm(HashSet<Subject>),
}

/// How a step ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is more to read.
    More,
    /// The notifications must be drained before it can go on.
    Drain,
    /// All is read.
    Done,
}

/// A read under way.
pub(crate) struct Reading {
    purpose: Purpose,
    /// What it reads, in this order.
    all: BTreeSet<What>,
    /// Of these, what is still to be begun.
    steps: BTreeSet<What>,
    current: Option<Step>,
    touched: HashSet<Subject>,
    /// Load: only these are looked at.
    only: Option<HashSet<Subject>>,
    /// Load: what was touched, and must be read again.
    pub unsure: HashSet<Subject>,
    /// Compare: what differed.
    pub suspects: HashSet<Subject>,
    /// Confirm: what differed still, in words.
    pub differences: Vec<String>,
    /// Hundredths of a second until the first route expires that was seen.
    pub first_expiry: Option<u32>,
}

struct Step {
    what: What,
    dump: Dump,
    restarts: u32,
    interrupted: bool,
    seen: HashSet<Subject>,
    passes: u32,
    /// Whether this pass told something that the model did not have.
    news: bool,
    group: Vec<Route>,
    group_of: Option<(IpNet, Table)>,
    /// How many of the group came with earlier datagrams.
    group_before: usize,
    other_tables: HashMap<u32, usize>,
    vlans: vlans::Gathered,
    phase: Phase,
}

enum Phase {
    Receiving,
    Sweeping(Option<IpNet>),
}

impl Reading {
    /// Whether this is behind it.
    pub fn has_read(&self, what: What) -> bool {
        let reads = self.steps.contains(&what) || self.current.as_ref().is_some_and(|step| step.what == what);
        self.all.contains(&what) && !reads
    }

    pub fn new(purpose: Purpose, steps: impl IntoIterator<Item = What>) -> Reading {
        let all: BTreeSet<What> = steps.into_iter().collect();
        Reading {
            purpose,
            steps: all.clone(),
            all,
            current: None,
            touched: HashSet::new(),
            only: None,
            unsure: HashSet::new(),
            suspects: HashSet::new(),
            differences: Vec::new(),
            first_expiry: None,
        }
    }

    /// A load of what an earlier load left unsure.
    pub fn again(unsure: HashSet<Subject>) -> Reading {
        let steps = steps_for(&unsure);
        Reading { only: Some(unsure), ..Reading::new(Purpose::Load, steps) }
    }

    /// Whether it makes the model equal to what is read.
    pub fn loads(&self) -> bool {
        self.purpose == Purpose::Load
    }

    /// What it reads whole.
    pub fn whole(&self) -> BTreeSet<What> {
        if self.only.is_some() { BTreeSet::new() } else { self.all.clone() }
    }

    /// The tables still to be read, for another attempt.
    pub fn remaining(&self) -> BTreeSet<What> {
        let current = self.current.as_ref().map(|step| step.what);
        self.steps.iter().copied().chain(current).collect()
    }

    /// Whether so much changes that comparing tells nothing.
    pub fn is_futile(&self) -> bool {
        !self.loads() && self.touched.len() > FUTILE
    }

    /// A notification about `subject` was taken in.
    pub fn touch(&mut self, subject: Subject) {
        self.touched.insert(subject);
    }

    /// One piece. `drained`: no notification waits.
    pub fn step(&mut self, drained: bool, model: &mut Model, changes: &mut Changes) -> io::Result<Progress> {
        let Some(mut step) = self.current.take() else {
            let Some(what) = self.steps.pop_first() else {
                return Ok(Progress::Done);
            };
            self.current = Some(self.begin(what, model)?);
            return Ok(Progress::More);
        };
        let progress = match step.phase {
            Phase::Receiving => self.receive(&mut step, model, changes)?,
            Phase::Sweeping(None) if !drained => Progress::Drain,
            Phase::Sweeping(None) if self.may_have_left_out(&step, model) => {
                self.touched.clear();
                step.dump = Dump::start(step.what)?;
                (step.phase, step.passes, step.news) = (Phase::Receiving, step.passes + 1, false);
                Progress::More
            }
            Phase::Sweeping(after) => self.sweep(&mut step, after, model, changes),
        };
        if progress != Progress::Done {
            self.current = Some(step);
            return Ok(progress);
        }
        if self.loads() {
            let only = &self.only;
            let looked_at = |subject: &&Subject| only.as_ref().is_none_or(|only| only.contains(subject));
            self.unsure.extend(self.touched.iter().filter(looked_at));
        }
        if matches!(step.what, What::Routes4 | What::Routes6) && self.loads() {
            model.routes.set_other_tables(step.what == What::Routes6, step.other_tables);
        }
        Ok(if self.steps.is_empty() { Progress::Done } else { Progress::More })
    }

    fn begin(&mut self, what: What, model: &mut Model) -> io::Result<Step> {
        self.touched.clear();
        if matches!(what, What::Routes4 | What::Routes6) {
            model.routes.begin_read(SourceId::Netlink);
        }
        Ok(Step {
            what,
            dump: Dump::start(what)?,
            restarts: 0,
            interrupted: false,
            seen: HashSet::new(),
            passes: 1,
            news: false,
            group: Vec::new(),
            group_of: None,
            group_before: 0,
            other_tables: HashMap::new(),
            vlans: vlans::Gathered::new(),
            phase: Phase::Receiving,
        })
    }

    fn receive(&mut self, step: &mut Step, model: &mut Model, changes: &mut Changes) -> io::Result<Progress> {
        let bytes = step.dump.receive()?.to_vec();
        step.group_before = step.group.len();
        for message in netlink::messages(&bytes) {
            step.interrupted |= message.flags & netlink::INTERRUPTED != 0;
            match i32::from(message.kind) {
                libc::NLMSG_DONE => return self.received(step, model, changes),
                libc::NLMSG_ERROR => {
                    let error = netlink::error(&message);
                    if step.what == What::Vlans && error.raw_os_error() == Some(libc::EOPNOTSUPP) {
                        // Its bridges tell none apart.
                        return Ok(Progress::Done);
                    }
                    tracing::warn!(%error, what = ?step.what, "Linux refuses to tell; what is known stays");
                    self.flush(step, model, changes);
                    return Ok(Progress::Done);
                }
                _ => self.item(step, message, model, changes),
            }
        }
        Ok(Progress::More)
    }

    fn received(
        &mut self,
        step: &mut Step,
        model: &mut Model,
        changes: &mut Changes,
    ) -> io::Result<Progress> {
        self.flush(step, model, changes);
        if step.interrupted && step.restarts < RESTARTS {
            let restarts = step.restarts + 1;
            *step = self.begin(step.what, model)?;
            step.restarts = restarts;
            return Ok(Progress::More);
        }
        self.take_vlans(step, model, changes);
        step.phase = Phase::Sweeping(None);
        Ok(Progress::Drain)
    }

    fn item(&mut self, step: &mut Step, message: Message<'_>, model: &mut Model, changes: &mut Changes) {
        let body = message.body;
        match step.what {
            What::Links => {
                let Some(link) = link::parse(body) else { return };
                let agrees = model.links.agrees(&link);
                if self.must_set(step, Subject::Link(link.ifindex), agrees, || {
                    format!("the interface {} otherwise", link.name)
                }) {
                    model.set_link(&link, changes);
                }
            }
            // Settings have no identity that could vanish: taking them in is all.
            What::Netconf4 | What::Netconf6 => {
                if let Some(settings) = netconf::parse(body) {
                    model.configure(&settings, changes);
                }
            }
            What::Addresses => {
                let Some(address) = address::parse(body) else { return };
                let subject = Subject::Address(address.ifindex, address.net);
                let agrees = model.address_agrees(&address);
                if self.must_set(step, subject, agrees, || format!("the address {}", address.net)) {
                    model.set_address(&address, changes);
                }
            }
            What::Neighbours => {
                let Some(neighbour) = neighbour::parse(body) else { return };
                let subject = Subject::Neighbour(neighbour.ifindex, neighbour.address);
                let agrees = model.neighbours.agrees(&neighbour);
                // Linux makes entries that need no resolution without telling: they are news, not a
                // difference.
                let news = neighbour.needs_no_resolution() && !agrees && !self.passes_over(&subject);
                if self.must_set(step, subject, agrees || news, || {
                    format!("the neighbour {} otherwise", neighbour.address)
                }) || news
                {
                    model.set_neighbour(&neighbour, changes);
                }
            }
            What::Vlans => {
                if let Some(vlans) = vlan::parse(body) {
                    step.gather(&vlans);
                }
            }
            What::Stations => {
                let Some(station) = station::parse(body) else {
                    return self.take_remote(step, body, model, changes);
                };
                let agrees = model.stations.agrees(&station);
                if self.must_set(step, Subject::Station(station.station), agrees, || {
                    format!("the host {} elsewhere", station.station.mac)
                }) {
                    model.set_station(&station, changes);
                }
            }
            What::Objects => {
                let Some(object) = nexthop::parse(body) else { return };
                let agrees = model.objects.find(SourceId::Netlink, object.id) == Some(&object);
                if self.must_set(step, Subject::Object(object.id), agrees, || {
                    format!("the next-hop object {} otherwise", object.id)
                }) {
                    model.set_object(SourceId::Netlink, &object, changes);
                }
            }
            What::Routes4 | What::Routes6 => {
                let Some(route) = route::parse(body) else { return };
                if let Some(ticks) = route.expires {
                    self.first_expiry = Some(self.first_expiry.map_or(ticks, |first| first.min(ticks)));
                }
                self.route(step, &route, model, changes);
            }
        }
    }

    fn take_remote(&mut self, step: &mut Step, body: &[u8], model: &mut Model, changes: &mut Changes) {
        let Some(remote) = vtep::parse(body) else { return };
        let agrees = model.links.agrees_remote(&remote);
        if self.must_set(step, Subject::Remote(Remote::of(&remote)), agrees, || {
            format!("the host {} behind another end", remote.mac)
        }) {
            model.set_remote(&remote, changes);
        }
    }

    /// Whether the model must take in what was read about `subject`.
    fn must_set(
        &mut self,
        step: &mut Step,
        subject: Subject,
        agrees: bool,
        says: impl FnOnce() -> String,
    ) -> bool {
        step.seen.insert(subject);
        !agrees && !self.passes_over(&subject) && self.found(subject, || format!("Linux has {}", says()))
    }

    fn passes_over(&self, subject: &Subject) -> bool {
        self.touched.contains(subject) || self.only.as_ref().is_some_and(|only| !only.contains(subject))
    }

    /// Something differs: whether to repair it.
    fn found(&mut self, subject: Subject, says: impl FnOnce() -> String) -> bool {
        match &self.purpose {
            Purpose::Load => true,
            Purpose::Compare => {
                self.suspects.insert(subject);
                false
            }
            Purpose::Confirm(suspects) => {
                let confirmed = suspects.contains(&subject);
                if confirmed {
                    self.differences.push(says());
                }
                confirmed
            }
        }
    }

    /// What was not mentioned is gone.
    fn sweep(
        &mut self,
        step: &mut Step,
        after: Option<IpNet>,
        model: &mut Model,
        changes: &mut Changes,
    ) -> Progress {
        if matches!(step.what, What::Routes4 | What::Routes6) {
            return self.sweep_routes(step, after, model, changes);
        }
        let gone: Vec<Subject> = subjects(step.what, model)
            .into_iter()
            .filter(|subject| !step.seen.contains(subject) && !self.passes_over(subject))
            .collect();
        for subject in gone {
            if !self.found(subject, || format!("Linux no longer has {}", subject.in_words(model))) {
                continue;
            }
            match subject {
                Subject::Link(ifindex) => model.remove_link(ifindex, changes),
                Subject::Address(ifindex, net) => model.remove_address((ifindex, net), changes),
                Subject::Neighbour(ifindex, address) => model.remove_neighbour(ifindex, address, changes),
                Subject::Vlans(ifindex) => model.set_vlans(ifindex, MemberVlans::default(), changes),
                Subject::Station(station) => model.remove_station(station, changes),
                Subject::Remote(host) => model.remove_remote(host, changes),
                Subject::Object(id) => model.remove_object(SourceId::Netlink, id, changes),
                Subject::Prefix(_) => {}
            }
        }
        Progress::Done
    }
}

/// Everything of a kind that the model has.
fn subjects(what: What, model: &Model) -> Vec<Subject> {
    match what {
        What::Links => model.links.iter().map(|link| Subject::Link(link.ifindex)).collect(),
        What::Addresses => model.addresses().map(|a| Subject::Address(a.ifindex, a.net)).collect(),
        What::Neighbours => {
            model.neighbours.iter().map(|(i, address, _)| Subject::Neighbour(i, address)).collect()
        }
        What::Vlans => model.links.with_vlans().map(Subject::Vlans).collect(),
        What::Stations => {
            let stations = model.stations.iter().map(|(station, _)| Subject::Station(station));
            stations.chain(model.links.remotes().map(Subject::Remote)).collect()
        }
        What::Objects => {
            model.objects.iter(SourceId::Netlink).map(|object| Subject::Object(object.id)).collect()
        }
        What::Netconf4 | What::Netconf6 | What::Routes4 | What::Routes6 => Vec::new(),
    }
}

/// What must be read to look at these subjects again.
pub(crate) fn steps_for(suspects: &HashSet<Subject>) -> BTreeSet<What> {
    suspects
        .iter()
        .map(|subject| match subject {
            Subject::Link(_) => What::Links,
            Subject::Address(..) => What::Addresses,
            Subject::Neighbour(..) => What::Neighbours,
            Subject::Vlans(_) => What::Vlans,
            Subject::Station(_) | Subject::Remote(_) => What::Stations,
            Subject::Object(_) => What::Objects,
            Subject::Prefix(IpNet::V4(_)) => What::Routes4,
            Subject::Prefix(IpNet::V6(_)) => What::Routes6,
        })
        .collect()
}
