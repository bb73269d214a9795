//! Sleeping until a file descriptor is readable.

use std::os::fd::RawFd;
use std::time::Duration;

/// Waits until one of `fds` is readable, closed by its peer or in error, a signal arrives, or
/// `patience` has passed (`None`: without an end); returns those that are, in the order given. One
/// that is not open counts as ready, so that whoever reads it learns so.
pub fn wait(fds: &[RawFd], patience: Option<Duration>) -> Vec<RawFd> {
    let mut polled: Vec<libc::pollfd> =
        fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let timeout = patience.map(|patience| libc::timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(patience.subsec_nanos()),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the array and the time live through the call, and the length is the array's. A number
    // that is no open file descriptor is answered with POLLNVAL.
    let ready =
        unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout, std::ptr::null()) };
    if ready <= 0 {
        return Vec::new();
    }
    polled.iter().filter(|polled| polled.revents != 0).map(|polled| polled.fd).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_readable_or_closed_ends_the_wait() {
        let (mut one, other) = UnixStream::pair().unwrap();
        let (third, fourth) = UnixStream::pair().unwrap();
        let fds = [other.as_raw_fd(), fourth.as_raw_fd()];
        assert_eq!(wait(&fds, Some(Duration::ZERO)), []);
        one.write_all(b"x").unwrap();
        assert_eq!(wait(&fds, None), [fds[0]]);
        drop(third);
        assert_eq!(wait(&fds, None), fds);
        assert_eq!(wait(&[-1, 1_000_000], Some(Duration::from_millis(1))), [1_000_000]);
    }
}
