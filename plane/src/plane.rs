//! The plane: ports being taken and given back, and the workers behind them. Owned by the control thread.
//!
//! To take a port is, in this order: attach the program (which sends Linux everything, as there is no socket yet), open
//! the sockets, make them known to the program, give them to their workers, and only then publish the port to the tables,
//! which lets routes lead to it. To give it back is the same backwards. At no step is there a packet that nobody
//! forwards.
//!
//! Queue *i* belongs to worker *i* modulo the number of workers. A worker without a queue on a port sends through a
//! colleague that has one (`relay.rs`).

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fib::{PortId, Tables, View};
use port::device::{self, Device, FeatureWatch, XdpFeatures};
use port::driver::MAX_PORTS;
use port::{
    BusyPoll, Driver, DriverCounters, HugePages, Injector, Lane, Memory, Packet, QueueCounters, XskOptions,
    ZeroCopy,
};
use tracing::{debug, info, warn};
use wire::Class;

use crate::PlaneError;
use crate::crew::{Blueprint, Crew};
use crate::police::Limits;
use crate::port::{Choice, Interface, OpenQueue, Port, PortSettings, Taken};
use crate::rehearsal;
use crate::worker::{Linux, Order};

/// The device by which workers hand packets to Linux.
const TAP: &str = "bifrost0";
/// How often the redirect targets and missing sockets are looked at, unless the kernel tells of a change.
const TARGETS: Duration = Duration::from_secs(1);
/// How long to wait before trying again to take a port that was refused.
const RETRY: Duration = Duration::from_secs(5);

/// What the plane is made with.
#[derive(Clone, Debug)]
pub struct PlaneSettings {
    /// A worker is pinned to each of these.
    pub cores: Vec<usize>,
    /// Packet buffers of each worker.
    pub frames: usize,
    /// Whether they are in huge pages.
    pub huge_pages: HugePages,
}

/// The plane.
pub struct Plane {
    driver: Driver,
    memory: Memory,
    crew: Crew,
    sources: Arc<elements::Sources>,
    limits: Arc<Limits>,
    tap: Option<u32>,
    ports: Vec<Port>,
    /// Tells when an interface can or cannot be a redirect target any more.
    features: Option<FeatureWatch>,
    looked: Instant,
    retry: Instant,
}

/// What is left of packets that only Linux can complete, when there is no injector.
struct NoInjector;

impl Linux for NoInjector {
    fn hand(&self, _packet: &Packet, _ifindex: u32) -> bool {
        false
    }
}

impl Linux for Injector {
    fn hand(&self, packet: &Packet, ifindex: u32) -> bool {
        self.inject(ifindex, packet).is_ok()
    }
}

