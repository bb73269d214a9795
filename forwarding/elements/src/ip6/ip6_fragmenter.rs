//! IP6Fragmenter: lets no IPv6 packet pass that is larger than the next link takes.
//!
//! Group: ip6
//! Usage: `IP6Fragmenter(MTU)`
//! Ports: 1 input, 1 or 2 outputs; push
//!
//! Expects IPv6 packets that begin with their header. Those of up to `MTU` bytes pass. A router
//! must not fragment larger ones (RFC 8200, 5): they leave by output 1, where an [ICMP6Error] (type
//! 2, code 0, `PMTU`) tells their sender. When output 1 is not connected the element fragments
//! them, as the packets' source does (RFC 8200, 4.5).
//!
//! - `MTU` (bytes, at least 1280): the largest packet that passes
//!
//! Handlers:
//! - `drops` (read): how many were too large and did not become fragments
//! - `fragments` (read): how many fragments were made
//!
//! See also: [IPFragmenter], [ICMP6Error]

use graph::arguments::{Arguments, Refused, parse_integer};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Reason, ipv6, protocol};

pub const CLASS: Class = Class {
    name: "IP6Fragmenter",
    ports: "1/1-2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ip6_fragmenter.rs"),
    make,
};

/// Bytes of a fragment header.
const FRAGMENT: usize = 8;

struct Ip6Fragmenter {
    mtu: usize,
    drops: u64,
    fragments: u64,
    /// Identification of the next packet's fragments.
    id: u32,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let least = ipv6::MINIMUM_MTU as i128;
    let mtu = args.mandatory_with("MTU", |text, _| parse_integer(text, least, u16::MAX.into()));
    args.finish()?;
    Ok(Box::new(Ip6Fragmenter { mtu: mtu.ok_or(Refused)? as usize, drops: 0, fragments: 0, id: 1 }))
}

/// Cuts a packet. An error says why there are no fragments.
fn cut(packet: &Packet, mtu: usize, id: u32) -> Result<Vec<Packet>, Reason> {
    let bytes = packet.to_vec();
    let (at, next) = fragmentable(&bytes).ok_or(Reason::Malformed)?;
    let (before, data) = bytes.split_at(at);
    let piece = mtu.saturating_sub(at + FRAGMENT) & !7;
    if piece == 0 || data.len() > usize::from(u16::MAX) {
        return Err(Reason::TooBig);
    }
    let kind = bytes[next];
    let cut = |(index, part): (usize, &[u8])| {
        let offset = index * piece;
        let more = offset + part.len() < data.len();
        let mut fragment = before.to_vec();
        fragment[next] = protocol::FRAGMENT;
        let length = at - ipv6::HEADER + FRAGMENT + part.len();
        fragment[4..6].copy_from_slice(&(length as u16).to_be_bytes());
        fragment.extend([kind, 0]);
        fragment.extend((offset as u16 | u16::from(more)).to_be_bytes());
        fragment.extend(id.to_be_bytes());
        fragment.extend(part);
        let mut fragment = Packet::new(&fragment).ok_or(Reason::NoBuffer)?;
        (fragment.input, fragment.paint) = (packet.input, packet.paint);
        *fragment.annotations_mut() = packet.annotations().clone();
        fragment.set_link(None);
        fragment.set_network(0);
        fragment.set_transport(Some((at + FRAGMENT) as isize));
        Ok(fragment)
    };
    data.chunks(piece).enumerate().map(cut).collect()
}

/// Where the part begins that is cut, and where the byte is that says what it is. Headers for the
/// routers on the way are in front of it. `None` for packets that are cut short, or fragments
/// already.
fn fragmentable(bytes: &[u8]) -> Option<(usize, usize)> {
    ipv6::Packet::parse(bytes).ok()?;
    let (mut at, mut next) = (ipv6::HEADER, 6);
    let mut found = (at, next);
    loop {
        let kind = *bytes.get(next)?;
        match kind {
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
                next = at;
                at += (usize::from(*bytes.get(at + 1)?) + 1) * 8;
                // Destination options are for routers only in front of a routing header.
                if kind != protocol::DESTINATION_OPTIONS {
                    found = (at, next);
                }
            }
            protocol::FRAGMENT => return None,
            _ => return Some(found).filter(|(at, _)| *at <= bytes.len()),
        }
    }
}

impl Element for Ip6Fragmenter {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn push(&mut self, _: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut large = 0u64;
        for (index, packet) in batch.packets().iter().enumerate() {
            large |= u64::from(packet.total_len() > self.mtu) << index;
        }
        if large == 0 {
            return cx.emit_batch(0, batch);
        }
        // In the order that they came in.
        for (index, packet) in batch.drain().enumerate() {
            if large >> index & 1 == 0 {
                cx.emit(0, packet);
            } else if cx.has_output(1) {
                self.drops += 1;
                cx.emit(1, packet);
            } else {
                match cut(&packet, self.mtu, self.id) {
                    Ok(fragments) => {
                        self.id = self.id.wrapping_add(1);
                        self.fragments += fragments.len() as u64;
                        fragments.into_iter().for_each(|fragment| cx.emit(0, fragment));
                    }
                    Err(reason) => {
                        self.drops += 1;
                        cx.drop(packet, reason);
                    }
                }
            }
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        ["drops", "fragments"].map(Handler::read).into()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "drops" => Ok(self.drops.to_string()),
            "fragments" => Ok(self.fragments.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::Pool;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fragments_make_the_packet_again(length in 1300usize..9000, mtu in 1280usize..2000, hop_by_hop: bool) {
            Pool::heap(64).install();
            let mut payload: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let mut header = ipv6::Repr::new(1.into(), 2.into());
            if hop_by_hop {
                payload[..8].copy_from_slice(&[protocol::UDP, 0, 1, 4, 0, 0, 0, 0]);
                header.next_header = protocol::HOP_BY_HOP;
            }
            let bytes = [&header.header(length)[..], &payload].concat();
            let packet = Packet::new(&bytes).unwrap();
            let kept = if hop_by_hop { 48 } else { 40 };
            let mut again = Vec::new();
            let fragments = cut(&packet, mtu, 7).unwrap();
            let count = fragments.len();
            for (index, fragment) in fragments.into_iter().enumerate() {
                let bytes = fragment.to_vec();
                prop_assert!(bytes.len() <= mtu);
                prop_assert_eq!(usize::from(u16::from_be_bytes([bytes[4], bytes[5]])) + 40, bytes.len());
                let head = &bytes[kept..kept + 8];
                prop_assert_eq!((head[0], &head[4..]), (protocol::UDP, &[0, 0, 0, 7][..]));
                let word = u16::from_be_bytes([head[2], head[3]]);
                prop_assert_eq!((usize::from(word & !7), word & 1 != 0), (again.len(), index + 1 < count));
                again.extend_from_slice(&bytes[kept + 8..]);
            }
            prop_assert_eq!(&again, &bytes[kept..]);
        }

        #[test]
        fn any_bytes_are_cut_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 1300..3000)) {
            Pool::heap(64).install();
            bytes[0] = 0x60;
            let _ = cut(&Packet::new(&bytes).unwrap(), 1280, 1);
        }
    }
}
