//! Longest-prefix match, next hops and adjacencies, read by both lanes.
