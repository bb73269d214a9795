//! memif between two interfaces of ours: frames of all sizes, several queues, peers that come and
//! go.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fib::PortId;
use port::memif::{Interface, MemifError, Role, Settings, State};
use port::{HugePages, MemifQueue, Packet, Pool, Queue, wait};

/// A name for a socket that no other test uses.
fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("@bifrost-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < end, "waited 10 s for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_up(interface: &Interface) -> bool {
    matches!(interface.state(), State::Up { .. })
}

fn pair(change: impl Fn(&mut Settings)) -> [Interface; 2] {
    let socket = name();
    let pair = [Role::Server, Role::Client].map(|role| {
        let mut settings = Settings::new(socket.as_str(), role);
        change(&mut settings);
        Interface::open(settings).unwrap()
    });
    eventually("a connection", || pair.iter().all(is_up));
    pair
}

/// A frame whose bytes follow from its number.
fn frame(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (number * 31 + at * 7) as u8).collect()
}

/// Sends frames of these lengths from one to the other, and sees that they arrive whole and in
/// order.
fn carry(from: &mut MemifQueue, to: &mut MemifQueue, lengths: &[usize]) {
    let mut sending = Vec::new();
    let (mut sent, mut arrived) = (0, 0);
    let mut received = Vec::new();
    eventually("all frames", || {
        while sending.len() < 32 && sent < lengths.len() {
            sending.push(Packet::new(&frame(sent, lengths[sent])).unwrap());
            sent += 1;
        }
        from.transmit(&mut sending);
        from.kick();
        to.receive(&mut received, 32);
        to.kick();
        for packet in received.drain(..) {
            assert!(packet.to_vec() == frame(arrived, lengths[arrived]), "frame {arrived}");
            assert_eq!(packet.input, to.port().interface());
            arrived += 1;
        }
        arrived == lengths.len()
    });
    assert_eq!(to.receive(&mut received, 32), 0);
}

#[test]
fn frames_of_all_lengths_arrive_in_both_directions() {
    Pool::heap(2000).install();
    let lengths: Vec<usize> = (14..2300).chain([3840, 3841, 9000, 14, 60, 30_000, 64]).collect();
    for (ring, buffer, huge_pages) in [
        (1024, 2048, HugePages::Auto),
        (64, 1500, HugePages::Off),
        (1024, 64, HugePages::Off),
        (16, 65_536, HugePages::Off),
    ] {
        let [server, client] = pair(|settings| {
            (settings.ring, settings.buffer, settings.huge_pages) = (ring, buffer, huge_pages);
        });
        let mut one = server.queue(0, PortId(1)).unwrap();
        let mut other = client.queue(0, PortId(2)).unwrap();
        carry(&mut one, &mut other, &lengths);
        carry(&mut other, &mut one, &lengths);
        for queue in [&one, &other] {
            let counters = queue.counters();
            assert_eq!((counters.corrupt, counters.tx_invalid, counters.wakeups), (0, 0, 0));
            assert_eq!(counters.rx_packets, lengths.len() as u64);
            assert_eq!(counters.rx_bytes, lengths.iter().sum::<usize>() as u64);
            assert_eq!((counters.tx_packets, counters.tx_bytes), (counters.rx_packets, counters.rx_bytes));
        }
    }
}

#[test]
fn what_never_fits_is_dropped_and_what_does_not_fit_now_stays() {
    Pool::heap(100).install();
    let [server, client] = pair(|settings| (settings.ring, settings.buffer) = (4, 64));
    let mut one = server.queue(0, PortId(1)).unwrap();
    let mut other = client.queue(0, PortId(2)).unwrap();
    for _ in 0..2 {
        let mut packets: Vec<_> =
            [257, 100, 0, 120, 14, 64].map(|n| Packet::new(&frame(0, n)).unwrap()).into();
        assert_eq!(one.transmit(&mut packets), 4);
        assert_eq!((packets.len(), packets[0].len(), one.transmit(&mut packets)), (2, 14, 0));
        let mut received = Vec::new();
        assert_eq!(other.receive(&mut received, 1), 1);
        assert_eq!(other.receive(&mut received, 64), 1);
        assert_eq!((one.transmit(&mut packets), other.receive(&mut received, 64)), (2, 2));
        assert_eq!(received.iter().map(Packet::total_len).collect::<Vec<_>>(), [100, 120, 14, 64]);
        std::mem::swap(&mut one, &mut other);
    }
    assert_eq!((one.counters().tx_invalid, other.counters().tx_invalid), (2, 2));
}

