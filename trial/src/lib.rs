//! Trials.
mod device;
mod frames;
pub mod log;
mod plan;
pub mod report;
mod run;
pub mod search;
#[cfg(test)]
mod simulated;
mod test;
pub use device::*;
pub use frames::*;
pub use plan::*;
pub use run::{Event, Progress, RunError, run};
