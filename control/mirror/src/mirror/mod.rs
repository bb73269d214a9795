//! The control loop's view of the mirror: hear, read, program, check; a slice at a time. Who tells
//! is known where sources are made.

mod change;
mod check;
mod hearing;
mod load;

use crate::audit::Audit;
use crate::fpm::{Fpm, FpmOptions};
use crate::kind::Unsourced;
use crate::linux::Linux;
use crate::model::{Changes, Gateway, Gateways, Link, Model, Outlet, SourceId, Station, Table};
use crate::netlink::request::What;
use crate::netlink::socket::{Requests, sending};
use crate::origin::Origins;
use crate::policy::{Beyond, Policy};
use crate::programmer::{Legs, Programmer};
use crate::reading::Reading;
use crate::resolver::Resolver;
use crate::source::Source;
pub(crate) use change::take_in;
use fib::{FibError, InterfaceId, Locality, TableId, Tables};
use hearing::Heard;
use load::Unsure;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Datagrams heard before what they changed is programmed: updates of one prefix that arrive
/// together are one write.
const HEARD_AT_ONCE: usize = 64;
/// Pause before a reread that an event asks for: such events come in groups.
const REREAD_AFTER: Duration = Duration::from_millis(20);
/// Pause between two calls of the resolver and the retries.
const TICK: Duration = Duration::from_millis(250);

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

/// What the plane wants to hear while the mirror works. The callbacks come before the routes that
/// depend on them are programmed. They get no access to the mirror: note what is new, and call
/// [`Mirror::bind`] after [`Mirror::sync`] returns.
pub trait Plane {
    /// An interface is new or has changed.
    fn link(&mut self, link: &Link);
    /// An interface is gone; its binding is undone.
    fn link_gone(&mut self, ifindex: u32);
    /// Whose an address of this machine's is now, if it is its at all. May be told when nothing
    /// changed.
    fn local(&mut self, address: IpAddr, of: Locality);
    /// A host on a bridge is new, elsewhere or gone.
    fn station(&mut self, _station: Station) {}
}

/// Counters of what the mirror did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub unknown_withdrawals: u64,
    pub rereads: u64,
}

/// Keeps the tables equal to Linux's. One thread owns it and the tables.
pub struct Mirror {
    pub(crate) options: Options,
    sources: Vec<Heard>,
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
    pub(crate) policy: Policy,
    leads_to_vrfs: bool,
    /// Rules look into tables that are yet to be read.
    incomplete: bool,
    rules_audit: Instant,
    pub(crate) origins: Origins,
    pub(crate) counters: Counters,
    pub(crate) loaded: bool,
    next_tick: Instant,
}

impl Mirror {
    /// Subscribes, in the calling thread's network namespace. Nothing is read before
    /// [`Mirror::sync`].
    pub fn new(options: Options) -> Result<Mirror, MirrorError> {
        let now = Instant::now();
        let mut sources: Vec<Box<dyn Source>> = vec![Box::new(Linux::new(options.receive_buffer))];
        sources.extend(options.fpm.clone().map(|fpm| Box::new(Fpm::new(fpm)) as Box<dyn Source>));
        Ok(Mirror {
            sources: sources.into_iter().map(Heard::start).collect::<Result<_, _>>()?,
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
            policy: Policy::new(now),
            leads_to_vrfs: false,
            incomplete: false,
            rules_audit: now,
            origins: Origins::of_machine(),
            counters: Counters::default(),
            loaded: false,
            next_tick: now,
            options,
        })
    }

