//! Rewrite: the Ethernet header of the next hop
//!
//! Group: router
//! Usage: `Rewrite`
//! Ports: 1 input, 1 output; push
//!
//! Writes the 14 bytes in front of the network header, from the neighbour's address, the output port's own, and the
//! version of the packet; a longer header that was there (a tag) is gone.

use super::router_context::on_tables;
use fib::{AdjacencyWord, Hops, PortWord, View};
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
    let source = Source::of(hops.port(packet.output));
    let Some(bytes) = packet.data_mut().first_chunk_mut::<{ ETHERNET + 1 }>() else { return false };
    let ether_type = if bytes[ETHERNET] >> 4 == 6 { ethernet::IPV6 } else { ethernet::IPV4 };
    source.write(bytes, adjacency, ether_type)
}

/// A port's address in the two parts in which it is written.
#[derive(Clone, Copy)]
pub(super) struct Source {
    high: u64,
    low: [u8; 4],
}

impl Source {
    /// That of a port.
    #[inline(always)]
    pub(super) fn of(port: PortWord) -> Source {
        // The first word of a port, as that of an adjacency, holds the address in its upper 48 bits.
        let word = port.0[0];
        Source { high: word >> 48, low: ((word >> 16) as u32).to_be_bytes() }
    }

    /// Writes the header of a frame to this adjacency: as three stores, without a detour. False, and nothing done, where `N` is too
    /// little for it.
    #[inline(always)]
    pub(super) fn write<const N: usize>(
        self,
        frame: &mut [u8; N],
        adjacency: AdjacencyWord,
        ether_type: u16,
    ) -> bool {
        let Some(header) = frame.first_chunk_mut::<ETHERNET>() else { return false };
        header[..8].copy_from_slice(&(adjacency.0[0] & !0xffff | self.high).to_be_bytes());
        header[8..12].copy_from_slice(&self.low);
        header[12..14].copy_from_slice(&ether_type.to_be_bytes());
        true
    }
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