impl Plane {
    /// Starts the workers; no port is taken yet.
    pub fn start(settings: &PlaneSettings, driver: Driver, view: View) -> Result<Plane, PlaneError> {
        let memory = Memory::new(settings.cores.len(), settings.frames, settings.huge_pages)?;
        if let (false, Some(why)) = memory.huge_pages() {
            info!("packet memory is in ordinary pages: {why}");
        }
        let (linux, tap): (Arc<dyn Linux>, _) = match Injector::open(TAP, &driver) {
            Ok(injector) => {
                if let Err(why) = injector.by_true_interface() {
                    warn!("what workers hand to Linux enters it by {TAP}, not by its true interface: {why}");
                }
                let ifindex = injector.device().ifindex;
                (Arc::new(injector), Some(ifindex))
            }
            Err(error) => {
                warn!("what only Linux can complete is dropped by workers: {error}");
                (Arc::new(NoInjector), None)
            }
        };
        let sources = elements::Sources::new();
        let pools =
            (0..settings.cores.len()).map(|worker| memory.pool(worker)).collect::<Result<Vec<_>, _>>()?;
        let limits = Arc::<Limits>::default();
        let workers = settings.cores.len();
        let blueprint = Blueprint { view, sources: sources.clone(), linux, limits: limits.clone(), workers };
        let crew = Crew::start(blueprint, &settings.cores, pools)?;
        let now = Instant::now();
        let features = FeatureWatch::new()
            .inspect_err(|error| info!("redirect targets are looked at once a second: {error}"))
            .ok();
        Ok(Plane {
            driver,
            memory,
            crew,
            sources,
            limits,
            tap,
            ports: Vec::new(),
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

    /// Whether this interface is the plane's own way to Linux, and so never a port.
    pub fn is_own(&self, ifindex: u32) -> bool {
        self.tap == Some(ifindex)
    }

    /// The workers.
    pub fn crew(&self) -> &Crew {
        &self.crew
    }

    /// The programs in the driver.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The programs in the driver, to tell them of local addresses, limits and what to divert.
    pub fn driver_mut(&mut self) -> &mut Driver {
        &mut self.driver
    }

    /// The addresses that ICMP errors are sent from.
    pub fn sources(&self) -> &Arc<elements::Sources> {
        &self.sources
    }

    /// Limits what is handed to Linux in a class: `rate` packets a second, `burst` at once; rate 0 = no limit.
    pub fn police(&mut self, class: Class, rate: u32, burst: u32) {
        self.driver.police(class, rate, burst);
        self.limits.set(class, rate, burst, self.crew.len());
    }

    /// Makes a port known that may not be there yet.
    pub fn expect(&mut self, name: &str, settings: PortSettings) -> Result<PortId, PlaneError> {
        if let Some(port) = self.ports.iter_mut().find(|port| port.name == name) {
            port.settings = settings;
            return Ok(port.id);
        }
        if self.ports.len() >= usize::from(MAX_PORTS) {
            return Err(PlaneError::TooManyPorts { name: name.to_owned(), most: MAX_PORTS });
        }
        let id = PortId(self.ports.len() as u16);
        self.ports.push(Port::new(id, name, settings));
        Ok(id)
    }

    /// Takes the interface of an expected port, or takes note of what changed about it. Whether the port is taken now.
    pub fn take(&mut self, id: PortId, interface: Interface, tables: &mut Tables) -> bool {
        let Some(port) = self.ports.get_mut(usize::from(id.0)) else { return false };
        let same = port.interface.as_ref().is_some_and(|before| before.ifindex == interface.ifindex);
        if !same && port.interface.is_some() {
            self.give_back(id, tables);
        }
        let port = &mut self.ports[usize::from(id.0)];
        port.interface = Some(interface);
        if port.taken.is_none() && (!same || port.refused.is_none()) {
            self.attach(id);
        }
        self.publish(id, tables);
        self.ports[usize::from(id.0)].taken.is_some()
    }

    fn attach(&mut self, id: PortId) {
        let index = usize::from(id.0);
        match self.open(id) {
            Ok(taken) => {
                let port = &mut self.ports[index];
                let mode = if taken.attachment.native { "native XDP" } else { "generic XDP" };
                let copy = match taken.queues.iter().filter(|queue| queue.zero_copy).count() {
                    0 => "copying",
                    _ => "zero-copy",
                };
                let (name, count) = (&port.name, taken.queues.len());
                let reasons = taken.why.join("; ");
                port.taken = Some(taken);
                port.refused = None;
                let lane = port.lane().map_or("", |lane| if lane.express { "express" } else { "worker" });
                info!(
                    "{name}: {mode}, {count} queue(s) {copy}, {lane} lane{}{reasons}",
                    if reasons.is_empty() { "" } else { "; " }
                );
            }
            Err(error) => {
                let port = &mut self.ports[index];
                warn!("{}: stays with Linux: {error}", port.name);
                port.refused = Some(error.to_string());
                self.close(id);
            }
        }
    }

    fn open(&mut self, id: PortId) -> Result<Taken, PlaneError> {
        let port = &self.ports[usize::from(id.0)];
        let (name, settings) = (port.name.clone(), port.settings);
        let Some(interface) = port.interface.clone() else {
            return Err(PlaneError::Required { name, what: "there is no such interface".into() });
        };
        let device = Device::named(&interface.name)?;
        let attachment = self.driver.attach(id, interface.ifindex, settings.mode)?;
        let mut why: Vec<String> = attachment.why.iter().cloned().collect();
        let offloads = match device::clear_offloads(&interface.name) {
            Ok(before) => Some(before),
            Err(error) if error.is_unsupported() => None,
            Err(error) => {
                note(&mut why, format!("{error}: frames of a VLAN may look as if they had no tag"));
                None
            }
        };
        let wanted = settings.queues.map_or(self.crew.len() as u32, u32::from).clamp(1, device.queues);
        let mut queues = Vec::new();
        for queue in 0..wanted {
            match self.open_queue(id, &interface, &settings, queue, &mut why) {
                Ok(open) => queues.push(open),
                Err(error) if settings.zero_copy == Choice::On => return Err(error),
                Err(error) => note(&mut why, error.to_string()),
            }
        }
        self.connect(id, &queues.iter().map(|queue| queue.worker).collect::<Vec<_>>());
        let rss = self.spread(&interface.name, wanted, device.queues, &mut why);
        self.target(id);
        Ok(Taken {
            attachment,
            queues,
            wanted,
            device_queues: device.queues,
            driver: device.driver,
            rss,
            offloads,
            why,
        })
    }

    fn open_queue(
        &mut self,
        id: PortId,
        interface: &Interface,
        settings: &PortSettings,
        queue: u32,
        why: &mut Vec<String>,
    ) -> Result<OpenQueue, PlaneError> {
        let worker = queue as usize % self.crew.len();
        let options = XskOptions {
            zero_copy: match settings.zero_copy {
                // Behind a generic program the device's rings are not in use, so nothing would ever be sent.
                Choice::Auto if !self.driver.is_native(id) => ZeroCopy::Off,
                Choice::Auto => ZeroCopy::Auto,
                Choice::On => ZeroCopy::On,
                Choice::Off => ZeroCopy::Off,
            },
            busy_poll: match settings.busy_poll {
                Choice::Auto => BusyPoll::Auto,
                Choice::On => BusyPoll::On,
                Choice::Off => BusyPoll::Off,
            },
            ..XskOptions::default()
        };
        let socket = self.memory.open(worker, id, interface.ifindex, queue, &options)?;
        let mode = socket.mode().clone();
        mode.why.iter().for_each(|reason| note(why, reason.clone()));
        self.driver.set_socket(id, queue, &socket)?;
        let meter = Arc::default();
        self.crew.serve(worker, Box::new(socket), Arc::clone(&meter));
        Ok(OpenQueue { queue, worker, zero_copy: mode.zero_copy, busy_poll: mode.busy_poll, meter })
    }

    /// Lets the workers without a queue on this port send through those that have one.
    fn connect(&self, id: PortId, serving: &[usize]) {
        for worker in (0..self.crew.len()).filter(|worker| !serving.contains(worker)) {
            self.crew.relay(worker, id, serving.get(worker % serving.len().max(1)).copied());
        }
    }

    /// Spreads what arrives over the queues that have sockets, where the device can; the RSS table as it was, if it was
    /// changed.
    fn spread(&self, name: &str, wanted: u32, available: u32, why: &mut Vec<String>) -> Option<Vec<u32>> {
        if wanted >= available {
            return None;
        }
        let unserved = available - wanted;
        device::spread_rss(name, wanted)
            .inspect_err(|error| {
                note(
                    why,
                    format!(
                        "{unserved} of {available} receive queues have no worker, and packets cannot be kept off them \
                         ({error}); `ethtool -L {name} combined {wanted}` leaves no others"
                    ),
                );
            })
            .ok()
    }

    /// Readable when [`supervise`](Self::supervise) has something to do before its time.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.features.as_ref().map(FeatureWatch::fd)
    }

    /// Whether the kernel told of an interface whose XDP features changed.
    fn features_changed(&self) -> bool {
        let Some(features) = &self.features else { return false };
        let mut changed = false;
        while let Ok(Some(_)) = features.next() {
            changed = true;
        }
        changed
    }

    /// Looks whether the express lane can send by the port; whether that changed.
    fn target(&mut self, id: PortId) -> bool {
        let port = &mut self.ports[usize::from(id.0)];
        let Some(interface) = &port.interface else { return false };
        let can = device::xdp_features(interface.ifindex)
            .is_ok_and(|features| features.contains(XdpFeatures::REDIRECT_TARGET));
        let before = std::mem::replace(&mut port.target, can);
        if can != before {
            let changed = if can {
                self.driver.set_target(id, interface.ifindex)
            } else {
                self.driver.clear_target(id)
            };
            if let Err(error) = changed {
                warn!("{}: the express lane does not send by it: {error}", port.name);
                port.target = false;
            }
        }
        can != before
    }

    fn publish(&mut self, id: PortId, tables: &mut Tables) {
        let entry = self.ports[usize::from(id.0)].entry();
        // Numbers of ports are in range, as the plane gave them out.
        if let Err(error) = tables.set_port(id, entry) {
            warn!("{}: not in the tables: {error}", self.ports[usize::from(id.0)].name);
        }
    }

    /// Gives the interface of a port back to Linux, for it is gone or was asked for.
    pub fn give_back(&mut self, id: PortId, tables: &mut Tables) {
        let Some(port) = self.ports.get_mut(usize::from(id.0)) else { return };
        let was_taken = port.taken.is_some();
        let name = port.name.clone();
        self.close(id);
        let port = &mut self.ports[usize::from(id.0)];
        port.interface = None;
        port.refused = None;
        if was_taken {
            info!("{name}: given back to Linux");
        }
        self.publish(id, tables);
    }

    fn close(&mut self, id: PortId) {
        let index = usize::from(id.0);
        // The program first: from then on Linux gets every packet.
        if let Ok(counters) = self.driver.counters(id) {
            self.ports[index].before = plus(&self.ports[index].before, &counters);
        }
        self.driver.detach(id);
        self.crew.leave(id);
        let port = &mut self.ports[index];
        port.target = false;
        let Some(taken) = port.taken.take() else { return };
        for queue in taken.queues {
            port.queues_before = sum(&port.queues_before, &queue.meter.read());
        }
        // Fails when the interface is gone, and then there is nothing to restore.
        let rss = taken.rss.map(|table| device::set_rss(&port.name, &table));
        let offloads = taken.offloads.map(|before| device::restore_offloads(&port.name, &before));
        for error in [rss, offloads].into_iter().flatten().filter_map(Result::err) {
            debug!("{}: some settings stay as they are: {error}", port.name);
        }
    }

    /// What the port's program counted, in all its lives.
    pub fn driver_counters(&self, port: &Port) -> DriverCounters {
        let now = self.driver.counters(port.id).unwrap_or_default();
        plus(&port.before, &now)
    }

    /// What the port's sockets counted, in all their lives.
    pub fn queue_counters(&self, port: &Port) -> QueueCounters {
        let open = port.taken.iter().flat_map(|taken| &taken.queues);
        open.fold(port.queues_before, |total, queue| sum(&total, &queue.meter.read()))
    }

    /// What the express lane sent by the port.
    pub fn express_sent(&self, port: &Port) -> port::driver::Count {
        self.driver.sent(port.id).unwrap_or_default()
    }

    /// What a worker would do with a frame that came in by `input`.
    pub fn rehearse(
        &self,
        view: &View,
        input: PortId,
        frame: &[u8],
    ) -> Result<Vec<rehearsal::Event>, PlaneError> {
        let ports: Vec<PortId> =
            self.ports.iter().filter(|port| port.taken.is_some()).map(|port| port.id).collect();
        rehearsal::rehearse(view, &self.sources, input, frame, &ports)
    }

    /// What happens by the clock: failed workers are started again, redirect targets looked at, refused ports tried
    /// anew. Call it about ten times a second. Returns the ports that were taken only now.
    pub fn supervise(&mut self, tables: &mut Tables) -> Vec<PortId> {
        let memory = &self.memory;
        for worker in self.crew.raise_fallen(|worker| memory.pool(worker).ok()) {
            self.forget_queues(worker);
        }
        let now = Instant::now();
        if self.features_changed() || now.duration_since(self.looked) >= TARGETS {
            self.looked = now;
            for index in 0..self.ports.len() {
                let id = PortId(index as u16);
                if self.ports[index].taken.is_some() && (self.target(id) | self.complete(id)) {
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

    /// The queues of a worker that was started again are closed, and the next look opens them anew; at once, that is.
    fn forget_queues(&mut self, worker: usize) {
        for port in &mut self.ports {
            let Some(taken) = &mut port.taken else { continue };
            for queue in taken.queues.extract_if(.., |queue| queue.worker == worker) {
                port.queues_before = sum(&port.queues_before, &queue.meter.read());
            }
        }
        self.looked -= TARGETS;
    }

    /// Opens the queues of a taken port that have no socket; whether there were any.
    fn complete(&mut self, id: PortId) -> bool {
        let port = &self.ports[usize::from(id.0)];
        let (Some(interface), Some(taken)) = (port.interface.clone(), &port.taken) else { return false };
        let missing: Vec<u32> = (0..taken.wanted)
            .filter(|wanted| taken.queues.iter().all(|open| open.queue != *wanted))
            .collect();
        if missing.is_empty() {
            return false;
        }
        let settings = port.settings;
        let mut opened = Vec::new();
        for queue in missing {
            match self.open_queue(id, &interface, &settings, queue, &mut Vec::new()) {
                Ok(open) => opened.push(open),
                Err(error) => debug!("{}: queue {queue} stays with Linux for now: {error}", interface.name),
            }
        }
        let Some(taken) = &mut self.ports[usize::from(id.0)].taken else { return false };
        taken.queues.extend(opened);
        taken.queues.sort_by_key(|queue| queue.queue);
        let workers: Vec<usize> = taken.queues.iter().map(|queue| queue.worker).collect();
        self.connect(id, &workers);
        true
    }

    /// Makes a worker panic, to see that only it goes down.
    pub fn fail_worker(&self, worker: usize) {
        self.crew.order(worker, Order::Fail);
    }

    /// Gives every port back and ends the workers.
    pub fn stop(&mut self, tables: &mut Tables) {
        for index in 0..self.ports.len() {
            self.give_back(PortId(index as u16), tables);
        }
        self.crew.stop();
    }
}

/// Adds a reason unless it is there.
fn note(why: &mut Vec<String>, reason: String) {
    if !why.contains(&reason) {
        why.push(reason);
    }
}

fn plus(a: &DriverCounters, b: &DriverCounters) -> DriverCounters {
    let mut total = *a;
    for lane in Lane::ALL {
        total.lanes[lane as usize].packets += b.lanes[lane as usize].packets;
        total.lanes[lane as usize].bytes += b.lanes[lane as usize].bytes;
    }
    total.reasons.iter_mut().zip(b.reasons).for_each(|(a, b)| *a += b);
    total.passed.iter_mut().zip(b.passed).for_each(|(a, b)| *a += b);
    total.policed.iter_mut().zip(b.policed).for_each(|(a, b)| *a += b);
    total
}

fn sum(a: &QueueCounters, b: &QueueCounters) -> QueueCounters {
    QueueCounters {
        rx_packets: a.rx_packets + b.rx_packets,
        rx_bytes: a.rx_bytes + b.rx_bytes,
        tx_packets: a.tx_packets + b.tx_packets,
        tx_bytes: a.tx_bytes + b.tx_bytes,
        rx_ring_full: a.rx_ring_full + b.rx_ring_full,
        rx_no_frame: a.rx_no_frame + b.rx_no_frame,
        rx_dropped: a.rx_dropped + b.rx_dropped,
        corrupt: a.corrupt + b.corrupt,
        tx_invalid: a.tx_invalid + b.tx_invalid,
        wakeups: a.wakeups + b.wakeups,
    }
}
