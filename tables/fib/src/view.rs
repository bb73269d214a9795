use crate::beside::{TableId, Walk};
use crate::grace::{Epochs, Reader};
use crate::interface::{INNER, in_block, root_at};
use crate::ipv6::lookup::{Beside, Main};
use crate::memory::{PORTS, WorkerMemory, prefetch};
use crate::traffic::{self, Count, Counts};
use crate::tunnel;
use crate::word::{AdjacencyWord, Hop, ID, InterfaceWord, LinkWord, length};
use crate::{AdjacencyId, HopKind, InterfaceId, NextHopId, PortId, ipv4, ipv6};
use abi::ethernet::{QINQ, VLAN};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What all views share.
pub(crate) struct Shared {
    pub(crate) memory: WorkerMemory,
    pub(crate) epochs: Arc<Epochs>,
}

/// The tables as readers see them: lock-free, always whole, always current.
///
/// A thread that looks up continuously registers itself by [`reader`](View::reader) and reports its
/// quiescent states. Without that an answer that raced with an update may be stale or, rarely,
/// another prefix's; never invalid memory.
#[derive(Clone)]
pub struct View {
    shared: Arc<Shared>,
    counts: Counts,
}

impl View {
    pub(crate) fn new(shared: Arc<Shared>) -> View {
        View { shared, counts: Counts::none() }
    }

    /// The same for a worker, which counts here what passes logical interfaces. No other thread may
    /// count there.
    pub fn counting(&self, counts: Counts) -> View {
        View { counts, ..self.clone() }
    }

    /// The next hop of an IPv4 address (host order number).
    #[inline]
    pub fn lookup4(&self, address: u32) -> NextHopId {
        let memory = &self.shared.memory;
        ipv4::lookup::one(&memory.arrays.fib4, memory.rest4, address)
    }

    /// The next hops of many IPv4 addresses. Both slices have the same length.
    #[inline]
    pub fn lookup4_batch(&self, addresses: &[u32], ids: &mut [NextHopId]) {
        assert_eq!(addresses.len(), ids.len(), "an answer for each address");
        let memory = &self.shared.memory;
        ipv4::lookup::batch(&memory.arrays.fib4, memory.rest4, addresses, ids);
    }

    /// The next hop of an IPv6 address (the big-endian number).
    #[inline]
    pub fn lookup6(&self, address: u128) -> NextHopId {
        ipv6::lookup::one(&self.shared.memory.arrays.fib6, Main(&[address]))
    }

    /// The next hops of many IPv6 addresses. Both slices have the same length.
    #[inline]
    pub fn lookup6_batch(&self, addresses: &[u128], ids: &mut [NextHopId]) {
        assert_eq!(addresses.len(), ids.len(), "an answer for each address");
        ipv6::lookup::batch(&self.shared.memory.arrays.fib6, Main(addresses), ids);
    }

    /// The next hop of an address in any table, the main one's where that one has none. See
    /// [`View::lookup_beside`].
    pub fn lookup(&self, table: TableId, address: IpAddr) -> NextHopId {
        let main = || match address {
            IpAddr::V4(address) => self.lookup4(address.to_bits()),
            IpAddr::V6(address) => self.lookup6(address.to_bits()),
        };
        if table == TableId::MAIN {
            return main();
        }
        let walk = match address {
            IpAddr::V4(address) => Walk::ipv4(table, address.to_bits()),
            IpAddr::V6(address) => Walk::ipv6(table, address.to_bits()),
        };
        let mut id = [NextHopId::NONE];
        self.lookup_beside(&[walk], &mut id);
        if self.hop(id[0]).kind() == HopKind::None { main() } else { id[0] }
    }

    /// The route of an address in this table alone: its next hop, and the length of its prefix.
    pub fn route(&self, table: TableId, address: IpAddr) -> (NextHopId, u8) {
        let arrays = &self.shared.memory.arrays;
        let beside = |walk| ipv6::lookup::word_of(&arrays.fib6, Beside(&[walk]));
        let word = match address {
            IpAddr::V4(address) if table == TableId::MAIN => {
                ipv4::lookup::word_of(&arrays.fib4, self.shared.memory.rest4, address.to_bits())
            }
            IpAddr::V6(address) if table == TableId::MAIN => {
                ipv6::lookup::word_of(&arrays.fib6, Main(&[address.to_bits()]))
            }
            IpAddr::V4(address) => beside(Walk::ipv4(table, address.to_bits())),
            IpAddr::V6(address) => beside(Walk::ipv6(table, address.to_bits())),
        };
        (NextHopId(word & ID), length(word))
    }

