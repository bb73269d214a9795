//! The stand that an element is tried on: elements that send it what an example says, and note what
//! it sends.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;

use crate::packet::{Sample, Seen};

pub const CLASSES: &[&Class] = &[
    &Class {
        name: "ExampleSource",
        ports: "0/1",
        processing: Class::AGNOSTIC,
        flow: Class::COMPLETE_FLOW,
        source: "",
        make: |arguments: &mut Arguments<'_>, _: &mut Setup<'_>| -> Result<Box<dyn Element>, Refused> {
            arguments.finish()?;
            Ok(Box::new(Source { waiting: VecDeque::new() }))
        },
    },
    &Class {
        name: "ExampleSink",
        ports: "1/0",
        processing: Class::AGNOSTIC,
        flow: Class::COMPLETE_FLOW,
        source: "",
        make: |arguments: &mut Arguments<'_>, _: &mut Setup<'_>| -> Result<Box<dyn Element>, Refused> {
            arguments.finish()?;
            Ok(Box::new(Sink { seen: Mutex::new(VecDeque::new()) }))
        },
    },
];

/// Sends the packets, one a line, that are written to its handler `send`; on a pull connection they
/// wait to be pulled.
struct Source {
    waiting: VecDeque<Packet>,
}

impl Element for Source {
    fn class(&self) -> &'static str {
        "ExampleSource"
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::write("send")]
    }

    fn write(&mut self, _: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let mut batch = Batch::new();
        for line in value.lines() {
            let sample = Sample::parse(line, None).map_err(HandlerError::refused)?;
            let packet = sample.packet().ok_or_else(|| HandlerError::refused("no packets left"))?;
            if cx.output_is_pull(0) {
                self.waiting.push_back(packet);
            } else if let Err(packet) = batch.push(packet) {
                cx.emit_batch(0, &mut batch);
                cx.emit(0, packet);
            }
        }
        cx.emit_batch(0, &mut batch);
        Ok(())
    }

    fn pull(&mut self, _: usize, quota: usize, batch: &mut Batch, _: &mut Context<'_>) {
        let count = quota.min(self.waiting.len()).min(batch.room());
        self.waiting.drain(..count).for_each(|packet| drop(batch.push(packet)));
    }
}

/// Notes what it gets; on a pull connection, what it pulls when its handler `pull` is written.
pub struct Sink {
    seen: Mutex<VecDeque<Seen>>,
}

impl Sink {
    /// The packet that was noted first, once.
    pub fn take(&self) -> Option<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Element for Sink {
    fn class(&self) -> &'static str {
        "ExampleSink"
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::write("pull")]
    }

    fn push(&mut self, _: usize, batch: &mut Batch, _: &mut Context<'_>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(batch.drain().map(|packet| Seen::of(&packet)));
    }

    fn write(&mut self, _: &str, _: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let mut batch = Batch::new();
        if cx.input_is_pull(0) {
            cx.pull(0, 1, &mut batch);
            self.push(0, &mut batch, cx);
        }
        Ok(())
    }
}
