//! When Linux's tables are read, whole or in part, to make the model equal to them: at the start,
//! when messages were lost, when an event changes things silently, and when something changed while
//! it was read.

use super::{Mirror, MirrorError, REREAD_AFTER};
use crate::netlink::request::What;
use crate::reading::{Progress, Purpose, Reading, Subject};
use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

/// Reads of what keeps changing while it is read; the pause before each is twice the one before.
const ATTEMPTS: u32 = 8;

/// What changed while it was read, and must be read again.
pub(super) struct Unsure {
    pub subjects: HashSet<Subject>,
    at: Instant,
    attempt: u32,
}

impl Unsure {
    /// When it is to be read.
    pub(super) fn at(&self) -> Instant {
        self.at
    }
}

impl Mirror {
    /// Whether a load is under way or due.
    pub(super) fn loads(&self) -> bool {
        self.reading.as_ref().is_some_and(Reading::loads) || !self.wanted.is_empty()
    }

    pub(super) fn want(&mut self, what: impl IntoIterator<Item = What>) {
        if self.wanted.is_empty() {
            self.read_at = Instant::now() + REREAD_AFTER;
        }
        self.wanted.extend(what);
    }

    /// A step of the read under way, or the start of the next; whether there is more to read.
    pub(super) fn read(&mut self, drained: bool) -> Result<bool, MirrorError> {
        let due = !self.wanted.is_empty() && (!self.loaded || Instant::now() >= self.read_at);
        if due && self.reading.as_ref().is_none_or(|reading| !reading.loads()) {
            // A comparison under way gives way: it would only find what is read now.
            self.abandon_comparison();
            self.reading = Some(Reading::new(Purpose::Load, std::mem::take(&mut self.wanted)));
        }
        if self.reading.as_ref().is_none_or(|reading| !reading.loads())
            && let Some(unsure) = self.unsure.as_mut().filter(|unsure| unsure.at <= Instant::now())
        {
            let subjects = std::mem::take(&mut unsure.subjects);
            self.abandon_comparison();
            self.reading = Some(Reading::again(subjects));
        }
        let Some(reading) = self.reading.as_mut().filter(|reading| reading.loads()) else {
            return Ok(false);
        };
        match reading.step(drained, &mut self.model, &mut self.changes) {
            Ok(Progress::More) => Ok(true),
            Ok(Progress::Drain) => Ok(true),
            Ok(Progress::Done) => {
                let ticks = reading.first_expiry;
                let unsure = std::mem::take(&mut reading.unsure);
                let read = reading.whole();
                self.expect_expiry(ticks);
                self.read_again(unsure);
                self.reading = None;
                self.counters.rereads += u64::from(self.loaded);
                self.loaded = true;
                self.read_what_hangs_on_it(&read);
                Ok(!self.wanted.is_empty())
            }
            Err(error) => {
                tracing::warn!(%error, "reading Linux's tables failed; trying again");
                let remaining = reading.remaining();
                self.reading = None;
                self.unsure = None;
                self.want(remaining);
                Ok(false)
            }
        }
    }

    /// What the read has removed takes more with it, as an object its routes: that is read at once,
    /// unless it was read after it.
    fn read_what_hangs_on_it(&mut self, read: &BTreeSet<What>) {
        let hanging: Vec<What> = self.changes.suspect.tables().filter(|what| !read.contains(what)).collect();
        self.changes.suspect = Default::default();
        if !hanging.is_empty() {
            self.want(hanging);
            self.read_at = Instant::now();
        }
    }

    /// Reads again what changed while it was read; what keeps changing is left to the audit in the
    /// end.
    fn read_again(&mut self, mut subjects: HashSet<Subject>) {
        let (attempt, earlier) =
            self.unsure.take().map_or((0, HashSet::new()), |u| (u.attempt + 1, u.subjects));
        subjects.extend(earlier);
        if !subjects.is_empty() && attempt < ATTEMPTS {
            let pause = REREAD_AFTER * (1 << attempt);
            self.unsure = Some(Unsure { subjects, at: Instant::now() + pause, attempt });
        }
    }

    /// Routes from router advertisements end by the clock, and are prolonged without a message:
    /// look again then.
    fn expect_expiry(&mut self, ticks: Option<u32>) {
        if let Some(ticks) = ticks {
            let at = Instant::now() + Duration::from_millis(u64::from(ticks) * 10 + 500);
            self.expiry = Some(self.expiry.map_or(at, |expiry| expiry.min(at)));
        }
    }
}
