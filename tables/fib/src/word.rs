//! The words of the tables, and what they mean. `forwarding/bpf/` reads them as well.

pub use abi::HopKind;
pub(crate) use abi::fib::{ID, MTU, POINTER};

use crate::interface::PriorityBits;
use crate::{
    AdjacencyId, InterfaceEntry, InterfaceFlags, InterfaceId, NextHopId, PortId, Priorities, TableId,
};

/// Next hops that a route word can name (22 bits).
pub(crate) const MAX_NEXT_HOPS: usize = ID as usize + 1;

/// A route word: the next hop, and the length of the prefix that put it there. The length is for
/// the writer alone: it tells which words a longer or shorter prefix may overwrite, so no shadow
/// table is needed. 0 = no route.
pub(crate) fn route(length: u8, id: NextHopId) -> u32 {
    u32::from(length) << 22 | id.0
}

/// The prefix length of a route word, 0..=128.
pub(crate) fn length(word: u32) -> u8 {
    (word >> 22) as u8
}

/// Which route words a change overwrites: those of prefix length `from..=to` become `word`.
///
/// Any two prefixes that cover one address are nested, so inside the prefix that changes these are
/// exactly the words that it decides: on insertion, words of its own length or shorter; on removal,
/// words of its own length.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    from: u8,
    to: u8,
    word: u32,
}

impl Change {
    pub(crate) fn insert(length: u8, id: NextHopId) -> Change {
        Change { from: 0, to: length, word: route(length, id) }
    }

    /// `below` is the route word of the longest remaining prefix that covers the removed one (0
    /// when none does).
    pub(crate) fn remove(length: u8, below: u32) -> Change {
        Change { from: length, to: length, word: below }
    }

    pub(crate) fn apply(&self, word: u32) -> u32 {
        let length = length(word);
        if self.from <= length && length <= self.to { self.word } else { word }
    }
}

/// A next-hop word: kind (bits 56..63), log2 of the bucket count (48..55), sourced (32), base
/// (0..31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop(pub u64);

impl Hop {
    pub(crate) const NONE: Hop = Hop(0);

    pub(crate) fn new(kind: HopKind, log2: u8, base: u32) -> Hop {
        Hop((kind as u64) << 56 | u64::from(log2) << 48 | u64::from(base))
    }

    pub(crate) fn with_source(self) -> Hop {
        Hop(self.0 | 1 << 32)
    }

    /// Forward: its routes name the source of what this machine itself sends by them, which only
    /// Linux knows.
    #[inline(always)]
    pub fn sourced(self) -> bool {
        self.0 >> 32 & 1 != 0
    }

    /// What to do with the packet.
    #[inline(always)]
    pub fn kind(self) -> HopKind {
        HopKind::from_number((self.0 >> 56) as usize).unwrap_or(HopKind::None)
    }

    /// Forward with a single path: its adjacency.
    #[inline(always)]
    pub fn only_path(self) -> Option<AdjacencyId> {
        let only = (HopKind::Forward as u32) << 8;
        // As 32 bits: else two constants of 64 are compared.
        ((self.0 >> 48) as u32 == only).then_some(AdjacencyId(self.0 as u32))
    }

    /// Forward: log2 of the number of buckets; 0 means that `base` is the adjacency itself.
    #[inline(always)]
    pub fn log2(self) -> u8 {
        (self.0 >> 48) as u8
    }

    /// Forward: the adjacency or the first bucket. Glean: the interface. Punt: the MTU, 0 where it
    /// is not known.
    #[inline(always)]
    pub fn base(self) -> u32 {
        self.0 as u32
    }

    /// Glean: the interface whose network the destination is on.
    #[inline(always)]
    pub fn glean_interface(self) -> InterfaceId {
        InterfaceId(self.0 as u16)
    }

    /// Punt: the MTU of the way, where that is by interfaces that are not the plane's.
    #[inline(always)]
    pub fn foreign_mtu(self) -> Option<u32> {
        (self.kind() == HopKind::Punt && self.base() != 0).then(|| self.base())
    }
}

/// An adjacency as readers see it: where to send the frame, and with which destination MAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdjacencyWord(pub [u64; 2]);

impl AdjacencyWord {
    pub(crate) fn new(interface: InterfaceId, mtu: u32, mac: Option<[u8; 6]>) -> AdjacencyWord {
        AdjacencyWord([mac.map_or(0, |mac| mac_bits(mac) | 1), u64::from(mtu) << 32 | u64::from(interface.0)])
    }

