//! The thread that seals journals and removes what is too old, beside the one that writes.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::listing::list;
use super::seal::seal;
use super::writer::current;
use crate::clock::now;
use crate::settings::Files;
use crate::tally::Tally;

/// After how long what failed is tried again.
const AGAIN: Duration = Duration::from_secs(30);
/// How far the calendar may be from where it should be by now.
const LEAP: u64 = 60_000_000_000;
/// How long a calendar must have run evenly before files are removed for their age: one that is
/// wrong at the start, or is set to a wrong time, is mostly set right by then.
const EVEN: Duration = Duration::from_secs(3600);

/// Whether what time it is can be believed.
struct Calendar {
    /// When it was last looked at, and what it said.
    seen: (Instant, u64),
    /// Since when it has run evenly.
    even: Instant,
}

impl Calendar {
    fn new(at: Instant, says: u64) -> Calendar {
        Calendar { seen: (at, says), even: at }
    }

    /// Whether it has been right for long enough, now that it says this.
    fn is_right(&mut self, at: Instant, says: u64) -> bool {
        let (then, said) = self.seen;
        let due = said.saturating_add(at.saturating_duration_since(then).as_nanos() as u64);
        if says.abs_diff(due) > LEAP {
            self.even = at;
        }
        self.seen = (at, says);
        at.saturating_duration_since(self.even) >= EVEN
    }
}

/// The near end.
#[derive(Debug)]
pub(super) struct Sealer {
    journals: Option<mpsc::Sender<PathBuf>>,
    /// Journals that are not sealed yet.
    waiting: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Sealer {
    /// Starts with these journals, which an earlier run left.
    pub fn start(plan: Arc<RwLock<Files>>, left: Vec<PathBuf>, tally: Arc<Tally>) -> io::Result<Sealer> {
        let (journals, arriving) = mpsc::channel();
        let count = Arc::new(AtomicUsize::new(left.len()));
        let (waiting, done) = (Arc::clone(&count), count);
        let run = move || {
            let mut waiting = VecDeque::from(left);
            let mut open = true;
            let mut calendar = Calendar::new(Instant::now(), now());
            let mut work = |waiting: &mut VecDeque<PathBuf>| {
                let mut plan = current(&plan).clone();
                if !calendar.is_right(Instant::now(), now()) {
                    plan.keep = None;
                }
                work(waiting, &plan, &tally, &done);
            };
            while open {
                work(&mut waiting);
                match arriving.recv_timeout(AGAIN) {
                    Ok(journal) => waiting.push_back(journal),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => open = false,
                }
            }
            work(&mut waiting);
        };
        let thread = thread::Builder::new().name("flowlog-seal".to_owned()).spawn(run)?;
        Ok(Sealer { journals: Some(journals), waiting, thread: Some(thread) })
    }

    /// A journal that is complete.
    pub fn give(&self, journal: PathBuf) {
        if let Some(journals) = &self.journals {
            self.waiting.fetch_add(1, AcqRel);
            // It ends with us: whatever is not sealed then is sealed at the next start.
            let _ = journals.send(journal);
        }
    }

    /// Whether all that it was given is sealed.
    pub fn is_idle(&self) -> bool {
        self.waiting.load(Acquire) == 0
    }
}

impl Drop for Sealer {
    /// Seals what it was given.
    fn drop(&mut self) {
        self.journals = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("flow log: the thread that seals files panicked");
        }
    }
}

/// Seals what waits; what fails waits on.
fn work(waiting: &mut VecDeque<PathBuf>, plan: &Files, tally: &Tally, left: &AtomicUsize) {
    for _ in 0..waiting.len() {
        let Some(journal) = waiting.pop_front() else { break };
        match seal(&journal) {
            Ok(sealed) => {
                if let Some(at) = sealed.torn {
                    tally.fault(format_args!("{}: torn at byte {at}, whole until there", journal.display()));
                    tracing::warn!("flow log: {} was torn at byte {at}", journal.display());
                }
                if sealed.file.is_some() {
                    tally.given(sealed.records as usize);
                    tally.sent(sealed.records as usize, sealed.bytes as usize);
                }
            }
            Err(_) if !journal.exists() => {
                tally.fault(format_args!("{}: removed before it was sealed", journal.display()));
                tracing::warn!("flow log: {} was removed before it was sealed", journal.display());
            }
            Err(error) => {
                tally.fault(&error);
                tracing::warn!("flow log: cannot seal a file, which stays a journal: {error}");
                waiting.push_back(journal);
                continue;
            }
        }
        left.fetch_sub(1, AcqRel);
    }
    if let Err(error) = retire(&plan.directory, plan, now()) {
        tally.fault(format_args!("{}: {error}", plan.directory.display()));
    }
}

/// Removes files that are too old, and the oldest while all together are too large. Journals stay:
/// they are being written or wait to be sealed.
pub(super) fn retire(directory: &Path, plan: &Files, now: u64) -> io::Result<usize> {
    if plan.keep.is_none() && plan.keep_size.is_none() {
        return Ok(0);
    }
    let files = list(directory)?;
    let mut size = files.iter().map(|file| file.size).sum::<u64>();
    let mut removed = 0;
    for (n, file) in files.iter().enumerate() {
        // A file's last record is as old as the next file's beginning.
        let ended = files.get(n + 1).map_or(now, |next| next.begun);
        let old = plan.keep.is_some_and(|keep| u128::from(now.saturating_sub(ended)) > keep.as_nanos());
        let large = plan.keep_size.is_some_and(|most| size > most);
        if file.journal || !(old || large) {
            continue;
        }
        std::fs::remove_file(&file.path)?;
        size -= file.size;
        removed += 1;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_removed_for_their_age_only_by_a_calendar_that_has_run_evenly_for_an_hour() {
        let (start, second) = (Instant::now(), 1_000_000_000);
        let mut calendar = Calendar::new(start, 500 * second);
        let mut right =
            |after: u64, says: u64| calendar.is_right(start + Duration::from_secs(after), says * second);
        // It counts on, a little off now and then, as where it is steered.
        assert!(!right(30, 530) && !right(1800, 2310) && !right(3599, 4099) && right(3600, 4100));
        // A year ahead for a minute, and back again.
        assert!(!right(3630, 31_540_130) && !right(3660, 31_540_160) && !right(3690, 4190));
        assert!(!right(7289, 7789) && right(7290, 7790) && right(20_000, 20_500));
    }
}
