//! Time as elements see it: of the machine, or simulated.
//!
//! Simulated time begins where it is told to and stands still while there is work; when nothing is
//! left to do it jumps to the next timer. So a run that takes an hour of traffic takes no time, and
//! is the same every time.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A graph's clock. Steady time is in nanoseconds since the program began, the same for all graphs
/// of the program; wall time in nanoseconds since 1970.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Steady time, once read in this run. To read a clock takes as long as to forward a packet or
    /// two.
    steady: Option<u64>,
    /// Wall time, likewise.
    wall: Option<i64>,
    simulated: Option<(u64, i64)>,
    warp: Option<Warp>,
}

/// Time that passes at another speed than the machine's.
#[derive(Clone, Copy, Debug)]
struct Warp {
    speed: f64,
    /// The machine's time when it began.
    machine: (u64, i64),
    /// The time that elements had then.
    own: (u64, i64),
}

impl Warp {
    fn now(&self) -> (u64, i64) {
        let passed = (read().0.saturating_sub(self.machine.0) as f64 * self.speed) as u64;
        (self.own.0.saturating_add(passed), self.own.1.saturating_add_unsigned(passed))
    }
}

impl Clock {
    /// The machine's clock.
    pub fn real() -> Clock {
        Clock { steady: None, wall: None, simulated: None, warp: None }
    }

    /// A clock that stands at `wall`, nanoseconds since 1970, until it is moved.
    pub fn simulated(wall: i64) -> Clock {
        Clock { steady: None, wall: None, simulated: Some((0, wall)), warp: None }
    }

    /// Whether time is simulated.
    pub fn is_simulated(&self) -> bool {
        self.simulated.is_some()
    }

    /// Moves simulated time on to the steady time `to`; real time moves by itself.
    pub fn jump(&mut self, to: u64) {
        if let Some((steady, wall)) = &mut self.simulated {
            let forward = to.saturating_sub(*steady);
            *steady += forward;
            *wall = wall.saturating_add_unsigned(forward);
        }
        self.forget();
    }

    /// From now on time passes so many times as fast as the machine's; more than 0. Simulated time
    /// has no speed.
    pub(crate) fn warp(&mut self, speed: f64) {
        let own = self.own().unwrap_or_else(read);
        self.warp = Some(Warp { speed, machine: read(), own });
        self.forget();
    }

    /// How fast time passes; 1 is the machine's speed.
    pub(crate) fn speed(&self) -> f64 {
        self.warp.map_or(1.0, |warp| warp.speed)
    }

    /// How long the machine takes until this clock has gone on by so much.
    pub(crate) fn machine_time(&self, nanoseconds: u64) -> u64 {
        self.warp.map_or(nanoseconds, |warp| (nanoseconds as f64 / warp.speed).ceil() as u64)
    }

    /// Time that is not simply the machine's.
    fn own(&self) -> Option<(u64, i64)> {
        self.simulated.or_else(|| self.warp.map(|warp| warp.now()))
    }

    /// Lets the next look see the time anew.
    #[inline]
    pub(crate) fn forget(&mut self) {
        (self.steady, self.wall) = (None, None);
    }

    /// Steady time: the same until [`forget`](Self::forget).
    #[inline]
    pub(crate) fn steady(&mut self) -> u64 {
        match self.steady {
            Some(steady) => steady,
            None => *self.steady.insert(self.own().map_or_else(steady_now, |own| own.0)),
        }
    }

    /// Wall time: the same until [`forget`](Self::forget).
    #[inline]
    pub(crate) fn wall(&mut self) -> i64 {
        match self.wall {
            Some(wall) => wall,
            None => *self.wall.insert(self.own().map_or_else(wall_now, |own| own.1)),
        }
    }
}

/// Steady time of this machine, in nanoseconds since the program began: what elements see that do
/// not run in simulated time.
pub fn steady_now() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn wall_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

fn read() -> (u64, i64) {
    (steady_now(), wall_now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warped_time_goes_on_from_where_it_was() {
        let mut clock = Clock::real();
        let before = clock.steady();
        clock.warp(1e6);
        std::thread::sleep(std::time::Duration::from_millis(2));
        let fast = clock.steady();
        assert!(fast >= before + 2_000_000_000_000, "{before} {fast}");
        clock.warp(1e-6);
        assert!(clock.steady() >= fast && clock.speed() == 1e-6);
        assert_eq!(clock.machine_time(5), 5_000_000);
        let mut simulated = Clock::simulated(7);
        simulated.warp(3.0);
        assert_eq!((simulated.steady(), simulated.wall()), (0, 7));
    }
}
