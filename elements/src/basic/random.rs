//! Random numbers for elements that choose, drop or fill at random: fast, well spread, and no secret.

use std::hash::{BuildHasher, RandomState};

/// A sequence of its own (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    /// One that is different in every run.
    pub fn new() -> Random {
        Random(RandomState::new().hash_one(0))
    }

    /// The next number.
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`; 0 for 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Fills bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_ne_bytes()[..chunk.len()]);
        }
    }
}
