//! StoreIPAddress: writes an IPv4 address into the packet.
//!
//! Group: ip
//! Usage: `StoreIPAddress([ADDR,] OFFSET)`
//! Ports: 1 input, 1-2 outputs; agnostic, second output push
//!
//! Writes `ADDR`, or without it the destination address annotation, into the packet. At a number of
//! bytes behind the front nothing but these four bytes changes, and an annotation of 0.0.0.0 is not
//! written. As `src` or `dst` of the marked IPv4 header the checksums follow: the header's, and in
//! a first fragment that of TCP and UDP.
//!
//! A packet that is too short, or has no marked header, leaves by output 1, or is dropped when that
//! isn't connected.
//!
//! - `ADDR` (address): what is written. Default: the destination address annotation.
//! - `OFFSET` (number of bytes, `src` or `dst`): where to.
//!
//! See also: [GetIPAddress], [SetIPAddress], [SetIPChecksum], [SetTCPChecksum], [SetUDPChecksum]

use std::net::Ipv4Addr;

use graph::arguments::{Arguments, Blame, Refused, Word, parse_integer};
use graph::{Batch, Class, Context, Element, Setup};
use port::Packet;
use wire::{checksum, protocol};

/// See [`StoreIpAddress`].
pub const CLASS: Class = Class {
    name: "StoreIPAddress",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("store_ip_address.rs"),
    make,
};

/// Writes addresses into packets.
pub struct StoreIpAddress {
    address: Option<Ipv4Addr>,
    to: To,
}

/// Where the address goes.
#[derive(Clone, Copy)]
enum To {
    /// So many bytes behind the front.
    Front(usize),
    /// So many bytes behind the beginning of the marked network header, with checksums.
    Network(usize),
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let given = args.pieces().len() > 1;
    let address = if given { args.mandatory::<Ipv4Addr>("ADDR") } else { None };
    let word = args.mandatory::<Word>("OFFSET");
    args.finish()?;
    let Word(word) = word.ok_or(Refused)?;
    let to = match word.to_ascii_lowercase().as_str() {
        "src" => To::Network(12),
        "dst" => To::Network(16),
        _ => match parse_integer(&word, 0, i32::MAX.into()) {
            Ok(at) => To::Front(at as usize),
            Err(_) => {
                args.wrong(Blame::Element, "type mismatch: OFFSET requires integer");
                return Err(Refused);
            }
        },
    };
    Ok(Box::new(StoreIpAddress { address, to }))
}

impl StoreIpAddress {
    /// False when there is no place for the address.
    fn store(&self, packet: &mut Packet) -> bool {
        let address = match self.address {
            Some(address) => address.octets(),
            None => packet.destination,
        };
        match self.to {
            To::Front(_) if self.address.is_none() && address == [0; 4] => true,
            To::Front(at) => {
                let place = packet.data_mut().get_mut(at..).and_then(<[u8]>::first_chunk_mut);
                place.map(|place| *place = address).is_some()
            }
            To::Network(at) => change_address(packet, at, address).is_some(),
        }
    }
}

/// Writes an address of the marked IPv4 header, and lets the checksums follow. `None` when there is
/// no such header.
fn change_address(packet: &mut Packet, at: usize, new: [u8; 4]) -> Option<()> {
    let header = packet.network_mut().first_chunk_mut::<20>().filter(|header| header[0] & 15 >= 5)?;
    let place: &mut [u8; 4] = header.get_mut(at..)?.first_chunk_mut()?;
    let old = std::mem::replace(place, new);
    follow(header.get_mut(10..12)?, old, new);
    let first = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
    let place = match header[9] {
        protocol::TCP if first => 16,
        protocol::UDP if first => 6,
        _ => return Some(()),
    };
    let udp = place == 6;
    let transport = packet.transport_mut();
    if transport.len() >= if udp { 8 } else { 20 }
        && let Some(field) = transport.get_mut(place..place + 2)
        && !(udp && *field == [0, 0])
    {
        follow(field, old, new);
        // In UDP zero says that there is no checksum.
        if udp && *field == [0, 0] {
            field.fill(0xff);
        }
    }
    Some(())
}

/// Changes a checksum as four bytes that it covers change.
fn follow(field: &mut [u8], old: [u8; 4], new: [u8; 4]) {
    let Some(field) = field.first_chunk_mut::<2>() else { return };
    let half = |bytes: [u8; 4], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let sum = u16::from_be_bytes(*field);
    let sum = checksum::update(checksum::update(sum, half(old, 0), half(new, 0)), half(old, 2), half(new, 2));
    *field = sum.to_be_bytes();
}

impl Element for StoreIpAddress {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut without = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            without |= u64::from(!self.store(packet)) << index;
        }
        cx.emit_some(1, batch, without);
    }
}
