//! The plane: ports being taken and given back, and the workers behind them. Owned by the control
//! thread.
//!
//! Here is what the control thread can ask; how a port is taken is in `attach.rs`, and what its
//! counters add up to in `totals.rs`.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use elements::router::{IcmpPolicy, IcmpSettings, RouterContext};
use fib::{InterfaceEntry, InterfaceFlags, InterfaceId, Multicast, PortId, TableId, Tables, View};
use graph::{Program, Registry};
use ipnet::IpNet;
use port::device::{FeatureWatch, XdpFeatures};
use port::driver::{MAX_PORTS, pulse};
use port::{Driver, DriverError, Extra, HugePages, Injector, Memory, Packet};
use tracing::{info, warn};
use wire::Class;

use crate::handed::Inheritance;
use crate::interfaces::Interfaces;
use crate::packet_tracer;
use crate::police::Limits;
use crate::policy::{Policy, PolicySettings, Prepared};
use crate::port::{Interface, Port, PortSettings};
use crate::shared::SharedPort;
use crate::worker::{Linux, Sending, WorkerCommand};
use crate::worker_pool::{Blueprint, Fallen, WorkerPool};
use crate::{FlowSnapshot, PlaneError};
use elements::router::standard::{self, Hooks, Stages};

/// The device by which workers hand packets to Linux. A process that takes over from another has
/// the second name while the first is in use.
const TAPS: [&str; 2] = ["bifrost0", "bifrost1"];
/// How often missing sockets are looked at, and redirect targets where the kernel tells of no
/// change.
pub(crate) const TARGETS: Duration = Duration::from_secs(1);
/// How long to wait before trying again to take a port that was refused.
pub(crate) const RETRY: Duration = Duration::from_secs(5);

/// What the plane is made with.
#[derive(Clone)]
pub struct PlaneSettings {
    /// A worker is pinned to each of these.
    pub cores: Vec<usize>,
    /// Packet buffers of each worker.
    pub frames: usize,
    /// Whether they are in huge pages.
    pub huge_pages: HugePages,
    /// What stands at the hooks of the graph.
    pub hooks: Hooks,
    /// The filter and the flow table.
    pub policy: PolicySettings,
    /// The classes of elements that hooks can name.
    pub registry: Registry,
}

/// The plane.
pub struct Plane {
    pub(crate) driver: Driver,
    pub(crate) memory: Memory,
    pub(crate) worker_pool: WorkerPool,
    pub(crate) sources: Arc<elements::router::Sources>,
    icmp: Arc<IcmpPolicy>,
    steering: Arc<elements::router::Steering>,
    multicast: Arc<Multicast>,
    vrfs: Vrfs,
    pub(crate) hooks: Hooks,
    pub(crate) policy: Policy,
    /// Ports or interfaces have come since the filter was compiled.
    pub(crate) stale: bool,
    registry: Registry,
    pub(crate) limits: Arc<Limits>,
    pub(crate) tap: u32,
    by_true_interface: bool,
    pub(crate) ports: Vec<Port>,
    pub(crate) interfaces: Interfaces,
    pub(crate) handed: Inheritance,
    /// Tells when an interface can or cannot be a redirect target any more.
    pub(crate) features: Option<FeatureWatch>,
    /// Who has programs checked by the kernel.
    opening: Vec<(Extra, JoinHandle<Result<(), DriverError>>)>,
    pub(crate) looked: Instant,
    pub(crate) retry: Instant,
}

/// A change of the hooks and the policy of which nothing can be refused any more. Whoever does not
/// adopt it abandons it.
pub struct Change {
    hooks: Hooks,
    policy: Prepared,
    /// The graph that the workers ran before, if they run another one now.
    before: Option<Arc<Program>>,
}

/// Whether a name, or a pattern with a `*` at its end, means an interface.
pub(crate) fn is_named(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(front) => name.starts_with(front),
        None => name == pattern,
    }
}

/// The devices of VRFs, by their tables.
type Vrfs = Arc<RwLock<HashMap<TableId, u32>>>;

/// Linux as the workers reach it.
struct ByInjector {
    injector: Injector,
    vrfs: Vrfs,
}

