//! A worker: one thread on one core, which owns queue *i* of every port and shares nothing that it
//! writes.
//!
//! A round takes at most [`QUOTA`] packets from each port, beginning with another queue each time,
//! so that a flooded port gets its share and no more; where a worker serves many queues of a port,
//! they share that quota (but each has some: [`LEAST`]). The packets run through the worker's own
//! instance of the graph; what the graph staged is then handed to the out ports' queues, and each
//! queue gets one kick.
//!
//! When some rounds in a row found nothing, the worker sleeps in poll(2) on its sockets and its
//! bell. That is NAPI's bargain, with the race that NAPI must look at twice (a packet that comes
//! between the last look and the sleep) left to the kernel: readiness is level-triggered, so such a
//! packet ends the sleep at once. While it sleeps it holds no reference into the tables
//! (`Reader::offline`), so the writer need not wait for it.
//!
//! What does not fit the transmit ring of an out port after the kick is dropped, as a NIC does, and
//! counted: waiting would let one congested port hold up the others.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};

use elements::router::SharedContext;
use fib::{HopKind, PortId, Reader, TableId, View};
use graph::{Batch, Graph, Hand, HandlerError, NodeId, Observer, Sinks};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use port::driver::pulse::{self, Pulse};
use port::{Packet, Queue};

use crate::handoff::HandoffQueue;
use crate::meter::{QueueMeter, State, WorkerMeter};
use crate::police::{Limits, Police};

/// Most packets taken from a port in a round, NAPI's weight.
pub const QUOTA: usize = 64;
/// Least quota of a queue: a look at one costs as much as some packets.
pub(crate) const LEAST: usize = 8;
/// Rounds without a packet before a worker sleeps.
const PATIENCE: u32 = 32;
/// Longest sleep: how late counters of a silent queue can be. Well below what the driver's programs
/// wait for a worker ([`pulse::USUAL`]).
const SLEEP_MS: u16 = 300;
/// Rounds after which a busy worker looks at the clock: a look takes as long as to forward a packet
/// or two, and a round some microseconds.
pub const CLOCK_EVERY: usize = 8;
/// Rounds that empty the fullest ring.
const DRAIN: usize = 64;
/// Threads that close a worker's queues at its end, at most, and bytes of the stack of each.
const CLOSERS: usize = 64;
const STACK: usize = 128 << 10;
/// How often a busy worker publishes its queues' counters, in nanoseconds.
const PUBLISH: u64 = 100_000_000;

/// What the control thread can ask of a worker.
pub enum WorkerCommand {
    /// Serve this queue, and tell by the sender when it is ready to receive. Nothing may be left
    /// lying in the sender's channel: the queue is kept only if somebody learns of it.
    Serve(Box<dyn Queue>, Arc<QueueMeter>, SyncSender<()>),
    /// Close the queues of this port, then tell by the sender.
    Leave(PortId, SyncSender<()>),
    /// Empty the queues, then tell by the sender.
    Drain(SyncSender<()>),
    /// Empty the queues and close them all, then tell by the sender.
    LeaveAll(SyncSender<()>),
    /// Send what leaves by this port through a colleague, or not at all.
    Handoff(PortId, Option<Arc<HandoffQueue>>),
    /// Change to this graph, whose frames enter at the node, and say what its elements object to.
    Change(Box<Graph>, NodeId, SyncSender<Result<(), Vec<(NodeId, String)>>>),
    /// Read or write a handler of the graph.
    Handle(Request, SyncSender<Result<String, HandlerError>>),
    /// Show what happens to this observer, or to nobody, then tell by the sender.
    Observe(Option<Box<dyn Observer>>, SyncSender<()>),
    /// Panic: to see that a worker that does takes only itself down.
    Fail,
    /// Empty the queues, close them, and end.
    Stop,
}

/// What is asked of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `element.handler`.
    pub handler: String,
    /// `None`: read it; otherwise write this.
    pub value: Option<String>,
}

