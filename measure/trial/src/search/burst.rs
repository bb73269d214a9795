//! The longest burst that passes whole (RFC 9004): frames with the smallest gap, as many as the
//! device's buffers take.
//!
//! Each repetition is a search by halving. The first looks at all lengths; the others begin around
//! what the one before found and widen only when they must, for the RFC wants fifty of them.

use serde::{Deserialize, Serialize};

/// Bursts of so many repetitions.
#[derive(Clone, Debug)]
pub struct Burst {
    max: u64,
    repetitions: u32,
    precision: f64,
    found: Vec<u64>,
    /// The longest that passed and the shortest that did not, in this repetition.
    lower: Option<u64>,
    upper: Option<u64>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Longest {
    /// Mean of the repetitions, in frames.
    pub mean: f64,
    /// The shortest of them.
    pub min: u64,
    /// The longest of them.
    pub max: u64,
    /// Standard deviation.
    pub deviation: f64,
    /// Repetitions.
    pub repetitions: u32,
    /// Whether the longest burst that was tried passed: the device may take longer ones.
    pub all_passed: bool,
}

impl Burst {
    /// Bursts of up to `max` frames a port, the longest found to a part (`precision`) of itself.
    pub fn new(max: u64, repetitions: u32, precision: f64) -> Burst {
        let precision = if precision.is_nan() { 0.01 } else { precision.clamp(1e-6, 0.5) };
        Burst { max, repetitions, precision, found: Vec::new(), lower: None, upper: None }
    }

    /// Frames of the next burst a port; none when all repetitions are done.
    pub fn next(&self) -> Option<u64> {
        if self.max == 0 || self.found.len() as u32 >= self.repetitions {
            return None;
        }
        let before = self.found.last().copied();
        Some(match (self.lower, self.upper) {
            (None, None) => before.filter(|before| *before > 0).unwrap_or(self.max),
            (None, Some(upper)) => upper / 2,
            (Some(lower), None) if before.is_some() => {
                // A little longer first: mostly it is as it was.
                let step =
                    self.step(lower).max(lower.saturating_sub(before.unwrap_or(lower)).saturating_mul(2));
                lower.saturating_add(step).min(self.max)
            }
            (Some(_), None) => self.max,
            (Some(lower), Some(upper)) => lower + (upper - lower) / 2,
        })
    }

    fn step(&self, length: u64) -> u64 {
        ((length as f64 * self.precision) as u64).max(1)
    }

    /// Takes whether the burst passed whole.
    pub fn take(&mut self, passed: bool) {
        let Some(length) = self.next() else { return };
        if passed {
            self.lower = Some(length)
        } else {
            self.upper = Some(length)
        }
        let done = match (self.lower, self.upper) {
            (Some(lower), None) => lower >= self.max,
            (Some(lower), Some(upper)) => upper.saturating_sub(lower) <= self.step(upper),
            (None, Some(upper)) => upper <= 1,
            (None, None) => false,
        };
        if done {
            self.found.push(self.lower.unwrap_or(0));
            (self.lower, self.upper) = (None, None);
        }
    }

    /// Bursts that are probably still to come.
    pub fn bursts_left(&self) -> f64 {
        let repetitions = f64::from(self.repetitions.saturating_sub(self.found.len() as u32));
        let first = if self.found.is_empty() { (self.max as f64).max(2.0).log2().min(20.0) } else { 0.0 };
        (first + 4.0 * repetitions).max(if self.next().is_some() { 1.0 } else { 0.0 })
    }

    /// What the repetitions found, when there is one.
    pub fn longest(&self) -> Option<Longest> {
        let count = self.found.len() as f64;
        let (min, max) = (*self.found.iter().min()?, *self.found.iter().max()?);
        let mean = self.found.iter().map(|&length| length as f64).sum::<f64>() / count;
        let variance = self.found.iter().map(|&length| (length as f64 - mean).powi(2)).sum::<f64>() / count;
        let repetitions = self.found.len() as u32;
        Some(Longest { mean, min, max, deviation: variance.sqrt(), repetitions, all_passed: max >= self.max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_the_buffer(max in 1u64..10_000_000, buffer in 0u64..12_000_000, repetitions in 1u32..10, noise in 0u64..3) {
            let mut search = Burst::new(max, repetitions, 0.01);
            let mut bursts = 0u64;
            while let Some(length) = search.next() {
                prop_assert!((1..=max).contains(&length));
                search.take(length <= buffer + bursts % (noise + 1));
                bursts += 1;
                prop_assert!(bursts < 40 + 40 * u64::from(repetitions), "does not end");
            }
            let longest = search.longest().unwrap();
            prop_assert_eq!(longest.repetitions, repetitions);
            prop_assert_eq!(longest.all_passed, longest.max == max);
            let truth = buffer.min(max) as f64;
            prop_assert!((longest.mean - truth).abs() <= truth * 0.011 + 1.0 + noise as f64, "{longest:?} {truth}");
        }
    }
}
