//! Other people's programs, against which tests compare: nfdump, tshark.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A collector of nfdump's, listening on loopback until it is read.
pub struct Collector {
    child: Child,
    directory: tempfile::TempDir,
    pub port: u16,
}

impl Collector {
    /// `nfcapd` or `sfcapd`.
    pub fn start(program: &str) -> Collector {
        let directory = tempfile::tempdir().unwrap();
        let port = free_port();
        let child = Command::new(program)
            .args(["-b", "127.0.0.1", "-t", "3600", "-p", &port.to_string(), "-w"])
            .arg(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}: the tests need lab/setup.sh lab"));
        let collector = Collector { child, directory, port };
        let listening = format!(":{port:04X} ");
        wait("the collector listens", || fs::read_to_string("/proc/net/udp").unwrap().contains(&listening));
        collector
    }

    /// Ends it, and reads what it has, record by record. It may still have datagrams to read first.
    pub fn read(mut self) -> Vec<Value> {
        let queue = || {
            let text = fs::read_to_string("/proc/net/udp").unwrap();
            let line = text.lines().find(|line| line.contains(&format!(":{:04X} ", self.port)));
            line.and_then(|line| line.split_whitespace().nth(4).map(|queues| queues.ends_with(":00000000")))
        };
        wait("the collector has read all", || queue() == Some(true));
        sleep(Duration::from_millis(50));
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).unwrap();
        self.child.wait().unwrap();
        let out = Command::new("nfdump")
            .arg("-R")
            .arg(self.directory.path())
            .args(["-o", "json"])
            .output()
            .unwrap();
        assert!(out.status.success(), "nfdump: {}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8(out.stdout).unwrap();
        let end = text.rfind(']').expect("a list");
        serde_json::from_str::<Vec<Value>>(&text[..=end]).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A UDP port that nobody has at the moment.
pub fn free_port() -> u16 {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Until it is so; not for ever.
pub fn wait(what: &str, mut so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !so() {
        assert!(since.elapsed() < Duration::from_secs(20), "waiting until {what}");
        sleep(Duration::from_millis(10));
    }
}

/// Datagrams as tshark takes them apart, one text of its own form each (`-T json`), to this UDP
/// port.
pub fn tshark(datagrams: &[Vec<u8>], port: u16, decode_as: &str) -> Vec<Value> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("datagrams.pcap");
    write_pcap(&path, datagrams, port);
    let out = Command::new("tshark")
        .arg("-r")
        .arg(&path)
        .args(["-T", "json", "--no-duplicate-keys", "-d", &format!("udp.port=={port},{decode_as}")])
        .output()
        .unwrap_or_else(|error| panic!("tshark: {error}: the tests need lab/setup.sh lab"));
    assert!(out.status.success(), "tshark: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// A capture of raw IPv4 packets (link type 101).
fn write_pcap(path: &Path, datagrams: &[Vec<u8>], port: u16) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0002_0004, 0, 0, 65_535, 101] {
        // Version 2.4 is two numbers of 16 bits; in this byte order the major one comes first.
        file.extend(word.to_be_bytes());
    }
    for bytes in datagrams {
        let mut packet = vec![0x45, 0];
        packet.extend((28 + bytes.len() as u16).to_be_bytes());
        packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        packet.extend(port.to_be_bytes());
        packet.extend(port.to_be_bytes());
        packet.extend((8 + bytes.len() as u16).to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(bytes);
        for word in [0, 0, packet.len() as u32, packet.len() as u32] {
            file.extend(word.to_be_bytes());
        }
        file.extend(packet);
    }
    fs::write(path, file).unwrap();
}

/// Every value under this key, anywhere inside, in order.
pub fn all<'v>(value: &'v Value, key: &str) -> Vec<&'v Value> {
    fn find<'v>(value: &'v Value, key: &str, found: &mut Vec<&'v Value>) {
        match value {
            Value::Object(object) => {
                for (name, value) in object {
                    if name == key {
                        match value {
                            Value::Array(values) => found.extend(values),
                            value => found.push(value),
                        }
                    }
                    find(value, key, found);
                }
            }
            Value::Array(values) => values.iter().for_each(|value| find(value, key, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    find(value, key, &mut found);
    found
}
