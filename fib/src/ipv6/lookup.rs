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
    if is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
    {
        // SAFETY: the features are there.
        return unsafe { avx2(words, addresses, ids) };
    }
    scalar(words, addresses, ids);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn avx2(words: &Array<AtomicU32>, addresses: &[u128], ids: &mut [NextHopId]) {
    walk(words, addresses, ids, |words, line, key| {
        use std::arch::x86_64::*;
        // SAFETY: a line is 16 aligned words inside the array, and its ends do not change while it can be reached.
        let reached = unsafe {
            let ends = _mm256_load_si256(words.as_ptr().add(line).cast());
            let larger = _mm256_max_epu32(ends, _mm256_set1_epi32(key as i32));
            _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(larger, ends)))
        };
        // The first end that is not below the key; there always is one, the last at the latest.
        (reached | 0x80).trailing_zeros() as usize
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
        // Each address's latest word, and the key for the line it may point to; and who is still on the way.
        let (mut latest, mut keys, mut windows) = ([0u32; STEP], [0u32; STEP], [0u8; STEP]);
        let (mut going, mut still) = ([0u8; STEP], 0);
        // The direct levels are small enough for the second cache: here the processor's own overlap is enough.
        for (i, &address) in addresses.iter().enumerate() {
            let word = direct(words, (address >> 64) as u64);
            prefetch_line(words, word);
            latest[i] = word;
            keys[i] = key(address, 0);
            going[still] = i as u8;
            still += usize::from(word & POINTER != 0);
        }
        for _ in 0..MAX_LINES {
            let count = std::mem::take(&mut still);
            if count == 0 {
                break;
            }
            for n in 0..count {
                let i = usize::from(going[n]) % STEP;
                let line = (latest[i] & INDEX) as usize * LINE;
                let word = words[line + RANGES + range(words, line, keys[i])].load(Ordering::Acquire);
                prefetch_line(words, word);
                latest[i] = word;
                if word & NEXT != 0 {
                    windows[i] += 1;
                    keys[i] = key(addresses[i], windows[i]);
                }
                going[still] = i as u8;
                still += usize::from(word & POINTER != 0);
            }
        }
        for (id, word) in ids.iter_mut().zip(latest) {
            *id = NextHopId(if word & POINTER == 0 { word & ID_MASK } else { 0 });
        }
    }
}

/// The word of the first 28 bits, of which `top` is the beginning.
#[inline(always)]
fn direct(words: &[AtomicU32], top: u64) -> u32 {
    let word = words[(top >> (64 - ROOT_BITS)) as usize].load(Ordering::Acquire);
    if word & POINTER == 0 {
        return word;
    }
    let slot = (top >> (64 - TOP_BITS)) as usize & ((1 << DIRECT_BITS) - 1);
    words[(word & INDEX) as usize * LINE + slot].load(Ordering::Acquire)
}

/// The 32 bits of an address that a window is about; beyond its end, zeros.
#[inline(always)]
fn key(address: u128, window: u8) -> u32 {
    (address << (TOP_BITS + 32 * u32::from(window)) >> 96) as u32
}

/// Asks for the line that a word points to. For a route that is the array's first line: asking for it costs nothing, as
/// it always is in the cache, and a branch would be guessed wrong half of the time.
#[inline(always)]
fn prefetch_line(words: &[AtomicU32], word: u32) {
    let line = word & INDEX & (word as i32 >> 31) as u32;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch touches nothing, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(words.as_ptr().wrapping_add(line as usize * LINE).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (words, line);
}
