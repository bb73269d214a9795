//! Parcels, each delivered once and in their order, however the way between loses them.
//!
//! Each end keeps what it has sent until that is acknowledged: a number up to which all has come,
//! and bits for what has come beyond. What was overtaken by three others is sent again at once,
//! all else after some round trips. How much is under way follows what the way carries: it grows
//! while nothing is lost, and is halved, once a round trip, when something is.
//!
//! There is no end to it and no break: while the other end is not heard, the window is full, and
//! all that is new waits in the tables themselves.

use std::collections::{BTreeMap, VecDeque};

use crate::bytes::{Reader, put_short};

/// Parcels under way at most.
pub(crate) const MOST: u64 = 1024;
/// Parcels under way at first, and at least.
const LEAST: f64 = 16.0;
/// Parcels that overtake one before that is lost.
const OVERTAKEN: u64 = 3;
/// Before anything is known of the way; then bounds of what is waited for an acknowledgement.
const FIRST: u64 = 100_000_000;
const SHORTEST: u64 = 20_000_000;
const LONGEST: u64 = 1_000_000_000;

struct Sent {
    parcel: Vec<u8>,
    first: u64,
    at: u64,
    again: bool,
    come: bool,
}

/// What goes out.
pub(crate) struct Outgoing {
    /// The number of the first of `sent`.
    base: u64,
    sent: VecDeque<Sent>,
    window: f64,
    round_trip: Option<u64>,
    /// Numbers below this were sent before the window was last halved.
    halved: u64,
    /// Parcels sent again.
    pub(crate) resent: u64,
}

impl Default for Outgoing {
    fn default() -> Outgoing {
        Outgoing { base: 0, sent: VecDeque::new(), window: LEAST, round_trip: None, halved: 0, resent: 0 }
    }
}

impl Outgoing {
    /// Whether another parcel may go.
    pub(crate) fn has_room(&self) -> bool {
        (self.sent.len() as f64) < self.window.min(MOST as f64)
    }

    /// Takes a parcel that is being sent; its number.
    pub(crate) fn push(&mut self, parcel: Vec<u8>, now: u64) -> u64 {
        self.sent.push_back(Sent { parcel, first: now, at: now, again: false, come: false });
        self.base + self.sent.len() as u64 - 1
    }

    /// When the oldest that has not come was sent first.
    pub(crate) fn waits_since(&self) -> Option<u64> {
        self.sent.iter().find(|sent| !sent.come).map(|sent| sent.first)
    }

    fn patience(&self) -> u64 {
        self.round_trip.map_or(FIRST, |trip| (3 * trip).clamp(SHORTEST, LONGEST))
    }

    /// A parcel that is to be sent again by now, with its number.
    pub(crate) fn lost(&mut self, now: u64) -> Option<(u64, Vec<u8>)> {
        let patience = self.patience();
        let highest = self.sent.iter().rposition(|sent| sent.come).map_or(0, |at| at as u64);
        let trip = self.round_trip.unwrap_or(patience);
        let at = self.sent.iter().enumerate().position(|(at, sent)| {
            let age = now.saturating_sub(sent.at);
            let overtaken = at as u64 + OVERTAKEN <= highest && (!sent.again || age > 2 * trip);
            !sent.come && (overtaken || age > patience)
        })?;
        let number = self.base + at as u64;
        let next = self.base + self.sent.len() as u64;
        if number >= self.halved {
            (self.window, self.halved) = ((self.window / 2.0).max(LEAST), next);
        }
        let sent = &mut self.sent[at];
        (sent.at, sent.again) = (now, true);
        self.resent += 1;
        Some((number, sent.parcel.clone()))
    }

    /// When one is to be sent again, if nothing comes before.
    pub(crate) fn next(&self) -> Option<u64> {
        let patience = self.patience();
        self.sent.iter().filter(|sent| !sent.come).map(|sent| sent.at + patience).min()
    }

    /// The other end says what has come.
    pub(crate) fn acknowledge(&mut self, come: &Come, now: u64) {
        let end = self.base + self.sent.len() as u64;
        let all = come.all.min(end).saturating_sub(self.base);
        for _ in 0..all {
            if let Some(sent) = self.sent.pop_front() {
                self.base += 1;
                self.learn(&sent, now);
            }
        }
        let base = self.base;
        for number in come.beyond.iter().filter(|number| **number >= base && **number < end) {
            let at = (number - base) as usize;
            if !self.sent[at].come {
                self.sent[at].come = true;
                let sent = &self.sent[at];
                let (at, again) = (sent.at, sent.again);
                self.learn(&Sent { parcel: Vec::new(), first: at, at, again, come: false }, now);
            }
        }
    }

    fn learn(&mut self, sent: &Sent, now: u64) {
        if sent.come {
            return;
        }
        self.window = (self.window + 1.0).min(MOST as f64);
        if !sent.again {
            let trip = now.saturating_sub(sent.at);
            self.round_trip = Some(self.round_trip.map_or(trip, |known| (7 * known + trip) / 8));
        }
    }
}

