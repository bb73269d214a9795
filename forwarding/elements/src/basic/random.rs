//! Random numbers for elements that choose, drop or fill at random: fast, well spread, and no
//! secret.

use std::hash::{BuildHasher, RandomState};

/// A sequence of its own.
pub(crate) struct Random(chance::Random);

impl Random {
    /// One that is different in every run.
    pub fn new() -> Random {
        Random(chance::Random(RandomState::new().hash_one(0)))
    }

    /// The next number.
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// A number below `bound`; 0 for 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound as usize) as u64
    }

    /// Fills bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }
}
