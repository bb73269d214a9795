//! Files of captured packets: pcap in all its variants, and pcapng.
//!
//! | file | what it is |
//! |---|---|
//! | [`pcap`] | headers of pcap: both byte orders, micro- and nanoseconds, old versions |
//! | [`pcapng`] | pcapng (draft-ietf-opsawg-pcapng): writing, and reading its blocks |
//! | [`reader`] | packets from a file of either kind |
//! | [`link`] | link types: their names, and where the IP packet is behind each one's header |
//! | [`filter`] | tcpdump's filters, compiled |

pub mod filter;
pub mod link;
pub mod pcap;
pub mod pcapng;
pub mod reader;

pub use filter::PacketFilter;
pub use reader::Reader;

/// Most bytes of one packet, whatever a file says.
pub const MOST: usize = 262_144;

/// What a file says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was captured, nanoseconds since 1970.
    pub time: i64,
    /// Bytes that it had; at least as many as the file has of it.
    pub length: u32,
    /// What its bytes begin with ([`link`]).
    pub link: u32,
}

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The operating system says no.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It has no bytes.
    #[error("empty file")]
    Empty,
    /// Shorter than a file's header.
    #[error("not a tcpdump file (too short)")]
    TooShort,
    /// It begins with none of the known marks.
    #[error("not a tcpdump file (bad magic number)")]
    BadMagic,
    /// A version of pcap that nobody knows.
    #[error("unknown major version {0}")]
    Version(u16),
    /// A packet's header cannot be true.
    #[error("bad packet header; giving up")]
    BadRecord,
}
