//! A goal of MLRsearch, and what the trials at one load say of it (RFC 9971 sections 4.5 and 6,
//! appendices A and B).

use serde::{Deserialize, Serialize};

/// What is sought: the highest load of which no more than this is lost, this surely.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// Part of the frames that a good trial may lose, 0 to below 1.
    pub loss: f64,
    /// Part of the trials (by their seconds) that may be bad, 0 to below 1.
    pub exceed: f64,
    /// Seconds of a trial of full length.
    pub final_seconds: f64,
    /// Seconds of the first, shortest trials.
    pub initial_seconds: f64,
    /// Seconds of trials of full length that decide a load for certain.
    pub sum_seconds: f64,
    /// How near each other the bounds come: (upper - lower) / upper.
    pub width: f64,
}

/// A goal that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a search goal's {what}")]
pub struct GoalError {
    what: &'static str,
}

/// A trial that was made at some load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// Seconds asked for.
    pub seconds: f64,
    /// Seconds that it counts for.
    pub effective: f64,
    /// Part of the frames lost.
    pub loss: f64,
}

/// What the trials at a load make of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The goal holds there, whatever further trials bring.
    Lower,
    /// The goal fails there.
    Upper,
    /// Not yet known.
    Undecided,
}

impl Goal {
    /// What FD.io's laboratory uses for software: trials of `seconds`, 21 of them decide, half of
    /// them may be bad.
    pub fn short(loss: f64, seconds: f64) -> Goal {
        Goal {
            loss,
            exceed: 0.5,
            final_seconds: seconds,
            initial_seconds: seconds,
            sum_seconds: 21.0 * seconds,
            width: 0.005,
        }
    }

    /// Whether the figures make sense.
    pub fn check(&self) -> Result<(), GoalError> {
        let ratio = |value: f64| (0.0..1.0).contains(&value);
        let seconds = |value: f64| value > 0.0 && value.is_finite();
        for (sound, what) in [
            (ratio(self.loss), "loss ratio is 0 to below 1"),
            (ratio(self.exceed), "exceed ratio is 0 to below 1"),
            (ratio(self.width) && self.width >= 1e-5, "width is 0.00001 to below 1"),
            (seconds(self.final_seconds), "final trial duration is above 0 s"),
            (seconds(self.initial_seconds), "initial trial duration is above 0 s"),
            (self.initial_seconds <= self.final_seconds, "initial trial duration is at most the final one"),
            (seconds(self.sum_seconds), "duration sum is above 0 s"),
            // An exceed ratio near 1 makes loads that no number of trials decides soon.
            (self.sum_seconds <= 1000.0 * self.final_seconds, "duration sum is at most 1000 trials"),
        ] {
            if !sound {
                return Err(GoalError { what });
            }
        }
        Ok(())
    }

    fn sums(&self, trials: &[Tried]) -> Sums {
        let mut sums = Sums::default();
        for trial in trials {
            let low = trial.loss <= self.loss;
            let sum = match (trial.seconds >= self.final_seconds, low) {
                (true, true) => &mut sums.full_low,
                (true, false) => &mut sums.full_high,
                (false, true) => &mut sums.short_low,
                (false, false) => &mut sums.short_high,
            };
            *sum += trial.effective;
        }
        sums
    }

    /// What all trials at one load say of it (appendix A).
    pub fn classify(&self, trials: &[Tried]) -> Class {
        let sums = self.sums(trials);
        // Short trials that went well are no proof, but they outweigh short ones that went badly.
        let balanced = sums.short_low * self.exceed / (1.0 - self.exceed);
        let high = sums.full_high + (sums.short_high - balanced).max(0.0);
        let whole = (high + sums.full_low).max(self.sum_seconds);
        let allowed = whole * self.exceed;
        if high > allowed {
            Class::Upper
        } else if whole - sums.full_low <= allowed {
            Class::Lower
        } else {
            Class::Undecided
        }
    }

    /// What comes back at a load of `rate`, typically (appendix B): the forwarding rate of the
    /// trial of full length that is worse than all but the allowed part of them.
    pub fn conditional(&self, rate: f64, trials: &[Tried]) -> f64 {
        let mut full: Vec<&Tried> =
            trials.iter().filter(|trial| trial.seconds >= self.final_seconds).collect();
        full.sort_by(|one, other| one.loss.total_cmp(&other.loss));
        let sums = self.sums(trials);
        let whole = (sums.full_low + sums.full_high).max(self.sum_seconds);
        let mut left = whole * (1.0 - self.exceed);
        let mut loss = 1.0;
        for trial in full {
            if left <= 0.0 {
                break;
            }
            loss = trial.loss;
            left -= trial.effective;
        }
        rate * (1.0 - if left > 0.0 { 1.0 } else { loss })
    }
}

