//! SetIPChecksum: sets the header checksums of IPv4 packets.
//!
//! Group: ip
//! Usage: `SetIPChecksum`
//! Ports: 1 input, 1 output; agnostic
//!
//! For packets whose headers were changed, by StoreData for one. Expects marked headers. Packets
//! that don't have a whole header are dropped; the first one is told of.
//!
//! Handlers:
//! - `drops` (read): how many packets were dropped
//!
//! See also: [CheckIPHeader], [SetTCPChecksum], [SetUDPChecksum]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Reason, ipv4};

use crate::basic::of_type;

/// See [`SetIpChecksum`].
pub const CLASS: Class = Class {
    name: "SetIPChecksum",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("set_ip_checksum.rs"),
    make,
};

/// Sets header checksums.
struct SetIpChecksum {
    drops: u64,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    args.finish()?;
    Ok(Box::new(SetIpChecksum { drops: 0 }))
}

/// `None`, and nothing done, without a whole header.
fn set(packet: &mut Packet) -> Option<()> {
    let network = packet.network_mut();
    let length = usize::from(network.first()? & 15) * 4;
    let header = network.get_mut(..length).filter(|header| header.len() >= ipv4::HEADER)?;
    ipv4::set_checksum(header);
    Some(())
}

impl Element for SetIpChecksum {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut wrong = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            wrong |= u64::from(set(packet).is_none()) << index;
        }
        batch.take(wrong, |_, packet| {
            self.drops += 1;
            if self.drops == 1 {
                cx.say("SetIPChecksum: bad input packet");
            }
            cx.drop(packet, Reason::Malformed);
        });
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
        if let Some(old) = of_type::<SetIpChecksum>(old) {
            self.drops = old.drops;
        }
    }
}
