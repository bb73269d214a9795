//! The agent: a thread that turns samples and counters into datagrams for every collector.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flow::sample::{Lane, Sampler};
use serde::Serialize;

use super::datagram::{Datagrams, InterfaceCounters, Source};
use crate::clock::now;
use crate::export::{Way, payload};
use crate::settings::SflowPlan;
use crate::tally::{Count, Tally};

/// How long a sample may wait.
const ROUND: Duration = Duration::from_millis(100);

/// Asked for the interfaces' counters once an interval.
pub type Counters = Box<dyn FnMut() -> Vec<InterfaceCounters> + Send>;

/// The sFlow agent. Dropped, it sends what waits and ends.
pub struct Agent {
    plan: SflowPlan,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    samplers: AtomicU32,
}

struct Shared {
    lanes: Mutex<Vec<Arc<Lane>>>,
    tallies: Vec<Arc<Tally>>,
    stop: AtomicBool,
}

/// What an agent has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentCount {
    /// Packets that could have been sampled.
    pub seen: u64,
    /// Samples that found the queue full.
    pub lost: u64,
    /// Collectors; a record is a sample.
    pub collectors: Vec<Count>,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl Agent {
    /// Starts the thread.
    pub fn start(plan: SflowPlan, counters: Counters) -> io::Result<Agent> {
        let tally = |to: &SocketAddr| Arc::new(Tally::new(format!("sflow udp {to}")));
        let shared = Arc::new(Shared {
            lanes: Mutex::default(),
            tallies: plan.collectors.iter().map(tally).collect(),
            stop: AtomicBool::new(false),
        });
        let mut work = Work::new(plan.clone(), Arc::clone(&shared), counters);
        let thread = thread::Builder::new().name("sflow".to_owned()).spawn(move || work.run())?;
        Ok(Agent { plan, shared, thread: Some(thread), samplers: AtomicU32::new(0) })
    }

    /// A sampler for one port (its ifindex) on one worker.
    pub fn sampler(&self, input: u32) -> Sampler {
        let seed = now() ^ u64::from(self.samplers.fetch_add(1, Relaxed)) << 48;
        let (sampler, lane) = Sampler::new(input, self.plan.sample, self.plan.header, seed);
        self.shared.lanes().push(lane);
        sampler
    }

    /// What it has done so far, of the samplers that are in use.
    pub fn count(&self) -> AgentCount {
        let lanes = self.shared.lanes();
        AgentCount {
            seen: lanes.iter().map(|lane| lane.seen.load(Relaxed)).sum(),
            lost: lanes.iter().map(|lane| lane.lost.load(Relaxed)).sum(),
            collectors: self.shared.tallies.iter().map(|tally| tally.count()).collect(),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("sFlow: its thread panicked");
        }
    }
}

impl Shared {
    fn lanes(&self) -> MutexGuard<'_, Vec<Arc<Lane>>> {
        // Whoever panicked with it had at most pushed.
        self.lanes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// What the format counts for each port.
#[derive(Clone, Copy, Default)]
struct Port {
    packets: u32,
    counters: u32,
    /// Of samplers that are gone.
    pool: u64,
    drops: u64,
}

struct Work {
    plan: SflowPlan,
    shared: Arc<Shared>,
    counters: Counters,
    ways: Vec<Way>,
    datagrams: Datagrams,
    ports: BTreeMap<u32, Port>,
    started: Instant,
    counted: Instant,
}

impl Work {
    fn new(plan: SflowPlan, shared: Arc<Shared>, counters: Counters) -> Work {
        let limits = plan.collectors.iter().map(|to| payload(plan.mtu, *to));
        let datagrams = Datagrams::new(plan.agent, limits.min().unwrap_or(1400));
        let ways = plan.collectors.iter().map(|to| Way::new(*to, None)).collect();
        let started = Instant::now();
        Work { plan, shared, counters, ways, datagrams, ports: BTreeMap::new(), started, counted: started }
    }

    fn run(&mut self) {
        loop {
            // Looked at first: what was pushed before the end is still sent.
            let last = self.shared.stop.load(Relaxed);
            let mut ready = Vec::new();
            let samples = self.round(&mut ready, last);
            self.datagrams.flush(&mut ready);
            self.send(&ready, samples);
            if last {
                for (way, tally) in self.ways.iter_mut().zip(&self.shared.tallies) {
                    way.settle(tally);
                }
                return;
            }
            thread::sleep(ROUND);
        }
    }

    /// Puts all that waits into datagrams; how many samples that was.
    fn round(&mut self, ready: &mut Vec<Vec<u8>>, last: bool) -> usize {
        let uptime = self.started.elapsed().as_millis() as u32;
        let mut samples = 0;
        let lanes = self.shared.lanes().clone();
        for lane in &lanes {
            // At most what a queue holds, so that a flood of one port leaves time for the others.
            for _ in 0..lane.samples.capacity() {
                let Some(sample) = lane.samples.pop() else { break };
                let port = self.ports.entry(lane.input).or_default();
                port.packets = port.packets.wrapping_add(1);
                let of_port = || lanes.iter().filter(|other| other.input == lane.input);
                let pool = port.pool + of_port().map(|lane| lane.seen.load(Relaxed)).sum::<u64>();
                let drops = port.drops + of_port().map(|lane| lane.lost.load(Relaxed)).sum::<u64>();
                let source = Source {
                    input: lane.input,
                    sequence: port.packets,
                    rate: self.plan.sample,
                    pool: pool as u32,
                    drops: drops as u32,
                };
                self.datagrams.packet(source, &sample, uptime, ready);
                samples += 1;
            }
        }
        drop(lanes);
        self.retire();
        if self.counted.elapsed() >= self.plan.counters || last {
            self.counted = Instant::now();
            for counters in (self.counters)() {
                let port = self.ports.entry(counters.index).or_default();
                port.counters = port.counters.wrapping_add(1);
                self.datagrams.counters(port.counters, &counters, uptime, ready);
                samples += 1;
            }
        }
        samples
    }

    /// Forgets samplers that nobody has any more, but not what they counted.
    fn retire(&mut self) {
        let ports = &mut self.ports;
        self.shared.lanes().retain(|lane| {
            let kept = Arc::strong_count(lane) > 1 || !lane.samples.is_empty();
            if !kept {
                let port = ports.entry(lane.input).or_default();
                port.pool += lane.seen.load(Relaxed);
                port.drops += lane.lost.load(Relaxed);
            }
            kept
        });
    }

    fn send(&mut self, ready: &[Vec<u8>], samples: usize) {
        for (way, tally) in self.ways.iter_mut().zip(&self.shared.tallies) {
            tally.given(samples);
            way.settle(tally);
            for bytes in ready {
                let at = if self.plan.agent.is_ipv4() { 24 } else { 36 };
                let held = u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
                way.send(bytes, held as usize, tally);
            }
        }
    }
}
