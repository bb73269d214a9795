//! What happens to a packet once its route is known: next hops, adjacencies and interfaces.
//!
//! A [`NextHopId`] is what routes name; its word says what to do. A next hop with one path holds
//! the adjacency in its word; one with several holds a range of *buckets*, of which the flow hash
//! picks one. Redirecting 500,000 routes is one store to the next hop's word; a neighbour's changed
//! MAC is one store to the adjacency.

mod buckets;
pub(crate) mod table;

pub(crate) use buckets::MAX_BUCKETS;

use crate::InterfaceId;

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

/// A port: what has queues, 0..256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct PortId(pub u16);

impl PortId {
    /// No port.
    pub const NONE: PortId = PortId(abi::driver::NO_PORT);

    /// The port's own interface: what comes by it without a tag.
    pub const fn interface(self) -> InterfaceId {
        InterfaceId(self.0)
    }
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
    /// To a host on the network connected to this interface, whose own entry is not known yet.
    Glean(InterfaceId),
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

/// A neighbour on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjacency {
    /// Where it is. Fixed for the adjacency's life.
    pub interface: InterfaceId,
    /// Largest IP packet on the way to it, in bytes.
    pub mtu: u32,
    /// Its MAC; `None` while unresolved.
    pub mac: Option<[u8; 6]>,
}
