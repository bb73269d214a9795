//! The control loop's view of the mirror: hear, read, program, check; a slice at a time.

use crate::audit::{self, Audit, Cursor, Stage};
use crate::fpm::{Fpm, FpmOptions, Talk, Told};
use crate::model::{Changes, Effect, Link, Model, Source};
use crate::netlink::request::{RTM_DELRULE, RTM_NEWRULE, What};
use crate::netlink::socket::{Notifications, Received, Requests};
use crate::netlink::{self, Message, address, link, neighbour, netconf, nexthop, route};
use crate::origin::Origins;
use crate::policy::Policy;
use crate::programmer::Programmer;
use crate::reading::{Progress, Purpose, Reading, Subject, steps_for};
use crate::resolver::Resolver;
use fib::{FibError, PortId, Tables};
use ipnet::IpNet;
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Datagrams heard before what they changed is programmed: updates of one prefix that arrive together are one write.
const HEARD_AT_ONCE: usize = 64;
/// Pause before a reread that an event asks for: such events come in groups.
const REREAD_AFTER: Duration = Duration::from_millis(100);
/// Reads of what keeps changing while it is read; the pause before each is twice the one before.
const ATTEMPTS: u32 = 8;
/// Pause between two calls of the resolver and the retries.
const TICK: Duration = Duration::from_millis(250);
/// Prefixes that one step of the sweep after zebra's telling looks at.
const SWEEP: usize = 4096;

/// What the mirror is to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Receive buffer of the notification socket, bytes.
    pub receive_buffer: usize,
    /// How long one [`Mirror::sync`] or [`Mirror::tick`] may take.
    pub slice: Duration,
    /// Pause between two rounds of the audit; `None` = no audit.
    pub audit_interval: Option<Duration>,
    /// Most requests about neighbours in a second.
    pub resolve_rate: u32,
    /// Serve FPM.
    pub fpm: Option<FpmOptions>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            receive_buffer: 128 << 20,
            slice: Duration::from_millis(10),
            audit_interval: Some(Duration::from_secs(10)),
            resolve_rate: 1000,
            fpm: None,
        }
    }
}

/// Why the mirror cannot work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MirrorError {
    /// Netlink failed.
    #[error("netlink: {0}")]
    Netlink(#[source] io::Error),
    /// The address for FPM cannot be listened on.
    #[error("cannot listen for zebra (FPM) on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Not even the few entries that everything needs fit into the tables.
    #[error(transparent)]
    Tables(#[from] FibError),
}

/// What the plane wants to hear while the mirror works. The callbacks come before the routes that depend on them are
/// programmed. They get no access to the mirror: note what is new, and call [`Mirror::bind`] after
/// [`Mirror::sync`] returns.
pub trait Plane {
    /// An interface is new or has changed.
    fn link(&mut self, link: &Link);
    /// An interface is gone; its binding is undone.
    fn link_gone(&mut self, ifindex: u32);
    /// This machine has a new address.
    fn local_added(&mut self, address: IpAddr);
    /// This machine no longer has an address.
    fn local_removed(&mut self, address: IpAddr);
}

/// Counters of what the mirror did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub messages: u64,
    pub malformed: u64,
    pub unknown_withdrawals: u64,
    pub overflows: u64,
    pub rereads: u64,
}

/// Keeps the tables equal to Linux's. One thread owns it and the tables.
pub struct Mirror {
    pub(crate) options: Options,
    notifications: Notifications,
    requests: Requests,
    pub(crate) model: Model,
    pub(crate) programmer: Programmer,
    changes: Changes,
    reading: Option<Reading>,
    wanted: BTreeSet<What>,
    read_at: Instant,
    unsure: Option<Unsure>,
    expiry: Option<Instant>,
    pub(crate) audit: Option<Audit>,
    pub(crate) resolver: Resolver,
    pub(crate) fpm: Option<Fpm>,
    fpm_sweep: Option<FpmSweep>,
    pub(crate) policy: Policy,
    pub(crate) origins: Origins,
    pub(crate) counters: Counters,
    pub(crate) loaded: bool,
    next_tick: Instant,
}

