//! The tests of RFC 2544 section 26, one a file: what each asks a device for, and what it makes of
//! the answers.

mod back_to_back;
mod latency;
mod loss;
mod recovery;
mod reset;
mod throughput;

use crate::report::Report;
use crate::run::{Run, RunError};
use crate::{Description, Frames, Test};

/// Trials that are probably still to come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    /// Seconds of sending.
    pub(crate) seconds: f64,
    /// Trials.
    pub(crate) trials: f64,
}

impl Estimate {
    fn of(trials: f64, seconds: f64) -> Estimate {
        Estimate { seconds: trials * seconds, trials }
    }
}

impl std::ops::Add for Estimate {
    type Output = Estimate;

    fn add(self, other: Estimate) -> Estimate {
        Estimate { seconds: self.seconds + other.seconds, trials: self.trials + other.trials }
    }
}

/// What a test at a size will probably take.
pub(crate) fn estimate(plan: &crate::Plan, test: Test, frames: &Frames, device: &Description) -> Estimate {
    match test {
        Test::Throughput => throughput::estimate(plan, frames, device),
        Test::Latency => latency::estimate(plan),
        Test::Loss => loss::estimate(plan),
        Test::BackToBack => back_to_back::estimate(plan, frames, device),
        Test::Recovery => recovery::estimate(plan),
        Test::Reset => Estimate::of(1.0, plan.times.reset),
    }
}

/// Makes a test at a size, and adds what it found to the report.
pub(crate) fn make(
    run: &mut Run<'_>,
    test: Test,
    frames: &Frames,
    report: &mut Report,
) -> Result<(), RunError> {
    if test == Test::Throughput {
        report.throughput.push(throughput::make(run, frames)?);
        return Ok(());
    }
    if test == Test::Loss {
        report.loss.push(loss::make(run, frames)?);
        return Ok(());
    }
    let known = report.throughput.iter().find(|row| row.frames == *frames).and_then(|row| row.rate());
    let Some(rate) = known else {
        run.note(Some(test), Some(frames), "not measured: no load passes without loss".to_owned());
        return Ok(());
    };
    match test {
        Test::Latency => latency::make(run, frames, rate, &mut report.latency)?,
        Test::BackToBack => report.back_to_back.extend(back_to_back::make(run, frames, rate)?),
        Test::Recovery => report.recovery.extend(recovery::make(run, frames, rate)?),
        Test::Reset => report.reset.push(reset::make(run, frames, rate)?),
        Test::Throughput | Test::Loss => {}
    }
    Ok(())
}

/// A rate for people.
fn rate(frames: f64) -> String {
    match frames {
        1e6.. => format!("{:.3} M frames/s", frames / 1e6),
        1e3.. => format!("{:.3} k frames/s", frames / 1e3),
        _ => format!("{frames:.1} frames/s"),
    }
}
