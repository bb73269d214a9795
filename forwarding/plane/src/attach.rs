//! Taking an interface and giving it back.
//!
//! To take a port is, in this order: attach the program (which leaves Linux everything), open the
//! sockets, give them to their workers, make them and the port known to the program, and only then
//! publish the port to the tables, which lets routes lead to it. To give it back is the same
//! backwards. At no step is there a packet that nobody forwards.
//!
//! The first of these, and those after it, are two steps between which the control thread may do
//! other work, as each takes the kernel some milliseconds. A port that has *begun* has the program,
//! which does not know it yet and leaves every packet to Linux. It is given back as one that is
//! taken.
//!
//! Queue *i* belongs to worker *i* modulo the number of workers, so that all are served, however
//! many the device has. A worker without a queue on a port sends through a colleague that has one
//! (`handoff.rs`); one with several, by the first.
//!
//! What arrives by a queue that nobody serves (the operator wanted fewer, another program has it)
//! is Linux's. RSS keeps packets off it where the device can. Where it cannot, and packets are
//! judged or translated by their flow, half of a connection would be Linux's and half a worker's:
//! such a port is refused, and stays with Linux whole.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use fib::{PortId, Tables};
use port::device::{self, Device, XdpFeatures};
use port::driver::MAX_QUEUES;
use port::{Attachment, BusyPoll, XskError, XskOptions, ZeroCopy};
use tracing::{debug, info, warn};

use crate::PlaneError;
use crate::error::without_worker;
use crate::handed::Handed;
use crate::plane::{Plane, RETRY, TARGETS, is_named};
use crate::port::{Attached, Begun, Choice, Interface, OpenQueue, Port, PortSettings};
use crate::shared::SharedPort;
use crate::totals::{plus, sum};

/// Frames that a queue needs to receive anything to speak of, where there are very many.
const FRAMES_AT_LEAST: usize = 32;
/// How long the ports that translated flows leave by are kept when all are given back. Requests are
/// Linux's by then, which knows their answers, but not those of requests that were translated here.
const ANSWERS: Duration = Duration::from_millis(30);

impl Plane {
    /// Takes a port, or what is left of it to do.
    pub(crate) fn attach(&mut self, id: PortId) {
        self.attach_step(id);
        if self.ports[usize::from(id.0)].is_begun() {
            self.attach_step(id);
        }
    }

    /// Attaches the program; where that has been done, opens the sockets.
    pub(crate) fn attach_step(&mut self, id: PortId) {
        self.takes_long();
        let done = match self.ports[usize::from(id.0)].begun.take() {
            None => self.begin(id),
            Some(begun) => self.open(id, begun),
        };
        match done {
            Ok(()) => self.tell(id),
            Err(error) => self.refuse(id, &error),
        }
    }

    /// Says how a port was taken, if it is now.
    fn tell(&mut self, id: PortId) {
        let port = &mut self.ports[usize::from(id.0)];
        port.refused = None;
        let lane = port.lane().map_or("", |lane| if lane.express { "express" } else { "worker" });
        let Some(taken) = &port.taken else { return };
        let mode = match taken.attachment.native {
            _ if port.shared.is_some() => "memif",
            true => "native XDP",
            false => "generic XDP",
        };
        let copy = match taken.queues.iter().filter(|queue| queue.zero_copy).count() {
            0 => "copying",
            _ => "zero-copy",
        };
        let (name, count) = (&port.name, taken.queues.len());
        let reasons = taken.why.join("; ");
        info!(
            "{name}: {mode}, {count} queue(s) {copy}, {lane} lane{}{reasons}",
            if reasons.is_empty() { "" } else { "; " }
        );
    }

    /// Leaves a port to Linux.
    fn refuse(&mut self, id: PortId, error: &PlaneError) {
        let port = &mut self.ports[usize::from(id.0)];
        // Said once, not at every attempt.
        if port.refused.replace(error.to_string()) != Some(error.to_string()) {
            warn!("{}: stays with Linux: {error}", port.name);
        }
        self.close(id);
    }

