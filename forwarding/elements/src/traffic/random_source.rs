//! RandomSource: makes packets of random bytes as fast as they are taken.
//!
//! Group: traffic
//! Usage: `RandomSource(LENGTH [, LIMIT, BURST, ACTIVE, TIMESTAMP, STOP, END_CALL])`
//! Ports: no inputs, 1 output; agnostic
//!
//! As [InfiniteSource], for trying out what reads packets.
//!
//! - `LENGTH` (integer): the length of packets, at most 69,120
//! - `LIMIT` (integer): how many packets to make in all; -1, or not given: no limit
//! - `BURST` (integer): how many packets to push in a turn; 1 if not given
//! - `ACTIVE` (boolean): whether to make any at first; true if not given
//! - `TIMESTAMP` (boolean): whether packets carry the time when they were made; true if not given
//! - `STOP` (boolean): whether to stop the program after LIMIT packets; false if not given
//! - `END_CALL` (handler [value]): a handler to write after LIMIT packets
//!
//! Handlers:
//! - `limit` (read, write): LIMIT
//! - `burst` (read, write): BURST
//! - `active` (read, write): whether it makes packets
//! - `count` (read): how many it has made
//! - `reset` (write): sets the count to zero, so that it makes LIMIT packets again
//! - `length` (read, write): LENGTH
//! - `config` (read, write): its arguments
//!
//! See also: [InfiniteSource]

use graph::arguments::{Arguments, Refused};
use graph::{Class, Element, Setup};

use super::contents::TOO_LONG;
use super::infinite_source::{Contents, Source};

pub const CLASS: Class = Class {
    name: "RandomSource",
    ports: "0/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("random_source.rs"),
    make,
};

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let length = args.mandatory("LENGTH").unwrap_or(0);
    if !(0..TOO_LONG).contains(&length) {
        args.wrong("LENGTH", format!("bad length {length}"));
    }
    Source::read(CLASS.name, args, |_| Contents::random(length.clamp(0, TOO_LONG)))
}
