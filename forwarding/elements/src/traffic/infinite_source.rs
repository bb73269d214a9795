//! InfiniteSource: makes packets as fast as they are taken.
//!
//! Group: traffic
//! Usage: `InfiniteSource([DATA, LIMIT, BURST, ACTIVE, TIMESTAMP, LENGTH, STOP, END_CALL])`
//! Ports: no inputs, 1 output; agnostic
//!
//! All packets are the same. A source that pushes waits while every queue behind it is full.
//!
//! - `DATA` (bytes): what packets contain; a sentence of 69 bytes if not given
//! - `LIMIT` (integer): how many packets to make in all; -1, or not given: no limit
//! - `BURST` (integer): how many packets to push in a turn; 1 if not given
//! - `ACTIVE` (boolean): whether to make any at first; true if not given
//! - `TIMESTAMP` (boolean): whether packets carry the time when they were made; true if not given
//! - `LENGTH` (integer): the length of packets: DATA is cut off or repeated. -1, or not given: that
//!   of DATA
//! - `STOP` (boolean): whether to stop the program after LIMIT packets; false if not given
//! - `END_CALL` (handler [value]): a handler to write after LIMIT packets
//! - `DATASIZE` (integer): the older name of LENGTH
//!
//! Handlers:
//! - `data` (read, write): DATA
//! - `limit` (read, write): LIMIT
//! - `burst`, `burstsize` (read, write): BURST
//! - `active` (read, write): whether it makes packets
//! - `count` (read): how many it has made
//! - `reset` (write): sets the count to zero, so that it makes LIMIT packets again
//! - `length`, `datasize` (read, write): LENGTH
//! - `config` (read, write): its arguments
//!
//! See also: [RatedSource], [TimedSource], [RandomSource]

