//! Classify: IPv4, IPv6, or something else
//!
//! Group: router
//! Usage: `Classify`
//! Ports: 1 input, 3 outputs; push
//!
//! The Ethernet header stays where it is; the network header's place is noted in the packet (`l3`).
//! Where a frame has the tags of an interface of the plane's, they are taken off, and the packet
//! has come in by that interface. A frame that is not addressed to its interface (a group address,
//! or a virtual one such as VRRP's) is `other`, whatever it carries: Linux decides what to make of
//! it. Of a frame from a host that Linux does not know behind its member of a bridge, Linux is
//! told.
//!
//! Outputs:
//! - 0: IPv4
//! - 1: IPv6
//! - 2: everything else

use super::router_context::on_tables;
use fib::{InterfaceId, View};
use graph::{Batch, Class, Context, Element};
use wire::{Reason, ethernet};

use super::enter::{Entrance, is_tag};
use super::{ETHERNET, prefetch, stranger};

/// The class `Classify`.
pub const CLASS: Class = Class {
    name: "Classify",
    ports: "1!/3",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("classify.rs"),
    make: |arguments, setup| on_tables(arguments, setup, |s| Classify::new(s.view.clone())),
};

const IPV4: usize = 0;
const IPV6: usize = 1;
const OTHER: usize = 2;

/// How many packets ahead the headers are fetched.
const AHEAD: usize = 6;

/// Sorts frames by what they carry. Outputs: `ipv4`, `ipv6`, `other`. Drops `truncated`.
pub struct Classify {
    view: View,
}

impl Classify {
    /// Reads the ports' Ethernet addresses from the tables.
    pub fn new(view: View) -> Classify {
        Classify { view }
    }
}

impl Element for Classify {
    fn class(&self) -> &'static str {
        "Classify"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["ipv4", "ipv6", "other"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let (mut port, mut mac) = (InterfaceId::NONE, 0);
        let (mut ipv6, mut rest) = (0u64, 0u64);
        let hops = self.view.hops();
        let mut entrance = Entrance::new(hops);
        let packets = batch.packets_mut();
        packets.iter().take(AHEAD).for_each(prefetch);
        for index in 0..packets.len() {
            if let Some(packet) = packets.get(index + AHEAD) {
                prefetch(packet);
            }
            let packet = &mut packets[index];
            if packet.data().first_chunk::<ETHERNET>().is_some_and(|header| is_tag(super::u16_at(header, 12)))
            {
                entrance.enter(packet);
            }
            if packet.input != port {
                port = packet.input;
                mac = wire::Mac(self.view.interface(port).mac()).to_u64();
            }
            let Some(header) = packet.split_link::<ETHERNET>() else {
                rest |= 1 << index;
                continue;
            };
            let (ether_type, ours) = (super::u16_at(header, 12), super::u64_at(header, 0) >> 16 == mac);
            let (four, six) = (ether_type == ethernet::IPV4 && ours, ether_type == ethernet::IPV6 && ours);
            ipv6 |= u64::from(six) << index;
            if !(four | six) {
                match stranger::enter(&hops, packet, mac, cx) {
                    Some(ethernet::IPV4) => {}
                    Some(ethernet::IPV6) => ipv6 |= 1 << index,
                    _ => rest |= 1 << index,
                }
            }
        }
        entrance.close();
        // First what is rare: taking packets out moves the bits of those behind them.
        if rest != 0 {
            ipv6 = without(ipv6, rest);
            batch.take(rest, |_, packet| {
                if packet.len() < ETHERNET {
                    cx.drop(packet, Reason::Truncated)
                } else {
                    cx.emit(OTHER, packet)
                }
            });
        }
        cx.emit_some(IPV6, batch, ipv6);
        cx.emit_batch(IPV4, batch);
    }
}

/// The set `bits` after the members of `taken`, none of them in it, have been taken out and the
/// others closed up.
pub(super) fn without(bits: u64, taken: u64) -> u64 {
    let mut left = bits;
    let mut closed = 0;
    while left != 0 {
        let index = left.trailing_zeros();
        let before = (taken & ((1 << index) - 1)).count_ones();
        closed |= 1 << (index - before);
        left &= left - 1;
    }
    closed
}

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn bits_close_up() {
        assert_eq!(without(0b1010_0100, 0b0101_0010), 0b1_1010);
        assert_eq!(without(1 << 63, u64::MAX >> 1), 1);
        assert_eq!(without(0, u64::MAX), 0);
    }
}
