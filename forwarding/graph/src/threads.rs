//! One graph on several threads.
//!
//! Click's elements are all on thread 0 unless a StaticThreadSched says otherwise, and so it is
//! here. Elements belong to one thread each, so that none is ever entered by two at once: the graph
//! is *split* into parts, each with its own elements, turns and timers, and all with the same
//! wiring. Which part an element is in follows from what tasks were told:
//!
//! - Elements between which packets are pulled, or of which one names the other in its
//!   configuration (an ARPQuerier its table), stay together. So a queue is where it is pulled from.
//! - Those that nothing is said about are where the packets pushed to them come from; from several
//!   threads, at the lowest of these. What has no ports, such as a script, is on thread 0.
//!
//! A packet pushed to an element of another part goes through a ring, one for each such input. A
//! ring that is full drops (`queue-full`); sources that ask for room ([`Context::has_room`]) wait
//! until there is some, and what is before a full queue waits in the ring. A handler of an element
//! of another part is called by that part's thread; whoever waits for the answer answers calls
//! meanwhile, so that two who call each other both get on.
//!
//! When the run ends, or the graph changes, the parts become one graph again.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use nix::sys::eventfd::{EfdFlags, EventFd};
use port::Packet;
use wire::Reason;

use crate::executor::{Machine, Wiring};
use crate::fabric::{Fabric, Slot};
use crate::schedule::Schedule;
use crate::{Batch, Context, Description, Flow, Graph, HandlerError, NodeId, Sinks};

/// Packets in a ring.
const RING: usize = 1024;
/// A ring with so many packets has no room for a source's.
const ENOUGH: usize = 64;
/// How long to wait for an answer before looking whether somebody else waits for one.
const GLANCE: Duration = Duration::from_micros(50);

