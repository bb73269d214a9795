//! When may an entry that has ended be used again? When no worker can still hold its index.
//!
//! Workers announce quiescent states, as for the FIB: between two batches a worker holds nothing,
//! and says so by copying the epoch into its own word. But here every worker is a writer as well.
//! One that has ended flows moves the epoch on by an atomic addition, after it has taken their
//! slots from the index; when every worker that is online has announced that epoch or a later one,
//! nobody holds them.
//!
//! It also makes accounts exact: they are read only then, when nobody can count any more.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, fence};

/// Workers of one table at most, the control thread's included.
pub(crate) const WORKERS: usize = 256;
const OFFLINE: u64 = u64::MAX;

/// One worker's announcement, on a cache line of its own.
#[repr(align(128))]
struct Seen {
    taken: AtomicBool,
    epoch: AtomicU64,
}

/// All announcements.
pub(crate) struct Epochs {
    now: AtomicU64,
    seen: Box<[Seen]>,
    /// The worker slots that were ever taken are below this.
    used: AtomicU64,
}

impl Epochs {
    /// What they take.
    pub(crate) const BYTES: usize = WORKERS * size_of::<Seen>();

    pub(crate) fn new() -> Epochs {
        let seen = || Seen { taken: AtomicBool::new(false), epoch: AtomicU64::new(OFFLINE) };
        Epochs {
            now: AtomicU64::new(1),
            seen: (0..WORKERS).map(|_| seen()).collect(),
            used: AtomicU64::new(0),
        }
    }

    /// A place for a new worker, which begins online.
    pub(crate) fn join(&self) -> Option<usize> {
        let place = self.seen.iter().position(|seen| !seen.taken.swap(true, SeqCst))?;
        self.used.fetch_max(place as u64 + 1, SeqCst);
        self.online(place);
        Some(place)
    }

    pub(crate) fn leave(&self, place: usize) {
        self.offline(place);
        self.seen[place].taken.store(false, Release);
    }

    #[inline]
    pub(crate) fn quiescent(&self, place: usize) {
        self.seen[place].epoch.store(self.now.load(Acquire), Release);
    }

    pub(crate) fn offline(&self, place: usize) {
        self.seen[place].epoch.store(OFFLINE, Release);
    }

    pub(crate) fn online(&self, place: usize) {
        self.seen[place].epoch.store(self.now.load(SeqCst), SeqCst);
        // The announcement must be visible before the first index is read.
        fence(SeqCst);
    }

    /// Begins an epoch, after something was taken from the index.
    pub(crate) fn advance(&self) -> u64 {
        self.now.fetch_add(1, SeqCst) + 1
    }

    /// The epoch that every online worker has reached.
    pub(crate) fn reached(&self) -> u64 {
        let used = self.used.load(Relaxed) as usize;
        self.seen[..used].iter().map(|seen| seen.epoch.load(SeqCst)).min().unwrap_or(OFFLINE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_reached_when_everybody_online_has_seen_it() {
        let epochs = Epochs::new();
        let (one, two) = (epochs.join().unwrap(), epochs.join().unwrap());
        let epoch = epochs.advance();
        assert!(epochs.reached() < epoch);
        epochs.quiescent(one);
        assert!(epochs.reached() < epoch);
        epochs.quiescent(two);
        assert_eq!(epochs.reached(), epoch);
        let epoch = epochs.advance();
        epochs.offline(one);
        epochs.leave(two);
        assert!(epochs.reached() >= epoch);
        epochs.online(one);
        assert_eq!(epochs.reached(), epoch);
        assert_eq!(epochs.join(), Some(two));
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let epochs = Epochs::new();
        assert!((0..WORKERS).all(|place| epochs.join() == Some(place)));
        assert_eq!(epochs.join(), None);
        epochs.leave(7);
        assert_eq!(epochs.join(), Some(7));
    }
}
