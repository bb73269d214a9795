//! What a run measures, and how long each trial takes.

use serde::{Deserialize, Serialize};

use crate::search::{Goal, GoalError};
use crate::{Direction, Family, Frames, Modifiers};

/// A test of RFC 2544 section 26.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// 26.1: the highest load of which nothing is lost.
    Throughput,
    /// 26.2: how long a frame is on its way.
    Latency,
    /// 26.3: how much is lost at which load.
    Loss,
    /// 26.4, RFC 9004: the longest burst that passes whole.
    BackToBack,
    /// 26.5: how long loss goes on after an overload.
    Recovery,
    /// 26.6, RFC 6201: how long a reset takes.
    Reset,
}

impl Test {
    /// All, in the order in which they are made: later ones stand on the throughput.
    pub const ALL: [Test; 6] =
        [Test::Throughput, Test::Latency, Test::Loss, Test::BackToBack, Test::Recovery, Test::Reset];

    /// Its name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Test::Throughput => "throughput",
            Test::Latency => "latency",
            Test::Loss => "loss",
            Test::BackToBack => "back-to-back",
            Test::Recovery => "recovery",
            Test::Reset => "reset",
        }
    }
}

impl std::fmt::Display for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Test {
    type Err = String;

    fn from_str(text: &str) -> Result<Test, String> {
        let names = || Test::ALL.map(Test::name).join(", ");
        Test::ALL
            .into_iter()
            .find(|test| test.name() == text)
            .ok_or_else(|| format!("`{text}` is no test; there are {}", names()))
    }
}

/// How the throughput is sought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Halving, with long trials (RFC 2544).
    Rfc {
        /// Seconds of a trial (section 24: at least 60).
        seconds: f64,
        /// How near the bounds come: (upper - lower) / upper.
        width: f64,
    },
    /// Many short trials (RFC 9971).
    Mlr {
        /// What is sought; one with no loss among them, on which the other tests stand.
        goals: Vec<Goal>,
    },
}

/// How long everything takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// Seconds between two trials, in which the device comes to rest (RFC 2544 section 23: 5).
    pub rest: f64,
    /// Seconds of a trial for latency (26.2: 120).
    pub latency: f64,
    /// Trials for latency (26.2: 20).
    pub latency_repetitions: u32,
    /// Loads for latency, as parts of the throughput (26.2: all of it).
    pub latency_loads: Vec<f64>,
    /// Seconds of a trial for loss (60).
    pub loss: f64,
    /// The longest burst, in seconds at the line's rate (26.4: at least 2).
    pub burst: f64,
    /// Repetitions of the search for the longest burst (26.4: 50).
    pub burst_repetitions: u32,
    /// Seconds of overload before the step, and again after it (26.5: 60).
    pub recovery: f64,
    /// Repetitions of recovery.
    pub recovery_repetitions: u32,
    /// Seconds of a trial in which the device is reset: long enough for it to come back.
    pub reset: f64,
}

/// What a run measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Which tests.
    pub tests: Vec<Test>,
    /// Which sizes.
    pub frames: Vec<Frames>,
    /// Internet protocol.
    pub family: Family,
    /// Which ports send.
    pub direction: Direction,
    /// What else happens.
    pub modifiers: Modifiers,
    /// How the throughput is sought.
    pub method: Method,
    /// How long everything takes.
    pub times: Times,
}

/// A plan that makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// No test.
    #[error("the plan has no test")]
    NoTest,
    /// No size.
    #[error("the plan has no frame size")]
    NoFrames,
    /// A goal.
    #[error(transparent)]
    Goal(#[from] GoalError),
    /// MLRsearch without the goal that RFC 2544's other tests need.
    #[error("one search goal has no loss (0 %): latency, bursts and recovery are measured at it")]
    NoZeroLoss,
    /// A number.
    #[error("{what} is {value}; expected {expected}")]
    Range {
        /// What.
        what: &'static str,
        /// The number.
        value: f64,
        /// What it could be.
        expected: &'static str,
    },
}

impl Plan {
    /// All that RFC 2544 asks for, in its durations: days, with all sizes.
    pub fn rfc(seconds: f64) -> Plan {
        let times = Times {
            rest: 5.0,
            latency: 2.0 * seconds,
            latency_repetitions: 20,
            latency_loads: vec![1.0],
            loss: seconds,
            burst: 2.0,
            burst_repetitions: 50,
            recovery: seconds,
            recovery_repetitions: 5,
            reset: 2.0 * seconds,
        };
        Plan { method: Method::Rfc { seconds, width: 0.005 }, times, ..Plan::short(1.0) }
    }

