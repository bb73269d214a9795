//! What the checks must know of the machine.

use crate::cores::Cores;

/// The machine that a configuration is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Cores that are there and running.
    pub cores: Cores,
}

impl Machine {
    /// This one. Where `/sys` does not say, core 0 is assumed, which every machine has.
    pub fn this() -> Machine {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        Machine { cores: online.trim().parse().unwrap_or(Cores(vec![0])) }
    }
}