/// Where a worker leaves what Linux is to complete.
pub trait Linux: Send + Sync {
    /// Hands over a frame as it came in by the interface; false when Linux did not take it.
    /// `judged`: the router's filter has let it pass.
    fn hand(&self, packet: &Packet, ifindex: u32, judged: bool) -> bool;

    /// Has an IP packet sent where its destination is; false when Linux did not take it.
    fn send(&self, packet: &Packet, by: Sending) -> bool;
}

/// How Linux finds the way of a packet that it is to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// By this table: the main one or a VRF's.
    Table(TableId),
    /// By the interface with this number of Linux's, which routing rules chose. Linux would ask its
    /// rules again, about a packet that came in by no interface.
    Interface(u32),
}

/// How Linux is to find the way of a packet; `None`: rules refuse it, or none decides.
fn sending(view: &View, packet: &Packet) -> Option<Sending> {
    let table = view.hops().link(packet.input).table();
    let ifindex = view.interface(packet.output).ifindex();
    match view.hop(packet.next_hop).kind() {
        _ if table != TableId::BY_RULES => Some(Sending::Table(table)),
        HopKind::Punt => Some(Sending::Table(TableId::MAIN)),
        HopKind::Forward | HopKind::Glean => Some(ifindex).filter(|n| *n != 0).map(Sending::Interface),
        _ => None,
    }
}

/// What a worker works with.
pub struct WorkerParts {
    /// The tables.
    pub view: View,
    /// Its registration as a reader of them.
    pub reader: Reader,
    /// This worker's instance of the graph.
    pub graph: Graph,
    /// Where received packets enter it.
    pub entry: NodeId,
    /// Orders from the control thread.
    pub orders: Receiver<WorkerCommand>,
    /// What its elements know together.
    pub context: SharedContext,
    /// Packets from colleagues, and the bell.
    pub handoff_queue: Arc<HandoffQueue>,
    /// What it says of itself.
    pub meter: Arc<WorkerMeter>,
    /// Where the packets go that Linux is to complete.
    pub linux: Arc<dyn Linux>,
    /// How many of them.
    pub limits: Arc<Limits>,
    /// Where it says that it is there.
    pub pulse: Pulse,
}

struct Served {
    queue: Box<dyn Queue>,
    quota: usize,
    meter: Arc<QueueMeter>,
}

/// How packets leave by a port.
#[derive(Clone)]
enum Exit {
    Closed,
    Queue(usize),
    Colleague(Arc<HandoffQueue>),
}

/// A worker at work. Made and run on its own thread, with the packet memory's pool installed there.
pub struct Worker {
    parts: WorkerParts,
    queues: Vec<Served>,
    exits: Vec<Exit>,
    sinks: Sinks,
    batch: Batch,
    /// The packet of a colleague that is being sent.
    passing: Vec<Packet>,
    /// The queue that the next round begins with.
    first: usize,
    /// When the clock was last looked at, and when counters were last shown, in steady nanoseconds.
    now: u64,
    published: u64,
    /// Rounds with packets since then.
    busy: usize,
    police: Police,
}

impl Worker {
    /// A worker without queues.
    pub fn new(parts: WorkerParts) -> Worker {
        Worker {
            parts,
            queues: Vec::new(),
            exits: Vec::new(),
            sinks: Sinks::new(),
            batch: Batch::new(),
            passing: Vec::with_capacity(1),
            first: 0,
            now: graph::steady_now(),
            published: 0,
            busy: 0,
            police: Police::default(),
        }
    }

    /// Works until told to stop.
    pub fn run(mut self) {
        let mut idle = 0;
        loop {
            match self.obey() {
                Obeyed::Stop => return self.leave_all(),
                Obeyed::Something => idle = 0,
                Obeyed::Nothing => {}
            }
            let packets = self.round();
            self.parts.meter.rounds.add(1);
            self.parts.reader.quiescent();
            self.busy += usize::from(packets > 0);
            if packets == 0 || self.busy == CLOCK_EVERY {
                self.look_at_clock();
            }
            let more = self.parts.context.maintain(self.now);
            if packets > 0 {
                self.parts.meter.packets.add(packets as u64);
                idle = 0;
            } else if !more {
                idle += 1;
            }
            if idle > PATIENCE {
                self.sleep();
                idle = 0;
            } else if self.now.saturating_sub(self.published) >= PUBLISH {
                self.publish();
            }
        }
    }

