//! The readers' side of the IPv6 table.

use super::{DIRECT_BITS, INDEX, LINE, NEXT, RANGES, ROOT_BITS, TOP_BITS};
use crate::NextHopId;
use crate::memory::Array;
use crate::word::{ID_MASK, POINTER};
use std::sync::atomic::{AtomicU32, Ordering};

/// More lines than any walk has: a reader that ignores grace periods ends here at the latest.
const MAX_LINES: usize = 64;

/// The next hop of one address.
pub(crate) fn one(words: &Array<AtomicU32>, address: u128) -> NextHopId {
    let load = |at: usize| words[at].load(Ordering::Acquire);
    let mut word = load((address >> (128 - ROOT_BITS)) as usize);
    if word & POINTER == 0 {
        return NextHopId(word & ID_MASK);
    }
    let slot = (address >> (128 - TOP_BITS)) as usize & ((1 << DIRECT_BITS) - 1);
    word = load((word & INDEX) as usize * LINE + slot);
    let mut rest = address << TOP_BITS;
    for _ in 0..MAX_LINES {
        if word & POINTER == 0 {
            return NextHopId(word & ID_MASK);
        }
        if word & NEXT != 0 {
            rest <<= 32;
        }
        let key = (rest >> 96) as u32;
        let base = (word & INDEX) as usize * LINE;
        let below = (0..RANGES - 1).filter(|i| load(base + i) < key).count();
        word = load(base + RANGES + below);
    }
    NextHopId(0)
}

/// The next hops of many addresses.
pub(crate) fn batch(words: &Array<AtomicU32>, addresses: &[u128], ids: &mut [NextHopId]) {
    for (id, &address) in ids.iter_mut().zip(addresses) {
        *id = one(words, address);
    }
}
