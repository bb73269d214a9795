//! SetPacketType: notes to whom packets were addressed.
//!
//! Group: basic
//! Usage: `SetPacketType(TYPE)`
//! Ports: 1 input, 1 output; agnostic
//!
//! Sets the packet type annotation, which devices set from the Ethernet address, and which
//! [DropBroadcasts] and [ICMPError] look at.
//!
//! - `TYPE` (word): `HOST`, `BROADCAST`, `MULTICAST`, `OTHERHOST`, `OUTGOING` or `LOOPBACK`
//!
//! Handlers:
//! - `config` (read, write): its arguments
//!
//! See also: [HostEtherFilter], [DropBroadcasts]

use graph::arguments::{Arguments, Refused, Word};
use graph::{Batch, Class, Context, Element, Setup};
use port::PacketType;

pub const CLASS: Class = Class {
    name: "SetPacketType",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("set_packet_type.rs"),
    make,
};

struct SetPacketType(PacketType);

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let kind = args.mandatory_with("TYPE", |text, scope| {
        let word: Word = graph::arguments::Argument::parse(text, scope)?;
        Ok(match word.0.to_uppercase().as_str() {
            "HOST" => PacketType::Host,
            "BROADCAST" => PacketType::Broadcast,
            "MULTICAST" => PacketType::Multicast,
            "OTHERHOST" => PacketType::OtherHost,
            "OUTGOING" => PacketType::Outgoing,
            "LOOPBACK" => PacketType::Loopback,
            _ => return Err(format!("unrecognized packet type '{}'", word.0)),
        })
    });
    args.finish()?;
    Ok(Box::new(SetPacketType(kind.ok_or(Refused)?)))
}

impl Element for SetPacketType {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            packet.annotations_mut().kind = self.0;
        }
    }
}