impl Linux for ByInjector {
    fn hand(&self, packet: &Packet, ifindex: u32, judged: bool) -> bool {
        self.injector.inject(ifindex, packet, judged).is_ok()
    }

    fn send(&self, packet: &Packet, by: Sending) -> bool {
        let device = match by {
            Sending::Interface(ifindex) => Some(ifindex),
            Sending::Table(table) if table.of_addresses() == TableId::MAIN => None,
            Sending::Table(table) => {
                let vrfs = self.vrfs.read().unwrap_or_else(PoisonError::into_inner);
                match vrfs.get(&table) {
                    Some(vrf) => Some(*vrf),
                    // What has left its VRF meanwhile is not led elsewhere.
                    None => return false,
                }
            }
        };
        self.injector.send(packet, device).is_ok()
    }
}

impl Plane {
    /// Whether what workers hand to Linux enters it by its true interface: not before Linux 6.6.
    pub fn hands_by_true_interface(&self) -> bool {
        self.by_true_interface
    }

    /// Starts the workers; no port is taken yet.
    pub fn start(settings: &PlaneSettings, mut driver: Driver, view: View) -> Result<Plane, PlaneError> {
        let memory = Memory::new(settings.cores.len(), settings.frames, settings.huge_pages)?;
        if let (false, Some(why)) = memory.huge_pages() {
            info!("packet memory is in ordinary pages: {why}");
        }
        let injector = match Injector::open(TAPS[0], &driver) {
            Err(DriverError::Io { source, .. }) if source.kind() == ErrorKind::ResourceBusy => {
                Injector::open(TAPS[1], &driver)
            }
            opened => opened,
        };
        let injector = injector.map_err(PlaneError::Injector)?;
        if let Err(why) = injector.by_true_interface() {
            let tap = &injector.device().name;
            warn!("what workers hand to Linux enters it by {tap}, not by its true interface: {why}");
        }
        let tap = injector.device().ifindex;
        let by_true_interface = injector.by_true_interface().is_ok();
        let vrfs = Vrfs::default();
        let linux: Arc<dyn Linux> = Arc::new(ByInjector { injector, vrfs: vrfs.clone() });
        let sources = elements::router::Sources::new();
        let pools =
            (0..settings.cores.len()).map(|worker| memory.pool(worker)).collect::<Result<Vec<_>, _>>()?;
        let limits = Arc::<Limits>::default();
        let workers = settings.cores.len();
        let router_context = RouterContext::new(view.clone(), sources.clone(), workers);
        let (icmp, steering) = (router_context.icmp.clone(), router_context.steering.clone());
        let multicast = router_context.multicast.clone();
        let mut environment = standard::environment(router_context);
        let policy = Policy::new(settings.policy.clone(), workers, &mut driver, |_| Vec::new())?;
        policy.share(&mut environment);
        let program = standard::program(&settings.hooks, &policy.stages(), &settings.registry, &environment)?;
        let program = Arc::new(program);
        let pulse = driver.pulse().clone();
        let blueprint = Blueprint { view, program, environment, linux, limits: limits.clone(), pulse };
        let worker_pool = WorkerPool::start(blueprint, &policy, &settings.cores, pools)?;
        let now = Instant::now();
        let features = FeatureWatch::new()
            .inspect_err(|error| info!("redirect targets are looked at once a second: {error}"))
            .ok();
        Ok(Plane {
            driver,
            memory,
            worker_pool,
            sources,
            icmp,
            steering,
            multicast,
            vrfs,
            hooks: settings.hooks.clone(),
            policy,
            stale: false,
            opening: Vec::new(),
            registry: settings.registry.clone(),
            limits,
            tap,
            by_true_interface,
            ports: Vec::new(),
            interfaces: Interfaces::default(),
            handed: Inheritance::default(),
            features,
            looked: now,
            retry: now,
        })
    }

    /// The ports, by number.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// The port of an interface.
    pub fn port_of(&self, ifindex: u32) -> Option<&Port> {
        self.ports
            .iter()
            .find(|port| port.interface.as_ref().is_some_and(|interface| interface.ifindex == ifindex))
    }

    /// Whether this interface is the plane's own way to Linux, or that of another process, and so
    /// never a port.
    pub fn is_own(&self, ifindex: u32, name: &str) -> bool {
        self.tap == ifindex || TAPS.contains(&name)
    }

