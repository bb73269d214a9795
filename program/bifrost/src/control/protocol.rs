//! What can be asked, and the shape of what comes back.

use std::net::IpAddr;

use config::Role;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::copies::CopyRequest;
use super::revisions::{CommitRequest, LockWish, Text};
use super::status::FlowQuery;
use super::{Filter, Question};

/// Where the daemon listens unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/bifrost/control.sock";

/// Longest request line of a client that may not change the configuration, bytes.
pub const MAX_REQUEST: usize = 64 * 1024;
/// The same for others, who may send a configuration.
pub const LONGEST_REQUEST: usize = 16 << 20;

/// One request: one line of JSON, such as `{"ask":"ports"}` or
/// `{"ask":"routes","within":"10.0.0.0/8","limit":100}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Request {
    /// A stream of [`RouteEntry`](super::status::RouteEntry).
    Routes(RouteQuery),
    /// Reads the configuration file again: what came of it, a text.
    Reload {
        /// Only says what that would do, a line each.
        #[serde(default)]
        dry_run: bool,
    },
    /// Puts a configuration in force, into the file and into the history:
    /// [`Committed`](super::Committed).
    Commit(CommitRequest),
    /// Has the program that is installed take over: what came of it, a text.
    Upgrade,
    /// Keeps the last revision, which waits for that: what came of it, a text.
    Confirm,
    /// [`History`](super::History).
    History,
    /// [`Compared`](super::Compared).
    Compare {
        /// What is compared.
        texts: [Text; 2],
    },
    /// A list of [`Expectation`](super::Expectation).
    Expect,
    /// The lock of the configuration: [`LockStatus`](super::LockStatus).
    Lock {
        /// What is wanted.
        wish: LockWish,
        /// From where it is asked for, as far as the client knows.
        #[serde(default)]
        from: Option<String>,
    },
    /// Changes the members of an address set: how many it has then, a number.
    Set {
        /// The set.
        name: String,
        /// Prefixes that come.
        #[serde(default)]
        add: Vec<IpNet>,
        /// Prefixes that go, unless they come as well.
        #[serde(default)]
        remove: Vec<IpNet>,
    },
    /// Hands a virtual router over to another router, if there is one; or takes part in it as
    /// before: what came of it, a text.
    Handover {
        /// The virtual router.
        name: String,
        /// Hands it over; else it takes part as before.
        release: bool,
    },
    /// Has a daemon start anew that serves hosts, or FRR: what came of it, a text.
    Restart {
        /// `dns`, `dhcp`, `frr`...
        name: String,
    },
    /// Reads a handler of an element: a list of texts, one a worker.
    Read {
        /// `element.handler`.
        handler: String,
    },
    /// Writes a handler of an element, on every worker: a list of empty texts.
    Write {
        /// `element.handler`.
        handler: String,
        /// What to write.
        value: String,
    },
    /// [`Flows`](super::status::Flows).
    Flows(FlowQuery),
    /// Ends flows, whatever order and limit say: how many, a number.
    ClearFlows(FlowQuery),
    /// [`Flows`](super::status::Flows) without flows: the table alone, which is cheap.
    FlowTable,
    /// A stream of [`Record`](flowlog::Record): the flows that live, without order or limit.
    Living(FlowQuery),
    /// A list of [`Step`](super::status::Step).
    Explain(Question),
    /// A stream of [`TraceStep`](super::status::TraceStep).
    Trace(TraceRequest),
    /// A stream of [`CapturedPacket`](super::status::CapturedPacket).
    Capture(CaptureRequest),
    /// A stream of [`SeenPacket`](super::status::SeenPacket).
    Copy(CopyRequest),
    /// One [`Snapshot`](super::status::Snapshot).
    Snapshot,
    /// A stream of [`Snapshot`](super::status::Snapshot), one each `interval_ms` (100 to 60,000),
    /// without end.
    Watch {
        /// Milliseconds between two snapshots.
        interval_ms: u64,
    },
}

impl Request {
    /// Who may ask it, at least. A handler may do anything, also one that is read.
    pub fn role(&self) -> Role {
        match self {
            // Who compares a text of his own could try out secrets.
            Request::Compare { texts } if texts.iter().any(|text| matches!(text, Text::File { .. })) => {
                Role::Admin
            }
            Request::Lock { wish, .. } if *wish != LockWish::Show => Role::Admin,
            Request::Compare { .. }
            | Request::Lock { .. }
            | Request::Routes(_)
            | Request::Flows(_)
            | Request::FlowTable
            | Request::Living(_)
            | Request::Explain(_)
            | Request::History
            | Request::Expect
            | Request::Snapshot
            | Request::Watch { .. } => Role::Viewer,
            Request::Set { .. }
            | Request::Handover { .. }
            | Request::Restart { .. }
            | Request::ClearFlows(_)
            | Request::Trace(_)
            | Request::Capture(_)
            | Request::Copy(_) => Role::Operator,
            Request::Reload { .. }
            | Request::Commit(_)
            | Request::Upgrade
            | Request::Confirm
            | Request::Read { .. }
            | Request::Write { .. } => Role::Admin,
        }
    }
}

/// Which routes: every one, unless a part says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteQuery {
    /// Only routes to this prefix and to those inside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<IpNet>,
    /// Only the longest match of this address: all routes to that prefix, the selected one first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Stop after so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Of the table of the VRF with this name; absent: of `main` and `local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vrf: Option<String>,
}

/// Most routes that [`Answer::routes`](super::Answer::routes) is asked for at once.
pub const PAGE: usize = 1024;

/// Follow packets through the elements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceRequest {
    /// Which packets.
    pub filter: Filter,
    /// End after so many packets.
    pub count: u64,
    /// End after so many seconds.
    pub seconds: u64,
}

/// Copy packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CaptureRequest {
    /// Which packets.
    pub filter: Filter,
    /// Element to copy them at (as they enter it); absent: as they arrive.
    pub at: Option<String>,
    /// End after so many packets; absent: no limit.
    pub count: Option<u64>,
    /// End after so many seconds; absent: no limit.
    pub seconds: Option<u64>,
    /// Bytes kept of each frame.
    pub snap: u32,
}

/// One line of an answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The whole answer.
    Ok(Box<RawValue>),
    /// Why there is none. Ends the answer.
    Error(String),
    /// The client may not ask this, and who may. Ends the answer.
    Denied(String),
    /// A stream of what happens has begun: what happens from now on is in it.
    Begun(()),
    /// One item of a stream.
    Item(Box<RawValue>),
    /// The stream is over.
    End(End),
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Items sent.
    pub items: u64,
    /// Items that could not be sent because this client read too slowly.
    pub missed: u64,
}
