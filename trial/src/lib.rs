//! Trials.
mod device;
mod frames;
mod html;
pub mod log;
pub mod page;
mod plan;
pub mod report;
mod run;
pub mod search;
#[cfg(test)]
mod simulated;
mod test;
mod tester;
pub use device::*;
pub use frames::*;
pub use html::{duration, page as html_page};
pub use plan::*;
pub use run::{Event, Progress, RunError, run};
pub use tester::{Commands, End, Pair, Tester, hosts};
