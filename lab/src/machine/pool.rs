//! Machines that the tests of a process share, for booting one takes long.
//!
//! A test has a machine alone while it works. As many work at once as there are cores, for each has
//! one. A machine that has done its work waits for the next one that wants its kernel, so no kernel
//! has more machines than work at once. They end with the process.

use std::{
    collections::HashMap,
    sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError},
    thread::available_parallelism,
};

use super::Machine;
use crate::{LabError, Result};

static POOL: LazyLock<Mutex<Pool>> = LazyLock::new(|| {
    let turns = available_parallelism().map_or(1, usize::from);
    Mutex::new(Pool { turns, idle: HashMap::new(), failed: HashMap::new() })
});
static FREED: Condvar = Condvar::new();

struct Pool {
    /// Those that are free.
    turns: usize,
    /// By kernel.
    idle: HashMap<String, Vec<Machine>>,
    /// Why a kernel did not boot.
    failed: HashMap<String, String>,
}

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held by what works with a machine.
pub(super) struct Turn(());

/// Waits until one more machine may work.
pub(super) fn turn() -> Turn {
    let free = FREED.wait_while(pool(), |pool| pool.turns == 0);
    free.unwrap_or_else(PoisonError::into_inner).turns -= 1;
    Turn(())
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
        pool().turns += 1;
        FREED.notify_one();
    }
}
