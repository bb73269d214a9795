//! BFD sessions that are run here for FRR.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Subject;
use crate::command::table::Table;
use crate::daemon::Control;
use crate::screen::units::count;

/// How FRR's bfdd is reached, and its sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BfdStatus {
    /// Where bfdd listens.
    pub frr: String,
    /// Whether it is there.
    pub connected: bool,
    /// Why it is not.
    pub trouble: Option<String>,
    /// Packets for no session, and those that were no packets of BFD.
    pub strays: u64,
    /// By peer and interface.
    pub sessions: Vec<BfdSession>,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BfdSession {
    /// The other end.
    pub peer: IpAddr,
    /// The address that is sent from.
    pub local: Option<IpAddr>,
    /// The interface that it is bound to.
    pub interface: Option<String>,
    /// Whether the peer is several hops away.
    pub multihop: bool,
    /// `admin-down`, `down`, `init` or `up`.
    pub state: String,
    /// Why it last left the state up; `none`.
    pub diagnostic: String,
    /// Microseconds between packets to the other end, at most; none: none are sent.
    pub sends_every_us: Option<u32>,
    /// Microseconds without a packet after which it is down; 0: nothing was heard yet.
    pub detects_after_us: u64,
    /// This end's number for it.
    pub id: u32,
    /// The other end's; 0: not known.
    pub other_id: u32,
    /// Packets heard.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets that came from elsewhere, or from too far.
    pub discarded: u64,
    /// What its packets show of its key: `sha1`; none: it is not authenticated.
    #[serde(default)]
    pub authentication: Option<String>,
    /// By which number they name the key.
    #[serde(default)]
    pub key_id: Option<u8>,
    /// Packets of its peer's address that were not authentic.
    #[serde(default)]
    pub refused: u64,
    /// Why the last of them was not.
    #[serde(default)]
    pub refused_why: Option<String>,
    /// How often the state was another.
    pub changes: u64,
    /// How long it has been as it is.
    pub since_seconds: u64,
    /// Why it does not run.
    pub stuck: Option<String>,
}

impl Subject for Option<BfdStatus> {
    const NAME: &'static str = "bfd";
    const ABOUT: &'static str = "BFD sessions that are run here for FRR";

    fn answer(control: &mut Control) -> Result<Self, String> {
        control.parts.bfd.status(&control.forwarding)
    }

    fn table(&self) -> String {
        let Some(status) = self else {
            return "no BFD session is run here: [bfd] in router.toml takes FRR's over\n".to_owned();
        };
        let mut text = match (status.connected, &status.trouble) {
            (true, _) => format!("FRR's bfdd at {} is connected\n", status.frr),
            (false, None) => format!("FRR's bfdd at {} is not there yet\n", status.frr),
            (false, Some(trouble)) => format!("FRR's bfdd at {} is not there: {trouble}\n", status.frr),
        };
        if status.sessions.is_empty() {
            return text;
        }
        let columns = [
            "peer",
            "local",
            "interface",
            "state",
            ">since",
            ">sends",
            ">detects",
            ">received",
            ">sent",
            ">changes",
            "remarks",
        ];
        let mut table = Table::new(&columns);
        let millis = |micros: u64| match micros {
            0 => "-".to_owned(),
            micros => format!("{} ms", micros as f64 / 1000.0),
        };
        for one in &status.sessions {
            let mut remarks: Vec<String> = one.stuck.iter().cloned().collect();
            if one.diagnostic != "none" {
                remarks.push(one.diagnostic.clone());
            }
            if one.multihop {
                remarks.push("multihop".to_owned());
            }
            if one.discarded > 0 {
                remarks.push(format!("{} discarded", count(one.discarded)));
            }
            if let (Some(kind), Some(id)) = (&one.authentication, one.key_id) {
                remarks.push(format!("{kind} by key {id}"));
            }
            if let Some(why) = &one.refused_why {
                remarks.push(format!("authentication failed {} times: {why}", count(one.refused)));
            }
            table.row(vec![
                one.peer.to_string(),
                one.local.map_or("-".to_owned(), |local| local.to_string()),
                one.interface.clone().unwrap_or_else(|| "-".to_owned()),
                one.state.clone(),
                notation::lasting(one.since_seconds, " "),
                millis(one.sends_every_us.unwrap_or(0).into()),
                millis(one.detects_after_us),
                count(one.received),
                count(one.sent),
                count(one.changes),
                if remarks.is_empty() { "-".to_owned() } else { remarks.join(", ") },
            ]);
        }
        text += &table.render();
        text
    }
}
