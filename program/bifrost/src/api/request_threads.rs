//! Threads that ask the daemon for those who have shown a token.
//!
//! Two read and one writes, so that a long commit keeps nobody from looking. They have no
//! capability, as the threads of the control socket's clients.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use ring::hmac;
use ring::rand::SystemRandom;
use tokio::sync::oneshot;

use super::events::Events;
use super::less_urgent;
use super::problem::{Kind, Problem};
use super::token::hex;
use crate::control::{Answer, Rates};

/// Requests that may wait for a thread.
const WAITING: usize = 32;
/// Threads that read.
const READERS: usize = 2;

type Job = Box<dyn FnOnce(&ApiContext) + Send>;

/// What the threads answer requests with.
pub(super) struct ApiContext {
    pub answer: Arc<dyn Answer>,
    pub rates: Arc<Rates>,
    pub events: Events,
    seal: hmac::Key,
}

impl ApiContext {
    /// What tells one configuration from another, and nothing of its secrets; as long as the daemon
    /// lives.
    pub fn etag(&self, raw: &str) -> String {
        format!("\"{}\"", hex(&hmac::sign(&self.seal, raw.as_bytes()).as_ref()[..16]))
    }
}

/// The threads, by the queues that lead to them.
pub(super) struct RequestThreads {
    reading: SyncSender<Job>,
    writing: SyncSender<Job>,
}

impl RequestThreads {
    pub fn start(answer: Arc<dyn Answer>, rates: Arc<Rates>) -> io::Result<RequestThreads> {
        let seal = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| io::Error::other("the machine has no random numbers"))?;
        let context = Arc::new(ApiContext { answer, rates, events: Events::default(), seal });
        let (reading, inbox) = sync_channel(WAITING);
        let inbox = Arc::new(Mutex::new(inbox));
        for _ in 0..READERS {
            work("api-read", context.clone(), inbox.clone())?;
        }
        let (writing, inbox) = sync_channel(WAITING);
        work("api-write", context.clone(), Arc::new(Mutex::new(inbox)))?;
        let watched = context.clone();
        thread::Builder::new().name("api-events".to_owned()).spawn(move || {
            less_urgent();
            confine::client();
            super::events::watch(&watched);
        })?;
        Ok(RequestThreads { reading, writing })
    }

    /// Has something done by one of the threads.
    pub async fn ask<T: Send + 'static>(
        &self,
        writes: bool,
        job: impl FnOnce(&ApiContext) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let (sender, answer) = oneshot::channel();
        let job: Job = Box::new(move |context| drop(sender.send(job(context))));
        let queue = if writes { &self.writing } else { &self.reading };
        queue.try_send(job).map_err(|_| Kind::Busy.because("too many requests wait already"))?;
        answer.await.map_err(|_| Kind::Failed.because("the router made a mistake: its log tells more"))
    }
}

fn work(name: &str, context: Arc<ApiContext>, inbox: Arc<Mutex<Receiver<Job>>>) -> io::Result<()> {
    let body = move || {
        less_urgent();
        confine::client();
        loop {
            let next = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = next else { return };
            // Who asked is told by the answer that does not come; the next one is served.
            let _ = catch_unwind(AssertUnwindSafe(|| job(&context)));
        }
    };
    thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}
