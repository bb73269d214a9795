//! Rewrite: the Ethernet header of the next hop
//!
//! Group: router
//! Usage: `Rewrite`
//! Ports: 1 input, 1 output; push
//!
//! Writes the link header in front of the network header: the neighbour's address, the output
//! interface's address and tags, and the type by the version of the packet. What leaves by a tunnel
//! has its header put in front before that, and the way to the tunnel's other end.

use super::router_context::on_tables;
use fib::{AdjacencyWord, Hops, InterfaceId, InterfaceWord, Tag, View, tags_of};
use graph::{Batch, Class, Context, Element};
use port::Packet;
use wire::{Reason, ethernet};

use super::ETHERNET;
use super::enter::ADDRESSES;
use super::tunnel::enclose;
use super::tunnel_rules::TunnelRules;

/// The class `Rewrite`.
pub const CLASS: Class = Class {
    name: "Rewrite",
    ports: "1/1",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("rewrite.rs"),
    make: |arguments, setup| {
        let rules = TunnelRules::of(setup);
        on_tables(arguments, setup, |s| Rewrite { rules, ..Rewrite::new(s.view.clone()) })
    },
};

/// Puts the Ethernet header of the adjacency in front. Output: `out`. Drops `port_down` when the
/// adjacency was lost since the lookup.
pub struct Rewrite {
    view: View,
    rules: TunnelRules,
}

impl Rewrite {
    /// Reads adjacencies and ports from the tables; what leaves by tunnels is not judged.
    pub fn new(view: View) -> Rewrite {
        Rewrite { view, rules: TunnelRules::none() }
    }
}

#[inline(always)]
fn rewrite(view: &View, hops: &Hops<'_>, packet: &mut Packet, rules: &mut TunnelRules, now: u64) -> bool {
    if hops.link(packet.output).is_tunnel() && !enclose(view, packet, rules, now) {
        return false;
    }
    let adjacency = hops.adjacency(packet.adjacency);
    if !adjacency.resolved() {
        return false;
    }
    let l3 = packet.l3();
    if l3 != ETHERNET && !place_header(packet, l3) {
        return false;
    }
    let source = Source::of(hops, packet.output);
    let Some(version) = packet.data().get(ETHERNET) else { return false };
    let ether_type = if version >> 4 == 6 { ethernet::IPV6 } else { ethernet::IPV4 };
    source.head(packet, adjacency, ether_type)
}

/// What an interface puts in front of a packet: its address in the two parts in which it is
/// written, its tags, and what differs about these for packets of other priorities.
#[derive(Clone, Copy)]
pub(super) struct Source {
    high: u64,
    low: [u8; 4],
    tags: [u8; 8],
    /// Bytes of tags, 0, 4 or 8.
    length: usize,
    others: u32,
}

impl Source {
    /// That of an interface.
    #[inline(always)]
    pub(super) fn of(hops: &Hops<'_>, interface: InterfaceId) -> Source {
        let (InterfaceWord([word, _]), link) = (hops.interface(interface), hops.link(interface));
        // It holds the address in its upper 48 bits, as the first word of an adjacency does.
        Source {
            high: word >> 48,
            low: ((word >> 16) as u32).to_be_bytes(),
            tags: link.tags(),
            length: link.length(),
            others: link.others(),
        }
    }

    /// Whether there is room in front of a packet for the tags.
    #[inline(always)]
    pub(super) fn has_room(self, packet: &Packet) -> bool {
        self.length <= packet.headroom()
    }

    /// Writes the header of a frame to this adjacency in place of the one that a packet begins
    /// with. The packet begins earlier by the length of the tags. False, and nothing done, where
    /// there is no such header, or no room.
    #[inline(always)]
    pub(super) fn head(self, packet: &mut Packet, adjacency: AdjacencyWord, ether_type: u16) -> bool {
        if self.length == 0 {
            let frame = packet.data_mut().first_chunk_mut::<ETHERNET>();
            return frame.is_some_and(|frame| self.write(frame, adjacency, ether_type));
        }
        if self.others != 0 && ether_type == ethernet::IPV4 {
            return self.head_by_class(packet, adjacency);
        }
        self.head_with_tags(packet, adjacency, ether_type)
    }

    /// Of a packet of IPv4 whose type of service may make its tags others.
    #[cold]
    #[inline(never)]
    fn head_by_class(self, packet: &mut Packet, adjacency: AdjacencyWord) -> bool {
        let tos = packet.data().get(ETHERNET + 1).copied().unwrap_or_default();
        let tags = tags_of(self.tags, self.others, tos);
        Source { tags, ..self }.head_with_tags(packet, adjacency, ethernet::IPV4)
    }

    #[inline(always)]
    fn head_with_tags(self, packet: &mut Packet, adjacency: AdjacencyWord, ether_type: u16) -> bool {
        const ONE: usize = ETHERNET + Tag::BYTES;
        const TWO: usize = ETHERNET + 2 * Tag::BYTES;
        if packet.len() < ETHERNET || packet.push(self.length).is_none() {
            return false;
        }
        let frame = packet.data_mut();
        match self.length {
            Tag::BYTES => {
                let frame = frame.first_chunk_mut::<ONE>();
                frame.is_some_and(|frame| self.write(frame, adjacency, ether_type))
            }
            _ => {
                let frame = frame.first_chunk_mut::<TWO>();
                frame.is_some_and(|frame| self.write(frame, adjacency, ether_type))
            }
        }
    }

    /// Writes the header of a frame to this adjacency with as many bytes of tags as there is room
    /// for: none is read again, which would wait for a store. False, and nothing done, where `N` is
    /// no length of a header.
    #[inline(always)]
    pub(super) fn write<const N: usize>(
        self,
        frame: &mut [u8; N],
        adjacency: AdjacencyWord,
        ether_type: u16,
    ) -> bool {
        let (Some(tags), Some((addresses, rest))) =
            (self.tags.get(..N.wrapping_sub(ETHERNET)), frame.split_first_chunk_mut::<ADDRESSES>())
        else {
            return false;
        };
        addresses[..8].copy_from_slice(&(adjacency.0[0] & !0xffff | self.high).to_be_bytes());
        addresses[8..].copy_from_slice(&self.low);
        rest[..tags.len()].copy_from_slice(tags);
        rest[tags.len()..].copy_from_slice(&ether_type.to_be_bytes());
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
        let Rewrite { view, rules } = self;
        let (hops, now, mut lost) = (view.hops(), cx.now(), 0u64);
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            if !rewrite(view, &hops, packet, rules, now) {
                lost |= 1 << index;
            }
        }
        batch.take(lost, |_, packet| cx.drop(packet, Reason::PortDown));
        cx.emit_batch(0, batch);
    }
}
