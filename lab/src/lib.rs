//! Hosts, links and routing daemons in network namespaces.
//!
//! A [`Lab`] is a small network on one machine: every [`Host`] is a network namespace named
//! `bf-<lab>-<host>` (so `ip netns exec bf-demo-router bash` gives a shell on it), every link a
//! veth pair made directly between two of them. Nothing is ever created in the machine's own
//! namespace, so a lab cannot disturb the machine's network.
//!
//! What a lab made is written down as folders below `/run/bifrost-lab/<lab>/<host>/` before it is
//! made. Taking a lab away reads that, ends what runs in those namespaces and deletes both, so the
//! same few lines serve for a lab that goes out of scope, a panic, Ctrl-C, and one whose process
//! was killed before it could clean up (found and swept when the next lab starts).
//!
//! The demo (`make run`), the system tests and the device benches stand on this crate. It waits for
//! conditions ([`wait_for`]) and never sleeps for a guessed time.

mod bird;
mod callers;
mod capture;
mod click;
mod error;
mod flows;
mod frr;
mod host;
mod iperf;
mod lab;
mod link;
mod machine;
mod monitor;
mod ping;
pub mod prefixes;
mod process;
mod router;
mod routes;
mod transfer;
mod wait;

pub use bird::{Bird, Speaker};
pub use callers::Teller;
pub use capture::{Capture, difference};
pub use click::Click;
pub use error::{LabError, Result};
pub use flows::{Flows, Sink};
pub use frr::Frr;
pub use host::Host;
pub use iperf::Iperf;
pub use lab::{Lab, on_interrupt};
pub use link::{End, run_on_core};
pub use machine::{Hardware, KERNELS, Machine, Nic, inside};
pub use monitor::Removals;
pub use nix::sys::signal::Signal;
pub use ping::{Ping, PingStatistics};
pub use process::Process;
pub use router::{Plane, Router, use_program};
pub use routes::{Routes, compare};
pub use transfer::{Transfer, transfer};
pub use wait::wait_for;
