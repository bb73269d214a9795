//! Until when the driver's programs may count on this process.
//!
//! A process that is killed takes its programs along; one that is stopped (SIGSTOP, a debugger), or
//! whose control thread hangs in the kernel, does not. So whoever keeps the tables, and whoever
//! polls the rings, promises to be back within some time, again and again, and a program that finds
//! a promise broken leaves the packet to Linux. A promise and not a heartbeat: before something
//! that is known to take long a longer one is given, so that nothing need run beside the thread
//! that is watched, and hide that it hangs.

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::bpf::map::Mapping;
use crate::clock;

/// What every promise is for, unless something is known to take longer.
pub const USUAL: Duration = Duration::from_secs(1);
/// What is promised before something that may take long: taking a port, putting another
/// configuration in force.
pub const LONG: Duration = Duration::from_secs(10);

/// The words of the map: on the clock of the programs, each has been promised until then.
const CONTROL: usize = offset_of!(abi::driver::Pulse, tables) / 8;
const WORKERS: usize = offset_of!(abi::driver::Pulse, workers) / 8;

/// Where promises are given. Until the first is, the programs wait for nobody.
#[derive(Clone)]
pub struct Pulse(Arc<Mapping>);

impl Pulse {
    pub(super) fn new(mapping: Mapping) -> Pulse {
        let pulse = Pulse(Arc::new(mapping));
        [CONTROL, WORKERS].into_iter().for_each(|who| pulse.word(who).store(u64::MAX, Ordering::Relaxed));
        pulse
    }

    /// The tables are kept up to date, and will be within this time from now. Says for how long
    /// they were not although it was promised.
    pub fn tables(&self, within: Duration) -> Option<Duration> {
        let now = clock::now();
        let before = self.word(CONTROL).swap(now + within.as_nanos() as u64, Ordering::Relaxed);
        (now > before).then(|| Duration::from_nanos(now - before))
    }

    /// As [`Pulse::tables`], where that was said before.
    pub fn tables_still(&self, within: Duration) {
        if self.word(CONTROL).load(Ordering::Relaxed) != u64::MAX {
            self.tables(within);
        }
    }

    /// Workers empty the rings, and one of them will say so again within this time.
    pub fn workers(&self, within: Duration) {
        self.word(WORKERS).store(clock::now() + within.as_nanos() as u64, Ordering::Relaxed);
    }

    fn word(&self, who: usize) -> &AtomicU64 {
        assert!((who + 1) * 8 <= self.0.bytes());
        // SAFETY: inside the mapping and aligned, as just checked; the programs only read it.
        unsafe { &*self.0.base().as_ptr().cast::<AtomicU64>().add(who) }
    }
}
