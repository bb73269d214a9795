//! The program `ip`, which says what Linux has.

use super::tool;

/// What it prints.
///
/// # Errors
/// When it cannot be run, or refuses; for the operator.
pub(crate) fn ask(words: &[&str]) -> Result<Vec<u8>, String> {
    let mut ip = tool::command("ip", "iproute2")?;
    let output = ip.args(words).output().map_err(|error| format!("cannot run ip: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("ip {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim())),
    }
}
