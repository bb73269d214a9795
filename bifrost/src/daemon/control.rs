//! The control thread: one loop over netlink, FPM, signals, questions and a timer.
//!
//! It owns everything that has one writer (the mirror, the tables, the ports), so nothing in here needs a lock. Work
//! comes in slices: a million routes that arrive are taken in between questions and supervision, ten milliseconds at a
//! time.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::service::{Notify, Signal, Signals, Stop, tell_hidden};
use config::Router;
use fib::Tables;
use ipnet::IpNet;
use mirror::Mirror;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use plane::{Plane, Request};
use tracing::warn;

use super::fallback::Fallback;
use super::flow_log::Log;
use super::flow_state::Saving;
use super::foreign::Foreign;
use super::icmp::Icmp;
use super::mirror_port::MirrorPort;
use super::nat_audit::NatAudit;
use super::nat_shortage::Told;
use super::peers::Peers;
use super::ports::News;
use super::reload::Reloading;
use super::sflow::Sflow;
use super::watch::Watches;
use super::{DaemonError, settings};

/// Something to do on the control thread.
pub(super) type Job = Box<dyn FnOnce(&mut Control) + Send>;

/// How often the audit and other things of the clock get their turn, at least.
const TICK: Duration = Duration::from_millis(100);
/// Questions answered in a row before netlink is looked at again.
const JOBS: usize = 32;

/// What the control thread owns.
pub(super) struct Control {
    pub(super) router: Router,
    pub(super) reloading: Reloading,
    pub(super) plane: Plane,
    pub(super) mirror: Mirror,
    pub(super) tables: Tables,
    pub(super) watches: Watches,
    pub(super) started: Instant,
    /// Until when the graph's elements are timed.
    pub(super) measured_until: Option<Instant>,
    pub(super) news: News,
    /// The flow log, if there is one.
    pub(super) flow_log: Option<Log>,
    /// One that is not wanted any more, while it writes and sends what waits.
    pub(super) flow_log_ending: Option<JoinHandle<()>>,
    /// sFlow, if it is wanted.
    pub(super) sflow: Option<Sflow>,
    /// The mirror port, if there is one.
    pub(super) mirror_port: Option<MirrorPort>,
    /// Flows on their way into a file.
    pub(super) saving: Saving,
    /// Linux's settings of ICMP errors.
    pub(super) icmp: Icmp,
    /// Mappings held against the flow table.
    pub(super) nat_audit: NatAudit,
    pub(super) shortages: Told,
    /// What was last logged of deterministic blocks.
    pub(super) blocks: Vec<String>,
    /// Linux's own table.
    pub(super) fallback: Fallback,
    /// What Linux does and the plane does not.
    pub(super) foreign: Foreign,
    /// Whether to stop, for what takes long.
    pub(super) stop: Stop,
    /// Who speaks routing protocols with this machine.
    pub(super) peers: Peers,
    jobs: Receiver<Job>,
    door: Door,
    ticked: Instant,
}

/// The way to the control thread, for other threads.
#[derive(Clone)]
pub(super) struct Door {
    jobs: Sender<Job>,
    bell: Arc<EventFd>,
}

impl Door {
    /// Has something done on the control thread, soon. False when it is gone.
    pub(super) fn hand_in(&self, job: Job) -> bool {
        // Ringing only fails when it has been rung 2^64 times, and then it is readable anyway.
        self.jobs.send(job).is_ok() && self.bell.write(1).is_ok()
    }
}

impl Control {
    pub(super) fn new(
        router: Router,
        reloading: Reloading,
        plane: Plane,
        mirror: Mirror,
        tables: Tables,
        sflow: Option<Sflow>,
        stop: Stop,
    ) -> Result<Control, DaemonError> {
        let flow_log = router.flow_log.clone().map(Log::start).transpose()?;
        let bell = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
            .map_err(|error| DaemonError::System { what: "cannot make an eventfd", error: error.into() })?;
        let (sender, jobs) = channel();
        let now = Instant::now();
        let door = Door { jobs: sender, bell: Arc::new(bell) };
        Ok(Control {
            router,
            reloading,
            plane,
            mirror,
            tables,
            watches: Watches::default(),
            started: now,
            measured_until: None,
            news: News::default(),
            flow_log,
            flow_log_ending: None,
            sflow,
            mirror_port: None,
            saving: Saving::default(),
            icmp: Icmp::default(),
            nat_audit: NatAudit::new(),
            shortages: Told::default(),
            blocks: Vec::new(),
            fallback: Fallback::default(),
            foreign: Foreign::default(),
            stop,
            peers: Peers::default(),
            jobs,
            door,
            ticked: now,
        })
    }

