//! The way to a thread that sleeps until it is told something, hears something, or something is
//! due: orders, and a bell that wakes it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;

/// Whose orders these are.
pub(super) struct Orders<O> {
    sender: Sender<O>,
    bell: Arc<EventFd>,
}

/// Who obeys them.
pub(super) struct Inbox<O> {
    orders: Receiver<O>,
    bell: Arc<EventFd>,
}

/// Both ends of a way.
pub(super) fn orders<O>() -> io::Result<(Orders<O>, Inbox<O>)> {
    let bell = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
    let (sender, orders) = channel();
    Ok((Orders { sender, bell: bell.clone() }, Inbox { orders, bell }))
}

impl<O> Clone for Orders<O> {
    fn clone(&self) -> Orders<O> {
        Orders { sender: self.sender.clone(), bell: self.bell.clone() }
    }
}

impl<O> Orders<O> {
    /// Gives an order. False: the thread is gone.
    pub(super) fn tell(&self, order: O) -> bool {
        // Ringing only fails when it has been rung 2^64 times, and then it is heard anyway.
        self.sender.send(order).is_ok() && self.bell.write(1).is_ok()
    }

    /// Asks. The answer may never come: the thread may be gone.
    pub(super) fn ask<T>(&self, order: impl FnOnce(Sender<T>) -> O) -> Receiver<T> {
        let (sender, answer) = channel();
        self.tell(order(sender));
        answer
    }
}

impl<O> Inbox<O> {
    /// The next order, if there is one.
    ///
    /// # Errors
    /// [`TryRecvError::Disconnected`]: there will be none any more.
    pub(super) fn next(&self) -> Result<O, TryRecvError> {
        self.orders.try_recv()
    }

    /// Sleeps until there is an order, one of `heard` can be read, or so much time has passed.
    pub(super) fn sleep<'a>(
        &'a self,
        heard: impl Iterator<Item = BorrowedFd<'a>>,
        at_most: Option<Duration>,
    ) {
        let all = heard.chain([self.bell.as_fd()]);
        let mut fds: Vec<_> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // An error is an interrupted wait.
        let _ = ppoll(&mut fds, at_most.map(TimeSpec::from), None);
        // An error means that nobody rang.
        let _ = self.bell.read();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Instant;

    #[test]
    fn an_order_wakes_the_thread_and_time_does() {
        let (orders, inbox) = orders::<Sender<u8>>().unwrap();
        let long = Duration::from_secs(60);
        let thread = thread::spawn(move || {
            inbox.sleep(std::iter::empty(), Some(long));
            inbox.next().unwrap().send(7).unwrap();
            let begun = Instant::now();
            inbox.sleep(std::iter::empty(), Some(Duration::from_millis(20)));
            assert!(begun.elapsed() >= Duration::from_millis(20), "the bell rings once");
            assert!(matches!(inbox.next(), Err(TryRecvError::Empty)));
        });
        assert_eq!(orders.ask(|answer| answer).recv_timeout(long), Ok(7));
        thread.join().unwrap();
        assert!(!orders.tell(channel().0), "the thread is gone");
    }
}
