//! Hostile peers: whatever they say and write, nothing panics, nothing leaks, and whoever is honest
//! is served afterwards.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use nix::unistd::ftruncate;

use super::bell::SharedBell;
use super::channel::{self, Address, Received};
use super::incoming::Incoming;
use super::message::{AddRing, BYTES, Hello, Init, Message, SECRET, VERSION};
use super::outgoing::Outgoing;
use super::queue::{Ends, Slot};
use super::region::Region;
use super::ring::{Buffers, Own, Ring, Theirs, bytes_of};
use super::*;
use crate::{Packet, Pool, Queue, QueueCounters};

struct Random(chance::Random);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next()
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0.below(most as usize) as u64
    }

    /// Mostly small, at times anything.
    fn number(&mut self) -> u64 {
        match self.below(8) {
            0 => self.next(),
            1 => u64::MAX,
            2 => 1 << self.below(64),
            _ => self.below(4),
        }
    }

    fn message(&mut self) -> [u8; BYTES] {
        let name = "peer".to_owned();
        let message = match self.below(12) {
            0 => Message::Ack,
            1 => Message::Hello(Hello {
                name,
                versions: (VERSION, self.number() as u16 | VERSION),
                last_region: self.number() as u16,
                last_to_client: self.number() as u16,
                last_to_server: self.number() as u16,
                most_log2: self.number() as u8,
            }),
            2 | 3 => Message::Init(Init {
                version: VERSION,
                id: self.below(2) as u32,
                mode: 0,
                secret: [0; SECRET],
                name,
            }),
            4 | 5 => {
                Message::AddRegion { index: self.below(3) as u16, bytes: self.number() << self.below(16) }
            }
            6 | 7 => Message::AddRing(AddRing {
                to_server: self.below(2) == 0,
                index: self.below(3) as u16,
                region: self.number() as u16,
                offset: (self.number() as u32).wrapping_mul(8),
                log2: self.number() as u8,
                private_header: self.below(8) as u16 / 7,
            }),
            8 | 9 => Message::Connect { interface: name },
            10 => Message::Connected { interface: name },
            _ => {
                let mut bytes = [0; BYTES];
                bytes.fill_with(|| self.next() as u8);
                return bytes;
            }
        };
        message.bytes()
    }

    fn descriptor(&mut self) -> OwnedFd {
        let memory = |flags, bytes| {
            let file = memfd_create("hostile", flags).unwrap();
            ftruncate(&file, bytes).unwrap();
            file
        };
        match self.below(5) {
            0 | 1 => SharedBell::pair().unwrap().1,
            2 => memory(MFdFlags::MFD_ALLOW_SEALING, 1 << self.below(20)),
            3 => memory(MFdFlags::empty(), 4096),
            _ => std::fs::File::open("/dev/null").unwrap().into(),
        }
    }

    /// Sends something, with up to three descriptors; false when nobody listens any more.
    fn speak(&mut self, socket: &OwnedFd) -> bool {
        let mut bytes = self.message().to_vec();
        if self.below(50) == 0 {
            bytes.resize(1 + self.below(300) as usize, 0);
        }
        let count = [0, 0, 1, 1, 1, 3][self.below(6) as usize];
        let descriptors: Vec<_> = (0..count).map(|_| self.descriptor()).collect();
        let fds: Vec<_> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&fds)];
        let vector = [io::IoSlice::new(&bytes)];
        let control = if fds.is_empty() { &[][..] } else { &rights };
        sendmsg::<()>(socket.as_raw_fd(), &vector, control, MsgFlags::MSG_NOSIGNAL, None).is_ok()
    }
}

