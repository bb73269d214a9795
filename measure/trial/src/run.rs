//! A run: all tests of a plan, one trial after the other, with a log, and somebody who watches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::log::{Log, LogError};
use crate::report::{Note, Report, SCHEMA};
use crate::search::Ask;
use crate::test::{self, Estimate};
use crate::{Description, Device, DeviceError, Frames, Measured, Offered, Pattern, Plan, PlanError, Test};

/// Why a run ended early. What was measured is in the log.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The plan makes no sense.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The device, or the tester.
    #[error("the trial of {frames} bytes at {rate:.0} frames/s: {error}")]
    Device {
        /// Sizes.
        frames: Frames,
        /// The load.
        rate: f64,
        /// What was wrong.
        error: DeviceError,
    },
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Somebody asked for the end.
    #[error("stopped")]
    Stopped,
}

/// What happens, for whoever watches.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The step, from 1.
    pub step: usize,
    /// Steps in all: tests times sizes.
    pub steps: usize,
    /// The test.
    pub test: Test,
    /// Sizes.
    pub frames: &'a Frames,
    /// Trials so far.
    pub trials: u32,
    /// Seconds that the run will probably go on.
    pub left: f64,
    /// What it is.
    pub event: Event<'a>,
}

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A trial begins.
    Begins(&'a Offered),
    /// It is over.
    Ended {
        /// What was offered.
        offered: &'a Offered,
        /// What came of it.
        measured: &'a Measured,
        /// Whether the log had it.
        recalled: bool,
    },
    /// A test is done at a size; what it found, as a line.
    Found(&'a str),
}

/// A run under way. The tests ask it for trials.
pub(crate) struct Run<'a> {
    device: &'a mut dyn Device,
    pub(crate) description: Description,
    pub(crate) plan: &'a Plan,
    log: Option<Log>,
    stop: &'a AtomicBool,
    watch: &'a mut dyn FnMut(&Progress<'_>),
    steps: Vec<(Test, Frames)>,
    step: usize,
    /// What the current step still needs, as its search thinks.
    ahead: Estimate,
    /// Seconds that a trial takes beside sending, from those made here.
    beside: f64,
    pub(crate) trials: u32,
    seconds: f64,
    pub(crate) notes: Vec<Note>,
}

/// Makes every trial of the plan and reports. Trials that the log has are not made again. `stop`
/// ends the run between two trials; `name` and `machine` go into the report as they are.
pub fn run(
    device: &mut dyn Device,
    plan: &Plan,
    log: Option<Log>,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Progress<'_>),
) -> Result<Report, RunError> {
    plan.check()?;
    let description = device.describe();
    let started = log.as_ref().map_or(0, Log::started);
    let mut notes = Vec::new();
    let steps = steps(plan, &description, &mut notes);
    let senders =
        u32::from(description.pairs.max(1)) * if plan.direction == crate::Direction::Both { 2 } else { 1 };
    let mut run = Run {
        device,
        description,
        plan,
        log,
        stop,
        watch,
        steps,
        step: 0,
        ahead: Estimate::default(),
        beside: 0.0,
        trials: 0,
        seconds: 0.0,
        notes,
    };
    let mut report = Report {
        schema: SCHEMA.to_owned(),
        release: env!("CARGO_PKG_VERSION").to_owned(),
        name: run.description.name.clone(),
        started,
        seconds: 0.0,
        trials: 0,
        device: run.description.clone(),
        machine: Vec::new(),
        plan: plan.clone(),
        senders,
        throughput: Vec::new(),
        latency: Vec::new(),
        loss: Vec::new(),
        back_to_back: Vec::new(),
        recovery: Vec::new(),
        reset: Vec::new(),
        notes: Vec::new(),
    };
    while let Some((test, frames)) = run.steps.get(run.step).cloned() {
        run.ahead = test::estimate(plan, test, &frames, &run.description);
        match test::make(&mut run, test, &frames, &mut report) {
            Ok(()) => {}
            // What cannot be done is told, and the rest is done.
            Err(RunError::Device { error: DeviceError::Unsupported(why), .. }) => {
                run.note(Some(test), Some(&frames), format!("not measured: {why}"));
            }
            Err(error) => return Err(error),
        }
        run.step += 1;
    }
    (report.trials, report.seconds, report.notes) = (run.trials, run.seconds, run.notes);
    Ok(report)
}

