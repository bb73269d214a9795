//! Receiving over queues: one thread that reads stamps.
//!
//! The clock is read once a batch. While packets come the thread does not sleep, for waking up
//! would be part of every latency; it only lets others run that want its core.

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ::port::Queue;
use ::port::clock::now;

use crate::payload;
use crate::report::Count;
use crate::size::FCS;
use crate::stamp::Stamp;
use crate::tally::{Lane, Tally};

/// Packets of a batch at most.
const BATCH: usize = 64;
/// How long nothing must have come before the thread sleeps, in nanoseconds.
const QUIET: u64 = 5_000_000;
/// How long it then sleeps at most.
const SLEEP: Duration = Duration::from_millis(2);
/// How often what arrived is told, in nanoseconds.
const TELL: u64 = 100_000_000;

/// What arrived, lane by lane; and what was none of the lanes'.
#[derive(Clone, Default)]
pub struct Arrived {
    /// By lane's number.
    pub lanes: Vec<Tally>,
    /// Frames without a stamp of the trial.
    pub foreign: Count,
    /// Frames that the port had no room for, or could make no sense of: nobody knows what they
    /// were.
    pub missed: u64,
}

/// What arrived so far, for who asks meanwhile.
#[derive(Default)]
pub(crate) struct Post(Mutex<Arrived>);

impl Post {
    pub(crate) fn put(&self, arrived: Arrived) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = arrived;
    }

    pub(crate) fn get(&self) -> Arrived {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What to look for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// The trial's number.
    pub(crate) mark: u16,
    /// How many lanes.
    pub(crate) lanes: u16,
    /// What to add to a time of the sender's clock for one of ours, in nanoseconds.
    pub(crate) offset: i64,
}

/// Judges frames one by one.
pub struct Judge {
    expected: Expected,
    lanes: Vec<Lane>,
    foreign: Count,
}

impl Judge {
    pub(crate) fn new(expected: Expected) -> Judge {
        Judge { expected, lanes: vec![Lane::default(); expected.lanes.into()], foreign: Count::default() }
    }

    /// A frame without check sequence arrived by a queue at `now`.
    #[inline]
    pub fn frame(&mut self, frame: &[u8], queue: u16, now: u64) {
        let bytes = frame.len() as u64 + u64::from(FCS);
        let payload = payload::find(frame).unwrap_or_default();
        let stamp = Stamp::read(payload).filter(|stamp| stamp.mark == self.expected.mark);
        let lane = stamp.and_then(|stamp| Some((stamp, self.lanes.get_mut(usize::from(stamp.lane))?)));
        match lane {
            Some((stamp, lane)) if wire::checksum::verify(payload) => {
                let clock = now.wrapping_add_signed(-self.expected.offset);
                let due = stamp.time_near(clock).wrapping_add_signed(self.expected.offset);
                lane.arrived(bytes, queue, stamp.sequence, due, now);
            }
            Some((_, lane)) => lane.corrupt(bytes, now),
            None => {
                self.foreign.packets += 1;
                self.foreign.bytes += bytes;
            }
        }
    }

    /// What arrived.
    pub fn arrived(&self) -> Arrived {
        Arrived { lanes: self.lanes.iter().map(Lane::tally).collect(), foreign: self.foreign, missed: 0 }
    }
}

/// Throws away what lies in the queues from before the trial, unless it never ends.
fn discard(queues: &[Mutex<Box<dyn Queue>>]) {
    let (began, mut packets) = (now(), Vec::with_capacity(BATCH));
    for queue in queues {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        while queue.receive(&mut packets, BATCH) != 0 && now() < began + QUIET {
            packets.clear();
            queue.kick();
        }
    }
}

/// Frames that queues have lost since they were opened.
fn missed(queues: &[Mutex<Box<dyn Queue>>]) -> u64 {
    let lost = |queue: &Mutex<Box<dyn Queue>>| {
        let counters = queue.lock().unwrap_or_else(PoisonError::into_inner).counters();
        counters.lost() + counters.corrupt
    };
    queues.iter().map(lost).sum()
}

/// Receives until stopped. `listens` is dropped once nothing that is sent from now on can be
/// missed.
pub(crate) fn receive(
    queues: &[Mutex<Box<dyn Queue>>],
    expected: Expected,
    stop: &AtomicBool,
    post: &Post,
    listens: Sender<()>,
) {
    discard(queues);
    let before = missed(queues);
    let mut listens = Some(listens);
    let mut judge = Judge::new(expected);
    let arrived = |judge: &Judge| Arrived { missed: missed(queues) - before, ..judge.arrived() };
    let mut packets = Vec::with_capacity(BATCH);
    let (mut told, mut last) = (now(), now());
    let mut whole = Vec::new();
    let mut stopped_at = None;
    loop {
        let stopping = stop.load(Ordering::Relaxed);
        let mut any = false;
        let mut fds = Vec::new();
        for (number, queue) in (0..).zip(queues) {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            any |= queue.receive(&mut packets, BATCH) != 0;
            queue.kick();
            let clock = now();
            drop(queue);
            for packet in packets.drain(..) {
                if packet.segment_count() == 1 {
                    judge.frame(packet.data(), number, clock);
                } else {
                    whole.clear();
                    packet.segments().for_each(|segment| whole.extend_from_slice(segment));
                    judge.frame(&whole, number, clock);
                }
            }
        }
        drop(listens.take());
        let clock = now();
        if any {
            last = clock;
        }
        // What lies in the queues when it is to stop is still counted, unless it never ends.
        if stopping && (!any || clock > *stopped_at.get_or_insert(clock) + QUIET) {
            break;
        }
        if clock > told + TELL {
            told = clock;
            post.put(arrived(&judge));
        }
        if clock > last + QUIET {
            for queue in queues {
                let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                fds.extend(queue.fd().map(|fd| fd.as_raw_fd()));
            }
            if fds.is_empty() {
                std::thread::sleep(SLEEP / 10);
            } else {
                ::port::wait(&fds, Some(SLEEP));
            }
        } else if !any {
            // Whoever is to send may want this core.
            std::thread::yield_now();
        }
    }
    post.put(arrived(&judge));
}

/// Lanes put together by stream: `owners` says whose each lane is.
pub(crate) fn by_stream(arrived: &Arrived, owners: &[usize], streams: usize) -> Vec<Tally> {
    let mut tallies: HashMap<usize, Tally> = HashMap::new();
    for (tally, &owner) in arrived.lanes.iter().zip(owners) {
        tallies.entry(owner).or_default().add(tally);
    }
    (0..streams).map(|stream| tallies.remove(&stream).unwrap_or_default()).collect()
}
