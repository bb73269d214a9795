//! The mirror's ear: what sources say goes into the model, in the order in which each says it.

use super::change::take_in;
use super::{HEARD_AT_ONCE, Mirror, MirrorError};
use crate::model::SourceId;
use crate::netlink::request::What;
use crate::reading::Reading;
use crate::source::{Change, Said, Source, Telling};
use ipnet::IpNet;
use std::time::Instant;

/// Prefixes that one step of the sweep after a source's telling looks at.
const SWEEP: usize = 4096;

/// A source, and how far it is heard.
pub(super) struct Heard {
    pub source: Box<dyn Source>,
    telling: Telling,
    /// Whether nothing of it waits.
    drained: bool,
    sweep: Option<Sweep>,
}

/// The walk that removes what a source did not tell again.
struct Sweep {
    ipv6: bool,
    after: Option<IpNet>,
}

impl Heard {
    /// Begins to listen.
    pub fn start(mut source: Box<dyn Source>) -> Result<Heard, MirrorError> {
        let telling = source.start()?;
        Ok(Heard { source, telling, drained: false, sweep: None })
    }
}

impl Mirror {
    /// The source of this name, if it is one.
    pub(crate) fn source(&self, id: SourceId) -> Option<&dyn Source> {
        self.sources.iter().map(|heard| &*heard.source).find(|source| source.id() == id)
    }

    /// Takes in what a source has said, some at most; whether there may be more.
    pub(super) fn hear(&mut self, at: usize) -> Result<bool, MirrorError> {
        if self.reading.as_ref().is_some_and(Reading::is_futile) {
            self.abandon_comparison();
        }
        let now = Instant::now();
        for _ in 0..HEARD_AT_ONCE {
            let Mirror { sources, model, changes, counters, policy, reading, .. } = &mut *self;
            let Heard { source, telling, drained, .. } = &mut sources[at];
            let id = source.id();
            let mut reading = reading.as_mut().filter(|_| *telling == Telling::Asked);
            let said = source.next(now, &mut |change| {
                match &change {
                    Change::Rules => policy.rules_changed(),
                    Change::Traffic => policy.traffic_changed(),
                    _ => {}
                }
                let subject = take_in(id, change, model, changes, counters);
                if let (Some(reading), Some(subject)) = (&mut reading, subject) {
                    reading.touch(subject);
                }
            })?;
            *drained = said == Said::Nothing;
            match said {
                Said::Nothing => return Ok(self.sweep(at)),
                Said::Changes => {}
                Said::Lost => {
                    self.said(at, said)?;
                    return Ok(true);
                }
                said => self.said(at, said)?,
            }
        }
        Ok(true)
    }

    /// Hears those that are being asked; whether nothing of them waits any more.
    pub(super) fn hear_asked(&mut self) -> Result<bool, MirrorError> {
        for at in 0..self.sources.len() {
            if self.sources[at].telling == Telling::Asked {
                self.hear(at)?;
            }
        }
        Ok(self.drained())
    }

    /// Whether nothing waits of those that are being asked.
    pub(super) fn drained(&self) -> bool {
        self.sources.iter().all(|heard| heard.drained || heard.telling == Telling::ByItself)
    }

    /// What sources say by their silence.
    pub(super) fn hear_silence(&mut self, now: Instant) -> Result<(), MirrorError> {
        for at in 0..self.sources.len() {
            if let Some(said) = self.sources[at].source.tick(now) {
                self.said(at, said)?;
            }
        }
        Ok(())
    }

    /// What a source says of all that it tells.
    fn said(&mut self, at: usize, said: Said) -> Result<(), MirrorError> {
        let heard = &mut self.sources[at];
        let id = heard.source.id();
        let begin = || Some(Sweep { ipv6: false, after: None });
        match said {
            Said::Nothing | Said::Changes => {}
            Said::Begins => {
                heard.sweep = None;
                self.begin_read(id);
            }
            Said::All => {
                heard.sweep = begin();
                self.programmer.believe(id, true);
            }
            Said::Gone => {
                heard.sweep = begin();
                self.programmer.believe(id, false);
                self.begin_read(id);
            }
            // Meanwhile the tables stay as they are.
            Said::Lost => {
                heard.telling = heard.source.start()?;
                if heard.telling == Telling::Asked {
                    self.reading = None;
                    self.unsure = None;
                    self.want(What::ALL);
                    self.policy.rules_changed();
                    self.policy.traffic_changed();
                }
            }
        }
        Ok(())
    }

    fn begin_read(&mut self, id: SourceId) {
        self.model.routes.begin_read(id);
        self.model.objects.begin_read(id);
    }

    /// A step of the sweep after a source's telling; whether it goes on.
    fn sweep(&mut self, at: usize) -> bool {
        let Heard { source, sweep: under_way, .. } = &mut self.sources[at];
        let id = source.id();
        let Some(sweep) = under_way else {
            return false;
        };
        let (gone, last) = self.model.routes.unseen(sweep.ipv6, id, sweep.after, SWEEP);
        for (prefix, table) in gone {
            self.model.routes.sweep(prefix, table, id);
            self.changes.prefixes.push((prefix, table));
        }
        match (last, sweep.ipv6) {
            (Some(last), _) => sweep.after = Some(last),
            (None, false) => *sweep = Sweep { ipv6: true, after: None },
            (None, true) => {
                *under_way = None;
                for object in self.model.objects.unseen(id) {
                    self.model.remove_object(id, object, &mut self.changes);
                }
            }
        }
        true
    }
}