/// Something to be done by another thread.
type Call = Box<dyn FnOnce(&mut Context<'_>) + Send>;

/// What the parts of a graph share.
struct Shared {
    /// The part of each element.
    owners: Vec<usize>,
    /// Packets on their way to another part.
    rings: HashMap<Slot, Ring>,
    peers: Vec<Peer>,
    over: AtomicBool,
}

/// Packets on their way to one input of an element of another part.
struct Ring {
    packets: ArrayQueue<Packet>,
    /// Packets that it could not take, until the part that has the element counts them.
    dropped: AtomicU64,
}

/// A thread, as others see it.
struct Peer {
    calls: Mutex<VecDeque<Call>>,
    bell: EventFd,
    asleep: AtomicBool,
}

impl Peer {
    fn wake(&self) {
        // What was left for it comes before the look whether it sleeps; it says so before it looks
        // for what was left.
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst) {
            // A bell that rings already need not be rung.
            let _ = self.bell.write(1);
        }
    }

    fn next_call(&self) -> Option<Call> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// A part's view of the others.
pub(crate) struct Links {
    me: usize,
    shared: Arc<Shared>,
    /// Sources that wait for room in a ring.
    pub(crate) waiting: Vec<(Slot, NodeId)>,
}

impl Links {
    /// The part of an element that is not in this one.
    fn elsewhere(&self, node: NodeId) -> Option<usize> {
        self.shared.owners.get(node.0).copied().filter(|owner| *owner != self.me)
    }

    /// Sends packets to an element of another part; leaves the batch empty. Whether that is where
    /// it is.
    pub(crate) fn send(&self, slot: Slot, node: NodeId, batch: &mut Batch) -> bool {
        let (Some(owner), Some(ring)) = (self.elsewhere(node), self.shared.rings.get(&slot)) else {
            return false;
        };
        for packet in batch.drain() {
            if ring.packets.push(packet).is_err() {
                ring.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.shared.peers[owner].wake();
        true
    }

    /// Whether the ring to a slot has room for what a source makes; `None` when there is no ring.
    pub(crate) fn has_room(&self, slot: Slot) -> Option<bool> {
        self.shared.rings.get(&slot).map(|ring| ring.packets.len() < ENOUGH)
    }

    fn is_mine(&self, wiring: &Wiring, slot: Slot) -> bool {
        wiring.slots.get(usize::from(slot.0)).is_some_and(|(node, _)| self.elsewhere(*node).is_none())
    }
}

impl Context<'_> {
    /// Calls an element of another part by that part's thread; `None` when it is in this one.
    pub(crate) fn call_elsewhere<T: Send + 'static>(
        &mut self,
        node: NodeId,
        call: impl FnOnce(&mut Context<'_>) -> Result<T, HandlerError> + Send + 'static,
    ) -> Option<Result<T, HandlerError>> {
        let links = self.machine.links.as_ref()?;
        let (owner, shared) = (links.elsewhere(node)?, links.shared.clone());
        let (answer, answered) = mpsc::channel();
        let call: Call = Box::new(move |cx| {
            // Whoever asked may have given up.
            let _ = answer.send(call(cx));
        });
        let peer = &shared.peers[owner];
        peer.calls.lock().unwrap_or_else(PoisonError::into_inner).push_back(call);
        peer.wake();
        loop {
            match answered.recv_timeout(GLANCE) {
                Ok(answer) => return Some(answer),
                Err(_) if shared.over.load(Ordering::SeqCst) => {
                    return Some(Err(HandlerError::refused("the router is stopping")));
                }
                Err(_) => self.answer_calls(),
            };
        }
    }

    /// Does what others left for this thread to do.
    pub(crate) fn answer_calls(&mut self) -> bool {
        let Some(links) = &self.machine.links else { return false };
        let (me, shared) = (links.me, links.shared.clone());
        let mut any = false;
        while let Some(call) = shared.peers[me].next_call() {
            any = true;
            call(self);
        }
        any
    }
}

impl Graph {
    /// Takes the elements of other threads out of this graph, of whose parts it becomes the first.
    /// None when all are on thread 0.
    pub(crate) fn split(&mut self, threads: usize) -> Vec<Graph> {
        let description = self.wiring.description.clone();
        let owners = owners(&description, &self.machine.homes, threads);
        let parts = owners.iter().max().map_or(1, |last| last + 1);
        if parts == 1 {
            return Vec::new();
        }
        let mut rings = HashMap::new();
        for edge in &description.edges {
            let pushes = description.nodes[edge.from.0].outputs.get(edge.output) == Some(&Flow::Push);
            if pushes && owners[edge.from.0] != owners[edge.to.0] {
                let slot = Slot(self.wiring.entries[edge.to.0].0 + edge.input as u16);
                rings.insert(slot, Ring { packets: ArrayQueue::new(RING), dropped: AtomicU64::new(0) });
            }
        }
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let peers: Result<Vec<Peer>, _> = (0..parts)
            .map(|_| {
                let bell = EventFd::from_flags(flags)?;
                Ok::<_, nix::Error>(Peer { calls: Mutex::default(), bell, asleep: AtomicBool::new(false) })
            })
            .collect();
        let Ok(peers) = peers else {
            // Without descriptors to wake each other by, one thread does it all.
            return Vec::new();
        };
        let shared = Arc::new(Shared { owners, rings, peers, over: AtomicBool::new(false) });
        let voice = std::mem::replace(&mut self.machine.voice, Box::new(|_| {}));
        let voice = Arc::new(Mutex::new(voice));
        let speak = || {
            let voice = voice.clone();
            Box::new(move |line: &str| (voice.lock().unwrap_or_else(PoisonError::into_inner))(line))
        };
        // Whoever waits for room asks again.
        for waiter in self.machine.rooms.waiters() {
            self.machine.schedule.schedule(waiter);
        }
        let nodes = description.nodes.len();
        let whole = std::mem::replace(&mut self.machine.schedule, Schedule::new(nodes));
        let mut others = Vec::new();
        for me in 0..parts {
            let mut schedule = Schedule::new(nodes);
            let mine = |node: &usize| shared.owners[*node] == me;
            (0..nodes).filter(mine).for_each(|node| schedule.inherit(NodeId(node), &whole, NodeId(node)));
            let links = Some(Links { me, shared: shared.clone(), waiting: Vec::new() });
            if me == 0 {
                self.machine.schedule = schedule;
                self.machine.rooms = Default::default();
                self.machine.links = links;
                self.machine.voice = speak();
                continue;
            }
            let elements =
                (0..nodes).map(|node| if mine(&node) { self.machine.elements[node].take() } else { None });
            let machine = Machine {
                elements: elements.collect(),
                fabric: Fabric::new(self.wiring.slots.len(), self.machine.fabric.one_by_one()),
                schedule,
                rooms: Default::default(),
                links,
                homes: self.machine.homes.clone(),
                observer: None,
                clock: self.machine.clock.clone(),
                stops: 0,
                compile: None,
                next: None,
                moved: 0,
                nested: 0,
                spare: (0..8).map(|_| Batch::new()).collect(),
                voice: speak(),
            };
            others.push(Graph::part(self.wiring.clone(), self.counters.clone(), machine));
        }
        others
    }

    /// Takes back what [`Graph::split`] took out, with what is on its way.
    pub(crate) fn join(&mut self, others: Vec<Graph>, sinks: &mut Sinks) {
        let Some(links) = self.machine.links.take() else { return };
        let nodes = self.machine.elements.len();
        let first = std::mem::replace(&mut self.machine.schedule, Schedule::new(nodes));
        let mut waiters: Vec<NodeId> = links.waiting.iter().map(|(_, waiter)| *waiter).collect();
        waiters.extend(self.machine.rooms.waiters());
        self.machine.rooms = Default::default();
        for (node, owner) in links.shared.owners.iter().enumerate() {
            if *owner == 0 {
                self.machine.schedule.inherit(NodeId(node), &first, NodeId(node));
            }
        }
        for mut other in others {
            let Some(their) = other.machine.links.take() else { continue };
            waiters.extend(their.waiting.iter().map(|(_, waiter)| *waiter));
            waiters.extend(other.machine.rooms.waiters());
            for (node, owner) in their.shared.owners.iter().enumerate() {
                if *owner == their.me {
                    self.machine.elements[node] = other.machine.elements[node].take();
                    self.machine.schedule.inherit(NodeId(node), &other.machine.schedule, NodeId(node));
                }
            }
        }
        waiters.into_iter().for_each(|waiter| self.machine.schedule.schedule(waiter));
        for (slot, ring) in &links.shared.rings {
            self.count_dropped(*slot, ring);
            while let Some(packet) = ring.packets.pop() {
                self.machine.fabric.push(*slot, packet);
            }
        }
        self.settle(sinks);
    }

    /// Takes in what other parts sent, and does what they ask for. Whether there was anything.
    pub(crate) fn serve_others(&mut self, sinks: &mut Sinks) -> bool {
        let Some(links) = &mut self.machine.links else { return false };
        let shared = links.shared.clone();
        let has_room = |slot: &Slot| shared.rings.get(slot).is_none_or(|ring| ring.packets.len() < ENOUGH);
        let mut any = false;
        let schedule = &mut self.machine.schedule;
        links.waiting.retain(|(slot, waiter)| {
            // Asked once: what takes packets out of the ring meanwhile must not find the waiter
            // neither woken nor waiting.
            let room = has_room(slot);
            if room {
                schedule.schedule(*waiter);
            }
            !room
        });
        let links = self.machine.links.as_ref();
        let mine = |slot: &Slot| links.is_some_and(|links| links.is_mine(&self.wiring, *slot));
        let slots: Vec<Slot> = shared.rings.keys().filter(|slot| mine(slot)).copied().collect();
        for slot in slots {
            let Some((ring, (node, _))) =
                shared.rings.get(&slot).zip(self.wiring.slots.get(usize::from(slot.0)))
            else {
                continue;
            };
            let (node, mut left) = (*node, RING);
            self.count_dropped(slot, ring);
            // What is before a full queue waits here, where sources see it.
            while left > 0 && !self.is_full(node) {
                let Some(packet) = ring.packets.pop() else { break };
                left -= 1;
                any = true;
                self.machine.fabric.push(slot, packet);
                if self.machine.fabric.one_by_one() || left % crate::BATCH == 0 {
                    self.settle(sinks);
                }
            }
            self.settle(sinks);
        }
        if any {
            shared.peers.iter().for_each(Peer::wake);
        }
        any | self.answer_calls(sinks)
    }

    fn count_dropped(&self, slot: Slot, ring: &Ring) {
        let node = self.wiring.slots.get(usize::from(slot.0)).map(|(node, _)| *node);
        if let Some(counts) = node.and_then(|node| self.counters.node(node)) {
            (0..ring.dropped.swap(0, Ordering::Relaxed)).for_each(|_| counts.count_drop(Reason::QueueFull));
        }
    }

    fn is_full(&self, node: NodeId) -> bool {
        let element = self.machine.elements.get(node.0).and_then(Option::as_ref);
        element.and_then(|element| element.full()).unwrap_or_default()
    }

    fn answer_calls(&mut self, sinks: &mut Sinks) -> bool {
        let any = self.top(sinks).answer_calls();
        if any {
            self.settle(sinks);
        }
        any
    }

    /// For a part that is not the first: hands on that somebody asked the program to stop, and
    /// whether the run is over.
    pub(crate) fn follows(&mut self) -> Option<bool> {
        let links = self.machine.links.as_ref().filter(|links| links.me != 0)?;
        let first = links.shared.peers.first()?;
        for _ in 0..std::mem::take(&mut self.machine.stops) {
            first.calls.lock().unwrap_or_else(PoisonError::into_inner).push_back(Box::new(|cx| cx.stop()));
            first.wake();
        }
        Some(links.shared.over.load(Ordering::SeqCst))
    }

    /// Ends the run of all parts.
    pub(crate) fn end_others(&self) {
        if let Some(links) = &self.machine.links {
            links.shared.over.store(true, Ordering::SeqCst);
            for peer in &links.shared.peers {
                peer.asleep.store(true, Ordering::SeqCst);
                peer.wake();
            }
        }
    }

    /// Says that this part goes to sleep, to be woken by the descriptor that is returned; `None`
    /// when it must not, since something was left for it.
    pub(crate) fn fall_asleep(&self) -> Result<Option<RawFd>, ()> {
        let Some(links) = &self.machine.links else { return Ok(None) };
        let me = &links.shared.peers[links.me];
        me.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let has_packets = |slot: &Slot, ring: &Ring| {
            let owner = self.wiring.slots.get(usize::from(slot.0)).map(|(node, _)| *node);
            links.is_mine(&self.wiring, *slot)
                && !ring.packets.is_empty()
                && !owner.is_some_and(|node| self.is_full(node))
        };
        let has_calls = !me.calls.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        let has_room = links.waiting.iter().any(|(slot, _)| links.has_room(*slot) == Some(true));
        let over = links.shared.over.load(Ordering::SeqCst);
        if over
            || has_calls
            || has_room
            || links.shared.rings.iter().any(|(slot, ring)| has_packets(slot, ring))
        {
            me.asleep.store(false, Ordering::SeqCst);
            return Err(());
        }
        Ok(Some(me.bell.as_fd().as_raw_fd()))
    }

    /// Ends [`Graph::fall_asleep`].
    pub(crate) fn wake_up(&self) {
        if let Some(links) = &self.machine.links {
            let me = &links.shared.peers[links.me];
            me.asleep.store(false, Ordering::SeqCst);
            // Empty when nobody rang.
            let _ = me.bell.read();
        }
    }
}

/// The thread of each element.
fn owners(description: &Description, homes: &HashMap<NodeId, usize>, threads: usize) -> Vec<usize> {
    let nodes = &description.nodes;
    let mut groups: Vec<usize> = (0..nodes.len()).collect();
    let merge = |groups: &mut Vec<usize>, one: usize, other: usize| {
        let (from, into) = (groups[one].max(groups[other]), groups[one].min(groups[other]));
        groups.iter_mut().filter(|group| **group == from).for_each(|group| *group = into);
    };
    for edge in &description.edges {
        if nodes[edge.to.0].inputs.get(edge.input) == Some(&Flow::Pull) {
            merge(&mut groups, edge.from.0, edge.to.0);
        }
    }
    for node in nodes.iter().filter(|node| !node.inputs.is_empty() || !node.outputs.is_empty()) {
        let name = |sign: char| sign.is_alphanumeric() || "_@/.".contains(sign);
        for word in node.configuration.split(|sign: char| !name(sign)).filter(|word| !word.is_empty()) {
            if let Some(named) = description.find_from(&node.name, word) {
                merge(&mut groups, node.id.0, named.0);
            }
        }
    }
    // By group: what was said, then what follows from where packets come from.
    let mut threads_of: HashMap<usize, usize> = HashMap::new();
    for (node, home) in homes {
        let thread = threads_of.entry(groups[node.0]).or_insert(*home);
        *thread = (*thread).min(*home).min(threads.saturating_sub(1));
    }
    let said: std::collections::HashSet<usize> = threads_of.keys().copied().collect();
    for node in nodes {
        let pushed_to = description
            .edges
            .iter()
            .any(|edge| groups[edge.to.0] == groups[node.id.0] && groups[edge.from.0] != groups[node.id.0]);
        if !pushed_to {
            threads_of.entry(groups[node.id.0]).or_insert(0);
        }
    }
    let mut changed = true;
    while changed {
        changed = false;
        for edge in &description.edges {
            let (from, to) = (groups[edge.from.0], groups[edge.to.0]);
            let Some(thread) = threads_of.get(&from).copied().filter(|_| from != to && !said.contains(&to))
            else {
                continue;
            };
            if threads_of.get(&to).is_none_or(|known| thread < *known) {
                threads_of.insert(to, thread);
                changed = true;
            }
        }
    }
    groups.iter().map(|group| threads_of.get(group).copied().unwrap_or(0)).collect()
}
