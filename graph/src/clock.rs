//! Time as elements see it: of the machine, or simulated.
//!
//! Simulated time begins where it is told to and stands still while there is work; when nothing is left to do it jumps to
//! the next timer. So a run that takes an hour of traffic takes no time, and is the same every time.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A graph's clock. Steady time is in nanoseconds since the program began, the same for all graphs of the program;
/// wall time in nanoseconds since 1970.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Steady and wall time, once read in this run.
    read: Option<(u64, i64)>,
    simulated: Option<(u64, i64)>,
}

impl Clock {
    /// The machine's clock.
    pub fn real() -> Clock {
        Clock { read: None, simulated: None }
    }

    /// A clock that stands at `wall`, nanoseconds since 1970, until it is moved.
    pub fn simulated(wall: i64) -> Clock {
        Clock { read: None, simulated: Some((0, wall)) }
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
        self.read = None;
    }

    /// Lets the next look see the time anew.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.read = None;
    }

    /// Steady time: the same until [`forget`](Self::forget).
    #[inline]
    pub(crate) fn steady(&mut self) -> u64 {
        self.both().0
    }

    /// Wall time: the same until [`forget`](Self::forget).
    #[inline]
    pub(crate) fn wall(&mut self) -> i64 {
        self.both().1
    }

    #[inline]
    fn both(&mut self) -> (u64, i64) {
        *self.read.get_or_insert_with(|| self.simulated.unwrap_or_else(read))
    }
}

/// Steady time of this machine, in nanoseconds since the program began: what elements see that do not run in simulated time.
pub fn steady_now() -> u64 {
    read().0
}

fn read() -> (u64, i64) {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let steady = ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64;
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    (steady, wall)
}
