//! A queue of an interface: a pair of rings, while there is a peer.
//!
//! The control thread lays what a new connection has for a queue into its [`Slot`] and counts the
//! slot's generation up. The queue looks at that number in each call, a load of a line that nobody
//! writes, and only when it has changed takes the lock.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use fib::PortId;

use super::bell::{Bell, SharedBell};
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::ring::{Own, Ring, Theirs};
use crate::{Packet, Queue, QueueCounters};

/// Packets of a peer that has gone that each kick passes over: more than who receives leaves in a
/// ring for long.
const PASSED: usize = 256;

/// What a connection has for one queue: a ring in either direction, or in one, or none.
#[derive(Default)]
pub(super) enum Rings {
    #[default]
    None,
    /// We are the client.
    Client(Ends<Own>),
    /// We are the server.
    Server(Ends<Theirs>),
}

/// Our ends of the two rings.
pub(super) struct Ends<B> {
    /// With what is readable when the peer has rung.
    pub(super) incoming: Option<(Incoming<B>, SharedBell)>,
    pub(super) outgoing: Option<Outgoing<B>>,
}

impl Rings {
    pub(super) fn receives(&self) -> bool {
        self.incoming().is_some()
    }

    pub(super) fn transmits(&self) -> bool {
        match self {
            Rings::None => false,
            Rings::Client(ends) => ends.outgoing.is_some(),
            Rings::Server(ends) => ends.outgoing.is_some(),
        }
    }

    /// The ring that is emptied here, the bell of the other end, and whether there is something.
    fn incoming(&self) -> Option<(&Ring, &SharedBell, bool)> {
        match self {
            Rings::None => None,
            Rings::Client(Ends { incoming, .. }) => {
                incoming.as_ref().map(|(incoming, bell)| (incoming.ring(), bell, incoming.waiting()))
            }
            Rings::Server(Ends { incoming, .. }) => {
                incoming.as_ref().map(|(incoming, bell)| (incoming.ring(), bell, incoming.waiting()))
            }
        }
    }
}

/// Where a queue finds its rings.
pub(super) struct Slot {
    generation: AtomicU64,
    rings: Mutex<Rings>,
    /// Readable when the generation has changed, or what came was seen before a sleep.
    news: Bell,
    in_use: AtomicBool,
}

impl Slot {
    pub(super) fn new() -> std::io::Result<Slot> {
        Ok(Slot {
            generation: AtomicU64::new(0),
            rings: Mutex::default(),
            news: Bell::new()?,
            in_use: AtomicBool::new(false),
        })
    }

    /// Lays down what the queue works with from now on.
    pub(super) fn lay(&self, rings: Rings) {
        let mut place = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *place, rings);
        self.generation.fetch_add(1, Ordering::Release);
        drop(place);
        drop(before);
        self.news.ring();
    }
}

/// One queue of an [`Interface`](super::Interface).
///
/// While there is no peer it receives nothing and takes nothing to send. A frame that cannot go
/// (longer than the peer's whole ring, or empty) is counted in `tx_invalid`, descriptors of the
/// peer that make no sense in `corrupt`; a ring whose counters make none, or whose free buffers are
/// outside the shared memory, is not used any more until the peer connects anew.
pub struct MemifQueue {
    port: PortId,
    slot: Arc<Slot>,
    generation: u64,
    rings: Rings,
    /// Packets still received after the peer has gone: what it had sent.
    farewell: usize,
    /// The peer was asked for interrupts.
    armed: Cell<bool>,
    /// `news` were rung to end a sleep before it begins.
    awake: Cell<bool>,
    counters: QueueCounters,
}

impl MemifQueue {
    /// `None` when the slot has a queue.
    pub(super) fn new(port: PortId, slot: Arc<Slot>) -> Option<MemifQueue> {
        if slot.in_use.swap(true, Ordering::Acquire) {
            return None;
        }
        let counters = QueueCounters::default();
        // A generation that no slot has: whatever is there is news.
        let mut queue = MemifQueue {
            port,
            slot,
            generation: u64::MAX,
            rings: Rings::default(),
            farewell: 0,
            armed: Cell::new(false),
            awake: Cell::new(false),
            counters,
        };
        queue.change();
        Some(queue)
    }