fn name() -> Address {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Address::Abstract(format!("hostile-{}-{number}", std::process::id()))
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < end, "waited 10 s for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn carries(one: &Interface, other: &Interface) {
    let up = |interface: &Interface| matches!(interface.state(), State::Up { .. });
    eventually("an honest peer to be served", || up(one) && up(other));
    let [mut one, mut other] = [one, other].map(|interface| interface.queue(0, PortId(0)).unwrap());
    let mut packets = vec![Packet::new(&[7; 60]).unwrap()];
    assert_eq!((one.transmit(&mut packets), other.receive(&mut packets, 64)), (1, 1));
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn hostile_clients_do_no_harm_to_a_server() {
    Pool::heap(300).install();
    let mut random = Random(chance::Random(1));
    let socket = name();
    let mut settings = Settings::new("@", Role::Server);
    (settings.socket, settings.trusted, settings.queues) = (socket.clone(), true, 2);
    let server = Interface::open(settings.clone()).unwrap();
    let mut queue = server.queue(0, PortId(0)).unwrap();
    let (before, mut packets) = (open_descriptors(), Vec::new());
    for _ in 0..1500 {
        let Ok(client) = socket.connect() else { continue };
        // Half of them begin as they should.
        if random.below(2) == 0 {
            let init = Init { version: VERSION, id: 0, mode: 0, secret: [0; SECRET], name: String::new() };
            let _ = channel::send(client.as_fd(), &Message::Init(init).bytes(), None);
        }
        for _ in 0..random.below(12) {
            if !random.speak(&client) {
                break;
            }
        }
        queue.receive(&mut packets, 64);
        packets.extend(Packet::new(&[1; 60]));
        queue.transmit(&mut packets);
        packets.clear();
        queue.kick();
    }
    eventually("them to be forgotten", || open_descriptors() < before + 100);
    drop(queue);
    settings.role = Role::Client;
    let client = Interface::open(settings).unwrap();
    carries(&server, &client);
}

#[test]
fn hostile_servers_do_no_harm_to_a_client() {
    Pool::heap(300).install();
    let mut random = Random(chance::Random(2));
    let socket = name();
    let mut settings = Settings::new("@", Role::Client);
    (settings.socket, settings.ring) = (socket.clone(), 16);
    let listener = socket.listen().unwrap();
    let client = Interface::open(settings.clone()).unwrap();
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        let Some(server) = channel::accept(listener.as_fd()) else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let hello = Hello {
            name: "server".to_owned(),
            versions: (VERSION, VERSION),
            last_region: 0,
            last_to_client: random.number() as u16,
            last_to_server: random.number() as u16,
            most_log2: random.number() as u8,
        };
        let _ = channel::send(server.as_fd(), &Message::Hello(hello).bytes(), None);
        let mut right = random.below(8);
        for _ in 0..8 {
            std::thread::sleep(Duration::from_millis(1));
            while let Received::Message(..) | Received::Length(_) = channel::receive(server.as_fd()) {}
            if right > 0 {
                right -= 1;
                let _ = channel::send(server.as_fd(), &Message::Ack.bytes(), None);
            } else {
                random.speak(&server);
            }
        }
    }
    drop(listener);
    settings.role = Role::Server;
    let server = Interface::open(settings).unwrap();
    carries(&server, &client);
}

/// Writes random numbers all over the memory until told to stop.
fn scribble(memory: &Arc<[Region]>, stop: &AtomicBool) {
    let mut random = Random(chance::Random(3));
    let words = memory[0].bytes() as u64 / 8;
    while !stop.load(Ordering::Relaxed) {
        let (at, value) = match random.below(8) {
            0 => (random.below(words), random.next()),
            // Head and tail: what could be, and what could not.
            1 => (0, random.below(70) << 48),
            2 => (8, random.below(70)),
            3 if random.below(100) == 0 => (random.below(2) * 8, random.next()),
            // A descriptor's first word, and its second.
            4 | 5 => (16 + 2 * random.below(64), (random.below(9) / 8) | (random.below(5000) << 32)),
            6 => (16 + 2 * random.below(64), random.next()),
            _ => (17 + 2 * random.below(64), random.below(300_000)),
        };
        let word = memory[0].at(at as u32 * 8, 8).unwrap();
        // SAFETY: inside the mapping, at a multiple of 8.
        unsafe { word.cast::<AtomicU64>().as_ref() }.store(value, Ordering::Relaxed);
    }
}

