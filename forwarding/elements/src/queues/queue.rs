//! One ring of packets, in several disciplines.
//!
//! What Click has as a family of classes differs in where a packet goes that finds the queue full,
//! in whether sources are told ([`Element::full`]), and in whether there is an input to the front.
//! All threads that share a graph run it one after the other, so there is nothing to lock.
//!
//! # Queue: stores packets in a FIFO queue.
//!
//! Group: queues
//! Usage: `Queue([CAPACITY])`
//! Ports: 1 input, 1-2 outputs; push in, pull out, the second output push
//!
//! Keeps what is pushed to it, in order, until it is pulled out. A packet that arrives at a full
//! queue is dropped, or leaves by output 1 if that is connected. Sources that make packets as fast
//! as they can (InfiniteSource) stop while the queues behind them are full, and go on when there is
//! room.
//!
//! When the first packet is dropped, the queue says so once: `overflow`.
//!
//! - `CAPACITY` (unsigned): how many packets it holds. Default: 1000.
//!
//! Handlers:
//! - `length` (read): how many packets are in the queue now.
//! - `highwater_length` (read): the most that were ever in it, or since `reset_counts`.
//! - `capacity` (read, write): how many it holds. Packets that do not fit any more are dropped.
//! - `drops` (read): how many were dropped because it was full.
//! - `reset_counts` (write): sets `drops` to 0 and `highwater_length` to the present length.
//! - `reset` (write): empties it, by output 1 if that is connected.
//! - `config` (read, write): its arguments.
//!
//! See also: [SimpleQueue], [NotifierQueue], [FrontDropQueue], [MixedQueue], [RED], [Unqueue]
//!
//! # FullNoteQueue: another name for a Queue.
//!
//! Group: queues
//! Usage: `FullNoteQueue([CAPACITY])`
//! Ports: 1 input, 1-2 outputs; push in, pull out, the second output push
//!
//! See [Queue].
//!
//! See also: [Queue]
//!
//! # QuickNoteQueue: a Queue that is quick to say that it is empty.
//!
//! Group: queues
//! Usage: `QuickNoteQueue([CAPACITY])`
//! Ports: 1 input, 1-2 outputs; push in, pull out, the second output push
//!
//! The same as [Queue]: nobody here waits for a queue to say that it is empty.
//!
//! See also: [Queue]
//!
//! # ThreadSafeQueue: a Queue for several threads.
//!
//! Group: queues
//! Usage: `ThreadSafeQueue([CAPACITY])`
//! Ports: 1 input, 1-2 outputs; push in, pull out, the second output push
//!
//! The same as [Queue]: each thread has a graph of its own, so that every queue is safe.
//!
//! See also: [Queue]
//!
//! # NotifierQueue: a queue that does not tell sources when it is full.
//!
//! Group: queues
//! Usage: `NotifierQueue([CAPACITY])`
//! Ports: 1 input, 1-2 outputs; push in, pull out, the second output push
//!
//! As [Queue], with the same arguments and handlers; but a source that makes packets as fast as it
//! can overflows it.
//!
//! See also: [Queue]
//!
//! # SimpleQueue: a queue that tells nobody anything.
//!
//! Group: queues
//! Usage: `SimpleQueue([CAPACITY])`
//! Ports: 1 input, 1-2 outputs; push in, pull out, the second output push
//!
//! As [Queue], with the same arguments and handlers; but a source that makes packets as fast as it
//! can overflows it.
//!
//! See also: [Queue]
//!
//! # FrontDropQueue: a queue that drops the oldest packet when it is full.
//!
//! Group: queues
//! Usage: `FrontDropQueue([CAPACITY])`
//! Ports: 1 input, 1-2 outputs; push in, pull out, the second output push
//!
//! As [Queue], with the same arguments and handlers; but when it is full the packet in front makes
//! room for the new one, and when its capacity shrinks the newest stay. For traffic of which only
//! the latest is of use.
//!
//! See also: [Queue]
//!
//! # MixedQueue: a queue with an input to the back and one to the front.
//!
//! Group: queues
//! Usage: `MixedQueue([CAPACITY])`
//! Ports: 2 inputs, 1-2 outputs; push in, pull out, the second output push
//!
//! As [Queue], with the same arguments and handlers; but what is pushed to input 1 goes to the
//! front, and is the next to be pulled out. When it is full, a packet for the back is dropped, and
//! one for the front makes the one at the back go.
//!
//! See also: [Queue]

