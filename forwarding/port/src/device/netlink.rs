//! A netlink socket: requests that have one answer, and what the kernel tells by itself.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const ATTRIBUTE_TYPE: u16 = 0x3fff;
/// struct nlmsghdr
pub(super) const HEADER: usize = 16;

/// A socket of one of netlink's protocols, in the network namespace of the thread that opens it.
pub(super) struct Socket(pub(super) OwnedFd);

impl Socket {
    /// Opens one: `libc::NETLINK_ROUTE`, `libc::NETLINK_GENERIC`, ...
    pub(super) fn open(protocol: libc::c_int) -> io::Result<Socket> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: a new descriptor, ours alone.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, protocol) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(Socket(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sends a request of this kind, the header of its family and one attribute, and waits for the
    /// answer.
    pub(super) fn request(
        &self,
        kind: u16,
        family: &[u8],
        attribute: u16,
        value: &[u8],
    ) -> io::Result<Vec<u8>> {
        let length = HEADER + family.len() + 4 + value.len().next_multiple_of(4);
        let mut message = Vec::with_capacity(length);
        message.extend((length as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
        message.extend([0; 8]);
        message.extend(family);
        message.extend((4 + value.len() as u16).to_ne_bytes());
        message.extend(attribute.to_ne_bytes());
        message.extend(value);
        message.resize(length, 0);
        // SAFETY: the kernel reads the message.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), message.as_ptr().cast(), length, 0) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        let reply = self.receive(0)?;
        let kind = reply.get(4..6).map_or(0, number);
        if kind == libc::NLMSG_ERROR as u64 {
            let code = reply.get(16..20).map_or(0, number) as u32 as i32;
            return Err(io::Error::from_raw_os_error(-code));
        }
        Ok(reply)
    }

    /// The next message.
    pub(super) fn receive(&self, flags: libc::c_int) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; 16_384];
        let (fd, at, size) = (self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len());
        // SAFETY: the kernel writes at most `size` bytes of the buffer.
        let got = unsafe { libc::recv(fd, at, size, flags) };
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        buffer.truncate(got as usize);
        Ok(buffer)
    }
}

/// The attributes in a message; stops at the first that makes no sense.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = number(bytes.get(..2)?) as usize;
        let kind = number(bytes.get(2..4)?) as u16 & ATTRIBUTE_TYPE;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// A number of up to 8 bytes, host order.
pub(super) fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let count = bytes.len().min(8);
    if cfg!(target_endian = "little") {
        word[..count].copy_from_slice(&bytes[..count]);
    } else {
        word[8 - count..].copy_from_slice(&bytes[..count]);
    }
    u64::from_ne_bytes(word)
}
