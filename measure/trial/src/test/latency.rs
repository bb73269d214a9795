//! Latency (RFC 2544 section 26.2): at the throughput, and at smaller loads where that is wished.
//!
//! The RFC tags one frame a trial, since testers of its day could do no more, and averages twenty
//! trials. Here every frame that carries a stamp counts; the averages are taken figure by figure.

use super::Estimate;
use crate::report::LatencyAt;
use crate::run::{Run, RunError};
use crate::search::Ask;
use crate::{DeviceError, Frames, Latency, Pattern, Plan, Test};

pub(super) fn estimate(plan: &Plan) -> Estimate {
    let loads = plan.times.latency_loads.len() as f64;
    Estimate::of(loads * f64::from(plan.times.latency_repetitions), plan.times.latency)
}

pub(super) fn make(
    run: &mut Run<'_>,
    frames: &Frames,
    throughput: f64,
    rows: &mut Vec<LatencyAt>,
) -> Result<(), RunError> {
    let (seconds, repetitions) = (run.plan.times.latency, run.plan.times.latency_repetitions);
    let loads = run.plan.times.latency_loads.clone();
    let mut left = loads.len() as f64 * f64::from(repetitions);
    let mut said = Vec::new();
    for load in loads {
        let rate = throughput * load;
        let (mut latencies, mut loss) = (Vec::new(), 0.0);
        for _ in 0..repetitions {
            let offered = run.offered(frames, Ask { rate, seconds }, Pattern::Constant);
            let measured = run.trial(&offered, Estimate::of(left, seconds))?;
            left -= 1.0;
            loss += measured.loss(&offered) / f64::from(repetitions);
            latencies.extend(measured.latency);
        }
        let Some(latency) = Latency::average(&latencies) else {
            let why = DeviceError::Unsupported("the tester did not time any frame".to_owned());
            return Err(RunError::Device { frames: frames.clone(), rate, error: why });
        };
        if loss > 0.0 {
            let text = format!(
                "at {:.0} % of the throughput {:.2} % of the frames were lost (these trials are longer than those that found it)",
                load * 100.0,
                loss * 100.0
            );
            run.note(Some(Test::Latency), Some(frames), text);
        }
        said.push(format!("{:.1} µs at {:.0} %", latency.mean / 1e3, load * 100.0));
        rows.push(LatencyAt { frames: frames.clone(), load, rate, loss, latency, repetitions });
    }
    run.found(&said.join(", "));
    Ok(())
}
