//! Trials over queues: what a device under test does to packets is what the report says.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fib::PortId;
use port::{Packet, Queue, QueueCounters};
use proptest::prelude::*;
use traffic::{Port, Report, Stream, Trial};

/// What a device under test does to the packet with this number: gives it on so many times, each
/// after a while.
type Fate = dyn Fn(u64, &mut Packet) -> Vec<Duration> + Send + Sync;

/// A device under test: what one end transmits the other receives.
#[derive(Clone)]
struct Device {
    fate: Arc<Fate>,
    state: Arc<Mutex<State>>,
    /// Packets for which the receiving end had no room.
    missed: Arc<AtomicU64>,
}

#[derive(Default)]
struct State {
    seen: u64,
    /// In order of their time.
    waiting: VecDeque<(Instant, Vec<u8>)>,
}

impl Device {
    fn new(fate: impl Fn(u64, &mut Packet) -> Vec<Duration> + Send + Sync + 'static) -> Device {
        Device { fate: Arc::new(fate), state: Arc::default(), missed: Arc::default() }
    }

    fn port(&self) -> Port {
        Port::of_queues("device", vec![Box::new(self.clone())])
    }
}

impl Queue for Device {
    fn port(&self) -> PortId {
        PortId::NONE
    }

    fn receive(&mut self, into: &mut Vec<Packet>, quota: usize) -> usize {
        let mut state = self.state.lock().unwrap();
        let before = into.len();
        while into.len() - before < quota
            && state.waiting.front().is_some_and(|(at, _)| *at <= Instant::now())
        {
            let (_, bytes) = state.waiting.pop_front().unwrap();
            into.push(Packet::new(&bytes).unwrap());
        }
        into.len() - before
    }

    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        let mut state = self.state.lock().unwrap();
        let taken = packets.len();
        for mut packet in packets.drain(..) {
            let number = state.seen;
            state.seen += 1;
            for delay in (self.fate)(number, &mut packet) {
                let at = Instant::now() + delay;
                let place = state.waiting.partition_point(|(other, _)| *other <= at);
                state.waiting.insert(place, (at, packet.to_vec()));
            }
        }
        taken
    }

    fn kick(&mut self) {}

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> QueueCounters {
        QueueCounters { rx_ring_full: self.missed.load(Ordering::Relaxed), ..QueueCounters::default() }
    }
}

/// One at a time: each has two threads that do not sleep.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(device: &Device, stream: &str, count: u64) -> Report {
    let trial = Trial {
        streams: Stream::parse_all(&format!("[[stream]]\n{stream}")).unwrap(),
        to: Some(device.port()),
        count: Some(count),
        ..Trial::new(device.port())
    };
    trial.run().unwrap()
}

#[test]
fn a_device_that_does_nothing_loses_nothing() {
    let _alone = alone();
    let device = Device::new(|_, _| vec![Duration::ZERO]);
    for stream in [
        "rate = '50kpps'\nflows = 100\nflow_length = 7\nsource = '10.0.0.0/16'",
        "rate = '20kpps'\nsize = 'imix'\nprotocol = 'udp'\nvlan = [1, 2]\nsize = '72-9000'",
        "rate = '20kpps'\nsize = '92-400'\nprotocol = 'icmp'\nsource = '::1'\ndestination = '::2'\nextension_headers = ['routing']",
        "rate = '20kpps'\nsize = 80\nprotocol = 'tcp'\nmpls = [1]",
    ] {
        let stream = stream.replace("size = 'imix'\n", "");
        let report = run(&device, &stream, 5000);
        let only = &report.streams[0];
        assert_eq!((report.sender.as_str(), report.receiver.as_deref()), ("queue", Some("queue")));
        assert_eq!((only.offered, only.sent.packets, only.lost), (5000, 5000, Some(0)), "{stream}");
        assert_eq!(
            (only.received, only.corrupt, only.duplicates),
            (Some(only.sent), Some(0), Some(0)),
            "{stream}"
        );
        assert_eq!((only.reordering.unwrap().packets, report.foreign.packets), (0, 0));
        assert_eq!(report.loss_ratio(), Some(0.0));
        assert_eq!(only.spacing.as_ref().unwrap().count, 4999);
    }
}

