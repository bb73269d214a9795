//! Descriptors to wake somebody up with: eventfds of our own, and those that a peer holds as well.
//!
//! Whether an eventfd blocks is a flag of what both sides share, and the peer may clear it between
//! any two of our instructions, and fill the counter, too: then a plain write stands still until
//! the peer reads. So of a shared one no call is believed not to block but those that cannot. A
//! read may be told so itself (`RWF_NOWAIT`); for a write the kernel refuses that. But what it does
//! on its own account never waits: a read of no bytes is asked for by `io_submit`, it is done on
//! the spot, and the kernel rings the bell to tell of its end. That is 1.2 µs where a write takes
//! 0.3, for peers that sleep.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// An eventfd that only this program has.
pub(super) struct Bell(EventFd);

impl Bell {
    pub(super) fn new() -> io::Result<Bell> {
        Ok(Bell(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?))
    }

    /// Makes it readable, or wakes who waits for it.
    pub(super) fn ring(&self) {
        // When it is full it is readable.
        let _ = self.0.write(1);
    }

    /// Makes it unreadable.
    pub(super) fn silence(&self) {
        // It need not have been rung.
        let _ = self.0.read();
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// An eventfd that the peer has as well.
pub(super) struct SharedBell {
    fd: OwnedFd,
    ringer: &'static Ringer,
}

impl SharedBell {
    /// A new one, and the descriptor for the peer.
    pub(super) fn pair() -> io::Result<(SharedBell, OwnedFd)> {
        let fd = OwnedFd::from(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        Ok((SharedBell::of(fd.try_clone()?)?, fd))
    }

    /// One that the peer made; refused when it is something else.
    pub(super) fn of(fd: OwnedFd) -> io::Result<SharedBell> {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        if link.as_os_str() != "anon_inode:[eventfd]" {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a ring's interrupts are no eventfd"));
        }
        Ok(SharedBell { fd, ringer: Ringer::get()? })
    }

    /// Makes it readable, or wakes who waits for it. Never blocks.
    pub(super) fn ring(&self) {
        self.ringer.ring(&self.fd);
    }

    /// Makes it unreadable, as far as one read does. Never blocks.
    pub(super) fn silence(&self) {
        let mut count = [0u8; 8];
        let place = libc::iovec { iov_base: count.as_mut_ptr().cast(), iov_len: count.len() };
        // SAFETY: one place of eight bytes, which outlives the call. It need not have been rung.
        unsafe { libc::preadv2(self.fd.as_raw_fd(), &place, 1, -1, libc::RWF_NOWAIT) };
    }
}

impl AsFd for SharedBell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Reads that may be under way at once; each is over when it has been asked for.
const READS: libc::c_long = 256;
/// Ends of reads that are cleared away at once.
const ENDS: usize = 64;
/// `IOCB_CMD_PREAD` of `linux/aio_abi.h`.
const READ: u16 = 0;
/// `IOCB_FLAG_RESFD`: tell of the end by an eventfd.
const TELL: u32 = 1;

/// `struct iocb` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    key_and_flags: u64,
    operation: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    tell: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy)]
struct End([u64; 4]);

/// Has the kernel ring bells; one for the whole program.
struct Ringer {
    context: libc::c_ulong,
    /// A file of no bytes.
    nothing: OwnedFd,
}

impl Ringer {
    fn get() -> io::Result<&'static Ringer> {
        static RINGER: OnceLock<Ringer> = OnceLock::new();
        match RINGER.get() {
            Some(ringer) => Ok(ringer),
            None => {
                let made = Ringer::new()?;
                Ok(RINGER.get_or_init(|| made))
            }
        }
    }

    fn new() -> io::Result<Ringer> {
        let nothing = memfd_create("nothing", MFdFlags::MFD_CLOEXEC)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context's number, and keeps no address.
        match unsafe { libc::syscall(libc::SYS_io_setup, READS, &mut context) } {
            0 => Ok(Ringer { context, nothing }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn ring(&self, bell: &OwnedFd) {
        let request = Request {
            operation: READ,
            file: self.nothing.as_raw_fd() as u32,
            flags: TELL,
            tell: bell.as_raw_fd() as u32,
            ..Request::default()
        };
        let mut list = [&raw const request];
        // The ends of those before it may have to be cleared away first.
        for _ in 0..READS {
            // SAFETY: a list of one request, which the kernel copies; it reads no bytes, so it
            // writes nowhere.
            let done = unsafe {
                libc::syscall(libc::SYS_io_submit, self.context, 1 as libc::c_long, list.as_mut_ptr())
            };
            if done == 1 {
                return;
            }
            self.clear();
        }
    }

    fn clear(&self) {
        let mut ends = [End([0; 4]); ENDS];
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let (least, most): (libc::c_long, libc::c_long) = (0, ENDS as libc::c_long);
        // SAFETY: there is room for as many ends as are asked for.
        unsafe {
            libc::syscall(libc::SYS_io_getevents, self.context, least, most, ends.as_mut_ptr(), &at_once);
        }
    }
}

impl Drop for Ringer {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and nobody uses it any more.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use std::sync::mpsc;
    use std::time::Duration;

    fn count(fd: &OwnedFd) -> u64 {
        let mut count = [0; 8];
        assert_eq!(nix::unistd::read(fd, &mut count), Ok(8));
        u64::from_ne_bytes(count)
    }

    #[test]
    fn each_ring_counts_however_many_there_are() {
        let (bell, peer) = SharedBell::pair().unwrap();
        for rings in [1, 2, 5000] {
            (0..rings).for_each(|_| bell.ring());
            assert_eq!(count(&peer), rings);
        }
        bell.ring();
        bell.silence();
        assert_eq!(nix::unistd::read(&peer, &mut [0; 8]), Err(nix::errno::Errno::EAGAIN));
        assert!(SharedBell::of(std::fs::File::open("/dev/null").unwrap().into()).is_err());
    }

    #[test]
    fn a_peer_that_has_it_block_holds_nobody_up() {
        let (bell, peer) = SharedBell::pair().unwrap();
        fcntl(&peer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
        let (done, finished) = mpsc::channel();
        std::thread::spawn(move || {
            bell.silence();
            done.send(()).unwrap();
            // Nothing more fits in.
            nix::unistd::write(&bell, &(u64::MAX - 1).to_ne_bytes()).unwrap();
            (0..1000).for_each(|_| bell.ring());
            done.send(()).unwrap();
        });
        for step in ["a read of an empty one", "a ring of a full one"] {
            finished.recv_timeout(Duration::from_secs(10)).expect(step);
        }
        assert_eq!(count(&peer), u64::MAX);
    }
}
