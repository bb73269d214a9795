use std::{process::Command, time::Duration};

use crate::{Host, Process, Result};

/// A TCP transfer by iperf3, server and client, whose rate can be read while it runs.
pub struct Iperf {
    client: Process,
    _server: Process,
}

impl Iperf {
    /// Starts a server on one host and a client on another, at most `megabits` a second, until
    /// stopped.
    pub fn start(from: &Host, to: &Host, address: &str, port: u16, megabits: u32) -> Result<Iperf> {
        let iperf = |host: &Host, options: String| -> Command {
            let mut command = host.command("iperf3");
            command.args(options.split_whitespace()).args(["--forceflush", "-f", "m"]);
            command
        };
        let server = to.spawn(&format!("iperf3-{port}"), iperf(to, format!("-s -1 -p {port}")))?;
        to.listens(port)?;
        let client = iperf(from, format!("-c {address} -p {port} -t 86400 -i 1 -b {megabits}M"));
        Ok(Iperf { client: from.spawn(&format!("iperf3-to-{port}"), client)?, _server: server })
    }

    /// Megabits a second, second by second, so far.
    pub fn megabits(&self) -> Vec<f64> {
        read(&self.client.output())
    }

    /// Whether the connection still lives.
    pub fn lives(&mut self) -> bool {
        self.client.ended().is_none()
    }

    /// Ends it; its seconds.
    pub fn stop(mut self) -> Result<Vec<f64>> {
        self.client.signal(nix::sys::signal::Signal::SIGINT);
        self.client.wait(Duration::from_secs(3))?;
        Ok(self.megabits())
    }
}

/// Reads lines such as
/// `[  5]   1.00-2.00   sec  35.8 MBytes   300 Mbits/sec    0    338 KBytes`, but not
/// the totals of the end, which cover more than a second.
fn read(output: &str) -> Vec<f64> {
    let second = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "Mbits/sec")?;
        let (start, end) = words.iter().find_map(|word| word.split_once('-'))?;
        let span = end.parse::<f64>().ok()? - start.parse::<f64>().ok()?;
        (0.5..1.5).contains(&span).then(|| words[at - 1].parse().ok()).flatten()
    };
    output.lines().take_while(|line| !line.starts_with("- - -")).filter_map(second).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn reads_seconds_and_not_totals() {
        let output = "Connecting to host\n[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n\
            [  5]   0.00-1.00   sec  35.8 MBytes   300 Mbits/sec    0    338 KBytes\n\
            [  5]   1.00-2.00   sec  35.8 MBytes   301 Mbits/sec    0    338 KBytes\n\
            - - - - - - -\n[  5]   0.00-2.00   sec  71.6 MBytes   300 Mbits/sec    0             sender\n";
        assert_eq!(super::read(output), [300.0, 301.0]);
    }
}
