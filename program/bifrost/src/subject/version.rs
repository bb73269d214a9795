//! The release that runs.

use serde::{Deserialize, Serialize};

use super::Subject;
use crate::daemon::Control;
use crate::screen::units;

/// Which program is answering.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// The release, such as `0.1.0`.
    pub version: String,
    /// Process number of the daemon.
    pub pid: u32,
    /// Seconds since the daemon was ready.
    pub uptime_seconds: u64,
    /// The configuration file in use; absent when ports were named on the command line.
    pub configuration: Option<String>,
}

impl Subject for Version {
    const NAME: &'static str = "version";
    const ABOUT: &'static str = "The running daemon's release";

    fn answer(control: &mut Control) -> Result<Self, String> {
        Ok(Version {
            version: crate::RELEASE.to_owned(),
            pid: std::process::id(),
            uptime_seconds: control.started.elapsed().as_secs(),
            configuration: control.file(),
        })
    }

    fn table(&self) -> String {
        format!(
            "bifrost {}\npid {}, up for {}\n{}\n",
            self.version,
            self.pid,
            units::time(self.uptime_seconds),
            match &self.configuration {
                Some(file) => format!("configuration: {file}"),
                None => "ports named on the command line".to_owned(),
            }
        )
    }
}
