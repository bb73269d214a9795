//! The control thread: one loop over netlink, FPM, signals, questions and a timer.
//!
//! It owns everything that has one writer (the mirror, the tables, the ports), so nothing in here
//! needs a lock. Work comes in slices: a million routes that arrive are taken in between questions
//! and supervision, ten milliseconds at a time.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::service::{Notify, Signal, Signals, tell_hidden};
use config::Router;
use graph::Registry;
use ipnet::IpNet;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use tracing::warn;

use super::DaemonError;
use super::api::Api;
use super::bfd::Bfd;
use super::dhcp_relay::DhcpRelay;
use super::discovery::Discovery;
use super::fallback::Fallback;
use super::firewall;
use super::flow_log::{Log, Logging, interfaces};
use super::flow_state::Saving;
use super::flow_table::FlowTable;
use super::forwarding::Forwarding;
use super::handover::hand_over;
use super::icmp::Icmp;
use super::mirror_port::Mirroring;
use super::multicast::Multicast;
use super::nat_audit::NatAudit;
use super::nat_shortage::Told;
use super::own::Own;
use super::peers::Peers;
use super::ports::Ports;
use super::redundancy::Redundancy;
use super::reload::Reloading;
use super::routing::RoutingDaemons;
use super::rules::Rules;
use super::section::Section;
use super::served::Served;
use super::sflow::{Sampler, Sflow};
use super::sharing::Sharing;
use super::tunnels::Tunnels;
use super::upgrade::Successor;

/// Something to do on the control thread.
pub(crate) type Job = Box<dyn FnOnce(&mut Control) + Send>;

/// How often the audit and other things of the clock get their turn, at least.
const TICK: Duration = Duration::from_millis(100);
/// Questions answered in a row before netlink is looked at again.
const JOBS: usize = 32;

/// What the control thread owns: what forwards, the parts that sections of the configuration are
/// for, and what is done by the clock.
pub(crate) struct Control {
    pub(crate) forwarding: Forwarding,
    pub(crate) parts: Parts,
    pub(crate) reloading: Reloading,
    pub(crate) started: Instant,
    /// Mappings held against the flow table.
    pub(crate) nat_audit: NatAudit,
    /// Flows on their way into a file.
    pub(super) saving: Saving,
    /// Who is ready to take over.
    pub(super) successor: Option<Successor>,
    /// Linux's settings of ICMP errors.
    icmp: Icmp,
    shortages: Told,
    /// Who speaks routing protocols with this machine.
    peers: Peers,
    tunnels: Tunnels,
    pub(crate) multicast: Multicast,
    jobs: Receiver<Job>,
    door: Door,
    ticked: Instant,
}

/// The parts that sections of the configuration are for.
pub(crate) struct Parts {
    pub(crate) sampler: Sampler,
    pub(crate) logging: Logging,
    pub(crate) mirroring: Mirroring,
    pub(crate) redundancy: Redundancy,
    pub(crate) discovery: Discovery,
    pub(crate) dhcp_relay: DhcpRelay,
    pub(crate) bfd: Bfd,
    pub(crate) sharing: Sharing,
    flow_table: FlowTable,
    pub(crate) ports: Ports,
    pub(crate) fallback: Fallback,
    rules: Rules,
    own: Own,
    routing_daemons: RoutingDaemons,
    served: Served,
    pub(crate) api: Api,
}

/// How a part judges a configuration: [`Section::check`].
type Check = fn(&Router, &Registry) -> Result<Vec<String>, String>;

impl Parts {
    const COUNT: usize = 16;

    /// What each says of a configuration, before any of them is there. What most is wrong in comes
    /// first.
    pub(super) const CHECKS: [Check; Parts::COUNT] = [
        Rules::check,
        Mirroring::check,
        FlowTable::check,
        Ports::check,
        Redundancy::check,
        Discovery::check,
        DhcpRelay::check,
        Bfd::check,
        Sharing::check,
        Fallback::check,
        Logging::check,
        Sampler::check,
        Own::check,
        RoutingDaemons::check,
        Served::check,
        Api::check,
    ];