#[test]
fn what_the_sink_itself_loses_is_told() {
    let _alone = alone();
    // Some of before the trial.
    let missed = Arc::new(AtomicU64::new(5));
    let full = missed.clone();
    let fate = move |number: u64, _: &mut Packet| {
        if !number.is_multiple_of(10) {
            return vec![Duration::ZERO];
        }
        full.fetch_add(1, Ordering::Relaxed);
        vec![]
    };
    let device = Device { missed, ..Device::new(fate) };
    let report = run(&device, "rate = '20kpps'", 1000);
    assert_eq!((report.missed, report.streams[0].lost), (100, Some(100)));
    let told = |report: &Report| {
        report.notes.iter().any(|note| note.starts_with("100 frames were lost at the sink's own port"))
    };
    assert!(told(&report), "{:?}", report.notes);
    let report = run(&Device::new(|_, _| vec![]), "rate = '20kpps'", 100);
    assert!(report.missed == 0 && !told(&report), "{:?}", report.notes);
}

#[test]
fn what_lay_in_the_queue_before_is_not_counted() {
    let _alone = alone();
    let device = Device::new(|_, _| vec![Duration::ZERO]);
    let before = (Instant::now(), vec![2; 60]);
    device.state.lock().unwrap().waiting.extend(vec![before; 500]);
    let report = run(&device, "rate = '20kpps'", 200);
    assert_eq!((report.foreign.packets, report.streams[0].lost), (0, Some(0)));
}

#[test]
fn loss_copies_and_changes_are_told_apart() {
    let _alone = alone();
    let device = Device::new(|number, packet| match number % 100 {
        0 => vec![],
        1..3 => vec![Duration::ZERO; 3],
        5 => {
            let last = packet.len() - 1;
            packet.data_mut()[last] ^= 0x10;
            vec![Duration::ZERO]
        }
        6 => {
            // Of another trial, or anybody's.
            packet.data_mut()[42] ^= 1;
            vec![Duration::ZERO]
        }
        _ => vec![Duration::ZERO],
    });
    let report = run(&device, "rate = '100kpps'", 10_000);
    let only = &report.streams[0];
    assert_eq!((only.lost, only.duplicates, only.corrupt), (Some(200), Some(400), Some(100)));
    assert_eq!(report.foreign.packets, 100);
    assert_eq!(only.loss_ratio, Some(0.02));
    assert_eq!(only.lost_until, Some(0.9907), "the last that did not arrive as itself has the number 9906");
    assert_eq!(only.reordering.unwrap().packets, 0);
}

#[test]
fn late_packets_are_reordered_and_a_known_delay_is_found() {
    let _alone = alone();
    // Every hundredth packet is held until some that were sent later have passed it.
    let held = Duration::from_millis(3);
    let device = Device::new(move |number, _| {
        vec![Duration::from_millis(10) + if number % 100 == 50 { held } else { Duration::ZERO }]
    });
    let report = run(&device, "rate = '10kpps'", 2000);
    let only = &report.streams[0];
    let order = only.reordering.unwrap();
    // All 20, unless the sender was held up just then and sent nothing that could pass.
    assert!(only.lost == Some(0) && (15..=20).contains(&order.packets) && order.late == 0, "{order:?}");
    assert!((order.ratio - order.packets as f64 / 2000.0).abs() < 1e-9);
    // A packet comes each 0.1 ms: some 30 pass, more where a sender that was held up catches up.
    assert!(order.extent >= 20, "{order:?}");
    let latency = only.latency.as_ref().unwrap();
    let lateness = only.lateness.as_ref().unwrap();
    assert!(latency.min >= 10_000_000 && latency.max >= 13_000_000, "{latency:?}");
    // What is above the delay is the sender's own lateness, and the time until the sink's thread
    // was let run.
    assert!(latency.p50 < 16_000_000 + lateness.max, "{latency:?} {lateness:?}");
}

