//! Whether a worker stands still: an element of the operator's that loops for ever, a system call
//! that does not return.
//!
//! A worker that polls comes round every few microseconds, whatever it finds; one that sleeps says
//! so. So one that does neither for most of a second hangs, unless it only waits for a core, which
//! a machine may make it do. Time in which the control thread itself did not look (the whole
//! process was stopped, the machine suspended) does not count.

use std::time::{Duration, Instant};

/// How long a worker may take for a round: it is found within a second.
pub(crate) const STILL: Duration = Duration::from_millis(700);
/// How much of that on a core, while it waits for nothing else.
const ON_CORE: Duration = Duration::from_millis(150);
/// Between two looks not more is counted.
const LOOK: Duration = Duration::from_millis(250);

/// What is seen of a worker at a look.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Rounds that it has made.
    pub rounds: u64,
    /// It sleeps until something comes.
    pub asleep: bool,
}

/// What of its thread the kernel knows.
pub trait Thread {
    /// Whether it runs, or would if it had a core.
    fn runs(&self) -> bool;
    /// How long it has been on a core.
    fn on_core(&self) -> Duration;
}

impl Thread for port::Leash {
    fn runs(&self) -> bool {
        port::Leash::runs(self)
    }

    fn on_core(&self) -> Duration {
        port::Leash::on_core(self)
    }
}

/// What was seen of one worker so far.
#[derive(Debug)]
pub struct Watch {
    rounds: Option<u64>,
    looked: Instant,
    still: Duration,
    /// On a core when the round began.
    on_core: Duration,
}

impl Watch {
    /// Of a worker that begins now.
    pub fn new(now: Instant) -> Watch {
        Watch { rounds: None, looked: now, still: Duration::ZERO, on_core: Duration::ZERO }
    }

    /// Whether it stands still.
    pub fn is_still(&mut self, seen: Seen, thread: &impl Thread, now: Instant) -> bool {
        let since = now.duration_since(std::mem::replace(&mut self.looked, now));
        if seen.asleep || self.rounds != Some(seen.rounds) {
            self.rounds = Some(seen.rounds);
            self.still = Duration::ZERO;
            return false;
        }
        if self.still.is_zero() {
            self.on_core = thread.on_core();
        }
        self.still += since.min(LOOK);
        self.still >= STILL && (!thread.runs() || thread.on_core().saturating_sub(self.on_core) >= ON_CORE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Told {
        runs: bool,
        on_core: Duration,
    }

    impl Thread for Told {
        fn runs(&self) -> bool {
            self.runs
        }
        fn on_core(&self) -> Duration {
            self.on_core
        }
    }

    const LOOKS: Duration = Duration::from_millis(100);

    /// After how many looks a worker is found that `does` this at each; at most 100.
    fn found(mut does: impl FnMut(u32) -> (Seen, Told, Duration)) -> Option<u32> {
        let mut now = Instant::now();
        let mut watch = Watch::new(now);
        (1..=100).find(|look| {
            let (seen, thread, passed) = does(*look);
            now += passed;
            watch.is_still(seen, &thread, now)
        })
    }

    const HANGS: Seen = Seen { rounds: 7, asleep: false };

    #[test]
    fn an_endless_loop_is_found_within_a_second() {
        let looks = found(|look| (HANGS, Told { runs: true, on_core: LOOKS * look }, LOOKS)).unwrap();
        assert!(LOOKS * looks <= Duration::from_secs(1), "{looks} looks");
    }

    #[test]
    fn so_is_a_system_call_that_does_not_return() {
        let looks = found(|_| (HANGS, Told { runs: false, on_core: LOOKS }, LOOKS)).unwrap();
        assert!(LOOKS * looks <= Duration::from_secs(1), "{looks} looks");
    }

    #[test]
    fn a_worker_that_sleeps_works_or_waits_for_a_core_is_not() {
        let asleep = |_| (Seen { asleep: true, ..HANGS }, Told { runs: false, on_core: LOOKS }, LOOKS);
        assert_eq!(found(asleep), None);
        let works = |look: u32| {
            let seen = Seen { rounds: u64::from(look / 5), asleep: false };
            (seen, Told { runs: true, on_core: LOOKS * look }, LOOKS)
        };
        assert_eq!(found(works), None);
        assert_eq!(found(|_| (HANGS, Told { runs: true, on_core: LOOKS }, LOOKS)), None);
    }

    #[test]
    fn time_in_which_nobody_looked_does_not_count() {
        let stopped = |look: u32| {
            let passed = if look == 3 { Duration::from_secs(60) } else { LOOKS };
            let rounds = u64::from(look > 3) + 7;
            (Seen { rounds, asleep: false }, Told { runs: false, on_core: LOOKS }, passed)
        };
        assert!(found(stopped).unwrap() > 6);
    }
}
