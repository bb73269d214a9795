//! A relay of DHCP: hosts ask on their link, and servers elsewhere answer.
//!
//! ```text
//!   host ── to all on the link ──► relay ── its address on that link, and which link ──► server
//!   host ◄── a frame to the host ── relay ◄───────── to that address of the relay ────── server
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `four.rs` | for IPv4 (RFC 2131, 1542), with the option that names the link (RFC 3046, option 82) |
//! | `six.rs` | for IPv6 (RFC 8415, section 19) |
//!
//! A relay remembers nothing: a server sends back what it was told of the link. Nothing here has a
//! socket or a clock: messages are read and made.

#![forbid(unsafe_code)]

pub mod four;
pub mod six;

/// Why a message goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is none of DHCP's.
    #[error("it is no message of DHCP")]
    Malformed,
    /// It is none that a relay passes in this direction.
    #[error("it is not for a relay")]
    NotRelayed,
    /// Too many relays have passed it already.
    #[error("too many relays have passed it")]
    Hops,
    /// It comes back to the relay that sent it.
    #[error("this relay has sent it")]
    Loop,
    /// A host says on which link it is; relays do.
    #[error("a host names its own link (option 82)")]
    Untrusted,
    /// A server answers for a link that this relay does not have.
    #[error("it is for no link of this relay's")]
    Elsewhere,
}

/// Any bytes, as a fuzzer has them: in both directions, by both families.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    use std::net::{Ipv4Addr, Ipv6Addr};
    let own = Ipv4Addr::new(192, 0, 2, 1);
    let agent = four::Agent::new("eth0", true, Some("router"), false);
    if let Ok(relayed) = agent.forward(bytes, own) {
        assert!(relayed.len() <= bytes.len().max(four::SHORTEST) + four::OPTION_AT_MOST);
        // A server repeats what the relay added; without it the message is a host's again.
        let mut answer = relayed.clone();
        answer[0] = four::REPLY;
        let back = agent.back(&answer).expect("it has the form of one");
        assert_eq!(four::gateway(&answer), Some(back.gateway));
        assert!(back.message.len() <= answer.len().max(four::SHORTEST));
    }
    let _ = (agent.back(bytes), four::gateway(bytes));
    let (link, host) = (Ipv6Addr::from(0x2001_0db8 << 96 | 1), Ipv6Addr::from(0xfe80 << 112 | 2));
    if let Ok(relayed) = six::forward(bytes, "eth0", link, host) {
        let mut answer = relayed;
        answer[0] = six::RELAY_REPLY;
        let back = six::back(&answer).expect("it has the form of one");
        assert_eq!((back.link, back.to), (link, host));
        assert_eq!((back.interface.as_deref(), &back.message[..]), (Some(&b"eth0"[..]), bytes));
    }
    let _ = six::back(bytes);
}

/// Whether bytes have others in them.
#[cfg(test)]
fn has(bytes: &[u8], others: &[u8]) -> bool {
    bytes.windows(others.len()).any(|window| window == others)
}
