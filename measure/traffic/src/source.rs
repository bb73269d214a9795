//! Sending over queues: one thread a core, each with its lanes.
//!
//! A round makes what is due, at most a batch, hands it to the queue and looks at the clock:
//! packets that were handed over together left together, and are booked so. What a queue does not
//! take stays at the front and is offered again: a port that cannot keep up makes packets late,
//! never fewer, until the time is over. Between packets the thread spins; only when the next one is
//! far off does it sleep.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ::port::clock::now;
use ::port::{Packet, Queue};

use crate::lane::{Lane, Sent};
use crate::size::FCS;

/// Packets of a round at most.
const BATCH: usize = 64;
/// A packet further off than this is slept for, in nanoseconds; one wakes up so long before it is
/// due.
const FAR: u64 = 300_000;
/// Longest sleep, so that a stop is noticed.
const SLEEP: u64 = 20_000_000;
/// How often what was sent is told, in nanoseconds.
const TELL: u64 = 100_000_000;
/// How long after the end packets may leave that were due before it, where the port takes them: a
/// thread that was not let run catches up, a port that is full does not.
const GRACE: u64 = 100_000_000;
/// How long queues have to send what they took.
const FLUSH: u64 = 20_000_000;
/// How long the other end then has to take it, before what it has not taken goes with the port.
const LINGER: u64 = 500_000_000;

/// What was sent so far, for who asks meanwhile.
#[derive(Default)]
pub(crate) struct Post(Mutex<Vec<Sent>>);

impl Post {
    pub(crate) fn put(&self, sent: &[Sent]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sent.to_vec();
    }

    pub(crate) fn get(&self) -> Vec<Sent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// When to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    /// Nanoseconds of the monotonic clock.
    pub(crate) start: u64,
    /// `u64::MAX` for no end.
    pub(crate) end: u64,
}

/// A packet that waits in the batch.
struct Waiting {
    lane: usize,
    due: u64,
    bytes: u64,
}

/// Sends until the end, a stop, or until all lanes are over. This thread has a pool whose packets
/// the queue takes.
pub(crate) fn send(
    queue: &Mutex<Box<dyn Queue>>,
    lanes: &mut [Lane],
    time: Time,
    stop: &AtomicBool,
    post: &Post,
) -> io::Result<()> {
    let mut sender = Sender {
        sent: vec![Sent::default(); lanes.len()],
        packets: Vec::with_capacity(BATCH),
        waiting: Vec::with_capacity(BATCH),
        queue,
    };
    let mut time = time;
    let mut told = time.start;
    let mut clock = now();
    let mut full = false;
    while clock < time.end || !full && clock < time.end.saturating_add(GRACE) {
        // An end that comes early: what was due before it still leaves.
        if stop.load(Ordering::Relaxed) {
            time.end = time.end.min(clock);
        }
        sender.make(lanes, time, clock);
        if sender.packets.is_empty() {
            let open = lanes.iter().filter(|lane| !lane.is_over() && (lane.is_paced() || clock < time.end));
            let Some(next) = open.map(|lane| time.start + lane.due()).min().filter(|&next| next < time.end)
            else {
                break;
            };
            sender.wait(next, clock);
            clock = now();
        } else {
            clock = sender.transmit(lanes);
            full = !sender.packets.is_empty();
            if full {
                // Whoever is to make room may want this core.
                std::thread::yield_now();
            }
        }
        if clock > told + TELL {
            told = clock;
            post.put(&sender.sent);
            // A file that cannot be written any more will not take the rest either.
            lock(queue).flush()?;
        }
    }
    let ended = now().min(time.end).saturating_sub(time.start);
    for (lane, sent) in lanes.iter_mut().zip(&mut sender.sent) {
        sent.offered += lane.missed(ended);
    }
    post.put(&sender.sent);
    let over = now();
    while now() < over + FLUSH || lock(queue).untaken() != 0 && now() < over + LINGER {
        lock(queue).kick();
        std::thread::sleep(Duration::from_millis(1));
    }
    lock(queue).flush()
}

fn lock(queue: &Mutex<Box<dyn Queue>>) -> std::sync::MutexGuard<'_, Box<dyn Queue>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Sender<'a> {
    queue: &'a Mutex<Box<dyn Queue>>,
    sent: Vec<Sent>,
    packets: Vec<Packet>,
    waiting: Vec<Waiting>,
}

impl Sender<'_> {
    /// Makes what is due, each lane its share of a batch.
    fn make(&mut self, lanes: &mut [Lane], Time { start, end }: Time, clock: u64) {
        if clock < start {
            return;
        }
        let share = (BATCH / lanes.len().max(1)).max(1);
        for (number, lane) in lanes.iter_mut().enumerate() {
            let paced = lane.is_paced();
            for _ in 0..share.min(BATCH.saturating_sub(self.packets.len())) {
                if lane.is_over() {
                    break;
                }
                let due = if paced { start + lane.due() } else { clock };
                if due > clock || due >= end || !lane.make(due, &mut self.packets) {
                    break;
                }
                let bytes = self.packets.last().map_or(0, Packet::total_len) as u64 + u64::from(FCS);
                self.waiting.push(Waiting { lane: number, due, bytes });
                self.sent[number].offered += 1;
            }
        }
    }

    /// Offers what was made; the time when it was taken.
    fn transmit(&mut self, lanes: &[Lane]) -> u64 {
        let taken = {
            let mut queue = lock(self.queue);
            let taken = queue.transmit(&mut self.packets);
            queue.kick();
            taken
        };
        let clock = now();
        for gone in self.waiting.drain(..taken) {
            let sent = &mut self.sent[gone.lane];
            if sent.sent.packets == 0 {
                sent.first = clock;
            }
            sent.last = clock;
            sent.sent.packets += 1;
            sent.sent.bytes += gone.bytes;
            if lanes[gone.lane].is_paced() {
                sent.departures.left(gone.due, clock);
            }
        }
        clock
    }

    /// Lets time pass until `next`.
    fn wait(&mut self, next: u64, clock: u64) {
        let far = next.saturating_sub(clock);
        if far > FAR {
            lock(self.queue).kick();
            std::thread::sleep(Duration::from_nanos((far - FAR).min(SLEEP)));
        } else {
            std::hint::spin_loop();
        }
    }
}
