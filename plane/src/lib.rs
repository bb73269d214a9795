//! The forwarding plane: workers, the standard router graph, ports being taken and given back.
//!
//! | file | what it is |
//! |---|---|
//! | [`plane`] | all of it, as the control thread sees it |
//! | `taking` | taking an interface and giving it back |
//! | [`shared`] | a port in shared memory, and Linux's side of it |
//! | `totals` | what a port counted in all its lives |
//! | [`port`] | one port: what is wanted, what is there, what came of it |
//! | [`crew`] | the workers: started, pinned, given orders, started again when they fail |
//! | `watch` | whether a worker stands still |
//! | [`worker`] | the loop that forwards |
//! | [`relay`] | from a worker without a queue of the out port to one that has |
//! | [`policy`] | the filter and the flow table, as the control thread sees them |
//! | `carriage` | the flow table where the driver reads it as well |
//! | [`police`] | how much a worker hands to Linux |
//! | [`rehearsal`] | what a worker would do with a packet |
//! | `known` | the flow that such a packet belongs to |
//! | [`meter`] | what workers say of themselves |

mod carriage;
pub mod crew;
mod error;
mod known;
pub mod meter;
pub mod plane;
pub mod police;
pub mod policy;
pub mod port;
pub mod rehearsal;
pub mod relay;
pub mod shared;
mod taking;
mod totals;
mod watch;
pub mod worker;

pub use elements::router::standard::Hooks;
pub use error::PlaneError;
pub use known::Known;
pub use plane::{Change, Plane, PlaneSettings};
pub use policy::{Policy, PolicySettings};
pub use port::{Choice, Interface, LaneChoice, PortSettings, ReversePath};
pub use worker::{CLOCK_EVERY, Request};
