//! The readers' side of the IPv4 table.

use crate::NextHopId;
use crate::memory::Array;
use crate::word::{ID_MASK, POINTER};
use std::sync::atomic::{AtomicU32, Ordering};

/// The next hop of one address.
#[inline]
pub(crate) fn one(words: &Array<AtomicU32>, address: u32) -> NextHopId {
    let mut word = words[(address >> 8) as usize].load(Ordering::Acquire);
    if word & POINTER != 0 {
        word = words[((word << 8) | (address & 255)) as usize].load(Ordering::Acquire);
    }
    NextHopId(word & ID_MASK)
}

/// The next hops of many addresses.
pub(crate) fn batch(words: &Array<AtomicU32>, addresses: &[u32], ids: &mut [NextHopId]) {
    for (id, &address) in ids.iter_mut().zip(addresses) {
        *id = one(words, address);
    }
}
