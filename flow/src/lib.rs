//! The flow table: one lookup a packet for state, verdict, NAT and accounting.
