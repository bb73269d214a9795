//! What memif carries: `cargo bench -p port --bench memif`.
//!
//! - *one core*: both ends of a ring on one core, so that no line changes its core: what our instructions cost.
//! - *two processes*: this one sends 64-byte frames into one interface and takes them out of another, on core 0; another process
//!   forwards them from one to the other, on core 1: ours (receive, transmit), and dpdk-testpmd in io mode, which looks at nothing.
//!   As many frames are under way as half a ring holds, so none is lost, and the slower of the two decides.
//!
//! With `-- --alone` the processes take the cores from all others while they are measured, a second at a time.
//!
//! The machine may be busy with other things. So the time is cut into windows of two milliseconds, and what is shown is the median
//! of all and that of the fastest tenth, in which both processes had their cores to themselves.

use std::cmp::Ordering;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fib::PortId;
use port::memif::{Interface, Role, Settings, State};
use port::{MemifQueue, Packet, Pool, Queue};

const FRAME: usize = 64;
/// How many are counted.
const WINDOWS: usize = 400;
const WINDOW: Duration = Duration::from_millis(2);
const UNDER_WAY: usize = 512;
const BATCH: usize = 64;
/// What makes this program the forwarder: the sockets' name.
const SOCKET: &str = "BIFROST_MEMIF_SOCKET";
/// And its role.
const ROLE: &str = "BIFROST_MEMIF_ROLE";

fn main() {
    if let Ok(socket) = std::env::var(SOCKET) {
        let role = if std::env::var(ROLE).as_deref() == Ok("server") { Role::Server } else { Role::Client };
        return forward(&socket, role);
    }
    pin(0);
    Pool::heap(4096).install();
    let hz = cycles_a_second();
    println!("memif at {:.2} GHz; between processes frames have {FRAME} bytes\n", hz / 1e9);
    [64, 576, 1500].into_iter().for_each(one_core);
    println!();
    for theirs in [Role::Client, Role::Server] {
        let name = format!("bench-{}-{theirs:?}", std::process::id());
        println!("forwarder as the {}", format!("{theirs:?}").to_lowercase());
        between("ours", theirs, &name, hz, ours(&name, theirs));
        between("testpmd", theirs, &name, hz, testpmd(&name, theirs, ""));
        if theirs == Role::Client {
            between("testpmd, zero-copy", theirs, &name, hz, testpmd(&name, theirs, "zero-copy=yes"));
        }
    }
}

fn pin(core: usize) {
    // SAFETY: a set of cores is plain bits; the calls read it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a counter.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static BEGAN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        BEGAN.elapsed().as_nanos() as u64
    }
}

fn cycles_a_second() -> f64 {
    let (began, cycles) = (Instant::now(), now());
    std::thread::sleep(Duration::from_millis(100));
    (now() - cycles) as f64 / began.elapsed().as_secs_f64()
}

/// The median, and that of the tenth that is best by `order`.
fn medians(mut figures: Vec<f64>, order: fn(&f64, &f64) -> Ordering) -> [f64; 2] {
    figures.sort_by(order);
    [figures[figures.len() / 2], figures[figures.len() / 20]]
}

fn open(socket: &str, id: u32, role: Role) -> Interface {
    let mut settings = Settings::new(format!("@{socket}").as_str(), role);
    (settings.id, settings.trusted) = (id, true);
    Interface::open(settings).expect("an interface")
}

