//! A port in shared memory: memif, behind an interface of Linux's.
//!
//! Addresses, neighbours and routing daemons stay Linux's on such a port too, so there must be an
//! interface for them: a TAP of the port's name. What the peer sends for this machine a worker
//! hands to Linux as received by the TAP, as with every port; what Linux sends by the TAP a thread
//! here takes out and leaves to the worker that has the port's first queue. That is the way of ARP
//! and of routing protocols, not of transit, which workers pass from ring to ring.
//!
//! The TAP outlives the daemon, so that a restart finds its addresses and routes; its carrier tells
//! Linux whether there is a peer. A TAP that was made beforehand (systemd-networkd, `ip tuntap
//! add`) is taken as it is.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use fib::PortId;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use port::memif::{Interface, Settings, State};
use port::{MemifQueue, Packet, Pool, Tap, TapKind};
use tracing::{info, warn};

use crate::PlaneError;
use crate::handoff::HandoffQueue;

/// Packets on their way from Linux at most.
const UNDER_WAY: usize = 512;
/// Largest frame that Linux sends by the TAP.
const LARGEST: usize = 65_536;

/// See the module's description.
pub struct SharedPort {
    name: String,
    tap: Arc<Tap>,
    interface: Interface,
    pump: Option<Pump>,
    carrier: Option<bool>,
    /// Why there is no peer, as it was last told.
    why: String,
}

impl SharedPort {
    /// Makes the TAP, unless it is there, and opens the memif interface. There is no carrier yet.
    pub(crate) fn open(name: &str, settings: Settings) -> Result<SharedPort, PlaneError> {
        let failed = |source: io::Error| PlaneError::Tap { name: name.to_owned(), source };
        // The memory first: where that fails no interface is left that nobody serves.
        let interface = Interface::open(settings)?;
        let tap = Tap::open(name, TapKind::Ethernet).map_err(failed)?;
        tap.persist().map_err(failed)?;
        let (name, tap) = (name.to_owned(), Arc::new(tap));
        let mut port = SharedPort { name, tap, interface, pump: None, carrier: None, why: String::new() };
        port.follow();
        Ok(port)
    }

    /// What it was opened with.
    pub fn settings(&self) -> &Settings {
        self.interface.settings()
    }

    /// How it stands.
    pub fn state(&self) -> State {
        self.interface.state()
    }

    /// A queue for a worker.
    pub(crate) fn queue(&self, queue: u16, port: PortId) -> Result<MemifQueue, PlaneError> {
        Ok(self.interface.queue(queue, port)?)
    }

    /// Leaves what Linux sends to the owner of this handoff queue from now on.
    pub(crate) fn pump(&mut self, port: PortId, handoff_queue: Arc<HandoffQueue>) -> Result<(), PlaneError> {
        self.pump = None;
        let failed = |source: io::Error| PlaneError::Tap { name: self.name.clone(), source };
        self.pump = Some(Pump::start(self.tap.clone(), port, handoff_queue).map_err(failed)?);
        Ok(())
    }

    /// Leaves it lying.
    pub(crate) fn stop(&mut self) {
        self.pump = None;
    }

    /// Lets Linux's carrier follow the peer, and tells why there is none; to be called now and
    /// then.
    pub(crate) fn follow(&mut self) {
        let state = self.interface.state();
        let up = matches!(state, State::Up { .. });
        let changed = self.carrier != Some(up);
        if changed && let Err(error) = self.tap.set_carrier(up) {
            warn!("{}: Linux cannot be told of its carrier: {error}", self.name);
        }
        match state {
            State::Up { peer, interface, .. } => {
                if changed {
                    info!("{}: connected to {peer:?} ({interface})", self.name);
                }
                self.why.clear();
            }
            State::Down { why } | State::Connecting { why } => {
                if self.carrier.is_none() {
                    info!("{}: waiting for a peer at {}", self.name, self.settings().socket);
                }
                if why != self.why {
                    let gone = if self.carrier == Some(true) { "the peer is gone" } else { "no peer" };
                    info!("{}: {gone}: {why}", self.name);
                    self.why = why;
                }
            }
        }
        self.carrier = Some(up);
    }
}

/// The thread that takes out what Linux sends.
struct Pump {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Pump {
    fn start(tap: Arc<Tap>, port: PortId, handoff_queue: Arc<HandoffQueue>) -> io::Result<Pump> {
        let stop = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
        let ended = stop.clone();
        let name = format!("tap-{}", port.0);
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            Pool::heap(UNDER_WAY).install();
            run(&tap, port, &handoff_queue, &ended);
        })?;
        Ok(Pump { stop, thread: Some(thread) })
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        // Fails only when it has been rung 2^64 times.
        let _ = self.stop.write(1);
        // A thread that panicked has ended as well.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn run(tap: &Tap, port: PortId, handoff_queue: &HandoffQueue, stop: &EventFd) {
    let mut buffer = vec![0; LARGEST];
    loop {
        let mut fds =
            [PollFd::new(tap.as_fd(), PollFlags::POLLIN), PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, PollTimeout::NONE);
        if fds[1].any().unwrap_or(true) {
            return;
        }
        loop {
            match tap.receive(&mut buffer) {
                Ok(length) => {
                    // Without room it is lost, as on a link that is full.
                    if let Some(mut packet) = Packet::new(&buffer[..length]) {
                        packet.output = port.interface();
                        let _ = handoff_queue.leave(packet);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The interface is down.
                Err(_) => {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    break;
                }
            }
        }
        handoff_queue.ring();
    }
}