    /// In the order in which they prepare: whether an element can begin is known only when it does,
    /// so rules come late; whether Linux, FRR or a service takes a change of its own, when it has
    /// been made, so those come last.
    pub(crate) fn sections(&mut self) -> [&mut dyn Section; Parts::COUNT] {
        let Parts {
            sampler,
            logging,
            mirroring,
            redundancy,
            discovery,
            dhcp_relay,
            bfd,
            sharing,
            flow_table,
            ports,
            fallback,
            rules,
            own,
            routing_daemons,
            served,
            api,
        } = self;
        [
            api,
            sampler,
            logging,
            mirroring,
            redundancy,
            discovery,
            dhcp_relay,
            bfd,
            sharing,
            flow_table,
            ports,
            fallback,
            rules,
            own,
            routing_daemons,
            served,
        ]
    }
}

/// The way to the control thread, for other threads.
#[derive(Clone)]
pub(crate) struct Door {
    jobs: Sender<Job>,
    bell: Arc<EventFd>,
}

impl Door {
    /// Has something done on the control thread, soon. False when it is gone.
    pub(crate) fn hand_in(&self, job: Job) -> bool {
        // Ringing only fails when it has been rung 2^64 times, and then it is readable anyway.
        self.jobs.send(job).is_ok() && self.bell.write(1).is_ok()
    }
}

impl Control {
    pub(crate) fn new(
        forwarding: Forwarding,
        reloading: Reloading,
        sflow: Option<Sflow>,
    ) -> Result<Control, DaemonError> {
        let bell = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
            .map_err(|error| DaemonError::System { what: "cannot make an eventfd", error: error.into() })?;
        let (sender, jobs) = channel();
        let now = Instant::now();
        Ok(Control {
            forwarding,
            parts: Parts {
                sampler: Sampler::new(sflow),
                logging: Logging::default(),
                mirroring: Mirroring::default(),
                redundancy: Redundancy::default(),
                discovery: Discovery::default(),
                dhcp_relay: DhcpRelay::default(),
                bfd: Bfd::default(),
                sharing: Sharing::default(),
                flow_table: FlowTable,
                ports: Ports::default(),
                fallback: Fallback::default(),
                rules: Rules::default(),
                own: Own::default(),
                routing_daemons: RoutingDaemons::default(),
                served: Served::default(),
                api: Api::default(),
            },
            reloading,
            started: now,
            nat_audit: NatAudit::new(),
            saving: Saving::default(),
            successor: None,
            icmp: Icmp::default(),
            shortages: Told::default(),
            peers: Peers::default(),
            tunnels: Tunnels::default(),
            multicast: Multicast::new(),
            jobs,
            door: Door { jobs: sender, bell: Arc::new(bell) },
            ticked: now,
        })
    }

    /// The file that configures the router; none when the ports were named on the command line.
    pub(crate) fn file(&self) -> Option<String> {
        self.reloading.file.as_ref().map(|file| file.display().to_string())
    }

    pub(crate) fn door(&self) -> Door {
        self.door.clone()
    }

    /// Reads all that Linux has, then takes the ports; ends early when it is told to stop.
    pub(crate) fn load(&mut self, notify: &Notify) -> Result<(), DaemonError> {
        let log = self.forwarding.router.flow_log.clone().map(Log::start).transpose()?;
        self.parts.logging = Logging::new(log);
        let stop = self.forwarding.stop.clone();
        // A port may be one of these.
        self.parts.own.begin(&self.forwarding);
        self.parts.ports.expect(&mut self.forwarding);
        // Linux shows its chains other interfaces where there are VRFs.
        while !self.forwarding.mirror.knows_links() {
            if stop.is_asked() {
                return Ok(());
            }
            if !self.sync()? {
                self.wait(None, Duration::from_millis(10));
            }
        }
        self.forwarding.linux_nat = firewall::translation(&self.forwarding);
        // Before anything is forwarded by whomever.
        self.parts.fallback.follow(&self.forwarding);
        while !self.parts.fallback.settles(TICK) {
            notify.starting(|| "Linux loads the filter".to_owned());
            if stop.is_asked() {
                return Ok(());
            }
        }
        while !(self.forwarding.mirror.ready() && self.forwarding.mirror.knows_beyond()) {
            notify.starting(|| format!("reading routes: {}", self.forwarding.status_line()));
            if stop.is_asked() {
                return Ok(());
            }
            if !self.read_some()? {
                self.wait(None, Duration::from_millis(10));
            }
        }
        self.icmp.follow(&self.forwarding);
        // Flows may be known, and translated, by Linux's own rules.
        self.parts.ports.respect_linux(&mut self.forwarding);
        self.forwarding.restore_flows(self.parts.logging.log());
        self.parts.redundancy.lease(&self.forwarding);
        let taking = |forwarding: &Forwarding| {
            notify.starting(|| format!("taking ports: {}", forwarding.status_line()));
        };
        self.parts.ports.take(&mut self.forwarding, taking);
        if self.parts.redundancy.goes_on() {
            self.parts.redundancy.follow(&self.forwarding);
        }
        self.follow_copy();
        // Routes by the ports just taken are programmed anew: until then Linux forwards for them.
        while self.sync()? && !stop.is_asked() {
            notify.starting(|| format!("programming routes: {}", self.forwarding.status_line()));
        }
        // What leads to ports that are not taken yet is Linux's, as all was until now: no rate is
        // to hold that up.
        self.forwarding.apply_limits();
        self.parts.mirroring.begin(&mut self.forwarding);
        self.warn_of_missing_ports();
        self.warn_if_linux_does_not_forward();
        Ok(())
    }

