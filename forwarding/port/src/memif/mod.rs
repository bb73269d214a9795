//! memif: frames to and from another program on this machine, through memory that both have mapped.
//!
//! Version 2.0 of the protocol, as libmemif, VPP and DPDK (`net_memif`) speak it. The client makes
//! the memory and the rings and offers them to the server over a UNIX socket; from then on a frame
//! passes from one core to the other without the kernel.
//!
//! | file | what it is |
//! |---|---|
//! | `message`, `channel` | what is said over the socket, and how |
//! | `control` | the threads that listen, connect, and see the peer go |
//! | `bell` | what one side wakes the other up by |
//! | `client`, `server` | the two sides of an agreement |
//! | `region`, `ring` | the shared memory, and a ring in it |
//! | `incoming`, `outgoing` | a ring's two ends: frames in and out, in batches |
//! | `queue` | a queue: a pair of rings while there is a peer |
//!
//! A peer is another program, and may be hostile. Whatever it says and writes, no byte outside the
//! shared memory is touched and none inside is believed twice; what makes no sense is counted
//! (`QueueCounters::corrupt`). No call on what both sides hold may block. Its memory must be sealed
//! so that no page of it can go again, and not more than the queues need ([`Settings::trusted`]).
//!
//! While it polls, no side makes a system call. Before a queue sleeps
//! ([`Queue::fd`](crate::Queue::fd)) it asks the peer to ring.

mod bell;
mod channel;
mod client;
mod control;
#[doc(hidden)]
pub mod fuzz;
mod incoming;
mod message;
mod outgoing;
mod queue;
mod region;
mod ring;
mod server;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fib::PortId;

use crate::HugePages;
use control::Control;
use queue::{Rings, Slot};

pub use channel::Address;
pub use queue::MemifQueue;

/// What this program calls itself.
const PROGRAM: &str = concat!("Bifrost ", env!("CARGO_PKG_VERSION"));
/// Descriptors in a ring at most, as powers of two: what others take.
const RING_LOG2: std::ops::RangeInclusive<u32> = 1..=14;
/// Descriptors of the longest ring that any queue has: those of AF_XDP are shorter.
pub const LONGEST_RING: usize = 1 << *RING_LOG2.end();
/// Queues at most: what DPDK knows.
const MOST_QUEUES: u16 = 255;

/// Which side of an agreement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Listens, and takes what a client offers: the client decides on the rings' size and number.
    #[default]
    Server,
    /// Connects, makes the memory and decides.
    Client,
}

/// How an interface is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the two sides meet.
    pub socket: Address,
    /// Which side this is.
    pub role: Role,
    /// The interface's number, the same on both sides; several interfaces may have one socket.
    pub id: u32,
    /// What a client must know; at most 24 bytes.
    pub secret: Option<String>,
    /// How the interface is called to the other side.
    pub name: String,
    /// Queues, each with a ring in either direction: 1 to 255. A server's client may have fewer;
    /// the others then stay silent.
    pub queues: u16,
    /// Descriptors in each ring, a power of two from 2 to 16,384. The client's say.
    pub ring: u32,
    /// Bytes of each buffer, at least 64; longer frames take several. The client's say.
    pub buffer: u32,
    /// Whether the shared memory is to be in huge pages. The client's say.
    pub huge_pages: HugePages,
    /// Whether a server takes memory that is not sealed against shrinking, as that of DPDK's
    /// zero-copy clients, and as much of it as the client has; else 128 MiB for each queue at most.
    /// A client that shrinks it ends this program.
    pub trusted: bool,
}

impl Settings {
    /// An interface at a socket, with one queue, as DPDK makes it: rings of 1,024 descriptors,
    /// buffers of 2,048 bytes.
    pub fn new(socket: impl Into<Address>, role: Role) -> Settings {
        Settings {
            socket: socket.into(),
            role,
            id: 0,
            secret: None,
            name: "bifrost".to_owned(),
            queues: 1,
            ring: 1024,
            buffer: 2048,
            huge_pages: HugePages::Auto,
            trusted: false,
        }
    }

    fn log2(&self) -> u8 {
        self.ring.ilog2() as u8
    }

    fn secret_field(&self) -> [u8; message::SECRET] {
        let mut field = [0; message::SECRET];
        let secret = self.secret.as_deref().unwrap_or_default().as_bytes();
        field.iter_mut().zip(secret).for_each(|(to, from)| *to = *from);
        field
    }

    fn check(&self) -> Result<(), MemifError> {
        let is_ring = self.ring.is_power_of_two() && RING_LOG2.contains(&self.ring.ilog2());
        if !is_ring {
            return Err(MemifError::Ring(self.ring));
        }
        if self.buffer < 64 {
            return Err(MemifError::Buffer(self.buffer));
        }
        if !(1..=MOST_QUEUES).contains(&self.queues) {
            return Err(MemifError::Queues(self.queues));
        }
        if self.secret.as_ref().is_some_and(|secret| secret.len() > message::SECRET) {
            return Err(MemifError::Secret);
        }
        let bytes = client::bytes(self.log2(), 2 * u64::from(self.queues), self.buffer);
        if self.role == Role::Client && bytes > u32::MAX.into() {
            return Err(MemifError::TooMuch { bytes });
        }
        Ok(())
    }
}