#[test]
fn queues_are_independent_and_a_client_may_have_fewer() {
    Pool::heap(1000).install();
    let socket = name();
    let mut settings = Settings::new(socket.as_str(), Role::Server);
    settings.queues = 4;
    let server = Interface::open(settings.clone()).unwrap();
    (settings.role, settings.queues, settings.name) = (Role::Client, 3, "three".to_owned());
    let client = Interface::open(settings).unwrap();
    eventually("a connection", || is_up(&server) && is_up(&client));
    let State::Up { peer, interface, receive, transmit } = server.state() else { panic!() };
    assert!(peer.starts_with("Bifrost"));
    assert_eq!((interface.as_str(), receive, transmit), ("three", 3, 3));
    let mut ones: Vec<_> = (0..4).map(|queue| server.queue(queue, PortId(queue)).unwrap()).collect();
    let mut others: Vec<_> = (0..3).map(|queue| client.queue(queue, PortId(9)).unwrap()).collect();
    assert!(matches!(client.queue(1, PortId(9)), Err(MemifError::QueueInUse(1))));
    assert!(matches!(client.queue(3, PortId(9)), Err(MemifError::NoQueue { queue: 3, queues: 3 })));
    for (one, other) in ones.iter_mut().zip(&mut others) {
        let mut packets = vec![Packet::new(&frame(one.port().0.into(), 60)).unwrap()];
        assert_eq!((one.transmit(&mut packets), other.transmit(&mut packets)), (1, 0));
    }
    let mut received = Vec::new();
    for (queue, other) in others.iter_mut().enumerate().rev() {
        assert_eq!(other.receive(&mut received, 64), 1);
        assert_eq!(received.pop().unwrap().data(), frame(queue, 60));
    }
    let mut packets = vec![Packet::new(&frame(0, 60)).unwrap()];
    assert_eq!((ones[3].transmit(&mut packets), ones[3].receive(&mut received, 64)), (0, 0));
    // A queue that is given back goes on where it was.
    let [one, other] = [&mut ones[1], &mut others[1]];
    carry(one, other, &[60; 100]);
    others.remove(1);
    let mut other = client.queue(1, PortId(9)).unwrap();
    carry(&mut ones[1], &mut other, &[60; 3000]);
    carry(&mut other, &mut ones[1], &[60; 3000]);
}

#[test]
fn a_peer_that_goes_is_seen_and_one_that_comes_is_served() {
    Pool::heap(500).install();
    let socket = name();
    let open = |role| Interface::open(Settings::new(socket.as_str(), role)).unwrap();
    let mut server = open(Role::Server);
    let mut one = server.queue(0, PortId(1)).unwrap();
    let client = open(Role::Client);
    let mut other = client.queue(0, PortId(2)).unwrap();
    eventually("a connection", || is_up(&server) && is_up(&client));
    carry(&mut one, &mut other, &[60; 2000]);
    // What a client sent before it went is still received.
    let mut last: Vec<_> = (0..100).map(|_| Packet::new(&[1; 60]).unwrap()).collect();
    assert_eq!(other.transmit(&mut last), 100);
    drop((client, other));
    eventually("the client to go", || matches!(server.state(), State::Down { .. }));
    assert_eq!(server.state(), State::Down { why: "the interface was closed".to_owned() });
    let mut received = Vec::new();
    while one.receive(&mut received, 64) != 0 {}
    assert_eq!(received.len(), 100);
    let mut packet = vec![Packet::new(&[1; 60]).unwrap()];
    assert_eq!((one.transmit(&mut packet), one.receive(&mut received, 64)), (0, 0));
    // The server goes, and comes back.
    let client = open(Role::Client);
    let mut other = client.queue(0, PortId(2)).unwrap();
    eventually("the next client", || is_up(&server) && is_up(&client));
    carry(&mut one, &mut other, &[60; 2000]);
    carry(&mut other, &mut one, &[60; 2000]);
    for _ in 0..3 {
        drop(one);
        drop(server);
        eventually("the server to go", || !is_up(&client));
        server = open(Role::Server);
        eventually("the next server", || is_up(&server) && is_up(&client));
        one = server.queue(0, PortId(1)).unwrap();
        carry(&mut one, &mut other, &[60; 2000]);
        carry(&mut other, &mut one, &[60; 2000]);
    }
}

