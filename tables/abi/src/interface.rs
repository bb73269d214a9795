//! What an interface may do.

use bitflags::Flags;

bitflags::bitflags! {
    /// What an interface may do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct InterfaceFlags: u32 {
        /// Link and administrative state are up.
        const UP = 1;
        /// The driver can redirect frames to it.
        const TARGET = 2;
        /// Linux has IPv4 forwarding on for it.
        const FORWARD4 = 4;
        /// Linux has IPv6 forwarding on for it.
        const FORWARD6 = 8;
        /// IPv4 sources must be routed back by this interface (RFC 3704).
        const RPF4_STRICT = 16;
        /// IPv4 sources must be routed by some interface.
        const RPF4_LOOSE = 32;
        /// As RPF4_STRICT, for IPv6.
        const RPF6_STRICT = 64;
        /// As RPF4_LOOSE, for IPv6.
        const RPF6_LOOSE = 128;
        /// The driver forwards what it can; otherwise all goes to the worker.
        const EXPRESS = 256;
        /// A worker has a queue to transmit by.
        const QUEUE = 512;
        /// Flows that are decided are offloaded to the driver; all other packets go to the worker.
        const FLOWS = 1024;
        /// Frames may arrive whose checksums, or whose cutting, their sender left to a NIC: a
        /// worker does it.
        const PARTIAL = 2048;
        /// What is transit here of IPv4 is Linux's: it does something to it that the plane does
        /// not.
        const LINUX4 = 4096;
        /// The same, IPv6.
        const LINUX6 = 8192;
        /// Transit depends on flows, which Linux does not know.
        const TRACKED = 16384;
        /// Its packets are routed by a table beside the main one: it belongs to a VRF.
        const VRF = 32768;
        /// It is a bridge, of which this is a member: frames of senders that Linux does not know
        /// behind it are Linux's, or Linux is told of them where transit depends on flows.
        const BRIDGED = 65536;
        /// And that bridge tells VLANs apart: hosts are known there by this interface, else by the
        /// port's own.
        const VLANS = 131072;
    }
}

/// The flags in C.
pub(crate) fn c() -> String {
    let flag = |flag: &bitflags::Flag<InterfaceFlags>| {
        format!("    IF_{} = {},\n", flag.name(), flag.value().bits())
    };
    format!("enum interface_flag {{\n{}}};\n", InterfaceFlags::FLAGS.iter().map(flag).collect::<String>())
}