use std::collections::VecDeque;

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError};
use port::Packet;
use wire::Reason;

use crate::basic::of_type;

/// Capacity of a queue that was not given another.
const CAPACITY: u32 = 1000;
/// Places taken in advance, so that no usual queue takes memory while packets flow.
const RESERVED: usize = 1 << 14;

/// What distinguishes the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Discipline {
    /// First in, first out, and the last to come is dropped.
    Fifo,
    /// The same, and sources are told.
    Telling,
    /// The first one is dropped.
    FrontDrop,
    /// Input 1 is to the front.
    Mixed,
}

macro_rules! queue {
    ($constant:ident, $name:literal, $discipline:ident, $inputs:literal) => {
        #[doc = concat!("The class `", $name, "`.")]
        pub const $constant: Class = Class {
            name: $name,
            ports: concat!($inputs, "/1-2"),
            processing: "h/lh",
            flow: Class::COMPLETE_FLOW,
            source: include_str!("queue.rs"),
            make: |arguments, _| {
                let capacity = capacity(arguments)?;
                Ok(Box::new(Queue::new($name, Discipline::$discipline, capacity)))
            },
        };
    };
}

queue!(QUEUE, "Queue", Telling, "1");
queue!(FULL_NOTE_QUEUE, "FullNoteQueue", Telling, "1");
queue!(QUICK_NOTE_QUEUE, "QuickNoteQueue", Telling, "1");
queue!(THREAD_SAFE_QUEUE, "ThreadSafeQueue", Telling, "1");
queue!(NOTIFIER_QUEUE, "NotifierQueue", Fifo, "1");
queue!(SIMPLE_QUEUE, "SimpleQueue", Fifo, "1");
queue!(FRONT_DROP_QUEUE, "FrontDropQueue", FrontDrop, "1");
queue!(MIXED_QUEUE, "MixedQueue", Mixed, "2");

fn capacity(arguments: &mut Arguments<'_>) -> Result<u32, Refused> {
    let capacity = arguments.optional("CAPACITY").unwrap_or(CAPACITY);
    arguments.finish()?;
    Ok(capacity)
}

/// A queue of any of the classes.
pub struct Queue {
    class: &'static str,
    discipline: Discipline,
    packets: VecDeque<Packet>,
    /// A batch that came while there was nothing else: it goes out as it came, and no packet
    /// of it is moved. Empty while `packets` has any.
    whole: Batch,
    capacity: usize,
    drops: u64,
    highwater: usize,
}

impl Queue {
    fn new(class: &'static str, discipline: Discipline, capacity: u32) -> Queue {
        let capacity = capacity as usize;
        Queue {
            class,
            discipline,
            packets: VecDeque::with_capacity(capacity.min(RESERVED)),
            whole: Batch::new(),
            capacity,
            drops: 0,
            highwater: 0,
        }
    }

    /// How many packets are in it.
    pub fn length(&self) -> usize {
        self.packets.len() + self.whole.len()
    }

    fn is_full(&self) -> bool {
        self.length() >= self.capacity
    }

    /// The packets one by one.
    fn single(&mut self) -> &mut VecDeque<Packet> {
        self.packets.extend(self.whole.drain());
        &mut self.packets
    }

