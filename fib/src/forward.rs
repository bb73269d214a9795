//! What happens to a packet once its route is known: next hops, adjacencies and ports.
//!
//! A [`NextHopId`] is what routes name; its word says what to do. A next hop with one path holds the adjacency in its
//! word; one with several holds a range of *buckets*, of which the flow hash picks one. Redirecting 500,000 routes is one
//! store to the next hop's word; a neighbour's changed MAC is one store to the adjacency.

mod buckets;
pub(crate) mod table;

pub(crate) use buckets::MAX_BUCKETS;

/// What the longest-prefix match answers: an index into the next hops, 1..4,194,304. 0 = no route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct NextHopId(pub u32);

impl NextHopId {
    /// No route.
    pub const NONE: NextHopId = NextHopId(0);
}

/// An index into the adjacencies; 0 is never given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct AdjacencyId(pub u32);

/// An index into the ports, 0..256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct PortId(pub u16);

impl PortId {
    /// No port.
    pub const NONE: PortId = PortId(0xffff);
}

/// What to do with the packets of the routes that share this next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// As if there were no route.
    None,
    /// To one of these neighbours, shared by weight, each flow on one path. At most 256 paths.
    Forward(Vec<Path>),
    /// The same, by routes that name the source of what this machine itself sends by them.
    Sourced(Vec<Path>),
    /// To this machine.
    Local,
    /// To a host on the network connected to this port, whose own entry is not known yet.
    Glean(PortId),
    /// Drop silently.
    Blackhole,
    /// Drop, and answer address unreachable.
    Unreachable,
    /// Drop, and answer administratively prohibited.
    Prohibit,
    /// Linux forwards it.
    Punt,
    /// Linux forwards it by interfaces of its own, the narrowest of which has this MTU.
    Foreign(u32),
}

/// One of the ways of a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The neighbour.
    pub adjacency: AdjacencyId,
    /// Its share of the flows, relative to the others'. 0 = none.
    pub weight: u16,
}

/// A neighbour on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjacency {
    /// Where it is. Fixed for the adjacency's life.
    pub port: PortId,
    /// Largest IP packet on the way to it, in bytes.
    pub mtu: u32,
    /// Its MAC; `None` while unresolved.
    pub mac: Option<[u8; 6]>,
}

/// A port as the data path sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortEntry {
    /// Linux's interface index, not 0.
    pub ifindex: u32,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// Its own MAC.
    pub mac: [u8; 6],
    /// What it may do.
    pub flags: PortFlags,
}

bitflags::bitflags! {
    /// What a port may do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PortFlags: u16 {
        /// Link and administrative state are up.
        const UP = 1;
        /// The driver can redirect frames to it.
        const TARGET = 2;
        /// Linux has IPv4 forwarding on for it.
        const FORWARD4 = 4;
        /// Linux has IPv6 forwarding on for it.
        const FORWARD6 = 8;
        /// IPv4 sources must be routed back by this port (RFC 3704).
        const RPF4_STRICT = 16;
        /// IPv4 sources must be routed by some port.
        const RPF4_LOOSE = 32;
        /// As RPF4_STRICT, for IPv6.
        const RPF6_STRICT = 64;
        /// As RPF4_LOOSE, for IPv6.
        const RPF6_LOOSE = 128;
        /// The driver forwards what it can; otherwise all goes to the worker.
        const EXPRESS = 256;
        /// A worker has a queue to transmit by.
        const QUEUE = 512;
        /// The driver carries packets of flows that are decided; all others go to the worker.
        const FLOWS = 1024;
        /// Frames may arrive whose checksums, or whose cutting, their sender left to a NIC: a worker does it.
        const PARTIAL = 2048;
        /// What is transit here of IPv4 is Linux's: it does something to it that the plane does not.
        const LINUX4 = 4096;
        /// The same, IPv6.
        const LINUX6 = 8192;
        /// Transit depends on flows, which Linux does not know.
        const TRACKED = 16384;
    }
}
