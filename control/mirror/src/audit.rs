//! The audit: what Linux says now, the model and the plane's tables are compared, in slices, round
//! after round.
//!
//! A round first compares the model with fresh dumps ([`crate::reading`]); suspects are read once
//! more after a pause, so that a change on its way is not taken for a difference. Then it compares
//! what the tables hold with what the model says, which is exact while nothing is marked for
//! programming: both belong to this thread. Every difference is repaired, counted, and told in the
//! log with what it was.

use crate::model::Model;
use crate::programmer::{self, Place, Programmer};
use crate::reading::Subject;
use fib::{NextHopId, Tables};
use ipnet::IpNet;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Pause before suspects are read again.
pub(crate) const CONFIRM_AFTER: Duration = Duration::from_secs(1);
/// Differences told one by one in a round; the rest is counted only.
const TOLD: u64 = 100;
/// Prefixes or next hops compared in one step.
const STEP: usize = 512;

/// Where the round stands.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The next round begins then.
    Waiting(Instant),
    /// Fresh dumps are compared.
    Comparing,
    /// Suspects are read again from then on.
    Suspecting(Instant, HashSet<Subject>),
    /// Suspects are read again.
    Confirming,
    /// The tables are compared with the model.
    Tables(Cursor),
}

/// How far the comparison of the tables has come.
#[derive(Debug)]
pub(crate) enum Cursor {
    Prefixes(Option<IpNet>),
    Hops(Vec<NextHopId>),
    Adjacencies(Option<programmer::AdjacencyKey>),
    Extra,
}

/// The audit and what it found so far.
#[derive(Debug)]
pub(crate) struct Audit {
    pub stage: Stage,
    pub interval: Duration,
    pub rounds: u64,
    pub differences: u64,
    pub last: Option<Instant>,
    told: u64,
}

impl Audit {
    pub fn new(interval: Duration, now: Instant) -> Audit {
        Audit {
            stage: Stage::Waiting(now + interval),
            interval,
            rounds: 0,
            differences: 0,
            last: None,
            told: 0,
        }
    }

    /// Counts and tells a difference, which has been repaired.
    pub fn difference(&mut self, place: &'static str, what: &str) {
        self.differences += 1;
        self.told += 1;
        if self.told <= TOLD {
            tracing::warn!(place, "the audit found and repaired a difference from Linux: {what}");
        }
    }

    /// The round is over.
    pub fn finish(&mut self, now: Instant) {
        self.rounds += 1;
        self.last = Some(now);
        self.told = 0;
        self.stage = Stage::Waiting(now + self.interval);
    }

    /// One step of comparing the tables; only while the programmer is idle. Whether the comparison
    /// goes on.
    pub fn compare_tables(
        &mut self,
        programmer: &mut Programmer,
        model: &mut Model,
        tables: &mut Tables,
    ) -> bool {
        let Stage::Tables(cursor) = &self.stage else {
            return false;
        };
        let next = match cursor {
            Cursor::Prefixes(after) => self.compare_prefixes(*after, programmer, model, tables),
            Cursor::Hops(ids) => self.compare_hops(ids.clone(), programmer, model, tables),
            Cursor::Adjacencies(after) => {
                let mut found = Vec::new();
                let last = programmer.hops.adjacencies.audit(*after, STEP, model, tables, |key, what| {
                    found.push(format!("the way to {key} {what}"));
                });
                found.iter().for_each(|what| self.difference("tables", what));
                Some(last.map_or(Cursor::Extra, |last| Cursor::Adjacencies(Some(last))))
            }
            Cursor::Extra => {
                self.find_extra(programmer, model, tables);
                None
            }
        };
        let goes_on = next.is_some();
        if let Some(next) = next {
            self.stage = Stage::Tables(next);
        }
        goes_on
    }

    fn compare_prefixes(
        &mut self,
        after: Option<IpNet>,
        programmer: &mut Programmer,
        model: &mut Model,
        tables: &mut Tables,
    ) -> Option<Cursor> {
        let (next, last) = programmer.places_after(after, STEP, model);
        for place in next {
            self.compare_place(place, programmer, model, tables);
        }
        match last {
            Some(last) => Some(Cursor::Prefixes(Some(last))),
            None => Some(Cursor::Hops(programmer.hops.ids())),
        }
    }

    fn compare_place(
        &mut self,
        place: Place,
        programmer: &mut Programmer,
        model: &mut Model,
        tables: &mut Tables,
    ) {
        if programmer.is_missing(&place) || programmer.is_programmed(place, model, tables) {
            return;
        }
        let says = |tables: &Tables| {
            programmer::at(tables, place).map_or("nothing", |id| programmer::says(&tables.next_hop(id)))
        };
        let had = says(tables);
        programmer.program(place, model, tables);
        let now = says(tables);
        let prefix = place.prefix;
        let why = model.in_words(model.routes.at(&prefix));
        let what =
            format!("packets to {prefix} were treated otherwise ({had}) than the routes say ({now}): {why}");
        self.difference("tables", &what);
    }

    fn compare_hops(
        &mut self,
        mut ids: Vec<NextHopId>,
        programmer: &mut Programmer,
        model: &Model,
        tables: &mut Tables,
    ) -> Option<Cursor> {
        for id in ids.split_off(ids.len().saturating_sub(STEP)) {
            if let Some(what) = programmer.audit_hop(id, model, tables) {
                self.difference("tables", &what);
            }
        }
        Some(if ids.is_empty() { Cursor::Adjacencies(None) } else { Cursor::Hops(ids) })
    }

    /// Every prefix that must be there is; so only when there are more than the programmer wrote is
    /// the whole table walked for those that must not be there.
    fn find_extra(&mut self, programmer: &mut Programmer, model: &mut Model, tables: &mut Tables) {
        if programmer.written() == tables.len() {
            return;
        }
        let all = tables.iter().map(|(table, prefix, _)| Place { table, prefix });
        let extra: Vec<Place> =
            all.filter(|place| programmer.next_hop_key_of(*place, model).is_none()).collect();
        for place in extra {
            programmer::remove(tables, place);
            let prefix = place.prefix;
            self.difference("tables", &format!("the tables had {prefix}, of which Linux has no route"));
        }
        programmer.set_written(tables.len());
    }
}
