//! Pulling at a limited rate, by a token bucket.
//!
//! # RatedUnqueue: pulls packets at a limited rate and pushes them.
//!
//! Group: queues
//! Usage: `RatedUnqueue(RATE [, BURST_DURATION, BURST_SIZE])`
//! Ports: 1 input, 1 output; pull in, push out
//!
//! A token bucket fills at `RATE` tokens a second, up to a capacity; each packet takes one. While
//! there is none, nothing is pulled. At most one of the burst arguments may be given.
//!
//! - `RATE` (unsigned): packets a second.
//! - `BURST_DURATION` (time): the capacity is what this time brings. Default: 20 ms.
//! - `BURST_SIZE` (unsigned): the capacity in packets.
//!
//! Handlers:
//! - `rate` (read, write): packets a second. Another rate leaves the bucket as full as it is.
//! - `active` (read, write): whether it does anything.
//! - `calls` (read): how often it had its turn, and with what result.
//! - `config` (read, write): its rate; written, all its arguments.
//!
//! See also: [BandwidthRatedUnqueue], [Unqueue], [Shaper]
//!
//! # BandwidthRatedUnqueue: pulls packets at a limited bandwidth and pushes them.
//!
//! Group: queues
//! Usage: `BandwidthRatedUnqueue(RATE [, BURST_DURATION, BURST_BYTES])`
//! Ports: 1 input, 1 output; pull in, push out
//!
//! As [RatedUnqueue], with a token for each byte. A packet may go while the bucket is not more than
//! empty, and takes its length out of it; so one may take more than there is, and the next ones
//! wait for it.
//!
//! - `RATE` (bandwidth): bytes a second: `384Kbps`, `10 MB/s`.
//! - `BURST_DURATION` (time): the capacity is what this time brings. Default: 20 ms.
//! - `BURST_BYTES` (unsigned): the capacity in bytes.
//!
//! Handlers:
//! - `rate` (read, write): the bandwidth.
//! - `active` (read, write): whether it does anything.
//! - `calls` (read): how often it had its turn, and with what result.
//! - `config` (read, write): its rate; written, all its arguments.
//!
//! See also: [RatedUnqueue], [Unqueue], [BandwidthShaper]

use graph::arguments::{Arguments, Blame, Refused, Seconds, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError};

use super::token_bucket::{TICK, TokenBucket};
use crate::basic::{of_type, written};

/// Bytes that a bucket counted in bytes has below its zero: more than the longest packet.
pub(super) const FLOOR: u32 = 131_072;

/// The class `RatedUnqueue`.
pub const RATED: Class = Class {
    name: "RatedUnqueue",
    ports: "1/1",
    processing: Class::PULL_TO_PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("rated_unqueue.rs"),
    make: |arguments, _| Ok(Box::new(RatedUnqueue::new(false, limits(arguments, false)?))),
};

/// The class `BandwidthRatedUnqueue`.
pub const BANDWIDTH: Class = Class {
    name: "BandwidthRatedUnqueue",
    make: |arguments, _| Ok(Box::new(RatedUnqueue::new(true, limits(arguments, true)?))),
    ..RATED
};

/// Rate and capacity of the bucket.
pub(super) fn limits(arguments: &mut Arguments<'_>, bytes: bool) -> Result<(u32, u32), Refused> {
    let rate = super::rate(arguments, bytes);
    let duration = arguments.keyword::<Seconds>("BURST_DURATION");
    let size = arguments.keyword::<u32>(if bytes { "BURST_BYTES" } else { "BURST_SIZE" });
    if duration.is_some() && size.is_some() {
        arguments.wrong(Blame::Element, "cannot specify both BURST_DURATION and BURST_SIZE");
    }
    arguments.finish()?;
    let rate = rate.ok_or(Refused)?;
    let milliseconds = duration.map_or(20, |duration| (duration.0.max(0) as u128 + 500_000) / 1_000_000);
    let burst =
        size.unwrap_or_else(|| u32::try_from(u128::from(rate) * milliseconds / 1000).unwrap_or(u32::MAX));
    let burst = if bytes { burst.saturating_add(FLOOR) } else { burst };
    Ok((rate, burst.max(1)))
}

struct RatedUnqueue {
    bytes: bool,
    bucket: TokenBucket,
    active: bool,
    turns: u64,
    pushes: u64,
    failed_pulls: u64,
    empty_turns: u64,
    /// For a turn's packet; empty between turns.
    batch: Batch,
}

impl RatedUnqueue {
    fn new(bytes: bool, (rate, capacity): (u32, u32)) -> RatedUnqueue {
        RatedUnqueue {
            bytes,
            bucket: TokenBucket::new(rate, capacity),
            active: true,
            turns: 0,
            pushes: 0,
            failed_pulls: 0,
            empty_turns: 0,
            batch: Batch::new(),
        }
    }

    /// Tokens that there must be for a packet to go.
    fn needed(&self) -> u32 {
        if self.bytes { FLOOR } else { 1 }
    }
}

impl Element for RatedUnqueue {
    fn class(&self) -> &'static str {
        if self.bytes { BANDWIDTH.name } else { RATED.name }
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn task(&mut self, cx: &mut Context<'_>) -> bool {
        self.turns += 1;
        if !self.active {
            return false;
        }
        let now = cx.now();
        self.bucket.fill(now);
        if !self.bucket.contains(self.needed()) {
            self.empty_turns += 1;
            if let Some(ticks) = self.bucket.ticks_until(self.needed()) {
                cx.set_timer(0, now.saturating_add(u64::from(ticks) * TICK));
            }
            return false;
        }
        cx.schedule();
        if cx.pull(0, 1, &mut self.batch) == 0 {
            self.failed_pulls += 1;
            self.empty_turns += 1;
            return false;
        }
        let length = self.batch.packets().first().map_or(0, |packet| packet.total_len());
        self.bucket.remove(if self.bytes { u32::try_from(length).unwrap_or(u32::MAX) } else { 1 });
        self.pushes += 1;
        cx.emit_batch(0, &mut self.batch);
        true
    }

    fn timer(&mut self, _: u32, cx: &mut Context<'_>) {
        cx.schedule();
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![
            Handler::read("calls"),
            Handler::read("rate").replacing(Some(0), "RATE"),
            Handler::read_write("active"),
            Handler::read("config"),
        ]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(match handler {
            "calls" => format!(
                "{} calls to run_task()\n{} empty runs\n{} pushes\n{} failed pulls\n",
                self.turns, self.empty_turns, self.pushes, self.failed_pulls
            ),
            "rate" | "config" if self.bytes => unparse::bandwidth(self.bucket.rate().into()),
            "rate" | "config" => self.bucket.rate().to_string(),
            "active" => unparse::boolean(self.active).to_owned(),
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "active" => self.active = written(value, "syntax error", cx)?,
            _ => return Err(HandlerError::unknown(handler)),
        }
        cx.clear_timer(0);
        cx.schedule();
        Ok(())
    }

    fn succeed(&mut self, old: Box<dyn Element>, cx: &mut Context<'_>) {
        if let Some(old) = of_type::<RatedUnqueue>(old) {
            self.bucket = self.bucket.as_full_as(&old.bucket);
            let RatedUnqueue { active, turns, pushes, failed_pulls, empty_turns, .. } = *old;
            *self = RatedUnqueue {
                active,
                turns,
                pushes,
                failed_pulls,
                empty_turns,
                batch: Batch::new(),
                ..*self
            };
        }
        cx.clear_timer(0);
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        if let Some(old) = of_type::<RatedUnqueue>(old) {
            self.pushes = old.pushes;
        }
    }
}
