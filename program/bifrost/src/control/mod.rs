//! How an operator and a running Bifrost talk.
//!
//! One Unix socket. A client writes a [`Request`] as one line of JSON and reads one line of JSON, a
//! [`Reply`]; it may then ask again. Some requests (routes, trace, capture, watch) are answered by
//! a stream: any number of `item` lines and then one `end` line. The names in that JSON are those
//! of the types in [`status`], are documented in `docs/json.md`, and are stable: what `--json`
//! prints is what went over the socket.
//!
//! ```text
//!   bifrost show ports ──► client ══ socket ══► server ──► dyn Answer ──► the daemon's control thread
//!                                                 │
//!                                          one thread a client, a limit on clients, timeouts both ways
//! ```
//!
//! The server knows nothing of forwarding: everything it says comes from [`Answer`], which the
//! daemon implements. A stuck client costs its own thread and one socket buffer, until the write
//! timeout throws it out; a flood of clients is refused at the limit. Nothing here is ever waited
//! for by a worker: traces and captures come through a [`Feed`], whose sending side never blocks.

mod access;
mod answer;
mod client;
mod conversation;
mod copies;
mod facts;
mod feed;
mod filter;
mod flows;
mod hex;
mod protocol;
mod question;
mod rates;
mod revisions;
mod server;
pub mod status;
mod words;

pub use access::Access;
pub use answer::Answer;
pub use client::{Client, ClientError, Stopper, Stream};
pub use copies::{CopyRequest, Directions};
pub use facts::Facts;
pub use feed::{Feed, FeedSender, Next, feed};
pub use filter::Filter;
pub use protocol::{
    CaptureRequest, DEFAULT_SOCKET, End, LONGEST_REQUEST, MAX_REQUEST, PAGE, Reply, Request, RouteQuery,
    TraceRequest,
};
pub use question::Question;
pub use rates::Rates;
pub use revisions::{
    CommitRequest, Committed, Compared, Expectation, History, Holder, LockStatus, LockWish, Refusal, Text,
    Waits, Who, Why,
};
pub use server::{MAX_CLIENTS, Server, ServerError};
pub(crate) use words::nearest;
pub use words::{Protocol, WordError};
