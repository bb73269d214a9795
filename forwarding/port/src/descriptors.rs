//! Messages between processes with descriptors beside them, over a Unix socket that keeps messages
//! apart (SOCK_SEQPACKET).

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

/// Descriptors taken of a message: as many as the kernel lets anybody send, so that none is left
/// over.
const MOST: usize = 253;

/// Sends a message, and a descriptor with it.
///
/// # Errors
/// The system's; that the other side is gone.
pub fn send(socket: BorrowedFd<'_>, message: &[u8], descriptor: Option<BorrowedFd<'_>>) -> nix::Result<()> {
    let vector = [IoSlice::new(message)];
    let fds: Vec<RawFd> = descriptor.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&fds)];
    let control = if fds.is_empty() { &[][..] } else { &rights };
    sendmsg::<()>(socket.as_raw_fd(), &vector, control, MsgFlags::MSG_NOSIGNAL, None).map(drop)
}

/// Receives a message: its bytes in the buffer, 0 where the other side is gone; and the first of
/// its descriptors.
///
/// # Errors
/// The system's; that there is nothing yet.
pub fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> nix::Result<(usize, Option<OwnedFd>)> {
    let mut control = nix::cmsg_space!([RawFd; MOST]);
    let mut vector = [IoSliceMut::new(into)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut vector, Some(&mut control), flags)?;
    let mut descriptors = Vec::new();
    for control in message.cmsgs().into_iter().flatten() {
        if let ControlMessageOwned::ScmRights(fds) = control {
            // SAFETY: the kernel has just made them for us.
            descriptors.extend(fds.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    Ok((message.bytes, descriptors.into_iter().next()))
}

/// Two sockets that are joined; neither blocks.
///
/// # Errors
/// The system's.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?)
}
