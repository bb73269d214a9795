//! What passes interfaces that are no port's own: counted by whom the packets pass.
//!
//! A port's packets its queues count. Those of a VLAN are a part of them, and only who takes tags
//! off or puts them on knows of which interface they are: so a worker counts there, and a packet
//! without tags costs nothing. Each worker has counts of its own, with one writer: it adds by a
//! load and a store.

use crate::InterfaceId;
pub use abi::{Count, Traffic};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Packets and bytes received, packets and bytes sent.
pub(crate) type Entry = [AtomicU64; 4];

/// Where one worker counts.
#[derive(Clone, Debug)]
pub struct Counts(Arc<[Entry]>);

impl Default for Counts {
    /// Counts of all interfaces that are no port's own.
    fn default() -> Counts {
        let logical = InterfaceId::COUNT - usize::from(InterfaceId::FIRST_LOGICAL.0);
        Counts(std::iter::repeat_with(Entry::default).take(logical).collect())
    }
}

impl Counts {
    /// For who counts nothing.
    pub(crate) fn none() -> Counts {
        Counts(Arc::new([]))
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// What passed an interface; nothing of a port's own.
    pub fn read(&self, id: InterfaceId) -> Traffic {
        let [packets, bytes, sent, sent_bytes] =
            entry(&self.0, id).map_or([0; 4], |entry| entry.each_ref().map(|word| word.load(Relaxed)));
        Traffic { received: Count { packets, bytes }, sent: Count { packets: sent, bytes: sent_bytes } }
    }
}

/// Adds packets to the words from `first` on.
#[inline(always)]
pub(crate) fn add(entries: &[Entry], id: InterfaceId, first: usize, more: Count) {
    if let Some(entry) = entry(entries, id) {
        for (word, more) in entry[first..].iter().zip([more.packets, more.bytes]) {
            word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
        }
    }
}

#[inline(always)]
fn entry(entries: &[Entry], id: InterfaceId) -> Option<&Entry> {
    entries.get(usize::from(id.0).checked_sub(usize::from(InterfaceId::FIRST_LOGICAL.0))?)
}
