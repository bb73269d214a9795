//! MLRsearch (RFC 9971): many short trials instead of few long ones, several loss ratios in one
//! search.
//!
//! The loads that may be tried are the rungs of a ladder from the smallest to the full load, each
//! as far above the one below as the narrowest goal allows its bounds to be apart. So a search is
//! over whole numbers, two goals share their trials where their loads meet, and it must end.
//!
//! Goals are sought one after the other, the smallest loss ratio first: it has the lowest loads,
//! and bounds that are found low are seldom overthrown (RFC 9971 section 5.2). Each goal is sought
//! in phases, which RFC 9971 leaves to the implementation: from its initial to its final trial
//! duration, wide to narrow. The bounds of a phase are where the next one begins. Only the last
//! phase is the goal itself; its bounds are what is reported.

use super::goal::{Class, Goal, GoalError, Tried};
use super::{Ask, Bounds, Outcome, Search};

/// The loads between which is searched, in frames a second a port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loads {
    /// The smallest; enough for a frame in the shortest trial.
    pub min: f64,
    /// The full load.
    pub max: f64,
}

/// The search.
#[derive(Clone, Debug)]
pub struct Mlr {
    goals: Vec<Seek>,
    ladder: Ladder,
    /// All trials so far, by rung, lowest first.
    tried: Vec<(usize, Vec<Tried>)>,
    /// Where the forwarding rate of the first, full trial would be.
    guess: Option<usize>,
    trials: u32,
    limit: u32,
}

/// A goal and how far it is.
#[derive(Clone, Debug)]
struct Seek {
    goal: Goal,
    /// From wide to narrow; the last is the goal itself.
    phases: Vec<Phase>,
    current: usize,
    /// Bounds of the phase before.
    hint: (Option<usize>, Option<usize>),
}

#[derive(Clone, Debug)]
struct Phase {
    goal: Goal,
    /// Rungs that the bounds may be apart.
    width: usize,
}

/// Rung 0 is the smallest load, the last the full one; equal ratios between.
#[derive(Clone, Copy, Debug)]
struct Ladder {
    loads: Loads,
    top: usize,
}

impl Ladder {
    fn load(&self, rung: usize) -> f64 {
        if rung >= self.top {
            return self.loads.max;
        }
        self.loads.min * (self.loads.max / self.loads.min).powf(rung as f64 / self.top as f64)
    }

    /// The highest rung that is no higher than this load.
    fn below(&self, load: f64) -> usize {
        let place = (load / self.loads.min).ln() / (self.loads.max / self.loads.min).ln() * self.top as f64;
        if place.is_nan() { 0 } else { (place.max(0.0) as usize).min(self.top) }
    }
}

impl Mlr {
    /// Seeks these goals between these loads.
    pub fn new(goals: &[Goal], loads: Loads) -> Result<Mlr, GoalError> {
        for goal in goals {
            goal.check()?;
        }
        let mut goals = goals.to_vec();
        goals.sort_by(|one, other| one.loss.total_cmp(&other.loss));
        let max = if loads.max.is_finite() { loads.max.max(1e-3) } else { 1e-3 };
        // A ladder of one rung has no ratio.
        let min = if loads.min.is_finite() { loads.min.clamp(max * 1e-7, max * 0.5) } else { max * 0.5 };
        let narrowest = goals.iter().map(|goal| goal.width).fold(0.5, f64::min);
        let step = -(1.0 - narrowest).ln();
        let top = (((max / min).ln() / step).ceil() as usize).max(1);
        let ladder = Ladder { loads: Loads { min, max }, top };
        let goals: Vec<Seek> = goals.into_iter().map(|goal| Seek::new(goal, step)).collect();
        let limit = goals.iter().map(|seek| seek.limit(top)).sum::<u32>().saturating_mul(2);
        Ok(Mlr { goals, ladder, tried: Vec::new(), guess: None, trials: 0, limit })
    }

    /// At most so many trials; a device that answers differently each time ends the search there,
    /// with an irregular result.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Trials so far.
    pub fn trials(&self) -> u32 {
        self.trials
    }

    fn at(&self, rung: usize) -> &[Tried] {
        let place = self.tried.binary_search_by_key(&rung, |(rung, _)| *rung);
        place.map_or(&[], |n| &self.tried[n].1)
    }

