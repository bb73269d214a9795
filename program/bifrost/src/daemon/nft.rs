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

/// All tables, as JSON with numbers for names.
pub(super) fn list() -> Result<String, String> {
    let output = command()?.args(["-j", "-n", "list", "ruleset"]).output();
    let output = output.map_err(|error| format!("cannot run nft: {error}; install nftables"))?;
    match output.status.success() {
        true => String::from_utf8(output.stdout).map_err(|error| error.to_string()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
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
