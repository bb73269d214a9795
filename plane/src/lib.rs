//! The forwarding plane: workers, the standard router graph, counters.
