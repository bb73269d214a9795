//! Discard: throws packets away.
//!
//! Group: traffic
//! Usage: `Discard([ACTIVE, BURST])`
//! Ports: 1 input, no outputs; agnostic
//!
//! On a pull input it pulls packets as fast as they come.
//!
//! - `ACTIVE` (boolean): whether to pull packets at first; true if not given. Only on a pull input
//! - `BURST` (integer): how many packets to pull in a turn, 0 for all that there are; 1 if not
//!   given
//!
//! Handlers:
//! - `count` (read): how many packets it has thrown away
//! - `reset_counts` (write): sets the count to zero
//! - `active` (read, write): whether it pulls packets
//!
//! See also: [Idle], [TimedSink], [Counter]

use graph::arguments::{Arguments, Refused};
use graph::{BATCH, Batch, Class, Context, Element, Handler, HandlerError, Setup};
use wire::Reason;

use crate::basic::{of_type, written};

pub const CLASS: Class = Class {
    name: "Discard",
    ports: "1/0",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("discard.rs"),
    make,
};

struct Discard {
    active: bool,
    /// Packets in a turn.
    burst: u32,
    count: u64,
    pulls: bool,
    batch: Batch,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let active = args.keyword("ACTIVE").unwrap_or(true);
    let burst = match args.keyword("BURST").unwrap_or(1) {
        0 => u32::MAX,
        burst => burst,
    };
    args.finish()?;
    Ok(Box::new(Discard { active, burst, count: 0, pulls: false, batch: Batch::new() }))
}

impl Element for Discard {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.pulls = cx.input_is_pull(0);
        if !self.active && !self.pulls {
            return Err("ACTIVE is meaningless in push context".to_owned());
        }
        if self.pulls {
            cx.announce_task();
            if self.active {
                cx.schedule();
            }
        }
        Ok(())
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        self.count += batch.len() as u64;
        cx.drop_batch(batch, Reason::Discarded);
    }

    fn task(&mut self, cx: &mut Context<'_>) -> bool {
        let mut left = self.burst;
        while left > 0 {
            let pulled = cx.pull(0, (left as usize).min(BATCH), &mut self.batch);
            if pulled == 0 {
                break;
            }
            left = left.saturating_sub(pulled as u32);
            self.count += pulled as u64;
            cx.drop_batch(&mut self.batch, Reason::Discarded);
            cx.flush();
        }
        if self.active {
            cx.schedule();
        }
        left < self.burst
    }

    fn handlers(&self) -> Vec<Handler> {
        let mut handlers = vec![Handler::read("count"), Handler::write("reset_counts")];
        if self.pulls {
            handlers.push(Handler::read_write("active"));
        }
        handlers
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(match handler {
            "count" => self.count.to_string(),
            "active" => self.active.to_string(),
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "reset_counts" => self.count = 0,
            "active" => {
                self.active = written(value, "syntax error", cx)?;
                if self.active {
                    cx.schedule();
                } else {
                    cx.unschedule();
                }
            }
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        if let Some(old) = of_type::<Discard>(old) {
            self.count = old.count;
        }
    }
}
