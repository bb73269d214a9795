//! Programs of the system's that the daemon runs.
//!
//! They are looked for where systems keep them, not by `PATH`, and are given no environment:
//! whoever starts the daemon does not choose what runs with its privileges.

use std::path::Path;
use std::process::{Command, Stdio};

const FOLDERS: [&str; 6] =
    ["/usr/sbin", "/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/run/current-system/sw/bin"];

/// A command of the program `name`, which `package` has.
///
/// # Errors
/// When it is nowhere, for the operator.
pub fn command(name: &str, package: &str) -> Result<Command, String> {
    let mut places = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
    let place = places
        .find(|place| place.is_file())
        .ok_or_else(|| format!("cannot run {name}: it is in no folder of programs; install {package}"))?;
    let mut command = Command::new(place);
    command.env_clear().stdin(Stdio::null());
    Ok(command)
}