    /// The loop. Ends when a signal says so, or another process is ready to take over: that one.
    pub(crate) fn run(
        &mut self,
        signals: &mut Signals,
        notify: &Notify,
    ) -> Result<Option<Successor>, DaemonError> {
        let mut beat = Instant::now();
        // Flows ended that nobody was told of.
        let mut unsettled = false;
        loop {
            let mut more = self.sync()?;
            if self.forwarding.mirror.rules_changed() {
                self.parts.ports.respect_linux(&mut self.forwarding);
            }
            more |= self.parts.ports.apply_news(&mut self.forwarding);
            more |= self.multicast.follow(&mut self.forwarding);
            self.follow_copy();
            if std::mem::take(&mut self.forwarding.flows_are_stale) {
                self.forwarding.plane.takes_long();
                self.forwarding.plane.policy().resume_flows();
            }
            self.forwarding.pings.follow(&self.forwarding.router, &self.door);
            self.parts.redundancy.follow(&self.forwarding);
            self.parts.discovery.follow(&self.forwarding, &self.parts.redundancy);
            self.parts.dhcp_relay.follow(&self.forwarding);
            self.parts.bfd.follow(&mut self.forwarding, &self.door);
            for job in self.jobs.try_iter().take(JOBS).collect::<Vec<_>>() {
                if !self.forwarding.stop.is_asked() {
                    self.forwarding.plane.takes_long();
                    job(self);
                }
            }
            if self.successor.is_some() {
                return Ok(self.successor.take());
            }
            self.forwarding.keep_tables();
            self.forwarding.supervise();
            self.forwarding.keep_tables();
            if self.ticked.elapsed() >= TICK {
                self.ticked = Instant::now();
                more |= self.tick()?;
                unsettled = true;
            }
            if unsettled {
                unsettled = self.parts.logging.settle(&self.forwarding, &self.parts.sharing);
                more |= unsettled;
            }
            match signals.take() {
                Some(Signal::Stop) => return Ok(None),
                Some(Signal::Reload) => self.reload_beside(),
                None => {}
            }
            if notify.heartbeat().is_some_and(|every| beat.elapsed() >= every) {
                beat = Instant::now();
                notify.alive();
                notify.status(&self.forwarding.status_line());
            }
            if !more {
                self.wait(Some(signals), self.forwarding.mirror.waits().unwrap_or(TICK).min(TICK));
            }
        }
    }

    /// What is done by the clock. True: the audit has more to do.
    fn tick(&mut self) -> Result<bool, DaemonError> {
        let Control { forwarding, parts, .. } = self;
        let more = forwarding.mirror.tick(&mut forwarding.tables)?;
        parts.ports.respect_linux(forwarding);
        parts.own.follow(&std::mem::take(&mut parts.ports.news.to_own), forwarding);
        parts.routing_daemons.follow(forwarding);
        parts.served.follow(forwarding);
        parts.api.follow();
        self.icmp.follow(forwarding);
        self.peers.tell(forwarding);
        self.tunnels.ask(forwarding);
        forwarding.log_filtered();
        self.shortages.tell(forwarding);
        parts.sampler.tell(forwarding);
        parts.sharing.follow(forwarding);
        self.saving.save_new(forwarding);
        parts.fallback.follow_the_rest(forwarding, false);
        self.nat_audit.go_on(forwarding);
        tell_hidden();
        self.go_back_if_due();
        Ok(more)
    }