    pub(super) fn door(&self) -> Door {
        self.door.clone()
    }

    pub(super) fn router(&self) -> &Router {
        &self.router
    }

    /// Reads all that Linux has, then takes the ports; ends early when it is told to stop.
    pub(super) fn load(&mut self, notify: &Notify) -> Result<(), DaemonError> {
        self.expect_ports();
        // Before anything is forwarded by whomever.
        self.tell_nftables();
        while !self.fallback.settles(TICK) {
            notify.starting(|| "Linux loads the filter".to_owned());
            if self.stop.is_asked() {
                return Ok(());
            }
        }
        while !(self.mirror.ready() && self.mirror.knows_beyond()) {
            notify.starting(|| format!("reading routes: {}", self.status_line()));
            if self.stop.is_asked() {
                return Ok(());
            }
            let more = self.sync()?;
            self.mirror.tick(&mut self.tables)?;
            if !more {
                self.wait(None, Duration::from_millis(10));
            }
        }
        self.follow_icmp_settings();
        self.take_ports(|control| notify.starting(|| format!("taking ports: {}", control.status_line())));
        // Routes by the ports just taken are programmed anew: until then Linux forwards for them.
        while self.sync()? && !self.stop.is_asked() {
            notify.starting(|| format!("programming routes: {}", self.status_line()));
        }
        // What leads to ports that are not taken yet is Linux's, as all was until now: no rate is to hold that up.
        self.apply_limits();
        self.begin_mirror_port();
        self.warn_of_missing_ports();
        self.warn_if_linux_does_not_forward();
        Ok(())
    }

    /// The loop. Ends when a signal says so.
    pub(super) fn run(&mut self, mut signals: Signals, notify: &Notify) -> Result<(), DaemonError> {
        let mut beat = Instant::now();
        // Flows ended that nobody was told of.
        let mut unsettled = false;
        loop {
            let mut more = self.sync()?;
            more |= self.apply_news();
            for job in self.jobs.try_iter().take(JOBS).collect::<Vec<_>>() {
                if !self.stop.is_asked() {
                    self.plane.takes_long();
                    job(self);
                }
            }
            self.keep_tables();
            self.supervise();
            self.keep_tables();
            if self.ticked.elapsed() >= TICK {
                self.ticked = Instant::now();
                more |= self.mirror.tick(&mut self.tables)?;
                self.respect_linux();
                self.follow_icmp_settings();
                self.tell_peers();
                self.log_filtered();
                self.tell_shortages();
                self.tell_sflow();
                self.save_new_flows();
                self.tell_nftables_the_rest(false);
                self.audit_nat_sometimes();
                tell_hidden();
                unsettled = true;
            }
            if unsettled {
                unsettled = self.settle_flows();
                more |= unsettled;
            }
            match signals.take() {
                Some(Signal::Stop) => return Ok(()),
                Some(Signal::Reload) => self.reload_beside(),
                None => {}
            }
            if notify.heartbeat().is_some_and(|every| beat.elapsed() >= every) {
                beat = Instant::now();
                notify.alive();
                notify.status(&self.status_line());
            }
            if !more {
                self.wait(Some(&signals), self.mirror.waits().unwrap_or(TICK).min(TICK));
            }
        }
    }

    /// Answers nobody any more: who asks, or waits for an answer, is told so at once.
    pub(super) fn close(&mut self) {
        self.jobs = channel().1;
    }