fn wait_for(interface: &Interface) {
    let end = Instant::now() + Duration::from_secs(20);
    while !matches!(interface.state(), State::Up { .. }) {
        assert!(Instant::now() < end, "nobody came: {:?}", interface.state());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Batches in a window of one core.
const ROUNDS: u32 = 100;

fn one_core(length: usize) {
    let socket = format!("bench-{}", std::process::id());
    let [server, client] = [Role::Server, Role::Client].map(|role| open(&socket, 0, role));
    wait_for(&client);
    wait_for(&server);
    let mut one = server.queue(0, PortId(0)).expect("a queue");
    let mut other = client.queue(0, PortId(0)).expect("a queue");
    for way in ["server to client", "client to server"] {
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        let mut packets: Vec<Packet> = (0..32).filter_map(|_| Packet::new(&vec![7; length])).collect();
        for _ in 0..WINDOWS {
            let (mut sending, mut receiving) = (0, 0);
            for _ in 0..ROUNDS {
                let began = now();
                let sent = one.transmit(&mut packets);
                let between = now();
                let received = other.receive(&mut packets, 32);
                receiving += now() - between;
                sending += between - began;
                assert_eq!((sent, received), (32, 32));
            }
            sends.push(sending as f64 / f64::from(32 * ROUNDS));
            receives.push(receiving as f64 / f64::from(32 * ROUNDS));
        }
        let [send, receive] = [sends, receives].map(|cycles| medians(cycles, f64::total_cmp)[1]);
        println!("one core, {length:4} bytes, {way}: {send:.1} cycles to send, {receive:.1} to receive");
        std::mem::swap(&mut one, &mut other);
    }
}

/// Another process, ended when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended by itself, or does now.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ours(socket: &str, role: Role) -> impl FnOnce() -> Process {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.env(SOCKET, socket).env(ROLE, if role == Role::Server { "server" } else { "client" });
    move || Process(command.spawn().expect("this program"))
}

fn testpmd(socket: &str, role: Role, more: &str) -> impl FnOnce() -> Process {
    let role = if role == Role::Server { "server" } else { "client" };
    let ports = [0, 1].map(|id| format!("--vdev=net_memif{id},role={role},socket={socket},id={id},{more}"));
    let mut command = Command::new("dpdk-testpmd");
    command
        .args(["--no-huge", "-m", "256", "--no-pci", "--no-shconf", "--no-telemetry", "-l", "0,1"])
        .args(["--single-file-segments", &format!("--file-prefix={socket}")])
        .args(ports)
        .args(["--", "-i", "--no-flush-rx", "--total-num-mbufs=8192", "--forward-mode=io"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    move || {
        let mut process = Process(command.spawn().expect("dpdk-testpmd, of the package dpdk-dev"));
        let input = process.0.stdin.as_mut().expect("its input");
        input.write_all(b"start\n").expect("its input");
        process
    }
}

/// Forwards between the interfaces 0 and 1 until it is ended.
fn forward(socket: &str, role: Role) {
    Pool::heap(4096).install();
    // The threads beside the data path stay on the core that they began on.
    let interfaces = [0, 1].map(|id| open(socket, id, role));
    pin(1);
    let mut queues = interfaces.each_ref().map(|interface| interface.queue(0, PortId(0)).expect("a queue"));
    let mut packets = Vec::with_capacity(64);
    loop {
        for _ in 0..2 {
            let [from, to] = &mut queues;
            from.receive(&mut packets, 64);
            to.transmit(&mut packets);
            packets.clear();
            from.kick();
            queues.swap(0, 1);
        }
    }
}

/// Sends to a forwarder and takes back.
fn between(what: &str, theirs: Role, socket: &str, hz: f64, start: impl FnOnce() -> Process) {
    let mut wanted = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    if wanted.next().is_some_and(|wanted| wanted != what) {
        return;
    }
    let ours = if theirs == Role::Server { Role::Client } else { Role::Server };
    let interfaces = [0, 1].map(|id| open(socket, id, ours));
    let process = start();
    interfaces.iter().for_each(wait_for);
    let _alone = std::env::args().any(|argument| argument == "--alone").then(|| Alone::new(&process));
    let mut queues = interfaces.each_ref().map(|interface| interface.queue(0, PortId(0)).expect("a queue"));
    let [out, back] = &mut queues;
    let mut packets: Vec<Packet> = (0..UNDER_WAY).filter_map(|_| Packet::new(&[7; FRAME])).collect();
    let mut rates: Vec<f64> = (0..WINDOWS).map(|_| carry(out, back, &mut packets)).collect();
    // The first ones warm up.
    rates.drain(..WINDOWS / 10);
    let [median, best] = medians(rates, |a, b| b.total_cmp(a));
    println!(
        "  {what:20} {:6.2} Mpps, undisturbed {:6.2} ({:.1} cycles a packet)",
        median / 1e6,
        best / 1e6,
        hz / best
    );
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

/// Keeps the frames going round for a window; how many come back in a second.
fn carry(out: &mut MemifQueue, back: &mut MemifQueue, packets: &mut Vec<Packet>) -> f64 {
    let (began, mut count) = (Instant::now(), 0);
    while began.elapsed() < WINDOW {
        for _ in 0..64 {
            // As generators do: a batch at a time, and not what has just come back.
            if packets.len() >= BATCH {
                out.transmit(packets);
            }
            count += back.receive(packets, 64);
        }
        out.kick();
        back.kick();
    }
    count as f64 / began.elapsed().as_secs_f64()
}