    /// False while the neighbour's MAC is not known.
    #[inline(always)]
    pub fn resolved(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// The neighbour's MAC; zero when unresolved.
    #[inline(always)]
    pub fn mac(self) -> [u8; 6] {
        bits_mac(self.0[0])
    }

    /// Largest IP packet in bytes on this path.
    #[inline(always)]
    pub fn mtu(self) -> u32 {
        (self.0[1] >> 32) as u32
    }

    /// The interface that reaches the neighbour.
    #[inline(always)]
    pub fn interface(self) -> InterfaceId {
        InterfaceId(self.0[1] as u16)
    }
}

/// An interface as readers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceWord(pub [u64; 2]);

impl InterfaceWord {
    pub(crate) const NONE: InterfaceWord = InterfaceWord([0; 2]);

    pub(crate) fn new(entry: &InterfaceEntry) -> InterfaceWord {
        let mut flags = entry.flags;
        flags.set(InterfaceFlags::VRF, entry.table.of_addresses() != TableId::MAIN);
        // 16 flags stand behind the address, and two more in front of the MTU.
        let (most, last) = (flags.bits() as u16, u64::from(flags.bits() >> 16));
        InterfaceWord([
            mac_bits(entry.mac) | u64::from(most),
            last << 62 | u64::from(entry.mtu & MTU) << 32 | u64::from(entry.ifindex),
        ])
    }

    /// The interface's own MAC.
    #[inline(always)]
    pub fn mac(self) -> [u8; 6] {
        bits_mac(self.0[0])
    }

    /// What it may do.
    #[inline(always)]
    pub fn flags(self) -> InterfaceFlags {
        let last = (self.0[1] >> 62) as u32;
        InterfaceFlags::from_bits_retain(last << 16 | u32::from(self.0[0] as u16))
    }

    /// Largest IP packet in bytes.
    #[inline(always)]
    pub fn mtu(self) -> u32 {
        (self.0[1] >> 32) as u32 & MTU
    }

    /// Linux's interface index; 0 when there is none.
    #[inline(always)]
    pub fn ifindex(self) -> u32 {
        self.0[1] as u32
    }
}

/// In the place of a link's bytes of tags: a tunnel's header stands there.
const TUNNEL: u8 = 0x80;
/// Where a link's priorities stand that are not the usual one, 18 bits: `OTHERS_AT` in
/// `forwarding/bpf/tags.h`.
const OTHERS_AT: u32 = 24;

/// How frames leave by an interface, and the table that routes those that came in: the tags, or the
/// place of a tunnel's words; the port, bytes of tags, what differs by priorities, and the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkWord(pub [u64; 2]);

impl LinkWord {
    pub(crate) const NONE: LinkWord = LinkWord([0, PortId::NONE.0 as u64]);

    /// `slot`: where its tunnel's words are, if it is one.
    pub(crate) fn new(entry: &InterfaceEntry, slot: u32) -> LinkWord {
        let priorities = entry.priorities;
        let (length, tags, others) = match (entry.tags.tunnel(), entry.tags.header()) {
            (Some(_), _) => (TUNNEL, u64::from(slot), 0),
            (None, (0, tags)) => (0, tags, 0),
            (None, (length, tags)) => (length, tags | priorities.usual(), priorities.others()),
        };
        let (table, port) = (u64::from(entry.table.0), u64::from(entry.port.0));
        LinkWord([tags, table << 48 | u64::from(others) << OTHERS_AT | u64::from(length) << 16 | port])
    }

    /// Whether a tunnel's header stands in front of its packets.
    #[inline(always)]
    pub fn is_tunnel(self) -> bool {
        (self.0[1] >> 16) as u8 == TUNNEL
    }

    /// Where the tunnel's words are.
    #[inline(always)]
    pub(crate) fn tunnel(self) -> Option<u32> {
        self.is_tunnel().then_some(self.0[0] as u32)
    }

    /// The port.
    #[inline(always)]
    pub fn port(self) -> PortId {
        PortId(self.0[1] as u16)
    }

    /// Bytes of tags: 0, 4 or 8. Of a tunnel, more than that.
    #[inline(always)]
    pub fn length(self) -> usize {
        usize::from((self.0[1] >> 16) as u8)
    }

    /// The table that routes its packets.
    #[inline(always)]
    pub fn table(self) -> TableId {
        TableId((self.0[1] >> 48) as u16)
    }

    /// What is to be changed about the priorities in the tags for some packets of IPv4; 0: nothing.
    #[inline(always)]
    pub fn others(self) -> u32 {
        (self.0[1] >> OTHERS_AT) as u32 & ((1 << (3 * Priorities::BITS)) - 1)
    }

