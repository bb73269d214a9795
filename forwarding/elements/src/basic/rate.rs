//! How often something happens, as an exponentially weighted moving average.
//!
//! What happened in a millisecond is one sample; it weighs a sixteenth, what was before fifteen.
//! The numbers are Click's, to the last bit.

use graph::arguments::unparse;

/// A rate with `SCALE` bits behind the point.
pub(crate) struct Rate<const SCALE: u32> {
    /// Per millisecond.
    average: u64,
    /// The millisecond being counted.
    now: u64,
    count: u64,
}

impl<const SCALE: u32> Rate<SCALE> {
    pub fn new() -> Rate<SCALE> {
        Rate { average: 0, now: 0, count: 0 }
    }

    /// Counts what happens at `now`, in steady nanoseconds.
    #[inline]
    pub fn update(&mut self, count: u64, now: u64) {
        let now = now / 1_000_000;
        if now != self.now {
            self.close(now);
        }
        self.count = self.count.wrapping_add(count);
    }

    #[cold]
    fn close(&mut self, now: u64) {
        self.sample(self.count);
        let idle = now.saturating_sub(self.now).saturating_sub(1);
        if idle >= 100 {
            self.average = 0;
        } else {
            (0..idle).for_each(|_| self.sample(0));
        }
        (self.now, self.count) = (now, 0);
    }

    fn sample(&mut self, count: u64) {
        let difference = (count << SCALE).wrapping_add(8).wrapping_sub(self.average);
        self.average = self.average.wrapping_add_signed(difference.cast_signed() >> 4);
    }

    /// Per millisecond, with `SCALE` bits behind the point.
    #[inline]
    pub fn scaled(&self) -> u64 {
        self.average
    }

    /// Per second, times `factor`, as Click prints it.
    pub fn text(&self, factor: u64) -> String {
        let scaled = self.average.saturating_mul(1000).saturating_mul(factor);
        let (whole, part) = (scaled >> SCALE, scaled & ((1 << SCALE) - 1));
        match u32::try_from(scaled) {
            Ok(scaled) => unparse::fixed(scaled, SCALE),
            // The shortest text is of no use to a number with more than ten digits.
            Err(_) => format!("{}", whole as f64 + part as f64 / f64::from(1 << SCALE)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_found_and_forgotten() {
        let mut rate = Rate::<10>::new();
        for millisecond in 0..2000 {
            rate.update(3, millisecond * 1_000_000);
        }
        // Differences of less than a sixteenth of a count are not made good.
        assert_eq!(rate.text(1), "2993.164");
        rate.update(0, 2020 * 1_000_000);
        let after: f64 = rate.text(1).parse().unwrap();
        assert!((500.0..1500.0).contains(&after), "{after}");
        rate.update(0, 2400 * 1_000_000);
        assert_eq!(rate.text(1), "0");
        rate.update(u64::MAX, 2401 * 1_000_000);
        rate.update(1, 2402 * 1_000_000);
        assert!(!rate.text(8).is_empty());
    }
}
