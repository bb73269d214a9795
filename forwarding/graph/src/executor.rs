//! Running the graph.
//!
//! Elements are called in one of two orders, with the same result for every packet:
//!
//! - *In batches*, as the router does. A run goes through the slots in topological order and lets
//!   the elements handle what waits. Batches that split (IPv4, IPv6) come together again before the
//!   element after the join runs once for all of them, and each element's code and tables are in
//!   the cache while it works. A loop leads back to an earlier slot, which has its turn in the next
//!   sweep.
//! - *Packet at a time*, as Click does: each packet goes all its way before the next one begins, so
//!   that what elements print and count appears in the order in which Click's users know it.
//!
//! Packets that circle without an end are dropped. There is no recursion except along pull
//! connections, and an element that is at work is not entered again: its place is empty meanwhile.

use std::sync::Arc;

use port::Packet;
use wire::Reason;

use crate::clock::Clock;
use crate::fabric::{Fabric, Slot};
use crate::schedule::Schedule;
use crate::{Batch, Context, Description, Element, GraphCounters, NodeId, Observer, Sinks};

/// How often a run goes through the graph before what still circles in it is dropped.
pub const SWEEPS: usize = 16;
/// Elements that one packet, and what becomes of it, may enter before it is held to be circling.
const HOPS: usize = 1 << 20;

/// Makes a graph, which has not begun to work, of a configuration's text; else everything that is
/// wrong with it.
pub type Compile = Box<dyn FnMut(&str) -> Result<Graph, String> + Send>;

/// How a graph is run.
#[derive(Clone, Debug)]
pub struct Manner {
    /// In batches, or packet at a time.
    pub batches: bool,
    /// Its time.
    pub clock: Clock,
}

impl Default for Manner {
    fn default() -> Manner {
        Manner { batches: true, clock: Clock::real() }
    }
}

/// A graph ready to run. Made by [`GraphBuilder`](crate::GraphBuilder), or from a text by
/// [`Program`](crate::Program).
pub struct Graph {
    pub(crate) wiring: Arc<Wiring>,
    pub(crate) counters: Arc<GraphCounters>,
    pub(crate) machine: Machine,
    /// A batch in work; empty between runs.
    current: Batch,
}

/// Which output each input of a node pulls from; `None` where it is pushed to.
pub(crate) type Sources = Box<[Option<(NodeId, usize)>]>;

/// What leads where: fixed while the graph lives.
pub(crate) struct Wiring {
    /// Per node, per output: where packets pushed there go.
    pub(crate) outputs: Vec<Box<[Slot]>>,
    /// Per node, per input: which output to pull from.
    pub(crate) sources: Vec<Sources>,
    /// Node and input of each slot.
    pub(crate) slots: Vec<(NodeId, usize)>,
    /// First slot (input 0) of each node.
    pub(crate) entries: Vec<Slot>,
    pub(crate) description: Arc<Description>,
    pub(crate) about: crate::About,
    pub(crate) origin: crate::reconfigure::Origin,
    /// Counters for a caller that is no element.
    pub(crate) nobody: crate::NodeCounters,
}

/// What changes while the graph runs.
pub(crate) struct Machine {
    /// An element at work is taken out of its place.
    pub(crate) elements: Vec<Option<Box<dyn Element>>>,
    pub(crate) fabric: Fabric,
    pub(crate) schedule: Schedule,
    pub(crate) rooms: crate::room::Rooms,
    /// The other parts of a graph on several threads.
    pub(crate) links: Option<crate::threads::Links>,
    /// Threads that elements are to be on.
    pub(crate) homes: std::collections::HashMap<NodeId, usize>,
    pub(crate) observer: Option<Box<dyn Observer>>,
    pub(crate) clock: Clock,
    /// How often the program was asked to stop.
    pub(crate) stops: u32,
    /// What makes a graph of what is written to the `hotconfig` handler, and the graph to change
    /// to.
    pub(crate) compile: Option<Compile>,
    pub(crate) next: Option<Box<Graph>>,
    /// Packets moved: pulled from a queue or given out by a source. To see whether anything
    /// happens.
    pub(crate) moved: u64,
    /// Cycles spent in elements that the present one pulled from.
    pub(crate) nested: u64,
    /// Batches for pulls and flushes.
    pub(crate) spare: Vec<Batch>,
    pub(crate) voice: Box<dyn FnMut(&str) + Send>,
}