    /// The workers.
    pub fn worker_pool(&self) -> &WorkerPool {
        &self.worker_pool
    }

    /// The programs in the driver.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The programs in the driver, to tell them of local addresses, limits and what to divert.
    pub fn driver_mut(&mut self) -> &mut Driver {
        &mut self.driver
    }

    /// Tells which devices of Linux are the VRFs of these tables.
    pub fn set_vrfs(&self, vrfs: HashMap<TableId, u32>) {
        *self.vrfs.write().unwrap_or_else(PoisonError::into_inner) = vrfs;
    }

    /// The addresses that ICMP errors are sent from.
    pub fn sources(&self) -> &Arc<elements::router::Sources> {
        &self.sources
    }

    /// Linux's routing rules as workers ask them.
    pub fn steering(&self) -> &elements::router::Steering {
        &self.steering
    }

    /// Linux's multicast routes as workers follow them.
    pub fn multicast(&self) -> &Multicast {
        &self.multicast
    }

    /// Which ICMP errors are sent from now on.
    pub fn set_icmp(&self, settings: IcmpSettings) {
        self.icmp.set(settings);
    }

    /// Limits what is handed to Linux in a class: `rate` packets a second, `burst` at once; rate 0
    /// = no limit.
    pub fn police(&mut self, class: Class, rate: u32, burst: u32) {
        self.driver.police(class, rate, burst);
        self.limits.set(class, rate, burst, self.worker_pool.len());
    }

    /// Makes a port known that may not be there yet; one that is known goes by these settings from
    /// now on.
    pub fn expect(&mut self, name: &str, settings: PortSettings) -> Result<PortId, PlaneError> {
        let id = self.reserve(name)?;
        if let Some(port) = self.ports.get_mut(usize::from(id.0)) {
            port.settings = settings;
        }
        Ok(id)
    }

    /// The number of a port, which it has for ever: a new one unless it is known.
    pub fn reserve(&mut self, name: &str) -> Result<PortId, PlaneError> {
        if let Some(port) = self.ports.iter().find(|port| port.name == name) {
            return Ok(port.id);
        }
        if self.ports.len() >= usize::from(MAX_PORTS) {
            return Err(PlaneError::TooManyPorts { name: name.to_owned(), most: MAX_PORTS });
        }
        let id = PortId(self.ports.len() as u16);
        let mut port = Port::new(id, name, PortSettings::default());
        (port.hooked, port.offloaded) = (self.hooked(), self.offloads());
        port.tracked = self.policy.depends_on_flows();
        self.ports.push(port);
        self.stale = true;
        Ok(id)
    }

    /// Says that a port is in shared memory, or is not any more. It must not be taken; the
    /// interface of its name is there from now on, and is taken as others are.
    pub fn share(&mut self, id: PortId, memif: Option<port::memif::Settings>) -> Result<(), PlaneError> {
        let Some(port) = self.ports.get_mut(usize::from(id.0)) else { return Err(PlaneError::Absent) };
        // The old one first: both may listen at one socket.
        port.shared = None;
        port.shared = memif.map(|settings| SharedPort::open(&port.name, settings)).transpose()?;
        Ok(())
    }

    /// Takes the interface of an expected port, or takes note of what changed about it. Whether the
    /// port is taken now.
    pub fn take(&mut self, id: PortId, interface: Interface, tables: &mut Tables) -> bool {
        let taken = self.take_step(id, interface.clone(), tables);
        taken
            || self.ports.get(usize::from(id.0)).is_some_and(Port::is_begun)
                && self.take_step(id, interface, tables)
    }

    /// As [`Plane::take`], but one step of it, for each takes the kernel a while. The port may only
    /// have [begun](Port::is_begun) then: the next call takes it.
    pub fn take_step(&mut self, id: PortId, interface: Interface, tables: &mut Tables) -> bool {
        let Some(port) = self.ports.get_mut(usize::from(id.0)) else { return false };
        let identity = |interface: &Interface| (interface.ifindex, interface.master.clone());
        let same = port.interface.as_ref().is_some_and(|before| identity(before) == identity(&interface));
        if !same && port.interface.is_some() {
            self.give_back(id, tables);
        }
        let port = &mut self.ports[usize::from(id.0)];
        port.interface = Some(interface);
        if port.taken.is_none() && (!same || port.refused.is_none()) {
            self.attach_step(id);
        }
        self.publish(id, tables);
        self.ports[usize::from(id.0)].taken.is_some()
    }

