//! A capture in memory, given out in order.

use std::fs::File;
use std::io::BufReader;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::timer::{Expiration, TimerSetTimeFlags};
use nix::sys::timerfd::{ClockId, TimerFd, TimerFlags};
use wire::capture::{CaptureError, Reader, link};

use super::PcapError;
use crate::{CHUNK, HEADROOM, MAX_SEGMENTS, Packet};

/// Bytes of a frame at most: what a packet holds.
const LONGEST: usize = MAX_SEGMENTS * (CHUNK - HEADROOM);

/// When frames are given out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timing {
    /// As fast as they are taken.
    Fast,
    /// With the distances in time that they have in the file, times a factor: 1 as they were, 0.5
    /// in half the time.
    Times(f64),
}

/// A frame of the file.
struct Frame {
    /// Where it ends in the bytes of all; the one before ends where it begins.
    end: usize,
    /// How long after the first one it was captured, nanoseconds. A frame that claims to be earlier
    /// than the one before it comes with it.
    after: u64,
}

/// Frames of a file, given out in order, once or several times.
pub struct Replay {
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    timing: Timing,
    /// Rounds still to be begun; `None`: no end.
    rounds: Option<u64>,
    /// The next frame; their number when all is over.
    next: usize,
    /// Nanoseconds from one round's beginning to the next.
    period: u64,
    /// When this round began; `None`: with the next frame.
    began: Option<Instant>,
    alarm: TimerFd,
    left_out: usize,
}

impl Replay {
    /// Reads a file of either kind, which must have Ethernet frames. `rounds`: how often they come;
    /// `None`: for ever.
    ///
    /// # Errors
    /// When it cannot be read, has no frames, or others than of Ethernet.
    pub fn open(file: &Path, timing: Timing, rounds: Option<u64>) -> Result<Replay, PcapError> {
        let failed = |source| PcapError::Read { file: file.to_owned(), source };
        let source = File::open(file).map_err(|error| failed(CaptureError::Io(error)))?;
        let mut reader = Reader::new(BufReader::new(source)).map_err(failed)?;
        let mut replay = Replay::empty(timing, rounds).map_err(|error| failed(CaptureError::Io(error)))?;
        if let Timing::Times(factor) = timing
            && !(factor.is_finite() && factor > 0.0)
        {
            return Err(PcapError::Factor(factor));
        }
        let (mut frame, mut first) = (Vec::new(), None);
        while let Some(record) = reader.next(&mut frame).map_err(failed)? {
            if record.link != link::ETHERNET {
                return Err(PcapError::Link { file: file.to_owned(), link: record.link });
            }
            if frame.len() > LONGEST {
                replay.left_out += 1;
                continue;
            }
            let after = record.time.saturating_sub(*first.get_or_insert(record.time)).max(0) as u64;
            let before = replay.frames.last().map_or(0, |frame: &Frame| frame.after);
            replay.bytes.extend_from_slice(&frame);
            replay.frames.push(Frame { end: replay.bytes.len(), after: after.max(before) });
        }
        let Some(last) = replay.frames.last() else {
            return Err(PcapError::Empty { file: file.to_owned() });
        };
        // From the last frame to the first one again it takes as long as between two others.
        let gaps = (replay.frames.len() as u64 - 1).max(1);
        replay.period = last.after + last.after / gaps;
        if rounds == Some(0) {
            replay.next = replay.frames.len();
        }
        Ok(replay)
    }

    fn empty(timing: Timing, rounds: Option<u64>) -> std::io::Result<Replay> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let alarm = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        let rounds = rounds.map(|rounds| rounds.saturating_sub(1));
        Ok(Replay {
            bytes: Vec::new(),
            frames: Vec::new(),
            timing,
            rounds,
            next: 0,
            period: 0,
            began: None,
            alarm,
            left_out: 0,
        })
    }

    /// Frames in the file.
    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// Frames of the file that are longer than any packet (64 KiB and more), which are left out.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Whether all has been given out.
    pub fn is_over(&self) -> bool {
        self.next == self.frames.len()
    }

    /// A time of the file in one of ours.
    fn scaled(&self, nanoseconds: u64) -> Duration {
        match self.timing {
            Timing::Fast => Duration::ZERO,
            // More nanoseconds than there are in a `u64` are the most that there are.
            Timing::Times(factor) => Duration::from_nanos((nanoseconds as f64 * factor) as u64),
        }
    }

    /// When the next frame is due, if that is known.
    fn due(&self) -> Option<Instant> {
        let frame = self.frames.get(self.next)?;
        // What lies beyond all time never comes.
        self.began?.checked_add(self.scaled(frame.after))
    }

    /// Gives out frames that are due, as far as there is packet memory.
    pub(super) fn give(&mut self, into: &mut Vec<Packet>, quota: usize) {
        let timed = self.timing != Timing::Fast;
        let now =
            if timed && !self.is_over() { Instant::now() } else { self.began.unwrap_or_else(Instant::now) };
        for _ in 0..quota {
            let Some(frame) = self.frames.get(self.next) else { return };
            let began = *self.began.get_or_insert(now);
            if timed && began.checked_add(self.scaled(frame.after)).is_none_or(|due| due > now) {
                return;
            }
            let start = self.next.checked_sub(1).and_then(|before| self.frames.get(before));
            let start = start.map_or(0, |before| before.end);
            let Some(packet) = Packet::new(&self.bytes[start..frame.end]) else { return };
            into.push(packet);
            self.next += 1;
            if self.is_over() && self.rounds != Some(0) {
                self.rounds = self.rounds.map(|rounds| rounds - 1);
                self.next = 0;
                self.began = began.checked_add(self.scaled(self.period));
            }
        }
    }

    /// Readable when the next frame is due.
    pub(super) fn alarm(&self) -> Option<BorrowedFd<'_>> {
        if self.is_over() {
            // It fails only with times that make no sense.
            let _ = self.alarm.unset();
        } else {
            let left = self.due().map_or(Duration::ZERO, |due| due.saturating_duration_since(Instant::now()));
            // A time of zero would turn it off.
            let left = Expiration::OneShot(left.max(Duration::from_nanos(1)).into());
            let _ = self.alarm.set(left, TimerSetTimeFlags::empty());
        }
        Some(self.alarm.as_fd())
    }
}