    /// One look serves all that is to be timed.
    fn look_at_clock(&mut self) {
        let before = std::mem::replace(&mut self.now, graph::steady_now());
        if std::mem::take(&mut self.busy) > 0 {
            self.parts.meter.busy_ns.add(self.now.saturating_sub(before));
        }
    }

    /// One round over all queues and the handoff queue; the number of packets moved.
    fn round(&mut self) -> usize {
        let mut packets = 0;
        let count = self.queues.len();
        for turn in 0..count {
            let served = &mut self.queues[(self.first + turn) % count];
            let mut quota = served.quota;
            // Queues with few packets share a batch; one that fills it gets a second go with the
            // rest of its quota.
            while quota > 0 {
                let room = self.batch.room().min(quota);
                let received = self.batch.receive(served.queue.as_mut(), room);
                packets += received;
                quota -= received;
                self.parts.meter.batches.add(u64::from(received > 0));
                if self.batch.room() == 0 {
                    self.parts.graph.run(self.parts.entry, &mut self.batch, &mut self.sinks);
                }
                if received < room {
                    break;
                }
            }
        }
        self.first = (self.first + 1) % count.max(1);
        if !self.batch.is_empty() {
            self.parts.graph.run(self.parts.entry, &mut self.batch, &mut self.sinks);
        }
        packets += self.send_handed_off();
        if self.parts.graph.wants_turns() {
            packets += usize::from(self.parts.graph.work(&mut self.sinks));
        }
        if !self.sinks.is_empty() {
            self.punt(self.now);
            self.transmit();
        }
        for served in &mut self.queues {
            served.queue.kick();
        }
        packets
    }

    /// Sends packets that other workers put into the handoff queue; at most a quota, for fairness.
    fn send_handed_off(&mut self) -> usize {
        let mut packets = 0;
        while packets < QUOTA
            && let Some(packet) = self.parts.handoff_queue.take()
        {
            packets += 1;
            let Exit::Queue(index) = self.exit(PortId(packet.output.0)) else { continue };
            // Sockets send only from their own worker's memory.
            self.passing.extend(packet.duplicate());
            self.queues[index].queue.transmit(&mut self.passing);
            self.parts.meter.transmit_full.add(self.passing.len() as u64);
            self.passing.clear();
        }
        packets
    }

    fn exit(&self, port: PortId) -> Exit {
        self.exits.get(usize::from(port.0)).cloned().unwrap_or(Exit::Closed)
    }

    fn transmit(&mut self) {
        let (queues, exits, meter) = (&mut self.queues, &self.exits, &self.parts.meter);
        self.sinks.transmit(|port, packets| {
            match exits.get(usize::from(port.0)) {
                Some(Exit::Queue(index)) => {
                    let queue = &mut queues[*index].queue;
                    queue.transmit(packets);
                    if !packets.is_empty() {
                        // The ring is full: what it sent may have made room.
                        queue.kick();
                        queue.transmit(packets);
                    }
                }
                Some(Exit::Colleague(handoff_queue)) => {
                    let mut refused = 0;
                    for packet in packets.drain(..) {
                        refused += u64::from(handoff_queue.leave(packet).is_err());
                    }
                    meter.transmit_full.add(refused);
                    handoff_queue.ring();
                }
                _ => {}
            }
            meter.transmit_full.add(packets.len() as u64);
            packets.clear();
        });
    }

