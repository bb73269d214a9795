//! The way from the data path to a client that listens: a bounded queue whose sending side never
//! waits.
//!
//! A worker that has something to show puts it in; when the queue is full the item is counted as
//! missed and gone. When the client leaves, or has what it asked for, the [`Feed`] is dropped,
//! every [`FeedSender`] sees [`closed`](FeedSender::closed), and whoever installed the observer
//! removes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// Makes the two ends; at most `bound` items wait in between.
pub fn feed<T>(bound: usize) -> (FeedSender<T>, Feed<T>) {
    let (sender, receiver) = sync_channel(bound);
    let shared = Arc::new(Shared::default());
    (FeedSender { sender, shared: shared.clone() }, Feed { receiver, shared })
}

#[derive(Default)]
struct Shared {
    missed: AtomicU64,
    closed: AtomicBool,
}

/// The end that fills; clone it for every worker.
pub struct FeedSender<T> {
    sender: SyncSender<T>,
    shared: Arc<Shared>,
}

impl<T> Clone for FeedSender<T> {
    fn clone(&self) -> Self {
        FeedSender { sender: self.sender.clone(), shared: self.shared.clone() }
    }
}

impl<T> FeedSender<T> {
    /// Puts an item in if there is room and somebody listens; never waits.
    pub fn send(&self, item: T) {
        match self.sender.try_send(item) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                self.shared.missed.fetch_add(1, Relaxed);
            }
            Err(TrySendError::Disconnected(_)) => self.shared.closed.store(true, Relaxed),
        }
    }

    /// So many more items were lost on their way here.
    pub fn miss(&self, items: u64) {
        self.shared.missed.fetch_add(items, Relaxed);
    }

    /// Nobody listens any more: the observer can go.
    pub fn closed(&self) -> bool {
        self.shared.closed.load(Relaxed)
    }
}

/// The end that listens.
pub struct Feed<T> {
    receiver: Receiver<T>,
    shared: Arc<Shared>,
}

/// What a feed gave.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// An item.
    Item(T),
    /// None came in time.
    Nothing,
    /// Every sender is gone.
    Over,
}

impl<T> Feed<T> {
    /// Waits at most so long for an item.
    pub fn next(&self, timeout: Duration) -> Next<T> {
        match self.receiver.recv_timeout(timeout) {
            Ok(item) => Next::Item(item),
            Err(RecvTimeoutError::Timeout) => Next::Nothing,
            Err(RecvTimeoutError::Disconnected) => Next::Over,
        }
    }

    /// Items lost because nobody took them in time.
    pub fn missed(&self) -> u64 {
        self.shared.missed.load(Relaxed)
    }
}

impl<T> Drop for Feed<T> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_feed_counts_what_it_missed_and_never_waits() {
        let (sender, feed) = feed(2);
        for item in 0..5 {
            sender.send(item);
        }
        assert_eq!(feed.missed(), 3);
        assert_eq!(feed.next(Duration::ZERO), Next::Item(0));
        assert_eq!(feed.next(Duration::ZERO), Next::Item(1));
        assert_eq!(feed.next(Duration::ZERO), Next::Nothing);
    }

    #[test]
    fn senders_see_that_the_listener_left() {
        let (sender, feed) = feed::<u8>(1);
        let other = sender.clone();
        assert!(!other.closed());
        drop(feed);
        assert!(sender.closed() && other.closed());
    }

    #[test]
    fn the_listener_sees_that_every_sender_left() {
        let (sender, feed) = feed::<u8>(1);
        drop(sender);
        assert_eq!(feed.next(Duration::from_secs(1)), Next::Over);
    }
}