impl Graph {
    pub(crate) fn new(elements: Vec<Box<dyn Element>>, wiring: Wiring, manner: Manner) -> Graph {
        let nodes = elements.len();
        Graph {
            counters: Arc::new(GraphCounters::new(wiring.outputs.iter().map(|outputs| outputs.len()))),
            machine: Machine {
                elements: elements.into_iter().map(Some).collect(),
                fabric: Fabric::new(wiring.slots.len(), !manner.batches),
                schedule: Schedule::new(nodes),
                rooms: crate::room::Rooms::default(),
                links: None,
                homes: std::collections::HashMap::new(),
                observer: None,
                clock: manner.clock,
                stops: 0,
                compile: None,
                next: None,
                moved: 0,
                nested: 0,
                spare: (0..8).map(|_| Batch::new()).collect(),
                voice: Box::new(|line| eprintln!("{line}")),
            },
            wiring: Arc::new(wiring),
            current: Batch::new(),
        }
    }

    /// The parts, for whoever calls elements without a graph.
    pub(crate) fn into_parts(self) -> (Machine, Wiring) {
        let wiring =
            Arc::try_unwrap(self.wiring).unwrap_or_else(|_| unreachable!("a graph's wiring has one owner"));
        (self.machine, wiring)
    }

    /// A part of a graph.
    pub(crate) fn part(wiring: Arc<Wiring>, counters: Arc<GraphCounters>, machine: Machine) -> Graph {
        Graph { wiring, counters, machine, current: Batch::new() }
    }

    /// Runs a batch from input 0 of a node until every packet has left the graph, into `sinks`, a
    /// queue of the graph, or dropped. The batch is empty afterwards.
    ///
    /// Panics when `entry` is of another, larger graph.
    #[inline]
    pub fn run(&mut self, entry: NodeId, batch: &mut Batch, sinks: &mut Sinks) {
        self.machine.fabric.push_batch(self.wiring.entries[entry.0], batch);
        self.machine.clock.forget();
        self.settle(sinks);
    }

    /// Runs what elements have emitted until it has left the graph.
    pub(crate) fn settle(&mut self, sinks: &mut Sinks) {
        if self.machine.fabric.one_by_one() {
            let mut batch = std::mem::take(&mut self.current);
            flush(&self.wiring, &self.counters, &mut self.machine, sinks, 0, &mut batch);
            self.current = batch;
            return;
        }
        let measuring = self.counters.measuring();
        let (mut next, mut sweeps) = (0, 0);
        loop {
            let Some(slot) = self.machine.fabric.first(next) else {
                if next == 0 {
                    break;
                }
                sweeps += 1;
                if sweeps >= SWEEPS {
                    self.drop_circling();
                }
                next = 0;
                continue;
            };
            let emptied = self.machine.fabric.pull(slot, &mut self.current);
            next = usize::from(slot.0) + usize::from(emptied);
            enter(&self.wiring, &self.counters, &mut self.machine, sinks, slot, &mut self.current, measuring);
        }
    }

    #[cold]
    fn drop_circling(&mut self) {
        while let Some(slot) = self.machine.fabric.first(0) {
            self.machine.fabric.pull(slot, &mut self.current);
            drop_all(&self.wiring, &self.counters, &mut self.machine, slot, &mut self.current);
        }
    }

    /// Lets elements have their turns: timers that have expired, then each task that is scheduled
    /// once. Returns whether there was anything to do; if not, nothing will be before
    /// [`Graph::next_event`], unless a watched file descriptor becomes readable or packets arrive.
    pub fn work(&mut self, sinks: &mut Sinks) -> bool {
        let moved = self.machine.moved;
        let mut worked = self.expire(sinks);
        self.machine.schedule.begin_round();
        for _ in 0..self.machine.schedule.scheduled() {
            let Some(node) = self.machine.schedule.next_task() else { break };
            self.machine.clock.forget();
            let before = self.machine.moved;
            let did = self.with(node, sinks, |element, cx| element.task(cx)).unwrap_or_default();
            self.settle(sinks);
            self.machine.schedule.rest(node, !did && self.machine.moved == before);
            worked |= did;
            if self.machine.stops > 0 {
                return true;
            }
        }
        worked || self.machine.moved != moved
    }

    /// Runs the timers that have expired; whether there were any.
    fn expire(&mut self, sinks: &mut Sinks) -> bool {
        self.machine.clock.forget();
        let now = self.machine.clock.steady();
        let mut any = false;
        // One that is set again for now has its next turn in the next round.
        let latest = self.machine.schedule.latest();
        while let Some((node, id)) = self.machine.schedule.next_timer(now, latest) {
            any = true;
            self.with(node, sinks, |element, cx| element.timer(id, cx));
            self.settle(sinks);
            if self.machine.stops > 0 {
                break;
            }
        }
        any
    }

