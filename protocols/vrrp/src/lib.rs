//! VRRP: several routers have one address between them, and one of them answers for it (RFC 9568;
//! version 2: RFC 3768).
//!
//! | file | what it is |
//! |---|---|
//! | `packet.rs` | advertisements: read, judged, written |
//! | `frame.rs` | the frames that carry them, and what tells hosts where the address is: ARP, neighbour discovery |
//! | `member.rs` | a virtual router as this machine takes part in it: its timers, and what they have heard |
//! | `set.rs` | who is active: one state for virtual routers that move together |
//!
//! Nothing here has a socket, a thread or a clock. What happens is told, with the time at which it
//! did; what is to be done comes back as a list. So the tests run whole networks of routers in
//! memory, hours of them in a second.

#![forbid(unsafe_code)]

pub mod frame;
mod member;
pub mod packet;
mod set;

pub use member::{Settings, Version};
pub use packet::{Advertisement, Wrong};
pub use set::{Action, Set, State, Time, Why};

/// The protocol's number in IP headers.
pub const PROTOCOL: u8 = wire::protocol::VRRP;

/// Any bytes, as a fuzzer has them: read as an advertisement of either family and as a frame with a
/// question. What is read is written again and read again, and must be the same.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    use std::net::{Ipv4Addr, Ipv6Addr};
    // Checksums that are right by chance are rare: with one written in, the rest of the reader has
    // its turn as well.
    let (four, six) = (Ipv4Addr::new(192, 0, 2, 1), Ipv6Addr::from(0xfe80 << 112 | 1));
    for source in [four.into(), six.into()] {
        let to = packet::group(source);
        let mut packet = bytes.to_vec();
        for _ in 0..2 {
            if let Ok(read) = packet::parse(&packet, source, to, 255) {
                let written = packet::emit(&read, source, to);
                assert_eq!(packet::parse(&written, source, to, 255).as_ref(), Ok(&read));
            }
            packet::set_checksum(&mut packet, source, to);
        }
    }
    let _ = frame::question(bytes);
}
