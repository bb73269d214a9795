//! TimedSink: pulls a packet from time to time and throws it away.
//!
//! Group: traffic
//! Usage: `TimedSink([INTERVAL])`
//! Ports: 1 input, no outputs; pull
//!
//! Where there is nothing to pull when the time has come, it tries again after the next interval.
//!
//! - `INTERVAL` (time): seconds between two packets; 0.5 if not given
//!
//! Handlers:
//! - `interval` (read, write): INTERVAL
//!
//! See also: [TimedSource], [Discard]

use graph::arguments::{Arguments, Refused, Timestamp, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use wire::Reason;

use crate::basic::written;

pub const CLASS: Class = Class {
    name: "TimedSink",
    ports: "1/0",
    processing: Class::PULL,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("timed_sink.rs"),
    make,
};

/// Something that happens again and again, by an element's timer 0.
#[derive(Clone, Copy)]
pub(super) struct Interval {
    /// Nanoseconds, more than 0.
    pub length: i64,
    /// When it is due next, in steady nanoseconds.
    due: u64,
}

impl Interval {
    /// Reads `INTERVAL`.
    pub fn read(args: &mut Arguments<'_>) -> Interval {
        let length = args.optional::<Timestamp>("INTERVAL").map_or(500_000_000, |interval| interval.0);
        if length <= 0 {
            args.wrong("INTERVAL", "must be positive");
        }
        Interval { length: length.max(1), due: 0 }
    }

    /// Takes another length, from the next time on.
    pub fn set(&mut self, length: Timestamp) -> Result<(), HandlerError> {
        if length.0 <= 0 {
            return Err(HandlerError::refused("bad interval"));
        }
        self.length = length.0;
        Ok(())
    }

    /// It is due first in `after` nanoseconds.
    pub fn begin(&mut self, after: i64, cx: &mut Context<'_>) {
        self.due = cx.now().saturating_add_signed(after);
        cx.set_timer(0, self.due);
    }

    /// It is due once more, an interval after it was to be the last time. Who is late catches up,
    /// once a round.
    pub fn again(&mut self, cx: &mut Context<'_>) {
        self.due = self.due.saturating_add_signed(self.length);
        let soon = cx.now().saturating_add(1);
        cx.set_timer(0, self.due.max(soon));
    }
}

struct TimedSink {
    interval: Interval,
    batch: Batch,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let interval = Interval::read(args);
    args.finish()?;
    Ok(Box::new(TimedSink { interval, batch: Batch::new() }))
}

impl Element for TimedSink {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.interval.begin(self.interval.length, cx);
        Ok(())
    }

    fn timer(&mut self, _: u32, cx: &mut Context<'_>) {
        cx.pull(0, 1, &mut self.batch);
        cx.drop_batch(&mut self.batch, Reason::Discarded);
        self.interval.again(cx);
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read_write("interval")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "interval" => Ok(unparse::interval(self.interval.length)),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "interval" => self.interval.set(written::<Timestamp>(value, "bad interval", cx)?),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