    fn punt(&mut self, now: u64) {
        for (packet, class, hand) in self.sinks.punts() {
            let meter = &self.parts.meter;
            // By port: what comes in by many VLANs of one is one flood.
            let port = self.parts.view.hops().link(packet.input).port();
            if !self.police.allows(&self.parts.limits, port, class, now) {
                meter.policed[class as usize].add(1);
                continue;
            }
            let ifindex = self.parts.view.interface(packet.input).ifindex();
            let judged = self.parts.context.has_judged(&packet);
            let taken = match hand {
                Hand::Receive => ifindex != 0 && self.parts.linux.hand(&packet, ifindex, judged),
                Hand::Send => {
                    let by = sending(&self.parts.view, &packet);
                    by.is_some_and(|by| self.parts.linux.send(&packet, by))
                }
                Hand::Learn(member) => self.parts.linux.hand(&packet, member, false),
            };
            if !taken {
                meter.punt_failed.add(1);
            }
        }
    }

    fn publish(&mut self) {
        self.published = self.now;
        self.parts.pulse.workers(pulse::USUAL);
        for served in &self.queues {
            served.meter.publish(&served.queue.counters());
        }
    }

    fn sleep(&mut self) {
        self.publish();
        self.parts.reader.offline();
        self.parts.context.offline();
        self.parts.handoff_queue.lie_down();
        self.parts.meter.set_state(State::Asleep);
        if self.parts.handoff_queue.is_empty() {
            let mut fds = vec![PollFd::new(self.parts.handoff_queue.bell().as_fd(), PollFlags::POLLIN)];
            for served in &self.queues {
                if let Some(fd) = served.queue.fd() {
                    fds.push(PollFd::new(fd, PollFlags::POLLIN));
                }
            }
            let next = self.parts.graph.next_event();
            let patience = next.map_or(u64::from(SLEEP_MS), |at| {
                at.saturating_sub(self.parts.graph.now()).div_ceil(1_000_000)
            });
            // An error is an interrupted sleep.
            let _ = poll(&mut fds, PollTimeout::from(patience.min(u64::from(SLEEP_MS)) as u16));
        }
        self.parts.handoff_queue.get_up();
        self.parts.meter.set_state(State::Polling);
        self.parts.meter.wakeups.add(1);
        self.now = graph::steady_now();
        self.parts.context.online();
        self.parts.reader.online();
    }

    fn obey(&mut self) -> Obeyed {
        let mut obeyed = Obeyed::Nothing;
        loop {
            let order = match self.parts.orders.try_recv() {
                Ok(order) => order,
                Err(TryRecvError::Empty) => return obeyed,
                Err(TryRecvError::Disconnected) => return Obeyed::Stop,
            };
            obeyed = Obeyed::Something;
            match order {
                WorkerCommand::Serve(queue, meter, ready) => {
                    self.serve(queue, meter);
                    // Who asked waits no longer, takes the queue for one that nobody serves, and
                    // will open it again.
                    if ready.send(()).is_err() {
                        self.unserve();
                    }
                }
                WorkerCommand::Leave(port, done) => {
                    self.leave(port);
                    // The control thread may have stopped waiting.
                    let _ = done.send(());
                }
                WorkerCommand::Drain(done) => {
                    self.drain();
                    // The control thread may have stopped waiting.
                    let _ = done.send(());
                }
                WorkerCommand::LeaveAll(done) => {
                    self.leave_all();
                    // The control thread may have stopped waiting.
                    let _ = done.send(());
                }
                WorkerCommand::Handoff(port, colleague) => {
                    let exit = colleague.map_or(Exit::Closed, Exit::Colleague);
                    match &exit {
                        Exit::Closed => drop(self.sinks.close(port)),
                        _ => self.sinks.open(port),
                    }
                    *self.exit_mut(port) = exit;
                }
                WorkerCommand::Change(graph, entry, done) => {
                    let changed = self.parts.graph.change_to(*graph, &mut self.sinks);
                    if changed.is_ok() {
                        self.parts.entry = entry;
                    }
                    // The control thread may have stopped waiting.
                    let _ = done.send(changed);
                }
                WorkerCommand::Handle(request, answer) => {
                    let (graph, sinks) = (&mut self.parts.graph, &mut self.sinks);
                    let result = match &request.value {
                        None => graph.read_handler(&request.handler, "", sinks),
                        Some(value) => {
                            graph.write_handler(&request.handler, value, sinks).map(|()| String::new())
                        }
                    };
                    // The control thread may have stopped waiting.
                    let _ = answer.send(result);
                }
                WorkerCommand::Observe(observer, done) => {
                    drop(self.parts.graph.observe(observer));
                    // The control thread may have stopped waiting.
                    let _ = done.send(());
                }
                WorkerCommand::Fail => panic!("a worker was told to fail"),
                WorkerCommand::Stop => return Obeyed::Stop,
            }
        }
    }