    /// The first step. Whoever gets an error closes the port: what was changed by then is put back.
    fn begin(&mut self, id: PortId) -> Result<(), PlaneError> {
        let port = &self.ports[usize::from(id.0)];
        let Some(interface) = &port.interface else {
            return Err(PlaneError::Absent);
        };
        if let Some(master) = &interface.master {
            return Err(PlaneError::Enslaved { master: master.clone() });
        }
        if port.shared.is_some() {
            return self.open_shared(id);
        }
        let device = Device::named(&interface.name)?;
        if let Some(handed) = self.handed.take(interface) {
            let attachment = self.driver.stand_by_behind(id, handed.link)?;
            let why = attachment.why.iter().cloned().collect();
            let Handed { offloads, rss, .. } = handed;
            self.ports[usize::from(id.0)].begun = Some(Begun { attachment, device, offloads, rss, why });
            return Ok(());
        }
        let attachment = self.driver.stand_by(id, interface.ifindex, port.settings.mode)?;
        let mut why: Vec<String> = attachment.why.iter().cloned().collect();
        let offloads = match device::clear_offloads(&interface.name) {
            Ok(before) => Some(before),
            Err(error) if error.is_unsupported() => None,
            Err(error) => {
                note(&mut why, format!("{error}: frames of a VLAN may look as if they had no tag"));
                None
            }
        };
        self.ports[usize::from(id.0)].begun = Some(Begun { attachment, device, offloads, rss: None, why });
        Ok(())
    }

    /// The second step, as the first.
    fn open(&mut self, id: PortId, begun: Begun) -> Result<(), PlaneError> {
        let Begun { attachment, device, offloads, rss, mut why } = begun;
        let port = &mut self.ports[usize::from(id.0)];
        let settings = port.settings;
        port.partial = device.passes_partial(attachment.native);
        let most = device.queues.min(MAX_QUEUES);
        let wanted = settings.queues.map_or(most, u32::from).clamp(1, most);
        port.taken = Some(Attached {
            attachment,
            queues: Vec::new(),
            wanted,
            device_queues: device.queues,
            driver: device.driver,
            rss,
            unserved: None,
            offloads,
            why: Vec::new(),
        });
        let Some(interface) = port.interface.clone() else {
            return Err(PlaneError::Absent);
        };
        let mut queues = Vec::new();
        for queue in 0..wanted {
            match self.open_queue(id, &interface, &settings, queue, &mut why) {
                Ok(open) => queues.push(open),
                Err(error) if settings.zero_copy == Choice::On => return Err(error),
                Err(error) => note(&mut why, error.to_string()),
            }
        }
        self.connect(id, &queues.iter().map(|queue| queue.worker).collect::<Vec<_>>());
        if let Some(taken) = &mut self.ports[usize::from(id.0)].taken {
            (taken.queues, taken.why) = (queues, why);
        }
        self.spread(id)?;
        self.target(id, None);
        self.driver.admit(id)?;
        Ok(())
    }

    /// Gives the queues of a port in shared memory to their workers.
    fn open_shared(&mut self, id: PortId) -> Result<(), PlaneError> {
        let Some(shared) = &self.ports[usize::from(id.0)].shared else { return Err(PlaneError::Absent) };
        let count = u32::from(shared.settings().queues);
        let queues = (0..count).map(|queue| self.open_ring(id, queue)).collect::<Result<Vec<_>, _>>()?;
        self.connect(id, &queues.iter().map(|queue| queue.worker).collect::<Vec<_>>());
        self.ports[usize::from(id.0)].taken = Some(Attached {
            attachment: Attachment { native: true, why: None },
            queues,
            wanted: count,
            device_queues: count,
            driver: "memif".to_owned(),
            rss: None,
            unserved: None,
            offloads: None,
            why: Vec::new(),
        });
        Ok(())
    }