#[test]
fn who_only_sends_finds_the_next_peer_as_well() {
    Pool::heap(500).install();
    let socket = name();
    let open = |role| Interface::open(Settings::new(socket.as_str(), role)).unwrap();
    let server = open(Role::Server);
    let mut queue = server.queue(0, PortId(1)).unwrap();
    for peer in 1..=3 {
        let client = open(Role::Client);
        let mut other = client.queue(0, PortId(2)).unwrap();
        eventually("a client", || is_up(&server) && is_up(&client));
        eventually("a frame to be taken", || {
            queue.kick();
            queue.transmit(&mut vec![Packet::new(&[1; 60]).unwrap()]) == 1
        });
        eventually("it to arrive", || other.receive(&mut Vec::new(), 64) == 1);
        // Nobody receives here: what peers leave behind is not to keep them there.
        assert_eq!(other.transmit(&mut vec![Packet::new(&[1; 60]).unwrap()]), 1);
        drop((other, client));
        eventually("the client to go", || !is_up(&server));
        assert_eq!(server.peers(), peer);
    }
}

#[test]
fn who_does_not_fit_is_told_why() {
    let path = std::env::temp_dir().join(format!("bifrost-memif-{}", std::process::id()));
    let path = path.to_str().unwrap();
    let mut settings = Settings::new(path, Role::Server);
    (settings.id, settings.secret) = (7, Some("open sesame".to_owned()));
    let server = Interface::open(settings.clone()).unwrap();
    assert!(matches!(Interface::open(settings.clone()), Err(MemifError::IdInUse { id: 7, .. })));
    let refused = |change: &dyn Fn(&mut Settings), why: &str| {
        let mut settings = Settings { role: Role::Client, ..settings.clone() };
        change(&mut settings);
        let client = Interface::open(settings).unwrap();
        let says_why = || match client.state() {
            State::Down { why: said } | State::Connecting { why: said } => said.contains(why),
            State::Up { .. } => false,
        };
        eventually(why, says_why);
        // Whenever somebody looks: it tries again all the time.
        let until = Instant::now() + Duration::from_millis(250);
        while Instant::now() < until {
            assert!(says_why(), "{:?}", client.state());
        }
    };
    refused(&|settings| settings.id = 8, "no interface 8");
    let told = State::Down { why: "a client was refused: there is no interface 8".to_owned() };
    assert_eq!(server.state(), told);
    refused(&|settings| settings.secret = None, "the secret");
    refused(&|settings| settings.secret = Some("open".to_owned()), "the secret");
    refused(&|settings| settings.socket = "/nowhere/at/all".into(), "cannot connect to /nowhere/at/all");
    let client = Interface::open(Settings { role: Role::Client, ..settings.clone() }).unwrap();
    eventually("the right one", || is_up(&client) && is_up(&server));
    refused(&|_| (), "connected already");
    // Several interfaces at one socket, which goes with the last.
    let second = Interface::open(Settings { id: 8, secret: None, ..settings.clone() }).unwrap();
    let guest = Settings { id: 8, secret: None, role: Role::Client, ..settings.clone() };
    let guest = Interface::open(guest).unwrap();
    eventually("the second interface", || is_up(&second) && is_up(&guest));
    drop(server);
    eventually("the first to close", || !is_up(&client));
    assert!(is_up(&second) && is_up(&guest) && std::path::Path::new(path).exists());
    drop(second);
    assert!(!std::path::Path::new(path).exists());
    // A file that a server left behind is replaced; one that is served is not.
    std::fs::write(path, "precious").unwrap();
    let error = Interface::open(settings.clone()).map(drop).unwrap_err();
    assert!(error.to_string().contains(path) && std::fs::read(path).unwrap() == b"precious", "{error}");
    std::fs::remove_file(path).unwrap();
    drop(std::os::unix::net::UnixListener::bind(path).unwrap());
    drop(Interface::open(settings.clone()).unwrap());
    let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
    assert!(matches!(Interface::open(settings.clone()), Err(MemifError::Listen { .. })));
    drop(listener);
    std::fs::remove_file(path).unwrap();
    for settings in [
        Settings { ring: 1000, ..settings.clone() },
        Settings { ring: 32768, ..settings.clone() },
        Settings { ring: 0, ..settings.clone() },
        Settings { buffer: 63, ..settings.clone() },
        Settings { queues: 0, ..settings.clone() },
        Settings { queues: 256, ..settings.clone() },
        Settings { secret: Some("x".repeat(25)), ..settings.clone() },
        Settings { role: Role::Client, queues: 255, ring: 16384, ..settings.clone() },
        Settings { role: Role::Client, buffer: u32::MAX, ..settings.clone() },
    ] {
        assert!(Interface::open(settings).is_err());
    }
}

