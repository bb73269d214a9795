//! Linux's TCP sockets (`NETLINK_SOCK_DIAG`): the sessions of routing protocols among them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{IPV4, IPV6};

/// `SOCK_DIAG_BY_FAMILY`: of requests and of answers.
pub const BY_FAMILY: u16 = 20;

/// States of TCP as bits: established, and begun by this machine. Who only knocks is nobody's peer
/// yet.
const STATES: u32 = 1 << 1 | 1 << 2;
const REQUEST: usize = 16 + 56;

/// A session of TCP, as this machine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    /// The other side's address.
    pub address: IpAddr,
    /// Its port.
    pub theirs: u16,
    /// The port on this machine.
    pub ours: u16,
}

/// A request for all sessions of TCP of a family (`struct inet_diag_req_v2`).
pub fn dump(ipv6: bool) -> Vec<u8> {
    let mut request = vec![0; REQUEST];
    request[..4].copy_from_slice(&(REQUEST as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    request[6..8].copy_from_slice(&flags.to_ne_bytes());
    request[16] = if ipv6 { IPV6 } else { IPV4 };
    request[17] = libc::IPPROTO_TCP as u8;
    request[20..24].copy_from_slice(&STATES.to_ne_bytes());
    request
}

/// Reads `struct inet_diag_msg`.
pub fn parse(body: &[u8]) -> Option<Session> {
    let (family, id) = (*body.first()?, body.get(4..52)?);
    let port = |at: usize| u16::from_be_bytes([id[at], id[at + 1]]);
    let address: [u8; 16] = *id[20..].first_chunk()?;
    let address = match family {
        IPV4 => Ipv4Addr::new(address[0], address[1], address[2], address[3]).into(),
        IPV6 => Ipv6Addr::from(address).to_canonical(),
        _ => return None,
    };
    Some(Session { address, theirs: port(2), ours: port(0) })
}

#[cfg(test)]
mod tests {
    use super::super::socket::sessions;
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn sessions_of_both_families_are_found_and_what_is_cut_short_is_none() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (here, there) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            let found = sessions().unwrap();
            let expected = Session { address: there.ip(), theirs: there.port(), ours: here.port() };
            assert!(found.contains(&expected), "{expected:?} is not among {found:?}");
            assert!(found.iter().all(|session| session.theirs != 0), "a listener is no session: {found:?}");
        }
        let mut whole = [0; 72];
        whole[0] = IPV4;
        assert!(parse(&whole).is_some());
        assert!((0..52).all(|length| parse(&whole[..length]).is_none()));
    }
}