    /// The relevant bounds: the lowest upper bound, and the highest lower bound below it.
    fn bounds(&self, goal: &Goal) -> (Option<usize>, Option<usize>) {
        let mut lower = None;
        for (rung, trials) in &self.tried {
            match goal.classify(trials) {
                Class::Upper => return (lower, Some(*rung)),
                Class::Lower => lower = Some(*rung),
                Class::Undecided => {}
            }
        }
        (lower, None)
    }

    /// The rung that this phase wants tried, or none when it is done.
    fn wanted(&self, seek: &Seek) -> Option<usize> {
        let Phase { goal, width } = &seek.phases[seek.current];
        let (width, top) = (*width, self.ladder.top);
        let (from, to) = seek.hint;
        let (down, up) = (from.or(self.guess), to.or(self.guess));
        let rung = match self.bounds(goal) {
            (Some(lower), Some(upper)) if upper - lower <= width => return None,
            (Some(lower), Some(upper)) => {
                // The bounds of the phase before are tried first, the lower one first of all.
                let inside = |rung: &usize| (lower + 1..upper).contains(rung);
                // Whole widths below the upper bound: no rung is wasted on a rest.
                let half = ((upper - lower).div_ceil(width) / 2).max(1) * width;
                from.filter(inside).or(to.filter(inside)).unwrap_or(upper - half.min(upper - lower - 1))
            }
            (None, Some(0)) => return None,
            (None, Some(upper)) => match down.filter(|rung| *rung < upper) {
                Some(rung) => rung,
                // Ever longer steps away from where it was thought to be.
                None => upper.saturating_sub(width.max(2 * (down.unwrap_or(upper) - upper))),
            },
            (Some(lower), None) if lower == top => return None,
            (Some(lower), None) => match up.filter(|rung| *rung > lower) {
                Some(rung) => rung,
                None => lower.saturating_add(width.max(2 * (lower - up.unwrap_or(lower)))).min(top),
            },
            (None, None) => down.or(to).unwrap_or(top),
        };
        Some(rung)
    }

    /// What is to be tried: goal, rung, seconds. The first trial is the full load, to see where
    /// things are.
    fn plan(&self) -> Option<Ask> {
        if self.trials >= self.limit {
            return None;
        }
        let first = self.goals.first()?;
        if self.trials == 0 {
            let seconds = first.phases[0].goal.final_seconds;
            return Some(Ask { rate: self.ladder.load(self.ladder.top), seconds });
        }
        let (seek, rung) = self.goals.iter().find_map(|seek| Some((seek, self.wanted(seek)?)))?;
        let seconds = seek.phases[seek.current].goal.final_seconds;
        Some(Ask { rate: self.ladder.load(rung), seconds })
    }

    /// Goes to the next phase of every goal that has come to the end of one.
    fn advance(&mut self) {
        for n in 0..self.goals.len() {
            while self.goals[n].current + 1 < self.goals[n].phases.len()
                && self.wanted(&self.goals[n]).is_none()
            {
                let seek = &self.goals[n];
                let hint = self.bounds(&seek.phases[seek.current].goal);
                self.goals[n].hint = hint;
                self.goals[n].current += 1;
            }
            // The goals after it wait for this one: their bounds are above its own.
            if self.wanted(&self.goals[n]).is_some() {
                return;
            }
        }
    }
}

impl Seek {
    /// Phases, each with trials four times as long and bounds four times as near as the one before.
    /// `step` is the ladder's.
    fn new(goal: Goal, step: f64) -> Seek {
        // The tiny excess keeps a width that is exactly so many rungs from being one fewer.
        let width = ((-(1.0 - goal.width).ln() / step + 1e-9) as usize).max(1);
        let mut phases = Vec::new();
        let (mut seconds, mut wide) = (goal.initial_seconds, width * 16);
        while wide > width || seconds < goal.final_seconds {
            seconds = seconds.min(goal.final_seconds);
            // A trial of such a phase decides by itself.
            let phase = Goal { final_seconds: seconds, sum_seconds: seconds, ..goal };
            phases.push(Phase { goal: phase, width: wide.max(width) });
            (seconds, wide) = (seconds * 4.0, wide / 4);
            if wide <= width && seconds >= goal.final_seconds {
                break;
            }
        }
        phases.push(Phase { goal, width });
        Seek { goal, phases, current: 0, hint: (None, None) }
    }