/// What changed while it was read, and must be read again.
struct Unsure {
    subjects: HashSet<Subject>,
    at: Instant,
    attempt: u32,
}

/// The walk that removes what zebra did not tell again.
struct FpmSweep {
    ipv6: bool,
    after: Option<IpNet>,
}

impl Mirror {
    /// Subscribes, in the calling thread's network namespace. Nothing is read before [`Mirror::sync`].
    pub fn new(options: Options) -> Result<Mirror, MirrorError> {
        let now = Instant::now();
        let fpm = match options.fpm.clone() {
            Some(fpm) => {
                let address = fpm.listen;
                Some(Fpm::listen(fpm).map_err(|source| MirrorError::Listen { address, source })?)
            }
            None => None,
        };
        Ok(Mirror {
            notifications: Notifications::open(options.receive_buffer).map_err(MirrorError::Netlink)?,
            requests: Requests::open().map_err(MirrorError::Netlink)?,
            model: Model::default(),
            programmer: Programmer::new(),
            changes: Changes::default(),
            reading: None,
            wanted: What::ALL.into(),
            read_at: now,
            unsure: None,
            expiry: None,
            audit: options.audit_interval.map(|interval| Audit::new(interval, now)),
            resolver: Resolver::new(options.resolve_rate, now),
            fpm,
            fpm_sweep: None,
            policy: Policy::new(now),
            origins: Origins::of_machine(),
            counters: Counters::default(),
            loaded: false,
            next_tick: now,
            options,
        })
    }

