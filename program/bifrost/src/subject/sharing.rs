//! Flows that this router shares with another one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Subject;
use crate::command::table::Table;
use crate::daemon::Control;
use crate::screen::units::count;

/// How flows are shared. Counters are since sharing began as it is configured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SharingStatus {
    /// This router's address and port.
    pub listen: String,
    /// The other router's.
    pub peer: String,
    /// `off`, `alone` (the peer was not heard yet), `joining`, `shared`, `differs` or `silent`.
    pub state: String,
    /// Whether what tracks shared flows finds them: they are here, or the peer is not there.
    pub ready: bool,
    /// Why it does not run.
    pub trouble: Option<String>,
    /// Milliseconds since the peer was heard.
    pub heard_ms: Option<u64>,
    /// Milliseconds for which the oldest news has waited that the peer does not have.
    pub lag_ms: u64,
    /// Flows of which there is news to tell.
    pub waiting: u64,
    /// Flows that are carried here and that the peer was told of.
    pub told: u64,
    /// Flows that the peer carries and that are here.
    pub held: u64,
    /// Slices of 256 that the peer has told whole.
    pub joined: u64,
    /// Slices of 256 that differed when they were compared last.
    pub differing: u64,
    /// Flows by which they did, at least.
    pub missing: u64,
    /// How often one of the two has met the other anew.
    pub sessions: u64,
    /// Slices compared; each again every ten seconds.
    pub compared: u64,
    /// Slices that were told anew, for they differed.
    pub repaired: u64,
    /// Flows of the peer's that found no place here: their translation is another flow's, or there is
    /// no room.
    pub refused: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that Linux refused to send.
    pub unsent: u64,
    /// Datagrams received and believed.
    pub received: u64,
    /// Parcels that were lost on the way and sent again.
    pub resent: u64,
    /// Datagrams that were dropped, by reason: `malformed`, `version`, `seal`, `replayed`, `own`,
    /// `stranger`.
    pub dropped: BTreeMap<String, u64>,
}

impl Subject for Option<SharingStatus> {
    const NAME: &'static str = "sharing";
    const ABOUT: &'static str = "Flows shared with another router: whether both have the same";

    fn answer(control: &mut Control) -> Result<Self, String> {
        control.parts.sharing.status()
    }

    fn table(&self) -> String {
        let Some(status) = self else {
            return "flows are shared with nobody: [sharing] in router.toml begins it\n".to_owned();
        };
        let peer = &status.peer;
        let head = match status.state.as_str() {
            "off" => "flows are not shared".to_owned(),
            "alone" => format!("{peer} has not been heard yet"),
            "joining" => format!("{peer} is telling its flows: {} of 256 parts are here", status.joined),
            "shared" => format!("{peer} and this router have the same flows"),
            "differs" => format!(
                "{peer} has told of flows that are not here as they are there: {} or more, in {} of 256 parts",
                count(status.missing),
                status.differing
            ),
            _ => format!("{peer} is NOT HEARD ANY MORE: what begins now is here alone"),
        };
        let mut text = match &status.trouble {
            Some(trouble) => format!("{head}: {trouble}\n"),
            None => format!("{head}\n"),
        };
        let millis = |millis: Option<u64>| millis.map_or("-".to_owned(), |millis| format!("{millis} ms"));
        let dropped: u64 = status.dropped.values().sum();
        let reasons: Vec<String> = (status.dropped.iter().filter(|(_, number)| **number > 0))
            .map(|(why, number)| format!("{why} {}", count(*number)))
            .collect();
        let mut table = Table::new(&["", ""]);
        for (name, value) in [
            ("this router", status.listen.clone()),
            ("heard", millis(status.heard_ms).replace(" ms", " ms ago")),
            ("lag", format!("{} ms, {} flows wait to be told", status.lag_ms, count(status.waiting))),
            ("carried here, told there", count(status.told)),
            ("carried there, held here", count(status.held)),
            ("compared", format!("{} parts, {} told anew", count(status.compared), count(status.repaired))),
            ("without a place here", count(status.refused)),
            ("datagrams sent", format!("{}, {} parcels again", count(status.sent), count(status.resent))),
            ("datagrams received", count(status.received)),
            (
                "datagrams dropped",
                match reasons.is_empty() {
                    true => count(dropped),
                    false => format!("{} ({})", count(dropped), reasons.join(", ")),
                },
            ),
        ] {
            table.row(vec![name.to_owned(), value]);
        }
        text += table.render().split_once('\n').map_or("", |(_, rows)| rows);
        text
    }
}
