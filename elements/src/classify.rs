//! Classify: IPv4, IPv6, or something else.
//!
//! The Ethernet header stays where it is; the network header's place is noted in the packet (`l3`). A frame that is not
//! addressed to the port (a group address, or a virtual one such as VRRP's) is `other`, whatever it carries: what to make
//! of it is Linux's decision.

use fib::{PortId, View};
use graph::{Batch, Context, Element};
use port::Packet;
use wire::{Reason, ethernet};

use crate::ETHERNET;

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
        let (mut port, mut mac) = (PortId::NONE, 0);
        let (mut ipv6, mut rest) = (0u64, 0u64);
        let packets = batch.packets_mut();
        packets.iter().take(AHEAD).for_each(prefetch);
        for index in 0..packets.len() {
            if let Some(packet) = packets.get(index + AHEAD) {
                prefetch(packet);
            }
            let packet = &mut packets[index];
            if packet.input != port {
                port = packet.input;
                mac = wire::Mac(self.view.port(port).mac()).to_u64();
            }
            packet.l3 = ETHERNET as u8;
            let Some(header) = packet.data().first_chunk::<ETHERNET>() else {
                rest |= 1 << index;
                continue;
            };
            let ether_type = crate::u16_at(header, 12);
            let ours = crate::u64_at(header, 0) >> 16 == mac;
            ipv6 |= u64::from(ours && ether_type == ethernet::IPV6) << index;
            rest |= u64::from(!(ours && matches!(ether_type, ethernet::IPV4 | ethernet::IPV6))) << index;
        }
        if ipv6 | rest != 0 {
            batch.take(ipv6 | rest, |index, packet| {
                if ipv6 >> index & 1 != 0 {
                    cx.emit(IPV6, packet);
                } else if packet.len() < ETHERNET {
                    cx.drop(packet, Reason::Truncated);
                } else {
                    cx.emit(OTHER, packet);
                }
            });
        }
        cx.emit_batch(IPV4, batch);
    }
}

/// Asks for the line of the frame's headers.
#[inline(always)]
fn prefetch(packet: &Packet) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and cannot fault.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(packet.data().as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = packet;
}