    /// What to wait on for input. The list changes: ask before each wait.
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let mut fds = vec![self.notifications.as_fd()];
        fds.extend(self.fpm.iter().flat_map(Fpm::fds));
        fds
    }

    /// Where zebra can connect.
    pub fn fpm_address(&self) -> Option<SocketAddr> {
        self.fpm.as_ref().and_then(|fpm| fpm.address().ok())
    }

    /// What Linux says.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Whether Linux's tables have been read whole and the plane's hold all of it.
    pub fn ready(&self) -> bool {
        self.loaded && !self.loads() && self.programmer.idle()
    }

    /// How many things changed while they were read, and are to be read again.
    pub(crate) fn unsure(&self) -> usize {
        self.unsure.as_ref().map_or(0, |unsure| unsure.subjects.len())
    }

    /// Whether a load is under way or due.
    fn loads(&self) -> bool {
        self.reading.as_ref().is_some_and(Reading::loads) || !self.wanted.is_empty()
    }

    /// Makes an interface Bifrost's: routes by it are forwarded from now on. Give the port to the tables first.
    pub fn bind(&mut self, ifindex: u32, port: PortId, tables: &mut Tables) {
        self.programmer.bind(ifindex, Some(port), &self.model, tables);
    }

    /// Gives an interface back: Linux forwards what leaves by it.
    pub fn unbind(&mut self, ifindex: u32, tables: &mut Tables) {
        self.programmer.bind(ifindex, None, &self.model, tables);
    }

    /// Takes in what has arrived and brings the tables up to date, for at most a slice. Returns whether more waits:
    /// then call it again without waiting for input.
    pub fn sync(&mut self, tables: &mut Tables, plane: &mut dyn Plane) -> Result<bool, MirrorError> {
        let deadline = Instant::now() + self.options.slice;
        self.programmer.prepare(&mut self.model, tables)?;
        loop {
            let drained = self.hear()?;
            self.flush(tables, plane);
            let told = self.hear_zebra(tables, plane);
            let unprogrammed = self.programmer.work(&mut self.model, tables, deadline);
            let reads = self.read(drained)?;
            self.flush(tables, plane);
            let more = !drained || told || unprogrammed || reads || !self.programmer.idle();
            if !more || Instant::now() >= deadline {
                tables.reclaim();
                return Ok(more);
            }
        }
    }

    /// What happens by the clock: a slice of the audit, neighbours' freshness, timers. Call it now and then, say ten
    /// times a second, and often enough between while it returns true (more of the audit waits).
    pub fn tick(&mut self, tables: &mut Tables) -> Result<bool, MirrorError> {
        let now = Instant::now();
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.resolver.tick(
                now,
                &self.model,
                &self.programmer,
                tables,
                &mut self.requests,
                now + self.options.slice / 2,
            );
            self.policy.tick(now, now + self.options.slice / 2);
            self.programmer.retry(&mut self.model, tables);
            self.time_zebra(now);
            if self.expiry.is_some_and(|expiry| expiry <= now) {
                self.expiry = None;
                self.want([What::Routes6]);
            }
        }
        tables.reclaim();
        self.audit(now, now + self.options.slice, tables)
    }

    /// Takes in notifications; whether none waits any more.
    fn hear(&mut self) -> Result<bool, MirrorError> {
        if self.reading.as_ref().is_some_and(Reading::is_futile) {
            self.abandon_comparison();
        }
        for _ in 0..HEARD_AT_ONCE {
            match self.notifications.receive().map_err(MirrorError::Netlink)? {
                Received::Nothing => return Ok(true),
                Received::Lost => {
                    self.overflowed()?;
                    return Ok(false);
                }
                Received::Messages(bytes) => {
                    for message in netlink::messages(bytes) {
                        self.counters.messages += 1;
                        if matches!(message.kind, RTM_NEWRULE | RTM_DELRULE) {
                            self.policy.rules_changed();
                        }
                        let subject =
                            take_in(message, &mut self.model, &mut self.changes, &mut self.counters);
                        if let (Some(reading), Some(subject)) = (&mut self.reading, subject) {
                            reading.touch(subject);
                        }
                    }
                }
            }
        }
        Ok(false)
    }

    /// Messages were lost: what still waits is older than what was lost, and would not fit together with it. A new
    /// socket starts clean, and everything is read anew; meanwhile the tables stay as they are.
    fn overflowed(&mut self) -> Result<(), MirrorError> {
        self.counters.overflows += 1;
        tracing::warn!(overflows = self.counters.overflows, "netlink overflowed; reading everything anew");
        self.notifications =
            Notifications::open(self.options.receive_buffer).map_err(MirrorError::Netlink)?;
        self.reading = None;
        self.unsure = None;
        self.want(What::ALL);
        self.policy.rules_changed();
        Ok(())
    }

    fn want(&mut self, what: impl IntoIterator<Item = What>) {
        if self.wanted.is_empty() {
            self.read_at = Instant::now() + REREAD_AFTER;
        }
        self.wanted.extend(what);
    }

    /// Tells the plane and the programmer what changed.
    fn flush(&mut self, tables: &mut Tables, plane: &mut dyn Plane) {
        let suspect = std::mem::take(&mut self.changes.suspect);
        if suspect.any() && self.loaded {
            let wanted = [
                (suspect.objects, What::Objects),
                (suspect.routes4, What::Routes4),
                (suspect.routes6, What::Routes6),
            ];
            self.want(
                wanted.into_iter().filter(|(suspect, _)| *suspect).map(|(_, what)| what).collect::<Vec<_>>(),
            );
        }
        for ifindex in &self.changes.links_gone {
            plane.link_gone(*ifindex);
        }
        for link in self.changes.links.iter().filter_map(|ifindex| self.model.links.by_index(*ifindex)) {
            plane.link(link);
        }
        self.changes.locals_added.drain(..).for_each(|address| plane.local_added(address));
        self.changes.locals_removed.drain(..).for_each(|address| plane.local_removed(address));
        self.programmer.take(&mut self.changes, &self.model, tables);
    }

    /// A step of the read under way, or the start of the next; whether there is more to read.
    fn read(&mut self, drained: bool) -> Result<bool, MirrorError> {
        let due = !self.wanted.is_empty() && (!self.loaded || Instant::now() >= self.read_at);
        if due && self.reading.as_ref().is_none_or(|reading| !reading.loads()) {
            // A comparison under way gives way: it would only find what is read now.
            self.abandon_comparison();
            self.reading = Some(Reading::new(Purpose::Load, std::mem::take(&mut self.wanted)));
        }
        if self.reading.as_ref().is_none_or(|reading| !reading.loads())
            && let Some(unsure) = self.unsure.as_mut().filter(|unsure| unsure.at <= Instant::now())
        {
            let subjects = std::mem::take(&mut unsure.subjects);
            self.abandon_comparison();
            self.reading = Some(Reading::again(subjects));
        }
        let Some(reading) = self.reading.as_mut().filter(|reading| reading.loads()) else {
            return Ok(false);
        };
        match reading.step(drained, &mut self.model, &mut self.changes) {
            Ok(Progress::More) => Ok(true),
            Ok(Progress::Drain) => Ok(true),
            Ok(Progress::Done) => {
                let ticks = reading.first_expiry;
                let unsure = std::mem::take(&mut reading.unsure);
                self.expect_expiry(ticks);
                self.read_again(unsure);
                self.reading = None;
                self.counters.rereads += u64::from(self.loaded);
                self.loaded = true;
                // What the read itself removed needs no further read.
                self.changes.suspect = Default::default();
                Ok(!self.wanted.is_empty())
            }
            Err(error) => {
                tracing::warn!(%error, "reading Linux's tables failed; trying again");
                let remaining = reading.remaining();
                self.reading = None;
                self.unsure = None;
                self.want(remaining);
                Ok(false)
            }
        }
    }

    /// Reads again what changed while it was read; what keeps changing is left to the audit in the end.
    fn read_again(&mut self, mut subjects: HashSet<Subject>) {
        let (attempt, earlier) =
            self.unsure.take().map_or((0, HashSet::new()), |u| (u.attempt + 1, u.subjects));
        subjects.extend(earlier);
        if !subjects.is_empty() && attempt < ATTEMPTS {
            let pause = REREAD_AFTER * (1 << attempt);
            self.unsure = Some(Unsure { subjects, at: Instant::now() + pause, attempt });
        }
    }

    /// Routes from router advertisements end by the clock, and are prolonged without a message: look again then.
    fn expect_expiry(&mut self, ticks: Option<u32>) {
        if let Some(ticks) = ticks {
            let at = Instant::now() + Duration::from_millis(u64::from(ticks) * 10 + 500);
            self.expiry = Some(self.expiry.map_or(at, |expiry| expiry.min(at)));
        }
    }

    fn abandon_comparison(&mut self) {
        self.reading = None;
        if let Some(audit) = &mut self.audit
            && !matches!(audit.stage, Stage::Waiting(_) | Stage::Tables(_))
        {
            audit.stage = Stage::Waiting(Instant::now() + audit.interval);
        }
    }

    /// A slice of the audit; whether more of the round waits.
    fn audit(&mut self, now: Instant, deadline: Instant, tables: &mut Tables) -> Result<bool, MirrorError> {
        if !self.loaded || self.loads() {
            return Ok(false);
        }
        let Some(audit) = &mut self.audit else {
            return Ok(false);
        };
        match &mut audit.stage {
            Stage::Waiting(until) if *until > now => return Ok(false),
            Stage::Waiting(_) => {
                self.reading = Some(Reading::new(Purpose::Compare, What::ALL));
                audit.stage = Stage::Comparing;
            }
            Stage::Suspecting(until, _) if *until > now => return Ok(false),
            Stage::Suspecting(_, suspects) => {
                let suspects = std::mem::take(suspects);
                let steps = steps_for(&suspects);
                self.reading = Some(Reading::new(Purpose::Confirm(suspects), steps));
                audit.stage = Stage::Confirming;
            }
            Stage::Comparing | Stage::Confirming => {}
            Stage::Tables(_) => {
                while self.programmer.idle() {
                    if !audit.compare_tables(&mut self.programmer, &mut self.model, tables) {
                        audit.finish(now);
                        return Ok(false);
                    }
                    if Instant::now() >= deadline {
                        break;
                    }
                }
                return Ok(true);
            }
        }
        self.compare(deadline)
    }

    /// Steps of a comparison with fresh dumps, until the deadline. Notifications that must be drained first are taken
    /// in here, and programmed by the next [`Mirror::sync`].
    fn compare(&mut self, deadline: Instant) -> Result<bool, MirrorError> {
        let mut drained = false;
        while let (Some(reading), Some(audit)) = (&mut self.reading, &mut self.audit) {
            match reading.step(drained, &mut self.model, &mut self.changes) {
                Ok(Progress::More) => {}
                Ok(Progress::Drain) if Instant::now() < deadline => {
                    drained = self.hear()?;
                    continue;
                }
                Ok(Progress::Drain) => return Ok(true),
                Ok(Progress::Done) => {
                    let suspects = std::mem::take(&mut reading.suspects);
                    reading.differences.iter().for_each(|what| audit.difference("model", what));
                    self.reading = None;
                    audit.stage = if suspects.is_empty() {
                        Stage::Tables(Cursor::Prefixes(None))
                    } else {
                        Stage::Suspecting(Instant::now() + audit::CONFIRM_AFTER, suspects)
                    };
                    return Ok(true);
                }
                Err(error) => {
                    tracing::warn!(%error, "the audit could not read Linux's tables; trying again");
                    self.abandon_comparison();
                    return Ok(false);
                }
            }
            drained = false;
            if Instant::now() >= deadline {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes in what zebra has sent, a few frames; whether more may wait.
    fn hear_zebra(&mut self, tables: &mut Tables, plane: &mut dyn Plane) -> bool {
        let now = Instant::now();
        let Some(fpm) = &mut self.fpm else {
            return false;
        };
        if fpm.accept(now) {
            self.fpm_sweep = None;
            self.model.routes.begin_read(Source::Fpm);
            self.model.objects.begin_read(Source::Fpm);
        }
        for _ in 0..HEARD_AT_ONCE {
            let Some(frame) = self.fpm.as_mut().and_then(|fpm| fpm.next_frame(now)) else {
                return self.sweep_zebra();
            };
            for told in frame {
                self.told(told);
            }
        }
        self.flush(tables, plane);
        true
    }

    fn told(&mut self, told: Told) {
        let (prefix, effect) = match told {
            Told::Route(route) => (route.prefix, self.model.routes.announce_fpm(&route)),
            Told::RouteGone(route) => (route.prefix, self.model.routes.withdraw_fpm(&route)),
            Told::Object(object) => return self.model.set_object(Source::Fpm, &object, &mut self.changes),
            Told::ObjectGone(id) => return self.model.remove_object(Source::Fpm, id, &mut self.changes),
        };
        if effect == Effect::Changed {
            self.changes.prefixes.push(prefix);
        }
    }

    /// Zebra's timers: the end of its telling, and the end of the patience with its absence.
    fn time_zebra(&mut self, now: Instant) {
        let Some(fpm) = &mut self.fpm else {
            return;
        };
        match fpm.talk {
            Talk::Telling(last) if now.duration_since(last) >= fpm.options.quiet => {
                fpm.talk = Talk::Steady;
                self.programmer.use_fpm(true);
                self.fpm_sweep = Some(FpmSweep { ipv6: false, after: None });
                tracing::info!("zebra has told its routes; they are in force");
            }
            Talk::Away(since)
                if self.programmer.uses_fpm() && now.duration_since(since) >= fpm.options.hold =>
            {
                tracing::warn!("zebra has stayed away; Linux's routes are in force again");
                self.programmer.use_fpm(false);
                self.model.routes.begin_read(Source::Fpm);
                self.model.objects.begin_read(Source::Fpm);
                self.fpm_sweep = Some(FpmSweep { ipv6: false, after: None });
            }
            _ => {}
        }
    }

    /// A step of the sweep after zebra's telling; whether it goes on.
    fn sweep_zebra(&mut self) -> bool {
        let Some(sweep) = &mut self.fpm_sweep else {
            return false;
        };
        let (gone, last) = self.model.routes.unseen(sweep.ipv6, Source::Fpm, sweep.after, SWEEP);
        for (prefix, table) in gone {
            self.model.routes.sweep(prefix, table, Source::Fpm);
            self.changes.prefixes.push(prefix);
        }
        match (last, sweep.ipv6) {
            (Some(last), _) => sweep.after = Some(last),
            (None, false) => *sweep = FpmSweep { ipv6: true, after: None },
            (None, true) => {
                self.fpm_sweep = None;
                for id in self.model.objects.unseen(Source::Fpm) {
                    self.model.remove_object(Source::Fpm, id, &mut self.changes);
                }
            }
        }
        true
    }
}

/// Takes a notification into the model; what it was about, for a read under way.
fn take_in(
    message: Message<'_>,
    model: &mut Model,
    changes: &mut Changes,
    counters: &mut Counters,
) -> Option<Subject> {
    let body = message.body;
    let ignored =
        || matches!(body.first(), Some(&family) if family != netlink::IPV4 && family != netlink::IPV6);
    let subject = match message.kind {
        RTM_NEWROUTE | RTM_DELROUTE => {
            let route = route::parse(body)?;
            let effect = if message.kind == RTM_NEWROUTE {
                model.routes.announce(&route, message.flags)
            } else {
                model.routes.withdraw(&route)
            };
            match effect {
                Effect::Changed => changes.prefixes.push(route.prefix),
                Effect::Doubtful => {
                    changes.prefixes.push(route.prefix);
                    changes.suspect.routes6 = true;
                }
                Effect::Unknown => counters.unknown_withdrawals += 1,
                Effect::Known => {}
            }
            return Some(Subject::Prefix(route.prefix));
        }
        RTM_NEWLINK => link::parse(body).map(|link| {
            model.set_link(&link, changes);
            Subject::Link(link.ifindex)
        }),
        RTM_DELLINK => link::parse(body).map(|link| {
            model.remove_link(link.ifindex, changes);
            Subject::Link(link.ifindex)
        }),
        RTM_NEWADDR => address::parse(body).map(|address| {
            model.set_address(&address, changes);
            Subject::Address(address.ifindex, address.net)
        }),
        RTM_DELADDR => address::parse(body).map(|address| {
            model.remove_address((address.ifindex, address.net), changes);
            Subject::Address(address.ifindex, address.net)
        }),
        RTM_NEWNEIGH => neighbour::parse(body).map(|neighbour| {
            model.set_neighbour(&neighbour, changes);
            Subject::Neighbour(neighbour.ifindex, neighbour.address)
        }),
        RTM_DELNEIGH => neighbour::parse(body).map(|neighbour| {
            model.remove_neighbour(neighbour.ifindex, neighbour.address, changes);
            Subject::Neighbour(neighbour.ifindex, neighbour.address)
        }),
        RTM_NEWNEXTHOP => nexthop::parse(body).map(|object| {
            model.set_object(Source::Netlink, &object, changes);
            Subject::Object(object.id)
        }),
        RTM_DELNEXTHOP => nexthop::parse(body).map(|object| {
            model.remove_object(Source::Netlink, object.id, changes);
            Subject::Object(object.id)
        }),
        RTM_NEWNETCONF => {
            if let Some(settings) = netconf::parse(body) {
                model.configure(&settings, changes);
            }
            return None;
        }
        _ => return None,
    };
    if subject.is_none() && !ignored() && !matches!(message.kind, RTM_NEWNEIGH | RTM_DELNEIGH) {
        counters.malformed += 1;
    }
    subject
}

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
const RTM_NEWNETCONF: u16 = 80;
const RTM_NEWNEXTHOP: u16 = 104;
const RTM_DELNEXTHOP: u16 = 105;
