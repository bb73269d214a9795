//! RandomSample: passes packets on with a probability.
//!
//! Group: basic
//! Usage: `RandomSample([P, SAMPLE, DROP, ACTIVE])`
//! Ports: 1 input, 1 or 2 outputs; first output agnostic, second push
//!
//! Each packet is chosen with probability `P`, by itself, and goes on by output 0. Those that are
//! not leave by output 1, and are dropped when that is not connected.
//!
//! - `P` (0 to 1): the probability that a packet is chosen
//! - `SAMPLE` (0 to 1): the older name of P
//! - `DROP` (0 to 1): the probability that it is not; one of the two must be given
//! - `ACTIVE` (boolean): whether to choose at all; otherwise all packets go on. True if not given
//!
//! Handlers:
//! - `sampling_prob` (read, write): P
//! - `drop_prob` (read, write): DROP
//! - `active` (read, write): ACTIVE
//! - `drops` (read): how many were not chosen
//! - `config` (read, write): its arguments
//!
//! See also: [RandomSwitch], [RED]

use graph::arguments::{Arguments, Blame, Fixed, Refused, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use wire::Reason;

use super::random::Random;
use super::{of_type, written};

pub const CLASS: Class = Class {
    name: "RandomSample",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("random_sample.rs"),
    make,
};

/// Binary digits of a probability.
const DIGITS: u32 = 28;
const ONE: u32 = 1 << DIGITS;

struct RandomSample {
    probability: u32,
    active: bool,
    drops: u64,
    random: Random,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let sample = args.optional::<Fixed<DIGITS>>("P").or(args.keyword("SAMPLE")).map(|sample| sample.0);
    let drop = args.keyword::<Fixed<DIGITS>>("DROP").map(|drop| drop.0);
    let active = args.keyword("ACTIVE").unwrap_or(true);
    if sample.is_some() == drop.is_some() {
        args.wrong(Blame::Element, "specify exactly one of 'P' and 'DROP'");
    }
    for (keyword, probability) in [("P", sample), ("DROP", drop)] {
        if probability.is_some_and(|probability| probability > ONE) {
            args.wrong(keyword, "probability must be between 0 and 1");
        }
    }
    args.finish()?;
    let probability = sample.or(drop.map(|drop| ONE - drop)).ok_or(Refused)?;
    Ok(Box::new(RandomSample { probability, active, drops: 0, random: Random::new() }))
}

impl Element for RandomSample {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        if !self.active || self.probability == ONE {
            return;
        }
        let mut others = 0u64;
        for index in 0..batch.len() {
            others |= u64::from(self.random.below(ONE.into()) >= self.probability.into()) << index;
        }
        self.drops += u64::from(others.count_ones());
        if cx.has_output(1) {
            cx.emit_some(1, batch, others);
        } else {
            batch.take(others, |_, packet| cx.drop(packet, Reason::Filtered));
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        let mut handlers: Vec<Handler> =
            ["sampling_prob", "drop_prob", "active"].map(Handler::read_write).into();
        handlers.extend(["drops", "config"].map(Handler::read));
        handlers
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(match handler {
            "sampling_prob" => unparse::fixed(self.probability, DIGITS),
            "drop_prob" => unparse::fixed(ONE - self.probability, DIGITS),
            "active" => unparse::boolean(self.active).to_owned(),
            "drops" => self.drops.to_string(),
            "config" => {
                let probability = unparse::fixed(self.probability, DIGITS);
                format!("SAMPLE {probability}, ACTIVE {}", unparse::boolean(self.active))
            }
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let message = "must be given a number between 0.0 and 1.0";
        let probability = |cx: &Context<'_>| {
            let Fixed(number) = written::<Fixed<DIGITS>>(value, message, cx)?;
            if number <= ONE { Ok(number) } else { Err(HandlerError::refused(message)) }
        };
        match handler {
            "sampling_prob" => self.probability = probability(cx)?,
            "drop_prob" => self.probability = ONE - probability(cx)?,
            "active" => self.active = written(value, "must be given a boolean", cx)?,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        if let Some(old) = of_type::<RandomSample>(old) {
            self.drops = old.drops;
        }
    }
}
