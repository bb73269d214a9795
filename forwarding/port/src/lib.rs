//! Packet input and output: packet memory, AF_XDP rings, the programs in the driver, interfaces.
//!
//! | module | what it is |
//! |---|---|
//! | [`packet`], [`annotations`], [`pool`] | a packet, what elements note about it, the memory that it lives in |
//! | [`queue`] | one (port, queue): the trait that a worker polls |
//! | [`memory`] | the packet memory of all workers |
//! | [`xsk`] | AF_XDP: a queue of an interface |
//! | [`xdp`] | interfaces by AF_XDP that parts of a program share |
//! | [`driver`] | the programs in the driver (`forwarding/bpf/`): load, attach, feed and read them |
//! | [`copies`] | copies of what passes ports, for those who watch |
//! | [`leash`] | a thread stopped for ever, and its sockets taken from it |
//! | [`inject`] | how a worker hands a packet to Linux |
//! | [`socket`] | frames as Linux sees them, and frames sent, without taking anything from it |
//! | [`tap`] | interfaces of Linux whose other end is this program |
//! | [`device`] | facts about interfaces |
//! | [`memif`] | shared memory with another program: VPP, DPDK, or this one again |
//! | [`pcap`] | files of frames, to receive from and to send into |
//! | [`prepared`] | packets made in advance, and a sink: for measuring |
//! | [`clock`] | the clock of the programs in the kernel |
//! | [`wait`] | sleeping until a file descriptor is readable |
//! | [`traffic`] | load for benches, made and counted in the kernel |

pub mod annotations;
mod bpf;
pub mod classic;
pub mod clock;
pub mod copies;
pub mod descriptors;
pub mod device;
pub mod driver;
mod error;
pub mod inject;
pub mod leash;
pub mod memif;
pub mod memory;
pub mod packet;
pub mod pcap;
mod peer;
pub mod pool;
pub mod prepared;
pub mod queue;
mod raw;
mod redirect;
pub mod socket;
pub mod tap;
pub mod tcx;
pub mod traffic;
mod urgent;
mod wait;
pub mod xdp;
pub mod xsk;

pub use annotations::{ANNOTATION_BYTES, Annotations, DESTINATION, PAINT, PacketType};
pub use driver::{
    Attachment, Driver, DriverCounters, Extra, FlowMatch, HandedLink, Lane, Mode, RoutingPeer, VirtualRouters,
};
pub use error::DriverError;
pub use inject::{Injector, JUDGED_MARK};
pub use leash::{Leash, Recall};
pub use memif::{LONGEST_RING, MemifQueue};
pub use memory::{HugePages, Memory, MemoryError};
pub use packet::{CHUNK, HEADROOM, MAX_BYTES, MAX_SEGMENTS, Packet};
pub use pcap::PcapQueue;
pub use peer::Peer;
pub use pool::Pool;
pub use prepared::{Fresh, Prepared, Sink};
pub use queue::{Queue, QueueCounters};
pub use raw::RawSocket;
pub use socket::{PacketSocket, Received, SocketOptions};
pub use tap::{Tap, TapKind, TapSetup};
pub use urgent::urgent;
pub use wait::wait;
pub use xdp::{XdpDevices, XdpError, XdpQueue};
pub use xsk::{BusyPoll, Xsk, XskError, XskMode, XskOptions, ZeroCopy};