    /// More trials than a phase can need on a ladder of so many rungs: each rung that it tries is
    /// decided once the sum of the durations is reached, and the rungs tried are those of two
    /// searches by doubling and one by halving.
    fn limit(&self, top: usize) -> u32 {
        let rungs = 3 * (usize::BITS - top.leading_zeros()) + 4;
        let trials =
            |phase: &Phase| (2.0 * phase.goal.sum_seconds / phase.goal.final_seconds).ceil() as u32 + 1;
        self.phases.iter().map(|phase| rungs * trials(phase)).sum()
    }
}

impl Search for Mlr {
    fn next(&self) -> Option<Ask> {
        self.plan()
    }

    fn take(&mut self, outcome: Outcome) {
        let Some(ask) = self.plan() else { return };
        let first = self.trials == 0;
        self.trials += 1;
        // Loads are rungs: the nearest one to what was asked is the one.
        let rung = if first { self.ladder.top } else { self.ladder.below(ask.rate * (1.0 + 1e-9)) };
        let loss = if outcome.loss.is_nan() { 1.0 } else { outcome.loss.clamp(0.0, 1.0) };
        // A trial that counts for nothing would be asked for for ever.
        let sound = outcome.seconds.is_finite() && outcome.seconds > 0.01 * ask.seconds;
        let effective = if sound { outcome.seconds } else { ask.seconds };
        let trial = Tried { seconds: ask.seconds, effective, loss };
        match self.tried.binary_search_by_key(&rung, |(rung, _)| *rung) {
            Ok(n) => self.tried[n].1.push(trial),
            Err(n) => self.tried.insert(n, (rung, vec![trial])),
        }
        if first {
            self.guess = Some(self.ladder.below(ask.rate * (1.0 - loss)));
        }
        self.advance();
    }

    fn seconds_left(&self) -> f64 {
        if self.plan().is_none() {
            return 0.0;
        }
        let mut left = 0.0;
        for seek in &self.goals {
            for (n, Phase { goal, width }) in seek.phases.iter().enumerate().skip(seek.current) {
                let halvings = if n > seek.current {
                    2.0
                } else {
                    match self.bounds(goal) {
                        (Some(lower), Some(upper)) => (((upper - lower) / width).max(1) as f64).log2().ceil(),
                        _ => 3.0,
                    }
                };
                left += halvings * (goal.sum_seconds * (1.0 - goal.exceed)).max(goal.final_seconds);
            }
        }
        left
    }

