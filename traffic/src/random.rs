//! Numbers that look random and are the same in every run.

/// The finisher of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): a number from a
/// number, each bit of which depends on each.
#[inline(always)]
pub fn mix(number: u64) -> u64 {
    let z = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// The step of SplitMix64.
pub const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    #[allow(clippy::should_implement_trait)] // an endless source is no iterator
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let below = ((u128::from(self.next()) * (i as u128 + 1)) >> 64) as usize;
            items.swap(i, below);
        }
    }
}
