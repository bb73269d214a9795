//! Flows that this router shares with another one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sharing::Figures;

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
    /// Its numbers.
    #[serde(flatten)]
    pub figures: Figures,
    /// Datagrams that Linux refused to send.
    pub unsent: u64,
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
        let (peer, figures) = (&status.peer, &status.figures);
        let head = match status.state.as_str() {
            "off" => "flows are not shared".to_owned(),
            "alone" => format!("{peer} has not been heard yet"),
            "joining" => format!("{peer} is telling its flows: {} of 256 parts are here", figures.joined),
            "shared" => format!("{peer} and this router have the same flows"),
            "differs" => format!(
                "{peer} has told of flows that are not here as they are there: {} or more, in {} of 256 parts",
                count(figures.missing),
                figures.differing
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
            ("lag", format!("{} ms, {} flows wait to be told", status.lag_ms, count(figures.waiting))),
            ("carried here, told there", count(figures.told)),
            ("carried there, held here", count(figures.held)),
            ("compared", format!("{} parts, {} told anew", count(figures.compared), count(figures.repaired))),
            ("without a place here", count(figures.refused)),
            ("datagrams sent", format!("{}, {} parcels again", count(figures.sent), count(figures.resent))),
            ("datagrams received", count(figures.received)),
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
