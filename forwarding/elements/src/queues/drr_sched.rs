//! DRRSched: pulls from its inputs in turn, as many bytes from each.
//!
//! Group: queues
//! Usage: `DRRSched([QUANTUM])`
//! Ports: any number of inputs, 1 output; pull
//!
//! Deficit round robin: whenever an input has its turn it may send `QUANTUM` bytes more. It keeps
//! what it could not use because its next packet was longer, and loses it when it has no packet.
//! One packet of each input may be held here.
//!
//! - `QUANTUM` (integer): bytes that an input earns a round. Default: 500.
//!
//! See also: [RoundRobinSched], [StrideSched], [PrioSched]

use graph::arguments::Blame;
use graph::{Batch, Class, Context, Element};
use port::Packet;

use crate::basic::of_type;
/// The class `DRRSched`.
pub const CLASS: Class = Class {
    name: "DRRSched",
    ports: "-/1",
    processing: Class::PULL,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("drr_sched.rs"),
    make: |arguments, setup| {
        let quantum = arguments.optional::<i32>("QUANTUM").unwrap_or(500);
        if quantum <= 0 {
            arguments.wrong(Blame::Element, "bad QUANTUM");
        }
        arguments.finish()?;
        let inputs = (0..setup.inputs).map(|_| Input::default()).collect();
        Ok(Box::new(DrrSched { quantum: quantum.unsigned_abs(), inputs, next: 0, batch: Batch::new() }))
    },
};

#[derive(Default)]
struct Input {
    /// A packet for which there was not enough.
    head: Option<Packet>,
    /// Bytes that it may send.
    deficit: u32,
}

struct DrrSched {
    quantum: u32,
    inputs: Vec<Input>,
    next: usize,
    /// For the packet that is pulled; empty otherwise.
    batch: Batch,
}

impl DrrSched {
    /// Looks at each input once, beginning with the one that had its turn last.
    fn choose(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        for _ in 0..self.inputs.len() {
            let input = self.inputs.get_mut(self.next)?;
            let packet = input.head.take().or_else(|| {
                cx.pull(self.next, 1, &mut self.batch);
                self.batch.drain().next()
            });
            match packet {
                None => input.deficit = 0,
                Some(packet) => {
                    let length = packet.total_len() as u32;
                    if length <= input.deficit {
                        input.deficit -= length;
                        return Some(packet);
                    }
                    input.head = Some(packet);
                }
            }
            self.next = (self.next + 1) % self.inputs.len();
            let next = self.inputs.get_mut(self.next)?;
            next.deficit = next.deficit.saturating_add(self.quantum);
        }
        None
    }
}

impl Element for DrrSched {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn pull(&mut self, _output: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        while batch.len() < quota {
            let packet = match self.choose(cx) {
                Some(packet) => packet,
                // There are packets, but none has saved enough: another round brings it nearer.
                None if self.inputs.iter().any(|input| input.head.is_some()) => continue,
                None => break,
            };
            // There is room, so none comes back.
            let _ = batch.push(packet);
        }
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        if let Some(old) = of_type::<DrrSched>(old) {
            for (own, old) in self.inputs.iter_mut().zip(old.inputs) {
                *own = old;
            }
        }
    }
}
