//! TtlHistogram: counts packets by their TTL.
//!
//! Group: own
//! Usage: `TtlHistogram([WIDTH])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Expects packets whose network header is marked, of IPv4 or IPv6 (whose hop limit counts as TTL),
//! and passes them on as they came. Hosts begin with 64, 128 or 255, so the histogram tells how far
//! away the senders are, and of which kind. Packets that are neither pass uncounted.
//!
//! - `WIDTH` (1 to 255): how many TTLs are counted together. Default: 1
//!
//! Handlers:
//! - `histogram` (read): a line for each range of TTLs that was seen: its first TTL and the number
//!   of packets
//! - `count` (read): the number of packets
//! - `reset` (write): forgets all that was counted
//!
//! See also: [Counter], [DecIPTTL]

use std::any::Any;

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};

/// What the language knows of the element: its name, its ports, and how one is made.
pub const CLASS: Class = Class {
    name: "TtlHistogram",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ttl_histogram.rs"),
    make,
};

/// Called for each `TtlHistogram(...)` of a text; also when the text is only checked, so it has no
/// effects.
fn make(arguments: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let width = arguments.optional::<u8>("WIDTH").unwrap_or(1);
    if width == 0 {
        arguments.wrong("WIDTH", "must be positive");
    }
    // Whatever is wrong with the arguments has been noted, with its place in the text, and is told
    // all at once.
    arguments.finish()?;
    Ok(Box::new(TtlHistogram { width: width.into(), packets: [0; 256] }))
}

struct TtlHistogram {
    width: usize,
    /// By TTL.
    packets: [u64; 256],
}

impl Element for TtlHistogram {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    /// The data path. Every worker has an element of its own, so counting takes no lock.
    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets() {
            // Bytes came from outside: there may be fewer than a header has.
            let ttl = match packet.network() {
                header @ [first, ..] if first >> 4 == 4 => header.get(8),
                header @ [first, ..] if first >> 4 == 6 => header.get(7),
                _ => None,
            };
            if let Some(&ttl) = ttl {
                self.packets[usize::from(ttl)] += 1;
            }
        }
        // What is still in the batch goes on by output 0.
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("histogram"), Handler::read("count"), Handler::write("reset")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "histogram" => Ok(self.histogram()),
            "count" => Ok(self.packets.iter().sum::<u64>().to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "reset" => self.packets = [0; 256],
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }

    /// The graph has changed, and this element with it (another `WIDTH`): goes on from where the
    /// old one was.
    fn take_state(&mut self, old: Box<dyn Element>) {
        let old: Box<dyn Any> = old;
        if let Ok(old) = old.downcast::<TtlHistogram>() {
            self.packets = old.packets;
        }
    }
}

impl TtlHistogram {
    fn histogram(&self) -> String {
        let ranges = self.packets.chunks(self.width).map(|range| range.iter().sum::<u64>()).enumerate();
        let seen = ranges.filter(|(_, packets)| *packets > 0);
        seen.map(|(number, packets)| format!("{} {packets}\n", number * self.width)).collect()
    }
}
