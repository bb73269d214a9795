//! SIGTERM is obeyed whatever the control thread is doing.
//!
//! To stop in order is the control thread's work. If it does not begin with that soon after the
//! signal, for it hangs or waits for something that does not come, or if it does not get to an end,
//! a thread of its own ends the process. That is as good as a kill: Linux forwards from that moment
//! on.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

/// How long after the signal the control thread may take to begin with its end.
const BEGIN: Duration = Duration::from_millis(1500);
/// How long that end may take: Linux may have to load a long filter.
const END: Duration = Duration::from_secs(30);

/// Ends the process unless it ends by itself. Dropped when there is nothing left to be done.
#[derive(Debug)]
pub struct LastResort {
    begun: SyncSender<()>,
}

impl LastResort {
    /// Watches from now on.
    pub fn install() -> io::Result<LastResort> {
        let (mut told, teller) = UnixStream::pair()?;
        for signal in [SIGTERM, SIGINT] {
            signal_hook::low_level::pipe::register(signal, teller.try_clone()?)?;
        }
        let (begun, begins) = sync_channel(1);
        std::thread::Builder::new().name("last-resort".to_owned()).spawn(move || {
            // Only a signal writes there.
            if told.read(&mut [0]).is_ok() && !ends(&begins, BEGIN, END) {
                // Not by the log: whoever hangs may hold its lock.
                let _ = nix::unistd::write(
                    io::stderr().as_fd(),
                    b"told to stop, the control thread does not get there: the process ends at once; Linux forwards\n",
                );
                signal_hook::low_level::exit(1);
            }
        })?;
        Ok(LastResort { begun })
    }

    /// The control thread has begun with its end.
    pub fn begun(&self) {
        // It waits for one.
        let _ = self.begun.try_send(());
    }
}

/// Whether the control thread begins with its end in time, and gets there.
fn ends(begins: &Receiver<()>, begin: Duration, end: Duration) -> bool {
    match begins.recv_timeout(begin) {
        Ok(()) => begins.recv_timeout(end) == Err(RecvTimeoutError::Disconnected),
        Err(RecvTimeoutError::Disconnected) => true,
        Err(RecvTimeoutError::Timeout) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(10);
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn who_does_not_begin_or_does_not_get_there_is_ended() {
        let (begun, begins) = sync_channel(1);
        assert!(!ends(&begins, SHORT, LONG));
        begun.send(()).unwrap();
        assert!(!ends(&begins, LONG, SHORT));
        begun.send(()).unwrap();
        drop(begun);
        assert!(ends(&begins, LONG, LONG));
        assert!(ends(&begins, LONG, LONG));
    }
}
