//! Configurations: what is asked about them, and the answers.

use revisions::Revision;
use serde::{Deserialize, Serialize};

/// A configuration, as an operator names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Text {
    /// The one in force.
    Running,
    /// The file that the daemon starts from.
    Disk,
    /// A revision.
    Revision(u64),
    /// The revision before the one in force.
    Before,
    /// Another file, read by the client.
    File {
        /// What messages call it.
        name: String,
        /// What it has.
        text: String,
    },
}

/// Put a configuration in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommitRequest {
    /// Which.
    pub what: Text,
    /// Only says what that would do.
    #[serde(default)]
    pub check: bool,
    /// Refuse unless this ran when it was made: a revision.
    #[serde(default)]
    pub base: Option<u64>,
    /// Refuse unless this still runs: what the answer to a check said.
    #[serde(default)]
    pub running: Option<String>,
    /// Do it even if something else runs, the file was changed by hand, or a sentence of `[expect]`
    /// does not hold any more.
    #[serde(default)]
    pub force: bool,
    /// Go back unless it is confirmed within so many minutes.
    #[serde(default)]
    pub confirmed: Option<u64>,
    /// What is to be known of it.
    #[serde(default)]
    pub comment: String,
    /// From where it is asked for, as far as the client knows.
    #[serde(default)]
    pub from: Option<String>,
    /// The text that the daemon's file had when it was made: refuse if that has another one by now.
    /// What was changed by hand before is known then, and may be overwritten.
    #[serde(default)]
    pub made_from: Option<String>,
}

/// What is wanted of the lock: who has it commits, and nobody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockWish {
    /// To know who has it.
    Show,
    /// To have it, for another minute.
    Hold,
    /// To have it, even if somebody else does.
    Take,
    /// To give it back.
    Release,
    /// That nobody has it.
    Break,
}

/// Who has the lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockStatus {
    /// Who; `None`: nobody.
    pub holder: Option<Holder>,
    /// It is who asks.
    pub yours: bool,
}

/// An administrator who has the lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// The user.
    pub user: Option<String>,
    /// Who had logged in to be that user, if it is another.
    pub login: Option<String>,
    /// From where, as the client said.
    pub from: Option<String>,
    /// For how many seconds already.
    pub seconds: u64,
}

impl Holder {
    /// What people call him.
    pub(crate) fn name(&self) -> &str {
        self.login.as_ref().or(self.user.as_ref()).map_or("somebody", String::as_str)
    }

    /// Since when, and from where.
    pub(crate) fn since(&self) -> String {
        let from = self.from.as_ref().map_or(String::new(), |from| format!(" from {from}"));
        format!("for {}{from}", notation::lasting(self.seconds, " "))
    }
}

/// Why a configuration was not put in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Of which kind that is.
    pub why: Why,
    /// In words, for the operator.
    pub message: String,
    /// Where the configuration is wrong, if that is why.
    pub mistakes: Vec<notation::Mistake>,
}

/// Kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The configuration is wrong.
    Wrong,
    /// Linux, FRR, a service or a part of the router does not take it.
    Refused,
    /// Somebody has locked it.
    Locked,
    /// Something else runs by now than what it was made for.
    Changed,
    /// A revision waits to be confirmed.
    Waits,
    /// The file was changed by hand.
    ByHand,
    /// There is none of what was asked for.
    Absent,
    /// It could not be done: the disk, or the daemon is stopping.
    Failed,
}

impl Why {
    /// The same with a message.
    pub(crate) fn because(self, message: impl Into<String>) -> Refusal {
        Refusal { why: self, message: message.into(), mistakes: Vec::new() }
    }
}

impl From<String> for Refusal {
    fn from(message: String) -> Refusal {
        Why::Failed.because(message)
    }
}

/// What came of it, or would.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Committed {
    /// What changes, a line each.
    pub effects: Vec<String>,
    /// Names what runs, until something else does.
    pub running: String,
    /// The number that the configuration has in the history; none after a check, or where no text
    /// changed.
    pub revision: Option<u64>,
    /// What came of it, for people; empty after a check.
    pub done: String,
}

/// A sentence that is to stay true, and whether it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// As it is written.
    pub sentence: String,
    /// Where: file and line.
    pub place: String,
    /// Whether it holds; absent: it cannot be told.
    pub holds: Option<bool>,
    /// A packet for which it does not, as `explain` is asked about it.
    pub packet: Option<String>,
    /// What becomes of that packet and what decides it; or why it cannot be told.
    pub why: Option<String>,
}

/// The history, and how what runs stands to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The file that the daemon starts from.
    pub file: String,
    /// The revision in force; none: what runs was never committed.
    pub running: Option<u64>,
    /// The file has another text than what runs.
    pub disk_differs: bool,
    /// The last revision goes back by itself.
    pub waits: Option<Waits>,
    /// All that are kept, the newest first.
    pub revisions: Vec<Revision>,
}

/// A revision waits to be confirmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// The revision.
    pub revision: u64,
    /// Seconds until the one before comes back.
    pub seconds: u64,
}

/// Two configurations, their secrets covered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// What they are, for people.
    pub names: [String; 2],
    /// What they have. A secret of the second that is another one is told to be.
    pub texts: [String; 2],
}

/// Who asks, as the kernel says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Who {
    /// The user.
    pub user: Option<String>,
    /// Who had logged in to be that user, if it is another.
    pub login: Option<String>,
}

impl Who {
    /// The process at the other end of a socket.
    pub(crate) fn of(peer: &port::Peer) -> Who {
        let name = |uid: u32| {
            let user = nix::unistd::User::from_uid(uid.into()).ok().flatten();
            user.map_or(uid.to_string(), |user| user.name)
        };
        // Who logged in stays known through sudo and su; services have none.
        let login = std::fs::read_to_string(format!("/proc/{}/loginuid", peer.pid)).ok();
        let login = login.and_then(|text| text.trim().parse().ok());
        let login = login.filter(|login| *login != u32::MAX && *login != peer.uid);
        Who { user: Some(name(peer.uid)), login: login.map(name) }
    }
}
