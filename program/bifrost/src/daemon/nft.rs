//! The program `nft`, which loads rules into Linux.
//!
//! It is looked for where systems keep it, not by `PATH`, and is given no environment: whoever
//! starts the daemon does not choose what runs with its privileges.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const PLACES: [&str; 6] = [
    "/usr/sbin/nft",
    "/sbin/nft",
    "/usr/bin/nft",
    "/usr/local/sbin/nft",
    "/usr/local/bin/nft",
    "/run/current-system/sw/bin/nft",
];

fn command() -> Result<Command, String> {
    let place = PLACES.iter().find(|place| Path::new(place).is_file());
    let place = place.ok_or("cannot run nft: it is in no folder of programs; install nftables")?;
    let mut command = Command::new(place);
    command.env_clear().stdin(Stdio::null());
    Ok(command)
}

/// Whether a daemon before this one left a table.
pub(super) fn has_table() -> bool {
    let listed = command().map(|mut nft| nft.args(["list", "table", "inet", "bifrost"]).output());
    matches!(listed, Ok(Ok(output)) if output.status.success())
}

/// Loads a text. On an error, which is what nft says of it, nothing has changed.
pub(super) fn load(text: &str) -> Result<(), String> {
    let mut nft = command()?;
    nft.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut nft = nft.spawn().map_err(|error| format!("cannot run nft: {error}; install nftables"))?;
    let written = nft.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(text.as_bytes()));
    let output = nft.wait_with_output().map_err(|error| error.to_string())?;
    match written {
        Ok(()) if output.status.success() => Ok(()),
        _ => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}
