//! BFD: two routers tell each other, many times a second, that they are there (RFC 5880, over one
//! hop by RFC 5881 and over several by RFC 5883). Whoever hears nothing for a few intervals says so
//! to the routing protocols, long before they would notice.
//!
//! | file | what it is |
//! |---|---|
//! | `packet.rs` | control packets: read, judged, written |
//! | `session.rs` | a session as this machine takes part in it: its state and its timers |
//! | `frr.rs` | the messages by which FRR's bfdd hands its sessions to a forwarding plane |
//!
//! Nothing here has a socket, a thread or a clock. What happens is told, with the time at which it
//! did; what is to be done comes back as a list. So the tests run both ends of a session in memory,
//! hours of them in a second.
//!
//! Left out: authentication (bfdd does not hand it over), echo packets, and demand mode of our own.
//! The other end may use demand mode.

#![forbid(unsafe_code)]

pub mod frr;
pub mod packet;
mod session;

pub use packet::{Control, Diagnostic, State, Wrong};
pub use session::{Action, Session, Settings, Time};

/// Any bytes, as a fuzzer has them: read as a control packet and as messages of bfdd. What is read
/// is written again and read again, and must be the same.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    if let Ok(control) = packet::parse(bytes) {
        assert_eq!(packet::parse(&control.emit()), Ok(control));
    }
    let mut reader = frr::Reader::default();
    for chunk in bytes.chunks(37) {
        reader.feed(chunk);
        while let Ok(Some(_)) = reader.next() {}
    }
}
