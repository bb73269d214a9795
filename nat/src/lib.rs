//! Address translation: bindings, ports, and the rewriting of packets.
