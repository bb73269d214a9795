//! Interfaces by AF_XDP for a program whose parts don't know of each other, such as the elements of
//! a configuration: each says which interface it wants to receive from or send by, and they share
//! its sockets.
//!
//! Whoever receives has the interface's frames, of all queues or of one, and Linux no more of them
//! ([`XdpDevices::receive`]); when the last one that does is gone, so is the program. Whoever only
//! sends ([`XdpDevices::send`]) takes nothing from Linux. Two that receive from one queue share its
//! frames out: each goes to one.
//!
//! A socket belongs to nobody's thread, so it is behind a lock, which is taken twice for a batch of
//! packets and which nobody else wants where one thread has the interface. Its memory is that of
//! all threads, so a packet goes from any interface to any other by its descriptor.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use fib::PortId;

use crate::device::{self, Device, DeviceError, Offloads};
use crate::driver::MAX_QUEUES;
use crate::redirect::Redirect;
use crate::{
    BusyPoll, DriverError, Memory, Packet, Queue, QueueCounters, Xsk, XskError, XskMode, XskOptions, ZeroCopy,
};

/// The part of a thread's memory that the rings of one interface may take, among others; and then
/// as much on its way out.
const SHARE: usize = 8;
/// The same of the only interface there is.
const SHARE_OF_ONE: usize = 2;
/// Descriptors in a ring, at least and at most.
const RING: std::ops::RangeInclusive<usize> = 64..=2048;
/// How long what is busy is waited for.
const PATIENCE: Duration = Duration::from_millis(200);
/// Bytes of a frame beyond the MTU: Ethernet's header, and a VLAN's tag.
const BEYOND_MTU: usize = 14 + 4;

/// Why an interface cannot be used by AF_XDP.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say it
pub enum XdpError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("{interface}: there is no queue {queue}, only 0 to {}", .queues - 1)]
    NoQueue { interface: String, queue: u32, queues: u32 },
    #[error("{interface}: {source}")]
    Program { interface: String, source: DriverError },
    #[error("{interface}: {source}")]
    Socket { interface: String, source: XskError },
    #[error("{interface}: cannot duplicate a socket's descriptor: {source}")]
    Handle { interface: String, source: std::io::Error },
}

/// The interfaces in use, by their index.
pub struct XdpDevices {
    memory: Arc<Memory>,
    share: usize,
    open: Mutex<HashMap<u32, Open>>,
}

/// What there is of an interface while somebody uses it.
#[derive(Default)]
struct Open {
    sockets: HashMap<u32, Weak<Socket>>,
    readings: HashMap<u32, Weak<Reading>>,
    taken: Weak<Taken>,
}

/// An interface with the program on it.
struct Taken {
    interface: String,
    redirect: Redirect,
    /// As they were.
    offloads: Option<Offloads>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(before) = &self.offloads {
            // Fails when the interface is gone, and then there is nothing to restore.
            let _ = device::restore_offloads(&self.interface, before);
        }
    }
}

/// A socket on a queue.
struct Socket {
    // Before the socket itself, whose chunks may go home only when all its descriptors are closed.
    handle: OwnedFd,
    xsk: Mutex<Xsk>,
    mode: XskMode,
}

impl Socket {
    fn lock(&self) -> MutexGuard<'_, Xsk> {
        self.xsk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue whose frames come to its socket.
struct Reading {
    queue: u32,
    socket: Arc<Socket>,
    taken: Arc<Taken>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        // Others may still send by the socket. It only fails when the map has no such socket any
        // more.
        let _ = self.taken.redirect.clear_socket(self.queue);
    }
}

/// One queue of an interface, for whoever receives from it or sends by it.
pub struct XdpQueue {
    interface: String,
    mac: [u8; 6],
    socket: Arc<Socket>,
    /// Kept while it receives.
    reading: Option<Arc<Reading>>,
    /// Bytes of the longest frame.
    longest: usize,
    starves: bool,
    unsent: usize,
}

impl XdpDevices {
    /// None in use yet. Threads that use them have pools of this memory.
    pub fn new(memory: Arc<Memory>) -> XdpDevices {
        XdpDevices { memory, share: SHARE, open: Mutex::default() }
    }