use graph::arguments::{Arguments, Bytes, Refused};
use graph::{BATCH, Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;

use super::contents::{DEFAULT, TOO_LONG, contents};
use crate::basic::call::Call;
use crate::basic::random::Random;
use crate::basic::{of_type, written};

pub const CLASS: Class = Class {
    name: "InfiniteSource",
    ports: "0/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("infinite_source.rs"),
    make,
};

/// How long to wait for packet memory.
const PATIENCE: u64 = 1_000_000;

/// What a source puts into its packets.
pub(super) enum Contents {
    Same { data: Vec<u8>, length: i32, bytes: Vec<u8> },
    Random { length: i32, bytes: Vec<u8>, random: Random },
}

impl Contents {
    pub fn same(data: Vec<u8>, length: i32) -> Contents {
        Contents::Same { bytes: contents(&data, length), data, length }
    }

    pub fn random(length: i32) -> Contents {
        Contents::Random { length, bytes: contents(&[0], length), random: Random::new() }
    }

    fn make(&mut self) -> Option<Packet> {
        match self {
            Contents::Same { bytes, .. } => Packet::new(bytes),
            Contents::Random { bytes, random, .. } => {
                random.fill(bytes);
                Packet::new(bytes)
            }
        }
    }

    fn length(&self) -> i32 {
        match self {
            Contents::Same { length, .. } | Contents::Random { length, .. } => *length,
        }
    }

    fn set_length(&mut self, length: i32) {
        *self = match std::mem::replace(self, Contents::random(0)) {
            Contents::Same { data, .. } => Contents::same(data, length),
            Contents::Random { .. } => Contents::random(length),
        };
    }

    fn set_data(&mut self, data: &[u8]) {
        if let Contents::Same { length, .. } = self {
            *self = Contents::same(data.to_vec(), *length);
        }
    }

    /// The text given by the user, if there is one.
    fn data(&self) -> Option<String> {
        match self {
            Contents::Same { data, .. } => Some(String::from_utf8_lossy(data).into_owned()),
            Contents::Random { .. } => None,
        }
    }
}

/// A source that is limited by a count only.
pub(super) struct Source {
    class: &'static str,
    contents: Contents,
    limit: i64,
    burst: u32,
    active: bool,
    timestamp: bool,
    end: Option<Call>,
    count: u64,
    /// Packets made and not yet emitted; empty between turns.
    batch: Batch,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let data = args.optional::<Bytes>("DATA").map_or(DEFAULT.as_bytes().to_vec(), |data| data.0);
    Source::read(CLASS.name, args, |args| {
        let length = args.keyword("LENGTH").or(args.keyword("DATASIZE")).unwrap_or(-1);
        if length.max(data.len() as i32) >= TOO_LONG {
            args.wrong("LENGTH", "longer than any packet");
        }
        Contents::same(data, length.min(TOO_LONG))
    })
}

impl Source {
    /// Reads the arguments of all sources of this kind, then those for the contents.
    pub fn read(
        class: &'static str,
        args: &mut Arguments<'_>,
        contents: impl FnOnce(&mut Arguments<'_>) -> Contents,
    ) -> Result<Box<dyn Element>, Refused> {
        let limit = args.optional("LIMIT").unwrap_or(-1);
        let burst = args.optional::<i32>("BURST").unwrap_or(1);
        let active = args.optional("ACTIVE").unwrap_or(true);
        let timestamp = args.keyword("TIMESTAMP").unwrap_or(true);
        let stop = args.keyword("STOP").unwrap_or(false);
        let mut end = args.keyword::<Call>("END_CALL");
        let contents = contents(args);
        if burst < 1 {
            args.wrong("BURST", "burst size must be >= 1");
        }
        if stop && end.is_some() {
            args.wrong("END_CALL", "END_CALL and STOP are mutually exclusive");
        }
        if stop {
            end = Some(Call::stop());
        }
        args.finish()?;
        let (burst, batch) = (burst.unsigned_abs(), Batch::new());
        Ok(Box::new(Source { class, contents, limit, burst, active, timestamp, end, count: 0, batch }))
    }

    /// How many packets there are still to make, at most `most`.
    fn left(&self, most: u64) -> u64 {
        u64::try_from(self.limit).map_or(most, |limit| most.min(limit.saturating_sub(self.count)))
    }

    /// Makes up to `count` packets, as many as fit and there is memory for.
    fn fill(&mut self, count: u64, batch: &mut Batch, cx: &mut Context<'_>) -> u64 {
        let mut made = 0;
        while made < count && batch.room() > 0 {
            let Some(mut packet) = self.contents.make() else { break };
            if self.timestamp {
                packet.annotations_mut().timestamp = cx.wall();
            }
            // There is room.
            let _ = batch.push(packet);
            made += 1;
        }
        self.count += made;
        made
    }

    /// All packets have been made.
    fn end(&mut self, cx: &mut Context<'_>) {
        let done = u64::try_from(self.limit).is_ok_and(|limit| self.count >= limit);
        if let Some(end) = self.end.clone().filter(|_| done) {
            end.write(self, cx);
        }
    }
}

impl Element for Source {
    fn class(&self) -> &'static str {
        self.class
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if let Some(end) = &self.end {
            end.check(self, cx).map_err(|error| format!("END_CALL: {error}"))?;
        }
        if !cx.output_is_pull(0) {
            cx.schedule();
        }
        Ok(())
    }

    fn task(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.active {
            return false;
        }
        if !cx.has_room(0) {
            cx.await_room(0);
            return false;
        }
        let mut left = self.left(self.burst.into());
        if left == 0 {
            self.end(cx);
            return false;
        }
        cx.schedule();
        let mut batch = std::mem::take(&mut self.batch);
        let mut any = false;
        while left > 0 {
            let made = self.fill(left, &mut batch, cx);
            if made == 0 {
                let again = cx.now().saturating_add(PATIENCE);
                cx.wake_at(again);
                break;
            }
            any = true;
            left -= made;
            cx.emit_batch(0, &mut batch);
            cx.flush();
        }
        self.batch = batch;
        any
    }

    fn pull(&mut self, _output: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        if !self.active {
            return;
        }
        match self.left(quota.min(BATCH) as u64) {
            0 => self.end(cx),
            left => {
                self.fill(left, batch, cx);
            }
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        let old = self.contents.data().is_some();
        let mut handlers: Vec<Handler> = ["limit", "burst", "active"].map(Handler::read_write).into();
        handlers.extend([Handler::read("count"), Handler::write("reset"), Handler::read_write("length")]);
        if old {
            handlers.extend(["data", "burstsize", "datasize"].map(Handler::read_write));
        }
        handlers
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(match handler {
            "data" => self.contents.data().ok_or_else(|| HandlerError::unknown(handler))?,
            "limit" => self.limit.to_string(),
            "burst" | "burstsize" => self.burst.to_string(),
            "active" => self.active.to_string(),
            "count" => self.count.to_string(),
            "length" | "datasize" => self.contents.length().to_string(),
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "data" if value.len() < TOO_LONG as usize => self.contents.set_data(value.as_bytes()),
            "data" => return Err(HandlerError::refused("data longer than any packet")),
            "limit" => self.limit = written(value, "limit parameter must be integer", cx)?,
            "burst" | "burstsize" => {
                let message = "burstsize parameter must be integer >= 1";
                let burst: u32 = written(value, message, cx)?;
                self.burst = if burst > 0 { burst } else { return Err(HandlerError::refused(message)) };
            }
            "active" => self.active = written(value, "active parameter must be boolean", cx)?,
            "reset" => self.count = 0,
            "length" | "datasize" => {
                let length: i32 = written(value, "length must be integer", cx)?;
                if length >= TOO_LONG {
                    return Err(HandlerError::refused(format!("length must be less than {TOO_LONG}")));
                }
                self.contents.set_length(length);
            }
            _ => return Err(HandlerError::unknown(handler)),
        }
        if self.active && self.left(1) > 0 && !cx.output_is_pull(0) {
            cx.schedule();
        }
        Ok(())
    }

    /// As in Click, its count begins anew.
    fn succeed(&mut self, _: Box<dyn Element>, _: &mut Context<'_>) {}

    fn take_state(&mut self, old: Box<dyn Element>) {
        if let Some(old) = of_type::<Source>(old) {
            self.count = old.count;
        }
    }
}
