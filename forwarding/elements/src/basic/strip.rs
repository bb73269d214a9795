//! # Strip: removes bytes from the front of packets.
//!
//! Group: basic
//! Usage: `Strip(LENGTH)`
//! Ports: 1 input, 1 output; agnostic
//!
//! `Strip(14)` takes off an Ethernet header. Of a packet that is shorter nothing is left. Where the
//! headers are, as annotated, does not change.
//!
//! - `LENGTH` (integer): how many bytes
//!
//! See also: [Unstrip], [StripToNetworkHeader], [Truncate], [EtherEncap]
//!
//! # Unstrip: puts bytes that were stripped back in front.
//!
//! Group: basic
//! Usage: `Unstrip(LENGTH)`
//! Ports: 1 input, 1 output; agnostic
//!
//! The bytes are what stands in memory in front of the packet: after a [Strip] of as many bytes
//! what was stripped. In front of a packet that never had them they are anything. A packet with no
//! room for them is dropped.
//!
//! - `LENGTH` (integer): how many bytes
//!
//! See also: [Strip], [StripToNetworkHeader]
//!
//! # StripToNetworkHeader: lets packets begin at their network header.
//!
//! Group: basic
//! Usage: `StripToNetworkHeader()`
//! Ports: 1 input, 1 output; agnostic
//!
//! Removes what is in front of the network header, or puts back what was stripped of it. A packet
//! whose network header nobody has found stays as it is.
//!
//! See also: [Strip], [Unstrip], [CheckIPHeader], [MarkIPHeader]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};
use port::Packet;
use wire::Reason;

pub const STRIP: Class = Class {
    name: "Strip",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("strip.rs"),
    make: |args, _| Ok(Box::new(Strip { length: length(args)? })),
};

pub const UNSTRIP: Class = Class {
    name: "Unstrip",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("strip.rs"),
    make: |args, _| Ok(Box::new(Unstrip { length: length(args)? })),
};

pub const STRIP_TO_NETWORK_HEADER: Class = Class {
    name: "StripToNetworkHeader",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("strip.rs"),
    make: make_to_network_header,
};

fn length(args: &mut Arguments<'_>) -> Result<usize, Refused> {
    let length = args.mandatory::<u32>("LENGTH");
    args.finish()?;
    Ok(length.ok_or(Refused)? as usize)
}

fn make_to_network_header(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    args.finish()?;
    Ok(Box::new(StripToNetworkHeader))
}

/// Removes bytes from the front; all of the first segment when it has fewer.
#[inline]
pub(crate) fn strip(packet: &mut Packet, length: usize) {
    if !packet.pull(length) {
        packet.pull(packet.len());
    }
}

struct Strip {
    length: usize,
}

impl Element for Strip {
    fn class(&self) -> &'static str {
        STRIP.name
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            strip(packet, self.length);
        }
    }
}

struct Unstrip {
    length: usize,
}

impl Element for Unstrip {
    fn class(&self) -> &'static str {
        UNSTRIP.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut without_room = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            without_room |= u64::from(packet.push(self.length).is_none()) << index;
        }
        batch.take(without_room, |_, packet| cx.drop(packet, Reason::NoBuffer));
    }
}

struct StripToNetworkHeader;

impl Element for StripToNetworkHeader {
    fn class(&self) -> &'static str {
        STRIP_TO_NETWORK_HEADER.name
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            let Some(offset) = packet.network_offset() else { continue };
            if offset >= 0 {
                strip(packet, offset.unsigned_abs());
            } else {
                // The header lies in the chunk, so there is room.
                packet.push(offset.unsigned_abs());
            }
        }
    }
}
