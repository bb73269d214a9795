//! DHCP for IPv6 through a relay (RFC 8415, section 19).
//!
//! A host's message is put whole into one of the relay's, with the host's address, an address by
//! which the server chooses the subnet, and the interface's name, which the server repeats.

use std::net::Ipv6Addr;

use crate::Refused;

/// Where servers and relays listen.
pub const SERVER: u16 = 547;
/// Where hosts do.
pub const CLIENT: u16 = 546;
/// Where hosts ask for them.
pub const ALL: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
/// Relays that a message may have passed, at most (RFC 8415, 7.6).
pub const HOPS: u8 = 8;

/// The first byte of what goes to servers.
pub const RELAY_FORWARD: u8 = 12;
/// That of what comes back.
pub const RELAY_REPLY: u8 = 13;
/// Those of hosts: solicit, request, confirm, renew, rebind, release, decline, information-request.
const OF_HOSTS: [u8; 8] = [1, 3, 4, 5, 6, 8, 9, 11];

/// The head of a relay's message: its kind, how many relays it has passed, two addresses.
const HEAD: usize = 34;
const MESSAGE: u16 = 9;
const INTERFACE: u16 = 18;

/// A server's answer on its way to a host, or to another relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The interface's name; `None`: the server does not say.
    pub interface: Option<Vec<u8>>,
    /// The address that was told of the link.
    pub link: Ipv6Addr,
    /// Whose it is.
    pub to: Ipv6Addr,
    /// Where that listens.
    pub port: u16,
    /// What it gets.
    pub message: Vec<u8>,
}

/// What a server gets of a message that came from `from` by this interface, of at most 15 bytes.
/// `link` is an address of this router's there; unspecified: it has none but a link-local one.
///
/// # Errors
/// Why it goes no further.
pub fn forward(message: &[u8], interface: &str, link: Ipv6Addr, from: Ipv6Addr) -> Result<Vec<u8>, Refused> {
    let hops = match message {
        [RELAY_FORWARD, hops, ..] if message.len() >= HEAD => match *hops {
            hops if hops < HOPS => hops + 1,
            _ => return Err(Refused::Hops),
        },
        [kind, _, _, _, ..] if OF_HOSTS.contains(kind) => 0,
        [RELAY_FORWARD, ..] | [] | [_] | [_, _] | [_, _, _] => return Err(Refused::Malformed),
        _ => return Err(Refused::NotRelayed),
    };
    let length = u16::try_from(message.len()).map_err(|_| Refused::Malformed)?;
    // RFC 8415, 19.1.2: the server knows the link of another relay that has a name in the world.
    let link = if hops > 0 && !from.is_unicast_link_local() { Ipv6Addr::UNSPECIFIED } else { link };
    let mut relayed = vec![RELAY_FORWARD, hops];
    relayed.extend(link.octets());
    relayed.extend(from.octets());
    for (code, length) in [(INTERFACE, interface.len() as u16), (MESSAGE, length)] {
        relayed.extend(code.to_be_bytes());
        relayed.extend(length.to_be_bytes());
        relayed.extend(if code == MESSAGE { message } else { interface.as_bytes() });
    }
    Ok(relayed)
}