/// Seconds of the trials at a load, by length and loss.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    full_low: f64,
    full_high: f64,
    short_low: f64,
    short_high: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn trials(of: &[(f64, f64)]) -> Vec<Tried> {
        of.iter().map(|&(seconds, loss)| Tried { seconds, effective: seconds, loss }).collect()
    }

    #[test]
    fn one_trial_decides_a_strict_goal() {
        let strict = Goal { exceed: 0.0, sum_seconds: 60.0, ..Goal::short(0.0, 60.0) };
        assert_eq!(strict.classify(&[]), Class::Undecided);
        assert_eq!(strict.classify(&trials(&[(60.0, 0.0)])), Class::Lower);
        assert_eq!(strict.classify(&trials(&[(60.0, 0.001)])), Class::Upper);
        assert_eq!(strict.classify(&trials(&[(1.0, 0.0)])), Class::Undecided);
        assert_eq!(strict.classify(&trials(&[(1.0, 0.5)])), Class::Upper);
        assert_eq!(strict.conditional(100.0, &trials(&[(60.0, 0.0)])), 100.0);
    }

    #[test]
    fn half_of_the_trials_may_be_bad() {
        let goal = Goal::short(0.0, 1.0);
        let good = |n: usize| vec![(1.0, 0.0); n];
        let bad = |n: usize| vec![(1.0, 0.1); n];
        assert_eq!(goal.classify(&trials(&good(10))), Class::Undecided);
        assert_eq!(goal.classify(&trials(&good(11))), Class::Lower);
        assert_eq!(goal.classify(&trials(&bad(10))), Class::Undecided);
        assert_eq!(goal.classify(&trials(&bad(11))), Class::Upper);
        assert_eq!(goal.classify(&trials(&[good(11), bad(10)].concat())), Class::Lower);
        assert_eq!(goal.classify(&trials(&[good(10), bad(11)].concat())), Class::Upper);
        // The median of what comes back: at 11 good trials of 21, the worst that could be typical
        // is a good one.
        assert_eq!(goal.conditional(100.0, &trials(&[good(11), bad(3)].concat())), 100.0);
        assert_eq!(goal.conditional(100.0, &trials(&good(5))), 0.0);
    }

    #[test]
    fn goals_that_cannot_be_are_refused() {
        let goal = Goal::short(0.005, 1.0);
        assert_eq!(goal.check(), Ok(()));
        for wrong in [
            Goal { loss: 1.0, ..goal },
            Goal { loss: f64::NAN, ..goal },
            Goal { exceed: -0.1, ..goal },
            Goal { width: 0.0, ..goal },
            Goal { final_seconds: f64::INFINITY, ..goal },
            Goal { initial_seconds: 2.0, ..goal },
            Goal { sum_seconds: 0.0, ..goal },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }

    /// The example of RFC 9971, appendix C: four goals, and what its tables say at three points.
    #[test]
    fn the_example_of_the_rfc() {
        let goal = |final_seconds, sum_seconds, loss, exceed| Goal {
            loss,
            exceed,
            final_seconds,
            initial_seconds: 1.0,
            sum_seconds,
            width: 0.005,
        };
        let goals = [
            goal(60.0, 60.0, 0.0, 0.0),
            goal(60.0, 120.0, 0.0, 0.5),
            goal(1.0, 120.0, 0.005, 0.5),
            goal(60.0, 60.0, 0.005, 0.2),
        ];
        let (good, bad) = ((1.0, 0.0), (1.0, 0.01));
        use Class::{Undecided, Upper};
        for (good_ones, bad_ones, expected) in [
            (59, 0, [Undecided, Undecided, Undecided, Undecided]),
            (59, 1, [Upper, Undecided, Undecided, Undecided]),
            (59, 60, [Upper, Undecided, Undecided, Upper]),
        ] {
            let all = trials(&[vec![good; good_ones], vec![bad; bad_ones]].concat());
            assert_eq!(goals.map(|goal| goal.classify(&all)), expected, "{good_ones} good, {bad_ones} bad");
        }
    }

    proptest! {
        /// Trials of full length that last as long as the sum decide every load, and a better trial
        /// never makes it worse.
        #[test]
        fn enough_trials_decide(
            loss in proptest::collection::vec(0.0..0.02f64, 21..40), exceed in 0.0..0.9f64
        ) {
            let goal = Goal { exceed, ..Goal::short(0.005, 1.0) };
            let all: Vec<Tried> = loss.iter().map(|&loss| Tried { seconds: 1.0, effective: 1.0, loss }).collect();
            let class = goal.classify(&all);
            prop_assert_ne!(class, Class::Undecided);
            let mut better = all.clone();
            better[0].loss = 0.0;
            if class == Class::Lower {
                prop_assert_eq!(goal.classify(&better), Class::Lower);
                let conditional = goal.conditional(1000.0, &all);
                prop_assert!((1000.0 * (1.0 - goal.loss)..=1000.0).contains(&conditional), "{}", conditional);
            }
        }
    }
}