/// Tests by size; the reset once, at the smallest size (RFC 2544 section 26.6).
fn steps(plan: &Plan, device: &Description, notes: &mut Vec<Note>) -> Vec<(Test, Frames)> {
    let mut sizes: Vec<Frames> = Vec::new();
    for frames in &plan.frames {
        let least = device.least(plan.family);
        let (frames, raised) = frames.at_least(least);
        if raised {
            let text = format!(
                "frames shorter than {least} bytes have no room for a number and a stamp; they were made so long"
            );
            notes.push(Note { test: None, frames: Some(frames.clone()), text });
        }
        if !sizes.contains(&frames) {
            sizes.push(frames);
        }
    }
    let smallest = sizes.iter().min_by(|one, other| one.mean().total_cmp(&other.mean())).cloned();
    let mut steps = Vec::new();
    for frames in sizes {
        for test in Test::ALL {
            let wanted = match test {
                Test::Throughput => plan.needs_throughput(),
                Test::Reset => plan.wants(test) && Some(&frames) == smallest.as_ref(),
                _ => plan.wants(test),
            };
            if wanted {
                steps.push((test, frames.clone()));
            }
        }
    }
    steps
}

impl Run<'_> {
    /// A load of this plan's.
    pub(crate) fn offered(&self, frames: &Frames, ask: Ask, pattern: Pattern) -> Offered {
        Offered {
            frames: frames.clone(),
            rate: ask.rate,
            seconds: ask.seconds,
            direction: self.plan.direction,
            pairs: self.description.pairs.max(1),
            family: self.plan.family,
            pattern,
            modifiers: self.plan.modifiers.clone(),
        }
    }

    /// Makes a trial, or recalls it. `ahead` is what the step still needs, this trial included.
    pub(crate) fn trial(&mut self, offered: &Offered, ahead: Estimate) -> Result<Measured, RunError> {
        self.ahead = ahead;
        if self.stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped);
        }
        let recalled = match &mut self.log {
            Some(log) => log.recall(offered)?,
            None => None,
        };
        let (measured, is_recalled) = match recalled {
            Some(measured) => (measured, true),
            None => {
                self.tell(Event::Begins(offered));
                self.rest()?;
                let begin = Instant::now();
                let measured = self.device.trial(offered).map_err(|error| match error {
                    DeviceError::Stopped => RunError::Stopped,
                    error => RunError::Device { frames: offered.frames.clone(), rate: offered.rate, error },
                })?;
                let beside =
                    (begin.elapsed().as_secs_f64() - offered.seconds).max(0.0) + self.plan.times.rest;
                self.beside = if self.beside == 0.0 { beside } else { 0.7 * self.beside + 0.3 * beside };
                let measured = sound(measured);
                if let Some(log) = &mut self.log {
                    log.keep(offered, &measured)?;
                }
                (measured, false)
            }
        };
        self.trials += 1;
        self.seconds += measured.seconds + self.plan.times.rest;
        self.remark(offered, &measured);
        self.tell(Event::Ended { offered, measured: &measured, recalled: is_recalled });
        Ok(measured)
    }

    /// Lets the device come to rest.
    fn rest(&self) -> Result<(), RunError> {
        let begin = Instant::now();
        let rest = Duration::from_secs_f64(self.plan.times.rest);
        while begin.elapsed() < rest {
            if self.stop.load(Ordering::Relaxed) {
                return Err(RunError::Stopped);
            }
            sleep((rest - begin.elapsed().min(rest)).min(Duration::from_millis(50)));
        }
        Ok(())
    }

    /// What is odd about a trial, told once a test and size.
    fn remark(&mut self, offered: &Offered, measured: &Measured) {
        let (test, frames) = match self.steps.get(self.step) {
            Some((test, frames)) => (*test, frames.clone()),
            None => return,
        };
        let count = |count: u64, what: &str| (count > 0).then(|| format!("some frames came back {what}"));
        // A search may well begin beyond what the tester can send; what counts there is its end.
        let short = (test != Test::Throughput && measured.is_short(offered)).then(|| {
            "the tester could not send all it was told to; what it did not send counts as lost, and the figures may be the \
             tester's rather than the device's"
                .to_owned()
        });
        let more = (measured.received > measured.sent).then(|| {
            "more frames came back than were sent: something else sends, or the device doubles them"
                .to_owned()
        });
        let none = (measured.sent > 0 && measured.received == 0).then(|| {
            "there were loads of which not one frame came back, though small ones did after them".to_owned()
        });
        let missed = (measured.missed > 0).then(|| {
            "the tester itself lost frames that came back, for want of room; they count as lost, and the figures may be the tester's \
             rather than the device's"
                .to_owned()
        });
        let texts = [
            short,
            missed,
            more,
            none,
            count(measured.duplicates, "twice"),
            count(measured.reordered, "out of order"),
            count(measured.corrupted, "damaged"),
        ];
        for text in texts.into_iter().flatten() {
            self.note(Some(test), Some(&frames), text);
        }
    }

    /// Notes something, once.
    pub(crate) fn note(&mut self, test: Option<Test>, frames: Option<&Frames>, text: String) {
        let note = Note { test, frames: frames.cloned(), text };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Tells whoever watches that a test is done at a size.
    pub(crate) fn found(&mut self, line: &str) {
        self.ahead = Estimate::default();
        self.tell(Event::Found(line));
    }

    fn tell(&mut self, event: Event<'_>) {
        let Some((test, frames)) = self.steps.get(self.step) else { return };
        let later = self.steps.iter().skip(self.step + 1);
        let later = later.map(|(test, frames)| test::estimate(self.plan, *test, frames, &self.description));
        let left = later.fold(self.ahead, |sum, one| sum + one);
        (self.watch)(&Progress {
            step: self.step + 1,
            steps: self.steps.len(),
            test: *test,
            frames,
            trials: self.trials,
            left: left.seconds + left.trials * self.beside.max(self.plan.times.rest),
            event,
        });
    }
}

