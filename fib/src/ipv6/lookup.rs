//! The readers' side of the IPv6 table.
//!
//! A walk is a chain of loads that each depend on the one before, and most miss the first two caches. So a batch walks
//! all its addresses in step: each round fetches, for every address still on its way, the word that the round before
//! asked for, and asks for the next line. What one address waits for, the others' misses hide.

use super::{DIRECT_BITS, INDEX, LINE, NEXT, RANGES, ROOT_BITS, TOP_BITS};
use crate::NextHopId;
use crate::memory::Array;
use crate::word::{ID_MASK, POINTER};
use std::sync::atomic::{AtomicU32, Ordering};

/// More lines than any walk has: a reader that ignores grace periods ends here at the latest.
const MAX_LINES: usize = 64;
/// Addresses that walk in step.
const STEP: usize = 64;

/// The next hop of one address.
pub(crate) fn one(words: &Array<AtomicU32>, address: u128) -> NextHopId {
    let mut ids = [NextHopId::NONE];
    scalar(words, &[address], &mut ids);
    ids[0]
}

/// The next hops of many addresses.
pub(crate) fn batch(words: &Array<AtomicU32>, addresses: &[u128], ids: &mut [NextHopId]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("popcnt") {
        // SAFETY: the features are there.
        return unsafe { avx512(words, addresses, ids) };
    }
    scalar(words, addresses, ids);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,popcnt,bmi1,bmi2")]
fn avx512(words: &Array<AtomicU32>, addresses: &[u128], ids: &mut [NextHopId]) {
    walk(words, addresses, ids, |words, base, key| {
        use std::arch::x86_64::*;
        // SAFETY: a line is 16 words inside the array, and aligned; its ends do not change while it can be reached.
        unsafe {
            let ends = _mm256_load_si256(words.as_ptr().add(base).cast());
            let below = _mm256_cmplt_epu32_mask(ends, _mm256_set1_epi32(key as i32));
            // The last end of a line is never below a key that belongs to the line.
            (below & 0x7f).count_ones() as usize
        }
    });
}

fn scalar(words: &Array<AtomicU32>, addresses: &[u128], ids: &mut [NextHopId]) {
    walk(words, addresses, ids, |words, base, key| {
        let end = |i: usize| words[base + i].load(Ordering::Relaxed);
        let mut range = usize::from(end(3) < key) * 4;
        range += usize::from(end(range + 1) < key) * 2;
        range + usize::from(end(range) < key)
    });
}

/// `range`: given a line's first word and the key, which of the line's ranges the key belongs to.
#[inline(always)]
fn walk(
    words: &[AtomicU32],
    addresses: &[u128],
    ids: &mut [NextHopId],
    range: impl Fn(&[AtomicU32], usize, u32) -> usize,
) {
    for (addresses, ids) in addresses.chunks(STEP).zip(ids.chunks_mut(STEP)) {
        // Where each address's next word is; and the addresses still on their way.
        let mut at = [0usize; STEP];
        let mut going = [0u8; STEP];
        let mut count = 0;
        for (i, &address) in addresses.iter().enumerate() {
            let word = words[(address >> (128 - ROOT_BITS)) as usize].load(Ordering::Acquire);
            let slot = (address >> (128 - TOP_BITS)) as usize & ((1 << DIRECT_BITS) - 1);
            at[i] = (word & INDEX) as usize * LINE + slot;
            prefetch(words, at[i]);
            ids[i] = NextHopId(word & ID_MASK);
            going[count] = i as u8;
            count += usize::from(word & POINTER != 0);
        }
        // The part of each address that its window begins with.
        let mut rest = [0u128; STEP];
        let mut still = 0;
        for n in 0..count {
            let i = usize::from(going[n]);
            let word = words[at[i]].load(Ordering::Acquire);
            ids[i] = NextHopId(word & ID_MASK);
            at[i] = (word & INDEX) as usize * LINE;
            prefetch(words, at[i]);
            rest[i] = addresses[i] << TOP_BITS;
            going[still] = i as u8;
            still += usize::from(word & POINTER != 0);
        }
        count = still;
        for _ in 0..MAX_LINES {
            if count == 0 {
                break;
            }
            still = 0;
            for n in 0..count {
                let i = usize::from(going[n]);
                let key = (rest[i] >> 96) as u32;
                let word = words[at[i] + RANGES + range(words, at[i], key)].load(Ordering::Acquire);
                ids[i] = NextHopId(word & ID_MASK);
                at[i] = (word & INDEX) as usize * LINE;
                prefetch(words, at[i]);
                if word & NEXT != 0 {
                    rest[i] <<= 32;
                }
                going[still] = i as u8;
                still += usize::from(word & POINTER != 0);
            }
            count = still;
        }
    }
}

#[inline(always)]
fn prefetch(words: &[AtomicU32], at: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch touches nothing, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(words.as_ptr().wrapping_add(at).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (words, at);
}
