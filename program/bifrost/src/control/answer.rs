//! What the daemon must be able to say.

use flowlog::Record;
use ipnet::IpNet;

use super::copies::CopyRequest;
use super::feed::Feed;
use super::protocol::{CaptureRequest, RouteQuery, TraceRequest};
use super::question::Question;
use super::revisions::{
    CommitRequest, Committed, Compared, Expectation, History, LockStatus, LockWish, Refusal, Text, Who,
};
use super::status::*;
use crate::subject::{Answered, Entry, Subject};

/// The daemon, as seen from the control socket.
///
/// Methods are called from several threads at once, may block for a moment (a second at most: ask
/// the control thread and wait), and must never touch a worker. An error is a sentence for the
/// operator. Fields documented as *derived* are left at their default: the server fills them in.
pub trait Answer: Send + Sync {
    /// The answer to a subject of `bifrost show`, of its own type.
    fn subject(&self, subject: &'static Entry) -> Result<Answered, String>;

    /// At most `limit` (never more than [`PAGE`](super::PAGE)) routes that `query` selects, ordered
    /// by (IPv4 before IPv6, address, prefix length, table, metric), beginning after `after`. Fewer
    /// than `limit` means that there are no more. `query.limit` is the server's business.
    ///
    /// A table that changes between two pages may show a route of before or after the change, never
    /// a route twice.
    fn routes(
        &self,
        query: &RouteQuery,
        after: Option<&RouteEntry>,
        limit: usize,
    ) -> Result<Vec<RouteEntry>, String>;

    /// Reads the configuration again, and says what came of it. A wrong one changes nothing; a dry
    /// run says what would change.
    fn reload(&self, dry_run: bool, who: &Who) -> Result<String, String>;

    /// Puts a configuration in force, into the file and into the history; whole or not at all.
    fn commit(&self, commit: &CommitRequest, who: &Who) -> Result<Committed, Refusal>;

    /// Has the program that is installed take over, and says what came of it.
    fn upgrade(&self) -> Result<String, String>;

    /// Keeps the last revision, which waits for that. Says what came of it.
    fn confirm(&self, who: &Who) -> Result<String, String>;

    /// The configurations that were in force.
    fn history(&self) -> Result<History, String>;

    /// Two configurations, their secrets covered.
    fn compare(&self, texts: &[Text; 2]) -> Result<Compared, String>;

    /// Who has locked the configuration, after what is wanted of the lock was done.
    fn lock(&self, wish: LockWish, from: Option<&str>, who: &Who) -> Result<LockStatus, String>;

    /// What is to stay true, and whether it is.
    fn expect(&self) -> Result<Vec<Expectation>, String>;

    /// Changes the members of an address set of the filter until the configuration is read again,
    /// and says how many it has then. What comes and goes at once is there afterwards.
    fn change_set(&self, name: &str, come: &[IpNet], go: &[IpNet]) -> Result<u64, String>;

    /// Hands a virtual router over, and waits until another router has it; or takes part in it as
    /// before. Says what came of it.
    fn redundancy(&self, name: &str, release: bool) -> Result<String, String>;

    /// Has a daemon start anew that serves hosts, or FRR. Says what came of it.
    fn restart(&self, name: &str) -> Result<String, String>;

    /// Reads, or with a value writes, the handler `element.handler` of each worker's graph, by
    /// worker.
    fn handle(&self, handler: &str, value: Option<&str>) -> Result<Vec<String>, String>;

    /// The flows that `query` selects.
    fn flows(&self, query: &FlowQuery) -> Result<Flows, String>;

    /// Ends the flows that `query` selects, whatever its order and limit; how many they were.
    fn clear_flows(&self, query: &FlowQuery) -> Result<u64, String>;

    /// The flow table; `None` while flows are not tracked.
    fn flow_table(&self) -> Result<Option<FlowTable>, String>;

    /// Flows that live and that `query` selects (order and limit do not count), as the flow log
    /// would tell of them now: a page of the table's entries, the first from 0, and where the next
    /// one begins.
    fn living(&self, query: &FlowQuery, from: u32) -> Result<(Vec<Record>, Option<u32>), String>;

    /// The router at a glance. Called once a second: keep it cheap.
    fn summary(&self) -> Result<Summary, String>;

    /// What would happen to such a packet, from the running tables, step by step.
    fn explain(&self, question: &Question) -> Result<Vec<Step>, String>;

    /// Begin to follow packets. The limits in the request are the server's business as well: it
    /// drops the feed when they are reached or the client is gone, and the sender then reports
    /// itself closed.
    fn trace(&self, request: &TraceRequest) -> Result<Feed<TraceStep>, String>;

    /// Begin to copy packets, likewise.
    fn capture(&self, request: &CaptureRequest) -> Result<Feed<CapturedPacket>, String>;

    /// Begin to copy what passes ports, likewise.
    fn copy(&self, request: &CopyRequest) -> Result<Feed<SeenPacket>, String>;
}

impl dyn Answer + '_ {
    /// The answer to a subject, typed.
    pub(crate) fn ask<S: Subject>(&self) -> Result<S, String> {
        let answered = self.subject(const { &Entry::of::<S>() })?;
        Ok(*answered.downcast().map_err(|_| format!("{}: an answer to something else", S::NAME))?)
    }
}
