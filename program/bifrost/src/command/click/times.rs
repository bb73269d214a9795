//! How long the run took: `-t`.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

/// Times of a moment.
pub struct Times {
    user: Duration,
    system: Duration,
    wall: Instant,
}

impl Times {
    /// Of now.
    pub fn now() -> Times {
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
        let time = |time: nix::sys::time::TimeVal| {
            let micros = time.tv_sec().saturating_mul(1_000_000).saturating_add(time.tv_usec());
            Duration::from_micros(u64::try_from(micros).unwrap_or(0))
        };
        Times {
            user: usage.map_or(Duration::ZERO, |usage| time(usage.user_time())),
            system: usage.map_or(Duration::ZERO, |usage| time(usage.system_time())),
            wall: Instant::now(),
        }
    }

    /// What has passed since, in Click's form: `0.123u 0.004s 0:01.25`.
    pub fn elapsed(&self) -> String {
        let now = Times::now();
        show(now.user.saturating_sub(self.user), now.system.saturating_sub(self.system), now.wall - self.wall)
    }
}

fn show(user: Duration, system: Duration, wall: Duration) -> String {
    let millis = |time: Duration| (time.as_micros() + 500) / 1000;
    let (user, system, wall) = (millis(user), millis(system), (wall.as_micros() + 5000) / 10_000);
    format!(
        "{}.{:03}u {}.{:03}s {}:{:02}.{:02}",
        user / 1000,
        user % 1000,
        system / 1000,
        system % 1000,
        wall / 6000,
        wall / 100 % 60,
        wall % 100
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_to_what_is_shown() {
        let (user, system) = (Duration::from_micros(1_234_500), Duration::from_micros(999_600));
        assert_eq!(show(user, system, Duration::from_millis(61_236)), "1.235u 1.000s 1:01.24");
    }
}
