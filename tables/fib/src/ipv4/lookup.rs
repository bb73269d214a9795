//! The readers' side of the IPv4 table.

use crate::NextHopId;
use crate::memory::Array;
use crate::word::{ID, POINTER};
use std::sync::atomic::{AtomicU32, Ordering};

/// The route's word of one address, in a table whose first level does not look at `REST` bits.
#[inline]
fn one_of<const REST: u32>(words: &Array<AtomicU32>, address: u32) -> u32 {
    let mut word = words[(address >> REST) as usize].load(Ordering::Acquire);
    if REST == 16 && word & POINTER != 0 {
        word = words[((word << 8) | (address >> 8 & 255)) as usize].load(Ordering::Acquire);
    }
    if word & POINTER != 0 {
        word = words[((word << 8) | (address & 255)) as usize].load(Ordering::Acquire);
    }
    word
}

/// The next hop of one address.
#[inline]
pub(crate) fn one(words: &Array<AtomicU32>, rest: u32, address: u32) -> NextHopId {
    NextHopId(word_of(words, rest, address) & ID)
}

/// The route's word of one address.
#[inline]
pub(crate) fn word_of(words: &Array<AtomicU32>, rest: u32, address: u32) -> u32 {
    if rest == 8 { one_of::<8>(words, address) } else { one_of::<16>(words, address) }
}

/// The next hops of many addresses.
pub(crate) fn batch(words: &Array<AtomicU32>, rest: u32, addresses: &[u32], ids: &mut [NextHopId]) {
    if rest == 8 {
        batch_of::<8>(words, addresses, ids);
    } else {
        batch_of::<16>(words, addresses, ids);
    }
}

#[inline(always)]
fn batch_of<const REST: u32>(words: &Array<AtomicU32>, addresses: &[u32], ids: &mut [NextHopId]) {
    for (id, &address) in ids.iter_mut().zip(addresses) {
        *id = NextHopId(one_of::<REST>(words, address) & ID);
    }
}
