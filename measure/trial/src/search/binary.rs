//! RFC 2544's throughput: the highest load of which nothing is lost, by halving (sections 24 and
//! 26.1).

use super::{Ask, Bounds, Outcome, Search};

/// The smallest load that is tried, as a part of the largest.
const LEAST: f64 = 1e-5;

/// The search.
#[derive(Clone, Debug)]
pub struct Binary {
    max: f64,
    seconds: f64,
    width: f64,
    lower: Option<f64>,
    upper: Option<f64>,
    tried: u32,
}

impl Binary {
    /// Loads up to `max` (frames a second a port), in trials of so many seconds, until the bounds
    /// are within `width`: (upper - lower) / upper, brought within 0.001 % and 50 %.
    pub fn new(max: f64, seconds: f64, width: f64) -> Binary {
        let max = if max.is_finite() { max.max(0.0) } else { 0.0 };
        let width = if width.is_nan() { 0.005 } else { width.clamp(1e-5, 0.5) };
        Binary { max, seconds, width, lower: None, upper: None, tried: 0 }
    }

    /// The load to try next: the full one first, then the middle.
    fn rate(&self) -> Option<f64> {
        let Some(upper) = self.upper else { return self.lower.is_none().then_some(self.max) };
        let lower = self.lower.unwrap_or(0.0);
        let is_near = upper - lower <= upper * self.width || upper <= self.max * LEAST;
        (!is_near).then_some((lower + upper) / 2.0)
    }

    fn trials_left(&self) -> f64 {
        match (self.lower, self.upper) {
            _ if self.rate().is_none() => 0.0,
            (_, None) => 1.0 - self.width.log2(),
            (lower, Some(upper)) => {
                let wide = (upper - lower.unwrap_or(0.0)) / (upper * self.width);
                wide.max(2.0).log2().ceil()
            }
        }
    }

    /// At most so many trials.
    pub fn limit(&self) -> u32 {
        (2.0 - LEAST.log2() - self.width.log2()).ceil() as u32
    }
}

impl Search for Binary {
    fn next(&self) -> Option<Ask> {
        let rate = self.rate().filter(|rate| *rate > 0.0)?;
        Some(Ask { rate, seconds: self.seconds })
    }

    fn take(&mut self, outcome: Outcome) {
        let Some(rate) = self.rate() else { return };
        self.tried += 1;
        if outcome.loss > 0.0 { self.upper = Some(rate) } else { self.lower = Some(rate) }
    }

    fn seconds_left(&self) -> f64 {
        self.trials_left() * self.seconds
    }

    fn found(&self) -> Vec<Bounds> {
        let regular = self.rate().is_none() && self.lower.is_some() && self.upper.is_some();
        vec![Bounds { loss: 0.0, lower: self.lower, upper: self.upper, conditional: self.lower, regular }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_is_there(max in 1.0..1e9f64, part in 0.0..1.2f64, width in 0.0005..0.1f64) {
            let truth = max * part;
            let mut search = Binary::new(max, 1.0, width);
            let mut trials = 0;
            while let Some(ask) = search.next() {
                prop_assert!(ask.rate <= max && ask.rate > 0.0);
                search.take(Outcome { loss: (1.0 - truth / ask.rate).max(0.0), seconds: 1.0 });
                trials += 1;
                prop_assert!(trials <= search.limit());
            }
            let found = search.found()[0];
            if truth >= max {
                prop_assert_eq!((found.lower, found.upper, trials), (Some(max), None, 1));
            } else if let (Some(lower), Some(upper)) = (found.lower, found.upper) {
                prop_assert!(lower <= truth && truth < upper && upper - lower <= upper * width);
            } else {
                prop_assert!(truth < max * 2.0 * LEAST);
            }
        }
    }

    #[test]
    fn nothing_to_search_is_no_search() {
        for max in [0.0, -5.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Binary::new(max, 1.0, 0.005).next(), None);
        }
    }
}
