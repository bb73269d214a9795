//! System recovery (RFC 2544 section 26.5): overload at 110 % of the throughput, then half of that;
//! how long is anything still lost?

use super::Estimate;
use crate::report::Recovery;
use crate::run::{Run, RunError};
use crate::search::Ask;
use crate::{DeviceError, Frames, Pattern, Plan, Test};

pub(super) fn estimate(plan: &Plan) -> Estimate {
    Estimate::of(f64::from(plan.times.recovery_repetitions), 2.0 * plan.times.recovery)
}

pub(super) fn make(
    run: &mut Run<'_>,
    frames: &Frames,
    throughput: f64,
) -> Result<Option<Recovery>, RunError> {
    let line_rate = run.description.max_rate(frames);
    if throughput >= line_rate {
        let text = "not measured: it carries the full load, so it cannot be overloaded";
        run.note(Some(Test::Recovery), Some(frames), text.to_owned());
        return Ok(None);
    }
    let (after, repetitions) = (run.plan.times.recovery, run.plan.times.recovery_repetitions);
    let overload = (1.1 * throughput).min(line_rate);
    let (reduced, seconds) = (overload / 2.0, 2.0 * after);
    let (mut times, mut loss) = (Vec::new(), 0.0);
    for n in 0..repetitions {
        let pattern = Pattern::Step { after, rate: reduced };
        let offered = run.offered(frames, Ask { rate: overload, seconds }, pattern);
        let measured = run.trial(&offered, Estimate::of(f64::from(repetitions - n), seconds))?;
        loss += measured.loss(&offered) / f64::from(repetitions);
        let Some(last) = measured.last_loss else {
            let why = DeviceError::Unsupported("the tester does not know when frames were lost".to_owned());
            return Err(RunError::Device { frames: frames.clone(), rate: overload, error: why });
        };
        times.push(last);
    }
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    let min = times.iter().copied().fold(f64::INFINITY, f64::min);
    let max = times.iter().copied().fold(0.0, f64::max);
    run.found(&format!("{:.3} ms", mean * 1e3));
    Ok(Some(Recovery { frames: frames.clone(), overload, reduced, loss, mean, min, max, repetitions }))
}
