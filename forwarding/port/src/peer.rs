//! Who is at the other end of a UNIX socket, as the kernel noted it when it connected.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

/// A process at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
    /// Its groups, the primary one first.
    pub groups: Vec<u32>,
}

impl Peer {
    /// Of a connected socket.
    pub fn of(stream: &UnixStream) -> io::Result<Peer> {
        let credentials = getsockopt(stream, PeerCredentials)?;
        let mut groups = vec![credentials.gid()];
        groups.extend(supplementary(stream)?);
        Ok(Peer { pid: credentials.pid(), uid: credentials.uid(), groups })
    }
}

/// `SO_PEERGROUPS`, which says by an error how much room it needs.
fn supplementary(stream: &UnixStream) -> io::Result<Vec<u32>> {
    let mut groups = vec![0u32; 64];
    loop {
        let mut bytes = (groups.len() * size_of::<u32>()) as libc::socklen_t;
        // SAFETY: the kernel writes at most so many bytes of the vector, and the length.
        let result = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let count = bytes as usize / size_of::<u32>();
        match result {
            0 => {
                groups.truncate(count);
                return Ok(groups);
            }
            _ => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::ERANGE) && count > groups.len() => {
                    groups.resize(count, 0);
                }
                error => return Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_is_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.pid, std::process::id() as i32);
        assert_eq!(peer.uid, nix::unistd::geteuid().as_raw());
        assert_eq!(peer.groups[0], nix::unistd::getegid().as_raw());
        let mut more: Vec<u32> = nix::unistd::getgroups().unwrap().iter().map(|gid| gid.as_raw()).collect();
        let mut found = peer.groups[1..].to_vec();
        more.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, more);
    }
}
