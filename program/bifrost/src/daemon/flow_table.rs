//! `[flow]`: how long flows live, and which begin in mid-stream. Its memory and the rest wait for
//! the next start.

use config::Router;
use graph::Registry;
use tracing::error;

use super::forwarding::Forwarding;
use super::section::{Change, Section};

/// The part that `[flow]` is for.
pub(crate) struct FlowTable;

impl Section for FlowTable {
    fn check(router: &Router, _: &Registry) -> Result<Vec<String>, String> {
        let timeouts = router.flow.unwrap_or_default().timeouts;
        timeouts.check().map(|()| Vec::new()).map_err(|error| error.to_string())
    }

    fn effects(&self, change: &Change) -> Vec<String> {
        let settings = |router: &Router| {
            let flow = router.flow.unwrap_or_default();
            (flow.timeouts, flow.pickup)
        };
        match settings(&change.before) == settings(&change.after) {
            true => Vec::new(),
            false => vec!["[flow]: flows that there are live by other timeouts".to_owned()],
        }
    }

    /// Timeouts were judged with the file.
    fn prepare(&mut self, _: &mut Change, _: &mut Forwarding) -> Result<(), String> {
        Ok(())
    }

    fn apply(&mut self, change: &Change, forwarding: &mut Forwarding) {
        let flow::Settings { timeouts, pickup, .. } = change.after.flow.unwrap_or_default();
        if let Some(table) = forwarding.plane.policy().table()
            && let Err(error) = table.configure(&timeouts, pickup)
        {
            error!("flows keep the timeouts that they had: {error}");
        }
    }

    fn abort(&mut self, _: &mut Forwarding) {}
}