/// Numbers that are none, or negative, are left out, so that they neither mislead nor break the
/// log.
fn sound(mut measured: Measured) -> Measured {
    let fits = |value: &f64| value.is_finite() && *value >= 0.0;
    if !fits(&measured.seconds) {
        measured.seconds = 0.0;
    }
    measured.last_loss = measured.last_loss.filter(fits);
    measured.gap = measured.gap.filter(fits);
    if let Some(latency) = &mut measured.latency {
        latency.jitter = latency.jitter.filter(fits);
        latency.percentiles.retain(|(at, value)| (0.0..=100.0).contains(at) && fits(value));
        if ![latency.min, latency.mean, latency.max].iter().all(fits) || latency.count == 0 {
            measured.latency = None;
        }
    }
    measured
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::log::FILE;
    use crate::simulated::{Manner, Simulated};
    use crate::{Direction, Modifiers};
    use proptest::prelude::*;

    fn plan() -> Plan {
        let frames = vec![Frames::fixed(64), Frames::imix()];
        Plan { frames, tests: Test::ALL.to_vec(), ..Plan::short(0.01) }
    }

    fn go(device: &mut Simulated, plan: &Plan, log: Option<Log>) -> Result<Report, RunError> {
        run(device, plan, log, &AtomicBool::new(false), &mut |_| {})
    }

    /// A directory that goes when the test ends.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let path = std::env::temp_dir().join(format!("trial-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            Place(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn every_test_finds_what_the_device_has() {
        let mut device = Simulated::new(2e6);
        let report = go(&mut device, &plan(), None).unwrap();
        let small = &report.throughput[0];
        assert!((1.99e6..=2.01e6).contains(&small.rate().unwrap()), "{small:?}");
        assert!((small.goals[1].lower.unwrap() - 2e6 / 0.995).abs() < 2e4);
        assert_eq!(report.throughput.len(), 2);
        assert_eq!(report.latency.len(), 8);
        assert!(report.latency[0].latency.mean > report.latency[2].latency.mean);
        let curve = &report.loss[0];
        assert_eq!(curve.points.len(), 10);
        assert!((curve.points[0].loss - (1.0 - 2e6 / 14_880_952.0)).abs() < 1e-3);
        assert_eq!(curve.points.iter().filter(|point| point.loss == 0.0).count(), 1);
        let burst = &report.back_to_back[0];
        assert!((990.0..1001.0).contains(&burst.longest.mean), "{burst:?}");
        assert!(
            (burst.corrected - burst.implied * (1.0 - small.rate().unwrap() / burst.line_rate)).abs() < 1e-12
        );
        assert!((report.recovery[0].mean - 0.002).abs() < 1e-9);
        assert_eq!(report.reset.len(), 1);
        let half = plan().times.reset / 2.0;
        assert!((report.reset[0].by_loss - half).abs() < 0.01 * half, "{:?}", report.reset[0]);
        // The mix has 2 M of 4 M frames a second: two sizes, two rows of each.
        assert_eq!((report.loss.len(), report.back_to_back.len(), report.recovery.len()), (2, 2, 2));
        let json = report.json();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    }

    #[test]
    fn the_durations_of_the_rfc_find_the_same() {
        let mut device = Simulated::new(3e6);
        let plan = Plan {
            frames: vec![Frames::fixed(64)],
            times: crate::Times { rest: 0.0, ..Plan::rfc(60.0).times },
            direction: Direction::Both,
            ..Plan::rfc(60.0)
        };
        let report = go(&mut device, &plan, None).unwrap();
        assert!((2.98e6..=3e6).contains(&report.throughput[0].rate().unwrap()));
        assert_eq!((report.senders, report.latency[0].repetitions), (2, 20));
        assert_eq!(report.back_to_back[0].longest.repetitions, 50);
    }

    #[test]
    fn a_device_that_carries_the_line_has_no_bursts_to_measure() {
        let mut device = Simulated::new(1e9);
        let report = go(&mut device, &plan(), None).unwrap();
        assert!(report.throughput.iter().all(|row| row.rate() == Some(row.line_rate)));
        assert!(report.back_to_back.is_empty() && report.recovery.is_empty());
        assert!(report.notes.iter().any(|note| note.text.contains("RFC 9004")));
        assert_eq!(report.loss[0].points.len(), 2);
    }

    #[test]
    fn a_tester_that_is_too_slow_is_not_taken_for_the_device() {
        let mut device = Simulated { tester: 3e6, ..Simulated::new(1e9) };
        let plan = Plan { tests: vec![Test::Throughput], frames: vec![Frames::fixed(64)], ..plan() };
        let report = go(&mut device, &plan, None).unwrap();
        // What is tolerated of a tester, 1.5 %, and a rung of the search.
        assert!((2.98e6..3.07e6).contains(&report.throughput[0].rate().unwrap()));
        assert!(report.notes[0].text.starts_with("the tester could not send"), "{:?}", report.notes);
        let report = go(&mut Simulated { tester: 3e6, ..Simulated::new(1e6) }, &plan, None).unwrap();
        assert!(report.notes.is_empty(), "{:?}", report.notes);
    }

    #[test]
    fn what_the_tester_itself_loses_is_told() {
        let plan = Plan { tests: vec![Test::Loss], frames: vec![Frames::fixed(64)], ..plan() };
        let told = |missed| {
            let report = go(&mut Simulated { missed, ..Simulated::new(1e9) }, &plan, None).unwrap();
            report.notes.iter().any(|note| note.text.starts_with("the tester itself lost frames"))
        };
        assert!(told(7) && !told(0));
    }

    #[test]
    fn bursts_that_are_slower_than_the_line_tell_of_no_buffer() {
        let plan = Plan { tests: vec![Test::BackToBack], frames: vec![Frames::fixed(64)], ..plan() };
        let mut slow = Simulated { tester: 2e6, ..Simulated::new(2e6) };
        let report = go(&mut slow, &plan, None).unwrap();
        assert!(report.back_to_back.is_empty(), "{:?}", report.back_to_back);
        assert!(
            report
                .notes
                .iter()
                .any(|note| note.text.contains("at 2.000 M frames/s, and the line carries 14.881 M")),
            "{:?}",
            report.notes
        );
    }

    #[test]
    fn what_a_device_cannot_do_is_told_and_the_rest_is_done() {
        let modifiers = Modifiers { route_updates: 10, ..Modifiers::default() };
        let report = go(&mut Simulated::new(2e6), &Plan { modifiers, ..plan() }, None).unwrap();
        assert!(report.throughput.is_empty());
        assert!(
            report.notes.iter().any(|note| note.text == "not measured: it has no routing"),
            "{:?}",
            report.notes
        );
    }

    #[test]
    fn short_frames_of_ipv6_are_made_longer() {
        let plan = Plan { family: crate::Family::V6, tests: vec![Test::Loss], ..plan() };
        let report = go(&mut Simulated::new(2e6), &plan, None).unwrap();
        assert_eq!(report.loss[0].frames, Frames::fixed(78));
        assert!(report.notes.iter().any(|note| note.text.contains("78 bytes")));
    }

    #[test]
    fn it_ends_when_it_is_asked_to() {
        let mut seen = 0;
        let stop = AtomicBool::new(false);
        let ended = run(&mut Simulated::new(2e6), &plan(), None, &stop, &mut |progress| {
            assert!(progress.left.is_finite() && progress.left >= 0.0);
            seen = progress.trials;
            stop.store(seen == 7, Ordering::Relaxed);
        });
        assert!(matches!(ended, Err(RunError::Stopped)) && seen == 7);
    }

    #[test]
    fn an_interrupted_run_is_taken_up_where_it_was() {
        let plan = plan();
        let whole = go(&mut Simulated::new(2e6), &plan, None).unwrap();
        let place = Place::new("resume");
        let mut done = 0;
        for cut in [3, 40, 41, 150] {
            let mut device = Simulated { fails_at: Some(cut - done), ..Simulated::new(2e6) };
            let log = if done == 0 {
                Log::begin(&place.0, &device.describe(), &plan, 7).unwrap()
            } else {
                Log::resume(&place.0, &device.describe(), &plan).unwrap()
            };
            assert_eq!(log.earlier(), done as usize);
            let error = go(&mut device, &plan, Some(log)).unwrap_err();
            assert!(error.to_string().contains("the cable was pulled"), "{error}");
            done = cut;
            // A line cut off in the middle of writing is dropped.
            let mut file = std::fs::OpenOptions::new().append(true).open(place.0.join(FILE)).unwrap();
            std::io::Write::write_all(&mut file, b"{\"offered\":{\"fra").unwrap();
        }
        let mut device = Simulated::new(2e6);
        let log = Log::resume(&place.0, &device.describe(), &plan).unwrap();
        let report = go(&mut device, &plan, Some(log)).unwrap();
        assert_eq!(device.trials + done, whole.trials);
        assert_eq!(Report { started: 0, ..report }, whole);
    }

    #[test]
    fn logs_of_other_runs_are_refused() {
        let place = Place::new("refused");
        let (mut device, plan) = (Simulated::new(2e6), plan());
        let log = Log::begin(&place.0, &device.describe(), &plan, 7).unwrap();
        go(&mut device, &plan, Some(log)).unwrap();
        let said = |result: Result<Log, LogError>| result.unwrap_err().to_string();
        assert!(said(Log::begin(&place.0, &device.describe(), &plan, 7)).contains("--resume"));
        let other = Plan { times: crate::Times { rest: 5.0, ..plan.times.clone() }, ..plan.clone() };
        let text = said(Log::resume(&place.0, &device.describe(), &other));
        assert!(text.contains("plan.times.rest: 0.0 there, 5.0 here"), "{text}");
        let elsewhere = Description { pairs: 2, ..device.describe() };
        assert!(said(Log::resume(&place.0, &elsewhere, &plan)).contains("device.pairs: 1 there, 2 here"));
        let others = Description { traffic: "5 flows".to_owned(), ..device.describe() };
        assert!(said(Log::resume(&place.0, &others, &plan)).contains("device.traffic"));
        // A log whose trials are not those of the plan.
        let file = place.0.join(FILE);
        let text = std::fs::read_to_string(&file).unwrap().replacen("\"rate\":1488", "\"rate\":1487", 1);
        std::fs::write(&file, text).unwrap();
        let log = Log::resume(&place.0, &device.describe(), &plan).unwrap();
        let error = go(&mut device, &plan, Some(log)).unwrap_err();
        assert!(error.to_string().contains("another release"), "{error}");
        for nonsense in ["", "\n", "{}\n", "null\n", "{\"schema\":\"bifrost.rfc2544.log/1\"}\n", "\u{0}\n"] {
            std::fs::write(&file, nonsense).unwrap();
            assert!(Log::resume(&place.0, &device.describe(), &plan).is_err(), "{nonsense:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Whatever a device says, the run ends, with numbers that can be written and read.
        #[test]
        fn odd_devices_do_no_harm(dice: u64, noisy: bool) {
            let manner = if noisy { Manner::Noisy(0.3) } else { Manner::Odd };
            let mut device = Simulated { dice: chance::Random(dice), manner, ..Simulated::new(2e6) };
            let plan = Plan { frames: vec![Frames::fixed(64)], ..plan() };
            let report = go(&mut device, &plan, None).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Report>(&report.json()).unwrap(), &report);
        }
    }
}