    /// The same tests in minutes: MLRsearch for 0 % and 0.5 % of loss, with trials of `seconds`.
    pub fn short(seconds: f64) -> Plan {
        Plan {
            tests: Test::ALL.into_iter().filter(|test| *test != Test::Reset).collect(),
            frames: Frames::standard().into_iter().chain([Frames::imix()]).collect(),
            family: Family::V4,
            direction: Direction::OneWay,
            modifiers: Modifiers::default(),
            method: Method::Mlr { goals: vec![Goal::short(0.0, seconds), Goal::short(0.005, seconds)] },
            times: Times {
                rest: 0.0,
                latency: 3.0 * seconds,
                latency_repetitions: 3,
                latency_loads: vec![1.0, 0.9, 0.5, 0.1],
                loss: seconds,
                burst: 0.5 * seconds,
                burst_repetitions: 5,
                recovery: 2.0 * seconds,
                recovery_repetitions: 3,
                reset: 30.0 * seconds,
            },
        }
    }

    /// Whether everything makes sense.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.tests.is_empty() {
            return Err(PlanError::NoTest);
        }
        if self.frames.is_empty() {
            return Err(PlanError::NoFrames);
        }
        let range = |what, value: f64, low: f64, high: f64, expected| {
            let fits = value >= low && value <= high;
            if fits { Ok(()) } else { Err(PlanError::Range { what, value, expected }) }
        };
        let seconds = |what, value| range(what, value, 0.001, 86_400.0, "0.001 to 86400 seconds");
        match &self.method {
            Method::Rfc { seconds: trial, width } => {
                seconds("the throughput's trial", *trial)?;
                range("the throughput's width", *width, 1e-5, 0.5, "0.00001 to 0.5")?;
            }
            Method::Mlr { goals } => {
                for goal in goals {
                    goal.check()?;
                }
                if !goals.iter().any(|goal| goal.loss == 0.0) {
                    return Err(PlanError::NoZeroLoss);
                }
            }
        }
        let times = &self.times;
        range("the rest between trials", times.rest, 0.0, 3600.0, "0 to 3600 seconds")?;
        for (what, value) in [
            ("the latency's trial", times.latency),
            ("the loss's trial", times.loss),
            ("the longest burst", times.burst),
            ("the recovery's overload", times.recovery),
            ("the reset's trial", times.reset),
        ] {
            seconds(what, value)?;
        }
        for load in &times.latency_loads {
            range("a load for latency", *load, 1e-4, 1.0, "0.0001 to 1")?;
        }
        for (what, count) in [
            ("the number of trials for latency", times.latency_repetitions),
            ("the number of repetitions of bursts", times.burst_repetitions),
            ("the number of repetitions of recovery", times.recovery_repetitions),
        ] {
            range(what, f64::from(count), 1.0, 10_000.0, "1 to 10000")?;
        }
        Ok(())
    }

    /// Whether a test is wanted.
    pub fn wants(&self, test: Test) -> bool {
        self.tests.contains(&test)
    }

    /// Whether the throughput must be known: most tests stand on it.
    pub fn needs_throughput(&self) -> bool {
        self.tests.iter().any(|test| *test != Test::Loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plans_that_are_given_make_sense() {
        for plan in [Plan::rfc(60.0), Plan::short(1.0), Plan::short(0.05)] {
            assert_eq!(plan.check(), Ok(()));
            let json = serde_json::to_string(&plan).unwrap();
            assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
        }
    }

    #[test]
    fn those_that_make_none_are_refused() {
        let plan = Plan::short(1.0);
        let times = plan.times.clone();
        assert_eq!(Plan { tests: vec![], ..plan.clone() }.check(), Err(PlanError::NoTest));
        assert_eq!(Plan { frames: vec![], ..plan.clone() }.check(), Err(PlanError::NoFrames));
        let method = Method::Mlr { goals: vec![Goal::short(0.005, 1.0)] };
        assert_eq!(Plan { method, ..plan.clone() }.check(), Err(PlanError::NoZeroLoss));
        let wrong = Plan { times: crate::Times { latency: f64::NAN, ..times }, ..plan };
        assert!(wrong.check().unwrap_err().to_string().contains("latency's trial"));
        assert!("thruput".parse::<Test>().unwrap_err().contains("back-to-back"));
    }
}
