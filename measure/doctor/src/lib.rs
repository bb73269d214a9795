//! Doctor: is this machine fit to be a router, and what would make it fitter?
//!
//! Everything is only read: files of `/proc` and `/sys` ([`Place`]), what drivers tell of
//! interfaces ([`Devices`]), and how long memory takes to answer ([`chase`]). What is found is
//! judged line by line ([`Finding`]), with the command that mends it; none is run. What cannot be
//! read is said to be unknown, and why: without root some things are.
//!
//! Both sources are given from outside, so that machines which nobody here has are examined in the
//! tests.

pub mod chase;
mod check;
mod devices;
mod ethtool;
mod finding;
mod list;
mod place;
mod word;

use serde::Serialize;

pub use devices::{Devices, Kernel, Offloads, Pause, Rings};
pub use finding::{Area, Finding, Level};
pub use place::{Place, Unread};

/// The form of an examination as JSON.
pub const SCHEMA: &str = "bifrost.doctor/1";

/// What to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// These interfaces; all with hardware behind them when there are none.
    pub ports: Vec<String>,
    /// Leave out the measurement of memory, which takes a few seconds of a core.
    pub quick: bool,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Examination {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The machine, in a few lines: name and value.
    pub machine: Vec<(String, String)>,
    /// How long memory takes to answer, by the size of what is used: bytes and nanoseconds.
    pub memory_latency: Vec<(u64, f64)>,
    /// What was judged, area by area.
    pub findings: Vec<Finding>,
}

impl Examination {
    /// Whether anything is a problem.
    pub fn has_problem(&self) -> bool {
        self.count(Level::Problem) > 0
    }

    /// How many findings are of a level.
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }
}

/// Looks at everything.
pub fn examine(place: &Place, devices: &dyn Devices, options: &Options) -> Examination {
    let mut findings = Vec::new();
    let machine = check::cpu::machine(place);
    check::cpu::check(place, &mut findings);
    let memory_latency =
        if options.quick { Vec::new() } else { chase::latencies(check::memory::limit(place)) };
    check::memory::check(place, &memory_latency, &mut findings);
    check::kernel::check(place, &mut findings);
    check::sysctl::check(place, &mut findings);
    check::port::check(place, devices, &options.ports, &mut findings);
    Examination { schema: SCHEMA, machine, memory_latency, findings }
}

#[cfg(test)]
mod tests;