/// What has come in.
#[derive(Default)]
pub(crate) struct Incoming {
    next: u64,
    early: BTreeMap<u64, Vec<u8>>,
    /// Parcels that had come before.
    pub(crate) twice: u64,
}

impl Incoming {
    /// A parcel; those whose turn it is then, in their order. `false` beside them: it cannot be one
    /// of those that the other end may send.
    pub(crate) fn take(&mut self, number: u64, parcel: &[u8]) -> (Vec<Vec<u8>>, bool) {
        let mut due = Vec::new();
        if number >= self.next.saturating_add(MOST) {
            return (due, false);
        }
        if number < self.next || self.early.contains_key(&number) {
            self.twice += 1;
            return (due, true);
        }
        self.early.insert(number, parcel.to_vec());
        while let Some(parcel) = self.early.remove(&self.next) {
            self.next += 1;
            due.push(parcel);
        }
        (due, true)
    }

    pub(crate) fn come(&self) -> Come {
        Come { all: self.next, beyond: self.early.keys().copied().collect() }
    }
}

/// Which parcels have come: all below a number, and some beyond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Come {
    pub(crate) all: u64,
    pub(crate) beyond: Vec<u64>,
}

impl Come {
    /// In so many bytes of bits at most: what has no place there is said another time.
    pub(crate) fn put(&self, bytes: &mut Vec<u8>, most: usize) {
        put_short(bytes, self.all);
        let needed = self.beyond.last().map_or(0, |last| (last - self.all) as usize / 8 + 1);
        let mut bits = vec![0u8; needed.min(most)];
        for number in &self.beyond {
            let at = (number - self.all) as usize;
            bits.get_mut(at / 8).into_iter().for_each(|byte| *byte |= 1 << (at % 8));
        }
        put_short(bytes, bits.len() as u64);
        bytes.extend_from_slice(&bits);
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Option<Come> {
        let (all, count) = (reader.short()?, reader.short()?);
        let bits = reader.bytes(usize::try_from(count).ok().filter(|count| *count as u64 <= MOST / 8)?)?;
        all.checked_add(MOST)?;
        let beyond = (0..bits.len() * 8).filter(|at| bits[at / 8] >> (at % 8) & 1 != 0);
        Some(Come { all, beyond: beyond.map(|at| all + at as u64).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chance::Random;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_has_come_is_read_as_written(all in 0u64..1 << 40, gaps in proptest::collection::vec(1u64..9, 0..90)) {
            let mut number = all;
            let beyond = gaps.iter().map(|gap| { number += gap; number }).collect();
            let come = Come { all, beyond };
            let mut bytes = Vec::new();
            come.put(&mut bytes, MOST as usize / 8);
            prop_assert_eq!(Come::take(&mut Reader(&bytes)), Some(come));
        }

        #[test]
        fn all_parcels_come_once_and_in_order(seed: u64, loss in 0usize..60, count in 1u64..400) {
            let mut random = Random(seed);
            let (mut outgoing, mut incoming) = (Outgoing::default(), Incoming::default());
            let (mut told, mut heard, mut now) = (0u64, Vec::new(), 0u64);
            // Both ways: when it comes, and what.
            let mut way: Vec<(u64, u64, Vec<u8>)> = Vec::new();
            let mut back: Vec<(u64, Come)> = Vec::new();
            while heard.len() < count as usize {
                now += 1_000_000;
                prop_assert!(now < 600_000_000_000, "{} of {}", heard.len(), count);
                let mut going = Vec::new();
                while let Some(again) = outgoing.lost(now) {
                    going.push(again);
                }
                while told < count && outgoing.has_room() {
                    let parcel = told.to_be_bytes().to_vec();
                    going.push((outgoing.push(parcel.clone(), now), parcel));
                    told += 1;
                }
                for (number, parcel) in going {
                    for _ in 0..1 + usize::from(random.chance(10)) {
                        if !random.chance(loss) {
                            way.push((now + 1_000_000 * random.below(20) as u64, number, parcel.clone()));
                        }
                    }
                }
                let (due, later) = way.into_iter().partition(|(at, ..)| *at <= now);
                way = later;
                let due: Vec<(u64, u64, Vec<u8>)> = due;
                for (_, number, parcel) in due {
                    let (parcels, fits) = incoming.take(number, &parcel);
                    prop_assert!(fits);
                    heard.extend(parcels);
                    if !random.chance(loss) {
                        back.push((now + 1_000_000 * random.below(20) as u64, incoming.come()));
                    }
                }
                let (due, later) = back.into_iter().partition(|(at, _)| *at <= now);
                back = later;
                let due: Vec<(u64, Come)> = due;
                due.iter().for_each(|(_, come)| outgoing.acknowledge(come, now));
            }
            let expected: Vec<Vec<u8>> = (0..count).map(|number| number.to_be_bytes().to_vec()).collect();
            prop_assert_eq!(heard, expected);
        }
    }
}