/// The device stops for 100 ms: packets that were due meanwhile have waited, whether the sender
/// noticed or not.
#[test]
fn a_stall_is_seen_by_all_packets_that_were_due_in_it() {
    let _alone = alone();
    struct Stalls(Device, Instant);
    impl Queue for Stalls {
        fn port(&self) -> PortId {
            PortId::NONE
        }
        fn receive(&mut self, into: &mut Vec<Packet>, quota: usize) -> usize {
            self.0.receive(into, quota)
        }
        fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
            let stalled = (100..200).contains(&self.1.elapsed().as_millis());
            if stalled { 0 } else { self.0.transmit(packets) }
        }
        fn kick(&mut self) {}
        fn fd(&self) -> Option<BorrowedFd<'_>> {
            None
        }
        fn counters(&self) -> QueueCounters {
            QueueCounters::default()
        }
    }
    let device = Device::new(|_, _| vec![Duration::ZERO]);
    let from = Port::of_queues("stalls", vec![Box::new(Stalls(device.clone(), Instant::now()))]);
    let trial = Trial {
        streams: Stream::parse_all("[[stream]]\nrate = '10kpps'").unwrap(),
        to: Some(device.port()),
        duration: Some(Duration::from_millis(400)),
        ..Trial::new(from)
    };
    let report = trial.run().unwrap();
    let only = &report.streams[0];
    assert_eq!((only.offered, only.sent.packets, only.lost), (4000, 4000, Some(0)));
    // A quarter of the packets were due in it, and waited 50 ms on average.
    let latency = only.latency.as_ref().unwrap();
    assert!(latency.p90 > 40_000_000 && latency.max > 90_000_000, "{latency:?}");
    assert!(report.notes.iter().any(|note| note.contains("after they were due")), "{:?}", report.notes);
}

#[test]
fn a_port_that_takes_nothing_is_reported_as_such() {
    let _alone = alone();
    let device = Device::new(|_, _| vec![]);
    struct Full;
    impl Queue for Full {
        fn port(&self) -> PortId {
            PortId::NONE
        }
        fn receive(&mut self, _: &mut Vec<Packet>, _: usize) -> usize {
            0
        }
        fn transmit(&mut self, _: &mut Vec<Packet>) -> usize {
            0
        }
        fn kick(&mut self) {}
        fn fd(&self) -> Option<BorrowedFd<'_>> {
            None
        }
        fn counters(&self) -> QueueCounters {
            QueueCounters::default()
        }
    }
    let trial = Trial {
        streams: Stream::parse_all("[[stream]]\nrate = '100kpps'").unwrap(),
        to: Some(device.port()),
        duration: Some(Duration::from_millis(100)),
        drain: Duration::ZERO,
        ..Trial::new(Port::of_queues("full", vec![Box::new(Full)]))
    };
    let report = trial.run().unwrap();
    assert_eq!((report.offered(), report.sent().packets), (10_000, 0));
    assert!(report.notes.iter().any(|note| note.contains("could not be sent")), "{:?}", report.notes);
}

#[test]
fn several_cores_share_a_stream_without_disorder() {
    let _alone = alone();
    let device = Device::new(|_, _| vec![Duration::ZERO]);
    let trial = Trial {
        streams: Stream::parse_all(
            "[[stream]]\nrate = '40kpps'\nflows = 5\nsource_port = '1-5'\n[[stream]]\nrate = '1kpps'",
        )
        .unwrap(),
        to: Some(device.port()),
        duration: Some(Duration::from_millis(250)),
        cores: vec![0, 0],
        ..Trial::new(device.port())
    };
    let report = trial.run().unwrap();
    let [both, one] = &report.streams[..] else { panic!() };
    assert_eq!((both.sent.packets, both.lost, both.reordering.unwrap().packets), (10_000, Some(0), 0));
    assert_eq!((one.sent.packets, one.lost), (250, Some(0)));
}

#[test]
fn a_file_is_replayed_with_its_own_timing() {
    let _alone = alone();
    let path = std::env::temp_dir().join(format!("bifrost-replay-{}.pcap", std::process::id()));
    let mut bytes = wire::capture::pcap::header(true, 65_535, 1).to_vec();
    for i in 0..100i64 {
        // 100 packets in 99 ms, in pairs.
        bytes.extend(wire::capture::pcap::record(true, i / 2 * 2_000_000, 60, 60));
        bytes.extend([i as u8; 60]);
    }
    std::fs::write(&path, bytes).unwrap();
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = times.clone();
    let device = Device::new(move |number, packet| {
        assert_eq!(packet.data(), [(number % 100) as u8; 60]);
        seen.lock().unwrap().push(Instant::now());
        vec![Duration::ZERO]
    });
    let stream = format!("replay = '{}'\nreplay_speed = 2\nreplay_loops = 2", path.display());
    let report = run(&device, &stream, u64::MAX);
    assert_eq!(report.streams[0].sent.packets, 200);
    assert_eq!((report.foreign.packets, report.streams[0].lost), (200, None));
    let times = times.lock().unwrap();
    // At double speed 49 gaps of 1 ms, and again; less what the first packet was late.
    let late = Duration::from_nanos(report.streams[0].lateness.as_ref().unwrap().max);
    assert!(times[199].duration_since(times[0]) + late >= Duration::from_millis(98), "{late:?}");
    std::fs::remove_file(path).unwrap();
}

