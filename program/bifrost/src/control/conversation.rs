//! One request and its answer.

use std::io::{self, BufReader, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use config::Role;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use port::Peer;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::access::longest;
use super::answer::Answer;
use super::copies::CopyRequest;
use super::feed::{Feed, Next};
use super::protocol::{CaptureRequest, End, PAGE, Request, RouteQuery, TraceRequest};
use super::rates::Rates;
use super::revisions::Who;
use super::status::{DropCount, FlowQuery, Flows, PortStatus, Snapshot, TraceStep, WorkerStatus};
use crate::subject;

/// How often a stream with nothing to say looks whether its client is still there.
const LOOK: Duration = Duration::from_millis(200);
/// Longest trace, seconds.
const LONGEST_TRACE: u64 = 3600;
/// What a client is told that may not what it asks for.
const READS: &str = "you may only read here (control.read_group): this changes the router or shows what packets carry, \
                     which is for root and members of other groups (control.group, control.operate_group)";
const OPERATES: &str = "you may not change the configuration here (control.operate_group): this is for root and \
                        members of the socket's group (control.group)";
/// Drops in a snapshot.
const TOP_DROPS: usize = 16;

pub(super) struct Conversation<'a, 's> {
    pub answer: &'a dyn Answer,
    pub role: Role,
    pub peer: &'a Peer,
    pub rates: &'a Rates,
    pub started: Instant,
    pub stopping: &'a AtomicBool,
    pub reader: &'a BufReader<&'s UnixStream>,
    pub writer: &'a mut BufWriter<&'s UnixStream>,
}

impl Conversation<'_, '_> {
    /// Answers one line. An error means that the client is gone or stuck.
    pub fn reply_to(&mut self, line: &[u8]) -> io::Result<()> {
        let longest = longest(self.role);
        if line.len() > longest {
            self.error(format!("a request has at most {longest} bytes"))?;
        } else {
            let asked = serde_json::from_slice::<Asked>(line).ok();
            if let Some(subject) = asked.and_then(|asked| subject::asked(&asked.ask)) {
                // Subjects only read.
                let answered = self.answer.subject(subject);
                self.whole(answered.and_then(|answered| subject.json(answered, self.rates)))?;
                return self.writer.flush();
            }
            match serde_json::from_slice::<Request>(line) {
                Ok(request) if self.role < request.role() => {
                    self.line("denied", if self.role == Role::Viewer { &READS } else { &OPERATES })?;
                }
                Ok(request) => self.answer(&request)?,
                Err(error) => self.error(format!("not a request: {error}"))?,
            }
        }
        self.writer.flush()
    }

    fn answer(&mut self, request: &Request) -> io::Result<()> {
        let answer = self.answer;
        match request {
            Request::Reload { dry_run } => self.whole(answer.reload(*dry_run, &Who::of(self.peer))),
            Request::Commit(commit) => {
                let committed = answer.commit(commit, &Who::of(self.peer));
                self.whole(committed.map_err(|refusal| refusal.message))
            }
            Request::Upgrade => self.whole(answer.upgrade()),
            Request::Confirm => self.whole(answer.confirm(&Who::of(self.peer))),
            Request::History => self.whole(answer.history()),
            Request::Expect => self.whole(answer.expect()),
            Request::Compare { texts } => self.whole(answer.compare(texts)),
            Request::Lock { wish, from } => {
                self.whole(answer.lock(*wish, from.as_deref(), &Who::of(self.peer)))
            }
            Request::Set { name, add, remove } => self.whole(answer.change_set(name, add, remove)),
            Request::Restart { name } => self.whole(answer.restart(name)),
            Request::Handover { name, release } => self.whole(answer.redundancy(name, *release)),
            Request::Read { handler } => self.whole(answer.handle(handler, None)),
            Request::Write { handler, value } => self.whole(answer.handle(handler, Some(value))),
            Request::Flows(query) => self.whole(answer.flows(query)),
            Request::ClearFlows(query) => self.whole(answer.clear_flows(query)),
            Request::FlowTable => {
                self.whole(answer.flow_table().map(|table| Flows { table, ..Flows::default() }))
            }
            Request::Living(query) => self.living(query),
            Request::Explain(question) => self.whole(answer.explain(question)),
            Request::Snapshot => self.whole(self.snapshot()),
            Request::Routes(query) => self.routes(query),
            Request::Trace(request) => self.trace(request),
            Request::Capture(request) => self.capture(request),
            Request::Copy(request) => self.copy(request),
            Request::Watch { interval_ms } => {
                self.watch(Duration::from_millis((*interval_ms).clamp(100, 60_000)))
            }
        }
    }

    fn whole<T: Serialize>(&mut self, value: Result<T, String>) -> io::Result<()> {
        match value {
            Ok(value) => self.line("ok", &value),
            Err(error) => self.error(error),
        }
    }

    fn error(&mut self, error: String) -> io::Result<()> {
        self.line("error", &error)
    }

    fn end(&mut self, items: u64, missed: u64) -> io::Result<()> {
        self.line("end", &End { items, missed })
    }

    fn line<T: Serialize>(&mut self, kind: &str, value: &T) -> io::Result<()> {
        write!(self.writer, "{{{}:", json!(kind))?;
        serde_json::to_writer(&mut *self.writer, value)?;
        self.writer.write_all(b"}\n")
    }

    fn snapshot(&self) -> Result<Snapshot, String> {
        let mut ports = self.answer.ask::<Vec<PortStatus>>()?;
        self.rates.fill_ports(&mut ports);
        let mut workers = self.answer.ask::<Vec<WorkerStatus>>()?;
        self.rates.fill_workers(&mut workers);
        let mut drops = self.answer.ask::<Vec<DropCount>>()?;
        self.rates.fill_drops(&mut drops);
        // What is being dropped now comes first, then what has been.
        drops.sort_by(|a, b| b.per_second.total_cmp(&a.per_second).then(b.packets.cmp(&a.packets)));
        drops.truncate(TOP_DROPS);
        Ok(Snapshot {
            at_ms: self.started.elapsed().as_millis() as u64,
            summary: self.answer.summary()?,
            ports,
            workers,
            drops,
            shares: self.rates.shares(),
        })
    }

    fn routes(&mut self, query: &RouteQuery) -> io::Result<()> {
        let mut left = query.limit.unwrap_or(u64::MAX);
        let mut last = None;
        let mut sent = 0;
        loop {
            let want = left.min(PAGE as u64) as usize;
            let page = match self.answer.routes(query, last.as_ref(), want) {
                Ok(page) => page,
                Err(error) => return self.error(error),
            };
            for route in page.iter().take(want) {
                self.line("item", route)?;
            }
            sent += page.len().min(want) as u64;
            left -= page.len().min(want) as u64;
            if page.len() < want || left == 0 {
                return self.end(sent, 0);
            }
            last = page.into_iter().last();
        }
    }

    fn living(&mut self, query: &FlowQuery) -> io::Result<()> {
        let (mut sent, mut next) = (0, Some(0));
        while let Some(from) = next {
            let (records, further) = match self.answer.living(query, from) {
                Ok(page) => page,
                Err(error) => return self.error(error),
            };
            for record in &records {
                self.line("item", record)?;
            }
            sent += records.len() as u64;
            next = further;
        }
        self.end(sent, 0)
    }

    fn trace(&mut self, request: &TraceRequest) -> io::Result<()> {
        let feed = match self.answer.trace(request) {
            Ok(feed) => feed,
            Err(error) => return self.error(error),
        };
        let count = request.count.max(1);
        let mut ended = 0;
        self.stream(feed, Some(request.seconds.clamp(1, LONGEST_TRACE)), |step: &TraceStep| {
            ended += u64::from(step.fate.is_some() && step.packet <= count);
            Verdict { send: step.packet <= count, last: ended >= count }
        })
    }

    fn capture(&mut self, request: &CaptureRequest) -> io::Result<()> {
        let feed = match self.answer.capture(request) {
            Ok(feed) => feed,
            Err(error) => return self.error(error),
        };
        let mut left = request.count.unwrap_or(u64::MAX).max(1);
        self.stream(feed, request.seconds, |_| {
            left -= 1;
            Verdict { send: true, last: left == 0 }
        })
    }

    fn copy(&mut self, request: &CopyRequest) -> io::Result<()> {
        let feed = match self.answer.copy(request) {
            Ok(feed) => feed,
            Err(error) => return self.error(error),
        };
        let mut left = request.count.unwrap_or(u64::MAX).max(1);
        self.stream(feed, None, |_| {
            left -= 1;
            Verdict { send: true, last: left == 0 }
        })
    }

    /// Passes a feed on until it ends, the time is over, `judge` has seen the last item, or the
    /// client speaks or leaves.
    fn stream<T: Serialize>(
        &mut self,
        feed: Feed<T>,
        seconds: Option<u64>,
        mut judge: impl FnMut(&T) -> Verdict,
    ) -> io::Result<()> {
        let deadline = seconds.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
        let left =
            || deadline.map_or(LOOK, |deadline| deadline.saturating_duration_since(Instant::now()).min(LOOK));
        let mut sent = 0;
        let mut looked = Instant::now();
        self.line("begun", &())?;
        loop {
            let next = match feed.next(Duration::ZERO) {
                Next::Nothing => {
                    self.writer.flush()?;
                    feed.next(left())
                }
                next => next,
            };
            let mut over = false;
            match next {
                Next::Item(item) => {
                    let verdict = judge(&item);
                    if verdict.send {
                        self.line("item", &item)?;
                        sent += 1;
                    }
                    over = verdict.last;
                }
                Next::Over => over = true,
                Next::Nothing => {}
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                over |= self.client_spoke();
            }
            if over || left().is_zero() || self.stopping.load(Relaxed) {
                return self.end(sent, feed.missed());
            }
        }
    }

    fn watch(&mut self, interval: Duration) -> io::Result<()> {
        let mut sent = 0;
        loop {
            match self.snapshot() {
                Ok(snapshot) => self.line("item", &snapshot)?,
                Err(error) => return self.error(error),
            }
            sent += 1;
            self.writer.flush()?;
            if self.wait_for_client(interval) || self.stopping.load(Relaxed) {
                return self.end(sent, 0);
            }
        }
    }

    /// The client said something (which ends a stream) or has left.
    fn client_spoke(&self) -> bool {
        self.wait_for_client(Duration::ZERO)
    }

    /// Waits until the client says something or leaves; false when it did neither in time.
    fn wait_for_client(&self, timeout: Duration) -> bool {
        if !self.reader.buffer().is_empty() {
            return true;
        }
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let mut fds = [PollFd::new(self.reader.get_ref().as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, wait) {
                Err(nix::errno::Errno::EINTR) => continue,
                Ok(0) => return false,
                Ok(_) | Err(_) => return true,
            }
        }
    }
}

/// What every request has.
#[derive(Deserialize)]
struct Asked {
    ask: String,
}

/// What to do with an item of a stream.
struct Verdict {
    send: bool,
    last: bool,
}
