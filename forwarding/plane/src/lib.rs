//! The forwarding plane: workers, the standard router graph, ports being taken and given back.
//!
//! | file | what it is |
//! |---|---|
//! | [`plane`] | all of it, as the control thread sees it |
//! | `attach` | taking an interface and giving it back |
//! | `handed` | ports handed from one process to another |
//! | [`shared`] | a port in shared memory, and Linux's side of it |
//! | `totals` | what a port counted in all its lives |
//! | [`port`] | one port: what is wanted, what is there, what came of it |
//! | `interfaces` | interfaces with tags on a port |
//! | [`worker_pool`] | the workers: started, pinned, given orders, started again when they fail |
//! | `watch` | whether a worker stands still |
//! | [`worker`] | the loop that forwards |
//! | [`handoff`] | from a worker without a queue of the out port to one that has |
//! | [`policy`] | the filter and the flow table, as the control thread sees them |
//! | `offload` | the flow table where the driver reads it as well |
//! | [`police`] | how much a worker hands to Linux |
//! | [`packet_tracer`] | what a worker would do with a packet |
//! | `known` | the flow that such a packet belongs to |
//! | [`meter`] | what workers say of themselves |

mod attach;
mod error;
mod flow_snapshot;
mod handed;
pub mod handoff;
mod interfaces;
mod landing;
pub mod meter;
mod offload;
pub mod packet_tracer;
pub mod plane;
pub mod police;
pub mod policy;
pub mod port;
pub mod shared;
mod totals;
mod watch;
pub mod worker;
pub mod worker_pool;

pub use elements::router::standard::Hooks;
pub use error::PlaneError;
pub use flow_snapshot::FlowSnapshot;
pub use handed::Handed;
pub use interfaces::{At, LogicalInterface, at};
pub use landing::InFlight;
pub use plane::{Change, Plane, PlaneSettings};
pub use policy::{Policy, PolicySettings};
pub use port::{Bridging, Choice, Interface, LaneChoice, PortSettings, ReversePath};
pub use worker::{CLOCK_EVERY, Request};
