//! Signals as something that an event loop can poll.
//!
//! The handlers only set a flag and write a byte into a pipe; everything else happens where
//! [`Signals::take`] is called.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// What the daemon is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT: drain and leave forwarding to Linux.
    Stop,
    /// SIGHUP: read the configuration again.
    Reload,
}

/// Whether the daemon is told to stop, for what takes long.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether it is.
    pub fn is_asked(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// The signals that have come.
#[derive(Debug)]
pub struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    wake: UnixStream,
}

impl Signals {
    /// Takes SIGTERM, SIGINT and SIGHUP over. Once a process.
    pub fn install() -> io::Result<Signals> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let (stop, reload) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for (signal, flag) in [(SIGTERM, &stop), (SIGINT, &stop), (SIGHUP, &reload)] {
            // Handlers run in the order of their registration: the flag is set before the pipe
            // wakes anyone.
            signal_hook::flag::register(signal, flag.clone())?;
            signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        Ok(Signals { stop, reload, wake })
    }

    /// Whether to stop, without taking note of it.
    pub fn stop(&self) -> Stop {
        Stop(self.stop.clone())
    }

    /// The next thing that was asked for and not yet taken. Stopping goes first.
    pub fn take(&mut self) -> Option<Signal> {
        let mut bytes = [0; 64];
        while self.wake.read(&mut bytes).is_ok_and(|read| read == bytes.len()) {}
        if self.stop.swap(false, Relaxed) {
            return Some(Signal::Stop);
        }
        self.reload.swap(false, Relaxed).then_some(Signal::Reload)
    }
}

impl AsFd for Signals {
    /// Readable when a signal has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use nix::poll::{PollFd, PollFlags, poll};

    use super::*;

    #[test]
    fn a_signal_wakes_the_loop_and_is_taken_once() {
        let mut signals = Signals::install().unwrap();
        assert_eq!(signals.take(), None);
        signal_hook::low_level::raise(SIGHUP).unwrap();
        assert!(!signals.stop().is_asked());
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert!(signals.stop().is_asked());
        let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut fds, 1000u16), Ok(1));
        assert_eq!(signals.take(), Some(Signal::Stop));
        assert_eq!(signals.take(), Some(Signal::Reload));
        assert_eq!(signals.take(), None);
        let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut fds, 0u16), Ok(0));
    }
}
