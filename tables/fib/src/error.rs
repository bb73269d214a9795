use crate::{AdjacencyId, NextHopId};

/// Why the tables refused a change. Whatever the reason, nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FibError {
    /// A table has no room. Raise the named limit in `[tables]`, or leave the route to Linux.
    #[error("the {table} table is full ({limit} {unit}): raise its limit in [tables]")]
    Full {
        /// Which table.
        table: &'static str,
        /// How many it holds.
        limit: usize,
        /// Of what.
        unit: &'static str,
    },
    /// A route or a change names a next hop that does not exist.
    #[error("next hop {} does not exist: add it before the routes that use it", .0.0)]
    NoSuchNextHop(NextHopId),
    /// A next hop or a change names an adjacency that does not exist.
    #[error("adjacency {} does not exist: add it before the next hops that use it", .0.0)]
    NoSuchAdjacency(AdjacencyId),
    /// A change would move an adjacency to another interface, which no reader could be shown in one
    /// step.
    #[error("adjacency {} cannot move to another interface: add a new one and redirect its next hops", .0.0)]
    AdjacencyMoved(AdjacencyId),
    /// An interface, or the port that it is on, beyond the table.
    #[error("interface {0} is out of range: at most {limit}", limit = crate::InterfaceId::COUNT)]
    NoSuchInterface(u16),
    /// A table of routes beyond those that there can be.
    #[error("table {0} is out of range: at most {limit}", limit = crate::TableId::COUNT)]
    NoSuchTable(u16),
    /// Two interfaces with the same tags on one port.
    #[error("another interface on port {port} has the same tags")]
    TagsTaken {
        /// The port.
        port: u16,
    },
    /// No room for the tags of another port, or inside another outer tag.
    #[error("at most {limit} ports and outer tags can have tags of their own")]
    TooManyTags {
        /// How many there is room for.
        limit: usize,
    },
    /// Two tunnels with the same ends, protocol and key.
    #[error("another tunnel has the same ends")]
    EndsTaken,
    /// No room for another tunnel.
    #[error("at most {limit} tunnels")]
    TooManyTunnels {
        /// How many there is room for.
        limit: usize,
    },
    /// `NextHop::Forward` without paths, or with nothing but weights of zero.
    #[error("a forwarding next hop needs at least one path of weight 1 or more")]
    NoPaths,
    /// More paths than buckets.
    #[error("{0} paths in one next hop: at most {limit} can share the load", limit = crate::forward::MAX_BUCKETS)]
    TooManyPaths(usize),
    /// More next hops asked for than a table word can name.
    #[error("{0} next hops: a table word can name at most {limit}", limit = crate::word::MAX_NEXT_HOPS)]
    TooManyNextHops(usize),
    /// The driver's array has not the size that [`Capacity::sizes`](crate::Capacity::sizes) asks
    /// for.
    #[error("the driver's array {name} has {found} bytes, {wanted} are needed")]
    DriverSize {
        /// Map name.
        name: &'static str,
        /// Bytes it has.
        found: usize,
        /// Bytes it must have.
        wanted: usize,
    },
    /// The kernel gave no memory.
    #[error("cannot map {bytes} bytes for the tables: {source}")]
    NoMemory {
        /// Bytes asked for.
        bytes: usize,
        /// The kernel's reason.
        source: std::io::Error,
    },
}
