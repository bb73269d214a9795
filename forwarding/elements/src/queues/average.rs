//! An average that forgets, with Click's arithmetic.
//!
//! It moves a fixed part, a power of one half, of the way towards each new value, and has ten
//! binary digits behind the point.

/// Binary digits behind the point.
pub(super) const SCALE: u32 = 10;

/// A moving average of values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Average {
    value: i64,
    /// Each value counts 1 / 2^stability.
    stability: u32,
}

impl Average {
    /// 0; each value counts 1 / 2^`stability`, which is at most 16.
    pub(super) fn new(stability: u32) -> Average {
        Average { value: 0, stability: stability.min(16) }
    }

    /// How much a value counts, as the power of one half.
    pub(super) fn stability(&self) -> u32 {
        self.stability
    }

    /// The average, [`SCALE`] binary digits behind the point.
    pub(super) fn scaled(&self) -> u32 {
        self.value as u32
    }

    /// The average, rounded.
    pub(super) fn rounded(&self) -> u32 {
        ((self.value + (1 << (SCALE - 1))) >> SCALE) as u32
    }

    /// Takes in a value that was there `times` times.
    pub(super) fn update(&mut self, value: u32, times: u64) {
        let goal = i64::from(value) << SCALE;
        if times >= 100 {
            self.value = goal;
            return;
        }
        // Rounds up, so that the goal is reached.
        let goal = goal + ((1 << self.stability) >> 1);
        for _ in 0..times {
            self.value += (goal - self.value) >> self.stability;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_average_reaches_what_it_is_shown() {
        let mut average = Average::new(4);
        average.update(100, 1);
        assert_eq!(average.scaled(), (100 << SCALE) / 16);
        average.update(100, 99);
        average.update(100, 99);
        assert_eq!(average.rounded(), 100);
        average.update(0, 100);
        assert_eq!(average.scaled(), 0);
    }

    proptest! {
        #[test]
        fn an_average_stays_between_its_values(values: Vec<u32>, stability in 0u32..=16, times in 0u64..120) {
            let mut average = Average::new(stability);
            for value in &values {
                average.update(*value >> SCALE, times);
            }
            let most = values.iter().max().copied().unwrap_or_default() >> SCALE;
            prop_assert!(average.rounded() <= most);
        }
    }
}
