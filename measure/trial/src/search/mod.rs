//! Searches for the highest load that a device carries: which load to try next, given what came of
//! those before.
//!
//! A search is a plain value. It says what to try, is told what came of it, and ends. It makes no
//! trials itself, so it can be run against anything, and it asks for the same trials again when it
//! is told the same results: that is how an interrupted run is taken up.

mod binary;
mod burst;
mod goal;
mod mlr;

pub use binary::Binary;
pub use burst::{Burst, Longest};
pub use goal::{Class, Goal, GoalError, Tried};
pub use mlr::{Loads, Mlr};

use serde::{Deserialize, Serialize};

/// A trial that a search asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ask {
    /// Frames a second a port.
    pub rate: f64,
    /// Seconds.
    pub seconds: f64,
}

/// What came of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Part of the frames lost, 0 to 1.
    pub loss: f64,
    /// Seconds that it counts for: those asked for, unless the tester knows better.
    pub seconds: f64,
}

/// What to try next.
pub trait Search {
    /// The next trial, or none when the search is over. The same until the search is told what came
    /// of it.
    fn next(&self) -> Option<Ask>;

    /// Takes what came of the trial asked for.
    fn take(&mut self, outcome: Outcome);

    /// Seconds of trials that are probably still to come.
    fn seconds_left(&self) -> f64;

    /// What was found so far, a bound for each loss ratio.
    fn found(&self) -> Vec<Bounds>;
}

/// Between which loads the sought one lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Part of the frames that may be lost.
    pub loss: f64,
    /// The highest load (frames a second a port) at which no more is lost: the relevant lower bound
    /// of RFC 9971, the throughput of RFC 2544. None when even the smallest load loses more.
    pub lower: Option<f64>,
    /// The lowest load at which more is lost. None when even the full load loses no more.
    pub upper: Option<f64>,
    /// What comes back at the lower bound, in frames a second a port: conditional throughput (RFC
    /// 9971).
    pub conditional: Option<f64>,
    /// Whether both bounds were found, as near each other as was wished (a regular goal result).
    pub regular: bool,
}