/// Why there is no interface, or no queue of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say it
pub enum MemifError {
    #[error("a ring has 2, 4, 8, ... or 16384 descriptors, not {0}")]
    Ring(u32),
    #[error("a buffer has at least 64 bytes, not {0}")]
    Buffer(u32),
    #[error("an interface has 1 to 255 queues, not {0}")]
    Queues(u16),
    #[error("a secret has at most 24 bytes")]
    Secret,
    #[error("rings and buffers of {bytes} bytes: memif's places go up to 4 GiB; make them smaller or fewer")]
    TooMuch { bytes: u64 },
    #[error("cannot listen at {socket}: {source}")]
    Listen { socket: Address, source: io::Error },
    #[error("{socket} has an interface {id} here already")]
    IdInUse { socket: Address, id: u32 },
    #[error("cannot prepare a memif interface: {0}")]
    System(#[from] io::Error),
    #[error("the interface has {queues} queues, so there is no queue {queue}")]
    NoQueue { queue: u16, queues: u16 },
    #[error("queue {0} is in use")]
    QueueInUse(u16),
}

/// How an interface stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// No peer.
    Down {
        /// Why not, as far as it is known; empty while nobody has come.
        why: String,
    },
    /// A peer is there, and the two agree on their memory.
    Connecting {
        /// Why nothing came of the attempt before this one; empty at the first.
        why: String,
    },
    /// Frames can pass.
    Up {
        /// What the peer's program calls itself.
        peer: String,
        /// What the peer calls its interface.
        interface: String,
        /// Queues that receive, from 0 on.
        receive: u16,
        /// Queues that send, from 0 on.
        transmit: u16,
    },
}

/// What an interface, its queues and the threads that serve it share.
struct Shared {
    settings: Settings,
    slots: Vec<Arc<Slot>>,
    state: Mutex<State>,
    /// Peers that there have been.
    peers: AtomicU64,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody is there. Who is refused comes again at once: why stays to be read until something
    /// has come of it.
    fn connecting(&self) {
        let mut state = self.state();
        let why = match &mut *state {
            State::Down { why } | State::Connecting { why } => std::mem::take(why),
            State::Up { .. } => String::new(),
        };
        *state = State::Connecting { why };
    }

    /// Gives the queues their rings.
    fn up(&self, peer: String, interface: String, rings: Vec<Rings>) {
        let receive = rings.iter().filter(|rings| rings.receives()).count() as u16;
        let transmit = rings.iter().filter(|rings| rings.transmits()).count() as u16;
        for (slot, rings) in self.slots.iter().zip(rings) {
            slot.lay(rings);
        }
        self.peers.fetch_add(1, Ordering::Relaxed);
        *self.state() = State::Up { peer, interface, receive, transmit };
    }

    /// Somebody was turned away who named none of the interfaces that wait.
    fn passed_by(&self, why: &str) {
        if let State::Down { why: before } = &mut *self.state() {
            *before = format!("a client was refused: {why}");
        }
    }

    /// Takes them away.
    fn down(&self, why: String) {
        let before = std::mem::replace(&mut *self.state(), State::Down { why });
        if matches!(before, State::Up { .. }) {
            self.slots.iter().for_each(|slot| slot.lay(Rings::default()));
        }
    }
}

/// A memif interface. Open until it is dropped: when the peer goes, the server waits for the next
/// one, and the client tries again ten times a second.
pub struct Interface {
    shared: Arc<Shared>,
    /// Dropped, nobody serves the interface any more, and the peer has been told.
    _control: Control,
}

impl Interface {
    /// Opens an interface. That a client finds no server is no error: see [`Interface::state`].
    ///
    /// # Errors
    /// When the settings make no sense, or a server cannot listen.
    pub fn open(settings: Settings) -> Result<Interface, MemifError> {
        settings.check()?;
        let slots = (0..settings.queues).map(|_| Slot::new().map(Arc::new)).collect::<Result<_, _>>()?;
        let state = Mutex::new(State::Down { why: String::new() });
        let shared = Arc::new(Shared { settings, slots, state, peers: AtomicU64::new(0) });
        Ok(Interface { _control: Control::start(&shared)?, shared })
    }

    /// A queue, to be used by one thread with a pool installed. Its packets come in by `port`.
    ///
    /// # Errors
    /// When there is no such queue, or somebody has it.
    pub fn queue(&self, queue: u16, port: PortId) -> Result<MemifQueue, MemifError> {
        let queues = self.shared.settings.queues;
        let slot = self.shared.slots.get(usize::from(queue)).ok_or(MemifError::NoQueue { queue, queues })?;
        MemifQueue::new(port, slot.clone()).ok_or(MemifError::QueueInUse(queue))
    }

    /// How it stands now.
    pub fn state(&self) -> State {
        self.shared.state().clone()
    }

    /// Peers that there have been, one after the other, with the one that there is.
    pub fn peers(&self) -> u64 {
        self.shared.peers.load(Ordering::Relaxed)
    }

    /// What it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }
}
