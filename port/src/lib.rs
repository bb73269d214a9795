//! Packet input and output: AF_XDP rings, the XDP programs, interfaces.
