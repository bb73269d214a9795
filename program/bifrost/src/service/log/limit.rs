//! How much may be said: the one place that keeps the log small.
//!
//! What anybody can cause from outside (a connection that is refused, a packet that makes no sense)
//! would fill a disk with lines. So each place of the source that logs has a bucket: as many lines
//! at once as a router with every port busy has to say, then one in ten seconds. What was not shown
//! is told once a minute, with the first such line. Rules that log packets have limits of their own
//! (`log at most`); here they only meet a ceiling. What only a debugger asks for (`debug`, `trace`)
//! is not held back.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber, callsite::Identifier};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// How often it is told what was not shown.
const TELL: Duration = Duration::from_secs(60);
/// What a place may say: lines at once, and the time in which it gets another.
const ALLOWANCE: (u32, Duration) = (500, Duration::from_secs(10));
/// The same where rules log packets.
const FILTER: (u32, Duration) = (5000, Duration::from_millis(10));

/// What each place has said.
#[derive(Default)]
pub(super) struct Limit(Mutex<Sites>);

#[derive(Default)]
struct Sites {
    of: HashMap<Identifier, Site>,
    told: Option<Instant>,
}

struct Site {
    /// When its bucket is full again.
    full: Instant,
    hidden: u64,
    first: String,
}

impl Limit {
    fn sites(&self) -> MutexGuard<'_, Sites> {
        // Every change is a single store: sound after a panic as well.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this may be shown now.
    fn may(&self, event: &Event<'_>, now: Instant) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::INFO {
            return true;
        }
        let (burst, each) = if metadata.target() == "filter" { FILTER } else { ALLOWANCE };
        let mut sites = self.sites();
        let site = sites.of.entry(metadata.callsite()).or_insert_with(|| Site {
            full: now,
            hidden: 0,
            first: String::new(),
        });
        let start = site.full.max(now);
        if start - now < each * burst {
            site.full = start + each;
            return true;
        }
        if site.hidden == 0 {
            let mut message = Message(String::new());
            event.record(&mut message);
            site.first = message.0;
        }
        site.hidden += 1;
        false
    }

    /// What was not shown since the last time, if it is time to tell: how much, and the first of
    /// it.
    pub(super) fn hidden(&self, now: Instant) -> Vec<(u64, String)> {
        let mut sites = self.sites();
        if sites.told.is_some_and(|told| now.duration_since(told) < TELL) {
            return Vec::new();
        }
        let hidden: Vec<_> = sites
            .of
            .values_mut()
            .filter(|site| site.hidden > 0)
            .map(|site| (std::mem::take(&mut site.hidden), std::mem::take(&mut site.first)))
            .collect();
        if !hidden.is_empty() {
            sites.told = Some(now);
        }
        hidden
    }
}

/// The layer in front of the log.
pub(super) struct Limited(pub &'static Limit);

impl<S: Subscriber> Layer<S> for Limited {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        self.0.may(event, Instant::now())
    }
}

/// The message alone, without its fields.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::log::tests::Sink;
    use tracing_subscriber::layer::SubscriberExt;

    #[test]
    fn a_flood_of_messages_is_a_few_lines_and_a_number() {
        let limit: &'static Limit = Box::leak(Box::default());
        let sink = Sink::default();
        let writer = sink.clone();
        let log = tracing_subscriber::fmt::layer().without_time().with_writer(move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(log).with(Limited(limit));
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..100_000 {
                tracing::warn!(number, "a connection from {number} is refused");
            }
            tracing::warn!("something else");
        });
        let said = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let lines = said.lines().count();
        assert!((501..=502).contains(&lines), "{lines}");
        assert!(said.ends_with("something else\n"), "another place is not held back");
        let now = Instant::now();
        let hidden = limit.hidden(now);
        assert_eq!(hidden.len(), 1);
        assert_eq!(hidden[0].0, 100_001 - lines as u64);
        assert_eq!(hidden[0].1, format!("a connection from {} is refused", lines - 1));
        assert_eq!(limit.hidden(now + TELL), []);
    }
}
