//! What a program that watches or drives Bifrost needs: the control protocol with its client and
//! its server ([`control`]), the live screen ([`screen`]), the Prometheus endpoint ([`metrics`])
//! and what a well-behaved service does ([`service`]); and the program itself ([`program`]), so
//! that a crate with elements of its own can make a program of it. The binary of the same name is
//! `program::main` and nothing else, and the demo draws its own screen with the library.

/// The release of this program.
pub(crate) const RELEASE: &str = env!("CARGO_PKG_VERSION");

mod api;
mod command;
pub mod control;
mod daemon;
#[doc(hidden)]
pub mod fuzz;
pub mod metrics;
pub mod program;
pub mod screen;
pub mod service;
mod shell;
pub mod subject;
