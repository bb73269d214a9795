//! How long a revision waits to be confirmed, whatever happens to the clock.
//!
//! While the machine runs, time since its start is what counts: nobody can set that. Another start
//! of the machine has the clock alone; who sets it back gains no more than the whole time once
//! more, and who sets it forward goes back earlier, to what was known to work.

use std::io;
use std::time::{Duration, SystemTime};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// What time it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Names this start of the machine.
    pub boot: String,
    /// Time since then, sleep included.
    pub since_boot: Duration,
    /// Seconds since 1970.
    pub time: u64,
}

impl Clock {
    /// This machine's.
    ///
    /// # Errors
    /// Those of `/proc` and `clock_gettime`.
    pub fn now() -> io::Result<Clock> {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(Clock {
            boot: std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned(),
            since_boot: Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME)?),
            time: time.as_secs(),
        })
    }
}

/// A revision that is taken back unless somebody confirms it in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The revision. The one before is gone back to.
    pub revision: u64,
    /// How long, in seconds.
    seconds: u64,
    boot: String,
    /// When it is over: milliseconds since that start of the machine.
    due: u64,
    /// The same by the clock, in seconds since 1970.
    due_time: u64,
}

impl Wait {
    pub(crate) fn new(revision: u64, time: Duration, clock: &Clock) -> Wait {
        Wait {
            revision,
            seconds: time.as_secs(),
            boot: clock.boot.clone(),
            due: (clock.since_boot + time).as_millis() as u64,
            due_time: clock.time.saturating_add(time.as_secs()),
        }
    }

    /// What is left of it; nothing: nobody confirmed in time.
    pub fn left(&self, clock: &Clock) -> Duration {
        if clock.boot == self.boot {
            return Duration::from_millis(self.due).saturating_sub(clock.since_boot);
        }
        Duration::from_secs(self.due_time.saturating_sub(clock.time).min(self.seconds))
    }

    /// The same, told by this start of the machine.
    pub(crate) fn renewed(&self, clock: &Clock) -> Wait {
        Wait { seconds: self.seconds, ..Wait::new(self.revision, self.left(clock), clock) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(boot: &str, since_boot: u64, time: u64) -> Clock {
        Clock { boot: boot.to_owned(), since_boot: Duration::from_secs(since_boot), time }
    }

    #[test]
    fn a_clock_that_is_set_changes_nothing_while_the_machine_runs() {
        let wait = Wait::new(8, Duration::from_secs(300), &clock("a", 1_000, 1_700_000_000));
        for time in [0, 1_700_000_100, u64::MAX] {
            assert_eq!(wait.left(&clock("a", 1_100, time)), Duration::from_secs(200));
            assert!(wait.left(&clock("a", 1_300, time)).is_zero());
        }
    }

    #[test]
    fn another_start_of_the_machine_goes_by_the_clock_and_never_waits_longer() {
        let wait = Wait::new(8, Duration::from_secs(300), &clock("a", 1_000, 1_700_000_000));
        let left = |time| wait.left(&clock("b", 5, time)).as_secs();
        assert_eq!((left(1_700_000_100), left(1_700_000_300)), (200, 0));
        assert_eq!((left(0), left(u64::MAX)), (300, 0), "set back, and set forward");
        let renewed = wait.renewed(&clock("b", 5, 1_700_000_100));
        assert_eq!(renewed.left(&clock("b", 105, 0)), Duration::from_secs(100));
        // Set back again and again, it is not longer than it was.
        assert_eq!(renewed.left(&clock("c", 5, 0)), Duration::from_secs(300));
    }

    #[test]
    fn this_machine_has_a_clock() {
        let (one, other) = (Clock::now().unwrap(), Clock::now().unwrap());
        assert!(one.boot == other.boot && one.boot.len() == 36 && one.since_boot <= other.since_boot);
    }
}
