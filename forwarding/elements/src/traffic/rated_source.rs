//! RatedSource: makes packets at a certain rate.
//!
//! Group: traffic
//! Usage: `RatedSource([DATA, RATE, LIMIT, ACTIVE, LENGTH, STOP, BANDWIDTH])`
//! Ports: no inputs, 1 output; agnostic
//!
//! All packets are the same, and carry the time when they were made. The rate is kept by a token
//! bucket of two packets, or of a hundredth of a second's if that is more.
//!
//! - `DATA` (bytes): what packets contain; a sentence of 69 bytes if not given
//! - `RATE` (integer): packets a second; 10 if not given
//! - `LIMIT` (integer): how many packets to make in all; -1, or not given: no limit
//! - `ACTIVE` (boolean): whether to make any at first; true if not given
//! - `LENGTH` (integer): the length of packets: DATA is cut off or repeated. -1, or not given: that
//!   of DATA
//! - `STOP` (boolean): whether to stop the program after LIMIT packets; false if not given
//! - `BANDWIDTH` (bandwidth): the rate in bytes a second, `384Kbps`, instead of RATE
//! - `DATASIZE` (integer): the older name of LENGTH
//!
//! Handlers:
//! - `data` (read, write): DATA
//! - `rate` (read, write): RATE
//! - `limit` (read, write): LIMIT
//! - `active` (read, write): whether it makes packets
//! - `count` (read): how many it has made
//! - `reset` (write): sets the count to zero, so that it makes LIMIT packets again
//! - `length`, `datasize` (read, write): LENGTH
//!
//! See also: [InfiniteSource], [TimedSource], [RatedUnqueue]

use graph::arguments::{Arguments, Bandwidth, Bytes, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;

use super::contents::{DEFAULT, TOO_LONG, contents};
use crate::basic::{of_type, written};
use crate::queues::token_bucket::{TICK, TokenBucket};

pub const CLASS: Class = Class {
    name: "RatedSource",
    ports: "0/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("rated_source.rs"),
    make,
};

struct RatedSource {
    data: Vec<u8>,
    length: i32,
    bytes: Vec<u8>,
    bucket: TokenBucket,
    limit: Option<u32>,
    active: bool,
    stop: bool,
    count: u32,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let data = args.optional::<Bytes>("DATA").map_or(DEFAULT.as_bytes().to_vec(), |data| data.0);
    let mut rate = args.optional::<u32>("RATE").unwrap_or(10);
    let limit = args.optional::<i32>("LIMIT").unwrap_or(-1);
    let active = args.optional("ACTIVE").unwrap_or(true);
    let length = args.keyword("LENGTH").or(args.keyword("DATASIZE")).unwrap_or(-1);
    let stop = args.keyword("STOP").unwrap_or(false);
    let bandwidth = args.keyword::<Bandwidth>("BANDWIDTH").map_or(0, |bandwidth| bandwidth.0);
    if length.max(data.len() as i32) >= TOO_LONG {
        args.wrong("LENGTH", "longer than any packet");
    }
    args.finish()?;
    let bytes = contents(&data, length);
    let mut capacity = burst(rate);
    if bandwidth > 0 {
        rate = u32::try_from(bandwidth / (bytes.len() as u64).max(1)).unwrap_or(u32::MAX);
        capacity = burst(rate).max(u32::try_from(length).unwrap_or(0) * 2);
    }
    let limit = u32::try_from(limit).ok();
    let bucket = TokenBucket::new(rate, capacity);
    Ok(Box::new(RatedSource { data, length, bytes, bucket, limit, active, stop, count: 0 }))
}

/// How many packets may come at once.
fn burst(rate: u32) -> u32 {
    if rate < 200 { 2 } else { rate / 100 }
}

impl RatedSource {
    /// The next packet, if it is time for it; else the steady time when it will be.
    fn next(&mut self, cx: &mut Context<'_>) -> Result<Packet, Option<u64>> {
        if !self.active {
            return Err(None);
        }
        if self.limit.is_some_and(|limit| self.count >= limit) {
            if self.stop {
                cx.stop();
            }
            return Err(None);
        }
        let now = cx.now();
        self.bucket.fill(now);
        if !self.bucket.contains(1) {
            let ticks = self.bucket.ticks_until(1);
            return Err(ticks.map(|ticks| now.saturating_add(u64::from(ticks) * TICK)));
        }
        // Without memory it is tried again soon; the time has passed nevertheless.
        self.bucket.remove(1);
        let mut packet = Packet::new(&self.bytes).ok_or(Some(now.saturating_add(TICK)))?;
        packet.annotations_mut().timestamp = cx.wall();
        self.count += 1;
        Ok(packet)
    }

    /// Begins to make packets, if it should and doesn't.
    fn begin(&mut self, cx: &mut Context<'_>) {
        if self.active && !cx.output_is_pull(0) && !cx.is_scheduled() {
            self.bucket.set(1);
            cx.clear_timer(0);
            cx.schedule();
        }
    }
}

impl Element for RatedSource {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.bucket.set(1);
        if !cx.output_is_pull(0) {
            cx.schedule();
        }
        Ok(())
    }

    fn task(&mut self, cx: &mut Context<'_>) -> bool {
        match self.next(cx) {
            Ok(packet) => {
                cx.emit(0, packet);
                cx.schedule();
                true
            }
            Err(again) => {
                if let Some(again) = again {
                    cx.set_timer(0, again);
                }
                false
            }
        }
    }

    fn timer(&mut self, _: u32, cx: &mut Context<'_>) {
        cx.schedule();
    }

    fn pull(&mut self, _output: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        while batch.len() < quota {
            match self.next(cx) {
                Ok(packet) => {
                    // There is room for the quota.
                    let _ = batch.push(packet);
                }
                Err(again) => {
                    if let Some(again) = again.filter(|_| batch.is_empty()) {
                        cx.wake_at(again);
                    }
                    return;
                }
            }
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        let mut handlers: Vec<Handler> = ["data", "rate", "limit", "active"].map(Handler::read_write).into();
        handlers.extend([Handler::read("count"), Handler::write("reset")]);
        handlers.extend(["length", "datasize"].map(Handler::read_write));
        handlers
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(match handler {
            "data" => String::from_utf8_lossy(&self.data).into_owned(),
            "rate" => self.bucket.rate().to_string(),
            "limit" => self.limit.map_or("-1".to_owned(), |limit| limit.to_string()),
            "active" => self.active.to_string(),
            "count" => self.count.to_string(),
            "length" | "datasize" => self.length.to_string(),
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let wrong = "syntax error";
        match handler {
            "data" if value.len() < TOO_LONG as usize => {
                self.data = value.as_bytes().to_vec();
                self.bytes = self.data.clone();
            }
            "data" => return Err(HandlerError::refused("data longer than any packet")),
            "rate" => {
                let rate = written(value, wrong, cx)?;
                self.bucket.change(rate, burst(rate));
            }
            "limit" => self.limit = u32::try_from(written::<i32>(value, wrong, cx)?).ok(),
            "active" => {
                self.active = written(value, wrong, cx)?;
                self.begin(cx);
            }
            "reset" => {
                self.count = 0;
                self.bucket.set(1);
                self.begin(cx);
            }
            "length" | "datasize" => {
                let length: i32 = written(value, wrong, cx)?;
                if length >= TOO_LONG {
                    return Err(HandlerError::refused(format!("length must be less than {TOO_LONG}")));
                }
                self.length = length;
                self.bytes = contents(&self.data, length);
            }
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        if let Some(old) = of_type::<RatedSource>(old) {
            self.count = old.count;
        }
    }
}