    /// The tags, of which the first [`length`](Self::length) bytes count.
    #[inline(always)]
    pub fn tags(self) -> [u8; 8] {
        self.0[0].to_be_bytes()
    }
}

/// The tags of a packet of IPv4 with this type of service, by [`LinkWord::tags`] and
/// [`LinkWord::others`].
#[cold]
pub fn tags_of(tags: [u8; 8], others: u32, tos: u8) -> [u8; 8] {
    let class = u32::from(tos >> Priorities::CLASS_AT & 3);
    let bits = class.checked_sub(1).map_or(0, |class| others >> (class * Priorities::BITS));
    (u64::from_be_bytes(tags) ^ PriorityBits(bits).in_tags()).to_be_bytes()
}

impl From<AdjacencyId> for Hop {
    /// A next hop with this one path.
    fn from(id: AdjacencyId) -> Hop {
        Hop::new(HopKind::Forward, 0, id.0)
    }
}

#[inline(always)]
fn mac_bits(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([a, b, c, d, e, f, 0, 0])
}

#[inline(always)]
fn bits_mac(bits: u64) -> [u8; 6] {
    let [a, b, c, d, e, f, ..] = bits.to_be_bytes();
    [a, b, c, d, e, f]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Priorities, Tag, Tags};

    #[test]
    fn words_keep_what_they_are_made_of() {
        let hop = Hop::new(HopKind::Glean, 0, 0xffff);
        assert_eq!((hop.kind(), hop.glean_interface()), (HopKind::Glean, InterfaceId::NONE));
        let only = Hop::from(AdjacencyId(u32::MAX));
        assert!(!only.sourced() && only.with_source().sourced());
        assert_eq!(only.with_source().only_path(), only.only_path());
        let mac = [2, 0, 0x5e, 1, 2, 0xff];
        let adjacency = AdjacencyWord::new(InterfaceId(7), 9000, Some(mac));
        assert_eq!((adjacency.mac(), adjacency.mtu(), adjacency.interface()), (mac, 9000, InterfaceId(7)));
        assert!(adjacency.resolved() && !AdjacencyWord::new(InterfaceId(7), 9000, None).resolved());
        let flags = InterfaceFlags::UP | InterfaceFlags::EXPRESS | InterfaceFlags::BRIDGED;
        let tags = Tags::Two(Tag { service: true, id: 0x123 }, 0x456);
        let entry = InterfaceEntry {
            ifindex: 12,
            mtu: 1500,
            mac,
            flags,
            port: PortId(3),
            tags,
            table: TableId(4094),
            priorities: Priorities([[6, 1, 0, 7], [0, 0, 3, 0]]),
        };
        let (word, link) = (InterfaceWord::new(&entry), LinkWord::new(&entry, 0));
        assert_eq!((word.ifindex(), word.mtu(), word.mac()), (12, 1500, mac));
        assert_eq!(word.flags(), flags | InterfaceFlags::VRF);
        assert_eq!((link.port(), link.length(), link.table()), (PortId(3), 8, TableId(4094)));
        assert_eq!(link.tags(), [0x88, 0xa8, 0xc1, 0x23, 0x81, 0, 0x04, 0x56]);
        let priorities = [0, 0x08, 0x10, 0xb8].map(|tos| {
            let tags = tags_of(link.tags(), link.others(), tos | 7);
            [tags[2] >> 5, tags[6] >> 5]
        });
        assert_eq!(priorities, [[6, 0], [1, 0], [0, 3], [7, 0]]);
        let plain = LinkWord::new(&InterfaceEntry { priorities: Priorities::default(), ..entry }, 0);
        assert_eq!((plain.others(), plain.tags()[2], plain.table()), (0, 0x01, TableId(4094)));
        let tunnel = LinkWord::new(&InterfaceEntry { tags: Tags::None, ..entry }, 0);
        assert_eq!((tunnel.others(), tunnel.tags()), (0, [0; 8]), "without tags there is no priority");
        assert_eq!((LinkWord::NONE.port(), LinkWord::NONE.length()), (PortId::NONE, 0));
    }

    #[test]
    fn a_change_overwrites_only_the_lengths_it_decides() {
        let (short, same, long) = (route(8, NextHopId(1)), route(16, NextHopId(2)), route(24, NextHopId(3)));
        let insert = Change::insert(16, NextHopId(9));
        assert_eq!([0, short, same, long].map(|w| insert.apply(w)), {
            let new = route(16, NextHopId(9));
            [new, new, new, long]
        });
        let remove = Change::remove(16, short);
        assert_eq!([0, short, same, long].map(|w| remove.apply(w)), [0, short, short, long]);
    }
}