    /// As [`new`](XdpDevices::new), where no more than one interface will be used: its rings may be
    /// as long as its memory lets them, for a burst that comes while the thread does something else
    /// is lost beyond them.
    pub fn of_one(memory: Arc<Memory>) -> XdpDevices {
        XdpDevices { share: SHARE_OF_ONE, ..XdpDevices::new(memory) }
    }

    /// Takes the frames of an interface: of one queue, or of all.
    ///
    /// # Errors
    /// Among others, another program is there already; nothing is taken then.
    pub fn receive(&self, interface: &str, queue: Option<u32>) -> Result<Vec<XdpQueue>, XdpError> {
        let device = Device::named(interface)?;
        let queues = device.queues.min(MAX_QUEUES);
        let wanted = match queue {
            Some(queue) => check(&device, queue)?..queue + 1,
            None => 0..queues,
        };
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = all.entry(device.ifindex).or_default();
        let taken = match open.taken.upgrade() {
            Some(taken) => taken,
            None => Arc::new(take(&device)?),
        };
        open.taken = Arc::downgrade(&taken);
        let native = taken.redirect.attachment().native;
        let options = XskOptions {
            frames: u32::MAX,
            // Behind a generic program the device's rings are not in use.
            zero_copy: if native { ZeroCopy::Auto } else { ZeroCopy::Off },
            busy_poll: BusyPoll::Off,
            ring: self.ring(wanted.len()),
            partial: device.passes_partial(native).then_some(device.mtu),
            receive: true,
        };
        wanted
            .map(|queue| {
                let reading = match open.readings.get(&queue).and_then(Weak::upgrade) {
                    Some(reading) => reading,
                    None => {
                        let socket = self.socket(open, &device, queue, &options)?;
                        let mut xsk = socket.lock();
                        xsk.receive_too(options.partial);
                        // Before frames come: without some to receive into they would be lost.
                        xsk.kick();
                        drop(xsk);
                        let failed = |source| XdpError::Program { interface: device.name.clone(), source };
                        taken.redirect.set_socket(queue, &socket.handle).map_err(failed)?;
                        Arc::new(Reading { queue, socket, taken: taken.clone() })
                    }
                };
                open.readings.insert(queue, Arc::downgrade(&reading));
                Ok(XdpQueue::new(&device, reading.socket.clone(), Some(reading)))
            })
            .collect()
    }

    /// Sends by an interface: by a queue, or by the first one that has a socket already, and else
    /// by queue 0.
    pub fn send(&self, interface: &str, queue: Option<u32>) -> Result<XdpQueue, XdpError> {
        let device = Device::named(interface)?;
        let queue = queue.map(|queue| check(&device, queue)).transpose()?;
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = all.entry(device.ifindex).or_default();
        let in_use = open.sockets.iter().filter(|(_, socket)| socket.strong_count() > 0);
        let queue = queue.or(in_use.map(|(queue, _)| *queue).min()).unwrap_or_default();
        let options = XskOptions {
            frames: u32::MAX,
            // Without a program many devices have no rings for frames that are not copied.
            zero_copy: ZeroCopy::Off,
            busy_poll: BusyPoll::Off,
            ring: self.ring(1),
            partial: None,
            receive: false,
        };
        let socket = self.socket(open, &device, queue, &options)?;
        Ok(XdpQueue::new(&device, socket, None))
    }

    fn ring(&self, queues: usize) -> u32 {
        let share = self.memory.frames() / self.share / queues.max(1);
        1 << share.clamp(*RING.start(), *RING.end()).ilog2()
    }

    /// The socket of a queue, which is opened if nobody has it.
    fn socket(
        &self,
        open: &mut Open,
        device: &Device,
        queue: u32,
        options: &XskOptions,
    ) -> Result<Arc<Socket>, XdpError> {
        if let Some(socket) = open.sockets.get(&queue).and_then(Weak::upgrade) {
            return Ok(socket);
        }
        let interface = || device.name.clone();
        let open_it = || self.memory.open_for_all(PortId::NONE, device.ifindex, queue, options);
        let xsk = patiently(open_it, |error| error.source.raw_os_error())
            .map_err(|source| XdpError::Socket { interface: interface(), source })?;
        let handle = xsk.handle().map_err(|source| XdpError::Handle { interface: interface(), source })?;
        let socket = Arc::new(Socket { handle, mode: xsk.mode().clone(), xsk: Mutex::new(xsk) });
        open.sockets.insert(queue, Arc::downgrade(&socket));
        Ok(socket)
    }
}

