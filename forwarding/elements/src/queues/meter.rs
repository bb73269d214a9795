//! Sorting packets by how many there are at present.
//!
//! # Meter: chooses an output by the present rate of packets.
//!
//! Group: queues
//! Usage: `Meter(RATE1 [, RATE2, ...])`
//! Ports: 1 input, at least 2 outputs; push
//!
//! Measures how many packets a second arrive, as a moving average over some milliseconds. While
//! that is below `RATE1`, packets leave by output 0; below `RATE2`, by output 1; and so on. There
//! is one output more than there are rates.
//!
//! - `RATE1`, ...: packets a second, each more than the one before.
//!
//! Handlers:
//! - `rate` (read): the present rate.
//! - `meters` (read): the rates as they are compared, one a line.
//!
//! See also: [BandwidthMeter], [Shaper]
//!
//! # BandwidthMeter: chooses an output by the present bandwidth.
//!
//! Group: queues
//! Usage: `BandwidthMeter(RATE1 [, RATE2, ...])`
//! Ports: 1 input, at least 2 outputs; push
//!
//! As [Meter], but counts bytes.
//!
//! - `RATE1`, ... (bandwidth): bytes a second, each more than the one before: `1 Mbps`.
//!
//! Handlers:
//! - `rate` (read): the present bandwidth, in bytes a second.
//! - `meters` (read): the rates as they are compared, one a line.
//!
//! See also: [Meter], [BandwidthShaper]

use graph::arguments::{Argument, Arguments, Bandwidth, Blame, Refused, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};

use crate::basic::rate::Rate;

/// Binary digits behind the point.
const SCALE: u32 = 10;
/// Milliseconds in a second.
const FREQUENCY: u32 = 1000;

/// The class `Meter`.
pub const METER: Class = Class {
    name: "Meter",
    ports: "1/2-",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("meter.rs"),
    make: |arguments, setup| Meter::make(arguments, setup, false),
};

/// The class `BandwidthMeter`.
pub const BANDWIDTH: Class =
    Class { name: "BandwidthMeter", make: |arguments, setup| Meter::make(arguments, setup, true), ..METER };

struct Meter {
    bytes: bool,
    rate: Rate<SCALE>,
    /// A millisecond's worth each, [`SCALE`] binary digits behind the point, rising.
    meters: Vec<u32>,
}

impl Meter {
    fn make(
        arguments: &mut Arguments<'_>,
        setup: &Setup<'_>,
        bytes: bool,
    ) -> Result<Box<dyn Element>, Refused> {
        let most = u64::from(u32::MAX >> SCALE);
        let scope = arguments.scope();
        let rates = arguments.rest();
        if rates.is_empty() {
            let class = if bytes { BANDWIDTH.name } else { METER.name };
            arguments.wrong(Blame::Element, format!("too few arguments to {class}(bandwidth, ...)"));
        }
        let (mut meters, mut before) = (Vec::new(), None);
        for (index, piece) in rates.iter().enumerate() {
            let number = index + 1;
            let Ok(Bandwidth(rate)) = Bandwidth::parse(&piece.text, &scope) else {
                arguments.wrong(piece, format!("argument {number} syntax error"));
                continue;
            };
            if before.is_some_and(|before| rate <= before) {
                arguments.wrong(piece, format!("rate {number} must be > rate {index}"));
            }
            if rate > most {
                arguments.wrong(piece, format!("rate {number} too large (max {most})"));
            }
            if bytes && piece.text.ends_with(|last: char| last.is_ascii_digit()) {
                arguments.strange(piece, format!("no units for bandwidth argument {number}, assuming Bps"));
            }
            before = Some(rate);
            meters.push(((rate.min(most) << SCALE) / u64::from(FREQUENCY)) as u32);
        }
        if rates.len() + 1 != setup.outputs {
            let wanted = setup.outputs.saturating_sub(1);
            let message = format!("need {wanted} arguments, one less than the number of output ports");
            arguments.wrong(Blame::Element, message);
        }
        arguments.finish()?;
        Ok(Box::new(Meter { bytes, rate: Rate::new(), meters }))
    }
}

/// A millisecond's worth as a second's, in decimal digits.
fn a_second(scaled: u32) -> String {
    unparse::fixed(scaled.saturating_mul(FREQUENCY), SCALE)
}

impl Element for Meter {
    fn class(&self) -> &'static str {
        if self.bytes { BANDWIDTH.name } else { METER.name }
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let now = cx.now();
        for packet in batch.drain() {
            self.rate.update(if self.bytes { packet.total_len() as u64 } else { 1 }, now);
            let rate = self.rate.scaled();
            let output =
                self.meters.iter().position(|meter| rate < u64::from(*meter)).unwrap_or(self.meters.len());
            cx.emit(output, packet);
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("rate"), Handler::read("meters")]
    }

    fn read(&mut self, handler: &str, _: &str, cx: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "rate" => {
                self.rate.update(0, cx.now());
                Ok(self.rate.text(1))
            }
            "meters" => {
                let meters: Vec<String> = self.meters.iter().map(|meter| a_second(*meter)).collect();
                Ok(meters.join("\n"))
            }
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
