//! Letting packets through at a limited rate, and the others another way.
//!
//! # RatedSplitter: splits packets off that are above a rate.
//!
//! Group: queues
//! Usage: `RatedSplitter(RATE [, BURST_DURATION, BURST_SIZE])`
//! Ports: 1 input, 1-2 outputs; push
//!
//! A token bucket fills at `RATE` tokens a second, up to a capacity. A packet that finds a token
//! takes it and leaves by output 0; the others leave by output 1, and are dropped when that is not
//! connected. At most one of the burst arguments may be given.
//!
//! - `RATE` (unsigned): packets a second.
//! - `BURST_DURATION` (time): the capacity is what this time brings. Default: 20 ms.
//! - `BURST_SIZE` (unsigned): the capacity in packets.
//!
//! Handlers:
//! - `rate` (read, write): packets a second. Another rate leaves the bucket as full as it is.
//! - `config` (read, write): its rate; written, all its arguments.
//!
//! See also: [BandwidthRatedSplitter], [RatedUnqueue], [Meter]
//!
//! # BandwidthRatedSplitter: splits packets off that are above a bandwidth.
//!
//! Group: queues
//! Usage: `BandwidthRatedSplitter(RATE [, BURST_DURATION, BURST_BYTES])`
//! Ports: 1 input, 1-2 outputs; push
//!
//! As [RatedSplitter], with a token for each byte. A packet passes while the bucket is not more
//! than empty, and takes its length out of it; so one may take more than there is, and the next
//! ones pay for it.
//!
//! - `RATE` (bandwidth): bytes a second: `384Kbps`, `10 MB/s`.
//! - `BURST_DURATION` (time): the capacity is what this time brings. Default: 20 ms.
//! - `BURST_BYTES` (unsigned): the capacity in bytes.
//!
//! Handlers:
//! - `rate` (read, write): the bandwidth.
//! - `config` (read, write): its rate; written, all its arguments.
//!
//! See also: [RatedSplitter], [BandwidthRatedUnqueue], [BandwidthMeter]

use graph::arguments::unparse;
use graph::{Batch, Class, Context, Element, Handler, HandlerError};
use wire::Reason;

use super::rated_unqueue::{FLOOR, limits};
use super::token_bucket::TokenBucket;
use crate::basic::of_type;

/// The class `RatedSplitter`.
pub const RATED: Class = Class {
    name: "RatedSplitter",
    ports: "1/1-2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("rated_splitter.rs"),
    make: |arguments, _| Ok(Box::new(RatedSplitter::new(false, limits(arguments, false)?))),
};

/// The class `BandwidthRatedSplitter`.
pub const BANDWIDTH: Class = Class {
    name: "BandwidthRatedSplitter",
    make: |arguments, _| Ok(Box::new(RatedSplitter::new(true, limits(arguments, true)?))),
    ..RATED
};

struct RatedSplitter {
    bytes: bool,
    bucket: TokenBucket,
}

impl RatedSplitter {
    fn new(bytes: bool, (rate, capacity): (u32, u32)) -> RatedSplitter {
        RatedSplitter { bytes, bucket: TokenBucket::new(rate, capacity) }
    }

    /// Whether a packet passes, which takes its tokens out.
    fn pays(&mut self, length: usize) -> bool {
        let (needed, price) =
            if self.bytes { (FLOOR, u32::try_from(length).unwrap_or(u32::MAX)) } else { (1, 1) };
        let pays = self.bucket.contains(needed);
        if pays {
            self.bucket.remove(price);
        }
        pays
    }
}

impl Element for RatedSplitter {
    fn class(&self) -> &'static str {
        if self.bytes { BANDWIDTH.name } else { RATED.name }
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        self.bucket.fill(cx.now());
        let mut others = 0u64;
        for (index, packet) in batch.packets().iter().enumerate() {
            others |= u64::from(!self.pays(packet.total_len())) << index;
        }
        if cx.has_output(1) {
            cx.emit_some(1, batch, others);
        } else {
            batch.take(others, |_, packet| cx.drop(packet, Reason::Filtered));
        }
        cx.emit_batch(0, batch);
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("rate").replacing(Some(0), "RATE"), Handler::read("config")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "rate" | "config" if self.bytes => Ok(unparse::bandwidth(self.bucket.rate().into())),
            "rate" | "config" => Ok(self.bucket.rate().to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn succeed(&mut self, old: Box<dyn Element>, _: &mut Context<'_>) {
        if let Some(old) = of_type::<RatedSplitter>(old) {
            self.bucket = self.bucket.as_full_as(&old.bucket);
        }
    }
}
