//! Copies of what passes ports: who gets them, and the thread that hands them on.
//!
//! The driver's programs put copies into rings ([`port::copies`]); while there is somebody who
//! wants some, a thread of its own takes them out, and gives each to those who want it. What
//! workers send, and what comes in by shared memory, the workers' observers put beside them
//! (`watch.rs`), so that all comes in order of time. Nobody waits for anybody: a feed that is full
//! loses copies, and counts them.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use config::Pattern;
use fib::{InterfaceId, PortId};
use plane::Plane;
use port::Packet;
use port::copies::{MOST, Rings, SLOTS, Want};

use super::forwarding::Forwarding;
use super::watch::now;
use crate::control::status::SeenPacket;
use crate::control::{CopyRequest, Directions, Feed, FeedSender, Next, feed};

/// Copies that wait for a slow client at most.
const WAITING: usize = 16_384;
/// Those who want copies at a time.
const MOST_WANTED: usize = 8;
/// How often the rings are emptied: they have room for what comes in the meantime.
const EVERY: Duration = Duration::from_millis(10);

/// Everybody who wants copies.
#[derive(Default)]
pub(super) struct Copies {
    wanted: Vec<Wanted>,
    /// The next slot, round and round, so that what is under way to one who has left reaches nobody
    /// else.
    slot: u32,
    reader: Option<Reader>,
    /// The ports when this was put in place.
    ports: Vec<(PortId, u32)>,
}

/// Who wants copies of what. Each worker's observer has a copy.
#[derive(Clone)]
pub(super) struct Wanted {
    ports: Ports,
    pub want: Want,
    feed: FeedSender<SeenPacket>,
}

/// On which ports.
#[derive(Clone)]
pub(super) struct Ports {
    /// None: all.
    pub of: Vec<Pattern>,
    pub except: Option<String>,
}

impl Ports {
    fn includes(&self, name: &str) -> bool {
        (self.of.is_empty() || self.of.iter().any(|pattern| pattern.matches(name)))
            && self.except.as_deref() != Some(name)
    }
}

/// A packet, and the slots of those who want it.
type Seen = (u32, SeenPacket);

/// Who gets what.
#[derive(Clone, Default)]
struct Recipients {
    wanted: Vec<Wanted>,
    /// Of interfaces, by number.
    names: HashMap<u32, String>,
}

/// The thread that empties the rings.
struct Reader {
    map: OwnedFd,
    /// What workers see.
    workers: FeedSender<Seen>,
    table: Arc<Mutex<Recipients>>,
    stop: Arc<AtomicBool>,
}

impl Copies {
    pub(super) fn wanted(&self) -> &[Wanted] {
        &self.wanted
    }

    /// Forgets those that nobody listens to any more; whether something is to be put in place anew.
    pub(super) fn sweep(&mut self, plane: &Plane) -> bool {
        if self.wanted.is_empty() {
            return false;
        }
        let before = self.wanted.len();
        self.wanted.retain(|wanted| !wanted.feed.closed());
        before != self.wanted.len() || self.ports != ports(plane)
    }

    fn add(&mut self, ports: Ports, mut want: Want) -> Result<Feed<SeenPacket>, String> {
        if self.wanted.len() >= MOST_WANTED {
            return Err(format!("{MOST_WANTED} already copy packets, which is the most; end one"));
        }
        want.slot = self.slot;
        self.slot = (self.slot + 1) % SLOTS;
        let (sender, receiver) = feed(WAITING);
        self.wanted.push(Wanted { ports, want, feed: sender });
        Ok(receiver)
    }

    /// Has the driver copy what is wanted now.
    pub(super) fn install(&mut self, plane: &mut Plane) -> Result<(), String> {
        self.ports = ports(plane);
        for wanted in &mut self.wanted {
            let included = plane.ports().iter().filter(|port| wanted.ports.includes(&port.name));
            wanted.want.ports = included.map(|port| port.id).collect();
        }
        if self.wanted.is_empty() {
            if let Some(reader) = self.reader.take() {
                // To copy nothing cannot fail.
                let _ = plane.driver_mut().copy_packets(reader.map.as_fd(), Vec::new());
            }
            return Ok(());
        }
        let reader = match self.reader.take() {
            Some(reader) => self.reader.insert(reader),
            None => self.reader.insert(Reader::start()?),
        };
        let names = plane.ports().iter().filter_map(|port| {
            port.interface.as_ref().map(|interface| (interface.ifindex, port.name.clone()))
        });
        *reader.table.lock().unwrap_or_else(PoisonError::into_inner) =
            Recipients { wanted: self.wanted.clone(), names: names.collect() };
        let wants = self.wanted.iter().map(|wanted| wanted.want.clone()).collect();
        plane.driver_mut().copy_packets(reader.map.as_fd(), wants).map_err(|error| error.to_string())
    }

    /// The last one is not wanted after all.
    fn take_back(&mut self, plane: &mut Plane) {
        self.wanted.pop();
        // Those before it were copied a moment ago.
        let _ = self.install(plane);
    }
}

/// Ports that are taken, with their interfaces.
fn ports(plane: &Plane) -> Vec<(PortId, u32)> {
    let taken = plane.ports().iter().filter(|port| port.taken.is_some());
    taken.map(|port| (port.id, port.interface.as_ref().map_or(0, |interface| interface.ifindex))).collect()
}

