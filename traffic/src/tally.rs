//! What a sink knows of a lane.

use serde::{Deserialize, Serialize};

use crate::histogram::{Packed, Times};
use crate::report::Count;
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
    /// From due to arrival.
    pub latency: Times,
    /// Between the latencies of packets that arrived one after the other.
    pub variation: Times,
    /// RFC 3550's jitter, nanoseconds.
    pub jitter: f64,
    /// When the first and the last arrived, in nanoseconds of the sink's monotonic clock; 0 when none did.
    pub first: u64,
    /// See `first`.
    pub last: u64,
}

/// A [`Tally`] as it goes from machine to machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PackedTally {
    received: Count,
    corrupt: u64,
    order: Counts,
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
    last_latency: Option<u64>,
}

impl Lane {
    /// A frame of `bytes` bytes (with check sequence) arrived at `now`, whose stamp says that it was due at `due`; both in nanoseconds
    /// of the sink's clock.
    #[inline]
    pub fn arrived(&mut self, bytes: u64, sequence: u64, due: u64, now: u64) {
        self.count(bytes, now);
        if !self.sequence.arrived(sequence) {
            return;
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
        Tally { order: self.sequence.counts(), ..self.tally.clone() }
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
            .for_each(|(i, (due, now))| lane.arrived(64, i as u64, due, now));
        let tally = lane.tally();
        let jitter = [60.0, 0.0, 60.0].iter().fold(0.0, |jitter, d| jitter + (d - jitter) / 16.0);
        assert_eq!(tally.jitter, jitter);
        let variation = tally.variation.distribution().unwrap();
        assert_eq!((variation.count, variation.min, variation.max, variation.mean), (3, 0, 60, 40.0));
        assert_eq!((tally.first, tally.last), (100, 400));
        assert_eq!(tally.received, Count { packets: 4, bytes: 256 });
    }
}