/// What a host, or another relay, gets of a server's answer.
///
/// # Errors
/// Why it goes no further.
pub fn back(answer: &[u8]) -> Result<Answer, Refused> {
    match answer {
        [RELAY_REPLY, ..] if answer.len() >= HEAD => {}
        [] | [RELAY_REPLY, ..] => return Err(Refused::Malformed),
        _ => return Err(Refused::NotRelayed),
    }
    let address = |at: usize| {
        let bytes: [u8; 16] = *answer[at..].first_chunk().expect("it has the length of a head");
        Ipv6Addr::from(bytes)
    };
    let (mut interface, mut message, mut rest) = (None, None, &answer[HEAD..]);
    while let [a, b, c, d, behind @ ..] = rest {
        let (code, length) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
        let data = behind.get(..length.into()).ok_or(Refused::Malformed)?;
        match code {
            MESSAGE => message = Some(data),
            INTERFACE => interface = Some(data.to_vec()),
            _ => {}
        }
        rest = &behind[length.into()..];
    }
    let message = message.filter(|message| rest.is_empty() && !message.is_empty());
    let message = message.ok_or(Refused::Malformed)?.to_vec();
    let port = if message[0] == RELAY_REPLY { SERVER } else { CLIENT };
    Ok(Answer { interface, link: address(2), to: address(18), port, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
    const HOST: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    const SOLICIT: &[u8] = &[1, 7, 7, 7, 0, 8, 0, 2, 0, 0];

    /// What a server makes of what it was told, whose answer is `inner`.
    fn answered(relayed: &[u8], inner: &[u8]) -> Vec<u8> {
        let mut answer = relayed[..HEAD].to_vec();
        answer[0] = RELAY_REPLY;
        // It may order options as it likes.
        answer.extend([0, 9]);
        answer.extend((inner.len() as u16).to_be_bytes());
        answer.extend(inner);
        answer.extend(&relayed[HEAD..HEAD + 4 + 6]);
        answer
    }

    #[test]
    fn a_host_is_answered_by_the_interface_that_it_asked_at() {
        let relayed = forward(SOLICIT, "vlan10", LINK, HOST).unwrap();
        assert_eq!(relayed[..2], [RELAY_FORWARD, 0]);
        assert_eq!(relayed[HEAD..], [&[0, 18, 0, 6][..], b"vlan10", &[0, 9, 0, 10], SOLICIT].concat());
        let back = back(&answered(&relayed, &[2, 7, 7, 7])).unwrap();
        let interface = Some(b"vlan10".to_vec());
        assert_eq!(back, Answer { interface, link: LINK, to: HOST, port: CLIENT, message: vec![2, 7, 7, 7] });
    }

    #[test]
    fn relays_behind_relays_are_passed() {
        let inner = forward(SOLICIT, "eth7", LINK, HOST).unwrap();
        let relay = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 7);
        let outer = forward(&inner, "vlan10", LINK, relay).unwrap();
        assert_eq!((outer[1], &outer[2..18]), (1, &[0; 16][..]), "that relay's address says the link");
        assert_eq!(outer[18..HEAD], relay.octets());
        let outer = forward(&inner, "vlan10", LINK, HOST).unwrap();
        assert_eq!(outer[2..18], LINK.octets());
        let answer = back(&answered(&outer, &answered(&inner, &[2, 7, 7, 7]))).unwrap();
        assert_eq!((answer.port, answer.message[0]), (SERVER, RELAY_REPLY));
        let mut far = inner.clone();
        far[1] = HOPS;
        assert_eq!(forward(&far, "vlan10", LINK, HOST), Err(Refused::Hops));
    }

    #[test]
    fn what_must_not_pass_does_not() {
        for server in [2, 7, 10, RELAY_REPLY, 200] {
            assert_eq!(forward(&[server, 0, 0, 0], "eth0", LINK, HOST), Err(Refused::NotRelayed));
        }
        for short in [&[][..], &[1, 7, 7], &[RELAY_FORWARD; 33]] {
            assert_eq!(forward(short, "eth0", LINK, HOST), Err(Refused::Malformed));
        }
        assert_eq!(forward(&[1; 70_000], "eth0", LINK, HOST), Err(Refused::Malformed));
        assert_eq!(back(SOLICIT), Err(Refused::NotRelayed));
        let whole = answered(&forward(SOLICIT, "vlan10", LINK, HOST).unwrap(), &[2, 7, 7, 7]);
        for cut in 1..whole.len() {
            // Without its last option it is whole again.
            assert!(back(&whole[..cut]).is_err() || cut == HEAD + 8, "{cut} bytes");
        }
    }
}
