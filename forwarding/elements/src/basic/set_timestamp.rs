//! SetTimestamp: notes a time on packets.
//!
//! Group: basic
//! Usage: `SetTimestamp([TIMESTAMP, FIRST])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Packets from devices and dumps carry the time that they were received at, others none until it
//! is set. What comes later may print it, or measure how long packets took.
//!
//! - `TIMESTAMP` (time): seconds since 1970; the present time if not given
//! - `FIRST` (boolean): whether to set the annotation `FIRST_TIMESTAMP` instead of the timestamp;
//!   false if not given
//!
//! See also: [Print]

use graph::arguments::{Arguments, Refused, Timestamp, offset};
use graph::{Batch, Class, Context, Element, Setup};

pub const CLASS: Class = Class {
    name: "SetTimestamp",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("set_timestamp.rs"),
    make,
};

struct SetTimestamp {
    /// `None`: the present.
    time: Option<i64>,
    first: bool,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let time = args.optional::<Timestamp>("TIMESTAMP").map(|time| time.0);
    let first = args.keyword("FIRST").unwrap_or(false);
    if args.keyword::<bool>("DELTA") == Some(true) {
        args.wrong("DELTA", "deprecated, use SetTimestampDelta(TYPE FIRST)");
    }
    args.finish()?;
    Ok(Box::new(SetTimestamp { time: time.filter(|time| *time >= 0), first }))
}

impl Element for SetTimestamp {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let time = self.time.unwrap_or_else(|| cx.wall());
        for packet in batch.packets_mut() {
            if self.first {
                packet.set_annotation(offset::FIRST_TIMESTAMP, time.to_ne_bytes());
            } else {
                packet.annotations_mut().timestamp = time;
            }
        }
    }
}
