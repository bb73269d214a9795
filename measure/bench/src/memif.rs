//! Shared memory between two processes, one core each.
//!
//! This process sends 64-byte frames into one memif interface and takes them out of another, on one
//! core; another process forwards them from one to the other, on another core:
//!
//! - `memif/io` and `memif/testpmd`: as they are, ours (receive, transmit) and dpdk-testpmd in io
//!   mode, which looks at nothing;
//! - `memif/v4/full`: the standard router with a million routes.
//!
//! The generator is the same for all: it writes each frame anew, to one of 65,536 destinations, and
//! counts what comes back. As many frames are under way as half a ring holds, so none is lost, and
//! the slower of the two decides. What came back is looked at before anything is timed.
//! `memif/send` and `memif/receive` are the cycles of the ends of a ring, both on one core, so that
//! no line changes its core.
//!
//! How fast a line of memory comes over from one core to the other changes within seconds where the
//! host moves virtual cores about: by a factor of 1.6 has been seen, one process after the other,
//! whoever it was. So all forwarders are started first, and measured in turns of twenty
//! milliseconds while the others are stopped. Both processes come before all others then. All
//! windows of two milliseconds count, also those in which the host took a core away.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fib::PortId;
use graph::BATCH;
use port::memif::{Interface, Role, Settings, State};
use port::{MemifQueue, Packet, Pool, Queue};

use crate::plane::{self, Frame, IN, OUT, Rig};
use crate::ruler::{Ruler, TICK, run_on, ticks};

const WINDOWS: usize = 400;
const WINDOW: Duration = Duration::from_millis(2);
/// Windows of one forwarder before it is the next one's turn.
const TURN: usize = 10;
const UNDER_WAY: usize = 512;
/// What makes this program the forwarder: the name of the socket.
const SOCKET: &str = "BIFROST_MEMIF_SOCKET";
/// And whether it is the router.
const ROUTES: &str = "BIFROST_MEMIF_ROUTES";

/// All benches of the family.
pub fn run(ruler: &mut Ruler) {
    if ruler.wants("memif/send") || ruler.wants("memif/receive") {
        one_core(ruler);
    }
    let wanted = ["memif/io", "memif/testpmd", "memif/testpmd-zero-copy", "memif/v4/full"];
    if !wanted.iter().any(|name| ruler.wants(name)) {
        return;
    }
    // On a thread of its own, because it moves to another core.
    std::thread::scope(|scope| _ = scope.spawn(|| two_cores(ruler, wanted)).join());
}