proptest! {
    #[test]
    fn files_of_streams_are_no_danger(text in "(\\[\\[stream\\]\\]|[a-z_]{1,12}|[0-9]{1,22}|[=\"'\\n\\[\\]{},. :%/-]|imix|random |0x[0-9a-f]{2}){0,40}") {
        if let Ok(streams) = Stream::parse_all(&text) {
            for stream in streams {
                let _either = traffic::plan::Plan::new(&stream, traffic::plan::Ends::NONE);
            }
        }
    }

    #[test]
    fn values_are_no_danger(value in "(random |burst |gap |[0-9.:a-f-]{1,20}|[kMG]?(pps|bps|%)|/[0-9]{1,3}|imix|,|:|\\PC){0,6}") {
        let _ = value.parse::<traffic::size::Sizes>().map(|sizes| sizes.cycle());
        let _ = value.parse::<traffic::rate::Rate>();
        let _ = value.parse::<traffic::rate::Pattern>();
        let _ = value.parse::<traffic::range::Ports>();
        let _ = value.parse::<traffic::range::Macs>();
        let _ = value.parse::<traffic::range::Addresses>();
        let _ = value.parse::<traffic::stream::Fill>();
        let _ = value.parse::<traffic::stream::TcpFlags>();
        let _ = Port::open(&format!("{value}:no-such-port"), false).is_ok();
    }
}

#[test]
fn a_file_that_cannot_be_written_ends_the_trial_with_the_reason() {
    let _alone = alone();
    let begin = Instant::now();
    let trial = Trial {
        streams: vec![Stream::default()],
        duration: Some(Duration::from_secs(60)),
        ..Trial::new(Port::open("pcap:/dev/full", false).unwrap())
    };
    let error = trial.run().unwrap_err().to_string();
    assert!(error.starts_with("port pcap:/dev/full: /dev/full: No space left"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_file_is_left_as_it_was_until_packets_leave_for_it() {
    let path = std::env::temp_dir().join(format!("bifrost-left-{}.pcap", std::process::id()));
    std::fs::write(&path, "a capture").unwrap();
    let trial = |streams: Vec<Stream>| Trial {
        streams,
        count: Some(3),
        ..Trial::new(Port::open(&format!("pcap:{}", path.display()), false).unwrap())
    };
    let wrong = Stream { vlan: vec![5000], ..Stream::default() };
    trial(vec![Stream::default(), wrong]).run().unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), b"a capture", "what is refused has sent nothing");
    trial(vec![Stream::default()]).run().unwrap();
    let written = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(written.len(), 24 + 3 * (16 + 60), "three frames of 60 bytes, and headers");
}

#[test]
fn slow_streams_have_the_rate_that_was_asked_for() {
    let _alone = alone();
    let trial = |rate: &str, milliseconds: Option<u64>, count: Option<u64>| {
        let trial = Trial {
            streams: Stream::parse_all(&format!("[[stream]]\nrate = '{rate}'")).unwrap(),
            duration: milliseconds.map(Duration::from_millis),
            count,
            ..Trial::new(Port::open("memory", false).unwrap())
        };
        trial.run().unwrap()
    };
    // The last of them is due 100 ms before the end, which belong to the time.
    let report = trial("10pps", Some(500), None);
    assert_eq!((report.seconds, report.streams[0].sent.packets), (0.5, 5));
    assert_eq!(report.streams[0].sent_rate, 10.0);
    let one = trial("0.1pps", Some(200), None);
    assert_eq!((one.seconds, one.streams[0].sent_rate), (0.2, 5.0));
    // So many are over with the last of them. How late they left is in their rate, which has four
    // gaps and not five.
    for duration in [None, Some(60_000)] {
        let report = trial("20pps", duration, Some(5));
        let late = report.streams[0].lateness.as_ref().map_or(0.0, |lateness| lateness.max as f64 / 1e9);
        let gaps = 3.96 / (0.2 + late)..4.04 / (0.2 - late).max(0.001);
        assert!(gaps.contains(&report.streams[0].sent_rate), "{report:?}");
        assert!(report.seconds < 1.0, "{}", report.seconds);
    }
    let alone = trial("20pps", None, Some(1));
    assert_eq!(alone.streams[0].sent_rate, 0.0, "one packet has no rate");
}
