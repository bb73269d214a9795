//! Distributions of times, kept in histograms of constant relative precision.
//!
//! `hdrhistogram` with two significant digits: 1 % of any value from a nanosecond to hours, in some
//! 40 kB. Recording one value is an addition to a counter.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Significant decimal digits.
const DIGITS: u8 = 2;
/// Largest value: two days in nanoseconds. Larger ones count as this.
const LARGEST: u64 = 2 * 86_400 * 1_000_000_000;
/// Percentiles of [`Distribution::points`].
const POINTS: [f64; 22] = [
    0.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 95.0, 97.5, 99.0, 99.5, 99.9,
    99.95, 99.99, 99.999, 100.0,
];

/// How values are distributed. Times are in nanoseconds; percentiles are within 1 % of the true
/// ones, the rest is exact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Smallest.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Half are at most this.
    pub p50: u64,
    /// 90 % are at most this.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// 99.99 %.
    pub p9999: u64,
    /// Largest.
    pub max: u64,
    /// Percentiles (0 to 100) and their values, to draw.
    pub points: Vec<(f64, u64)>,
}

/// Values, counted.
#[derive(Clone, Debug)]
pub struct Times {
    histogram: Histogram<u64>,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Times {
    fn default() -> Times {
        let histogram =
            Histogram::new_with_max(LARGEST, DIGITS).expect("2 digits up to two days are in its limits");
        Times { histogram, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Times {
    /// One value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// One value, so many times.
    #[inline]
    pub fn record_n(&mut self, value: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.histogram.saturating_record_n(value, count);
        self.sum += u128::from(value) * u128::from(count);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// The values of another one as well.
    pub fn add(&mut self, other: &Times) {
        // Both have the same limits, so that it cannot fail.
        let _same_limits = self.histogram.add(&other.histogram);
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Of values that were counted elsewhere: each (or the middle of its bucket) and how often,
    /// with their true sum, smallest and largest.
    pub(crate) fn of_buckets(counts: &[(u64, u64)], sum: u64, min: u64, max: u64) -> Times {
        let mut times = Times::default();
        for &(value, count) in counts {
            times.histogram.saturating_record_n(value, count);
        }
        (times.sum, times.min, times.max) = (sum.into(), min, max.max(min));
        times
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The picture of them; `None` when there are no values.
    pub fn distribution(&self) -> Option<Distribution> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let at = |percent: f64| self.histogram.value_at_quantile(percent / 100.0).clamp(self.min, self.max);
        Some(Distribution {
            count,
            min: self.min,
            mean: self.sum as f64 / count as f64,
            p50: at(50.0),
            p90: at(90.0),
            p99: at(99.0),
            p999: at(99.9),
            p9999: at(99.99),
            max: self.max,
            points: POINTS.iter().map(|&percent| (percent, at(percent))).collect(),
        })
    }
}

/// [`Times`] as it goes from machine to machine: counters that are not zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Packed {
    counts: Vec<(u64, u64)>,
    /// A `u128` is beyond what JSON's readers take.
    sum: (u64, u64),
    min: u64,
    max: u64,
}

impl From<&Times> for Packed {
    fn from(times: &Times) -> Packed {
        let recorded = times.histogram.iter_recorded();
        Packed {
            counts: recorded.map(|step| (step.value_iterated_to(), step.count_at_value())).collect(),
            sum: ((times.sum >> 64) as u64, times.sum as u64),
            min: times.min,
            max: times.max,
        }
    }
}

impl From<&Packed> for Times {
    fn from(packed: &Packed) -> Times {
        let mut times = Times::default();
        for &(value, count) in &packed.counts {
            times.histogram.saturating_record_n(value, count);
        }
        times.sum = u128::from(packed.sum.0) << 64 | u128::from(packed.sum.1);
        times.min = packed.min;
        times.max = packed.max.max(packed.min);
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_percent_and_the_ends_exact() {
        let mut times = Times::default();
        (1..=100_000u64).for_each(|value| times.record(value * 17));
        let picture = times.distribution().unwrap();
        assert_eq!((picture.count, picture.min, picture.max), (100_000, 17, 1_700_000));
        assert!((picture.mean - 850_008.5).abs() < 1e-6);
        for (got, percent) in [(picture.p50, 50.0), (picture.p99, 99.0), (picture.p9999, 99.99)] {
            let true_value = 17_000.0 * percent;
            assert!((got as f64 - true_value).abs() <= 0.01 * true_value, "{got} {percent}");
        }
        assert_eq!(Times::default().distribution(), None);
    }

    #[test]
    fn packed_and_unpacked_it_is_the_same() {
        let mut times = Times::default();
        [0, 1, 5, 5, 1 << 40, u64::MAX].into_iter().for_each(|value| times.record(value));
        let text = serde_json::to_string(&Packed::from(&times)).unwrap();
        let again = Times::from(&serde_json::from_str::<Packed>(&text).unwrap());
        assert_eq!(again.distribution(), times.distribution());
    }
}
