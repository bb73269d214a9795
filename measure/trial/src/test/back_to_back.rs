//! Back-to-back frames (RFC 2544 section 26.4 as RFC 9004 has it): the longest burst that passes
//! whole, and the buffer that it tells of.

use super::{Estimate, rate};
use crate::report::BackToBack;
use crate::run::{Run, RunError};
use crate::search::{Ask, Burst};
use crate::{Description, Frames, Pattern, Plan, Test};

/// The longest burst is found to a hundredth of itself.
const PRECISION: f64 = 0.01;
/// A burst may take so much longer than on the line, as a part of it, and so many seconds, for a
/// system's scheduler is no metronome.
const SLOWER: f64 = 0.02;
/// See [`SLOWER`].
const LATE: f64 = 50e-6;
/// A burst that took longer is sent again, so often: the tester may have been held up.
const TRIES: u32 = 10;

fn search(plan: &Plan, frames: &Frames, device: &Description) -> Burst {
    let longest = (device.max_rate(frames) * plan.times.burst) as u64;
    Burst::new(longest, plan.times.burst_repetitions, PRECISION)
}

pub(super) fn estimate(plan: &Plan, frames: &Frames, device: &Description) -> Estimate {
    // Most bursts of the search are much shorter than the longest.
    Estimate::of(search(plan, frames, device).bursts_left(), plan.times.burst / 8.0)
}

pub(super) fn make(
    run: &mut Run<'_>,
    frames: &Frames,
    throughput: f64,
) -> Result<Option<BackToBack>, RunError> {
    let line_rate = run.description.max_rate(frames);
    if throughput >= line_rate {
        let text =
            "not measured: it carries the full load, so no burst fills its buffers (RFC 9004 section 5.1)";
        run.note(Some(Test::BackToBack), Some(frames), text.to_owned());
        return Ok(None);
    }
    let mut search = search(run.plan, frames, &run.description);
    let mut slow = 0;
    while let Some(length) = search.next() {
        let seconds = length as f64 / line_rate;
        let offered =
            run.offered(frames, Ask { rate: line_rate, seconds }, Pattern::Burst { frames: length });
        let measured = run.trial(&offered, Estimate::of(search.bursts_left(), seconds))?;
        let whole = measured.loss(&offered) == 0.0;
        // What passes at less than the line's rate says nothing of buffers; what is lost even so
        // does.
        if whole && measured.seconds > seconds * (1.0 + SLOWER) + LATE {
            slow += 1;
            if slow < TRIES {
                continue;
            }
            let text = format!(
                "not measured: the tester sends a burst of {length} frames at {}, and the line carries {}",
                rate(length as f64 / measured.seconds),
                rate(line_rate)
            );
            run.note(Some(Test::BackToBack), Some(frames), text);
            return Ok(None);
        }
        slow = 0;
        search.take(whole);
    }
    let Some(longest) = search.longest() else { return Ok(None) };
    if longest.all_passed {
        let text = "the longest burst that was sent passed: the buffers may be larger";
        run.note(Some(Test::BackToBack), Some(frames), text.to_owned());
    }
    let implied = longest.mean / line_rate;
    let corrected = implied * (1.0 - throughput / line_rate);
    run.found(&format!("{:.0} frames, buffers of {:.1} µs", longest.mean, corrected * 1e6));
    Ok(Some(BackToBack { frames: frames.clone(), line_rate, longest, implied, corrected }))
}
