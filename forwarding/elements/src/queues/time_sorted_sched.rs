//! TimeSortedSched: pulls the packet with the earliest timestamp.
//!
//! Group: queues
//! Usage: `TimeSortedSched([STOP, BUFFER])`
//! Ports: any number of inputs, 1 output; pull
//!
//! Merges streams of packets that are each in the order of time, such as dumps of several
//! interfaces, into one. From each input up to `BUFFER` packets are held to choose from, so streams
//! in which a packet is late by less come out in order as well.
//!
//! - `STOP` (boolean): whether to stop the program when no input has packets any more. Default:
//!   false.
//! - `BUFFER` (unsigned): packets held for each input, at least 1. Default: 1.
//!
//! Handlers:
//! - `well_ordered` (read): whether packets came out in order so far.
//!
//! See also: [FromDump], [FromIPSummaryDump], [RoundRobinSched]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use graph::arguments::{Arguments, Refused, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;

/// The class `TimeSortedSched`.
pub const CLASS: Class = Class {
    name: "TimeSortedSched",
    ports: "-/1",
    processing: Class::PULL,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("time_sorted_sched.rs"),
    make,
};

/// So often in a row nothing comes before it is the end: what fills a queue may have its turn in
/// between.
const PATIENCE: u32 = 16;

fn make(arguments: &mut Arguments<'_>, setup: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let stop = arguments.keyword("STOP").unwrap_or(false);
    let buffer = arguments.keyword::<u32>("BUFFER").unwrap_or(1);
    if buffer == 0 {
        arguments.wrong("BUFFER", "must be at least 1");
    }
    arguments.finish()?;
    Ok(Box::new(TimeSortedSched {
        stop,
        held: vec![buffer as usize; setup.inputs],
        places: BinaryHeap::new(),
        packets: Vec::new(),
        free: Vec::new(),
        count: 0,
        last: 0,
        well_ordered: true,
        failed: 0,
        batch: Batch::new(),
    }))
}

struct TimeSortedSched {
    stop: bool,
    /// How many packets more may be held, for each input.
    held: Vec<usize>,
    /// Timestamp, how many came before, and place of each packet, the earliest first.
    places: BinaryHeap<Reverse<(i64, u64, usize)>>,
    /// The packets that are held, with their inputs.
    packets: Vec<Option<(Packet, usize)>>,
    /// Places where none is.
    free: Vec<usize>,
    /// Packets that came.
    count: u64,
    /// The timestamp of the packet before.
    last: i64,
    well_ordered: bool,
    /// How often in a row nothing came.
    failed: u32,
    /// For the packet that is pulled; empty otherwise.
    batch: Batch,
}

impl TimeSortedSched {
    fn fill(&mut self, cx: &mut Context<'_>) {
        for input in 0..self.held.len() {
            while self.held[input] > 0 && cx.pull(input, 1, &mut self.batch) > 0 {
                let Some(packet) = self.batch.drain().next() else { break };
                let time = packet.annotations().timestamp;
                let place = self.free.pop().unwrap_or_else(|| {
                    self.packets.push(None);
                    self.packets.len() - 1
                });
                self.packets[place] = Some((packet, input));
                self.places.push(Reverse((time, self.count, place)));
                self.count += 1;
                self.held[input] -= 1;
            }
        }
    }

    fn earliest(&mut self) -> Option<Packet> {
        let Reverse((time, _, place)) = self.places.pop()?;
        let (packet, input) = self.packets[place].take()?;
        self.free.push(place);
        self.held[input] += 1;
        if time != 0 {
            self.well_ordered &= self.last == 0 || time >= self.last;
            self.last = time;
        }
        Some(packet)
    }
}

impl Element for TimeSortedSched {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn pull(&mut self, _output: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        while batch.len() < quota {
            self.fill(cx);
            let Some(packet) = self.earliest() else { break };
            self.failed = 0;
            // There is room, so none comes back.
            let _ = batch.push(packet);
        }
        if batch.is_empty() && self.stop && self.failed < PATIENCE {
            self.failed += 1;
            if self.failed == PATIENCE {
                cx.stop();
            } else {
                cx.wake_at(0);
            }
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("well_ordered")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "well_ordered" => Ok(unparse::boolean(self.well_ordered).to_owned()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
