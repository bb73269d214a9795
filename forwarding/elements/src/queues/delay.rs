//! Holding packets until a time after their timestamp has passed.
//!
//! # DelayShaper: delays packets that are pulled through it.
//!
//! Group: queues
//! Usage: `DelayShaper(DELAY)`
//! Ports: 1 input, 1 output; pull
//!
//! A packet can be pulled out once `DELAY` has passed since its timestamp; its timestamp is then
//! that of the moment. One without a timestamp gets it when it is pulled in. One packet is held at
//! a time, and what is behind it waits in the queue in front.
//!
//! - `DELAY` (time): how long.
//!
//! Handlers:
//! - `delay` (read, write): how long.
//!
//! See also: [DelayUnqueue], [LinkUnqueue], [Shaper]
//!
//! # DelayUnqueue: pulls packets, and pushes them after a delay.
//!
//! Group: queues
//! Usage: `DelayUnqueue(DELAY)`
//! Ports: 1 input, 1 output; pull in, push out
//!
//! A packet goes out once `DELAY` has passed since its timestamp, which is set to that time. One
//! without a timestamp gets it when it is pulled in. One packet is held at a time, and what is
//! behind it waits in the queue in front.
//!
//! - `DELAY` (time): how long.
//!
//! Handlers:
//! - `delay` (read, write): how long.
//!
//! See also: [DelayShaper], [LinkUnqueue], [RatedUnqueue]

use graph::arguments::{Arguments, Refused, Timestamp, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError};
use port::Packet;

use crate::basic::{of_type, written};

/// The class `DelayShaper`.
pub const SHAPER: Class = Class {
    name: "DelayShaper",
    ports: "1/1",
    processing: Class::PULL,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("delay.rs"),
    make: |arguments, _| Ok(Box::new(DelayShaper(Held::new(arguments)?))),
};

/// The class `DelayUnqueue`.
pub const UNQUEUE: Class = Class {
    name: "DelayUnqueue",
    processing: Class::PULL_TO_PUSH,
    make: |arguments, _| Ok(Box::new(DelayUnqueue(Held::new(arguments)?))),
    ..SHAPER
};

/// The packet that waits for its time.
struct Held {
    delay: i64,
    packet: Option<Packet>,
    /// For the packet that is pulled; empty otherwise.
    batch: Batch,
}

impl Held {
    fn new(arguments: &mut Arguments<'_>) -> Result<Held, Refused> {
        let delay = arguments.mandatory::<Timestamp>("DELAY");
        arguments.finish()?;
        Ok(Held { delay: delay.ok_or(Refused)?.0, packet: None, batch: Batch::new() })
    }

    /// A packet whose time has come; else who waits shall ask again when it has.
    fn ready(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let wall = cx.wall();
        if self.packet.is_none() {
            cx.pull(0, 1, &mut self.batch);
            let mut packet = self.batch.drain().next()?;
            let time = &mut packet.annotations_mut().timestamp;
            if (0..1_000_000_000).contains(time) {
                *time = wall;
            }
            *time = time.saturating_add(self.delay);
            self.packet = Some(packet);
        }
        let due = self.packet.as_ref()?.annotations().timestamp;
        if due <= wall {
            return self.packet.take();
        }
        let at = cx.now().saturating_add_signed(due.saturating_sub(wall));
        cx.wake_at(at);
        None
    }

    fn read(&self, handler: &str) -> Result<String, HandlerError> {
        match handler {
            "delay" => Ok(unparse::interval(self.delay)),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        if handler != "delay" {
            return Err(HandlerError::unknown(handler));
        }
        self.delay = written::<Timestamp>(value, "delay must be a timestamp", cx)?.0;
        Ok(())
    }
}

struct DelayShaper(Held);

impl Element for DelayShaper {
    fn class(&self) -> &'static str {
        SHAPER.name
    }

    fn pull(&mut self, _output: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        while batch.len() < quota {
            let Some(mut packet) = self.0.ready(cx) else { break };
            packet.annotations_mut().timestamp = cx.wall();
            // There is room, so none comes back.
            let _ = batch.push(packet);
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read_write("delay")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        self.0.read(handler)
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.0.write(handler, value, cx)
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        if let Some(old) = of_type::<DelayShaper>(old) {
            self.0.packet = old.0.packet;
        }
    }
}

struct DelayUnqueue(Held);

impl Element for DelayUnqueue {
    fn class(&self) -> &'static str {
        UNQUEUE.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn task(&mut self, cx: &mut Context<'_>) -> bool {
        cx.schedule();
        let mut worked = false;
        while let Some(packet) = self.0.ready(cx) {
            cx.emit(0, packet);
            cx.flush();
            worked = true;
        }
        worked
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read_write("delay")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        self.0.read(handler)
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.0.write(handler, value, cx)
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        if let Some(old) = of_type::<DelayUnqueue>(old) {
            self.0.packet = old.0.packet;
        }
    }
}
