//! Whether a configuration can be put in force: the one verdict of `bifrost check`, of the start
//! and of a reload.
//!
//! The file itself was judged when it was read; this is what only the parts know that it is for.
//! What depends on the machine at the moment (memory, a socket, a directory) is not here: it is
//! refused when it is tried. Names of interfaces that are not there now are a warning only.

use config::Router;
use graph::Registry;

use super::control::Parts;

/// Warnings, a line each.
///
/// # Errors
/// What is wrong, as text for the operator.
pub fn examine(router: &Router, registry: &Registry) -> Result<String, String> {
    let mut warnings = String::new();
    for check in Parts::CHECKS {
        check(router, registry)?.iter().for_each(|warning| warnings += &format!("{warning}\n"));
    }
    Ok(warnings)
}
