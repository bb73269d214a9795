//! What a sink knows of a lane.
//!
//! Packets that arrive by different receive queues have no order among them: a network card, and
//! whoever empties its queues in turns, mixes them at will, while those of one flow share a queue.
//! So order is judged within each queue, as the program in the driver does it; what was lost and
//! what came twice is judged over all of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::histogram::{Packed, Times};
use crate::report::{Count, Reordering};
use crate::sequence::{Counts, Sequence};

/// What arrived of a lane.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Frames, with duplicates and corrupt ones.
    pub received: Count,
    /// Frames whose payload does not add up. Their sequence numbers and times are not believed.
    pub corrupt: u64,
    /// Sequence numbers.
    pub order: Counts,
    /// The receive queues by which packets of it came.
    pub queues: BTreeSet<u16>,
    /// From due to arrival.
    pub latency: Times,
    /// Between the latencies of packets that arrived one after the other.
    pub variation: Times,
    /// RFC 3550's jitter, nanoseconds.
    pub jitter: f64,
    /// When the first and the last arrived, in nanoseconds of the sink's monotonic clock; 0 when
    /// none did.
    pub first: u64,
    /// See `first`.
    pub last: u64,
}

impl Tally {
    /// In what order packets came.
    pub fn reordering(&self) -> Reordering {
        let order = &self.order;
        let judged = (order.reordered - order.late).max(1) as f64;
        Reordering {
            packets: order.reordered,
            ratio: if order.unique == 0 { 0.0 } else { order.reordered as f64 / order.unique as f64 },
            extent: order.extent,
            mean_extent: order.extents as f64 / judged,
            late: order.late,
            queues: self.queues.len(),
        }
    }
}

/// A [`Tally`] as it goes from machine to machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PackedTally {
    received: Count,
    corrupt: u64,
    order: Counts,
    queues: BTreeSet<u16>,
    latency: Packed,
    variation: Packed,
    jitter: f64,
    first: u64,
    last: u64,
}

impl From<&Tally> for PackedTally {
    fn from(tally: &Tally) -> PackedTally {
        PackedTally {
            received: tally.received,
            corrupt: tally.corrupt,
            order: tally.order,
            queues: tally.queues.clone(),
            latency: (&tally.latency).into(),
            variation: (&tally.variation).into(),
            jitter: tally.jitter,
            first: tally.first,
            last: tally.last,
        }
    }
}

impl From<&PackedTally> for Tally {
    fn from(tally: &PackedTally) -> Tally {
        Tally {
            received: tally.received,
            corrupt: tally.corrupt,
            order: tally.order,
            queues: tally.queues.clone(),
            latency: (&tally.latency).into(),
            variation: (&tally.variation).into(),
            jitter: tally.jitter,
            first: tally.first,
            last: tally.last,
        }
    }
}

impl Tally {
    /// Another lane's of the same stream as well.
    pub fn add(&mut self, other: &Tally) {
        if other.received.packets == 0 {
            return;
        }
        if self.received.packets == 0 {
            *self = other.clone();
            return;
        }
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.received = self.received.plus(other.received);
        self.corrupt += other.corrupt;
        self.order.add(&other.order);
        self.queues.extend(&other.queues);
        self.latency.add(&other.latency);
        self.variation.add(&other.variation);
        self.jitter = self.jitter.max(other.jitter);
    }
}

/// What a thread that receives keeps of a lane.
#[derive(Clone, Default)]
pub struct Lane {
    tally: Tally,
    sequence: Sequence,
    /// The same of each queue for itself, where there are several.
    by_queue: BTreeMap<u16, Sequence>,
    /// The queue that the last packet came by.
    queue: Option<u16>,
    last_latency: Option<u64>,
}

