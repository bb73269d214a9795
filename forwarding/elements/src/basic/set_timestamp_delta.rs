//! SetTimestampDelta: makes timestamps a distance in time.
//!
//! Group: basic
//! Usage: `SetTimestampDelta([TYPE])`
//! Ports: 1 input, 1 output; agnostic
//!
//! What a packet's timestamp becomes depends on `TYPE`:
//!
//! | type | the time |
//! |---|---|
//! | `RANGE` | since the timestamp of the first packet that came by |
//! | `NOW` | from the timestamp until now |
//! | `FIRST` | from the annotation `FIRST_TIMESTAMP` to the timestamp |
//!
//! Packets without a timestamp stay as they are.
//!
//! - `TYPE` (word): as above; `RANGE` if not given
//!
//! Handlers:
//! - `first` (read): the first packet's timestamp
//! - `reset` (write): forgets it
//!
//! See also: [SetTimestamp], [AdjustTimestamp]

use graph::arguments::{Arguments, Blame, Refused, Word, offset, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};

pub const CLASS: Class = Class {
    name: "SetTimestampDelta",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("set_timestamp_delta.rs"),
    make,
};

#[derive(Clone, Copy)]
enum Since {
    FirstPacket,
    Packet,
    FirstTimestamp,
}

struct SetTimestampDelta {
    since: Since,
    /// 0: none came yet.
    first: i64,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let kind = args.keyword::<Word>("TYPE");
    let since = match kind.as_ref().map_or("RANGE", |Word(kind)| kind) {
        "RANGE" => Some(Since::FirstPacket),
        "NOW" => Some(Since::Packet),
        "FIRST" => Some(Since::FirstTimestamp),
        _ => None,
    };
    if since.is_none() {
        args.wrong(Blame::Element, "bad TYPE");
    }
    args.finish()?;
    Ok(Box::new(SetTimestampDelta { since: since.ok_or(Refused)?, first: 0 }))
}

impl Element for SetTimestampDelta {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let now = cx.wall();
        for packet in batch.packets_mut() {
            let time = packet.annotations().timestamp;
            if time == 0 {
                continue;
            }
            if self.first == 0 {
                self.first = time;
            }
            packet.annotations_mut().timestamp = match self.since {
                Since::FirstPacket => time.saturating_sub(self.first),
                Since::Packet => now.saturating_sub(time),
                Since::FirstTimestamp => {
                    time.saturating_sub(i64::from_ne_bytes(packet.annotation(offset::FIRST_TIMESTAMP)))
                }
            };
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("first"), Handler::write("reset")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "first" => Ok(unparse::timestamp(self.first)),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "reset" => self.first = 0,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}
