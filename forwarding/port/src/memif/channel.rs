//! The socket over which two sides agree: whole messages (SOCK_SEQPACKET), with descriptors beside
//! them. Never blocks.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, accept4, bind, connect, listen, socket,
};

use super::message::BYTES;
use crate::descriptors;

/// Where the two sides meet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A socket in the file system.
    Path(PathBuf),
    /// A name that only the kernel knows, in this network namespace: what DPDK uses unless it is
    /// told otherwise.
    Abstract(String),
}

impl From<&str> for Address {
    /// `@name` is an abstract name, all else a path.
    fn from(text: &str) -> Address {
        match text.strip_prefix('@') {
            Some(name) => Address::Abstract(name.to_owned()),
            None => Address::Path(text.into()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Path(path) => path.display().fmt(f),
            Address::Abstract(name) => write!(f, "@{name}"),
        }
    }
}

impl Address {
    fn of_kernel(&self) -> io::Result<UnixAddr> {
        Ok(match self {
            Address::Path(path) => UnixAddr::new(path)?,
            Address::Abstract(name) => UnixAddr::new_abstract(name.as_bytes())?,
        })
    }

    /// A socket that others connect to. A file of a server that is no more is replaced.
    pub(super) fn listen(&self) -> io::Result<OwnedFd> {
        let address = self.of_kernel()?;
        let socket = open()?;
        if let Err(error) = bind(socket.as_raw_fd(), &address) {
            match self {
                Address::Path(path) if error == Errno::EADDRINUSE && self.is_deserted(path) => {
                    std::fs::remove_file(path)?;
                    bind(socket.as_raw_fd(), &address)?;
                }
                _ => return Err(error.into()),
            }
        }
        listen(&socket, Backlog::new(16)?)?;
        Ok(socket)
    }

    /// Whether a socket is at this path and nobody listens.
    fn is_deserted(&self, path: &Path) -> bool {
        // To connect to a plain file is refused as well.
        let is_socket = path.symlink_metadata().is_ok_and(|file| file.file_type().is_socket());
        is_socket && self.connect().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    }

    pub(super) fn connect(&self) -> io::Result<OwnedFd> {
        let socket = open()?;
        connect(socket.as_raw_fd(), &self.of_kernel()?)?;
        Ok(socket)
    }
}

fn open() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?)
}

/// Takes a connection; `None` when there is none now.
pub(super) fn accept(listener: BorrowedFd<'_>) -> Option<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = accept4(listener.as_raw_fd(), flags).ok()?;
    // SAFETY: just made for us.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What a receive gave.
pub(super) enum Received {
    Message([u8; BYTES], Option<OwnedFd>),
    /// A message that is none, by its length.
    Length(usize),
    /// Nothing now.
    Nothing,
    /// The other side is gone.
    End,
}

pub(super) fn receive(socket: BorrowedFd<'_>) -> Received {
    // A byte more than a message has, to see that it is longer.
    let mut bytes = [0; BYTES + 1];
    let (length, descriptor) = match descriptors::receive(socket, &mut bytes) {
        Ok(received) => received,
        Err(Errno::EAGAIN | Errno::EINTR) => return Received::Nothing,
        Err(_) => return Received::End,
    };
    match (length, bytes.first_chunk()) {
        (0, _) => Received::End,
        (BYTES, Some(message)) => Received::Message(*message, descriptor),
        _ => Received::Length(length),
    }
}

pub(super) fn send(
    socket: BorrowedFd<'_>,
    message: &[u8; BYTES],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    Ok(descriptors::send(socket, message, descriptor)?)
}
