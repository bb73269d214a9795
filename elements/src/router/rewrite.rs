//! Rewrite: the Ethernet header of the next hop
//!
//! Group: router
//! Usage: `Rewrite`
//! Ports: 1 input, 1 output; push
//!
//! Writes the 14 bytes in front of the network header, from the neighbour's address, the output port's own, and the
//! version of the packet; a longer header that was there (a tag) is gone.

use super::surroundings::on_tables;
use fib::{Hops, View};
use graph::{Batch, Class, Context, Element};
use port::Packet;
use wire::{Reason, ethernet};

use super::ETHERNET;

/// The class `Rewrite`.
pub const CLASS: Class = Class {
    name: "Rewrite",
    ports: "1/1",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("rewrite.rs"),
    make: |arguments, setup| on_tables(arguments, setup, |s| Rewrite::new(s.view.clone())),
};

/// Puts the Ethernet header of the adjacency in front. Output: `out`. Drops `port_down` when the adjacency was lost
/// since the lookup.
pub struct Rewrite {
    view: View,
}

impl Rewrite {
    /// Reads adjacencies and ports from the tables.
    pub fn new(view: View) -> Rewrite {
        Rewrite { view }
    }
}

#[inline(always)]
fn rewrite(hops: &Hops<'_>, packet: &mut Packet) -> bool {
    let adjacency = hops.adjacency(packet.adjacency);
    if !adjacency.resolved() {
        return false;
    }
    let l3 = packet.l3();
    if l3 != ETHERNET && !place_header(packet, l3) {
        return false;
    }
    // Both words hold an address in their upper 48 bits: as three stores the header is written without a detour.
    let (destination, source) = (adjacency.0[0] & !0xffff, hops.port(packet.output).0[0]);
    let Some(bytes) = packet.data_mut().first_chunk_mut::<{ ETHERNET + 1 }>() else { return false };
    let ether_type = if bytes[ETHERNET] >> 4 == 6 { ethernet::IPV6 } else { ethernet::IPV4 };
    bytes[..8].copy_from_slice(&(destination | source >> 48).to_be_bytes());
    bytes[8..12].copy_from_slice(&((source >> 16) as u32).to_be_bytes());
    bytes[12..14].copy_from_slice(&ether_type.to_be_bytes());
    true
}

/// Makes the network header start [`ETHERNET`] bytes into the packet.
#[cold]
fn place_header(packet: &mut Packet, l3: usize) -> bool {
    packet.set_network(ETHERNET as isize);
    packet.pull(l3) && packet.push(ETHERNET).is_some()
}

impl Element for Rewrite {
    fn class(&self) -> &'static str {
        "Rewrite"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["out"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let (hops, mut lost) = (self.view.hops(), 0u64);
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            if !rewrite(&hops, packet) {
                lost |= 1 << index;
            }
        }
        batch.take(lost, |_, packet| cx.drop(packet, Reason::PortDown));
        cx.emit_batch(0, batch);
    }
}
