//! Machines that the tests of a process share, for booting one takes long.
//!
//! A test has a machine alone while it works. Those that work at once have as many cores as there
//! are. A machine that has done its work waits for the next one that wants its kernel, so no kernel
//! has more machines than work at once. They end with the process.

use std::{
    collections::HashMap,
    sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError},
    thread::available_parallelism,
};

use super::Machine;
use crate::{LabError, Result};

static TURNS: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, usize::from));
static POOL: LazyLock<Mutex<Pool>> = LazyLock::new(|| Mutex::new(Pool { turns: *TURNS, ..Pool::default() }));
static FREED: Condvar = Condvar::new();

#[derive(Default)]
struct Pool {
    /// Those that are free.
    turns: usize,
    /// How many have asked for turns, and how many of these have had theirs: first come, first
    /// served, or who wants several would wait until nobody else does.
    asked: usize,
    served: usize,
    /// By kernel.
    idle: HashMap<String, Vec<Machine>>,
    /// Why a kernel did not boot.
    failed: HashMap<String, String>,
}

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held by what works with a machine: a turn for each of its cores.
pub(super) struct Turn(usize);

/// Waits until a machine with so many cores may work.
pub(super) fn turn(cores: u32) -> Turn {
    let takes = (cores as usize).min(*TURNS);
    let mut asking = pool();
    let place = asking.asked;
    asking.asked += 1;
    let wait = FREED.wait_while(asking, |pool| pool.served < place || pool.turns < takes);
    let mut pool = wait.unwrap_or_else(PoisonError::into_inner);
    pool.served += 1;
    pool.turns -= takes;
    // The next one may find enough as well.
    FREED.notify_all();
    Turn(takes)
}

impl Turn {
    /// A machine that waits, or a new one.
    ///
    /// # Errors
    /// As [`Machine::boot`], and what it said when it could not boot before.
    pub(super) fn machine(&self, kernel: &str) -> Result<Machine> {
        let mut pool = pool();
        if let Some(machine) = pool.idle.get_mut(kernel).and_then(Vec::pop) {
            return Ok(machine);
        }
        if let Some(why) = pool.failed.get(kernel) {
            let (kernel, what) = (kernel.to_owned(), format!("did not boot: {why}"));
            return Err(LabError::Machine { kernel, what, console: String::new() });
        }
        drop(pool);
        Machine::boot(kernel).inspect_err(|error| {
            self::pool().failed.insert(kernel.to_owned(), error.to_string());
        })
    }

    /// For the next that wants its kernel.
    pub(super) fn give_back(&self, machine: Machine) {
        pool().idle.entry(machine.kernel.clone()).or_default().push(machine);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        pool().turns += self.0;
        FREED.notify_all();
    }
}
