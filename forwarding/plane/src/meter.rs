//! What a worker says of itself: numbers with one writer, the worker, and any number of readers.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use port::QueueCounters;
use wire::Class;

/// What a worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Polling its queues.
    Polling = 0,
    /// Asleep until a packet or an order comes.
    Asleep = 1,
    /// It failed; the supervisor is about to start it again.
    Failed = 2,
}

/// A number that one thread adds to and others read.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// The number now.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A worker's numbers, from its first start on: they outlive a restart.
#[derive(Debug, Default)]
pub struct WorkerMeter {
    state: AtomicU8,
    /// Packets received.
    pub packets: Count,
    /// Receives that brought at least one packet.
    pub batches: Count,
    /// Rounds over all queues.
    pub rounds: Count,
    /// Times that it slept and was woken.
    pub wakeups: Count,
    /// Nanoseconds in rounds that found packets.
    pub busy_ns: Count,
    /// Packets dropped because an out port's transmit ring was full.
    pub transmit_full: Count,
    /// Packets for Linux above the limit of their class.
    pub policed: [Count; Class::COUNT],
    /// Packets that could not be handed to Linux.
    pub punt_failed: Count,
}

impl WorkerMeter {
    /// What the worker is doing.
    pub fn state(&self) -> State {
        match self.state.load(Relaxed) {
            0 => State::Polling,
            1 => State::Asleep,
            _ => State::Failed,
        }
    }

    pub(crate) fn set_state(&self, state: State) {
        self.state.store(state as u8, Relaxed);
    }
}

macro_rules! queue_meter {
    ($($field:ident),* $(,)?) => {
        /// A queue's [`QueueCounters`] as its worker last published them: a few times a second.
        #[derive(Debug, Default)]
        pub struct QueueMeter { $($field: AtomicU64),* }

        impl QueueMeter {
            pub(crate) fn publish(&self, counters: &QueueCounters) {
                $(self.$field.store(counters.$field, Relaxed);)*
            }

            /// The counters as last published.
            pub fn read(&self) -> QueueCounters {
                QueueCounters { $($field: self.$field.load(Relaxed)),* }
            }
        }
    };
}

queue_meter!(
    rx_packets,
    rx_bytes,
    tx_packets,
    tx_bytes,
    rx_ring_full,
    rx_no_frame,
    rx_dropped,
    corrupt,
    tx_invalid,
    wakeups,
);
