//! The mirror port: copies sent, and copies lost.

use serde::{Deserialize, Serialize};

use super::Subject;
use crate::command::table::Table;
use crate::daemon::Control;
use crate::screen::units::count;

/// The mirror port. Counters are since it was begun with these settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MirrorPortStatus {
    /// The interface that copies are sent by.
    pub to: String,
    /// Whether it can be sent by now.
    pub up: bool,
    /// The filter, in tcpdump's language; empty: every packet.
    pub filter: String,
    /// Copies sent.
    pub sent: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Copies lost because they came faster than they could be taken.
    pub missed: u64,
    /// Copies lost because the interface was not there, or down.
    pub down: u64,
    /// Copies lost because the interface did not take them: its queue was full.
    pub slow: u64,
    /// Copies lost because they are longer than the interface's MTU allows.
    pub too_long: u64,
}

impl Subject for Option<MirrorPortStatus> {
    const NAME: &'static str = "mirror-port";
    const ABOUT: &'static str = "The mirror port: copies sent, and copies lost";

    fn answer(control: &mut Control) -> Result<Self, String> {
        Ok(control.parts.mirroring.status())
    }

    fn table(&self) -> String {
        let Some(status) = self else {
            return "nothing is mirrored: [mirror] in router.toml begins it\n".to_owned();
        };
        let up = if status.up { "" } else { ", which is down or not there" };
        let filter = if status.filter.is_empty() { "every packet" } else { &status.filter };
        let mut table = Table::new(&["copies", ">packets"]);
        for (name, value) in [
            ("sent", status.sent),
            ("lost: they came too fast", status.missed),
            ("lost: the interface is down", status.down),
            ("lost: the interface's queue is full", status.slow),
            ("lost: longer than the interface's MTU", status.too_long),
        ] {
            table.row(vec![name.to_owned(), count(value)]);
        }
        format!("{filter}, to {}{up}\n{}", status.to, table.render())
    }
}