    /// One of them.
    fn open_ring(&mut self, id: PortId, queue: u32) -> Result<OpenQueue, PlaneError> {
        let worker = queue as usize % self.worker_pool.len();
        let Some(shared) = &mut self.ports[usize::from(id.0)].shared else { return Err(PlaneError::Absent) };
        let (ring, meter) = (shared.queue(queue as u16, id)?, Arc::default());
        if !self.worker_pool.serve(worker, Box::new(ring), Arc::clone(&meter)) {
            return Err(PlaneError::Silent(worker));
        }
        if let (0, Some(handoff_queue)) = (queue, self.worker_pool.handoff_queue(worker)) {
            shared.pump(id, handoff_queue)?;
        }
        // Bytes are copied once, as frames of a driver are where it fills Bifrost's memory: by
        // whoever wrote them.
        Ok(OpenQueue { queue, worker, zero_copy: true, busy_poll: false, meter })
    }

    pub(crate) fn open_queue(
        &mut self,
        id: PortId,
        interface: &Interface,
        settings: &PortSettings,
        queue: u32,
        why: &mut Vec<String>,
    ) -> Result<OpenQueue, PlaneError> {
        if self.ports[usize::from(id.0)].shared.is_some() {
            return self.open_ring(id, queue);
        }
        let worker = queue as usize % self.worker_pool.len();
        let options = XskOptions {
            zero_copy: match settings.zero_copy {
                // Behind a generic program the device's rings are not in use, so nothing would ever
                // be sent.
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
            partial: self.ports[usize::from(id.0)].partial.then_some(interface.mtu),
            frames: self.frames_of_queue(id),
            ..XskOptions::default()
        };
        let open = || self.memory.open(worker, id, interface.ifindex, queue, &options);
        let is_busy = |error: &XskError| error.source.kind() == ErrorKind::ResourceBusy;
        let socket = self.handed.patiently(open, is_busy)?;
        let mode = socket.mode().clone();
        mode.why.iter().for_each(|reason| note(why, reason.clone()));
        let handle = socket.handle().map_err(PlaneError::Handle)?;
        let meter = Arc::default();
        // The worker first: a socket without frames to receive into drops what the program sends
        // it.
        if !self.worker_pool.serve(worker, Box::new(socket), Arc::clone(&meter)) {
            return Err(PlaneError::Silent(worker));
        }
        self.driver.set_socket(id, queue, &handle)?;
        Ok(OpenQueue { queue, worker, zero_copy: mode.zero_copy, busy_poll: mode.busy_poll, meter })
    }

    /// Lets the workers without a queue on this port send through those that have one.
    pub(crate) fn connect(&self, id: PortId, serving: &[usize]) {
        for worker in (0..self.worker_pool.len()).filter(|worker| !serving.contains(worker)) {
            self.worker_pool.handoff(worker, id, serving.get(worker % serving.len().max(1)).copied());
        }
    }

    /// Frames for a queue of a port to receive into. A port has the same number at each worker,
    /// whether that serves one of its queues or many, so that the memory is enough for all ports.
    fn frames_of_queue(&self, id: PortId) -> u32 {
        let wanted = self.ports[usize::from(id.0)].taken.as_ref().map_or(1, |taken| taken.wanted as usize);
        let of_port = self.memory.frames() * 3 / 4 / self.ports.len().max(1);
        let of_port = of_port.min(XskOptions::default().ring as usize);
        (of_port / wanted.div_ceil(self.worker_pool.len().max(1))).max(FRAMES_AT_LEAST) as u32
    }

    /// Spreads what arrives over the queues that have sockets, where the device can.
    fn spread(&mut self, id: PortId) -> Result<(), PlaneError> {
        let depends = self.policy.depends_on_flows();
        let Port { name, taken: Some(taken), shared: None, .. } = &mut self.ports[usize::from(id.0)] else {
            return Ok(());
        };
        let served: Vec<u32> = taken.queues.iter().map(|open| open.queue).collect();
        let (missing, available) = (taken.device_queues - served.len() as u32, taken.device_queues);
        let known = taken.unserved.take();
        if missing == 0 {
            // They may have been fewer for a while.
            if let Some(Err(error)) = taken.rss.take().map(|table| device::set_rss(name, &table)) {
                debug!("{name}: RSS stays as it is: {error}");
            }
            return Ok(());
        }
        match device::spread_rss(name, &served) {
            Ok(before) => {
                taken.rss.get_or_insert(before);
                Ok(())
            }
            Err(source) if depends => {
                Err(PlaneError::Unserved { name: name.clone(), unserved: missing, available, source })
            }
            Err(error) => {
                let says = without_worker(name, missing, available, &error);
                taken.why.retain(|reason| Some(reason) != known.as_ref());
                note(&mut taken.why, says.clone());
                taken.unserved = Some(says);
                Ok(())
            }
        }
    }

    /// Looks whether packets still keep off queues without workers, or at least may come by them;
    /// whether the port went back to Linux.
    pub(crate) fn keep_off_unserved(&mut self, id: PortId) -> bool {
        self.spread(id).inspect_err(|error| self.refuse(id, error)).is_err()
    }

    /// Looks whether the express lane can send by the port, whose features are `known` or asked
    /// for; whether that changed.
    pub(crate) fn target(&mut self, id: PortId, known: Option<XdpFeatures>) -> bool {
        let port = &mut self.ports[usize::from(id.0)];
        // What the driver sent into a TAP would be for Linux.
        let Some(interface) = port.interface.as_ref().filter(|_| port.shared.is_none()) else { return false };
        let can = known.map_or_else(
            || device::is_redirect_target(interface.ifindex),
            |features| features.contains(XdpFeatures::REDIRECT_TARGET),
        );
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

    pub(crate) fn close(&mut self, id: PortId) {
        self.takes_long();
        self.detach(id);
        self.worker_pool.leave(id);
        self.put_back(id);
    }

    /// Gives all ports back at once. The kernel waits for packets under way whenever a socket is
    /// closed, so workers close theirs side by side. The programs go before the sockets, as a
    /// single port's does, and workers go on until all have gone: only they know translated flows.
    pub(crate) fn close_all(&mut self) {
        // What depends on no flow is Linux's in both lanes from here on.
        let _ = self.driver.pulse().tables(Duration::ZERO);
        let ids = self.ports.iter().map(|port| port.id);
        let (outside, inside): (Vec<PortId>, Vec<PortId>) = ids.partition(|id| self.is_outside(*id));
        inside.iter().for_each(|id| self.detach(*id));
        if !outside.is_empty() && !inside.is_empty() {
            std::thread::sleep(ANSWERS);
        }
        outside.iter().for_each(|id| self.detach(*id));
        self.worker_pool.stop();
        inside.into_iter().chain(outside).for_each(|id| self.put_back(id));
    }

    /// Whether flows leave by the port with a source that was made for it: their answers come to
    /// it.
    fn is_outside(&self, id: PortId) -> bool {
        let rules = self.policy.settings().nat.iter().flat_map(|nat| &nat.rules);
        let own = self.ports.get(usize::from(id.0)).map(Port::own_name);
        let on_it = self.logical().filter(|logical| logical.port == id);
        let on_it = on_it.filter_map(|logical| Some(logical.interface.as_ref()?.name.as_str()));
        let names: Vec<&str> = own.into_iter().chain(on_it).collect();
        let mut named = rules.flat_map(|rule| names.iter().map(move |name| (rule, name)));
        named.any(|(rule, name)| rule.matches.names_output(|pattern| is_named(pattern, name)))
    }

    /// Takes the program away: from then on Linux gets every packet.
    fn detach(&mut self, id: PortId) {
        let index = usize::from(id.0);
        if let Ok(counters) = self.driver.counters(id) {
            self.ports[index].before = plus(&self.ports[index].before, &counters);
        }
        self.driver.detach(id);
    }

    /// Puts back what was changed for a port whose sockets are closed.
    fn put_back(&mut self, id: PortId) {
        let port = &mut self.ports[usize::from(id.0)];
        port.target = false;
        port.shared.iter_mut().for_each(SharedPort::stop);
        let (mut rss, mut offloads) = (None, port.begun.take().and_then(|begun| begun.offloads));
        if let Some(taken) = port.taken.take() {
            for queue in taken.queues {
                port.queues_before = sum(&port.queues_before, &queue.meter.read());
            }
            (rss, offloads) = (taken.rss, taken.offloads);
        }
        // Fails when the interface is gone, and then there is nothing to restore.
        let rss = rss.map(|table| device::set_rss(&port.name, &table));
        let offloads = offloads.map(|before| device::restore_offloads(&port.name, &before));
        for error in [rss, offloads].into_iter().flatten().filter_map(Result::err) {
            debug!("{}: some settings stay as they are: {error}", port.name);
        }
    }

    /// Gives Linux what comes in by the queues of a worker that hangs. A port in shared memory is
    /// opened and taken anew: nobody else can take its rings out of the worker's hands.
    pub(crate) fn take_queues(&mut self, worker: usize, tables: &mut Tables) {
        for index in 0..self.ports.len() {
            let id = PortId(index as u16);
            let queues = self.ports[index].taken.iter().flat_map(|taken| &taken.queues);
            let queues: Vec<u32> =
                queues.filter(|open| open.worker == worker).map(|open| open.queue).collect();
            // Fails when the kernel has taken the socket out of the map, as it does when one is
            // closed.
            queues.iter().for_each(|queue| drop(self.driver.clear_socket(id, *queue)));
            let Some(shared) = self.ports[index].shared.as_ref().filter(|_| !queues.is_empty()) else {
                continue;
            };
            let settings = shared.settings().clone();
            self.close(id);
            if let Err(error) = self.share(id, Some(settings)) {
                self.refuse(id, &error);
            }
            self.publish(id, tables);
            self.retry_soon();
        }
        self.forget_queues(worker);
    }

    /// The queues of a worker that was started again are closed, and the next look opens them anew;
    /// at once, that is.
    pub(crate) fn forget_queues(&mut self, worker: usize) {
        for port in &mut self.ports {
            let Some(taken) = &mut port.taken else { continue };
            for queue in taken.queues.extract_if(.., |queue| queue.worker == worker) {
                port.queues_before = sum(&port.queues_before, &queue.meter.read());
            }
        }
        // What leaves by ports of which it serves no queue it sends by colleagues.
        for port in self.ports.iter().filter(|port| port.shared.is_some() || port.taken.is_some()) {
            let serving = port.taken.iter().flat_map(|taken| &taken.queues).map(|queue| queue.worker);
            self.connect(port.id, &serving.collect::<Vec<_>>());
        }
        self.look_soon();
    }

    /// Has [`Plane::supervise`] look at all ports at its next call.
    pub(crate) fn look_soon(&mut self) {
        self.looked -= TARGETS;
    }

    /// Has it try to take those that are not taken.
    fn retry_soon(&mut self) {
        self.retry -= RETRY;
    }

    /// Opens the queues of a taken port that have no socket; whether there were any.
    pub(crate) fn complete(&mut self, id: PortId) -> bool {
        let port = &self.ports[usize::from(id.0)];
        let (Some(interface), Some(taken)) = (port.interface.clone(), &port.taken) else { return false };
        let missing: Vec<u32> = (0..taken.wanted)
            .filter(|wanted| taken.queues.iter().all(|open| open.queue != *wanted))
            .collect();
        if missing.is_empty() {
            return false;
        }
        let settings = port.settings;
        self.takes_long();
        let mut opened = Vec::new();
        for queue in missing {
            match self.open_queue(id, &interface, &settings, queue, &mut Vec::new()) {
                Ok(open) => {
                    info!("{}: worker {} serves queue {queue}", interface.name, open.worker);
                    opened.push(open);
                }
                Err(error) => debug!("{}: queue {queue} stays with Linux for now: {error}", interface.name),
            }
        }
        let Some(taken) = &mut self.ports[usize::from(id.0)].taken else { return false };
        // What kept workers from it is over.
        let held: Vec<String> =
            opened.iter().map(|open| PlaneError::Silent(open.worker).to_string()).collect();
        taken.why.retain(|reason| !held.contains(reason));
        taken.queues.extend(opened);
        taken.queues.sort_by_key(|queue| queue.queue);
        let workers: Vec<usize> = taken.queues.iter().map(|queue| queue.worker).collect();
        self.connect(id, &workers);
        true
    }
}

/// Adds a reason unless it is there.
fn note(why: &mut Vec<String>, reason: String) {
    if !why.contains(&reason) {
        why.push(reason);
    }
}
