//! Ping whose losses can be counted while it runs and to the packet.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use crate::{Host, LabError, Process, Result};

/// A running `ping`, from one host to an address of either family.
pub struct Ping {
    process: Process,
}

/// What a ping met so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PingStatistics {
    /// Requests sent, without the last one when its answer is still on its way.
    pub sent: usize,
    /// Answers that came.
    pub received: usize,
    /// The longest run of requests in a row without an answer.
    pub longest_gap: usize,
    /// Median round trip in milliseconds.
    pub median_ms: f64,
}

impl PingStatistics {
    /// Requests that were not answered.
    pub fn lost(&self) -> usize {
        self.sent - self.received
    }
}

impl Ping {
    /// Starts to ping, one request every `interval`, until stopped.
    pub fn start(host: &Host, destination: &str, interval: Duration) -> Result<Ping> {
        let mut command = host.command("stdbuf");
        command.args(["-oL", "ping", "-n", "-O", "-i", &interval.as_secs_f64().to_string(), destination]);
        let name = format!("ping-{}", destination.replace(':', "-"));
        Ok(Ping { process: host.spawn(&name, command)? })
    }

    /// What it met so far. A request still on its way does not count as lost.
    pub fn statistics(&self) -> PingStatistics {
        read(&self.process.output())
    }

    /// Ends it. Waits a moment for the last answers.
    pub fn stop(mut self) -> Result<PingStatistics> {
        self.process.signal(Signal::SIGINT);
        self.process.wait(Duration::from_secs(2))?;
        Ok(self.statistics())
    }
}

impl Host {
    /// Whether an address answers within `limit`; asked again every 10 ms.
    pub fn reaches(&self, destination: &str, limit: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            let ping = self.command("ping").args(["-n", "-c1", "-W0.2", destination]).output();
            if ping.map_err(LabError::io("ping"))?.status.success() {
                return Ok(());
            }
            if start.elapsed() > limit {
                let what = format!("{} to reach {destination}", self.name());
                return Err(LabError::Timeout { what, after: limit, last: String::new() });
            }
        }
    }
}

/// Reads the lines `64 bytes from ...: icmp_seq=7 ttl=63 time=0.05 ms` and `no answer yet for icmp_seq=8`, which comes
/// with the next request and may be followed by the answer. The sequence is 16 bits and wraps.
fn read(output: &str) -> PingStatistics {
    let mut answered = BTreeSet::new();
    let mut times = Vec::new();
    let mut newest = 0u64;
    for line in output.lines() {
        let Some(sequence) = number_after::<u16>(line, "icmp_seq=") else { continue };
        let step = sequence.wrapping_sub(newest as u16) as i16;
        let sequence = newest.saturating_add_signed(i64::from(step));
        newest = newest.max(sequence);
        if !line.contains(" bytes from ") {
            continue;
        }
        answered.insert(sequence);
        times.extend(number_after::<f64>(line, "time="));
    }
    times.sort_by(f64::total_cmp);
    let mut previous = 0;
    let mut longest_gap = 0;
    for sequence in &answered {
        longest_gap = longest_gap.max(sequence - previous - 1);
        previous = *sequence;
    }
    longest_gap = longest_gap.max(newest - previous);
    PingStatistics {
        sent: newest as usize,
        received: answered.len(),
        longest_gap: longest_gap as usize,
        median_ms: times.get(times.len() / 2).copied().unwrap_or(0.0),
    }
}

fn number_after<T: std::str::FromStr>(line: &str, key: &str) -> Option<T> {
    let rest = &line[line.find(key)? + key.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(sequence: u16) -> String {
        format!("64 bytes from 192.0.2.1: icmp_seq={sequence} ttl=63 time=0.{sequence} ms\n")
    }

    #[test]
    fn counts_what_is_missing_between_answers_and_not_what_is_on_its_way() {
        let output: String = ["PING 192.0.2.1\n".to_owned(), line(1), line(2), line(5), line(4)].concat();
        let seen = read(&output);
        assert_eq!((seen.sent, seen.received, seen.lost(), seen.longest_gap), (5, 4, 1, 1));
    }

    #[test]
    fn counts_what_is_missing_at_the_end() {
        let silent = |n| format!("no answer yet for icmp_seq={n}\n");
        let output: String = [line(1), silent(2), line(2), silent(3), silent(4)].concat();
        assert_eq!((read(&output).sent, read(&output).lost(), read(&output).longest_gap), (4, 2, 2));
    }

    #[test]
    fn follows_the_sequence_beyond_sixteen_bits() {
        let output: String = (1..=70_000u32).map(|n| line(n as u16)).collect();
        assert_eq!(read(&output).lost(), 0);
        assert_eq!(read(&output).sent, 70_000);
    }
}
