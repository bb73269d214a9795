//! Experiments: the tables that software routers were once measured by, measured again on this
//! machine.
//!
//! The people who ran a university on open-source routers trusted them because they measured them,
//! and published what they found. Each experiment here asks one of their questions again: it builds
//! what it needs, in memory or in network namespaces of its own, measures for a minute or so, and
//! puts today's figures beside those of the paper or talk that it comes from. The old ones were
//! taken on other machines with real network cards, so they are no mark to be hit; what can be
//! compared is the shape: what a full table costs, what happens beyond the limit, whether control
//! lives.
//!
//! ```text
//! Experiment --run--> Outcome (tables, charts, notes) --> text | JSON | a section of report::page
//! ```
//!
//! | what | where |
//! |---|---|
//! | the list, and how one is run | [`EXPERIMENTS`], [`Experiment::run`] |
//! | what comes out | [`outcome`] |
//! | one page of all | [`report`] |
//! | the standard router between two ports in memory | `memory.rs` |
//! | the router in namespaces, Bifrost or Linux | `network.rs`, with `load.rs` and `transactions.rs` |
//!
//! Every figure is a median of several samples of the run at hand. What a machine cannot show (more
//! cores, real network cards) is said in the outcome's notes and not made up.

mod click_router;
mod error;
mod factors;
mod fairness;
mod flow_mix;
mod frames;
mod livelock;
mod load;
mod lookup;
mod machine;
mod measure;
mod memory;
mod network;
pub mod outcome;
mod packet_budget;
mod power;
pub mod report;
mod route_flood;
mod ruleset;
mod separation;
mod static_vs_routing;
mod throughput;
mod transactions;
mod transmit_limit;

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::Instant;

pub use error::ExperimentError;
pub use machine::Machine;
pub use outcome::Outcome;

/// A question, and how it is answered.
pub struct Experiment {
    /// As it is called on the command line.
    pub name: &'static str,
    /// What is asked.
    pub question: &'static str,
    /// Whose table it is: title and year.
    pub source: &'static str,
    /// Whether it makes namespaces, so that only root can run it.
    pub needs_root: bool,
    work: fn(&Run<'_>, &mut Outcome) -> Result<(), ExperimentError>,
}

/// How it is run.
pub struct Run<'a> {
    /// In seconds, with small tables and few samples: shows that it works, and not much more.
    pub short: bool,
    /// Told what is being done, a line each time.
    pub tell: &'a (dyn Fn(&str) + Sync),
    /// The program that is Bifrost; where it is not named, the one called `bifrost` beside this
    /// one.
    pub program: Option<&'a Path>,
}

impl Run<'_> {
    fn say(&self, line: &str) {
        (self.tell)(line);
    }

    /// One thing for a whole run, another one for a short run.
    fn either<T>(&self, whole: T, short: T) -> T {
        if self.short { short } else { whole }
    }
}

/// All experiments, in the order of the report.
pub const EXPERIMENTS: &[Experiment] = &[
    packet_budget::EXPERIMENT,
    flow_mix::EXPERIMENT,
    separation::EXPERIMENT,
    separation::INLINE,
    livelock::EXPERIMENT,
    fairness::EXPERIMENT,
    transmit_limit::EXPERIMENT,
    static_vs_routing::EXPERIMENT,
    factors::EXPERIMENT,
    lookup::EXPERIMENT,
    route_flood::EXPERIMENT,
    click_router::EXPERIMENT,
    throughput::ZERO_LOSS,
    throughput::LOSS_RATE,
    power::EXPERIMENT,
];

/// The experiment of this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}

impl Experiment {
    /// Runs it. What was measured before something failed is in the outcome, beside the reason.
    pub fn run(&self, run: &Run<'_>) -> Outcome {
        let mut outcome = Outcome::new(self, run.short);
        let begin = Instant::now();
        if let Some(program) = run.program {
            lab::use_program(program.to_owned());
        }
        // On a thread of its own, because it moves between namespaces and cores, and has packet
        // memory.
        let ended = std::thread::scope(|scope| {
            let work = AssertUnwindSafe(|| {
                measure::before_others()?;
                (self.work)(run, &mut outcome)
            });
            scope.spawn(work).join()
        });
        outcome.failed = match ended {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("it panicked, which is a mistake in Bifrost".to_owned()),
        };
        outcome.seconds = begin.elapsed().as_secs_f64();
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_and_found() {
        for experiment in EXPERIMENTS {
            assert_eq!(find(experiment.name).map(|found| found.question), Some(experiment.question));
        }
        assert_eq!(EXPERIMENTS.len(), 15);
        assert!(find("no-such").is_none());
    }
}