    fn exit_mut(&mut self, port: PortId) -> &mut Exit {
        let index = usize::from(port.0);
        if self.exits.len() <= index {
            self.exits.resize(index + 1, Exit::Closed);
        }
        &mut self.exits[index]
    }

    fn serve(&mut self, mut queue: Box<dyn Queue>, meter: Arc<QueueMeter>) {
        let port = queue.port();
        // Frames to receive into, before anything is received.
        queue.kick();
        self.queues.push(Served { queue, quota: QUOTA, meter });
        self.share_quota(port);
        // With several queues of one port, the worker sends by the first.
        if !matches!(self.exit(port), Exit::Queue(_)) {
            let index = self.queues.len() - 1;
            *self.exit_mut(port) = Exit::Queue(index);
            self.sinks.open(port);
        }
    }

    /// Closes the queue that was served last.
    fn unserve(&mut self) {
        let Some(Served { queue, .. }) = self.queues.pop() else { return };
        let port = queue.port();
        if matches!(self.exit(port), Exit::Queue(index) if index == self.queues.len()) {
            drop(self.sinks.close(port));
            *self.exit_mut(port) = Exit::Closed;
        }
        self.share_quota(port);
    }

    /// Divides the quota of a port among its queues.
    fn share_quota(&mut self, port: PortId) {
        let of_port = |served: &&mut Served| served.queue.port() == port;
        let count = self.queues.iter_mut().filter(of_port).count().max(1);
        let quota = (QUOTA / count).max(LEAST);
        self.queues.iter_mut().filter(of_port).for_each(|served| served.quota = quota);
    }

    /// Goes on until the queues are empty, unless somebody fills them all the time.
    fn drain(&mut self) {
        let _ = (0..DRAIN).find(|_| self.round() == 0);
    }

    /// Closes all queues. The kernel waits at each until no packet is under way to it: many wait at
    /// the same time.
    fn leave_all(&mut self) {
        self.drain();
        self.publish();
        for (port, exit) in self.exits.iter_mut().enumerate() {
            drop(self.sinks.close(PortId(port as u16)));
            *exit = Exit::Closed;
        }
        let mut shares: Vec<Vec<Served>> = Vec::new();
        shares.resize_with(self.queues.len().min(CLOSERS), Vec::new);
        for (index, served) in self.queues.drain(..).enumerate() {
            let share = index % shares.len();
            shares[share].push(served);
        }
        std::thread::scope(|scope| {
            for share in shares {
                let closer = std::thread::Builder::new().name("closer".to_owned()).stack_size(STACK);
                // Without a thread they are closed here, as what was to run there is dropped.
                let _ = closer.spawn_scoped(scope, move || drop(share));
            }
        });
    }

    fn leave(&mut self, port: PortId) {
        // What came in before the program was detached still leaves.
        self.round();
        self.publish();
        drop(self.sinks.close(port));
        self.queues.retain(|served| served.queue.port() != port);
        *self.exit_mut(port) = Exit::Closed;
        // The others have moved up.
        for exit in &mut self.exits {
            if matches!(exit, Exit::Queue(_)) {
                *exit = Exit::Closed;
            }
        }
        for index in (0..self.queues.len()).rev() {
            *self.exit_mut(self.queues[index].queue.port()) = Exit::Queue(index);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.publish();
    }
}

enum Obeyed {
    Nothing,
    Something,
    Stop,
}
