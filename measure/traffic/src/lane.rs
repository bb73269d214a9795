//! A lane: what one sending core has of a stream. Packets to make, when, and what was sent.

use std::sync::Arc;

use ::port::Packet;

use crate::maker::Maker;
use crate::replay::Frames;
use crate::report::Count;
use crate::schedule::{Departures, Schedule};

/// What was sent of a lane.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Packets that were due.
    pub offered: u64,
    /// Frames that the port took.
    pub sent: Count,
    /// How far from their schedule they left.
    pub departures: Departures,
    /// When the first and the last left, nanoseconds of the monotonic clock; 0 when none did.
    pub first: u64,
    /// See `first`.
    pub last: u64,
}

/// Packets to be made, and when.
pub(crate) struct Lane {
    content: Content,
    schedule: Schedule,
    /// Packets that are still to come.
    left: u64,
}

enum Content {
    Made(Box<Maker>),
    Replayed { frames: Arc<Frames>, at: usize, round: u64, speed: f64 },
}

impl Lane {
    /// Made packets, `count` of them at most.
    pub(crate) fn made(maker: Maker, schedule: Schedule, count: Option<u64>) -> Lane {
        Lane { content: Content::Made(Box::new(maker)), schedule, left: count.unwrap_or(u64::MAX) }
    }

    /// Frames of a file, so many times their own speed (0: as the schedule says), in so many rounds
    /// (0: for ever).
    pub(crate) fn replayed(
        frames: Arc<Frames>,
        schedule: Schedule,
        speed: f64,
        loops: u32,
        count: Option<u64>,
    ) -> Lane {
        let all = if loops == 0 { u64::MAX } else { frames.len() as u64 * u64::from(loops) };
        let left = all.min(count.unwrap_or(u64::MAX));
        Lane { content: Content::Replayed { frames, at: 0, round: 0, speed }, schedule, left }
    }

    /// Whether nothing more comes.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Whether packets have due times.
    pub(crate) fn is_paced(&self) -> bool {
        match &self.content {
            Content::Replayed { speed, .. } if *speed > 0.0 => true,
            _ => self.schedule.is_paced(),
        }
    }

    /// When the next packet is due, in nanoseconds after the start; 0 when it is not paced.
    #[inline]
    pub(crate) fn due(&self) -> u64 {
        match &self.content {
            Content::Replayed { frames, at, round, speed } if *speed > 0.0 => {
                ((round * frames.span() + frames.time(*at)) as f64 / speed) as u64
            }
            _ => self.schedule.due(),
        }
    }

    /// Appends the next packet, whose stamp says `time`. False when the pool is empty.
    #[inline]
    pub(crate) fn make(&mut self, time: u64, into: &mut Vec<Packet>) -> bool {
        match &mut self.content {
            Content::Made(maker) => {
                if !maker.make(time, into) {
                    return false;
                }
            }
            Content::Replayed { frames, at, round, .. } => {
                let Some(packet) = frames.packet(*at) else { return false };
                into.push(packet);
                *at += 1;
                if *at == frames.len() {
                    (*at, *round) = (0, *round + 1);
                }
            }
        }
        self.schedule.advance();
        self.left -= 1;
        true
    }

    /// Packets due before `time` (nanoseconds after the start) that have not been made: counts on
    /// without making them.
    pub(crate) fn missed(&mut self, time: u64) -> u64 {
        let mut missed = 0;
        if let Content::Made(_) = self.content
            && self.is_paced()
        {
            while self.left > 0 && self.schedule.due() < time {
                self.schedule.advance();
                self.left -= 1;
                missed += 1;
            }
        }
        missed
    }
}
