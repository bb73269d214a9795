//! Whether Bifrost did what it claims, by witnesses it has no influence on.

use std::{fmt, time::Duration};

use bifrost::screen::units::count;
use lab::{PingStatistics, Result};

use crate::{comparison::Comparison, stage::Stage, traffic::Outcome};

/// The witnesses' words before the traffic.
pub struct Verdict {
    linux_forwarded: u64,
    received: u64,
}

/// What came of it.
pub struct Reached {
    outcome: Outcome,
    comparison: Comparison,
    routes: std::result::Result<usize, String>,
    forwarded: u64,
    by_linux: u64,
}

impl Verdict {
    /// Takes note of Linux's own counters in the router.
    pub fn begin(stage: &Stage) -> Result<Verdict> {
        Ok(Verdict { linux_forwarded: stage.router.host().linux_forwarded()?, received: received(stage)? })
    }

    /// Compares with them after the traffic, and the plane's routes with Linux's.
    pub fn reach(self, stage: &Stage, outcome: &Outcome, comparison: Comparison) -> Result<Reached> {
        let equal = stage.router.equals_linux(Duration::from_secs(10)).and_then(|()| stage.router.routes());
        Ok(Reached {
            outcome: outcome.clone(),
            comparison,
            routes: equal.map(|routes| routes.len()).map_err(|e| e.to_string()),
            forwarded: received(stage)? - self.received,
            by_linux: stage.router.host().linux_forwarded()? - self.linux_forwarded,
        })
    }
}

/// What came out of the router at both sides, as the neighbours' interfaces count it.
fn received(stage: &Stage) -> Result<u64> {
    let at_customer = stage.customer.interface_number("eth0", "statistics/rx_packets")?;
    Ok(at_customer + stage.isp.interface_number("uplink", "statistics/rx_packets")?)
}

impl Reached {
    fn lost(&self) -> usize {
        self.outcome.pings.iter().map(PingStatistics::lost).sum()
    }

    fn pinged(&self) -> bool {
        self.outcome.pings.iter().all(|ping| ping.received > 0) && self.lost() == 0
    }

    /// One packet in a hundred may need Linux: those whose neighbour had to be resolved.
    fn by_bifrost(&self) -> bool {
        self.forwarded > 1000 && self.by_linux * 100 <= self.forwarded
    }

    /// Whether the demo showed what it is to show.
    pub fn passed(&self) -> bool {
        self.pinged() && self.by_bifrost() && self.routes.is_ok() && self.outcome.tcp_lives
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |good: bool| if good { "ok  " } else { "FAIL" };
        let Comparison { linux, bifrost } = self.comparison;
        writeln!(f)?;
        writeln!(
            f,
            "      Forwarding on this machine: Linux {:.2}, Bifrost {:.2} million packets a second: {:.1} times",
            linux / 1e6,
            bifrost / 1e6,
            self.comparison.multiple()
        )?;
        writeln!(
            f,
            "{}  Bifrost forwarded: of {} packets Linux forwarded {}",
            mark(self.by_bifrost()),
            count(self.forwarded),
            count(self.by_linux)
        )?;
        let sent: usize = self.outcome.pings.iter().map(|ping| ping.sent).sum();
        let slowest = self.outcome.pings.iter().map(|ping| ping.longest).max().unwrap_or_default();
        writeln!(
            f,
            "{}  Ping in both families: {} sent, {} lost, the slowest {:.2} ms",
            mark(self.pinged()),
            count(sent as u64),
            self.lost(),
            slowest.as_secs_f64() * 1e3
        )?;
        match &self.routes {
            Ok(routes) => {
                writeln!(f, "ok    The plane's table equals Linux's: {} prefixes", count(*routes as u64))?
            }
            Err(why) => writeln!(f, "FAIL  {why}")?,
        }
        let (sent, arrived) = self.outcome.udp;
        writeln!(
            f,
            "{}  TCP {:.0} Mb/s; {} UDP flows, {} datagrams sent, {} arrived",
            mark(self.outcome.tcp_lives),
            self.outcome.megabits,
            self.outcome.flows,
            count(sent),
            count(arrived)
        )?;
        write!(f, "{}", if self.passed() { "The demo passed." } else { "The demo failed." })
    }
}
