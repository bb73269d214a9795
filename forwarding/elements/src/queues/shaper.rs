//! Letting packets be pulled at an even rate.
//!
//! # Shaper: limits how many packets a second can be pulled.
//!
//! Group: queues
//! Usage: `Shaper(RATE)`
//! Ports: 1 input, 1-2 outputs; pull
//!
//! Whoever pulls from output 0 gets `RATE` packets a second at most, with even gaps; after a pause,
//! up to one second's packets at once. From output 1, if it is connected, a packet can be pulled
//! just when none can be from output 0.
//!
//! - `RATE` (unsigned): packets a second.
//!
//! Handlers:
//! - `rate` (read, write): packets a second.
//! - `reset` (write): forgets what was let through.
//! - `config` (read, write): its rate.
//!
//! See also: [BandwidthShaper], [RatedUnqueue]
//!
//! # BandwidthShaper: limits how many bytes a second can be pulled.
//!
//! Group: queues
//! Usage: `BandwidthShaper(RATE)`
//! Ports: 1 input, 1 output; pull
//!
//! As [Shaper], but counts the bytes of packets. A packet is let through when the ones before it
//! are paid for.
//!
//! - `RATE` (bandwidth): bytes a second: `384Kbps`, `10 MB/s`.
//!
//! Handlers:
//! - `rate` (read, write): the bandwidth.
//! - `reset` (write): forgets what was let through.
//! - `config` (read, write): its rate.
//!
//! See also: [Shaper], [BandwidthRatedUnqueue]

use graph::arguments::{Arguments, Refused, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError};

use super::gap_rate::{GapRate, MOST};
use crate::basic::of_type;

/// The class `Shaper`.
pub const SHAPER: Class = Class {
    name: "Shaper",
    ports: "1/1-2",
    processing: Class::PULL,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("shaper.rs"),
    make: |arguments, _| Ok(Box::new(Shaper { bytes: false, rate: GapRate::new(rate(arguments, false)?) })),
};

/// The class `BandwidthShaper`.
pub const BANDWIDTH: Class = Class {
    name: "BandwidthShaper",
    ports: "1/1",
    make: |arguments, _| Ok(Box::new(Shaper { bytes: true, rate: GapRate::new(rate(arguments, true)?) })),
    ..SHAPER
};

fn rate(arguments: &mut Arguments<'_>, bytes: bool) -> Result<u32, Refused> {
    let rate = super::rate(arguments, bytes);
    if rate.is_some_and(|rate| rate > MOST) {
        arguments.strange("RATE", format!("rate too large; lowered to {MOST}"));
    }
    arguments.finish()?;
    rate.ok_or(Refused)
}

struct Shaper {
    bytes: bool,
    rate: GapRate,
}

impl Element for Shaper {
    fn class(&self) -> &'static str {
        if self.bytes { BANDWIDTH.name } else { SHAPER.name }
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn pull(&mut self, output: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let wall = cx.wall();
        while batch.len() < quota {
            if self.rate.is_due(wall) != (output == 0) {
                break;
            }
            if cx.pull(0, 1, batch) == 0 {
                return;
            }
            if output == 0 {
                let length = batch.packets().last().map_or(0, |packet| packet.total_len());
                self.rate.note(if self.bytes { length as u32 } else { 1 });
            }
        }
        // Whoever pulls shall ask again when the next one is due.
        if batch.is_empty()
            && let Some(next) = self.rate.next()
        {
            let at = cx.now().saturating_add_signed(next.saturating_sub(wall));
            cx.wake_at(at);
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![
            Handler::read("rate").replacing(Some(0), "RATE"),
            Handler::read("config"),
            Handler::write("reset"),
        ]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "rate" | "config" if self.bytes => Ok(unparse::bandwidth(self.rate.rate().into())),
            "rate" | "config" => Ok(self.rate.rate().to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "reset" => self.rate.reset(),
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }

    fn succeed(&mut self, old: Box<dyn Element>, cx: &mut Context<'_>) {
        if let Some(old) = of_type::<Shaper>(old) {
            let rate = std::mem::replace(&mut self.rate, old.rate).rate();
            self.rate.change(rate, cx.wall());
        }
    }
}