    /// What to wait on for input. The list changes: ask before each wait.
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.sources.iter().filter_map(|heard| heard.source.fd()).collect()
    }

    /// Where zebra can connect.
    pub fn fpm_address(&self) -> Option<SocketAddr> {
        self.source(SourceId::Fpm)?.talk()?.address
    }

    /// What Linux says.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// How long until [`sync`](Self::sync) has something to do even if nothing arrives; `None`: for
    /// ever.
    pub fn waits(&self) -> Option<Duration> {
        let read = (!self.wanted.is_empty()).then_some(self.read_at);
        let again = self.unsure.as_ref().map(Unsure::at);
        read.into_iter().chain(again).min().map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Whether Linux's tables have been read whole and the plane's hold all of it.
    pub fn ready(&self) -> bool {
        self.loaded && !self.loads() && self.programmer.idle()
    }

    /// Whether Linux's interfaces are known: they are read first.
    pub fn knows_links(&self) -> bool {
        self.loaded || self.reading.as_ref().is_some_and(|reading| reading.has_read(What::Links))
    }

    /// Whether it is known what Linux does to packets beyond its routes, or that it does not say.
    /// [`tick`](Self::tick) reads it.
    pub fn knows_beyond(&self) -> bool {
        self.policy.is_known()
    }

    /// What Linux does to packets beyond its routes.
    pub fn beyond(&self) -> Beyond {
        self.policy.beyond()
    }

    /// The generation of nftables that its chains were read in, which every change of it counts;
    /// `None` where there is no nftables.
    pub fn nftables(&self) -> Option<u32> {
        self.policy.nftables()
    }

    /// The plane's table for a table of Linux's that rules look into; `None` while what Linux has
    /// in that is not known, or where there is no room.
    pub fn table_of_rule(&self, number: u32) -> Option<TableId> {
        match Table::from_number(number) {
            Some(Table::Main) => Some(TableId::MAIN),
            Some(_) => None,
            None => self.programmer.table_of_number(number).filter(|_| !self.incomplete),
        }
    }

    /// Whether there is something new about rules since this was last asked.
    pub fn rules_changed(&mut self) -> bool {
        std::mem::take(&mut self.policy.news)
    }

    /// Reads the rules again now and then, told or not.
    fn audit_rules(&mut self, now: Instant) {
        if let Some(interval) = self.options.audit_interval
            && now >= self.rules_audit
        {
            self.rules_audit = now + interval;
            self.policy.audit_rules();
        }
    }

    /// Reads rules that changed, and follows the tables that they look into.
    fn follow_rules(&mut self, deadline: Instant) {
        if self.policy.rules_are_due() {
            self.policy.read_rules(deadline);
        }
        if self.policy.rules_are_due() {
            return;
        }
        self.incomplete |= self.model.follow_rules(self.policy.tables(), &mut self.changes);
        self.programmer.pass_over_defaults(self.policy.no_defaults());
    }

    /// How many things changed while they were read, and are to be read again.
    pub(crate) fn unsure(&self) -> usize {
        self.unsure.as_ref().map_or(0, |unsure| unsure.subjects.len())
    }

    /// The table that routes what comes in by an interface: that of the VRF which it belongs to,
    /// else the main one. `None` where only Linux can: there are too many VRFs, or its rules do not
    /// lead to their tables.
    pub fn table_of(&self, ifindex: u32) -> Option<TableId> {
        let table = self.programmer.table_of(ifindex, &self.model)?;
        (table == TableId::MAIN || self.policy.leads_to_vrfs()).then_some(table)
    }

    /// Makes an interface Bifrost's: routes by it are forwarded from now on. Give the port to the
    /// tables first.
    pub fn bind(&mut self, ifindex: u32, port: InterfaceId, tables: &mut Tables) {
        self.programmer.bind(ifindex, Some(port.into()), &self.model, tables);
    }

    /// As [`bind`](Self::bind), for an interface that is the bond, bridge or VXLAN `below` or lies
    /// on it: packets leave by those of these interfaces whose member, which is named beside it,
    /// transmits; of a bridge by the one whose member the neighbour is behind, or the end of a
    /// VXLAN.
    pub fn bind_parts(
        &mut self,
        ifindex: u32,
        below: u32,
        parts: impl IntoIterator<Item = (InterfaceId, Outlet)>,
        tables: &mut Tables,
    ) {
        self.programmer.bind(ifindex, Some(Legs::of(below, parts)), &self.model, tables);
    }

    /// Ends of VXLANs that have no address of their own: Linux is to be asked
    /// ([`ask_source`](Self::ask_source)) from which address packets go there.
    pub fn unsourced(&self) -> impl Iterator<Item = Unsourced> {
        let links = &self.model.links;
        links.iter().flat_map(|link| links.ends_without_source(link))
    }

    /// Asks Linux from which address packets go to an end of a VXLAN.
    pub fn ask_source(&mut self, Unsourced { vxlan, by, end }: Unsourced) {
        let sending = sending(None, end, (by != 0).then_some(by)).ok();
        let source = sending.and_then(|sending| sending.source);
        self.model.set_source((vxlan, end), source, &mut self.changes);
    }

    /// Gives an interface back: Linux forwards what leaves by it.
    pub fn unbind(&mut self, ifindex: u32, tables: &mut Tables) {
        self.programmer.bind(ifindex, None, &self.model, tables);
    }

    /// Gateways are lost, or not any more, or have other backups. Next hops by them are written at
    /// once; how many there are.
    pub fn follow_gateways(&mut self, gateways: Gateways, tables: &mut Tables) -> usize {
        if self.model.gateways == gateways {
            return 0;
        }
        let before = std::mem::replace(&mut self.model.gateways, gateways);
        self.programmer.gateways_changed(&before, &self.model, tables)
    }

    /// How many next hops lead by a gateway while it is there, and how many of these do without it
    /// now.
    pub fn next_hops_by(&self, gateway: Gateway) -> (usize, usize) {
        self.programmer.hops.by_gateway(&self.model, gateway)
    }

    /// Takes in what has arrived and brings the tables up to date, for at most a slice. Returns
    /// whether more waits: then call it again without waiting for input.
    pub fn sync(&mut self, tables: &mut Tables, plane: &mut dyn Plane) -> Result<bool, MirrorError> {
        let deadline = Instant::now() + self.options.slice;
        self.programmer.prepare(&mut self.model, tables)?;
        loop {
            let mut waits = false;
            for at in 0..self.sources.len() {
                waits |= self.hear(at)?;
                self.flush(tables, plane);
            }
            self.follow_rules(deadline);
            self.flush(tables, plane);
            let unprogrammed = self.programmer.work(&mut self.model, tables, deadline);
            let reads = self.read(self.drained())?;
            self.flush(tables, plane);
            let complete = self.incomplete && self.ready();
            self.incomplete &= !complete;
            self.policy.news |= complete;
            let more = waits || unprogrammed || reads || !self.programmer.idle();
            if !more || Instant::now() >= deadline {
                tables.reclaim();
                return Ok(more);
            }
        }
    }

    /// What happens by the clock: a slice of the audit, neighbours' freshness, timers. Call it now
    /// and then, say ten times a second, and often enough between while it returns true (more of
    /// the audit waits).
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
            self.audit_rules(now);
            self.policy.tick(now, now + self.options.slice / 2);
            self.programmer.look_into_local_first(self.policy.local_first());
            if std::mem::replace(&mut self.leads_to_vrfs, self.policy.leads_to_vrfs())
                != self.policy.leads_to_vrfs()
            {
                let members =
                    self.model.links.iter().filter(|link| self.model.vrf_of(link.ifindex).is_some());
                self.changes.links.extend(members.map(|link| link.ifindex));
            }
            self.programmer.retry(&mut self.model, tables);
            self.hear_silence(now)?;
            if self.expiry.is_some_and(|expiry| expiry <= now) {
                self.expiry = None;
                self.want([What::Routes6]);
            }
        }
        tables.reclaim();
        self.audit(now, now + self.options.slice, tables)
    }

    /// Tells the plane and the programmer what changed.
    fn flush(&mut self, tables: &mut Tables, plane: &mut dyn Plane) {
        let suspect = std::mem::take(&mut self.changes.suspect);
        if suspect.any() && (self.loaded || self.reading.is_some()) {
            self.want(suspect.tables().collect::<Vec<_>>());
        }
        for ifindex in &self.changes.links_gone {
            plane.link_gone(*ifindex);
        }
        for link in self.changes.links.iter().filter_map(|ifindex| self.model.links.by_index(*ifindex)) {
            plane.link(link);
        }
        for station in &self.changes.stations {
            plane.station(*station);
        }
        let locals: BTreeSet<IpAddr> = self.changes.locals.drain(..).collect();
        locals.into_iter().for_each(|address| plane.local(address, self.model.locality(address)));
        self.programmer.take(&mut self.changes, &self.model, tables);
    }
}