/// Works with a ring that somebody scribbles on.
fn work<B: Buffers>(make: impl Fn(&Arc<[Region]>) -> B) {
    const CHUNKS: usize = 300;
    Pool::heap(CHUNKS).install();
    let memory: Arc<[Region]> = Arc::new([Region::create(1 << 18, HugePages::Off).unwrap().0]);
    let stop = AtomicBool::new(false);
    let mut counters = QueueCounters::default();
    std::thread::scope(|scope| {
        scope.spawn(|| scribble(&memory, &stop));
        let end = Instant::now() + Duration::from_millis(700);
        let (mut received, mut sending) = (Vec::new(), Vec::new());
        while Instant::now() < end {
            // What is broken at the sending end stays so: then a new one.
            let ring = || Ring::at(&memory, 0, 0, 6).unwrap();
            let mut incoming = Incoming::new(ring(), make(&memory));
            let mut outgoing = Outgoing::new(ring(), make(&memory), SharedBell::pair().unwrap().0);
            for _ in 0..200 {
                incoming.receive(&mut received, 64, PortId(1), &mut counters);
                for packet in received.drain(..) {
                    assert!(packet.total_len() >= 14 && packet.segment_count() <= crate::MAX_SEGMENTS);
                    assert_eq!(packet.segments().map(<[u8]>::len).sum::<usize>(), packet.total_len());
                }
                sending.extend(Packet::new(&[3; 60]));
                sending.extend(Packet::new(&[3; 9000]));
                outgoing.transmit(&mut sending, &mut counters);
                sending.truncate(8);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(counters.corrupt > 0 && counters.rx_packets > 0 && counters.tx_packets > 0, "{counters:?}");
    assert_eq!(crate::pool::available(), CHUNKS);
}

#[test]
fn a_peer_that_writes_garbage_into_its_own_memory_gets_no_further() {
    work(theirs);
}

#[test]
fn a_peer_that_writes_garbage_into_our_memory_gets_no_further() {
    work(own);
}

/// The peer's buffers, as a ring of 64 in this memory tells of them.
fn theirs(memory: &Arc<[Region]>) -> Theirs {
    Ring::at(memory, 0, 0, 6).unwrap().theirs()
}

/// Buffers of ours behind a ring of 64.
fn own(memory: &Arc<[Region]>) -> Own {
    let (offset, stride, bytes, mask) = (bytes_of(6) as u32, 512, 448, 63);
    Own { base: memory[0].at(offset, 64 * stride).unwrap(), stride, bytes, offset, mask }
}

/// The peer goes further than it may, and then on as it should; `counter` is the one that it moves.
fn overrun<B: Buffers>(make: impl Fn(&Arc<[Region]>) -> B, counter: impl Fn(&Ring) -> &AtomicU16) {
    Pool::heap(100).install();
    let memory: Arc<[Region]> = Arc::new([Region::create(1 << 18, HugePages::Off).unwrap().0]);
    let ring = || Ring::at(&memory, 0, 0, 6).unwrap();
    let (mut incoming, peer, buffers) = (Incoming::new(ring(), make(&memory)), ring(), make(&memory));
    let (mut received, mut counters) = (Vec::new(), QueueCounters::default());
    let mut fill = |indexes: std::ops::Range<u16>| {
        let end = indexes.end;
        for index in indexes {
            peer.write(index, buffers.describe(index, peer.read(index), 60, false));
        }
        counter(&peer).store(end, Ordering::Release);
        let count = incoming.receive(&mut received, 64, PortId(1), &mut counters);
        received.clear();
        // All of it is given back at once.
        let given = if B::OURS {
            peer.head().load(Ordering::Acquire).wrapping_sub(64)
        } else {
            peer.tail().load(Ordering::Acquire)
        };
        assert!(given == end && (!B::OURS || (0..64).all(|index| peer.read(index).length == 448)));
        (count, counters.corrupt)
    };
    assert_eq!(fill(0..5), (5, 0));
    assert_eq!(fill(5..71), (0, 64));
    for (begin, end) in [(71, 74), (74, 138), (138, 139)] {
        assert_eq!(fill(begin..end), (usize::from(end - begin), 64));
    }
}

#[test]
fn a_peer_that_fills_more_than_there_is_room_for_loses_that_and_no_more() {
    overrun(theirs, |ring| ring.head());
    overrun(own, |ring| ring.tail());
}

/// Clears the flag that keeps calls from blocking, and has the next ring fill the counter up.
fn have_it_block(peer: &OwnedFd) {
    fcntl(peer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    nix::unistd::write(peer, &(u64::MAX - 1).to_ne_bytes()).unwrap();
}

#[test]
fn a_peer_whose_bells_block_holds_no_worker_up() {
    let (done, finished) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        Pool::heap(100).install();
        let memory: Arc<[Region]> = Arc::new([Region::create(1 << 18, HugePages::Off).unwrap().0]);
        let ring = |at| Ring::at(&memory, 0, at, 6).unwrap();
        let [(incoming, heard), (outgoing, rung)] = [(); 2].map(|()| SharedBell::pair().unwrap());
        let to_peer = bytes_of(6) as u32;
        let ends = Ends {
            incoming: Some((Incoming::new(ring(0), theirs(&memory)), incoming)),
            outgoing: Some(Outgoing::new(ring(to_peer), ring(to_peer).theirs(), outgoing)),
        };
        let slot = Arc::new(Slot::new().unwrap());
        slot.lay(Rings::Server(ends));
        let mut queue = MemifQueue::new(PortId(1), slot).unwrap();
        [&heard, &rung].into_iter().for_each(have_it_block);
        // It goes to sleep, finds what came just then, and takes it, while the peer empties the
        // bell that it reads.
        let peer = ring(0);
        peer.write(0, theirs(&memory).describe(0, peer.read(0), 60, false));
        peer.head().store(1, Ordering::Release);
        let _ = queue.fd();
        let _ = nix::unistd::read(&heard, &mut [0; 8]);
        let mut packets = Vec::new();
        assert_eq!(queue.receive(&mut packets, 64), 1);
        // It sends, and the peer asks to be rung each time.
        let peer = ring(to_peer);
        let buffer = peer.read(0);
        (0..64).for_each(|index| peer.write(index, theirs(&memory).describe(index, buffer, 2048, false)));
        peer.head().store(64, Ordering::Release);
        peer.ask_for_interrupts(true);
        packets.clear();
        for _ in 0..10 {
            packets.extend(Packet::new(&[1; 60]));
            assert_eq!(queue.transmit(&mut packets), 1);
        }
        done.send(queue.counters().wakeups).unwrap();
    });
    assert_eq!(finished.recv_timeout(Duration::from_secs(10)), Ok(10));
}

/// What a server says after this offer of memory.
fn offer_memory(settings: &Settings, regions: &[u64]) -> Option<Message> {
    let socket = settings.socket.connect().unwrap();
    let hear = || {
        let mut heard = None;
        eventually("an answer", || {
            heard = match channel::receive(socket.as_fd()) {
                Received::Nothing => return false,
                Received::Message(bytes, _) => Message::parse(&bytes).ok(),
                Received::End | Received::Length(_) => None,
            };
            true
        });
        heard
    };
    hear();
    let init = Init { version: VERSION, id: 0, mode: 0, secret: [0; SECRET], name: String::new() };
    channel::send(socket.as_fd(), &Message::Init(init).bytes(), None).unwrap();
    hear();
    let mut said = None;
    for (index, bytes) in (0..).zip(regions) {
        let file = memfd_create("large", MFdFlags::MFD_ALLOW_SEALING).unwrap();
        ftruncate(&file, *bytes as libc::off_t).unwrap();
        let region = Message::AddRegion { index, bytes: *bytes };
        channel::send(socket.as_fd(), &region.bytes(), Some(file.as_fd())).unwrap();
        said = hear();
        if !matches!(said, Some(Message::Ack)) {
            break;
        }
    }
    said
}

#[test]
fn a_client_brings_as_much_memory_as_its_queues_need() {
    const QUEUE: u64 = 128 << 20;
    let mut settings = Settings::new("@", Role::Server);
    (settings.socket, settings.queues) = (name(), 2);
    let server = Interface::open(settings.clone()).unwrap();
    let waits = || eventually("it to wait again", || matches!(server.state(), State::Down { .. }));
    for regions in [&[2 * QUEUE][..], &[QUEUE, QUEUE / 2]] {
        assert!(matches!(offer_memory(&settings, regions), Some(Message::Ack)));
        waits();
    }
    for regions in [&[2 * QUEUE + 1][..], &[QUEUE, QUEUE, 4096], &[1 << 40]] {
        let Some(Message::Disconnect { reason, .. }) = offer_memory(&settings, regions) else {
            panic!("{regions:?} are taken");
        };
        assert!(reason.contains("trusted=on"), "{reason}");
        waits();
    }
}

#[test]
fn who_only_comes_keeps_nobody_away() {
    let mut settings = Settings::new("@", Role::Server);
    settings.socket = name();
    let server = Interface::open(settings.clone()).unwrap();
    Pool::heap(10).install();
    let idle: Vec<_> = (0..600)
        .filter_map(|_| {
            let end = Instant::now() + Duration::from_secs(1);
            loop {
                // More come at once than may wait at the door.
                match settings.socket.connect() {
                    Ok(socket) => break Some(socket),
                    Err(_) if Instant::now() < end => std::thread::yield_now(),
                    Err(_) => break None,
                }
            }
        })
        .collect();
    assert_eq!(idle.len(), 600);
    settings.role = Role::Client;
    let client = Interface::open(settings).unwrap();
    carries(&server, &client);
}
