//! The readers' side of the IPv6 table.
//!
//! A walk is a chain of loads that each depend on the one before, and most miss the first two
//! caches. So a batch walks all its addresses in step: each round fetches, for every address still
//! on its way, the word that the round before asked for, and asks for the next line. What one
//! address waits for, the others' misses hide.

use super::{DIRECT_BITS, INDEX, LINE, NEXT, RANGES, ROOT_BITS, TOP_BITS};
use crate::NextHopId;
use crate::beside::Walk;
use crate::memory::Array;
use crate::word::{ID, POINTER};
use std::sync::atomic::{AtomicU32, Ordering};

/// More lines than any walk has: a reader that ignores grace periods ends here at the latest.
const MAX_LINES: usize = 64;
/// Addresses that walk in step.
const STEP: usize = 64;

/// Where walks begin, and what they look for: each is an address, by its number.
pub(crate) trait Walks: Copy {
    /// `count` of these, from `first` on.
    fn part(self, first: usize, count: usize) -> Self;
    /// The word that the walk begins with.
    fn start(self, words: &[AtomicU32], walk: usize) -> u32;
    /// The 32 bits of the address that a window is about; beyond its end, zeros.
    fn key(self, walk: usize, window: u8) -> u32;
}

/// Addresses in the main table.
#[derive(Clone, Copy)]
pub(crate) struct Main<'a>(pub &'a [u128]);

impl Walks for Main<'_> {
    #[inline(always)]
    fn part(self, first: usize, count: usize) -> Self {
        Main(&self.0[first..first + count])
    }

    #[inline(always)]
    fn start(self, words: &[AtomicU32], walk: usize) -> u32 {
        direct(words, (self.0[walk] >> 64) as u64)
    }

    #[inline(always)]
    fn key(self, walk: usize, window: u8) -> u32 {
        key(self.0[walk].wrapping_shl(TOP_BITS), window)
    }
}

/// Addresses in tables beside the main one.
#[derive(Clone, Copy)]
pub(crate) struct Beside<'a>(pub &'a [Walk]);

impl Walks for Beside<'_> {
    #[inline(always)]
    fn part(self, first: usize, count: usize) -> Self {
        Beside(&self.0[first..first + count])
    }

    #[inline(always)]
    fn start(self, words: &[AtomicU32], walk: usize) -> u32 {
        words[self.0[walk].root as usize].load(Ordering::Acquire)
    }

    #[inline(always)]
    fn key(self, walk: usize, window: u8) -> u32 {
        key(self.0[walk].bits, window)
    }
}

/// The next hop of the first of these.
pub(crate) fn one(words: &Array<AtomicU32>, walks: impl Walks) -> NextHopId {
    NextHopId(word_of(words, walks) & ID)
}

/// The route's word of the first of these; 0 = none.
pub(crate) fn word_of(words: &Array<AtomicU32>, walks: impl Walks) -> u32 {
    let mut word = walks.start(words, 0);
    let mut window = 0;
    for _ in 0..MAX_LINES {
        if word & POINTER == 0 {
            return word;
        }
        window += u8::from(word & NEXT != 0);
        let line = (word & INDEX) as usize * LINE;
        word = words[line + RANGES + range_of(words, line, walks.key(0, window))].load(Ordering::Acquire);
    }
    0
}

/// The next hops of them all, as many as there are ids.
pub(crate) fn batch(words: &Array<AtomicU32>, walks: impl Walks, ids: &mut [NextHopId]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
    {
        // SAFETY: the features are there.
        return unsafe { avx2(words, walks, ids) };
    }
    scalar(words, walks, ids);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn avx2(words: &Array<AtomicU32>, walks: impl Walks, ids: &mut [NextHopId]) {
    walk(words, walks, ids, |words, line, key| {
        use std::arch::x86_64::*;
        // SAFETY: pointers only ever name lines: 16 aligned words inside the array. The ends of a
        // line do not change while a registered reader can reach it; another reader's answer may be
        // stale.
        let reached = unsafe {
            let ends = _mm256_load_si256(words.as_ptr().add(line).cast());
            let larger = _mm256_max_epu32(ends, _mm256_set1_epi32(key as i32));
            _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(larger, ends)))
        };
        // The first end that is not below the key; there always is one, the last at the latest.
        (reached | 0x80).trailing_zeros() as usize
    });
}

fn scalar(words: &Array<AtomicU32>, walks: impl Walks, ids: &mut [NextHopId]) {
    walk(words, walks, ids, range_of);
}

