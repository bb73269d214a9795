//! Rates: whether a packet keeps to one.
//!
//! Each limit is one word, the time at which all that came so far would have been allowed at
//! exactly the rate (GCRA, ITU-T I.371, which is a token bucket turned round). A packet conforms
//! when that time lies not further ahead than the burst allows. One word means one
//! compare-and-swap, so all workers share a limit and a rate is a rate whatever the number of
//! queues; only packets of rules with a rate ever touch it.
//!
//! A limit of each source lives in a table of fixed size, four places for an address, found by a
//! keyed hash that an attacker cannot aim. When all four are taken, the one that has used least of
//! its burst gives way: whoever floods with random sources makes the table forget those who hardly
//! send, not those who exceed.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::model::{Log, Rate, Rule, Unit};

/// Units of time in a nanosecond: fine enough for a bit at 64 Gbit/s, and 9 years fit into a word.
const FINE: u64 = 64;
/// Places that one source may take.
const WAYS: usize = 4;

impl Rate {
    /// The time that so many packets or bits take at this rate.
    fn time(&self, amount: u64) -> u64 {
        let time = u128::from(amount) * u128::from(FINE * 1_000_000_000) / u128::from(self.per_second.max(1));
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// The time that a packet takes, and the time that the burst does.
    fn times(&self, length: u16) -> (u64, u64) {
        match self.unit {
            Unit::Packets => (self.time(1), self.time(self.burst)),
            Unit::Bits => (self.time(u64::from(length) * 8), self.time(self.burst.saturating_mul(8))),
        }
    }
}

/// One limit. Starts unused.
#[derive(Debug, Default)]
struct Limit(AtomicU64);

impl Limit {
    /// Whether a packet conforms; if so it uses its share.
    fn take(&self, rate: &Rate, length: u16, now: u64) -> bool {
        let (cost, burst) = rate.times(length);
        let now = now.saturating_mul(FINE);
        let next = |used: u64| {
            let after = used.max(now).saturating_add(cost);
            (after - now <= burst).then_some(after)
        };
        self.0.fetch_update(Relaxed, Relaxed, next).is_ok()
    }
}

/// A limit of each source address.
#[derive(Debug)]
struct Sources {
    key: RandomState,
    /// The hash of an address, 0 where there is none, and its limit.
    places: Box<[(AtomicU64, Limit)]>,
}

impl Sources {
    fn new(most: u32) -> Sources {
        let places = (most as usize).next_power_of_two().max(WAYS);
        Sources { key: RandomState::new(), places: (0..places).map(|_| Default::default()).collect() }
    }

    fn take(&self, source: &[u8; 16], rate: &Rate, length: u16, now: u64) -> bool {
        let hash = self.key.hash_one(source) | 1;
        let first = (hash >> 32) as usize & (self.places.len() - 1) & !(WAYS - 1);
        let places = &self.places[first..first + WAYS];
        if let Some((_, limit)) = places.iter().find(|(tag, _)| tag.load(Relaxed) == hash) {
            return limit.take(rate, length, now);
        }
        // Two workers may take the same place at once; then one of two sources starts anew.
        let Some((tag, limit)) = places.iter().min_by_key(|(_, limit)| limit.0.load(Relaxed)) else {
            return true;
        };
        tag.store(hash, Relaxed);
        limit.0.store(0, Relaxed);
        limit.take(rate, length, now)
    }
}

/// What a rule remembers of the packets it saw, beside its counters.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    all: Limit,
    sources: Option<Sources>,
    police: Limit,
    log: Limit,
    log_turn: AtomicU32,
}

impl Meter {
    /// For a rule; `None` when it has nothing to remember.
    pub(crate) fn of(rule: &Rule) -> Option<Meter> {
        let needed =
            rule.matches.rate.is_some() || rule.effects.police.is_some() || rule.effects.log.is_some();
        let sources = rule.matches.rate.and_then(|rate| rate.sources).map(Sources::new);
        needed.then(|| Meter { sources, ..Meter::default() })
    }

    /// Whether the rule's rate matches this packet.
    pub(crate) fn rate(&self, rule: &Rule, source: &[u8; 16], length: u16, now: u64) -> bool {
        let Some(wanted) = &rule.matches.rate else { return true };
        let conforms = match &self.sources {
            Some(sources) => sources.take(source, &wanted.rate, length, now),
            None => self.all.take(&wanted.rate, length, now),
        };
        conforms != wanted.over
    }

    /// Whether the rule's policer lets this packet pass.
    pub(crate) fn police(&self, rate: &Rate, length: u16, now: u64) -> bool {
        self.police.take(rate, length, now)
    }

    /// Whether this packet is to be logged.
    pub(crate) fn log(&self, log: &Log, length: u16, now: u64) -> bool {
        let turn = log.every <= 1 || self.log_turn.fetch_add(1, Relaxed).is_multiple_of(log.every);
        turn && self.log.take(&log.limit, length, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Match, RateMatch};

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let rate = Rate { per_second: 100, unit: Unit::Packets, burst: 5 };
        let limit = Limit::default();
        let passed =
            |times: &mut dyn Iterator<Item = u64>| times.filter(|&t| limit.take(&rate, 64, t)).count();
        assert_eq!(passed(&mut (0..10).map(|_| 1000)), 5);
        // A second of 1000 packets brings 100.
        assert_eq!(passed(&mut (1..=1000).map(|n| 1000 + n * SECOND / 1000)), 100);
        let rate = Rate { per_second: 8_000_000, unit: Unit::Bits, burst: 1500 };
        let limit = Limit::default();
        assert!(limit.take(&rate, 1500, 0) && !limit.take(&rate, 1, 0));
        // A second of 10 MB brings 1 MB: 999 frames of 1000 bytes and what is saved for the next.
        assert_eq!((0..10_000).filter(|n| limit.take(&rate, 1000, n * SECOND / 10_000)).count(), 999);
    }

    #[test]
    fn each_source_has_its_own_and_the_table_stays_bounded() {
        let rate = Rate { per_second: 1, unit: Unit::Packets, burst: 2 };
        let wanted = RateMatch { over: true, rate, sources: Some(1024) };
        let rule = Rule { matches: Match { rate: Some(wanted), ..Match::default() }, ..Rule::default() };
        let meter = Meter::of(&rule).expect("it has a rate");
        let source = |n: u32| u128::from(n).to_be_bytes();
        for n in 0..16 {
            let over: Vec<bool> = (0..4).map(|_| meter.rate(&rule, &source(n), 64, 7)).collect();
            assert_eq!(over, [false, false, true, true]);
        }
        for n in 0..100_000 {
            meter.rate(&rule, &source(n), 64, 9);
        }
        assert_eq!(meter.sources.as_ref().map(|sources| sources.places.len()), Some(1024));
    }

    #[test]
    fn logs_one_in_so_many() {
        let log = Log { every: 10, limit: Rate { per_second: 5, unit: Unit::Packets, burst: 5 } };
        let meter = Meter::default();
        assert_eq!((0..40).filter(|_| meter.log(&log, 64, 0)).count(), 4);
        assert_eq!((0..400).filter(|_| meter.log(&log, 64, 0)).count(), 1);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let rate = Rate { per_second: u64::MAX, unit: Unit::Bits, burst: u64::MAX };
        assert!(Limit::default().take(&rate, u16::MAX, u64::MAX));
        let rate = Rate { per_second: 1, unit: Unit::Bits, burst: u64::MAX };
        assert!(Limit::default().take(&rate, u16::MAX, 0));
    }
}
