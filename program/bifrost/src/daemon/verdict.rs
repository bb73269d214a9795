//! Whether a configuration can be put in force: the one verdict of `bifrost check`, of the start and of a reload.
//!
//! The file itself was judged when it was read; this is what only the parts know that it is for. What depends on the
//! machine at the moment (memory, a socket, a directory) is not here: it is refused when it is tried. Names of interfaces that
//! are not there now are a warning only.

use config::Router;
use graph::Registry;

use super::{absent, settings};
use crate::service::tcpdump;

/// Warnings, a line each.
///
/// # Errors
/// What is wrong, as text for the operator.
pub fn examine(router: &Router, registry: &Registry) -> Result<String, String> {
    let mut warnings = elements::router::standard::check(&settings::hooks(&router.graph), registry)
        .map_err(|refusal| refusal.to_string())?;
    for warning in router.filter.check().map_err(|error| error.to_string())? {
        warnings += &format!("{warning}\n");
    }
    for warning in absent::warnings(router) {
        warnings += &format!("{warning}\n");
    }
    if let Some(mirror) = &router.mirror {
        tcpdump::compile(&mirror.filter).map_err(|wrong| format!("[mirror] filter: {wrong}"))?;
    }
    router.flow.unwrap_or_default().timeouts.check().map_err(|error| error.to_string())?;
    Ok(warnings)
}