#[test]
fn a_sleeper_is_woken_by_a_frame_and_by_a_peer() {
    Pool::heap(100).install();
    let socket = name();
    let server = Interface::open(Settings::new(socket.as_str(), Role::Server)).unwrap();
    let mut one = server.queue(0, PortId(1)).unwrap();
    one.kick();
    let asleep =
        |queue: &MemifQueue, patience| wait(&[queue.fd().unwrap().as_raw_fd()], Some(patience)).is_empty();
    let (short, long) = (Duration::from_millis(20), Duration::from_secs(10));
    assert!(asleep(&one, short));
    let client = Interface::open(Settings::new(socket.as_str(), Role::Client)).unwrap();
    let mut other = client.queue(0, PortId(2)).unwrap();
    assert!(!asleep(&one, long), "the peer has come");
    eventually("a connection", || is_up(&client) && is_up(&server));
    let mut received = Vec::new();
    let send = |queue: &mut MemifQueue| {
        assert_eq!(queue.transmit(&mut vec![Packet::new(&[5; 60]).unwrap()]), 1);
    };
    for _ in 0..2 {
        one.kick();
        other.kick();
        assert!(asleep(&one, short) && one.receive(&mut received, 64) == 0);
        send(&mut other);
        assert_eq!(other.counters().wakeups, 0, "it is awake");
        assert!(!asleep(&one, long), "something came before it lay down");
        assert_eq!(one.receive(&mut received, 64), 1);
        assert!(asleep(&one, short));
        let sleeper = one.fd().unwrap().as_raw_fd();
        let woken = std::thread::spawn(move || wait(&[sleeper], Some(Duration::from_secs(10))));
        std::thread::sleep(Duration::from_millis(20));
        send(&mut other);
        assert_eq!(woken.join().unwrap(), [sleeper]);
        assert_eq!((other.counters().wakeups, one.receive(&mut received, 64)), (1, 1));
        std::mem::swap(&mut one, &mut other);
    }
    drop(client);
    let sleeper = if one.port() == PortId(1) { &one } else { &other };
    eventually("the peer to go", || !asleep(sleeper, short));
}