    /// The tables are kept up to date: to be said at least ten times a second from the first time
    /// on, or the driver leaves transit to Linux. Says for how long it has done so.
    pub fn keeps_tables(&self) -> Option<Duration> {
        self.driver.pulse().tables(pulse::USUAL)
    }

    /// What comes now may take long, until [`Plane::keeps_tables`] is said again.
    pub fn takes_long(&self) {
        self.driver.pulse().tables_still(pulse::LONG);
    }

    /// Readable when [`supervise`](Self::supervise) has something to do before its time.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.features.as_ref().map(FeatureWatch::fd)
    }

    /// The interfaces whose XDP features have changed, and what they are now, as the kernel told;
    /// `None`: of some it could not tell.
    fn features_changed(&self) -> Option<Vec<(u32, XdpFeatures)>> {
        let Some(features) = &self.features else { return Some(Vec::new()) };
        std::iter::from_fn(|| features.next().transpose()).collect::<Result<_, _>>().ok()
    }

    pub(crate) fn publish(&mut self, id: PortId, tables: &mut Tables) {
        let entry = self.ports[usize::from(id.0)].entry();
        self.open_programs(entry.as_ref());
        // Numbers of ports are in range, as the plane gave them out.
        if let Err(error) = tables.set_interface(id.interface(), entry) {
            warn!("{}: not in the tables: {error}", self.ports[usize::from(id.0)].name);
        }
        self.publish_logical(id, tables);
    }

    /// Sees to it that the driver has the programs that frames of this interface take.
    pub(crate) fn open_programs(&mut self, entry: Option<&InterfaceEntry>) {
        let Some(entry) = entry else { return };
        let strangers = InterfaceFlags::BRIDGED | InterfaceFlags::TRACKED;
        for (extra, wanted) in [
            (Extra::Vrfs, entry.table.of_addresses() != TableId::MAIN),
            (Extra::Strangers, entry.flags.contains(strangers) && entry.tags.tunnel().is_none()),
        ] {
            if !wanted {
                continue;
            }
            match self.driver.open(extra) {
                Ok(opening) => self.opening.extend(opening.map(|opening| (extra, opening))),
                Err(error) => warn!("{}: {error}", extra.without()),
            }
        }
    }

    /// Whether that could be done, once it is known.
    fn see_programs_open(&mut self) {
        for (extra, opening) in self.opening.extract_if(.., |(_, opening)| opening.is_finished()) {
            if let Ok(Err(error)) = opening.join() {
                warn!("{}: {error}", extra.without());
            }
        }
    }

    /// Gives the interface of a port back to Linux, for it is gone or was asked for.
    pub fn give_back(&mut self, id: PortId, tables: &mut Tables) {
        let Some(port) = self.ports.get_mut(usize::from(id.0)) else { return };
        let was_taken = port.taken.is_some();
        self.close(id);
        self.forget(id, was_taken, tables);
    }

    /// Takes note that a port is closed and its interface Linux's.
    fn forget(&mut self, id: PortId, was_taken: bool, tables: &mut Tables) {
        let port = &mut self.ports[usize::from(id.0)];
        port.interface = None;
        self.stale |= port.whole.take().is_some();
        port.refused = None;
        if was_taken {
            info!("{}: given back to Linux", port.name);
        }
        self.publish(id, tables);
    }

    /// What a worker would do with a frame that came in by `input`; with the bindings `nat`, if it
    /// may be translated, and the flow that it belongs to, if it belongs to one.
    pub fn trace_packet(
        &self,
        input: InterfaceId,
        frame: &[u8],
        nat: Option<&Arc<nat::Nat>>,
        flow: Option<&FlowSnapshot>,
    ) -> Result<Vec<packet_tracer::Event>, PlaneError> {
        let ports: Vec<PortId> =
            self.ports.iter().filter(|port| port.taken.is_some()).map(|port| port.id).collect();
        let environment = self.policy.for_dry_run(self.worker_pool.environment(), nat, flow);
        packet_tracer::trace_packet(self.worker_pool.program(), &environment, input, frame, &ports)
    }

    /// What happens by the clock: failed workers are started again, redirect targets looked at,
    /// refused ports tried anew. Call it about ten times a second. Returns the ports that were
    /// taken only now.
    pub fn supervise(&mut self, tables: &mut Tables) -> Vec<PortId> {
        self.see_programs_open();
        let memory = &mut self.memory;
        let pool = |worker, lost| match lost {
            false => memory.pool(worker).ok(),
            true => memory.renew(worker).inspect_err(|error| warn!("worker {worker}: {error}")).ok(),
        };
        for fallen in self.worker_pool.raise_fallen(&self.policy, pool) {
            match fallen {
                Fallen::Hangs(worker) => self.take_queues(worker, tables),
                Fallen::Raised(worker) => self.forget_queues(worker),
            }
        }
        if std::mem::take(&mut self.stale) {
            let settings = self.policy.settings().clone();
            // It was compiled before, with fewer ports.
            if let Err(error) = self.change(self.hooks.clone(), settings, tables) {
                warn!("the filter does not know the ports that came: {error}");
            }
        }
        self.ports.iter_mut().filter_map(|port| port.shared.as_mut()).for_each(SharedPort::follow);
        let now = Instant::now();
        let changed = self.features_changed();
        // Where the kernel tells, it need not be asked.
        let lost = changed.is_none();
        let ask = lost || self.features.is_none();
        for (ifindex, features) in changed.into_iter().flatten() {
            let port = self.port_of(ifindex).filter(|port| port.taken.is_some());
            if let Some(id) = port.map(|port| port.id)
                && self.target(id, Some(features))
            {
                self.publish(id, tables);
            }
        }
        if lost || now.duration_since(self.looked) >= TARGETS {
            self.looked = now;
            self.policy.book().fold();
            for index in 0..self.ports.len() {
                let id = PortId(index as u16);
                if self.ports[index].taken.is_none() {
                    continue;
                }
                let changed = (ask && self.target(id, None)) | self.complete(id);
                if changed | self.keep_off_unserved(id) {
                    self.publish(id, tables);
                }
            }
        }
        let mut taken = Vec::new();
        if now.duration_since(self.retry) >= RETRY {
            self.retry = now;
            for index in 0..self.ports.len() {
                let port = &self.ports[index];
                if port.taken.is_none() && port.interface.is_some() {
                    let id = port.id;
                    self.attach(id);
                    self.publish(id, tables);
                    taken.extend(self.ports[index].taken.is_some().then_some(id));
                }
            }
        }
        taken
    }

    /// What stands at the hooks of the graph.
    pub fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// Whether transit must pass the graph.
    pub fn hooked(&self) -> bool {
        self.hooks.see_transit() || self.policy.stages().see_transit()
    }

    /// Whether flows can be offloaded to the driver: none of their packets is for an element of the
    /// operator's.
    fn offloads(&self) -> bool {
        self.policy.offloads() && !self.hooks.see_transit()
    }

    fn publish_hooked(&mut self, tables: &mut Tables) {
        let (hooked, offloaded) = (self.hooked(), self.offloads());
        let tracked = self.policy.depends_on_flows();
        for index in 0..self.ports.len() {
            let port = &mut self.ports[index];
            (port.hooked, port.offloaded, port.tracked) = (hooked, offloaded, tracked);
            self.publish(PortId(index as u16), tables);
        }
    }

    /// The filter and the flow table.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Puts the rules of address translation in force for interfaces of these names with these
    /// addresses.
    pub fn translate(&mut self, addresses: impl Fn(&str) -> Vec<IpAddr>) {
        self.policy.translate(&self.nat_ports(addresses));
    }

    fn nat_ports(&self, addresses: impl Fn(&str) -> Vec<IpAddr>) -> Vec<nat::Port> {
        let port = |(name, id): (&str, InterfaceId)| nat::Port {
            number: id.0,
            name: name.to_owned(),
            addresses: addresses(name),
        };
        self.interface_names().map(port).collect()
    }

    /// Chains of nftables that translate as these rules do. `members`: the interfaces in VRFs.
    pub fn nat_in_nftables(&self, rules: &nat::Rules, members: &[String], told: nat::Told) -> String {
        nat::nftables(rules, &self.nat_ports(|_| Vec::new()), members, told, is_named)
    }

    /// Puts other elements at the hooks, and another policy in force: [`prepare`](Self::prepare)
    /// and [`adopt`](Self::adopt).
    pub fn change(
        &mut self,
        hooks: Hooks,
        settings: PolicySettings,
        tables: &mut Tables,
    ) -> Result<(), PlaneError> {
        let change = self.prepare(hooks, settings)?;
        self.adopt(change, tables);
        Ok(())
    }

    /// Does all of a change of the hooks and the policy that can be refused; on an error nothing
    /// has changed. Whether an element can begin is known only when it does, so the workers run
    /// another graph from now on. Elements that stay keep what they know, rules of the filter what
    /// they have counted.
    pub fn prepare(&mut self, hooks: Hooks, settings: PolicySettings) -> Result<Change, PlaneError> {
        let ports: Vec<(String, u16)> =
            self.interface_names().map(|(name, id)| (name.to_owned(), id.0)).collect();
        let numbers = |pattern: &str| {
            let known = ports.iter().filter(|(name, _)| is_named(pattern, name));
            known.map(|(_, number)| *number).collect()
        };
        self.takes_long();
        let policy = self.policy.prepare(settings, &mut self.driver, numbers)?;
        let stages = self.policy.stages_with(&policy);
        let other = stages != self.policy.stages() || hooks != self.hooks;
        let before = other.then(|| self.worker_pool.program().clone());
        if let Err(refused) = self.change_graph(&hooks, &stages, &policy, other) {
            self.policy.abandon(policy);
            return Err(refused);
        }
        self.stale = false;
        Ok(Change { hooks, policy, before })
    }

    /// Puts a change in force, on every worker between two batches. Rules of address translation
    /// wait for [`Plane::translate`]; a flow table that is there stays as it is.
    pub fn adopt(&mut self, change: Change, tables: &mut Tables) {
        let tracked = self.policy.depends_on_flows();
        self.policy.adopt(change.policy);
        self.worker_pool.sample(&self.policy);
        if tracked != self.policy.depends_on_flows() {
            // What depends on flows now may not bear queues without workers.
            self.look_soon();
        }
        self.hooks = change.hooks;
        if change.before.is_some() || tracked != self.policy.depends_on_flows() {
            self.publish_hooked(tables);
        }
    }

    /// Takes a change back that was not put in force.
    pub fn abandon(&mut self, change: Change) {
        self.policy.abandon(change.policy);
        if let Some(before) = change.before
            && let Err(error) = self.worker_pool.change(before)
        {
            // They ran it a moment ago.
            warn!("workers do not go back to the graph that they had: {error}");
        }
        // Ports may have come meanwhile.
        self.stale = true;
    }

    /// Gives the workers access to flows that are tracked only now, and the graph that is `other`
    /// than theirs. On an error they have the graph that they had.
    fn change_graph(
        &mut self,
        hooks: &Hooks,
        stages: &Stages,
        prepared: &Prepared,
        other: bool,
    ) -> Result<(), PlaneError> {
        let program = other
            .then(|| standard::program(hooks, stages, &self.registry, self.worker_pool.environment()))
            .transpose()?;
        self.worker_pool.track(prepared)?;
        program.map_or(Ok(()), |program| self.worker_pool.change(Arc::new(program)))
    }

    /// Changes the members of an address set of the filter in place, on every worker between two
    /// batches; how many it has then, `None` when there is none of this name.
    pub fn change_set(&mut self, name: &str, come: &[IpNet], go: &[IpNet]) -> Option<usize> {
        self.policy.change_set(name, come, go)
    }

    /// Makes a worker panic, to see that only it goes down.
    pub fn fail_worker(&self, worker: usize) {
        self.worker_pool.order(worker, WorkerCommand::Fail);
    }

    /// Gives every port back and ends the workers.
    pub fn stop(&mut self, tables: &mut Tables) {
        let taken: Vec<_> = self.ports.iter().map(|port| (port.id, port.taken.is_some())).collect();
        self.close_all();
        taken.into_iter().for_each(|(id, was_taken)| self.forget(id, was_taken, tables));
    }
}
