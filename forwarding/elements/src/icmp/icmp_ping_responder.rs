//! ICMPPingResponder: answers ICMP echo requests.
//!
//! Group: icmp
//! Usage: `ICMPPingResponder()`
//! Ports: 1 input, 1 or 2 outputs; first output agnostic, second push
//!
//! Expects IPv4 packets with marked headers. Echo requests become echo replies to their sender:
//! addresses exchanged, TTL 255, fragment flags cleared, destination annotation set. All others
//! leave by output 1, or are dropped when that is not connected.
//!
//! ```click
//! rt[0] -> CheckICMPHeader -> ICMPPingResponder -> [0]rt;
//! ```
//!
//! See also: [ICMPPingSource], [ICMPPingEncap], [ICMPError]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};
use port::Packet;
use wire::{Reason, checksum, icmp4, ipv4, protocol};

pub const CLASS: Class = Class {
    name: "ICMPPingResponder",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("icmp_ping_responder.rs"),
    make,
};

struct IcmpPingResponder;

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    args.finish()?;
    Ok(Box::new(IcmpPingResponder))
}

/// Turns a request round; false, and nothing done, when it is none.
fn answer(packet: &mut Packet, wall: i64) -> bool {
    let bytes = packet.network_mut();
    let Some(header) = ipv4::Packet::parse(bytes)
        .ok()
        .filter(|ip| ip.protocol() == protocol::ICMP)
        .map(|ip| ip.header_len())
    else {
        return false;
    };
    let (ip, icmp) = bytes.split_at_mut(header);
    if icmp.len() < icmp4::HEADER || icmp[0] != icmp4::ECHO {
        return false;
    }
    change(ip, 10, 6, [0, 0]);
    change(ip, 10, 8, [255, ip[9]]);
    // The checksum doesn't change with the order of what it sums up.
    ip[12..20].rotate_left(4);
    let to = [ip[12 + 4], ip[13 + 4], ip[14 + 4], ip[15 + 4]];
    change(icmp, 2, 0, [icmp4::ECHO_REPLY, 0]);
    packet.paint = 0;
    packet.annotations_mut().timestamp = wall;
    packet.destination = to;
    true
}

/// Writes two bytes, and the checksum at `sum` that covers them.
fn change(bytes: &mut [u8], sum: usize, at: usize, new: [u8; 2]) {
    let number = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let updated = checksum::update(number(bytes, sum), number(bytes, at), u16::from_be_bytes(new));
    bytes[sum..sum + 2].copy_from_slice(&updated.to_be_bytes());
    bytes[at..at + 2].copy_from_slice(&new);
}

impl Element for IcmpPingResponder {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let (wall, mut others) = (cx.wall(), 0u64);
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            others |= u64::from(!answer(packet, wall)) << index;
        }
        if others != 0 && cx.has_output(1) {
            cx.emit_some(1, batch, others);
        } else {
            batch.take(others, |_, packet| cx.drop(packet, Reason::Filtered));
        }
    }
}
