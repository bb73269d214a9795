//! IPMirror: sends IPv4 packets back to where they came from.
//!
//! Group: ip
//! Usage: `IPMirror([DST_ANNO])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Exchanges source and destination address; of UDP and TCP also the ports, and of TCP the sequence
//! and the acknowledgement number. No checksum changes by that. Expects marked headers, as
//! CheckIPHeader leaves them.
//!
//! - `DST_ANNO` (boolean): whether to set the destination annotation to the new destination.
//!   Default true.
//!
//! See also: [EtherMirror], [ICMPPingResponder]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};
use port::Packet;
use wire::{ipv4, protocol};

/// See [`IpMirror`].
pub const CLASS: Class = Class {
    name: "IPMirror",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ip_mirror.rs"),
    make,
};

/// Exchanges both ends.
struct IpMirror {
    annotate: bool,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let annotate = args.optional("DST_ANNO").unwrap_or(true);
    args.finish()?;
    Ok(Box::new(IpMirror { annotate }))
}

/// Exchanges the `N` bytes at the front with those behind them; nothing when they are not there.
fn exchange<const N: usize>(bytes: &mut [u8]) {
    if let Some((first, rest)) = bytes.split_first_chunk_mut::<N>()
        && let Some(second) = rest.first_chunk_mut::<N>()
    {
        std::mem::swap(first, second);
    }
}

impl IpMirror {
    fn mirror(&self, packet: &mut Packet) {
        let Some(header) = packet.network_mut().first_chunk_mut::<{ ipv4::HEADER }>() else { return };
        exchange::<4>(&mut header[12..]);
        let destination = [header[16], header[17], header[18], header[19]];
        let (length, protocol) = (usize::from(header[0] & 15) * 4, header[9]);
        let first = u16::from_be_bytes([header[6], header[7]]) & ipv4::FRAGMENT_OFFSET == 0;
        if self.annotate {
            packet.destination = destination;
        }
        let transport = packet.network_mut().get_mut(length..).unwrap_or_default();
        if first && transport.len() >= 8 && matches!(protocol, protocol::TCP | protocol::UDP) {
            exchange::<2>(transport);
            if protocol == protocol::TCP {
                exchange::<4>(&mut transport[4..]);
            }
        }
    }
}

impl Element for IpMirror {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            self.mirror(packet);
        }
    }
}
