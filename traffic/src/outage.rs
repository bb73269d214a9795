//! Ports that break while a trial uses them: a peer that leaves, a link that goes down. What is lost then is neither the rate's fault nor
//! the device's, so it is told.

use std::time::{Duration, Instant};

use ::port::clock::now;

use crate::Port;

/// How often ports are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Ports that are looked after.
pub(crate) struct Outage {
    /// Each with whether it has been whole.
    ports: Vec<(Port, bool)>,
    next: Instant,
}

impl Outage {
    pub(crate) fn new(ports: impl IntoIterator<Item = Port>) -> Outage {
        Outage { ports: ports.into_iter().map(|port| (port, false)).collect(), next: Instant::now() }
    }

    /// Looks at them when it is time to; what has broken, in a trial that began at `start`.
    pub(crate) fn look(&mut self, start: u64) -> Option<String> {
        if Instant::now() < self.next {
            return None;
        }
        self.next = Instant::now() + LOOK;
        self.ports.iter_mut().find_map(|(port, whole)| match port.fault() {
            None => {
                *whole = true;
                None
            }
            // One that never was whole has not broken.
            Some(why) => whole.then(|| {
                let after = now().saturating_sub(start) as f64 / 1e9;
                format!("port {} broke {after:.1} s after the start: {why}", port.name())
            }),
        })
    }
}
