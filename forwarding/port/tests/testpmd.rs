//! memif with DPDK's implementation of it: `dpdk-testpmd`, of Debian's package dpdk-dev
//! (`lab/setup.sh lab`).
//!
//! testpmd in io mode with one port sends back what it receives.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fib::PortId;
use port::memif::{Interface, Role, Settings, State};
use port::{MemifQueue, Packet, Pool, Queue};

const PATIENCE: Duration = Duration::from_secs(30);

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_up(interface: &Interface) -> bool {
    matches!(interface.state(), State::Up { .. })
}

/// A running testpmd with one memif port, killed without warning when dropped.
struct Testpmd {
    process: Child,
    log: PathBuf,
    _input: std::process::ChildStdin,
    _alone: MutexGuard<'static, ()>,
}

/// It polls, and two would share a core.
static ALONE: Mutex<()> = Mutex::new(());

impl Testpmd {
    /// Starts one; `port` are the arguments of its port, `forward` those of the program.
    fn start(port: &str, forward: &str) -> Testpmd {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("bifrost-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let log = std::env::temp_dir().join(format!("{name}.log"));
        let file = File::create(&log).unwrap();
        let errors = file.try_clone().unwrap();
        let mut process = Command::new("dpdk-testpmd")
            .args(["--no-huge", "-m", "128", "--no-pci", "--no-shconf", "--no-telemetry", "-l", "0,1"])
            .args([
                "--single-file-segments",
                &format!("--file-prefix={name}"),
                &format!("--vdev=net_memif0,{port}"),
            ])
            .args(["--", "-i", "--no-flush-rx", "--total-num-mbufs=8192"])
            .args(forward.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .expect("dpdk-testpmd, of the package dpdk-dev");
        let mut input = process.stdin.take().unwrap();
        input.write_all(b"start\n").unwrap();
        Testpmd { process, log, _input: input, _alone: alone }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.said());
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

/// A frame whose bytes follow from its number.
fn frame(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (number * 31 + at * 7) as u8).collect()
}

/// Sends frames of these lengths, and sees that they come back whole and in order.
fn echo(queue: &mut MemifQueue, lengths: &[usize]) {
    let (mut sending, mut received) = (Vec::new(), Vec::new());
    let (mut sent, mut arrived) = (0, 0);
    eventually("all frames", || {
        // Not more than testpmd can hold: what does not fit where it sends them it drops.
        while sending.len() < 32 && sent < lengths.len() && sent - arrived < 64 {
            sending.push(Packet::new(&frame(sent, lengths[sent])).unwrap());
            sent += 1;
        }
        queue.transmit(&mut sending);
        queue.receive(&mut received, 64);
        queue.kick();
        for packet in received.drain(..) {
            assert_eq!(packet.to_vec(), frame(arrived, lengths[arrived]), "frame {arrived}");
            arrived += 1;
        }
        arrived == lengths.len()
    });
}

/// An interface with a testpmd at the other end.
fn with(role: Role, port: &str, change: impl FnOnce(&mut Settings)) -> (Interface, Testpmd) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("testpmd-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let mut settings = Settings::new(format!("@{name}").as_str(), role);
    change(&mut settings);
    let open = || Interface::open(settings.clone()).unwrap();
    let start = |other| {
        Testpmd::start(&format!("role={other},socket={name},id={},{port}", settings.id), "--forward-mode=io")
    };
    // Whoever listens is there first: testpmd tries only once.
    let (interface, testpmd) = match role {
        Role::Server => (open(), start("client")),
        Role::Client => {
            let testpmd = start("server");
            (open(), testpmd)
        }
    };
    eventually("testpmd", || is_up(&interface));
    (interface, testpmd)
}

#[test]
fn we_serve_testpmd() {
    Pool::heap(2000).install();
    let all: Vec<usize> = (60..1519).chain([64; 5000]).collect();
    for (port, trusted) in [
        ("rsize=10,bsize=2048,secret=abc", false),
        // With buffers smaller than its own testpmd would find the mark of a chain where a short
        // frame goes next, and leave it there.
        ("rsize=9,bsize=512,secret=abc", false),
        ("zero-copy=yes,secret=abc", true),
    ] {
        let change = |settings: &mut Settings| {
            (settings.id, settings.secret, settings.trusted) = (3, Some("abc".to_owned()), trusted);
        };
        let (interface, _testpmd) = with(Role::Server, port, change);
        let State::Up { peer, .. } = interface.state() else { panic!("gone") };
        assert!(peer.starts_with("DPDK"), "{peer}");
        let mut queue = interface.queue(0, PortId(0)).unwrap();
        echo(&mut queue, &all);
        let counters = queue.counters();
        assert_eq!((counters.corrupt, counters.tx_invalid, counters.wakeups), (0, 0, 0));
    }
}

#[test]
fn testpmd_serves_us() {
    Pool::heap(2000).install();
    let lengths: Vec<usize> = (60..1519).chain([64; 5000]).collect();
    for (ring, buffer) in [(1024, 2048), (256, 512)] {
        let change = |settings: &mut Settings| {
            (settings.ring, settings.buffer, settings.secret) = (ring, buffer, Some("xyz".to_owned()));
        };
        let (interface, _testpmd) = with(Role::Client, "secret=xyz", change);
        let mut queue = interface.queue(0, PortId(0)).unwrap();
        echo(&mut queue, &lengths);
        let counters = queue.counters();
        assert_eq!((counters.corrupt, counters.tx_invalid, counters.wakeups), (0, 0, 0));
    }
}

#[test]
fn a_wrong_secret_and_memory_that_may_vanish_are_refused() {
    let name = format!("refused-{}", std::process::id());
    let mut settings = Settings::new(format!("@{name}").as_str(), Role::Server);
    settings.secret = Some("abc".to_owned());
    let server = Interface::open(settings).unwrap();
    for (port, why) in [
        ("secret=abd", "the secret is another one"),
        (
            "secret=abc,zero-copy=yes",
            "its memory is not sealed against shrinking, as that of DPDK with zero-copy: take it with trusted=on",
        ),
    ] {
        let _testpmd = Testpmd::start(&format!("role=client,socket={name},{port}"), "");
        eventually(why, || match server.state() {
            State::Down { why: said } => said == why,
            _ => false,
        });
    }
}

#[test]
fn testpmd_is_killed_and_comes_again() {
    Pool::heap(2000).install();
    let path = std::env::temp_dir().join(format!("bifrost-killed-{}", std::process::id()));
    let path = path.to_str().unwrap();
    for role in [Role::Client, Role::Server] {
        let start = |role: &str| {
            Testpmd::start(&format!("role={role},socket={path},socket-abstract=no"), "--forward-mode=io")
        };
        let mut testpmd = (role == Role::Client).then(|| start("server"));
        let interface = Interface::open(Settings::new(path, role)).unwrap();
        let mut queue = interface.queue(0, PortId(0)).unwrap();
        for _ in 0..2 {
            let peer = testpmd.take().unwrap_or_else(|| {
                // A server that was killed has left its file, and testpmd does not replace it.
                if role == Role::Client {
                    std::fs::remove_file(path).unwrap();
                }
                start(if role == Role::Client { "server" } else { "client" })
            });
            eventually("testpmd", || is_up(&interface));
            echo(&mut queue, &[64; 2000]);
            let mut sending: Vec<_> = (0..64).map(|_| Packet::new(&[1; 64]).unwrap()).collect();
            queue.transmit(&mut sending);
            // In the middle of it.
            drop(peer);
            eventually("it to be missed", || !is_up(&interface));
            let mut back = Vec::new();
            while queue.receive(&mut back, 64) != 0 {}
            queue.kick();
            sending.push(Packet::new(&[1; 64]).unwrap());
            assert_eq!(queue.transmit(&mut sending), 0);
            assert_eq!(queue.counters().corrupt, 0);
        }
    }
    assert!(!std::path::Path::new(path).exists(), "ours replaced what testpmd left, and took it away");
}

#[test]
fn several_queues_of_testpmd() {
    Pool::heap(2000).install();
    let name = format!("queues-{}", std::process::id());
    let mut settings = Settings::new(format!("@{name}").as_str(), Role::Server);
    settings.queues = 2;
    let server = Interface::open(settings).unwrap();
    let _testpmd = Testpmd::start(&format!("role=client,socket={name}"), "--forward-mode=io --rxq=2 --txq=2");
    eventually("testpmd", || is_up(&server));
    for number in 0..2 {
        let mut queue = server.queue(number, PortId(number)).unwrap();
        echo(&mut queue, &[64; 1000]);
        assert_eq!(queue.counters().rx_packets, 1000);
    }
}
