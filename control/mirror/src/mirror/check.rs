//! The mirror's part in the audit: the stages of a round, a slice at a time.

use super::{Mirror, MirrorError};
use crate::audit::{self, Cursor, Stage};
use crate::netlink::request::What;
use crate::reading::{Progress, Purpose, Reading, steps_for};
use fib::Tables;
use std::time::Instant;

impl Mirror {
    /// A slice of the audit; whether more of the round waits.
    pub(super) fn audit(
        &mut self,
        now: Instant,
        deadline: Instant,
        tables: &mut Tables,
    ) -> Result<bool, MirrorError> {
        if !self.loaded || self.loads() {
            return Ok(false);
        }
        let Some(audit) = &mut self.audit else {
            return Ok(false);
        };
        match &mut audit.stage {
            Stage::Waiting(until) if *until > now => return Ok(false),
            Stage::Waiting(_) => {
                self.reading = Some(Reading::new(Purpose::Compare, What::ALL));
                audit.stage = Stage::Comparing;
            }
            Stage::Suspecting(until, _) if *until > now => return Ok(false),
            Stage::Suspecting(_, suspects) => {
                let suspects = std::mem::take(suspects);
                let steps = steps_for(&suspects);
                self.reading = Some(Reading::new(Purpose::Confirm(suspects), steps));
                audit.stage = Stage::Confirming;
            }
            Stage::Comparing | Stage::Confirming => {}
            Stage::Tables(_) => {
                while self.programmer.idle() {
                    if !audit.compare_tables(&mut self.programmer, &mut self.model, tables) {
                        audit.finish(now);
                        return Ok(false);
                    }
                    if Instant::now() >= deadline {
                        break;
                    }
                }
                return Ok(true);
            }
        }
        self.compare(deadline)
    }

    /// Steps of a comparison with fresh dumps, until the deadline. Notifications that must be
    /// drained first are taken in here, and programmed by the next [`Mirror::sync`].
    fn compare(&mut self, deadline: Instant) -> Result<bool, MirrorError> {
        let mut drained = false;
        while let (Some(reading), Some(audit)) = (&mut self.reading, &mut self.audit) {
            match reading.step(drained, &mut self.model, &mut self.changes) {
                Ok(Progress::More) => {}
                Ok(Progress::Drain) if Instant::now() < deadline => {
                    drained = self.hear_asked()?;
                    continue;
                }
                Ok(Progress::Drain) => return Ok(true),
                Ok(Progress::Done) => {
                    let suspects = std::mem::take(&mut reading.suspects);
                    reading.differences.iter().for_each(|what| audit.difference("model", what));
                    self.reading = None;
                    audit.stage = if suspects.is_empty() {
                        Stage::Tables(Cursor::Prefixes(None))
                    } else {
                        Stage::Suspecting(Instant::now() + audit::CONFIRM_AFTER, suspects)
                    };
                    return Ok(true);
                }
                Err(error) => {
                    tracing::warn!(%error, "the audit could not read Linux's tables; trying again");
                    self.abandon_comparison();
                    return Ok(false);
                }
            }
            drained = false;
            if Instant::now() >= deadline {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn abandon_comparison(&mut self) {
        self.reading = None;
        if let Some(audit) = &mut self.audit
            && !matches!(audit.stage, Stage::Waiting(_) | Stage::Tables(_))
        {
            audit.stage = Stage::Waiting(Instant::now() + audit.interval);
        }
    }
}