    /// The next hop of an address for what came in by an interface.
    #[inline]
    pub fn lookup_from(&self, input: InterfaceId, address: IpAddr) -> NextHopId {
        let link = self.hops().link(input);
        self.lookup(if link == LinkWord::NONE { TableId::MAIN } else { link.table() }, address)
    }

    /// The next hops of addresses in tables beside the main one. Where the hop is
    /// [`HopKind::None`], the main table decides, as Linux's rules say of a VRF's. Both slices have
    /// the same length.
    pub fn lookup_beside(&self, walks: &[Walk], ids: &mut [NextHopId]) {
        assert_eq!(walks.len(), ids.len(), "an answer for each address");
        ipv6::lookup::batch(&self.shared.memory.arrays.fib6, Beside(walks), ids);
    }

    /// The tables behind the lookup, for a loop over packets: one that writes to packets would else
    /// ask again for each where they are.
    #[inline(always)]
    pub fn hops(&self) -> Hops<'_> {
        let arrays = &self.shared.memory.arrays;
        Hops {
            fib4: &arrays.fib4,
            rest4: self.shared.memory.rest4,
            nexthops: &arrays.nexthops,
            buckets: &arrays.buckets,
            adjacencies: arrays.adjacencies.as_chunks().0,
            used: &arrays.used,
            interfaces: arrays.interfaces.as_chunks().0,
            tags: &arrays.tags,
            tunnels: tunnel::Words { tunnels: &arrays.tunnels, ends: &arrays.ends, hosts: &arrays.hosts },
            counts: self.counts.entries(),
        }
    }

    /// See [`Hops::hop`].
    #[inline]
    pub fn hop(&self, id: NextHopId) -> Hop {
        self.hops().hop(id)
    }

    /// See [`Hops::select`].
    #[inline]
    pub fn select(&self, hop: Hop, hash: u32) -> AdjacencyId {
        self.hops().select(hop, hash)
    }

    /// See [`Hops::adjacency`].
    #[inline]
    pub fn adjacency(&self, id: AdjacencyId) -> AdjacencyWord {
        self.hops().adjacency(id)
    }

    /// See [`Hops::interface`].
    #[inline]
    pub fn interface(&self, id: InterfaceId) -> InterfaceWord {
        self.hops().interface(id)
    }

    /// See [`Hops::mark_used`].
    #[inline]
    pub fn mark_used(&self, id: AdjacencyId) {
        self.hops().mark_used(id);
    }

    /// Registers the calling worker as a reader.
    pub fn reader(&self) -> Reader {
        self.shared.epochs.register()
    }
}

/// What a lookup leads to: next hops, adjacencies, interfaces.
#[derive(Clone, Copy)]
pub struct Hops<'a> {
    fib4: &'a [AtomicU32],
    rest4: u32,
    nexthops: &'a [AtomicU64],
    buckets: &'a [AtomicU32],
    adjacencies: &'a [[AtomicU64; 2]],
    used: &'a [AtomicU32],
    interfaces: &'a [[AtomicU64; 4]],
    tags: &'a [AtomicU32],
    tunnels: tunnel::Words<'a>,
    counts: &'a [traffic::Entry],
}