impl Reader {
    fn start() -> Result<Reader, String> {
        let rings = Rings::new().map_err(|error| error.to_string())?;
        let map = rings.as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
        let (workers, of_workers) = feed(WAITING);
        let reader = Reader { map, workers, table: Arc::default(), stop: Arc::default() };
        let (table, stop) = (reader.table.clone(), reader.stop.clone());
        let mut hands = Hands { rings, of_workers, missed: 0, held: Vec::new() };
        let hand_on = move || {
            while !stop.load(Relaxed) {
                thread::sleep(EVERY);
                hands.hand_on(&table);
            }
        };
        let thread = thread::Builder::new().name("copies".to_owned()).spawn(hand_on);
        thread.map_err(|error| format!("no thread to hand copies on: {error}"))?;
        Ok(reader)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

/// What the thread has.
struct Hands {
    rings: Rings,
    of_workers: Feed<Seen>,
    /// Of these, lost so far.
    missed: u64,
    /// What came while the last ones were taken out: something older may come yet.
    held: Vec<Seen>,
}

impl Hands {
    fn hand_on(&mut self, table: &Mutex<Recipients>) {
        let until = now();
        // The kernel's clock counts from the machine's start.
        let epoch = until.saturating_sub(port::clock::now());
        let Recipients { wanted, names } = table.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut seen = std::mem::take(&mut self.held);
        let lost = self.rings.read(|copy| {
            let packet = SeenPacket {
                time_ns: epoch + copy.time,
                port: names.get(&copy.ifindex).cloned().unwrap_or_else(|| format!("#{}", copy.ifindex)),
                outgoing: copy.outgoing,
                length: copy.length,
                frame: copy.bytes.to_vec(),
            };
            seen.push((copy.slots, packet));
        });
        while let Next::Item(packet) = self.of_workers.next(Duration::ZERO) {
            seen.push(packet);
        }
        // A ring is in order, but each processor has its own.
        seen.sort_by_key(|(_, packet)| packet.time_ns);
        self.held = seen.split_off(seen.partition_point(|(_, packet)| packet.time_ns <= until));
        for (slots, packet) in seen {
            for wanted in wanted.iter().filter(|wanted| slots & 1 << wanted.want.slot != 0) {
                let mut packet = packet.clone();
                packet.frame.truncate(wanted.want.snap as usize);
                wanted.feed.send(packet);
            }
        }
        let lost = lost + (self.of_workers.missed() - self.missed);
        self.missed = self.of_workers.missed();
        if lost > 0 {
            wanted.iter().for_each(|wanted| wanted.feed.miss(lost));
        }
    }
}

/// What the observers of workers see, and the driver does not: what workers send, and what comes by
/// shared memory.
pub(super) struct InWorkers {
    wants: Vec<Want>,
    shared: HashSet<PortId>,
    to: Option<FeedSender<Seen>>,
}

impl InWorkers {
    pub(super) fn of(copies: &Copies, plane: &Plane) -> InWorkers {
        let shared = plane.ports().iter().filter(|port| port.shared.is_some()).map(|port| port.id);
        InWorkers {
            wants: copies.wanted.iter().map(|wanted| wanted.want.clone()).collect(),
            shared: shared.collect(),
            to: copies.reader.as_ref().map(|reader| reader.workers.clone()),
        }
    }

    pub(super) fn comes(&self, packet: &Packet, name: impl Fn(InterfaceId) -> String) {
        let port = PortId(packet.input.0);
        if self.shared.contains(&port) {
            self.seen(packet, port, false, name);
        }
    }

    pub(super) fn leaves(&self, packet: &Packet, name: impl Fn(InterfaceId) -> String) {
        self.seen(packet, PortId(packet.output.0), true, name);
    }

    fn seen(&self, packet: &Packet, port: PortId, outgoing: bool, name: impl Fn(InterfaceId) -> String) {
        let length = packet.total_len() as u32;
        let matches =
            |want: &&Want| want.includes(port, outgoing) && want.filter.matches(packet.data(), length);
        let slots = self.wants.iter().filter(matches).fold(0, |slots, want| slots | 1 << want.slot);
        if slots != 0
            && let Some(to) = &self.to
        {
            let seen = SeenPacket {
                time_ns: now(),
                port: name(port.interface()),
                outgoing,
                length,
                frame: packet.to_vec(),
            };
            to.send((slots, seen));
        }
    }
}

impl Forwarding {
    /// Begins to copy for a client.
    pub(super) fn copy(&mut self, request: &CopyRequest) -> Result<Feed<SeenPacket>, String> {
        let known = |name: &String| self.plane.ports().iter().any(|port| port.name == *name);
        if let Some(unknown) = request.ports.iter().find(|name| !known(name)) {
            let there: Vec<&str> = self.plane.ports().iter().map(|port| port.name.as_str()).collect();
            return Err(format!(
                "{unknown} is no port of Bifrost's (there are: {}); of other interfaces tcpdump itself sees all",
                there.join(" ")
            ));
        }
        let of = request.ports.iter().map(|name| name.parse());
        let of = of.collect::<Result<Vec<Pattern>, _>>().map_err(|error| format!("{error:?}"))?;
        let want = Want {
            slot: 0,
            filter: request.filter.clone(),
            ports: Vec::new(),
            incoming: request.direction != Directions::Out,
            outgoing: request.direction != Directions::In,
            snap: request.snap.clamp(14, MOST),
        };
        self.copy_to(Ports { of, except: None }, want)
    }

    /// Begins to copy; on an error nothing has changed.
    pub(super) fn copy_to(&mut self, ports: Ports, want: Want) -> Result<Feed<SeenPacket>, String> {
        let feed = self.watches.copies.add(ports, want)?;
        match self.watches.install(&mut self.plane) {
            Ok(()) => Ok(feed),
            Err(error) => {
                self.watches.copies.take_back(&mut self.plane);
                self.watches.follow(&mut self.plane);
                Err(error)
            }
        }
    }
}
