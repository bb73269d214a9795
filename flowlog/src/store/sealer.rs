//! The thread that seals journals and removes what is too old, beside the one that writes.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::listing::list;
use super::seal::seal;
use super::writer::current;
use crate::clock::now;
use crate::settings::Files;
use crate::tally::Tally;

/// After how long what failed is tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// The near end.
#[derive(Debug)]
pub(super) struct Sealer {
    journals: Option<mpsc::Sender<PathBuf>>,
    thread: Option<JoinHandle<()>>,
}

impl Sealer {
    /// Starts with these journals, which an earlier run left.
    pub fn start(plan: Arc<RwLock<Files>>, left: Vec<PathBuf>, tally: Arc<Tally>) -> io::Result<Sealer> {
        let (journals, arriving) = mpsc::channel();
        let run = move || {
            let mut waiting = VecDeque::from(left);
            let mut open = true;
            while open {
                work(&mut waiting, &current(&plan).clone(), &tally);
                match arriving.recv_timeout(AGAIN) {
                    Ok(journal) => waiting.push_back(journal),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => open = false,
                }
            }
            work(&mut waiting, &current(&plan).clone(), &tally);
        };
        let thread = thread::Builder::new().name("flowlog-seal".to_owned()).spawn(run)?;
        Ok(Sealer { journals: Some(journals), thread: Some(thread) })
    }

    /// A journal that is complete.
    pub fn give(&self, journal: PathBuf) {
        if let Some(journals) = &self.journals {
            // It ends with us: whatever is not sealed then is sealed at the next start.
            let _ = journals.send(journal);
        }
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
fn work(waiting: &mut VecDeque<PathBuf>, plan: &Files, tally: &Tally) {
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
            }
        }
    }
    if let Err(error) = retire(&plan.directory, plan, now()) {
        tally.fault(format_args!("{}: {error}", plan.directory.display()));
    }
}

/// Removes files that are too old, and the oldest while all together are too large. Journals stay: they are being
/// written or wait to be sealed.
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
