//! Counter: counts packets and bytes, and how many there are a second.
//!
//! Group: basic
//! Usage: `Counter([COUNT_CALL, BYTE_COUNT_CALL])`
//! Ports: 1 input, 1 output; agnostic
//!
//! The rates are moving averages: a change is seen after some 16 milliseconds.
//!
//! - `COUNT_CALL` (integer, handler [value]): when so many packets have been counted, the handler
//!   is written, once. `COUNT_CALL 1000 stop` stops the program after 1000 packets
//! - `BYTE_COUNT_CALL` (integer, handler [value]): the same for bytes
//!
//! Handlers:
//! - `count` (read): packets since the last reset
//! - `byte_count` (read): bytes since the last reset
//! - `rate` (read): packets per second, recently
//! - `bit_rate` (read): bits per second, recently
//! - `byte_rate` (read): bytes per second, recently
//! - `reset`, `reset_counts` (write): sets the counts to zero; calls are made again
//! - `count_call` (read, write): the count of COUNT_CALL; writing sets count and handler
//! - `byte_count_call` (write): sets BYTE_COUNT_CALL
//!
//! See also: [AverageCounter]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};

use super::call::CountCall;
use super::rate::Rate;
use super::{of_type, written};

pub const CLASS: Class = Class {
    name: "Counter",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("counter.rs"),
    make,
};

struct Counter {
    count: u64,
    byte_count: u64,
    rate: Rate<10>,
    byte_rate: Rate<4>,
    count_call: Trigger,
    byte_count_call: Trigger,
}

/// A call and whether it has been made.
#[derive(Default)]
struct Trigger {
    call: Option<CountCall>,
    made: bool,
}

impl Trigger {
    /// The call, if it is to be made now.
    fn due(&mut self, is_reached: impl Fn(u64) -> bool) -> Option<CountCall> {
        let call = self.call.as_ref().filter(|call| !self.made && is_reached(call.count))?;
        self.made = true;
        Some(call.clone())
    }

    fn set(&mut self, name: &str, text: &str, cx: &Context<'_>) -> Result<(), HandlerError> {
        let otherwise = format!("'{name}' first word should be unsigned (count), the rest a handler");
        *self = Trigger { call: Some(written(text, &otherwise, cx)?), made: false };
        Ok(())
    }
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let trigger = |call| Trigger { call, made: false };
    let count_call = trigger(args.keyword("COUNT_CALL"));
    let byte_count_call = trigger(args.keyword("BYTE_COUNT_CALL"));
    args.finish()?;
    let (rate, byte_rate) = (Rate::new(), Rate::new());
    Ok(Box::new(Counter { count: 0, byte_count: 0, rate, byte_rate, count_call, byte_count_call }))
}

impl Counter {
    fn reset(&mut self) {
        (self.count, self.byte_count) = (0, 0);
        (self.count_call.made, self.byte_count_call.made) = (false, false);
    }

    /// Counts packet by packet, so that calls are made at the right one.
    #[cold]
    fn count_and_call(&mut self, batch: &Batch, cx: &mut Context<'_>) {
        for packet in batch.packets() {
            self.count += 1;
            self.byte_count += packet.total_len() as u64;
            let (count, bytes) = (self.count, self.byte_count);
            if let Some(call) = self.count_call.due(|limit| count == limit) {
                call.call.write(self, cx);
            }
            if let Some(call) = self.byte_count_call.due(|limit| bytes >= limit) {
                call.call.write(self, cx);
            }
        }
    }
}

impl Element for Counter {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        for (name, trigger) in [("COUNT_CALL", &self.count_call), ("BYTE_COUNT_CALL", &self.byte_count_call)]
        {
            if let Some(call) = &trigger.call {
                call.call.check(self, cx).map_err(|error| format!("{name}: {error}"))?;
            }
        }
        Ok(())
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let bytes: usize = batch.packets().iter().map(port::Packet::total_len).sum();
        let now = cx.now();
        self.rate.update(batch.len() as u64, now);
        self.byte_rate.update(bytes as u64, now);
        if self.count_call.call.is_none() && self.byte_count_call.call.is_none() {
            self.count += batch.len() as u64;
            self.byte_count += bytes as u64;
        } else {
            self.count_and_call(batch, cx);
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        let mut handlers: Vec<Handler> =
            ["count", "byte_count", "rate", "bit_rate", "byte_rate"].into_iter().map(Handler::read).collect();
        handlers.extend(["reset", "reset_counts"].map(Handler::write));
        handlers.extend([Handler::read_write("count_call"), Handler::write("byte_count_call")]);
        handlers
    }

    fn read(&mut self, handler: &str, _: &str, cx: &mut Context<'_>) -> Result<String, HandlerError> {
        // A rate falls when nothing comes.
        let now = cx.now();
        self.rate.update(0, now);
        self.byte_rate.update(0, now);
        Ok(match handler {
            "count" => self.count.to_string(),
            "byte_count" => self.byte_count.to_string(),
            "rate" => self.rate.text(1),
            "bit_rate" => self.byte_rate.text(8),
            "byte_rate" => self.byte_rate.text(1),
            "count_call" => {
                self.count_call.call.as_ref().map_or(String::new(), |call| call.count.to_string())
            }
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "reset" | "reset_counts" => self.reset(),
            "count_call" => self.count_call.set(handler, value, cx)?,
            "byte_count_call" => self.byte_count_call.set(handler, value, cx)?,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        if let Some(old) = of_type::<Counter>(old) {
            (self.count, self.byte_count) = (old.count, old.byte_count);
            (self.rate, self.byte_rate) = (old.rate, old.byte_rate);
        }
    }
}
