//! Trials: RFC 2544 and MLRsearch, their results, and the page that shows them.
//!
//! A trial offers a load to a device and counts what comes back. A search decides which load comes
//! next; a test of RFC 2544 makes a search, or a series, and something of its answers; a run makes
//! all tests of a plan, and keeps a log.
//!
//! ```text
//! Plan --run--> test --asks for--> Offered --Device::trial--> Measured
//!                 ^                                               |
//!                 +-- search::{Binary, Mlr, Burst} <--------------+--> log::Log (JSON lines, read again when a run is resumed)
//!                 |
//!                 +--> report::Report --> JSON, page::Page (HTML with charts)
//! ```
//!
//! | what | where |
//! |---|---|
//! | the device and the load: [`Device`], [`Offered`], [`Measured`] | anything that can be flooded; [`Tester`] is one of real ports |
//! | [`search`] | plain values that say what to try next |
//! | the tests | `test/`, one of RFC 2544 section 26 a file |
//! | [`run`], [`log`] | one trial after the other, and what is left when that is interrupted |
//! | [`report`], [`html_page`] | what was found, for programs and for people |
//! | [`page`] | headings, tables and charts in one HTML file; knows nothing of trials |
//!
//! The searches are plain arithmetic, so that a resumed run needs no more than the answers it had
//! already.

mod device;
mod frames;
mod html;
pub mod log;
pub mod page;
mod plan;
pub mod report;
mod run;
pub mod search;
mod silence;
#[cfg(test)]
mod simulated;
mod test;
mod tester;

pub use device::{
    Description, Device, DeviceError, Direction, Family, Latency, Measured, Modifiers, Offered, PERCENTILES,
    Pattern,
};
pub use frames::{Frames, FramesError, SIZES};
pub use html::{duration, page as html_page};
pub use plan::{Method, Plan, PlanError, Test, Times};
pub use run::{Event, Progress, RunError, run};
pub use tester::{Commands, End, Pair, Tester, hosts};