impl Hops<'_> {
    #[inline(always)]
    pub(crate) fn tunnels(&self) -> tunnel::Words<'_> {
        self.tunnels
    }

    /// Asks for what [`View::lookup4_batch`] will read of an address, some time before.
    #[inline(always)]
    pub fn prefetch4(&self, address: u32) {
        prefetch(self.fib4.as_ptr().wrapping_add((address >> self.rest4) as usize));
    }

    /// What a next hop does.
    #[inline(always)]
    pub fn hop(&self, id: NextHopId) -> Hop {
        Hop(self.nexthops[id.0 as usize].load(Ordering::Acquire))
    }

    /// The path that a flow takes, for a hop of kind `Forward`.
    #[inline(always)]
    pub fn select(&self, hop: Hop, hash: u32) -> AdjacencyId {
        if hop.log2() == 0 {
            return AdjacencyId(hop.base());
        }
        let bucket = hop.base() + (hash & ((1 << hop.log2()) - 1));
        AdjacencyId(self.buckets[bucket as usize].load(Ordering::Acquire))
    }

    /// Where an adjacency is.
    #[inline(always)]
    pub fn adjacency(&self, id: AdjacencyId) -> AdjacencyWord {
        let [mac, link] = &self.adjacencies[id.0 as usize];
        AdjacencyWord([mac.load(Ordering::Acquire), link.load(Ordering::Relaxed)])
    }

    /// An interface; `InterfaceId::NONE` and those that do not exist have no flags.
    #[inline(always)]
    pub fn interface(&self, id: InterfaceId) -> InterfaceWord {
        match self.interfaces.get(usize::from(id.0)) {
            Some([mac, mtu, ..]) => InterfaceWord([mac.load(Ordering::Acquire), mtu.load(Ordering::Relaxed)]),
            _ => InterfaceWord::NONE,
        }
    }

    /// How frames leave by an interface.
    #[inline(always)]
    pub fn link(&self, id: InterfaceId) -> LinkWord {
        match self.interfaces.get(usize::from(id.0)) {
            Some([_, _, tags, port]) => {
                LinkWord([tags.load(Ordering::Relaxed), port.load(Ordering::Relaxed)])
            }
            _ => LinkWord::NONE,
        }
    }

    /// The interface of a frame with tags, and how many bytes of tags are its, 4 or 8. `bytes` are
    /// those of the frame from the 12th on, where the first tag's type stands. `None`: the frame
    /// has no tags, or no interface of the plane's has them.
    ///
    /// A tag with the identifier 0 says only a priority (IEEE 802.1Q, 9.6): alone, the frame is the
    /// port's own.
    #[inline]
    pub fn enter(&self, port: PortId, bytes: &[u8; 10]) -> Option<(InterfaceId, usize)> {
        let [a, b, c, d, e, f, g, h, ..] = *bytes;
        let service = match u16::from_be_bytes([a, b]) {
            VLAN => false,
            QINQ => true,
            _ => return None,
        };
        let [outer, inner] = [[c, d], [g, h]].map(|tag| u16::from_be_bytes(tag) & 0xfff);
        let word = |at: usize| self.tags.get(at).map_or(0, |word| word.load(Ordering::Acquire));
        let mut found = match word(root_at(port, service)) {
            0 => 0,
            root => word(in_block(root, outer)),
        };
        let (tagged, inside) = (u16::from_be_bytes([e, f]) == VLAN, found & INNER != 0);
        if inside {
            found = word(in_block(found & !INNER, if tagged { inner } else { 0 }));
        }
        let length = if tagged && (inside || inner == 0) { 8 } else { 4 };
        match found {
            0 if outer == 0 && !tagged => Some((port.interface(), 4)),
            0 => None,
            id => Some((InterfaceId(id as u16 - 1), length)),
        }
    }

    /// Whether interfaces with tags are on a port. Frames with a tag of priority alone may come by
    /// any.
    #[inline(always)]
    pub fn has_tags(&self, port: PortId) -> bool {
        let root =
            |service| self.tags.get(root_at(port, service)).map_or(0, |word| word.load(Ordering::Acquire));
        usize::from(port.0) < PORTS && (root(false) | root(true)) != 0
    }

    /// Counts frames that entered by an interface with its tags.
    #[inline(always)]
    pub fn count_received(&self, id: InterfaceId, frames: Count) {
        traffic::add(self.counts, id, 0, frames);
    }

    /// Counts frames that leave by an interface with its tags.
    #[inline(always)]
    pub fn count_sent(&self, id: InterfaceId, frames: Count) {
        traffic::add(self.counts, id, 2, frames);
    }

    /// Tells the writer that packets go by this adjacency, so that its neighbour entry is kept
    /// fresh.
    #[inline(always)]
    pub fn mark_used(&self, id: AdjacencyId) {
        let mark = &self.used[id.0 as usize];
        // A store only when needed: the line stays shared among the workers.
        if mark.load(Ordering::Relaxed) == 0 {
            mark.store(1, Ordering::Relaxed);
        }
    }
}
