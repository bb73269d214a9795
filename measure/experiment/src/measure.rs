//! Medians, cores and cycles.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::ExperimentError;

/// The middle one of the samples, the mean of both middle ones of an even number; NaN of none.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[half],
        _ => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

/// The value that a part (0 to 1) of the samples does not exceed; NaN of none.
pub fn quantile(samples: &[f64], part: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(f64::NAN)
}

/// Cycles of the time stamp counter in a second; nanoseconds where there is none.
pub fn cycles_per_second() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let (begin, cycles) = (Instant::now(), graph::cycles());
        std::thread::sleep(Duration::from_millis(50));
        (graph::cycles() - cycles) as f64 / begin.elapsed().as_secs_f64()
    })
}

/// Cycles that something takes.
pub fn cycles(work: impl FnOnce()) -> f64 {
    let begin = graph::cycles();
    work();
    (graph::cycles() - begin) as f64
}

/// Cores that this process may run on, as it was started.
pub fn cores() -> &'static [usize] {
    static CORES: OnceLock<Vec<usize>> = OnceLock::new();
    CORES.get_or_init(|| match sched_getaffinity(Pid::from_raw(0)) {
        Ok(set) => (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).collect(),
        Err(_) => vec![0],
    })
}

/// Keeps a thread (0: the calling one) on one core.
pub fn pin(thread: i32, core: usize) -> Result<(), ExperimentError> {
    let mut set = CpuSet::new();
    let pinned = set.set(core).and_then(|()| sched_setaffinity(Pid::from_raw(thread), &set));
    pinned.map_err(|error| ExperimentError::io(format!("core {core}"))(error.into()))
}

/// Puts the calling thread, and all that it starts from now on, before whatever else the machine
/// does; only root can.
pub fn before_others() -> Result<(), ExperimentError> {
    let thread = nix::unistd::gettid().to_string();
    let output = std::process::Command::new("renice").args(["-n", "-20", "-p", &thread]).output();
    output.map(drop).map_err(ExperimentError::io("renice"))
}

/// Does something on a thread of its own on the last core, where the least else runs.
pub fn on_last_core<T: Send>(
    work: impl FnOnce() -> Result<T, ExperimentError> + Send,
) -> Result<T, ExperimentError> {
    let core = cores().last().copied().unwrap_or(0);
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || pin(0, core).and_then(|()| work()));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quantiles_are_those_of_the_definitions() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan() && quantile(&[], 0.5).is_nan());
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|part| quantile(&hundred, part)), [1.0, 50.0, 99.0, 100.0]);
    }

    #[test]
    fn there_is_a_core_and_time_passes() {
        assert!(!cores().is_empty());
        assert!(cycles_per_second() > 1e6);
    }
}
