//! Punt: to Linux, whole
//!
//! Group: router
//! Usage: `Punt(CLASS)`
//! Ports: 1 input; push
//!
//! What Bifrost cannot complete itself is handed over as it came in; Linux sees it arrive on the port that it came by. The
//! class decides which limit it counts against.
//!
//! - `CLASS` (word): `TRANSIT`, for what Linux is to forward; `LOCAL`, for what is for this machine, each packet by its own class; or `SEND`,
//!   for what Linux is to send where its destination is, whatever it came in by.

use graph::{Batch, Class, Context, Element, Hand};
use wire::Class as Police;

/// The class `Punt`.
pub const CLASS: Class = Class {
    name: "Punt",
    ports: "1/0",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("punt.rs"),
    make: |arguments, _| {
        let class = arguments.mandatory::<graph::arguments::Word>("CLASS");
        let punt = class.as_ref().and_then(|class| match class.0.as_str() {
            "TRANSIT" => Some(Punt::transit()),
            "LOCAL" => Some(Punt::local()),
            "SEND" => Some(Punt { class: Some(Police::Unresolved), hand: Hand::Send }),
            _ => None,
        });
        if class.is_some() && punt.is_none() {
            arguments.wrong("CLASS", "expected TRANSIT, LOCAL or SEND");
        }
        arguments.finish()?;
        Ok(Box::new(punt.ok_or(graph::arguments::Refused)?))
    },
};

/// Hands packets to Linux. No outputs.
pub struct Punt {
    /// `None`: what the packet itself says.
    class: Option<Police>,
    hand: Hand,
}

impl Punt {
    /// Transit that Linux completes: class `unresolved`.
    pub fn transit() -> Punt {
        Punt { class: Some(Police::Unresolved), hand: Hand::Receive }
    }

    /// Packets for this machine: each by its own class.
    pub fn local() -> Punt {
        Punt { class: None, hand: Hand::Receive }
    }
}

impl Element for Punt {
    fn class(&self) -> &'static str {
        "Punt"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &[]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        for packet in batch.drain() {
            let class = self.class.unwrap_or_else(|| Police::of_frame(packet.data()));
            cx.punt(packet, class, self.hand);
        }
    }
}
