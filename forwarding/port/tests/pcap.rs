//! Ports of files: what scapy wrote is replayed, what we record scapy and tcpdump read, and time
//! goes as it should.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fib::PortId;
use port::pcap::{Format, PcapError, Record, Replay, Timing};
use port::{Packet, PcapQueue, Pool, Queue, wait};
use wire::capture::{link, pcap};

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("bifrost-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs lines of Python with scapy, and gives what they printed.
fn scapy(lines: &str) -> String {
    let script =
        format!("import logging; logging.disable(logging.WARNING)\nfrom scapy.all import *\n{lines}\n");
    let output = Command::new("/usr/bin/python3").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A frame whose bytes follow from its number: Ethernet, of a type that nobody knows.
fn frame(number: usize) -> Vec<u8> {
    let length = 60 + number * 37 % 1441 + if number % 50 == 7 { 7500 } else { 0 };
    let mut bytes: Vec<u8> = (0..length).map(|at| (number * 31 + at * 7) as u8).collect();
    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    bytes
}

fn all(queue: &mut PcapQueue) -> Vec<Vec<u8>> {
    let (mut frames, mut packets) = (Vec::new(), Vec::new());
    while queue.receive(&mut packets, 32) > 0 {
        assert!(packets.iter().all(|packet| packet.input == queue.port().interface()));
        frames.extend(packets.drain(..).map(|packet| packet.to_vec()));
    }
    frames
}

fn replay(file: &Path, rounds: u64) -> PcapQueue {
    PcapQueue::new(PortId(3), Some(Replay::open(file, Timing::Fast, Some(rounds)).unwrap()), None)
}

#[test]
fn files_of_every_kind_that_scapy_writes_are_replayed() {
    Pool::heap(200).install();
    let folder = Folder::new("scapy");
    let names = ["little.pcap", "big.pcap", "little-ns.pcap", "big-ns.pcap", "new.pcapng"]
        .map(|name| folder.file(name));
    let hex =
        (0..120).map(|number| frame(number).iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let frames = folder.file("frames");
    std::fs::write(&frames, hex.collect::<Vec<_>>().join("\n")).unwrap();
    scapy(&format!(
        "frames = [Ether(bytes.fromhex(line)) for line in open({frames:?})]
for i, frame in enumerate(frames): frame.time = 1600000000 + i / 1000
for name, order, nano in (({:?}, '<', False), ({:?}, '>', False), ({:?}, '<', True), ({:?}, '>', True)):
    writer = PcapWriter(name, linktype=1, endianness=order, nano=nano)
    for frame in frames: writer.write(frame)
    writer.close()
wrpcapng({:?}, frames)",
        names[0], names[1], names[2], names[3], names[4]
    ));
    let expected: Vec<_> = (0..120).map(frame).collect();
    for name in &names {
        let mut queue = replay(name, 3);
        let received = all(&mut queue);
        assert_eq!(received.len(), 360);
        assert!(received.chunks(120).all(|round| round == expected), "{name:?}");
        assert!(queue.is_over());
        let bytes = 3 * expected.iter().map(Vec::len).sum::<usize>() as u64;
        assert_eq!((queue.counters().rx_packets, queue.counters().rx_bytes), (360, bytes));
    }
}

#[test]
fn what_is_recorded_scapy_tcpdump_and_we_read() {
    Pool::heap(500).install();
    let folder = Folder::new("record");
    let formats = [
        ("a.pcap", Format::Pcap { nanoseconds: false }),
        ("b.pcap", Format::Pcap { nanoseconds: true }),
        ("c.pcapng", Format::Pcapng),
    ];
    assert_eq!(Format::of(Path::new("x/c.pcapng")), Format::Pcapng);
    assert_eq!(Format::of(Path::new("x/c.pcap")), Format::Pcap { nanoseconds: false });
    for (name, format) in formats {
        let file = folder.file(name);
        let mut queue = PcapQueue::new(PortId(1), None, Some(Record::create(&file, format, 9000).unwrap()));
        let before = std::time::SystemTime::now();
        for batch in 0..10 {
            let mut packets: Vec<_> =
                (0..10).map(|number| Packet::new(&frame(batch * 10 + number)).unwrap()).collect();
            assert_eq!((queue.transmit(&mut packets), packets.len()), (10, 0));
        }
        queue.flush().unwrap();
        let counters = queue.counters();
        assert_eq!((counters.tx_packets, counters.tx_invalid), (100, 0));
        assert_eq!(counters.tx_bytes, (0..100).map(|number| frame(number).len() as u64).sum::<u64>());
        let expected: Vec<_> =
            (0..100).map(|number| frame(number)[..frame(number).len().min(9000)].to_vec()).collect();
        assert_eq!(all(&mut replay(&file, 1)), expected);
        let read = scapy(&format!(
            "for frame in rdpcap({file:?}): print(float(frame.time), frame.wirelen, bytes(frame).hex())"
        ));
        assert_eq!(read.lines().count(), 100);
        for (number, line) in read.lines().enumerate() {
            let [time, length, bytes] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let hex: String = expected[number].iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!((bytes, length.parse()), (hex.as_str(), Ok(frame(number).len())));
            let time = Duration::from_secs_f64(time.parse().unwrap());
            let began = before.duration_since(std::time::UNIX_EPOCH).unwrap();
            assert!(time + Duration::from_micros(10) >= began && time < began + Duration::from_secs(60));
        }
        let output = Command::new("tcpdump").args(["-n", "-e", "-r"]).arg(&file).output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            text.lines().filter(|line| line.contains("ethertype Unknown (0x88b5)")).count(),
            100,
            "{text}"
        );
    }
}

/// A file of frames at these times, in milliseconds.
fn timed(file: &Path, times: &[i64]) {
    let mut bytes = pcap::header(true, 2000, link::ETHERNET).to_vec();
    for (number, time) in times.iter().enumerate() {
        bytes.extend(pcap::record(true, 1_600_000_000_000_000_000 + time * 1_000_000, 60, 60));
        bytes.extend([number as u8; 60]);
    }
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn frames_come_when_they_came_by_a_factor_and_sleepers_are_woken_in_time() {
    Pool::heap(100).install();
    let folder = Folder::new("timing");
    let file = folder.file("times.pcap");
    // One claims to be earlier than the one before.
    timed(&file, &[0, 20, 25, 22, 60]);
    for (factor, rounds) in [(1.0, 2), (0.5, 2), (3.0, 1)] {
        let replay = Replay::open(&file, Timing::Times(factor), Some(rounds)).unwrap();
        let mut queue = PcapQueue::new(PortId(0), Some(replay), None);
        // The second round begins a mean distance, 15 ms, behind the last frame.
        let due = [0, 20, 25, 25, 60, 75, 95, 100, 100, 135]
            .map(|due| Duration::from_secs_f64(f64::from(due) * factor / 1000.0));
        let (began, mut packets, mut count) = (Instant::now(), Vec::new(), 0);
        while !queue.is_over() {
            assert!(began.elapsed() < Duration::from_secs(20), "{count} frames in 20 s");
            queue.receive(&mut packets, 32);
            for packet in packets.drain(..) {
                assert!(began.elapsed() >= due[count], "frame {count} after {:?}", began.elapsed());
                assert_eq!(packet.data(), [(count % 5) as u8; 60]);
                count += 1;
            }
            if queue.is_over() {
                break;
            }
            wait(&[queue.fd().unwrap().as_raw_fd()], Some(Duration::from_secs(10)));
            queue.kick();
            if let Some(due) = due.get(count) {
                let woken = began.elapsed();
                assert!(
                    woken + Duration::from_millis(1) >= *due && woken < *due + Duration::from_secs(2),
                    "{woken:?}"
                );
            }
        }
        assert_eq!(count, 5 * rounds as usize);
    }
}

#[test]
fn one_that_never_ends_goes_on_and_one_that_is_over_sleeps() {
    Pool::heap(100).install();
    let folder = Folder::new("ends");
    let file = folder.file("times.pcap");
    timed(&file, &[0, 1000]);
    let mut queue = PcapQueue::new(PortId(0), Some(Replay::open(&file, Timing::Fast, None).unwrap()), None);
    let mut packets = Vec::new();
    for _ in 0..1000 {
        assert_eq!(queue.receive(&mut packets, 31), 31);
        packets.clear();
    }
    assert!(!queue.is_over());
    assert_eq!(wait(&[queue.fd().unwrap().as_raw_fd()], Some(Duration::from_secs(10))).len(), 1);
    // Without packet memory it waits.
    let hoard: Vec<_> = std::iter::from_fn(|| Packet::new(&[0; 60])).collect();
    assert_eq!(queue.receive(&mut packets, 31), 0);
    drop(hoard);
    assert_eq!(queue.receive(&mut packets, 31), 31);
    for rounds in [0, 1] {
        let mut queue = replay(&file, rounds);
        assert_eq!((all(&mut queue).len(), queue.is_over()), (2 * rounds as usize, true));
        assert_eq!(wait(&[queue.fd().unwrap().as_raw_fd()], Some(Duration::from_millis(20))), []);
    }
    let mut nothing = PcapQueue::new(PortId(0), None, None);
    assert_eq!(
        (nothing.receive(&mut packets, 1), nothing.is_over(), nothing.fd().is_none()),
        (0, true, true)
    );
    assert_eq!((nothing.transmit(&mut packets), packets.len()), (31, 0));
}

#[test]
fn what_cannot_be_replayed_or_written_is_said() {
    let folder = Folder::new("wrong");
    let file = folder.file("file");
    let open = |timing| Replay::open(&file, timing, None).map(drop).unwrap_err();
    assert!(matches!(open(Timing::Fast), PcapError::Read { .. }));
    std::fs::write(&file, "no capture at all, but quite long").unwrap();
    assert!(open(Timing::Fast).to_string().ends_with("not a tcpdump file (bad magic number)"));
    let mut bytes = pcap::header(false, 2000, link::RAW).to_vec();
    std::fs::write(&file, &bytes).unwrap();
    assert!(matches!(open(Timing::Fast), PcapError::Empty { .. }));
    bytes.extend(pcap::record(false, 0, 20, 20));
    bytes.extend([0x45; 20]);
    std::fs::write(&file, &bytes).unwrap();
    assert!(matches!(open(Timing::Fast), PcapError::Link { link: link::RAW, .. }));
    timed(&file, &[0, 1]);
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(open(Timing::Times(factor)), PcapError::Factor(_)));
    }
    // Too long for a packet.
    let mut bytes = pcap::header(false, 0, link::ETHERNET).to_vec();
    for length in [100_000usize, 60] {
        bytes.extend(pcap::record(false, 0, length as u32, length as u32));
        bytes.resize(bytes.len() + length, 1);
    }
    std::fs::write(&file, &bytes).unwrap();
    let replay = Replay::open(&file, Timing::Fast, None).unwrap();
    assert_eq!((replay.frames(), replay.left_out()), (1, 1));

    let create = |file: &str| Record::create(Path::new(file), Format::Pcapng, 100);
    assert!(matches!(create("/nowhere/at/all"), Err(PcapError::Write { .. })));
    Pool::heap(10).install();
    let mut full = PcapQueue::new(PortId(0), None, Some(create("/dev/full").unwrap()));
    for _ in 0..10_000 {
        full.transmit(&mut vec![Packet::new(&[7; 200]).unwrap()]);
    }
    assert!(full.counters().tx_invalid > 0 && full.counters().tx_packets > 0);
    for _ in 0..2 {
        assert!(full.flush().unwrap_err().to_string().starts_with("/dev/full: No space left"));
    }
}