    /// Tells elements that a file descriptor they watch is readable.
    pub fn ready(&mut self, fd: std::os::fd::RawFd, sinks: &mut Sinks) {
        self.machine.clock.forget();
        let watchers: Vec<NodeId> = self
            .machine
            .schedule
            .watched()
            .iter()
            .filter(|(watched, _)| *watched == fd)
            .map(|(_, node)| *node)
            .collect();
        for node in watchers {
            self.with(node, sinks, |element, cx| element.ready(fd, cx));
            self.settle(sinks);
        }
    }

    /// Tells the elements that want it of a signal; whether there were any.
    pub fn signal(&mut self, signal: i32, sinks: &mut Sinks) -> bool {
        self.machine.clock.forget();
        let caught = self.machine.schedule.signals().iter().filter(|(caught, _)| *caught == signal);
        let nodes: Vec<NodeId> = caught.map(|(_, node)| *node).collect();
        for node in &nodes {
            self.with(*node, sinks, |element, cx| element.signal(signal, cx));
            self.settle(sinks);
        }
        !nodes.is_empty()
    }

    /// The file descriptors that elements watch.
    pub fn watched(&self) -> impl Iterator<Item = std::os::fd::RawFd> + '_ {
        self.machine.schedule.watched().iter().map(|(fd, _)| *fd)
    }

    /// When [`Graph::work`] has something to do again, in steady nanoseconds of [`Graph::now`];
    /// `None`: not by itself.
    pub fn next_event(&self) -> Option<u64> {
        self.machine.schedule.next_event()
    }

    /// Steady time, in nanoseconds since the program began.
    pub fn now(&mut self) -> u64 {
        self.machine.clock.forget();
        self.machine.clock.steady()
    }

    /// Moves simulated time on to `to`.
    pub fn jump(&mut self, to: u64) {
        self.machine.clock.jump(to);
    }

    /// Whether time is simulated.
    pub fn is_simulated(&self) -> bool {
        self.machine.clock.is_simulated()
    }

    /// Whether there are tasks or timers, so that [`Graph::work`] must be called.
    #[inline]
    pub fn wants_turns(&self) -> bool {
        self.machine.schedule.wants_turns()
    }

    /// How many tasks want a turn.
    pub fn scheduled(&self) -> usize {
        self.machine.schedule.scheduled()
    }

    /// Whether an element, or a handler, asked the program to stop, and none that directs the run
    /// wants to go on.
    pub fn stopping(&mut self, sinks: &mut Sinks) -> bool {
        while self.machine.stops > 0 {
            self.machine.stops -= 1;
            let mut on = false;
            for node in 0..self.machine.elements.len() {
                on |= self.with(NodeId(node), sinks, |element, cx| element.stopped(cx)).unwrap_or_default();
                self.settle(sinks);
            }
            if !on {
                return true;
            }
        }
        false
    }

    /// Ends the run for certain: an element that directs it has its last steps, up to `steps` of
    /// them.
    pub fn finish(&mut self, steps: usize, sinks: &mut Sinks) {
        for _ in 0..steps {
            self.machine.stops = 1;
            if self.stopping(sinks) {
                break;
            }
        }
    }

    /// Signals that elements want.
    pub(crate) fn caught_signals(&self) -> impl Iterator<Item = i32> + '_ {
        self.machine.schedule.signals().iter().map(|(signal, _)| *signal)
    }

    /// Opens the `hotconfig` handler: what is written to it is made a graph by `compile`, whose
    /// error goes to the writer.
    pub fn allow_hot_configuration(&mut self, compile: Compile) {
        self.machine.compile = Some(compile);
    }

    /// Whether there is a graph to change to.
    pub(crate) fn changes(&self) -> bool {
        self.machine.next.is_some()
    }

    /// The graph that was made of what was written to the `hotconfig` handler, once.
    pub fn take_next(&mut self) -> Option<Graph> {
        self.machine.next.take().map(|next| *next)
    }

    /// Says a line where the elements say theirs.
    pub fn say(&mut self, line: &str) {
        (self.machine.voice)(line);
    }

    /// Lines that elements say (Print, Message, errors while running) go to `voice`, without the
    /// newline; otherwise to standard error.
    pub fn listen(&mut self, voice: Box<dyn FnMut(&str) + Send>) {
        self.machine.voice = voice;
    }

    /// Calls an element, if it is not at work.
    pub(crate) fn with<T>(
        &mut self,
        node: NodeId,
        sinks: &mut Sinks,
        call: impl FnOnce(&mut dyn Element, &mut Context<'_>) -> T,
    ) -> Option<T> {
        let mut context = Context::new(node, &self.wiring, &self.counters, &mut self.machine, sinks)?;
        context.with_element(node, call)
    }

    /// The counters, to be read by any thread, also after the graph is gone.
    pub fn counters(&self) -> Arc<GraphCounters> {
        self.counters.clone()
    }

    /// The nodes and edges.
    pub fn description(&self) -> Arc<Description> {
        self.wiring.description.clone()
    }

    /// An element, to look at.
    pub fn element<T: Element>(&self, name: &str) -> Option<&T> {
        let node = self.wiring.description.find(name)?.id;
        let element: &dyn std::any::Any = self.machine.elements.get(node.0)?.as_deref()?;
        element.downcast_ref()
    }

    /// Sets, or with `None` removes, the observer, and returns the one that was there.
    pub fn observe(&mut self, observer: Option<Box<dyn Observer>>) -> Option<Box<dyn Observer>> {
        std::mem::replace(&mut self.machine.observer, observer)
    }
}

