//! The program `nft`, which loads rules into Linux.

use std::io::Write;
use std::process::{Command, Stdio};

use super::tool;

fn command() -> Result<Command, String> {
    tool::command("nft", "nftables")
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