fn two_cores(ruler: &mut Ruler, wanted: [&'static str; 4]) {
    Pool::heap(8192).install();
    let frames = plane::full();
    let mut lanes = Vec::new();
    for name in wanted.into_iter().filter(|name| ruler.wants(name)) {
        let socket = format!("bench-{}-{}", std::process::id(), name.replace('/', "-"));
        let command = match name {
            "memif/testpmd" => testpmd(&socket, ""),
            "memif/testpmd-zero-copy" => testpmd(&socket, "zero-copy=yes"),
            _ => ours(&socket, name == "memif/v4/full"),
        };
        match Lane::open(&socket, command, &frames, name == "memif/v4/full") {
            Ok(lane) => lanes.push((name, lane, Vec::with_capacity(WINDOWS))),
            Err(why) => eprintln!("{name}: {why}"),
        }
    }
    for _ in 0..WINDOWS / TURN {
        for (_, lane, rates) in &mut lanes {
            lane.turn(rates);
        }
    }
    for (name, _, rates) in lanes {
        ruler.record(name, "Mpps", rates);
    }
}

fn open(socket: &str, id: u32, role: Role) -> Interface {
    let mut settings = Settings::new(format!("@{socket}").as_str(), role);
    (settings.id, settings.trusted) = (id, true);
    // Invariant of all `expect`s here: a bench that cannot open its ports has nothing to measure.
    Interface::open(settings).expect("an interface")
}

fn wait_for(interface: &Interface) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(30);
    while !matches!(interface.state(), State::Up { .. }) {
        if Instant::now() > end {
            return Err(format!("nobody came: {:?}", interface.state()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn one_core(ruler: &mut Ruler) {
    const ROUNDS: usize = 100;
    Pool::heap(4096).install();
    let socket = format!("bench-{}", std::process::id());
    let [server, client] = [Role::Server, Role::Client].map(|role| open(&socket, 0, role));
    if let Err(why) = wait_for(&client).and(wait_for(&server)) {
        return eprintln!("memif/send: {why}");
    }
    let mut one = client.queue(0, PortId(0)).expect("a queue");
    let mut other = server.queue(0, PortId(0)).expect("a queue");
    let mut packets: Vec<Packet> = (0..32).filter_map(|_| Packet::new(&[7; 60])).collect();
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for _ in 0..WINDOWS {
        let (mut sending, mut receiving) = (0, 0);
        for _ in 0..ROUNDS {
            sending += ticks(|| _ = one.transmit(&mut packets));
            receiving += ticks(|| _ = other.receive(&mut packets, 32));
            assert_eq!(packets.len(), 32);
        }
        sends.push(sending as f64 / (32 * ROUNDS) as f64);
        receives.push(receiving as f64 / (32 * ROUNDS) as f64);
    }
    ruler.record("memif/send", TICK, sends);
    ruler.record("memif/receive", TICK, receives);
}

/// Another process, ended when dropped.
struct Process(Child);

impl Process {
    fn signal(&self, signal: libc::c_int) {
        // SAFETY: no pointers; it is a child that nobody has waited for, so the number is its own.
        unsafe { libc::kill(self.0.id() as i32, signal) };
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended by itself, or does now.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ours(socket: &str, routes: bool) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(SOCKET, socket);
    if routes {
        command.env(ROUTES, "1");
    }
    command
}

fn testpmd(socket: &str, more: &str) -> Command {
    let ports = [0, 1].map(|id| format!("--vdev=net_memif{id},role=client,socket={socket},id={id},{more}"));
    let mut command = Command::new("dpdk-testpmd");
    command
        .args(["--no-huge", "-m", "256", "--no-pci", "--no-shconf", "--no-telemetry", "-l", "0,1"])
        .args(["--single-file-segments", &format!("--file-prefix={socket}")])
        .args(ports)
        .args(["--", "-i", "--no-flush-rx", "--total-num-mbufs=8192", "--forward-mode=io"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// The other process: forwards between two interfaces until it is ended. Returns at once in this
/// one.
pub fn forward_if_asked() -> bool {
    let Ok(socket) = std::env::var(SOCKET) else { return false };
    // SAFETY: no pointers; it ends with whoever started it.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    Pool::heap(4096).install();
    // The threads beside the data path stay on the core that they began on.
    if std::env::var(ROUTES).is_ok() {
        route(&socket)
    } else {
        pass(&socket)
    }
    true
}

fn pass(socket: &str) {
    let interfaces = [0, 1].map(|id| open(socket, id, Role::Client));
    run_on(1);
    let mut queues = interfaces.each_ref().map(|interface| interface.queue(0, PortId(0)).expect("a queue"));
    let mut packets = Vec::with_capacity(BATCH);
    loop {
        for _ in 0..2 {
            let [from, to] = &mut queues;
            from.receive(&mut packets, BATCH);
            to.transmit(&mut packets);
            packets.clear();
            from.kick();
            queues.swap(0, 1);
        }
    }
}

fn route(socket: &str) {
    let mut rig = Rig::full();
    let interfaces = [0, 1].map(|id| open(socket, id, Role::Client));
    run_on(1);
    let mut from = interfaces[0].queue(0, IN).expect("a queue");
    let mut to = interfaces[1].queue(0, OUT).expect("a queue");
    loop {
        rig.pass(&mut from, &mut to);
        from.kick();
        to.kick();
    }
}

/// A forwarder with what sends to it and receives from it. The process is stopped but in its turns.
struct Lane<'a> {
    generator: Generator<'a>,
    out: MemifQueue,
    back: MemifQueue,
    process: Process,
    _interfaces: [Interface; 2],
}

impl<'a> Lane<'a> {
    /// Starts it, and looks at all that it forwards.
    fn open(
        socket: &str,
        mut command: Command,
        frames: &'a [Frame],
        routed: bool,
    ) -> Result<Lane<'a>, String> {
        let interfaces = [0, 1].map(|id| open(socket, id, Role::Server));
        let spawned = command.spawn().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
        let mut process = Process(spawned);
        if let Some(input) = process.0.stdin.as_mut() {
            input.write_all(b"start\n").map_err(|error| format!("testpmd does not listen: {error}"))?;
        }
        interfaces.iter().try_for_each(wait_for)?;
        run_on(0);
        let [out, back] =
            interfaces.each_ref().map(|interface| interface.queue(0, PortId(0)).expect("a queue"));
        let mut generator = Generator {
            frames,
            next: 0,
            packets: Vec::with_capacity(UNDER_WAY),
            batch: Vec::with_capacity(BATCH),
        };
        generator.packets.extend((0..UNDER_WAY).filter_map(|_| Packet::new(&[0; 60])));
        let mut lane = Lane { generator, out, back, process, _interfaces: interfaces };
        lane.generator.check(&mut lane.out, &mut lane.back, routed)?;
        lane.process.signal(libc::SIGSTOP);
        Ok(lane)
    }

    /// What it carries, in Mpps, one figure a window.
    fn turn(&mut self, rates: &mut Vec<f64>) {
        self.process.signal(libc::SIGCONT);
        let alone = Alone::new(&self.process);
        // The first one warms up.
        self.generator.carry(&mut self.out, &mut self.back);
        rates.extend((0..TURN).map(|_| self.generator.carry(&mut self.out, &mut self.back) / 1e6));
        drop(alone);
        self.process.signal(libc::SIGSTOP);
    }
}

struct Generator<'a> {
    frames: &'a [Frame],
    next: usize,
    /// Those that are not under way.
    packets: Vec<Packet>,
    batch: Vec<Packet>,
}

impl Generator<'_> {
    /// A batch at a time, as generators do.
    fn send(&mut self, out: &mut MemifQueue) {
        let Some(rest) = self.packets.len().checked_sub(BATCH) else { return };
        self.batch.extend(self.packets.drain(rest..));
        for packet in &mut self.batch {
            self.frames[self.next].write(packet);
            self.next = (self.next + 1) % self.frames.len();
        }
        out.transmit(&mut self.batch);
        self.packets.append(&mut self.batch);
    }

    /// Every frame once: what comes back must be right.
    fn check(&mut self, out: &mut MemifQueue, back: &mut MemifQueue, routed: bool) -> Result<(), String> {
        let (end, mut seen) = (Instant::now() + Duration::from_secs(20), 0);
        while seen < self.frames.len() {
            self.send(out);
            let before = self.packets.len();
            back.receive(&mut self.packets, BATCH);
            for packet in &self.packets[before..] {
                seen += 1;
                if routed && !plane::right(packet.data(), OUT) {
                    return Err(format!("frame {seen} is wrong: {:02x?}", packet.data()));
                }
            }
            if Instant::now() > end {
                return Err(format!("{seen} of {} frames came back", self.frames.len()));
            }
            out.kick();
            back.kick();
        }
        Ok(())
    }

    /// Keeps frames going round for a window; how many come back in a second.
    fn carry(&mut self, out: &mut MemifQueue, back: &mut MemifQueue) -> f64 {
        let (began, mut count) = (Instant::now(), 0);
        while began.elapsed() < WINDOW {
            for _ in 0..64 {
                self.send(out);
                count += back.receive(&mut self.packets, BATCH);
            }
            out.kick();
            back.kick();
        }
        count as f64 / began.elapsed().as_secs_f64()
    }
}

/// This thread and those of another process come before all others, until it is dropped.
struct Alone;

impl Alone {
    fn new(process: &Process) -> Alone {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", process.0.id())).expect("its threads");
        let numbers = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
        numbers.chain([0]).for_each(|thread| schedule(thread, libc::SCHED_FIFO, 1));
        Alone
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        schedule(0, libc::SCHED_OTHER, 0);
    }
}

fn schedule(thread: i32, policy: i32, priority: i32) {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameters live through the call.
    unsafe { libc::sched_setscheduler(thread, policy, &raw const parameters) };
}
