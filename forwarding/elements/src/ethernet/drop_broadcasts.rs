//! DropBroadcasts: drops what came in a broadcast or multicast frame.
//!
//! Group: ethernet
//! Usage: `DropBroadcasts()`
//! Ports: 1 input, 1 or 2 outputs; first output agnostic, second push
//!
//! Looks at the packet type annotation, which says to whom the frame was addressed that the packet
//! came in. A router must not forward a packet that came in a broadcast or multicast frame (RFC
//! 1812, 5.3.4). Such packets leave by output 1 if that is connected. Devices and [HostEtherFilter]
//! set the annotation.
//!
//! Handlers:
//! - `drops` (read): how many there were
//!
//! See also: [HostEtherFilter], [FromDevice]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::PacketType;
use wire::Reason;

pub const CLASS: Class = Class {
    name: "DropBroadcasts",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("drop_broadcasts.rs"),
    make,
};

struct DropBroadcasts {
    drops: u64,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    args.finish()?;
    Ok(Box::new(DropBroadcasts { drops: 0 }))
}

/// The bits of the packets of a batch that came in broadcast or multicast frames.
#[inline(always)]
pub(crate) fn group(batch: &Batch) -> u64 {
    let mut group = 0u64;
    for (index, packet) in batch.packets().iter().enumerate() {
        let kind = packet.annotations().kind;
        group |= u64::from(matches!(kind, PacketType::Broadcast | PacketType::Multicast)) << index;
    }
    group
}

impl DropBroadcasts {
    #[cold]
    fn remove(&mut self, batch: &mut Batch, which: u64, cx: &mut Context<'_>) {
        if self.drops == 0 {
            cx.say("DropBroadcasts: dropped a packet");
        }
        self.drops += u64::from(which.count_ones());
        if cx.has_output(1) {
            cx.emit_some(1, batch, which);
        } else {
            batch.take(which, |_, packet| cx.drop(packet, Reason::Filtered));
        }
    }
}

impl Element for DropBroadcasts {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let group = group(batch);
        if group != 0 {
            self.remove(batch, group, cx);
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("drops")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        let old: Box<dyn std::any::Any> = old;
        if let Ok(old) = old.downcast::<DropBroadcasts>() {
            self.drops = old.drops;
        }
    }
}
