//! A way out of the log, with a thread and a bounded queue of its own.
//!
//! Every collector and the files each stand behind a queue that is bounded in records. Whoever is
//! slow or dead fills its own queue and loses its own records, counted; the others notice nothing.
//! Batches are shared, not copied.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::record::Record;
use crate::tally::{Loss, Tally};

/// How often a sink is called when there is nothing to write.
pub const TICK: Duration = Duration::from_millis(200);

/// Where records go.
pub trait Sink: Send + 'static {
    /// Writes records, or keeps them for a moment to write more at once.
    fn take(&mut self, records: &[Record]);

    /// Called after each [`take`](Sink::take) and at least every [`TICK`]: writes what has waited
    /// long enough.
    fn tick(&mut self);

    /// Writes all that is left. Nothing follows.
    fn close(&mut self);
}

/// The near end of a sink's queue.
#[derive(Debug)]
pub struct Line {
    batches: Option<mpsc::Sender<Arc<[Record]>>>,
    queued: Arc<AtomicUsize>,
    limit: usize,
    tally: Arc<Tally>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Line {
    /// Starts a thread for a sink. `limit` records may wait at most; `stop` tells a sink that waits
    /// for somebody to give up.
    pub fn start(
        mut sink: impl Sink,
        thread_name: &str,
        limit: usize,
        tally: Arc<Tally>,
        stop: Arc<AtomicBool>,
    ) -> io::Result<Line> {
        let (batches, arriving) = mpsc::channel::<Arc<[Record]>>();
        let queued = Arc::new(AtomicUsize::new(0));
        let waiting = Arc::clone(&queued);
        let run = move || {
            loop {
                match arriving.recv_timeout(TICK) {
                    Ok(batch) => {
                        waiting.fetch_sub(batch.len(), Relaxed);
                        sink.take(&batch);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                sink.tick();
            }
            sink.close();
        };
        let thread = thread::Builder::new().name(thread_name.to_owned()).spawn(run)?;
        Ok(Line { batches: Some(batches), queued, limit, tally, stop, thread: Some(thread) })
    }

    /// Hands a batch over, or counts it as lost when there is no room for all of it.
    pub fn give(&self, batch: &Arc<[Record]>) {
        self.tally.given(batch.len());
        // One thread gives, so the room that is seen here can only grow.
        let room = self.queued.load(Relaxed) + batch.len() <= self.limit;
        let sent = room
            && self.batches.as_ref().is_some_and(|batches| {
                self.queued.fetch_add(batch.len(), Relaxed);
                batches.send(Arc::clone(batch)).is_ok()
            });
        if !sent {
            self.tally.lost(Loss::Queue, batch.len());
        }
    }

    /// So many records may wait from now on.
    pub fn limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Its counters.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }
}

impl Drop for Line {
    /// What waits is still written, unless it waits for somebody who does not answer.
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.batches = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("flow log: the thread of {} panicked", self.tally.name());
        }
    }
}
