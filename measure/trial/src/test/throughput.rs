//! Throughput (RFC 2544 section 26.1): the highest load of which nothing is lost; with MLRsearch
//! other ratios as well.

use super::{Estimate, rate};
use crate::report::Throughput;
use crate::run::{Run, RunError};
use crate::search::{Binary, Loads, Mlr, Outcome, Search};
use crate::{Description, Frames, Method, Pattern, Plan, PlanError};

/// The smallest load of a search, as a part of the largest, where a trial still has frames enough.
const LEAST: f64 = 1e-4;
/// Frames that the shortest trial has at least.
const ENOUGH: f64 = 10.0;

fn search(plan: &Plan, frames: &Frames, device: &Description) -> Result<Box<dyn Search>, PlanError> {
    let max = device.max_rate(frames);
    Ok(match &plan.method {
        Method::Rfc { seconds, width } => Box::new(Binary::new(max, *seconds, *width)),
        Method::Mlr { goals } => {
            let shortest = goals.iter().map(|goal| goal.initial_seconds).fold(f64::INFINITY, f64::min);
            Box::new(Mlr::new(goals, Loads { min: (max * LEAST).max(ENOUGH / shortest), max })?)
        }
    })
}

pub(super) fn estimate(plan: &Plan, frames: &Frames, device: &Description) -> Estimate {
    search(plan, frames, device).map_or(Estimate::default(), |search| ahead(&*search))
}

fn ahead(search: &dyn Search) -> Estimate {
    let Some(next) = search.next() else { return Estimate::default() };
    let seconds = search.seconds_left().max(next.seconds);
    Estimate { seconds, trials: seconds / next.seconds }
}

pub(super) fn make(run: &mut Run<'_>, frames: &Frames) -> Result<Throughput, RunError> {
    let mut search = search(run.plan, frames, &run.description)?;
    let before = run.trials;
    let mut short = Vec::new();
    while let Some(ask) = search.next() {
        let offered = run.offered(frames, ask, Pattern::Constant);
        let measured = run.trial(&offered, ahead(&*search))?;
        if measured.is_short(&offered) {
            short.push(ask.rate);
        }
        search.take(Outcome { loss: measured.loss(&offered), seconds: ask.seconds });
    }
    let line_rate = frames.line_rate(run.description.line_bits);
    let found =
        Throughput { frames: frames.clone(), line_rate, goals: search.found(), trials: run.trials - before };
    for goal in &found.goals {
        let percent = goal.loss * 100.0;
        if let Some(upper) = goal.upper.filter(|upper| short.contains(upper)) {
            let text = format!(
                "the tester could not send {}: at {percent} % loss the device may carry more",
                rate(upper)
            );
            run.note(Some(crate::Test::Throughput), Some(frames), text);
        }
        if goal.lower.is_some() && goal.upper.is_none() {
            let text = format!(
                "at {percent} % loss it carries all that it was offered: the true figure may be higher"
            );
            run.note(Some(crate::Test::Throughput), Some(frames), text);
        } else if !goal.regular {
            let text = format!(
                "the bounds for {percent} % loss are not as near as was wished: results vary too much, or no load passes"
            );
            run.note(Some(crate::Test::Throughput), Some(frames), text);
        }
    }
    let line = match found.rate() {
        Some(found) => format!("{} ({:.1} % of the line)", rate(found), 100.0 * found / line_rate),
        None => "no load passes without loss".to_owned(),
    };
    run.found(&line);
    Ok(found)
}
