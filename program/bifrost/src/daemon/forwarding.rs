//! What forwards, and what it forwards by: the plane, the mirror of Linux, the tables between them,
//! and the configuration in force. Everything else in the daemon works on these, and is handed
//! them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use config::Router;
use fib::{InterfaceId, Tables};
use firewall::Adopted;
use mirror::{Mirror, Plane as Listener};
use plane::{Plane, Request};
use tracing::warn;
use wire::Class;

use super::bfd::Reachability;
use super::pings::Pings;
use super::watch::Watches;
use super::{DaemonError, settings};
use crate::service::Stop;

/// See the head of this file.
pub(crate) struct Forwarding {
    /// The configuration in force.
    pub(crate) router: Router,
    pub(crate) plane: Plane,
    pub(crate) mirror: Mirror,
    pub(crate) tables: Tables,
    pub(crate) watches: Watches,
    /// Linux's own firewall, as far as the plane judges by it.
    pub(crate) firewall: Adopted,
    /// Linux's own rules by which flows are translated, or were when they began.
    pub(crate) linux_nat: Option<nat::Rules>,
    /// Whom BFD sessions reach.
    pub(crate) reachability: Reachability,
    /// Which hosts answer.
    pub(super) pings: Pings,
    /// Whether the other router's flows are here.
    pub(crate) flows_are_shared: Arc<AtomicBool>,
    /// Until when the graph's elements are timed.
    measured_until: Option<Instant>,
    /// What Linux's copy of the rules is made from may have changed since it was made.
    pub(crate) copy_is_due: bool,
    /// Packets of flows may have gone by Linux.
    pub(crate) flows_are_stale: bool,
    /// Interfaces may have come to VRFs, or left them.
    pub(crate) vrfs_are_due: bool,
    /// An interface came whose addresses elements and translation were not told.
    pub(crate) sources_are_due: bool,
    /// Members of bridges may be others, or have become the plane's.
    pub(crate) members_are_due: bool,
    /// What was last logged of deterministic blocks.
    pub(crate) blocks: Vec<String>,
    /// Whether to stop, for what takes long.
    pub(crate) stop: Stop,
}

impl Forwarding {
    pub(crate) fn new(
        router: Router,
        plane: Plane,
        mirror: Mirror,
        tables: Tables,
        stop: Stop,
    ) -> Forwarding {
        Forwarding {
            router,
            plane,
            mirror,
            tables,
            watches: Watches::default(),
            firewall: Adopted::default(),
            linux_nat: None,
            reachability: Reachability::default(),
            pings: Pings::default(),
            flows_are_shared: Arc::default(),
            measured_until: None,
            copy_is_due: false,
            flows_are_stale: false,
            vrfs_are_due: false,
            sources_are_due: false,
            members_are_due: false,
            blocks: Vec::new(),
            stop,
        }
    }

    /// Takes a slice of what Linux told; `news` hears of links and addresses. True: there is more.
    pub(crate) fn sync(&mut self, news: &mut impl Listener) -> Result<bool, DaemonError> {
        self.keep_tables();
        Ok(self.mirror.sync(&mut self.tables, news)?)
    }

    /// Says that the tables are kept; in the log, when they were not.
    pub(crate) fn keep_tables(&self) {
        if let Some(late) = self.plane.keeps_tables() {
            warn!(
                "the control thread was not there for {:.1} s (stopped, or held up): Linux forwarded, but for flows that it does not know",
                late.as_secs_f64()
            );
        }
    }

    /// Workers that failed are started again, ports that were refused are tried again, watchers
    /// that left are forgotten.
    pub(crate) fn supervise(&mut self) {
        for id in self.plane.supervise(&mut self.tables) {
            self.bind(id);
        }
        self.watches.sweep(&mut self.plane);
        if self.measured_until.is_some_and(|until| until <= Instant::now()) {
            self.measured_until = None;
            self.plane.worker_pool().measure(false);
        }
    }

    /// Times the graph's elements for a while.
    pub(crate) fn measure(&mut self, time: Duration) {
        self.measured_until = Some(Instant::now() + time);
        self.plane.worker_pool().measure(true);
    }

    /// Lets routes lead to a port that was taken.
    pub(crate) fn bind(&mut self, id: fib::PortId) {
        for ifindex in self.on_port(id) {
            self.bind_interface(ifindex);
        }
        self.members_are_due = true;
        self.is_new();
    }

