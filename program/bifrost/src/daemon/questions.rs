//! Answers for the control socket: each question is handed to the control thread and waited for.

use ipnet::IpNet;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use crate::control::status::*;
use crate::control::{
    Answer, CaptureRequest, CommitRequest, Committed, Compared, CopyRequest, Expectation, Feed, History,
    LockStatus, LockWish, Question, Refusal, RouteQuery, Text, TraceRequest, Who,
};

use crate::subject::{Answered, Entry};
use flowlog::Record;

use super::control::{Control, Door};
use super::reload::Reloading;
use super::served;

/// How long a question may take before the client is told that the daemon is too busy.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where clients' threads ask.
pub(super) struct Questions {
    door: Door,
    reloading: Reloading,
}

impl Questions {
    pub(super) fn new(door: Door, reloading: Reloading) -> Questions {
        Questions { door, reloading }
    }

    /// Has `question` answered on the control thread.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Control) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let (sender, answer) = sync_channel(1);
        let job = Box::new(move |control: &mut Control| {
            // Nobody waits any more: the answer goes nowhere.
            let _ = sender.send(question(control));
        });
        if !self.door.hand_in(job) {
            return Err("the daemon is stopping".into());
        }
        answer.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            Err("the daemon is too busy to answer now (routes are being loaded, or it is stopping); try again".into())
        })
    }
}

impl Answer for Questions {
    fn subject(&self, subject: &'static Entry) -> Result<Answered, String> {
        self.ask(|control| (subject.answer)(control))
    }

    fn routes(
        &self,
        query: &RouteQuery,
        after: Option<&RouteEntry>,
        limit: usize,
    ) -> Result<Vec<RouteEntry>, String> {
        let (query, after) = (query.clone(), after.cloned());
        self.ask(move |control| control.forwarding.routes(&query, after.as_ref(), limit))
    }

    fn reload(&self, dry_run: bool, who: &Who) -> Result<String, String> {
        self.reloading.reload(&self.door, dry_run, who)
    }

    fn commit(&self, commit: &CommitRequest, who: &Who) -> Result<Committed, Refusal> {
        self.reloading.commit(&self.door, commit, who)
    }

    fn upgrade(&self) -> Result<String, String> {
        self.reloading.upgrade(&self.door)
    }

    fn confirm(&self, who: &Who) -> Result<String, String> {
        self.reloading.confirm(who)
    }

    fn history(&self) -> Result<History, String> {
        self.reloading.history(&self.door)
    }

    fn compare(&self, texts: &[Text; 2]) -> Result<Compared, String> {
        self.reloading.compare(&self.door, texts)
    }

    fn lock(&self, wish: LockWish, from: Option<&str>, who: &Who) -> Result<LockStatus, String> {
        self.reloading.lock.ask(wish, from, who)
    }

    fn expect(&self) -> Result<Vec<Expectation>, String> {
        self.reloading.expectations(&self.door)
    }

    fn change_set(&self, name: &str, come: &[IpNet], go: &[IpNet]) -> Result<u64, String> {
        let (name, come, go) = (name.to_owned(), come.to_vec(), go.to_vec());
        self.ask(move |control| control.change_set(&name, &come, &go))
    }

    fn redundancy(&self, name: &str, release: bool) -> Result<String, String> {
        // The control thread only says whom to ask.
        self.ask(|control| Ok(control.parts.redundancy.handle()))?.ask(name.to_owned(), release)
    }

    fn restart(&self, name: &str) -> Result<String, String> {
        // The control thread only says what the file says, and goes on.
        let router = self.ask(|control| Ok(control.forwarding.router.clone()))?;
        served::restart(&router, name)
    }

    fn handle(&self, handler: &str, value: Option<&str>) -> Result<Vec<String>, String> {
        let (handler, value) = (handler.to_owned(), value.map(str::to_owned));
        self.ask(move |control| control.forwarding.handle(&handler, value.as_deref()))
    }

    fn flows(&self, query: &FlowQuery) -> Result<Flows, String> {
        // The control thread only says where to look.
        self.ask(|control| Ok(control.forwarding.flow_viewer()))?.look(query)
    }

    fn clear_flows(&self, query: &FlowQuery) -> Result<u64, String> {
        self.ask(|control| Ok(control.forwarding.flow_viewer()))?.clear(query)
    }

    fn flow_table(&self) -> Result<Option<FlowTable>, String> {
        self.ask(|control| Ok(control.forwarding.flow_table()))
    }

    fn living(&self, query: &FlowQuery, from: u32) -> Result<(Vec<Record>, Option<u32>), String> {
        self.ask(|control| Ok(control.parts.logging.living(&control.forwarding)))?.page(query, from)
    }

    fn summary(&self) -> Result<Summary, String> {
        self.ask(|control| Ok(control.forwarding.summary()))
    }

    fn explain(&self, question: &Question) -> Result<Vec<Step>, String> {
        let question = question.clone();
        self.ask(move |control| control.forwarding.explain(&question))
    }

    fn trace(&self, request: &TraceRequest) -> Result<Feed<TraceStep>, String> {
        let request = request.clone();
        self.ask(move |control| control.forwarding.trace(&request))
    }

    fn capture(&self, request: &CaptureRequest) -> Result<Feed<CapturedPacket>, String> {
        let request = request.clone();
        self.ask(move |control| control.forwarding.capture(&request))
    }

    fn copy(&self, request: &CopyRequest) -> Result<Feed<SeenPacket>, String> {
        let request = request.clone();
        self.ask(move |control| control.forwarding.copy(&request))
    }
}
