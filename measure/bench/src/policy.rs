//! What the flow log costs the core that forwards, at the load of a student network of 30,000:
//! 300,000 packets and 10,000 new flows a second, filtered by 30 rules, in the standard graph, from
//! memory to memory.
//!
//! The core hands an account of each flow that has ended to the control thread, whose part a thread
//! on the first core plays: a second it writes them to files and a collector, a second it drops
//! them, in turns. What the packets, paced as they would come, cost meanwhile is compared, the
//! packets' own making included in both. The hundredth part of the batches that took longest is
//! left out: this core is not ours alone.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::frames::{FRAME, udp4};
use crate::ruler::{Ruler, TICK, run_on, ticks};
use ::plane::{Policy, PolicySettings};
use elements::router::standard::{self, Hooks, Standard};
use elements::router::{Ended, RouterContext, SharedContext, Sources};
use fib::{Adjacency, Capacity, InterfaceEntry, InterfaceFlags, NextHop, Path, PortId, Tables};
use flowlog::settings::{Collector, Files, Plan, Protocol, Times, Transport};
use flowlog::{Accounts, FlowLog};
use graph::{BATCH, Batch, Graph, NodeId, Sinks};
use port::prepared::{Fresh, Prepared, Sink};
use port::{Driver, Packet, Pool, Queue};
use wire::Mac;

const PACKETS: u64 = 300_000;
const FLOWS: u64 = 10_000;
/// Packets of a flow, and flows that live at the same time.
const EACH: u64 = PACKETS / FLOWS;
const LIVING: u64 = 3000;
const TURN: Duration = Duration::from_secs(1);
const TURNS: u32 = 48;
/// Turns before those, for flows to begin and end.
const BEFORE: u32 = 6;
/// As the control thread does.
const TICK_OF_CONTROL: Duration = Duration::from_millis(100);

const IN: PortId = PortId(1);
const OUT: PortId = PortId(2);

/// All benches of the family.
pub fn run(ruler: &mut Ruler) {
    if ruler.wants_family("policy/flow-log") {
        flow_log(ruler);
    }
}

/// The router and its policy.
struct Rig {
    graph: Graph,
    entry: NodeId,
    context: SharedContext,
    sinks: Sinks,
    batch: Batch,
    reader: fib::Reader,
    policy: Policy,
    _tables: Tables,
}

impl Rig {
    fn new() -> Rig {
        // Invariant of all `expect`s here: a bench that cannot make its tables has nothing to
        // measure.
        let mut tables = Tables::new(Capacity { ipv4: 1000, ipv6: 10, next_hops: 10 }, None).expect("tables");
        let flags =
            InterfaceFlags::UP | InterfaceFlags::QUEUE | InterfaceFlags::FORWARD4 | InterfaceFlags::FORWARD6;
        for port in [IN, OUT] {
            let mac = [2, 0, 0, 0, 1, port.0 as u8];
            let entry = InterfaceEntry::of_port(port, u32::from(port.0), 1500, mac, flags);
            tables.set_interface(port.interface(), Some(entry)).expect("a port");
        }
        let adjacency =
            tables.add_adjacency(&Adjacency { interface: OUT.interface(), mtu: 1500, mac: Some([2; 6]) });
        let path = Path { adjacency: adjacency.expect("an adjacency"), weight: 1 };
        let hop = tables.add_next_hop(&NextHop::Forward(vec![path])).expect("a next hop");
        tables.insert4("10.0.0.0/8".parse().expect("a prefix"), hop).expect("room");
        let few = Capacity { ipv4: 1, ipv6: 1, next_hops: 1 };
        let mut driver = Driver::new(&few.sizes()).expect("the driver's programs");
        let policy = Policy::new(policy(), 1, &mut driver, |_| Vec::new());
        let policy = policy.unwrap_or_else(|error| panic!("{error}"));
        let mut environment = standard::environment(RouterContext::new(tables.view(), Sources::new(), 1));
        policy.share(&mut environment);
        let context = policy.context(0).unwrap_or_else(|error| panic!("{error}"));
        environment.share(context.clone());
        let registry = elements::registry();
        let program = standard::program(&Hooks::default(), &policy.stages(), &registry, &environment);
        let program = Arc::new(program.unwrap_or_else(|refusal| panic!("{refusal}")));
        let Standard { graph, entry } =
            standard::instance(&program, &environment).unwrap_or_else(|refusal| panic!("{refusal}"));
        let mut sinks = Sinks::new();
        [IN, OUT].into_iter().for_each(|port| sinks.open(port));
        let reader = tables.view().reader();
        Rig { graph, entry, context, sinks, batch: Batch::new(), reader, policy, _tables: tables }
    }

    fn pass(&mut self, from: &mut dyn Queue, out: &mut Sink) {
        self.batch.receive(from, BATCH);
        self.graph.run(self.entry, &mut self.batch, &mut self.sinks);
        self.sinks.transmit(|_, packets| {
            out.transmit(packets);
        });
        self.context.maintain(graph::steady_now());
        self.reader.quiescent();
    }
}

/// 30 rules, of which the last matches, and flows that end a second after their last packet.
fn policy() -> PolicySettings {
    let many: String = (0..28).map(|n| format!("drop tcp to any port {}\n", n + 1)).collect();
    let rules =
        format!("chain forward policy drop\naccept state established,related\n{many}accept udp state new\n");
    let filter = ::rules::Filter::read("bench", &rules, &mut |_| Err(std::io::ErrorKind::NotFound.into()));
    let timeouts = flow::Timeouts { udp: Duration::from_secs(1), ..flow::Timeouts::default() };
    PolicySettings {
        filter: filter.unwrap_or_else(|wrong| panic!("{wrong}")),
        flows: Some(flow::Settings { timeouts, ..flow::Settings::default() }),
        ..PolicySettings::default()
    }
}