impl Lane {
    /// A frame of `bytes` bytes (with check sequence) arrived by a queue at `now`, whose stamp says
    /// that it was due at `due`; both in nanoseconds of the sink's clock.
    #[inline]
    pub fn arrived(&mut self, bytes: u64, queue: u16, sequence: u64, due: u64, now: u64) {
        self.count(bytes, now);
        if self.queue != Some(queue) {
            self.another(queue);
        }
        if !self.sequence.arrived(sequence) {
            return;
        }
        if let Some(own) = self.by_queue.get_mut(&queue) {
            own.arrived(sequence);
        }
        let latency = now.saturating_sub(due);
        let tally = &mut self.tally;
        tally.latency.record(latency);
        if let Some(last) = self.last_latency {
            let difference = latency.abs_diff(last);
            tally.variation.record(difference);
            tally.jitter += (difference as f64 - tally.jitter) / 16.0;
        }
        self.last_latency = Some(latency);
    }

    #[cold]
    fn another(&mut self, queue: u16) {
        if let Some(last) = self.queue {
            // As long as there was only one, all that is known is known of it.
            self.by_queue.entry(last).or_insert_with(|| self.sequence.clone());
            self.by_queue.entry(queue).or_default();
        }
        self.queue = Some(queue);
        self.tally.queues.insert(queue);
    }

    /// A frame arrived that was changed on the way.
    pub fn corrupt(&mut self, bytes: u64, now: u64) {
        self.count(bytes, now);
        self.tally.corrupt += 1;
    }

    #[inline]
    fn count(&mut self, bytes: u64, now: u64) {
        let tally = &mut self.tally;
        if tally.received.packets == 0 {
            tally.first = now;
        }
        tally.last = now;
        tally.received.packets += 1;
        tally.received.bytes += bytes;
    }

    /// What is known so far.
    pub fn tally(&self) -> Tally {
        let whole = self.sequence.counts();
        let mut order = whole;
        if !self.by_queue.is_empty() {
            order = Counts::default();
            self.by_queue.values().for_each(|own| order.add(&own.counts()));
            let Counts { unique, duplicates, next, lost_until, .. } = whole;
            order = Counts { unique, duplicates, next, lost_until, ..order };
        }
        Tally { order, ..self.tally.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_and_variation_are_those_of_the_definitions() {
        let mut lane = Lane::default();
        // Latencies 100, 160, 160, 100.
        [(0, 100), (100, 260), (200, 360), (300, 400)]
            .into_iter()
            .enumerate()
            .for_each(|(i, (due, now))| lane.arrived(64, 0, i as u64, due, now));
        let tally = lane.tally();
        let jitter = [60.0, 0.0, 60.0].iter().fold(0.0, |jitter, d| jitter + (d - jitter) / 16.0);
        assert_eq!(tally.jitter, jitter);
        let variation = tally.variation.distribution().unwrap();
        assert_eq!((variation.count, variation.min, variation.max, variation.mean), (3, 0, 60, 40.0));
        assert_eq!((tally.first, tally.last), (100, 400));
        assert_eq!(tally.received, Count { packets: 4, bytes: 256 });
    }

    #[test]
    fn queues_that_are_emptied_in_turns_change_no_order() {
        let order = |arrivals: &[(u16, u64)]| {
            let mut lane = Lane::default();
            arrivals.iter().for_each(|&(queue, number)| lane.arrived(64, queue, number, 0, 0));
            let tally = lane.tally();
            (tally.order, tally.queues.len())
        };
        let (counts, queues) = order(&[(0, 0), (0, 2), (0, 4), (1, 1), (1, 3), (1, 5), (0, 6), (0, 8)]);
        assert_eq!((counts.reordered, counts.unique, counts.lost_until, queues), (0, 8, Some(8), 2));
        // One behind a later one of its own queue; one that comes once more, by another.
        let (counts, _) = order(&[(0, 0), (0, 4), (1, 3), (0, 2), (1, 2), (1, 5)]);
        assert_eq!((counts.reordered, counts.extent, counts.duplicates, counts.unique), (1, 1, 1, 5));
        assert_eq!(counts.lost_until, Some(2));
        let (counts, queues) = order(&[(7, 0), (7, 2), (7, 1)]);
        assert_eq!((counts.reordered, queues), (1, 1));
    }
}