    /// There is an interface that elements, translation and Linux's copy of the rules were not told
    /// of.
    pub(super) fn is_new(&mut self) {
        self.sources_are_due = true;
        self.copy_is_due = true;
    }

    /// Linux's indexes of the interfaces on a port: its own, or its bond or bridge, and those with
    /// tags.
    fn on_port(&self, id: fib::PortId) -> Vec<u32> {
        let own = self.plane.ports().get(usize::from(id.0)).and_then(|port| port.own());
        let with_tags = self.plane.logical().filter(|logical| logical.port == id);
        let with_tags = with_tags.filter_map(|logical| logical.interface.as_ref());
        own.into_iter().chain(with_tags).map(|interface| interface.ifindex).collect()
    }

    /// Gives a port's interface back, if there is one. No route leads to it any more before that,
    /// or what the other ports send there meanwhile would be lost.
    pub(crate) fn release(&mut self, id: fib::PortId) {
        if self.unbind(id) {
            self.plane.give_back(id, &mut self.tables);
        }
    }

    /// Gives all back, at once.
    pub(crate) fn release_all(&mut self) {
        // What leads there is Linux's meanwhile, at its own rate.
        self.plane.police(Class::Unresolved, 0, 0);
        let ports: Vec<_> = self.plane.ports().iter().map(|port| port.id).collect();
        for id in ports {
            self.unbind(id);
        }
        self.plane.stop(&mut self.tables);
    }

    /// Lets no route lead to a port any more, nor to a bond or bridge that it is a member of;
    /// whether there is an interface.
    pub(super) fn unbind(&mut self, id: fib::PortId) -> bool {
        for ifindex in self.on_port(id) {
            self.mirror.unbind(ifindex, &mut self.tables);
        }
        self.plane.ports().get(usize::from(id.0)).is_some_and(|port| port.interface.is_some())
    }

    /// The ports that are there, or that the configuration names and waits for. The plane knows
    /// others as well, for a port keeps its number when it is gone: of what a pattern matched
    /// (`ppp*`) nobody expects that it comes back.
    pub(crate) fn known_ports(&self) -> impl Iterator<Item = &plane::port::Port> {
        // A bond or bridge is none: its members are.
        let links = &self.mirror.model().links;
        let is_bond =
            |name: &str| links.by_name(name).is_some_and(|link| link.is.kind().stands_for_members());
        let named = move |name: &str| {
            self.router.ports.iter().any(|rule| rule.name.literal() == Some(name)) && !is_bond(name)
        };
        let known = move |port: &&plane::port::Port| port.interface.is_some() || named(&port.name);
        self.plane.ports().iter().filter(known)
    }

    /// The name of an interface, `None` where it is Linux's.
    pub(crate) fn interface_name(&self, id: InterfaceId) -> Option<String> {
        self.plane.interface_names().find(|(_, known)| *known == id).map(|(name, _)| name.to_owned())
    }

    /// Names of the interfaces, by number; empty where no interface has that number.
    pub(crate) fn interface_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (name, id) in self.plane.interface_names() {
            let at = usize::from(id.0);
            names.resize(names.len().max(at + 1), String::new());
            names[at] = name.to_owned();
        }
        names
    }

    /// Puts the limits of the classes in force.
    pub(crate) fn apply_limits(&mut self) {
        for (class, rate, burst) in settings::police(&self.router) {
            let clamp = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            self.plane.police(class, clamp(rate), clamp(burst));
        }
    }

    /// Reads, or with a value writes, a handler of every worker's graph.
    pub(crate) fn handle(&self, handler: &str, value: Option<&str>) -> Result<Vec<String>, String> {
        let request = Request { handler: handler.to_owned(), value: value.map(str::to_owned) };
        let worker_pool = self.plane.worker_pool();
        (0..worker_pool.len())
            .map(|worker| worker_pool.handle(worker, request.clone()).map_err(|error| error.to_string()))
            .collect()
    }

    /// One line for the log and for `systemctl status`.
    pub(crate) fn status_line(&self) -> String {
        let taken = self.plane.ports().iter().filter(|port| port.taken.is_some()).count();
        format!(
            "{taken} of {} port(s), {} worker(s), {} IPv4 and {} IPv6 prefixes",
            self.known_ports().count(),
            self.plane.worker_pool().len(),
            self.tables.len4(),
            self.tables.len6()
        )
    }
}
