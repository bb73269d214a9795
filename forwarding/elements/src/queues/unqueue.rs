//! Unqueue: pulls packets and pushes them.
//!
//! Group: queues
//! Usage: `Unqueue([BURST, ACTIVE, LIMIT])`
//! Ports: 1 input, 1 output; pull in, push out
//!
//! Whenever it has its turn it pulls up to `BURST` packets and pushes them out.
//!
//! - `BURST` (integer): packets a turn; negative: as many as there are. Default: 1.
//! - `ACTIVE` (boolean): whether it does anything. Default: true.
//! - `LIMIT` (integer): it moves this many packets in all, and then no more; negative: any number.
//!   Default: -1.
//!
//! Handlers:
//! - `active` (read, write): as the argument.
//! - `count` (read): packets moved so far.
//! - `burst` (read, write): as the argument.
//! - `limit` (read, write): as the argument.
//! - `reset` (write): sets `count` to 0.
//! - `reset_counts` (write): the same.
//!
//! See also: [RatedUnqueue], [BandwidthRatedUnqueue], [Queue]

use graph::arguments::unparse;
use graph::{BATCH, Batch, Class, Context, Element, Handler, HandlerError};

use crate::basic::{of_type, written};

/// The class `Unqueue`.
pub const CLASS: Class = Class {
    name: "Unqueue",
    ports: "1/1",
    processing: Class::PULL_TO_PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("unqueue.rs"),
    make: |arguments, _| {
        let burst = arguments.optional("BURST").unwrap_or(1);
        let active = arguments.keyword("ACTIVE").unwrap_or(true);
        let limit = arguments.keyword("LIMIT").unwrap_or(-1);
        if burst == 0 {
            arguments.strange("BURST", "BURST size 0, no packets will be pulled");
        }
        arguments.finish()?;
        Ok(Box::new(Unqueue { burst: endless(burst), active, limit, count: 0, batch: Batch::new() }))
    },
};

struct Unqueue {
    burst: i32,
    active: bool,
    limit: i32,
    count: u32,
    /// For a turn's packets; empty between turns.
    batch: Batch,
}

fn endless(burst: i32) -> i32 {
    if burst < 0 { i32::MAX } else { burst }
}

impl Unqueue {
    /// How many more may be moved.
    fn left(&self) -> u32 {
        u32::try_from(self.limit).map_or(u32::MAX, |limit| limit.saturating_sub(self.count))
    }
}

impl Element for Unqueue {
    fn class(&self) -> &'static str {
        "Unqueue"
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        cx.announce_task();
        if self.active {
            cx.schedule();
        }
        Ok(())
    }

    fn task(&mut self, cx: &mut Context<'_>) -> bool {
        let mut quota = self.left().min(self.burst as u32) as usize;
        if !self.active || (quota == 0 && self.burst != 0) {
            return false;
        }
        cx.schedule();
        let mut worked = false;
        while quota > 0 {
            // What was pulled last goes out when the turn is over; what follows must not overtake
            // it.
            if worked {
                cx.flush();
            }
            let moved = cx.pull(0, quota.min(BATCH), &mut self.batch);
            if moved == 0 {
                break;
            }
            worked = true;
            quota -= moved;
            self.count = self.count.wrapping_add(moved as u32);
            cx.emit_batch(0, &mut self.batch);
        }
        worked
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![
            Handler::read_write("active"),
            Handler::read("count"),
            Handler::read_write("burst"),
            Handler::read_write("limit"),
            Handler::write("reset"),
            Handler::write("reset_counts"),
        ]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(match handler {
            "active" => unparse::boolean(self.active).to_owned(),
            "count" => self.count.to_string(),
            "burst" => self.burst.to_string(),
            "limit" => self.limit.to_string(),
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "active" => self.active = written(value, "syntax error", cx)?,
            "burst" => self.burst = endless(written(value, "syntax error", cx)?),
            "limit" => self.limit = written(value, "syntax error", cx)?,
            "reset" | "reset_counts" => self.count = 0,
            _ => return Err(HandlerError::unknown(handler)),
        }
        if self.active && self.left() > 0 {
            cx.schedule();
        }
        Ok(())
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        if let Some(old) = of_type::<Unqueue>(old) {
            self.count = old.count;
        }
    }
}
