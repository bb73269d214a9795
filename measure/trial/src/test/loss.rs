//! Frame loss (RFC 2544 section 26.3): from the full load down in steps of a tenth, until two
//! trials lose nothing.

use super::Estimate;
use crate::report::{LossCurve, LossPoint};
use crate::run::{Run, RunError};
use crate::search::Ask;
use crate::{Frames, Pattern, Plan};

pub(super) fn estimate(plan: &Plan) -> Estimate {
    Estimate::of(8.0, plan.times.loss)
}

pub(super) fn make(run: &mut Run<'_>, frames: &Frames) -> Result<LossCurve, RunError> {
    let seconds = run.plan.times.loss;
    let full = run.description.max_rate(frames);
    let mut points: Vec<LossPoint> = Vec::new();
    for tenths in (1..=10).rev() {
        let rate = full * f64::from(tenths) / 10.0;
        let offered = run.offered(frames, Ask { rate, seconds }, Pattern::Constant);
        let measured = run.trial(&offered, Estimate::of(f64::from(tenths).min(8.0), seconds))?;
        points.push(LossPoint {
            rate,
            loss: measured.loss(&offered),
            forwarded: measured.forwarded(&offered),
        });
        if points.iter().rev().take_while(|point| point.loss == 0.0).count() == 2 {
            break;
        }
    }
    let at_full = points.first().map_or(0.0, |point| point.loss);
    run.found(&format!("{:.2} % at the full load", at_full * 100.0));
    Ok(LossCurve { frames: frames.clone(), line_rate: frames.line_rate(run.description.line_bits), points })
}