    fn store(&mut self, input: usize, packet: Packet, cx: &mut Context<'_>) {
        self.single();
        let to_front = self.discipline == Discipline::Mixed && input == 1;
        if self.is_full() {
            if self.drops == 0 && self.capacity > 0 {
                let line = format!("{} :: {}: overflow", cx.name(), self.class);
                cx.say(&line);
            }
            self.drops += 1;
            let victim = match self.discipline {
                Discipline::FrontDrop => self.packets.pop_front(),
                Discipline::Mixed if to_front => self.packets.pop_back(),
                _ => None,
            };
            match victim {
                Some(victim) => refuse(victim, Reason::QueueFull, cx),
                None => return refuse(packet, Reason::QueueFull, cx),
            }
        }
        if to_front {
            self.packets.push_front(packet);
        } else {
            self.packets.push_back(packet);
        }
        self.highwater = self.highwater.max(self.packets.len());
    }

    /// What does not fit goes.
    fn shrink(&mut self, cx: &mut Context<'_>) {
        if self.length() <= self.capacity {
            return;
        }
        self.single();
        while self.packets.len() > self.capacity {
            let gone = match self.discipline {
                Discipline::FrontDrop => self.packets.pop_front(),
                _ => self.packets.pop_back(),
            };
            gone.into_iter().for_each(|packet| cx.drop(packet, Reason::QueueFull));
        }
    }
}

/// Lets a packet go by output 1, or drops it.
fn refuse(packet: Packet, reason: Reason, cx: &mut Context<'_>) {
    if cx.has_output(1) {
        cx.emit(1, packet);
    } else {
        cx.drop(packet, reason);
    }
}

impl Element for Queue {
    fn class(&self) -> &'static str {
        self.class
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn full(&self) -> Option<bool> {
        (self.discipline == Discipline::Telling).then(|| self.is_full())
    }

    fn push(&mut self, input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        if self.discipline != Discipline::Mixed && batch.len() <= self.capacity.saturating_sub(self.length())
        {
            if self.length() == 0 {
                std::mem::swap(&mut self.whole, batch);
            } else {
                self.single().extend(batch.drain());
            }
            self.highwater = self.highwater.max(self.length());
            return;
        }
        for packet in batch.drain() {
            self.store(input, packet, cx);
        }
    }

    fn pull(&mut self, _output: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let was_full = self.is_full();
        if batch.is_empty() && self.packets.is_empty() && self.whole.len() <= quota {
            std::mem::swap(&mut self.whole, batch);
        } else {
            let packets = self.single();
            batch.fill(packets.drain(..quota.min(batch.room()).min(packets.len())));
            if packets.is_empty() {
                // Begins again at the front of its memory, which is still in the cache, instead of
                // walking through it all.
                packets.clear();
            }
        }
        if was_full && !batch.is_empty() {
            cx.room_again();
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![
            Handler::read("length"),
            Handler::read("highwater_length"),
            Handler::read("capacity").replacing(Some(0), "CAPACITY"),
            Handler::read("drops"),
            Handler::write("reset_counts"),
            Handler::write("reset"),
        ]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(match handler {
            "length" => self.length().to_string(),
            "highwater_length" => self.highwater.to_string(),
            "capacity" => self.capacity.to_string(),
            "drops" => self.drops.to_string(),
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn write(&mut self, handler: &str, _: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "reset_counts" => (self.drops, self.highwater) = (0, self.length()),
            "reset" => {
                self.single().drain(..).for_each(|packet| refuse(packet, Reason::Discarded, cx));
                cx.room_again();
            }
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }

    fn succeed(&mut self, old: Box<dyn Element>, cx: &mut Context<'_>) {
        let Some(mut old) = of_type::<Queue>(old) else { return };
        (self.drops, self.highwater) = (old.drops, old.highwater);
        (self.packets, self.whole) = (std::mem::take(&mut old.packets), std::mem::take(&mut old.whole));
        self.shrink(cx);
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        let Some(mut old) = of_type::<Queue>(old) else { return };
        old.single();
        self.packets = old.packets;
        let surplus = self.packets.len().saturating_sub(self.capacity);
        if self.discipline == Discipline::FrontDrop {
            self.packets.drain(..surplus);
        } else {
            self.packets.truncate(self.capacity);
        }
        self.drops += surplus as u64;
        self.highwater = self.length();
    }
}
