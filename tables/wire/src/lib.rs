//! Packet formats: checked views and builders.
//!
//! Two types a protocol. A *view* (`ethernet::Frame`, `ipv4::Packet`, ...) borrows bytes; its
//! `parse` checks what the accessors rely on, so that no accessor of a parsed view can panic. A
//! *representation* (`ethernet::Repr`, ...) is plain values that `emit` writes into a buffer. Views
//! do not judge: whether a packet may be forwarded is decided in `elements/`, and every reason to
//! drop one has its name in [`Reason`].
//!
//! Beside them [`which`] says which packets of a batch something holds for.
//!
//! What is not here: reassembly, sockets, anything that keeps state.

pub mod arp;
pub mod capture;
pub mod checksum;
mod class;
pub mod ethernet;
mod flow_hash;
pub mod headers;
pub mod icmp4;
pub mod icmp6;
mod icmp_error;
pub mod ipv4;
pub mod ipv6;
pub mod joined;
mod mac;
pub mod neighbour;
pub mod partial;
pub mod tcp;
pub mod udp;
pub mod which;

pub use abi::{Class, Reason, protocol};
pub use class::class_of_frame;
pub use flow_hash::{flow_hash, flow_hash4, flow_hash6, flow_key, set_flow_key};
pub use headers::{Fragment, Headers};
pub use icmp_error::IcmpError;
pub use mac::{Mac, MacError};

/// Why bytes are not the packet they were taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Fewer bytes than the header (or the length it states) needs.
    #[error("{what}: {have} bytes where {need} are needed")]
    Truncated {
        /// The protocol whose header was expected.
        what: &'static str,
        /// Bytes that are there.
        have: usize,
        /// Bytes that are needed.
        need: usize,
    },
    /// A version, header length or total length that contradicts the format.
    #[error("{what}: malformed {field}")]
    Malformed {
        /// The protocol whose header was expected.
        what: &'static str,
        /// The field at fault.
        field: &'static str,
    },
}

/// The big-endian 16-bit number at `at`. The caller has checked that it is there.
#[inline(always)]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The big-endian 32-bit number at `at`. The caller has checked that it is there.
#[inline(always)]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// `Truncated` unless `bytes` holds `need` bytes.
#[inline(always)]
pub(crate) fn require(what: &'static str, bytes: &[u8], need: usize) -> Result<(), ParseError> {
    if bytes.len() < need { Err(ParseError::Truncated { what, have: bytes.len(), need }) } else { Ok(()) }
}