fn check(device: &Device, queue: u32) -> Result<u32, XdpError> {
    let queues = device.queues.min(MAX_QUEUES);
    match queue < queues {
        true => Ok(queue),
        false => Err(XdpError::NoQueue { interface: device.name.clone(), queue, queues }),
    }
}

/// The kernel takes its time to let go of a queue or an interface whose user has just ended: what
/// is busy is tried again.
fn patiently<T, E>(attempt: impl Fn() -> Result<T, E>, number: impl Fn(&E) -> Option<i32>) -> Result<T, E> {
    let mut result = attempt();
    let began = Instant::now();
    while let Err(error) = &result
        && matches!(number(error), Some(libc::EBUSY | libc::EEXIST))
        && began.elapsed() < PATIENCE
    {
        std::thread::sleep(PATIENCE / 20);
        result = attempt();
    }
    result
}

/// Puts the program on an interface.
fn take(device: &Device) -> Result<Taken, XdpError> {
    let error_of = |error: &DriverError| match error {
        DriverError::Attach { source, .. } => source.raw_os_error(),
        _ => None,
    };
    let redirect = patiently(|| Redirect::attach(device.ifindex), error_of)
        .map_err(|source| XdpError::Program { interface: device.name.clone(), source })?;
    // Where they cannot be turned off there are none to speak of, or frames of a VLAN come without
    // their tag.
    let offloads = device::clear_offloads(&device.name).ok();
    Ok(Taken { interface: device.name.clone(), redirect, offloads })
}

impl XdpQueue {
    fn new(device: &Device, socket: Arc<Socket>, reading: Option<Arc<Reading>>) -> XdpQueue {
        let starves = socket.lock().starves();
        XdpQueue {
            interface: device.name.clone(),
            mac: device.mac,
            socket,
            reading,
            longest: device.mtu as usize + BEYOND_MTU,
            starves,
            unsent: 0,
        }
    }

    /// The interface's Ethernet address, as it was when this was opened.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// What the socket got, and why not better.
    pub fn mode(&self) -> &XskMode {
        &self.socket.mode
    }

    /// How the program is attached that gives it the frames; `None` when it only sends.
    pub fn attachment(&self) -> Option<&crate::Attachment> {
        self.reading.as_ref().map(|reading| reading.taken.redirect.attachment())
    }

    /// Whether the last [`Queue::kick`], or at first the opening, found no memory to receive into,
    /// so that nothing more arrives until one does.
    pub fn starves(&self) -> bool {
        self.starves
    }

    /// How much the kernel had not yet taken at the last [`Queue::kick`] of what was to be sent;
    /// another one tries again.
    pub fn unsent(&self) -> usize {
        self.unsent
    }

    /// Whether a frame of so many bytes is too long for the interface.
    pub fn is_too_long(&mut self, bytes: usize) -> bool {
        if bytes <= self.longest {
            return false;
        }
        // Its MTU may have changed meanwhile.
        if let Ok(device) = Device::named(&self.interface) {
            self.longest = device.mtu as usize + BEYOND_MTU;
        }
        bytes > self.longest
    }
}

impl Queue for XdpQueue {
    fn port(&self) -> PortId {
        PortId::NONE
    }

    fn receive(&mut self, into: &mut Vec<Packet>, quota: usize) -> usize {
        self.socket.lock().receive(into, quota)
    }

    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        self.socket.lock().transmit(packets)
    }

    fn kick(&mut self) {
        let mut xsk = self.socket.lock();
        xsk.kick();
        (self.starves, self.unsent) = (xsk.starves(), xsk.unsent());
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.handle.as_fd())
    }

    fn counters(&self) -> QueueCounters {
        self.socket.lock().counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HugePages;

    #[test]
    fn rings_are_as_long_as_the_memory_lets_them() {
        let memory = Arc::new(Memory::new(1, 8192, HugePages::Off).unwrap());
        let rings = |devices: &XdpDevices| [1, 2, 4, 16, 128].map(|queues| devices.ring(queues));
        assert_eq!(rings(&XdpDevices::new(memory.clone())), [1024, 512, 256, 64, 64]);
        assert_eq!(rings(&XdpDevices::of_one(memory)), [2048, 2048, 1024, 256, 64]);
    }
}