/// Files in a folder of its own, and a collector that listens and reads nothing.
fn plan(directory: &std::path::Path, collector: &UdpSocket) -> Plan {
    Plan {
        sample: 1,
        queue: 65_536,
        collectors: vec![Collector {
            address: collector.local_addr().expect("an address"),
            protocol: Protocol::Ipfix { biflow: true, times: Times::Nanoseconds },
            transport: Transport::Udp,
            source: None,
            mtu: 1500,
            domain: 1,
            templates: Duration::from_secs(60),
            queue: 65_536,
        }],
        files: Some(Files {
            directory: directory.to_owned(),
            rotate: Duration::from_secs(10),
            size: 64 << 20,
            sync: Duration::from_secs(1),
            keep: None,
            keep_size: None,
            queue: 65_536,
        }),
    }
}

/// The control thread: takes accounts until it is over, and logs them in every other turn. How many
/// were logged.
fn control(ended: &Ended, turn: &AtomicU32, over: &AtomicBool) -> u64 {
    run_on(0);
    let directory = std::env::temp_dir().join(format!("bifrost-bench-{}", std::process::id()));
    let collector = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let log = FlowLog::start(plan(&directory, &collector)).expect("the flow log");
    let (mut sender, mut accounts, mut logged) = (log.sender(), Accounts::new(0), 0);
    while !over.load(Relaxed) {
        let begun = Instant::now();
        let logs = turn.load(Relaxed) % 2 == 1;
        while let Some(account) = ended.accounts.pop() {
            if logs && let Some(record) = accounts.record(&account, |port| u32::from(port) + 1) {
                sender.push(record);
                logged += 1;
            }
        }
        std::thread::sleep(TICK_OF_CONTROL.saturating_sub(begun.elapsed()));
    }
    let status = log.status();
    assert_eq!(status.lost, 0, "the log kept up");
    drop((sender, log));
    // What it has written is of no use to anybody.
    let _ = std::fs::remove_dir_all(&directory);
    logged
}

/// The packet with this number: of one of the flows that live then.
fn write(frame: &[u8; FRAME], number: u64, packet: &mut Packet) {
    let flow = number / EACH + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % LIVING;
    packet.reset(FRAME);
    let bytes = packet.data_mut();
    bytes.copy_from_slice(frame);
    bytes[34..36].copy_from_slice(&(flow as u16).to_be_bytes());
    bytes[36..38].copy_from_slice(&(1024 + (flow >> 16) as u16).to_be_bytes());
    // None, which IPv4 allows: it would be different in each.
    bytes[40..42].copy_from_slice(&[0; 2]);
}

fn flow_log(ruler: &mut Ruler) {
    Pool::heap(4096 + 8 * BATCH).install();
    let mut rig = Rig::new();
    let frame = udp4(Mac([2, 0, 0, 0, 1, 1]), Mac([2, 0, 0, 0, 0, 9]), 0x0a63_0102, 0x0a01_0203);
    let source = Prepared::new(IN, 1024, Fresh::Always, move |number, packet: &mut Packet| {
        write(&frame, number, packet)
    });
    let Some(mut source) = source else { panic!("no packet memory") };
    let mut out = source.sink(OUT);
    let ended = rig.policy.ended().expect("flows are tracked").clone();
    let (turn, over) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let thread = {
        let (ended, turn, over) = (ended.clone(), turn.clone(), over.clone());
        std::thread::spawn(move || control(&ended, &turn, &over))
    };
    let every = Duration::from_secs(BATCH as u64) / PACKETS as u32;
    let (mut figures, mut sent) = ([Vec::new(), Vec::new()], 0u64);
    for number in 0..BEFORE + TURNS {
        turn.store(number, Relaxed);
        let (begun, mut due) = (Instant::now(), Duration::ZERO);
        let mut batches = Vec::new();
        while due < TURN {
            while begun.elapsed() < due {
                std::hint::spin_loop();
            }
            due += every;
            batches.push(ticks(|| rig.pass(&mut source, &mut out)));
            sent += BATCH as u64;
        }
        batches.sort_unstable();
        batches.truncate(batches.len() * 99 / 100);
        let each = batches.iter().sum::<u64>() as f64 / (batches.len() * BATCH) as f64;
        if number >= BEFORE {
            figures[number as usize % 2].push(each);
        }
    }
    over.store(true, Relaxed);
    let logged = thread.join().expect("the control thread");
    assert_eq!(out.counters().tx_packets, sent, "packets are missing");
    assert_eq!(ended.lost.load(Relaxed), 0, "accounts were lost");
    let expected = u64::from(TURNS / 2) * TURN.as_secs() * FLOWS;
    assert!(logged > expected * 8 / 10, "{logged} flows were logged, not {expected}");
    let [plain, with] = figures;
    let costs = plain.iter().zip(&with).map(|(plain, with)| 100.0 * (with - plain) / plain).collect();
    ruler.record("policy/flow-log/without", TICK, plain);
    ruler.record("policy/flow-log/with", TICK, with);
    ruler.record("policy/flow-log", "% of the forwarding core", costs);
}