/// Packet at a time: handles what was emitted above `depth`, with all that follows from it.
pub(crate) fn flush(
    wiring: &Wiring,
    counters: &GraphCounters,
    machine: &mut Machine,
    sinks: &mut Sinks,
    depth: usize,
    batch: &mut Batch,
) {
    let measuring = counters.measuring();
    let mut hops = 0;
    while let Some(slot) = machine.fabric.pop(depth, batch) {
        hops += 1;
        if hops > HOPS {
            drop_all(wiring, counters, machine, slot, batch);
        } else {
            enter(wiring, counters, machine, sinks, slot, batch, measuring);
        }
    }
}

/// Lets the element of a slot handle a batch, which is empty afterwards.
#[inline]
fn enter(
    wiring: &Wiring,
    counters: &GraphCounters,
    machine: &mut Machine,
    sinks: &mut Sinks,
    slot: Slot,
    batch: &mut Batch,
    measuring: bool,
) {
    let Some((node, input)) = wiring.slots.get(usize::from(slot.0)).copied() else { return };
    let packets = batch.len();
    let Some(counts) = counters.node(node) else { return };
    let Some(mut element) = machine.elements[node.0].take() else {
        let Some(links) = &machine.links else {
            // Only a flush in the middle of an element's work comes here, with a packet that led
            // back to it.
            batch.drain().for_each(|_| counts.count_drop(Reason::Discarded));
            return;
        };
        if !links.send(slot, node, batch) {
            batch.drain().for_each(|_| counts.count_drop(Reason::Discarded));
        }
        return;
    };
    counts.count_batch(packets);
    if let Some(observer) = &mut machine.observer {
        observer.entered(node, input, batch);
    }
    let outputs = &wiring.outputs[node.0];
    let start = if measuring { cycles() } else { 0 };
    let mut context = Context { node, outputs, counters: counts, all: counters, wiring, machine, sinks };
    element.push(input, batch, &mut context);
    if measuring {
        let nested = std::mem::take(&mut machine.nested);
        counts.count_cycles(packets, cycles().wrapping_sub(start).saturating_sub(nested));
    }
    machine.elements[node.0] = Some(element);
    // What the element left there is freed here, and not by whoever gets the batch next.
    if !batch.is_empty() {
        drop(batch.drain());
    }
}

#[cold]
fn drop_all(wiring: &Wiring, counters: &GraphCounters, machine: &mut Machine, slot: Slot, batch: &mut Batch) {
    let Some((node, _)) = wiring.slots.get(usize::from(slot.0)).copied() else { return };
    for packet in batch.drain() {
        if let Some(counters) = counters.node(node) {
            counters.count_drop(Reason::TtlExpired);
        }
        note_drop(machine, node, &packet);
    }
}

fn note_drop(machine: &mut Machine, node: NodeId, packet: &Packet) {
    if let Some(observer) = &mut machine.observer {
        observer.dropped(node, packet, Reason::TtlExpired);
    }
}

/// The time stamp counter, or nanoseconds where there is none.
#[inline]
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86_64 processor has RDTSC, and Linux does not forbid it to user space.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static ORIGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        ORIGIN.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
    }
}