/// Which of a line's ranges the key belongs to.
fn range_of(words: &Array<AtomicU32>, line: usize, key: u32) -> usize {
    let end = |i: usize| words[line + i].load(Ordering::Relaxed);
    let mut range = usize::from(end(3) < key) * 4;
    range += usize::from(end(range + 1) < key) * 2;
    range + usize::from(end(range) < key)
}

/// `range`: given a line's first word and the key, which of the line's ranges the key belongs to.
#[inline(always)]
fn walk(
    words: &Array<AtomicU32>,
    walks: impl Walks,
    ids: &mut [NextHopId],
    range: impl Fn(&Array<AtomicU32>, usize, u32) -> usize,
) {
    for (chunk, ids) in ids.chunks_mut(STEP).enumerate() {
        let walks = walks.part(chunk * STEP, ids.len());
        // Each address's latest word, and the key for the line it may point to; and who is still on
        // the way.
        let (mut latest, mut keys, mut windows) = ([0u32; STEP], [0u32; STEP], [0u8; STEP]);
        let (mut going, mut still) = ([0u8; STEP], 0);
        // The direct levels are small enough for the second cache: here the processor's own overlap
        // is enough.
        for i in 0..ids.len() {
            latest[i] = walks.start(words, i);
            keys[i] = walks.key(i, 0);
            prefetch_line(words, latest[i]);
        }
        // Most addresses need a line, so all take this step, needed or not: a loop of known length
        // is never mispredicted.
        for i in 0..ids.len() {
            let line = line_of(latest[i]);
            let next = words[line + RANGES + range(words, line, keys[i])].load(Ordering::Acquire);
            let word = if latest[i] & POINTER == 0 { latest[i] } else { next };
            prefetch_line(words, word);
            latest[i] = word;
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
                if latest[i] & NEXT != 0 {
                    windows[i] += 1;
                    keys[i] = walks.key(i, windows[i]);
                }
                let line = line_of(latest[i]);
                let word = words[line + RANGES + range(words, line, keys[i])].load(Ordering::Acquire);
                prefetch_line(words, word);
                latest[i] = word;
                going[still] = i as u8;
                still += usize::from(word & POINTER != 0);
            }
        }
        for (id, word) in ids.iter_mut().zip(latest) {
            *id = NextHopId(if word & POINTER == 0 { word & ID } else { 0 });
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

/// The 32 bits that a window is about of what the first of them begins with.
#[inline(always)]
fn key(from_the_first: u128, window: u8) -> u32 {
    (from_the_first.wrapping_shl(32 * u32::from(window)) >> 96) as u32
}

/// Where the line begins that a word points to. For a route it is the array's first line: asking
/// for that costs nothing, as it always is in the cache, and a branch would be guessed wrong half
/// of the time.
#[inline(always)]
fn line_of(word: u32) -> usize {
    (word & INDEX & (word as i32 >> 31) as u32) as usize * LINE
}

#[inline(always)]
fn prefetch_line(words: &Array<AtomicU32>, word: u32) {
    words.prefetch(line_of(word));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capacity, NextHop, Tables};

    #[test]
    fn all_ways_to_look_up_agree_whatever_the_size_of_the_batch() {
        let mut tables = Tables::new(Capacity { ipv4: 1, ipv6: 50_000, next_hops: 100 }, None).unwrap();
        let mut random = 1u128;
        let mut next = || {
            random = random.wrapping_mul(0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645).wrapping_add(3);
            random ^ random >> 64
        };
        for i in 0..100 {
            let id = tables.add_next_hop(&NextHop::Local).unwrap();
            for _ in 0..200 {
                let (bits, length) =
                    (0x2001 << 112 | next() >> 8 & 0xff3f_ffff_f0ff << 64 | next() & 3, 16 + next() % 113);
                let net = ipnet::Ipv6Net::new(bits.into(), length as u8).unwrap().trunc();
                tables.insert6(net, id).unwrap();
            }
            let words = &tables.words6();
            let addresses: Vec<u128> =
                (0..i).map(|_| 0x2001 << 112 | next() >> 8 & 0xff3f_ffff_f0ff << 64 | next() & 3).collect();
            let each: Vec<NextHopId> =
                addresses.iter().map(|&address| one(words, Main(&[address]))).collect();
            for lookup in [batch, scalar] {
                let mut ids = vec![NextHopId::NONE; addresses.len()];
                lookup(words, Main(&addresses), &mut ids);
                assert_eq!(ids, each);
            }
        }
    }
}