    fn found(&self) -> Vec<Bounds> {
        let done = self.plan().is_none();
        let report = |seek: &Seek| {
            let (lower, upper) = self.bounds(&seek.goal);
            let width = seek.phases.last().map_or(1, |phase| phase.width);
            let near = matches!((lower, upper), (Some(lower), Some(upper)) if upper - lower <= width);
            let conditional = |rung| seek.goal.conditional(self.ladder.load(rung), self.at(rung));
            Bounds {
                loss: seek.goal.loss,
                lower: lower.map(|rung| self.ladder.load(rung)),
                upper: upper.map(|rung| self.ladder.load(rung)),
                conditional: lower.map(conditional),
                regular: done && near,
            }
        };
        self.goals.iter().map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Plays a search against a device whose loss at a load is this.
    fn play(search: &mut Mlr, mut loss: impl FnMut(Ask) -> f64) -> u32 {
        while let Some(ask) = search.next() {
            assert!(ask.rate > 0.0 && ask.rate <= search.ladder.loads.max && ask.seconds > 0.0);
            assert!(search.seconds_left() >= 0.0);
            let seconds = ask.seconds;
            search.take(Outcome { loss: loss(ask), seconds });
        }
        assert!(search.trials() <= search.limit());
        search.trials()
    }

    fn goals() -> [Goal; 2] {
        [Goal::short(0.005, 1.0), Goal::short(0.0, 1.0)]
    }

    proptest! {
        /// A device with a capacity: what is beyond it is lost.
        #[test]
        fn finds_a_sharp_limit_within_its_width(max in 1e3..1e9f64, part in 0.0005..1.3f64) {
            let capacity = max * part;
            let mut search = Mlr::new(&goals(), Loads { min: max * 1e-4, max }).unwrap();
            let trials = play(&mut search, |ask| (1.0 - capacity / ask.rate).max(0.0));
            let found = search.found();
            prop_assert_eq!((found[0].loss, found[1].loss), (0.0, 0.005));
            for bounds in &found {
                let truth = capacity / (1.0 - bounds.loss);
                if truth >= max {
                    prop_assert_eq!((bounds.lower, bounds.upper, bounds.regular), (Some(max), None, false));
                    continue;
                }
                let (lower, upper) = (bounds.lower.unwrap(), bounds.upper.unwrap());
                prop_assert!(bounds.regular && lower <= truth * (1.0 + 1e-9) && truth <= upper * (1.0 + 1e-9));
                prop_assert!((upper - lower) / upper <= 0.005 * (1.0 + 1e-6), "{lower} {upper}");
                let conditional = bounds.conditional.unwrap();
                prop_assert!(conditional <= capacity.min(lower) * (1.0 + 1e-9) && conditional >= lower * 0.9949);
            }
            // Four bounds of eleven trials each, and the way there.
            prop_assert!(trials <= 44 + 40, "{trials} trials");
        }

        /// A device that sometimes does worse, and loses a little everywhere above a knee.
        #[test]
        fn noise_does_not_lead_it_astray(part in 0.05..0.9f64, seed: u64, noisy in 0.0..0.2f64) {
            let max = 14_880_952.0;
            let capacity = max * part;
            let mut dice = chance::Random(seed);
            let mut search = Mlr::new(&goals(), Loads { min: max * 1e-4, max }).unwrap();
            play(&mut search, |ask| {
                let capacity = if dice.unit() < noisy { capacity * 0.8 } else { capacity };
                (1.0 - capacity / ask.rate).max(0.0)
            });
            for bounds in search.found() {
                let truth = capacity / (1.0 - bounds.loss);
                let lower = bounds.lower.unwrap();
                prop_assert!(bounds.regular);
                // Half of the trials may be bad: a fifth of bad ones seldom moves a bound of
                // eleven, and never upwards.
                prop_assert!(lower <= truth * (1.0 + 1e-9), "{lower} above {truth}");
                prop_assert!(lower >= truth * 0.79, "{lower} far below {truth}");
            }
        }

        /// Whatever a device answers, the search ends, and does not panic.
        #[test]
        fn nonsense_ends(seed: u64, max in prop_oneof![Just(0.0), Just(f64::NAN), Just(-1.0), 1e-9..1e12f64], kind in 0..4) {
            let mut dice = chance::Random(seed);
            let mut search = Mlr::new(&goals(), Loads { min: max * dice.unit(), max }).unwrap();
            play(&mut search, |_| match kind {
                0 => dice.unit(),
                1 => [0.0, 1.0, f64::NAN, -3.0, 7.0][(dice.unit() * 5.0) as usize],
                2 => dice.unit().round(),
                _ => 1.0,
            });
            prop_assert_eq!(search.found().len(), 2);
            prop_assert_eq!(search.seconds_left(), 0.0);
        }

        /// Told the same, it asks the same.
        #[test]
        fn it_can_be_taken_up(part in 0.01..1.1f64, initial in 0.1..1.0f64) {
            let goals = goals().map(|goal| Goal { initial_seconds: initial, ..goal });
            let loads = Loads { min: 1.0, max: 1e6 };
            let loss = |ask: Ask| (1.0 - 1e6 * part / ask.rate).max(0.0);
            let mut first = Vec::new();
            let mut search = Mlr::new(&goals, loads).unwrap();
            play(&mut search, |ask| { first.push(ask); loss(ask) });
            let mut again = first.iter();
            let mut search = Mlr::new(&goals, loads).unwrap();
            play(&mut search, |ask| { assert_eq!(again.next(), Some(&ask)); loss(ask) });
            prop_assert!(again.next().is_none());
        }
    }

    #[test]
    fn a_livelocked_device_is_found_below_its_collapse() {
        let max = 1e7;
        let mut search = Mlr::new(&goals(), Loads { min: 1e3, max }).unwrap();
        play(&mut search, |ask| if ask.rate <= 3e6 { 0.0 } else { 1.0 });
        let found = search.found();
        assert!(found.iter().all(|bounds| bounds.regular && (2.98e6..=3e6).contains(&bounds.lower.unwrap())));
    }

    #[test]
    fn goals_that_cannot_be_are_refused() {
        let wrong = Goal { exceed: 1.0, ..Goal::short(0.0, 1.0) };
        assert!(Mlr::new(&[wrong], Loads { min: 1.0, max: 2.0 }).is_err());
        assert_eq!(Mlr::new(&[], Loads { min: 1.0, max: 2.0 }).unwrap().next(), None);
    }
}
