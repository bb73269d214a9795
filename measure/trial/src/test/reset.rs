//! Reset (RFC 2544 section 26.6, RFC 6201): the device is reset under load; how long until it
//! forwards again?

use super::Estimate;
use crate::report::Reset;
use crate::run::{Run, RunError};
use crate::search::Ask;
use crate::{Frames, Pattern, Test};

/// When the device is reset, as a part of the trial.
const WHEN: f64 = 0.1;

pub(super) fn make(run: &mut Run<'_>, frames: &Frames, throughput: f64) -> Result<Reset, RunError> {
    let seconds = run.plan.times.reset;
    let pattern = Pattern::Reset { after: seconds * WHEN };
    let offered = run.offered(frames, Ask { rate: throughput, seconds }, pattern);
    let measured = run.trial(&offered, Estimate::of(1.0, seconds))?;
    let lost = (measured.loss(&offered) * offered.intended()) as u64;
    let by_loss = lost as f64 / (throughput * f64::from(offered.senders()));
    if by_loss >= seconds * (1.0 - WHEN) * 0.99 {
        let text = "it did not forward again before the trial ended";
        run.note(Some(Test::Reset), Some(frames), text.to_owned());
    }
    run.found(&format!("{by_loss:.3} s"));
    Ok(Reset { frames: frames.clone(), rate: throughput, lost, by_loss, by_gap: measured.gap })
}
