//! TimedSource: makes a packet from time to time.
//!
//! Group: traffic
//! Usage: `TimedSource([INTERVAL, DATA, LIMIT, ACTIVE, STOP, HEADROOM])`
//! Ports: no inputs, 1 output; push
//!
//! All packets are the same, and carry the time when they were made. The first comes when the first
//! interval has passed.
//!
//! - `INTERVAL` (time): seconds between two packets; 0.5 if not given
//! - `DATA` (bytes): what packets contain; a sentence of 69 bytes if not given
//! - `LIMIT` (integer): how many packets to make in all; -1, or not given: no limit
//! - `ACTIVE` (boolean): whether to make any at first; true if not given
//! - `STOP` (boolean): whether to stop the program an interval after LIMIT packets; false if not
//!   given
//! - `HEADROOM` (integer): how much room to leave in front; there is always as much as there can be
//!
//! Handlers:
//! - `data` (read, write): DATA
//! - `limit` (read, write): LIMIT
//! - `interval` (read, write): INTERVAL
//! - `active` (read, write): whether it makes packets
//! - `count` (read): how many it has made
//! - `headroom` (read, write): HEADROOM
//! - `reset` (write): sets the count to zero, so that it makes LIMIT packets again
//!
//! See also: [RatedSource], [InfiniteSource], [TimedSink]

use graph::arguments::{Arguments, Bytes, Refused, Timestamp, unparse};
use graph::{Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::Reason;

use super::contents::{DEFAULT, TOO_LONG};
use super::timed_sink::Interval;
use crate::basic::{of_type, written};

pub const CLASS: Class = Class {
    name: "TimedSource",
    ports: "0/1",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("timed_source.rs"),
    make,
};

struct TimedSource {
    interval: Interval,
    data: Vec<u8>,
    limit: i32,
    active: bool,
    stop: bool,
    headroom: u32,
    count: i32,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let interval = Interval::read(args);
    let data = args.optional::<Bytes>("DATA").map_or(DEFAULT.as_bytes().to_vec(), |data| data.0);
    let limit = args.keyword("LIMIT").unwrap_or(-1);
    let active = args.keyword("ACTIVE").unwrap_or(true);
    let stop = args.keyword("STOP").unwrap_or(false);
    let headroom = args.keyword("HEADROOM").unwrap_or(28);
    if data.len() >= TOO_LONG as usize {
        args.wrong("DATA", "longer than any packet");
    }
    args.finish()?;
    Ok(Box::new(TimedSource { interval, data, limit, active, stop, headroom, count: 0 }))
}

impl TimedSource {
    /// Begins to make packets, if it should and doesn't.
    fn begin(&mut self, cx: &mut Context<'_>) {
        if self.active && cx.timer(0).is_none() {
            self.interval.begin(0, cx);
        }
    }
}

impl Element for TimedSource {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if self.active {
            self.interval.begin(self.interval.length, cx);
        }
        Ok(())
    }

    fn timer(&mut self, _: u32, cx: &mut Context<'_>) {
        if !self.active {
            return;
        }
        if self.limit >= 0 && self.count >= self.limit {
            if self.stop {
                cx.stop();
            }
            return;
        }
        match Packet::new(&self.data) {
            Some(mut packet) => {
                packet.annotations_mut().timestamp = cx.wall();
                cx.emit(0, packet);
            }
            None => cx.count_missing(Reason::NoBuffer),
        }
        self.count = self.count.saturating_add(1);
        self.interval.again(cx);
    }

    fn handlers(&self) -> Vec<Handler> {
        let mut handlers: Vec<Handler> =
            ["data", "limit", "interval", "active"].map(Handler::read_write).into();
        handlers.extend([Handler::read("count"), Handler::read_write("headroom"), Handler::write("reset")]);
        handlers
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(match handler {
            "data" => String::from_utf8_lossy(&self.data).into_owned(),
            "limit" => self.limit.to_string(),
            "interval" => unparse::interval(self.interval.length),
            "active" => self.active.to_string(),
            "count" => self.count.to_string(),
            "headroom" => self.headroom.to_string(),
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "data" if value.len() < TOO_LONG as usize => self.data = value.as_bytes().to_vec(),
            "data" => return Err(HandlerError::refused("data longer than any packet")),
            "limit" => self.limit = written(value, "syntax error", cx)?,
            "interval" => self.interval.set(written::<Timestamp>(value, "bad interval", cx)?)?,
            "active" => {
                self.active = written(value, "bad active", cx)?;
                self.begin(cx);
            }
            "headroom" => self.headroom = written(value, "bad headroom", cx)?,
            "reset" => {
                self.count = 0;
                self.begin(cx);
            }
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        if let Some(old) = of_type::<TimedSource>(old) {
            self.count = old.count;
        }
    }
}
