//! The daemon.

use std::path::PathBuf;

use bifrost::service::{Notify, Signals};
use config::Router;

/// What the daemon is started with.
pub struct Start {
    /// The checked configuration; its control socket is already the one that the command line asked for.
    pub router: Router,
    /// The file that it was read from; absent when ports were named on the command line.
    pub file: Option<PathBuf>,
    /// Signals of this process, taken over before any thread was started.
    pub signals: Signals,
    /// The service manager.
    pub notify: Notify,
}

/// Runs until a signal says stop. An error is a sentence for the operator.
pub fn run(start: Start) -> Result<(), String> {
    Err(format!("this build cannot forward: {} port rules were read", start.router.ports.len()))
}
