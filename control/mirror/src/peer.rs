//! Whose process is at the other end of a TCP connection.
//!
//! TCP has no credentials. But the other end of a connection within this machine is a socket of it,
//! which the kernel lists with its owner.

use std::net::{IpAddr, SocketAddr, TcpStream};

use nix::unistd::{User, geteuid};

/// Whether the peer of this connection is believed: root, this program's own user and these are.
/// `setting` is where the operator names them.
///
/// # Errors
/// Why not, for the log.
pub fn check(stream: &TcpStream, from: SocketAddr, users: &[String], setting: &str) -> Result<(), String> {
    let here = stream.local_addr().map_err(|error| error.to_string())?;
    let Some(uid) = owner(from, here).map_err(|error| format!("sockets cannot be listed: {error}"))? else {
        // Another machine's, for whom the operator opened the port; one of the loopback has an
        // owner as long as it lives.
        return match from.ip().to_canonical().is_loopback() {
            true => Err("it is over already".to_owned()),
            false => Ok(()),
        };
    };
    let is = |name: &String| matches!(User::from_name(name), Ok(Some(user)) if user.uid.as_raw() == uid);
    match uid == 0 || uid == geteuid().as_raw() || users.iter().any(is) {
        true => Ok(()),
        false => {
            let may = [&["root".to_owned()], users].concat().join(", ");
            Err(format!("it is user {uid}'s; those who are believed ({setting}): {may}"))
        }
    }
}

/// The user whose socket has this address and this peer.
fn owner(local: SocketAddr, peer: SocketAddr) -> std::io::Result<Option<u32>> {
    for table in ["tcp", "tcp6"] {
        // Of the thread's network namespace. There may be no IPv6.
        let list = match std::fs::read_to_string(format!("/proc/thread-self/net/{table}")) {
            Ok(list) => list,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let found = list.lines().skip(1).find_map(|line| {
            let mut fields = line.split_whitespace();
            let (here, there) = (address(fields.nth(1)?)?, address(fields.next()?)?);
            let is_it = same(here, local) && same(there, peer);
            fields.nth(4).filter(|_| is_it)?.parse().ok()
        });
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn same(one: SocketAddr, other: SocketAddr) -> bool {
    (one.ip().to_canonical(), one.port()) == (other.ip().to_canonical(), other.port())
}

/// `0100007F:0A3C`: words in the machine's byte order, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let words: Option<Vec<[u8; 4]>> = (0..ip.len() / 8)
        .map(|n| Some(u32::from_str_radix(ip.get(8 * n..8 * n + 8)?, 16).ok()?.to_ne_bytes()))
        .collect();
    let bytes = words?.concat();
    let ip = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_owner_of_the_other_end_is_found() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, from) = listener.accept().unwrap();
            let here = stream.local_addr().unwrap();
            assert_eq!(owner(from, here).unwrap(), Some(geteuid().as_raw()));
            assert_eq!(owner(from, from).unwrap(), None);
            check(&stream, from, &[], "any").unwrap();
        }
    }
}
