//! Flows that have begun since somebody asked last.
//!
//! Whoever keeps a copy of the table for after a crash writes all of it now and then, and what has begun since by asking for it: else
//! each crash would forget the connections of the last seconds. The first that fit are remembered; where nobody asks, nothing is.

use crate::{Hit, Table, Worker};
use crossbeam_queue::ArrayQueue;
use std::sync::OnceLock;

/// Flows remembered at most.
const ROOM: usize = 8192;

/// Entries of flows, from the first question on.
#[derive(Default)]
pub(crate) struct Begun(OnceLock<ArrayQueue<u32>>);

impl Begun {
    #[inline]
    pub(crate) fn note(&self, entry: u32) {
        if let Some(entries) = self.0.get() {
            // Once it is full, a flood of new flows only reads what all workers share.
            let _ = entries.push(entry);
        }
    }
}

impl Table {
    /// Bytes that remembering takes.
    pub(crate) const BEGUN: usize = ROOM * 2 * size_of::<usize>();
}

impl Worker {
    /// Shows the flows that have begun since the last call and live, the first [some thousand](ROOM) at most; from the first call
    /// on. As with [`flows`](Worker::flows), [`offline`](Worker::offline) must follow before long. One may be shown twice.
    pub fn begun(&self, show: &mut impl FnMut(&Hit)) {
        let entries = self.table.begun.0.get_or_init(|| ArrayQueue::new(ROOM));
        for _ in 0..entries.len() {
            let Some(entry) = entries.pop() else { return };
            if self.table.memory.hot()[entry as usize].state().phase().is_some() {
                show(&self.hit_of(entry));
            }
        }
    }
}
