//! LinkUnqueue: pulls packets, and pushes them as if they had crossed a link.
//!
//! Group: queues
//! Usage: `LinkUnqueue(LATENCY, BANDWIDTH)`
//! Ports: 1 input, 1 output; pull in, push out
//!
//! A link that takes packets one after the other, each as long as its bytes need, and delivers each
//! `LATENCY` after its last byte. So several packets may be under way. The timestamp of a packet is
//! set to when it is delivered. Bytes that a capture left out (the extra length annotation) count.
//!
//! - `LATENCY` (time): how long a byte is under way.
//! - `BANDWIDTH` (bandwidth): bytes a second, at least 100, rounded down to hundreds.
//!
//! Handlers:
//! - `latency` (read, write): as the argument. Writing it loses what is under way.
//! - `bandwidth` (read, write): in bytes a second. Writing it loses what is under way.
//! - `size` (read): packets under way.
//! - `reset` (write): loses what is under way.
//!
//! See also: [DelayUnqueue], [BandwidthRatedUnqueue]

use std::collections::VecDeque;

use graph::arguments::{Bandwidth, Blame, Refused, Timestamp, offset, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError};
use port::Packet;
use wire::Reason;

use crate::basic::{of_type, written};

/// The class `LinkUnqueue`.
pub const CLASS: Class = Class {
    name: "LinkUnqueue",
    ports: "1/1",
    processing: Class::PULL_TO_PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("link_unqueue.rs"),
    make: |arguments, _| {
        let latency = arguments.mandatory::<Timestamp>("LATENCY");
        let bandwidth = arguments.mandatory::<Bandwidth>("BANDWIDTH");
        if bandwidth.is_some_and(|bandwidth| bandwidth.0 < 100) {
            arguments.wrong(Blame::Element, TOO_SMALL);
        }
        arguments.finish()?;
        Ok(Box::new(LinkUnqueue {
            latency: latency.ok_or(Refused)?.0,
            hundreds: bandwidth.ok_or(Refused)?.0 / 100,
            under_way: VecDeque::new(),
            back_to_back: false,
            batch: Batch::new(),
        }))
    },
};

const TOO_SMALL: &str = "bandwidth too small, minimum 100Bps";

/// The link.
pub struct LinkUnqueue {
    latency: i64,
    /// Hundreds of bytes a second.
    hundreds: u64,
    /// In the order of their timestamps, which say when they are delivered.
    under_way: VecDeque<Packet>,
    /// Whether the last packet that was there followed at once.
    back_to_back: bool,
    /// For the packet that is pulled; empty otherwise.
    batch: Batch,
}

impl LinkUnqueue {
    /// Packets under way.
    pub fn length(&self) -> usize {
        self.under_way.len()
    }

    /// How long the link needs for the bytes of a packet, in nanoseconds.
    fn transmission(&self, packet: &Packet) -> i64 {
        let extra = u32::from_ne_bytes(packet.annotation(offset::EXTRA_LENGTH));
        let microseconds = (packet.total_len() as u64 + u64::from(extra)) * 10_000 / self.hundreds.max(1);
        i64::try_from(microseconds).unwrap_or(i64::MAX).saturating_mul(1000)
    }

    fn last(&self) -> Option<i64> {
        self.under_way.back().map(|packet| packet.annotations().timestamp)
    }

    fn first(&self) -> Option<i64> {
        self.under_way.front().map(|packet| packet.annotations().timestamp)
    }
}

impl Element for LinkUnqueue {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn task(&mut self, cx: &mut Context<'_>) -> bool {
        cx.schedule();
        let (mut worked, wall, now) = (false, cx.wall(), cx.now());
        let arrival = wall.saturating_add(self.latency);
        // The next one begins when the last byte of the one before has left.
        while self.last().is_none_or(|last| last <= arrival) {
            cx.pull(0, 1, &mut self.batch);
            let Some(mut packet) = self.batch.drain().next() else {
                self.back_to_back = false;
                break;
            };
            let start = self.last().filter(|_| self.back_to_back).unwrap_or(arrival);
            packet.annotations_mut().timestamp = start.saturating_add(self.transmission(&packet));
            self.under_way.push_back(packet);
            self.back_to_back = true;
            worked = true;
        }
        while self.first().is_some_and(|first| first <= wall) {
            let Some(packet) = self.under_way.pop_front() else { break };
            cx.emit(0, packet);
            cx.flush();
            worked = true;
        }
        if let (Some(first), Some(last)) = (self.first(), self.last()) {
            let next = first.min(last.saturating_sub(self.latency));
            // The time to take in more may have passed already, when there is none.
            let next = if next <= wall { first } else { next };
            cx.wake_at(now.saturating_add_signed(next.saturating_sub(wall)));
        }
        worked
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![
            Handler::read_write("latency"),
            Handler::read_write("bandwidth"),
            Handler::read("size"),
            Handler::write("reset"),
        ]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(match handler {
            "latency" => unparse::interval(self.latency),
            "bandwidth" => (self.hundreds * 100).to_string(),
            "size" => self.under_way.len().to_string(),
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "latency" => {
                self.latency = written::<Timestamp>(value, "latency must be a timestamp", cx)?.0;
            }
            "bandwidth" => match written::<Bandwidth>(value, "invalid bandwidth", cx)?.0 {
                0..100 => return Err(HandlerError::refused(TOO_SMALL)),
                bandwidth => self.hundreds = bandwidth / 100,
            },
            "reset" => {}
            _ => return Err(HandlerError::unknown(handler)),
        }
        self.under_way.drain(..).for_each(|packet| cx.drop(packet, Reason::Discarded));
        cx.schedule();
        Ok(())
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        if let Some(old) = of_type::<LinkUnqueue>(old) {
            (self.under_way, self.back_to_back) = (old.under_way, old.back_to_back);
        }
    }
}
