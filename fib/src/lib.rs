//! Longest-prefix match, next hops and adjacencies, read by both lanes.

mod id;
pub use id::{AdjacencyId, NextHopId, PortId};
