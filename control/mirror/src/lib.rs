//! Keeps the plane's tables equal to Linux's.
//!
//! ```text
//!  Linux --netlink--> linux ---.
//!        --dumps----> reading -+--> model --changes--> programmer --> fib::Tables
//!  zebra --FPM------> fpm -----'      ^                   ^   |
//!                                     '----- audit -------'   '--> resolver --NTF_USE--> Linux
//! ```
//!
//! - [`netlink`]: messages as checked types, and the sockets.
//! - [`model`]: what Linux says, kept as Linux says it.
//! - `source`: what all who tell routes have in common. `linux` and `fpm` are such, and nobody
//!   above knows which one speaks.
//! - [`kind`]: what an interface is, and where its frames pass ports.
//! - `reading`: whole tables of Linux, to load them or to compare.
//! - `programmer`: what the model means for packets, written into the tables.
//! - `resolver`: keeps the neighbours resolved that the tables lead to.
//! - [`rules`]: routing rules, as they are followed.
//! - `policy`: what Linux does beyond routes, which is not mirrored: what it could touch is left to
//!   Linux.
//! - `audit`: compares all three, round after round, and repairs.
//! - `copy`: whether Linux still has the filter that it was given; another thread asks.
//! - [`peer`]: whose process is at the other end of a connection.
//! - [`multicast`]: multicast routes, which the plane gives to its workers.
//! - [`show`]: answers for `show` and `explain`.
//!
//! Everything runs in one thread, the control thread, which owns [`Mirror`] and the tables, and in
//! slices: no call takes much longer than [`Options::slice`].

mod audit;
mod copy;
mod fpm;
#[doc(hidden)]
pub mod fuzz;
pub mod kind;
mod linux;
mod mirror;
pub mod model;
pub mod multicast;
pub mod netlink;
pub mod origin;
pub mod peer;
mod policy;
mod programmer;
mod reading;
mod resolver;
pub mod rules;
pub mod show;
mod source;
mod status;

pub use copy::{CopyState, FilterCopy};
pub use fpm::{FpmError, FpmOptions};
pub use mirror::{Mirror, MirrorError, Options, Plane};
pub use model::Model;
pub use multicast::{GroupKey, GroupRoute, GroupRoutes};
pub use netlink::conntrack::{Connection, Direction};
pub use netlink::route::Sending;
pub use netlink::socket::{Conntrack, sending};
pub use policy::{Beyond, Reach, survey, union};
pub use programmer::NextHopKey;
pub use rules::{Act, Rule, RuleList};
pub use status::{AuditStatus, FpmStatus, MirrorStatus, OriginCount};
