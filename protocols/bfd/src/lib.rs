//! BFD: two routers tell each other, many times a second, that they are there (RFC 5880, over one
//! hop by RFC 5881 and over several by RFC 5883). Whoever hears nothing for a few intervals says so
//! to the routing protocols, long before they would notice.
//!
//! | file | what it is |
//! |---|---|
//! | `packet.rs` | control packets: read, judged, written |
//! | `key.rs` | keys, and the section of a packet that shows one |
//! | `authentication.rs` | whose packets a session believes, and how its own are signed |
//! | `session.rs` | a session as this machine takes part in it: its state and its timers |
//! | `frr.rs` | the messages by which FRR's bfdd hands its sessions to a forwarding plane |
//!
//! Nothing here has a socket, a thread or a clock. What happens is told, with the time at which it
//! did; what is to be done comes back as a list. So the tests run both ends of a session in memory,
//! hours of them in a second.
//!
//! bfdd knows nothing of authentication. So a session's keys come from elsewhere, and stand beside
//! the session: what is not authentic never comes to it.
//!
//! Left out: echo packets, and demand mode of our own. The other end may use demand mode.

#![forbid(unsafe_code)]

mod authentication;
pub mod frr;
mod key;
pub mod packet;
mod session;

pub use authentication::{Authentication, Refused};
pub use key::{Bytes, Key, Kind, WrongLength};
pub use packet::{Control, Diagnostic, Packet, State, Wrong};
pub use session::{Action, Session, Settings, Time};

/// Any bytes, as a fuzzer has them: read as a control packet and as messages of bfdd. What is read
/// is written again and read again, and must be the same. Signed by any key it is believed by who
/// has the same key, and by nobody else.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    if let Ok(packet) = packet::parse(bytes) {
        let control = packet.control;
        assert_eq!(packet::parse(&control.emit()).map(|packet| packet.control), Ok(control));
        for (word, kind) in Kind::NAMED {
            let keys = |secret| Key::new(7, kind, secret).into_iter().collect();
            let mut ours = Authentication::new(keys(word), control.mine);
            let _any = ours.check(&packet, Time::ZERO);
            let signed = ours.sign(&control);
            let signed = packet::parse(&signed);
            let believed = |secret, packet: &Packet| {
                Authentication::new(keys(secret), 0).check(packet, Time::ZERO).is_ok()
            };
            assert!(signed.is_ok_and(|it| it.control == control && believed(word, &it)));
            assert!(signed.is_ok_and(|it| !believed("another", &it)));
        }
    }
    let mut reader = frr::Reader::default();
    for chunk in bytes.chunks(37) {
        reader.feed(chunk);
        while let Ok(Some(_)) = reader.next() {}
    }
}
