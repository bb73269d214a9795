use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use crate::{Host, LabError, Result};

/// Tells when Linux loses routes, by `ip monitor`.
pub struct Removals {
    child: Child,
    lines: Receiver<(Instant, String)>,
}

impl Host {
    /// Begins to watch Linux's routes of one family.
    pub fn removals(&self, ipv6: bool) -> Result<Removals> {
        let family = if ipv6 { "-6" } else { "-4" };
        let mut command = self.command("stdbuf");
        command.args(["-oL", "ip", family, "monitor", "route"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(LabError::io("ip monitor"))?;
        let (tell, lines) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
                    if tell.send((Instant::now(), line)).is_err() {
                        return;
                    }
                }
            });
        }
        let removals = Removals { child, lines };
        removals.listens(self, ipv6)?;
        Ok(removals)
    }
}

impl Removals {
    /// Waits until a route of its own making is reported.
    fn listens(&self, host: &Host, ipv6: bool) -> Result<()> {
        let probe = if ipv6 { "2001:db8:ffff::/64" } else { "198.18.255.0/24" };
        let limit = Duration::from_secs(5);
        let start = Instant::now();
        loop {
            host.run(&format!("ip route add blackhole {probe}; ip route del blackhole {probe}"))?;
            match self.of(probe, Duration::from_millis(100)) {
                Err(_) if start.elapsed() < limit => {}
                result => return result.map(drop),
            }
        }
    }

    /// Waits until the route to a prefix goes; when that was reported.
    pub fn of(&self, prefix: &str, limit: Duration) -> Result<Instant> {
        let start = Instant::now();
        loop {
            let left = limit.saturating_sub(start.elapsed());
            match self.lines.recv_timeout(left) {
                Ok((when, line)) if line.starts_with("Deleted") && line.contains(prefix) => return Ok(when),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let what = format!("the route to {prefix} to go");
                    return Err(LabError::Timeout { what, after: limit, last: String::new() });
                }
            }
        }
    }
}

impl Drop for Removals {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _its_status_says_killed = self.child.wait();
    }
}
