//! A thread that others must not keep waiting.

use std::io;

/// From now on this thread runs before all that have an ordinary priority. What it starts does not
/// inherit that.
///
/// # Errors
/// It may not (`RLIMIT_RTPRIO`).
pub fn urgent() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the kernel reads the parameters, which live through the call.
    let set = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
