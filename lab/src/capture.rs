use std::{path::PathBuf, time::Duration};

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
            let there = std::fs::read(&self.file).map_or(0, |bytes| records(&bytes));
            if there >= packets { Ok(()) } else { Err(format!("{there} are there")) }
        })
    }

    /// Ends it and gives the file (pcap), which goes when the lab goes.
    pub fn stop(&mut self) -> Result<PathBuf> {
        self.process.signal(Signal::SIGINT);
        self.process.wait(Duration::from_secs(5))?;
        Ok(self.file.clone())
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
fn records(bytes: &[u8]) -> usize {
    let (mut rest, mut count) = (bytes.get(24..).unwrap_or_default(), 0);
    while let Some(length) = rest.get(8..12).and_then(|length| length.try_into().ok())
        && let Some(behind) = rest.get(16 + u32::from_ne_bytes(length) as usize..)
    {
        (rest, count) = (behind, count + 1);
    }
    count
}

impl Host {
    /// Runs lines of Python with scapy's names imported and gives what they printed.
    pub fn scapy(&self, lines: &str) -> Result<String> {
        let script =
            format!("import logging; logging.disable(logging.WARNING)\nfrom scapy.all import *\n{lines}\n");
        let file = self.folder().join("packets.py");
        std::fs::write(&file, script).map_err(LabError::io("packets.py"))?;
        self.run(&format!("python3 {}", file.display()))
    }
}