    #[inline(always)]
    fn is_current(&self) -> bool {
        self.slot.generation.load(Ordering::Relaxed) == self.generation
    }

    /// Works with what is in the slot now.
    #[cold]
    fn change(&mut self) {
        let mut place = self.slot.rings.lock().unwrap_or_else(PoisonError::into_inner);
        self.rings = std::mem::take(&mut *place);
        self.generation = self.slot.generation.load(Ordering::Relaxed);
        drop(place);
        self.farewell = usize::from(u16::MAX);
        self.armed.set(false);
        self.slot.news.silence();
    }

    #[cold]
    fn disarm(&mut self) {
        self.armed.set(false);
        if let Some((ring, bell, _)) = self.rings.incoming() {
            ring.ask_for_interrupts(false);
            bell.silence();
        }
        if self.awake.take() {
            self.slot.news.silence();
        }
    }
}

impl Queue for MemifQueue {
    fn port(&self) -> PortId {
        self.port
    }

    #[inline]
    fn receive(&mut self, into: &mut Vec<Packet>, quota: usize) -> usize {
        if self.armed.get() {
            self.disarm();
        }
        let current = self.is_current();
        let quota = if current { quota } else { quota.min(self.farewell) };
        let (port, counters) = (self.port, &mut self.counters);
        let received = match &mut self.rings {
            Rings::Client(Ends { incoming: Some((incoming, _)), .. }) => {
                incoming.receive(into, quota, port, counters)
            }
            Rings::Server(Ends { incoming: Some((incoming, _)), .. }) => {
                incoming.receive(into, quota, port, counters)
            }
            _ => 0,
        };
        if !current {
            self.farewell -= received;
            if received == 0 {
                self.change();
            }
        }
        received
    }

    #[inline]
    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        if !self.is_current() {
            return 0;
        }
        let counters = &mut self.counters;
        match &mut self.rings {
            Rings::Client(Ends { outgoing: Some(outgoing), .. }) => outgoing.transmit(packets, counters),
            Rings::Server(Ends { outgoing: Some(outgoing), .. }) => outgoing.transmit(packets, counters),
            _ => 0,
        }
    }

    /// Looks whether the peer has come or gone.
    fn kick(&mut self) {
        if self.is_current() {
            return;
        }
        // Where nobody receives, what the peer left behind is waited for a while only.
        if !self.rings.receives() || self.farewell == 0 {
            self.change();
        } else {
            self.farewell = self.farewell.saturating_sub(PASSED);
        }
    }

    /// Asks the peer for interrupts, until the next [`Queue::receive`]: to be called before each
    /// sleep.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        let Some((incoming, bell, _)) = self.rings.incoming() else {
            return Some(self.slot.news.as_fd());
        };
        incoming.ask_for_interrupts(true);
        self.armed.set(true);
        // What came before the peer saw that will ring no bell.
        fence(Ordering::SeqCst);
        if !self.is_current() || self.rings.incoming().is_some_and(|(_, _, waiting)| waiting) {
            self.awake.set(true);
            self.slot.news.ring();
            return Some(self.slot.news.as_fd());
        }
        Some(bell.as_fd())
    }

    fn longest(&self) -> Option<u64> {
        if !self.is_current() {
            return None;
        }
        match &self.rings {
            Rings::Client(Ends { outgoing: Some(outgoing), .. }) => outgoing.longest(),
            Rings::Server(Ends { outgoing: Some(outgoing), .. }) => outgoing.longest(),
            _ => None,
        }
    }

    fn untaken(&self) -> u64 {
        if !self.is_current() {
            return 0;
        }
        match &self.rings {
            Rings::Client(Ends { outgoing: Some(outgoing), .. }) => outgoing.untaken().into(),
            Rings::Server(Ends { outgoing: Some(outgoing), .. }) => outgoing.untaken().into(),
            _ => 0,
        }
    }

    fn counters(&self) -> QueueCounters {
        self.counters
    }
}

impl Drop for MemifQueue {
    fn drop(&mut self) {
        if self.armed.get() {
            self.disarm();
        }
        let mut place = self.slot.rings.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_current() {
            // For the next queue that works with this slot.
            *place = std::mem::take(&mut self.rings);
        }
        drop(place);
        self.slot.in_use.store(false, Ordering::Release);
    }
}
