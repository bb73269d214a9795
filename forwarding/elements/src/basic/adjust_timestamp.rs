//! AdjustTimestamp: adds to packets' timestamps.
//!
//! Group: basic
//! Usage: `AdjustTimestamp(TIME [, FIRST, ALL])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Packets without a timestamp stay without one, unless `ALL` is true.
//!
//! - `TIME` (time): what to add; it may be negative
//! - `FIRST` (boolean): whether to change the annotation `FIRST_TIMESTAMP` instead of the
//!   timestamp; false if not given
//! - `ALL` (boolean): whether to change packets without a timestamp as well; false if not given
//!
//! Handlers:
//! - `time` (read, write): TIME
//!
//! See also: [SetTimestamp], [SetTimestampDelta]

use graph::arguments::{Arguments, Refused, Timestamp, offset, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};

use super::written;

pub const CLASS: Class = Class {
    name: "AdjustTimestamp",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("adjust_timestamp.rs"),
    make,
};

struct AdjustTimestamp {
    more: i64,
    first: bool,
    all: bool,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let more = args.optional::<Timestamp>("TIME").map_or(0, |time| time.0);
    let first = args.keyword("FIRST").unwrap_or(false);
    let all = args.keyword("ALL").unwrap_or(false);
    args.finish()?;
    Ok(Box::new(AdjustTimestamp { more, first, all }))
}

impl Element for AdjustTimestamp {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            let time = match self.first {
                true => i64::from_ne_bytes(packet.annotation(offset::FIRST_TIMESTAMP)),
                false => packet.annotations().timestamp,
            };
            if time == 0 && !self.all {
                continue;
            }
            let time = time.saturating_add(self.more);
            if self.first {
                packet.set_annotation(offset::FIRST_TIMESTAMP, time.to_ne_bytes());
            } else {
                packet.annotations_mut().timestamp = time;
            }
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read_write("time")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "time" => Ok(unparse::timestamp(self.more)),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "time" => self.more = written::<Timestamp>(value, "time must be a timestamp", cx)?.0,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}
