//! The machine that was measured: what it is, and how long its memory takes to answer.

use doctor::{Kernel, Options, Place};
use serde::Serialize;

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Machine {
    /// What it is, in a few lines: name and value.
    pub facts: Vec<(String, String)>,
    /// How long memory takes to answer, by the bytes in use, in nanoseconds (as lat_mem_rd measures
    /// it, in random order).
    pub memory_latency: Vec<(u64, f64)>,
}

impl Machine {
    /// This one. `quick` leaves out the memory, which takes some seconds of a core.
    pub fn here(quick: bool) -> Machine {
        // Of ports only what is said of one that carries nothing: they are not what is asked for.
        let options = Options { ports: vec!["lo".to_owned()], quick };
        let examination = doctor::examine(&Place::new("/"), &Kernel, &options);
        Machine { facts: examination.machine, memory_latency: examination.memory_latency }
    }
}
