//! AverageCounter: counts packets and bytes, and how many there were a second in all the time.
//!
//! Group: basic
//! Usage: `AverageCounter([IGNORE])`
//! Ports: 1 input, 1 output; agnostic
//!
//! The time is that from the first packet to the last. So it measures an experiment, while
//! [Counter] tells what goes on now.
//!
//! - `IGNORE` (integer): so many seconds after the first packet are not counted; 0 if not given
//!
//! Handlers:
//! - `count` (read): packets
//! - `byte_count` (read): bytes
//! - `rate` (read): packets per second
//! - `byte_rate` (read): bytes per second
//! - `reset` (write): begins anew
//!
//! See also: [Counter]

use graph::arguments::{Arguments, Refused, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};

use super::of_type;

pub const CLASS: Class = Class {
    name: "AverageCounter",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("average_counter.rs"),
    make,
};

struct AverageCounter {
    /// Milliseconds.
    ignore: u64,
    counts: Counts,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    packets: u64,
    bytes: u64,
    /// When the first packet and the last came, in milliseconds.
    times: Option<(u64, u64)>,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let ignore = args.optional::<u32>("IGNORE").unwrap_or(0);
    args.finish()?;
    Ok(Box::new(AverageCounter { ignore: u64::from(ignore) * 1000, counts: Counts::default() }))
}

impl AverageCounter {
    fn per_second(&self, count: u64) -> String {
        let (first, last) = self.counts.times.unwrap_or_default();
        let milliseconds = (last - first).saturating_sub(self.ignore).max(1);
        unparse::real(count as f64 * 1000.0 / milliseconds as f64)
    }
}

impl Element for AverageCounter {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let now = cx.now() / 1_000_000;
        let (first, _) = self.counts.times.unwrap_or((now, now));
        self.counts.times = Some((first, now.max(first)));
        if now.saturating_sub(first) >= self.ignore {
            self.counts.packets += batch.len() as u64;
            self.counts.bytes += batch.packets().iter().map(|packet| packet.total_len() as u64).sum::<u64>();
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        let read = ["count", "byte_count", "rate", "byte_rate"].map(Handler::read);
        read.into_iter().chain([Handler::write("reset")]).collect()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(match handler {
            "count" => self.counts.packets.to_string(),
            "byte_count" => self.counts.bytes.to_string(),
            "rate" => self.per_second(self.counts.packets),
            "byte_rate" => self.per_second(self.counts.bytes),
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn write(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "reset" => self.counts = Counts::default(),
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        if let Some(old) = of_type::<AverageCounter>(old) {
            self.counts = old.counts;
        }
    }
}
