use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{Host, LabError, Process, Result, wait_for};

/// A running tcpdump on one interface of a host.
pub struct Capture {
    host: Host,
    file: PathBuf,
    process: Process,
}

impl Capture {
    /// Starts to capture what the filter (of pcap-filter(7)) lets through, and returns once it
    /// listens.
    pub fn start(host: &Host, interface: &str, filter: &str) -> Result<Capture> {
        let file = host.folder().join(format!("{interface}.pcap"));
        let mut command = host.command("tcpdump");
        command
            .args(["-Z", "root", "-U", "-n", "--immediate-mode", "-i", interface, "-w"])
            .arg(&file)
            .arg(filter);
        let mut process = host.spawn(&format!("tcpdump-{interface}"), command)?;
        wait_for("tcpdump to listen", Duration::from_secs(10), || match process.ended() {
            Some(_) => Err(process.output()),
            None if process.output().contains("listening on") => Ok(()),
            None => Err(process.output()),
        })?;
        Ok(Capture { host: host.clone(), file, process })
    }

    /// Waits until so many packets are in the file: what tcpdump has not written when it is ended
    /// is lost.
    pub fn has_caught(&self, packets: usize, limit: Duration) -> Result<()> {
        wait_for(&format!("{packets} packets in the capture"), limit, || {
            let there = std::fs::read(&self.file).map_or(0, |bytes| records(&bytes).count());
            if there >= packets { Ok(()) } else { Err(format!("{there} are there")) }
        })
    }

    /// Ends it and gives the file (pcap), which goes when the lab goes.
    pub fn stop(&mut self) -> Result<PathBuf> {
        self.process.signal(Signal::SIGINT);
        self.process.wait(Duration::from_secs(5))?;
        Ok(self.file.clone())
    }

    /// Ends it and gives every frame.
    pub fn frames(&mut self) -> Result<Vec<Vec<u8>>> {
        let file = self.stop()?;
        let bytes = std::fs::read(&file).map_err(LabError::io(file.display().to_string()))?;
        Ok(records(&bytes).map(<[u8]>::to_vec).collect())
    }

    /// Ends it and gives every packet as tshark decodes it.
    pub fn decode(&mut self) -> Result<Vec<Value>> {
        let file = self.stop()?;
        let text = self.host.run(&format!("tshark -r {} -T json 2>/dev/null", file.display()))?;
        serde_json::from_str(&text).map_err(|_| LabError::Output {
            program: "tshark".to_owned(),
            expected: "a JSON list",
            got: text,
        })
    }
}

/// Whole packets in a file of this machine's byte order: 24 bytes, then for each 16 with its length
/// at 8.
fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes.get(24..).unwrap_or_default();
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(rest.get(8..12)?.try_into().ok()?) as usize;
        let (record, behind) = rest.split_at_checked(16 + length)?;
        rest = behind;
        Some(&record[16..])
    })
}

/// How two lists of frames differ, for people; `None`: not at all.
pub fn difference(linux: &[Vec<u8>], bifrost: &[Vec<u8>]) -> Option<String> {
    let only = |one: &[Vec<u8>], other: &[Vec<u8>]| {
        let short = |frame: &Vec<u8>| {
            let bytes = frame.iter().take(80).map(|byte| format!("{byte:02x}"));
            format!("{} {}", frame.len(), bytes.collect::<String>())
        };
        one.iter().filter(|frame| !other.contains(frame)).take(8).map(short).collect::<Vec<_>>()
    };
    (linux != bifrost).then(|| {
        format!(
            "{} by Linux, {} by Bifrost; only by Linux {:#?}, only by Bifrost {:#?}",
            linux.len(),
            bifrost.len(),
            only(linux, bifrost),
            only(bifrost, linux)
        )
    })
}

/// Sends the frames of a file by an interface, with pauses.
const REPLAY: &str = "import socket, struct, sys, time
data, at = open(sys.argv[1], 'rb').read(), 24
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[2], 0))
while at < len(data):
    n = struct.unpack('=I', data[at + 8:at + 12])[0]
    s.send(data[at + 16:at + 16 + n])
    at += 16 + n
    time.sleep(0.002)";

impl Host {
    /// Sends the frames of a file (pcap) by an interface, 500 a second at most.
    pub fn replay(&self, file: &Path, interface: &str) -> Result<()> {
        let script = self.folder().join("replay.py");
        std::fs::write(&script, REPLAY).map_err(LabError::io("replay.py"))?;
        self.run(&format!("python3 {} {} {interface}", script.display(), file.display())).map(drop)
    }

    /// Runs lines of Python with scapy's names imported and gives what they printed.
    pub fn scapy(&self, lines: &str) -> Result<String> {
        let script =
            format!("import logging; logging.disable(logging.WARNING)\nfrom scapy.all import *\n{lines}\n");
        let file = self.folder().join("packets.py");
        std::fs::write(&file, script).map_err(LabError::io("packets.py"))?;
        self.run(&format!("python3 {}", file.display()))
    }
}
