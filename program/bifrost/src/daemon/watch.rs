//! Trace and capture: observers in the workers' graphs.
//!
//! While somebody watches, packets that match leave the express lane for the worker lane (the
//! driver's divert rules), so that the graph sees them, and every worker's graph has an observer.
//! Both are taken away when nobody watches any more. Who wants copies of what passes ports
//! (`copies.rs`) moves no packet, and has an observer for what only workers see. What a filter asks
//! beyond what the driver can compare (TTL, length) is asked again in the observer.
//!
//! An observer runs on a worker: it allocates only for packets that match, and hands on through a
//! bounded feed that never makes it wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::control::status::{CapturedPacket, TraceStep};
use crate::control::{CaptureRequest, Facts, Feed, FeedSender, Filter, TraceRequest, feed};
use fib::InterfaceId;
use graph::{Batch, Description, NodeId, Observer};
use plane::Plane;
use port::{CHUNK, FlowMatch, Packet};
use wire::{Class, Reason};

use super::copies::{Copies, InWorkers};
use super::forwarding::Forwarding;

/// Items that wait for a slow client at most.
const WAITING: usize = 4096;
/// Watchers at a time: as many as the driver has divert rules.
const WATCHERS: usize = port::driver::MAX_DIVERTS;
const ETHERNET: usize = 14;

/// Everybody who watches.
#[derive(Default)]
pub(crate) struct Watches {
    watchers: Vec<Watcher>,
    pub(super) copies: Copies,
}

/// One trace or capture. Each worker's observer has a copy.
#[derive(Clone)]
struct Watcher {
    filter: Filter,
    input: Option<InterfaceId>,
    what: What,
}

#[derive(Clone)]
enum What {
    Trace { feed: FeedSender<TraceStep>, number: Arc<AtomicU64> },
    Capture { feed: FeedSender<CapturedPacket>, at: String, snap: usize },
}

impl Watcher {
    fn closed(&self) -> bool {
        match &self.what {
            What::Trace { feed, .. } => feed.closed(),
            What::Capture { feed, .. } => feed.closed(),
        }
    }

    fn wants(&self, packet: &Packet) -> bool {
        if self.input.is_some_and(|input| input != packet.input) {
            return false;
        }
        self.filter.matches(network(packet).and_then(Facts::read).as_ref())
    }
}

impl Watches {
    /// Removes those that nobody listens to any more.
    pub(super) fn sweep(&mut self, plane: &mut Plane) {
        let before = self.watchers.len();
        self.watchers.retain(|watcher| !watcher.closed());
        if self.copies.sweep(plane) | (self.watchers.len() != before) {
            // Removing rules cannot fail for want of room.
            let _ = self.install(plane);
        }
    }

    /// Goes on watching in a graph that has changed.
    pub(super) fn follow(&mut self, plane: &mut Plane) {
        if !self.watchers.is_empty() || !self.copies.wanted().is_empty() {
            // The rules are those that there were.
            let _ = self.install(plane);
        }
    }

    fn add(&mut self, watcher: Watcher, plane: &mut Plane) -> Result<(), String> {
        self.sweep(plane);
        if self.watchers.len() >= WATCHERS {
            return Err(format!("{WATCHERS} traces and captures are running, which is the most; end one"));
        }
        self.watchers.push(watcher);
        self.install(plane).inspect_err(|_| drop(self.watchers.pop()))
    }

    /// Tells the driver and the workers who watches.
    pub(super) fn install(&mut self, plane: &mut Plane) -> Result<(), String> {
        let rules: Vec<FlowMatch> = self.watchers.iter().map(diverted).collect();
        plane.driver_mut().divert(&rules).map_err(|error| error.to_string())?;
        self.copies.install(plane)?;
        let names: Arc<HashMap<InterfaceId, String>> =
            Arc::new(plane.interface_names().map(|(name, id)| (id, name.to_owned())).collect());
        let wanted = !self.watchers.is_empty() || !self.copies.wanted().is_empty();
        plane.worker_pool().observe(|worker| {
            wanted.then(|| {
                let description = plane.worker_pool().description().clone();
                let watchers = self.watchers.clone();
                let place = |watcher: &Watcher| match &watcher.what {
                    What::Capture { at, .. } => description.find(at).map(|node| node.id),
                    What::Trace { .. } => None,
                };
                let places = watchers.iter().map(place).collect();
                let (names, followed) = (names.clone(), HashMap::new());
                let copies = InWorkers::of(&self.copies, plane);
                let observer = Eyes { worker, description, names, watchers, places, followed, copies };
                Box::new(observer) as Box<dyn Observer>
            })
        });
        Ok(())
    }
}

/// What the driver can compare of a filter.
fn diverted(watcher: &Watcher) -> FlowMatch {
    let filter = &watcher.filter;
    FlowMatch {
        source: filter.source,
        destination: filter.destination,
        protocol: filter.protocol.map(|protocol| protocol.0),
        source_port: filter.source_port,
        destination_port: filter.destination_port,
        input: watcher.input,
    }
}

impl Forwarding {
    pub(super) fn trace(&mut self, request: &TraceRequest) -> Result<Feed<TraceStep>, String> {
        let (sender, receiver) = feed(WAITING);
        let what = What::Trace { feed: sender, number: Arc::default() };
        self.watch(&request.filter, what)?;
        Ok(receiver)
    }