    /// Takes a slice of what Linux has, and of what it tells when it is asked. True: there is more.
    pub(super) fn read_some(&mut self) -> Result<bool, DaemonError> {
        let more = self.sync()?;
        self.forwarding.mirror.tick(&mut self.forwarding.tables)?;
        Ok(more)
    }

    fn sync(&mut self) -> Result<bool, DaemonError> {
        self.forwarding.sync(&mut self.parts.ports.news)
    }

    /// Brings Linux's copy of the rules up to date, if something that it is made from may have
    /// changed.
    fn follow_copy(&mut self) {
        let Control { forwarding, parts, .. } = self;
        let vrfs = std::mem::take(&mut forwarding.vrfs_are_due) && parts.fallback.lacks_members(forwarding);
        if std::mem::take(&mut forwarding.copy_is_due) || vrfs {
            parts.fallback.follow(forwarding);
        }
    }

    /// Gives every port back to Linux and ends the workers, writes down what flows live, and ends
    /// the log.
    pub(crate) fn stop(&mut self) {
        let Control { forwarding, parts, saving, .. } = self;
        // While all is still forwarded; it may take its time.
        forwarding.plane.takes_long();
        parts.discovery.stop();
        parts.dhcp_relay.leave();
        parts.redundancy.stop();
        parts.sharing.stop();
        parts.api.stop();
        let interfaces = interfaces(&forwarding.plane);
        let names = forwarding.interface_names();
        hand_over(forwarding);
        forwarding.release_all();
        saving.save(forwarding, parts.logging.log().is_some(), names);
        parts.fallback.follow_the_rest(forwarding, true);
        parts.logging.close(forwarding, &parts.sharing, &interfaces);
    }

    /// Answers nobody any more: who asks, or waits for an answer, is told so at once.
    pub(crate) fn close(&mut self) {
        self.jobs = channel().1;
    }

    pub(super) fn wait(&self, signals: Option<&Signals>, at_most: Duration) {
        let mut fds = vec![PollFd::new(self.door.bell.as_fd(), PollFlags::POLLIN)];
        let inputs = self.forwarding.mirror.fds();
        fds.extend(inputs.iter().map(|fd: &BorrowedFd<'_>| PollFd::new(*fd, PollFlags::POLLIN)));
        fds.extend(self.multicast.fd().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        fds.extend(self.forwarding.plane.fd().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        fds.extend(signals.map(|signals| PollFd::new(signals.as_fd(), PollFlags::POLLIN)));
        // An error is an interrupted wait.
        let _ = poll(&mut fds, PollTimeout::try_from(at_most).unwrap_or(PollTimeout::ZERO));
        // An error means that nobody rang.
        let _ = self.door.bell.read();
    }

    /// Changes the members of an address set, here and in Linux's table; says how many it has then.
    pub(crate) fn change_set(&mut self, name: &str, come: &[IpNet], go: &[IpNet]) -> Result<u64, String> {
        let Forwarding { router, plane, .. } = &mut self.forwarding;
        let Some(members) = plane.change_set(name, come, go) else {
            let known: Vec<&str> = router.filter.sets.iter().map(|(name, _)| name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!("the filter has no set {name:?}; those there are: {known}"));
        };
        // Those of Linux's own firewall stand behind them.
        let own = router.filter.sets.len();
        router.filter.sets.clone_from_slice(&plane.policy().settings().filter.sets[..own]);
        self.parts.fallback.follow_in_time(&self.forwarding);
        Ok(members as u64)
    }

    fn warn_of_missing_ports(&self) {
        for port in self.forwarding.known_ports().filter(|port| port.interface.is_none()) {
            warn!("{}: there is no such interface; it will be taken when there is", port.name);
        }
    }

    fn warn_if_linux_does_not_forward(&self) {
        let mut told = HashSet::new();
        for port in self.forwarding.plane.ports() {
            let Some(interface) = port.own().filter(|own| told.insert(own.ifindex)) else { continue };
            for (on, family, sysctl) in [
                (interface.forwarding4, "IPv4", format!("net.ipv4.conf.{}.forwarding", interface.name)),
                (interface.forwarding6, "IPv6", "net.ipv6.conf.all.forwarding".to_owned()),
            ] {
                if !on {
                    warn!(
                        "{}: Linux does not forward {family} that arrives here, so Bifrost does not either; \
                         `sysctl -w {sysctl}=1` changes that",
                        interface.name
                    );
                }
            }
        }
    }
}