    /// Says that the tables are kept; in the log, when they were not.
    fn keep_tables(&self) {
        if let Some(late) = self.plane.keeps_tables() {
            warn!(
                "the control thread was not there for {:.1} s (stopped, or held up): Linux forwarded, but for flows that it does not know",
                late.as_secs_f64()
            );
        }
    }

    pub(super) fn sync(&mut self) -> Result<bool, DaemonError> {
        self.keep_tables();
        let more = self.mirror.sync(&mut self.tables, &mut self.news)?;
        Ok(more)
    }

    fn supervise(&mut self) {
        for id in self.plane.supervise(&mut self.tables) {
            self.bind(id);
        }
        self.watches.sweep(&mut self.plane);
        if self.measured_until.is_some_and(|until| until <= Instant::now()) {
            self.measured_until = None;
            self.plane.crew().measure(false);
        }
    }

    fn wait(&self, signals: Option<&Signals>, at_most: Duration) {
        let mut fds = vec![PollFd::new(self.door.bell.as_fd(), PollFlags::POLLIN)];
        let inputs = self.mirror.fds();
        fds.extend(inputs.iter().map(|fd: &BorrowedFd<'_>| PollFd::new(*fd, PollFlags::POLLIN)));
        fds.extend(self.plane.fd().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        fds.extend(signals.map(|signals| PollFd::new(signals.as_fd(), PollFlags::POLLIN)));
        // An error is an interrupted wait.
        let _ = poll(&mut fds, PollTimeout::try_from(at_most).unwrap_or(PollTimeout::ZERO));
        // An error means that nobody rang.
        let _ = self.door.bell.read();
    }

    /// One line for the log and for `systemctl status`.
    pub(super) fn status_line(&self) -> String {
        let taken = self.plane.ports().iter().filter(|port| port.taken.is_some()).count();
        format!(
            "{taken} of {} port(s), {} worker(s), {} IPv4 and {} IPv6 prefixes",
            self.known_ports().count(),
            self.plane.crew().len(),
            self.tables.len4(),
            self.tables.len6()
        )
    }

    pub(super) fn apply_limits(&mut self) {
        for (class, rate, burst) in settings::police(&self.router) {
            let clamp = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            self.plane.police(class, clamp(rate), clamp(burst));
        }
    }

    /// Changes the members of an address set, here and in Linux's table; says how many it has then.
    pub(super) fn change_set(&mut self, name: &str, come: &[IpNet], go: &[IpNet]) -> Result<u64, String> {
        let Some(members) = self.plane.change_set(name, come, go) else {
            let known: Vec<&str> = self.router.filter.sets.iter().map(|(name, _)| name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!("the filter has no set {name:?}; those there are: {known}"));
        };
        self.router.filter.sets.clone_from(&self.plane.policy().settings().filter.sets);
        self.tell_nftables_in_time();
        Ok(members as u64)
    }

    /// Reads, or with a value writes, a handler of every worker's graph.
    pub(super) fn handle(&self, handler: &str, value: Option<&str>) -> Result<Vec<String>, String> {
        let request = Request { handler: handler.to_owned(), value: value.map(str::to_owned) };
        let crew = self.plane.crew();
        (0..crew.len())
            .map(|worker| crew.handle(worker, request.clone()).map_err(|error| error.to_string()))
            .collect()
    }

    fn warn_of_missing_ports(&self) {
        for port in self.plane.ports().iter().filter(|port| port.interface.is_none()) {
            warn!("{}: there is no such interface; it will be taken when there is", port.name);
        }
    }

    fn warn_if_linux_does_not_forward(&self) {
        for port in self.plane.ports() {
            let Some(interface) = &port.interface else { continue };
            for (on, family, sysctl) in [
                (interface.forwarding4, "IPv4", format!("net.ipv4.conf.{}.forwarding", port.name)),
                (interface.forwarding6, "IPv6", "net.ipv6.conf.all.forwarding".to_owned()),
            ] {
                if !on {
                    warn!(
                        "{}: Linux does not forward {family} that arrives here, so Bifrost does not either; \
                         `sysctl -w {sysctl}=1` changes that",
                        port.name
                    );
                }
            }
        }
    }
}