    pub(super) fn capture(&mut self, request: &CaptureRequest) -> Result<Feed<CapturedPacket>, String> {
        let description = self.plane.worker_pool().description();
        let at = match &request.at {
            None => description.nodes.first().map(|node| node.name.clone()).unwrap_or_default(),
            Some(name) => description.find(name).map(|node| node.name.clone()).ok_or_else(|| {
                let known: Vec<&str> = description.nodes.iter().map(|node| node.name.as_str()).collect();
                format!("the graph has no element \"{name}\"; it has {}", known.join(", "))
            })?,
        };
        let (sender, receiver) = feed(WAITING);
        self.watch(&request.filter, What::Capture { feed: sender, at, snap: request.snap as usize })?;
        Ok(receiver)
    }

    fn watch(&mut self, filter: &Filter, what: What) -> Result<(), String> {
        let inputs = match &filter.input {
            None => vec![None],
            Some(name) => match self.plane.interfaces_named(name) {
                none if none.is_empty() => return Err(format!("no port is named \"{name}\"")),
                // A bond is one for each member.
                all => all.into_iter().map(Some).collect(),
            },
        };
        inputs.into_iter().try_for_each(|input| {
            let watcher = Watcher { filter: filter.clone(), input, what: what.clone() };
            self.watches.add(watcher, &mut self.plane)
        })
    }
}

/// One worker's observer.
struct Eyes {
    worker: usize,
    description: Arc<Description>,
    names: Arc<HashMap<InterfaceId, String>>,
    watchers: Vec<Watcher>,
    /// Where each capture copies packets.
    places: Vec<Option<NodeId>>,
    /// Traced packets under way, by chunk and watcher, with their numbers.
    followed: HashMap<(usize, usize), u64>,
    copies: InWorkers,
}

/// A packet is known by its chunk until it is freed.
fn identity(packet: &Packet) -> usize {
    packet.data().as_ptr() as usize / CHUNK
}

/// From the network header on.
fn network(packet: &Packet) -> Option<&[u8]> {
    packet.data().get(ETHERNET..)
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

impl Eyes {
    fn name(&self, port: InterfaceId) -> String {
        self.names.get(&port).cloned().unwrap_or_else(|| format!("port {}", port.0))
    }

    fn node(&self, node: NodeId) -> String {
        self.description.nodes.get(node.0).map_or_else(String::new, |node| node.name.clone())
    }

    fn step(&self, number: u64, packet: &Packet, element: String, fate: Option<String>) -> TraceStep {
        let facts = network(packet).and_then(Facts::read);
        TraceStep {
            packet: number,
            time_ns: now(),
            worker: self.worker,
            input: self.name(packet.input),
            element,
            packet_summary: facts
                .map_or_else(|| format!("{} bytes", packet.total_len()), |facts| facts.to_string()),
            fate,
        }
    }

    /// Tells the traces that follow a packet how it ended.
    fn end(&mut self, packet: &Packet, element: &str, fate: impl Fn() -> String) {
        if self.followed.is_empty() {
            return;
        }
        let chunk = identity(packet);
        for index in 0..self.watchers.len() {
            if let (Some(number), What::Trace { feed, .. }) =
                (self.followed.remove(&(chunk, index)), &self.watchers[index].what)
            {
                feed.send(self.step(number, packet, element.to_owned(), Some(fate())));
            }
        }
    }
}

impl Observer for Eyes {
    fn entered(&mut self, node: NodeId, _input: usize, batch: &Batch) {
        for packet in batch.packets() {
            if node == NodeId(0) {
                self.copies.comes(packet, |port| self.name(port));
            }
            for index in 0..self.watchers.len() {
                let watcher = &self.watchers[index];
                match &watcher.what {
                    What::Trace { feed, number } => {
                        let key = (identity(packet), index);
                        let known = self.followed.get(&key).copied().filter(|_| node != NodeId(0));
                        let number = match known {
                            Some(number) => number,
                            // What enters behind the first element unknown was made on the way: an
                            // ICMP error, a fragment.
                            None if watcher.wants(packet) => number.fetch_add(1, Relaxed) + 1,
                            None => continue,
                        };
                        feed.send(self.step(number, packet, self.node(node), None));
                        self.followed.insert(key, number);
                    }
                    What::Capture { feed, snap, .. } => {
                        if self.places.get(index) == Some(&Some(node)) && watcher.wants(packet) {
                            let mut frame = packet.to_vec();
                            frame.truncate(*snap);
                            feed.send(CapturedPacket {
                                time_ns: now(),
                                input: self.name(packet.input),
                                element: self.node(node),
                                length: packet.total_len() as u32,
                                frame,
                            });
                        }
                    }
                }
            }
        }
    }

    fn dropped(&mut self, node: NodeId, packet: &Packet, reason: Reason) {
        let element = self.node(node);
        self.end(packet, &element, || format!("dropped: {}", reason.name()));
    }

    fn transmitted(&mut self, node: NodeId, packet: &Packet) {
        self.copies.leaves(packet, |port| self.name(port));
        if !self.followed.is_empty() {
            let (element, port) = (self.node(node), self.name(packet.output));
            self.end(packet, &element, || format!("sent by {port}"));
        }
    }

    fn punted(&mut self, node: NodeId, packet: &Packet, class: Class) {
        let element = self.node(node);
        self.end(packet, &element, || format!("handed to Linux: {}", class.name()));
    }
}
