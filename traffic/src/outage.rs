//! Ports that break while a trial uses them: a peer that leaves, a link that goes down. What is lost then is neither the rate's fault nor
//! the device's, so it is told.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Port;

/// How often ports are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Ports that are looked after.
pub(crate) struct Outage {
    /// Each with whether it has been whole.
    ports: Vec<(Port, bool)>,
    next: Instant,
    broken: Option<Broken>,
}

/// A port that broke.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Broken {
    /// Its name.
    pub port: String,
    /// What is wrong with it.
    pub why: String,
}

impl Outage {
    pub(crate) fn new(ports: impl IntoIterator<Item = Port>) -> Outage {
        let ports = ports.into_iter().map(|port| (port, false)).collect();
        Outage { ports, next: Instant::now(), broken: None }
    }

    /// The first that has broken; they are looked at when it is time to.
    pub(crate) fn look(&mut self) -> Option<&Broken> {
        if Instant::now() < self.next { self.broken.as_ref() } else { self.look_now() }
    }

    /// The same, without waiting for the time.
    pub(crate) fn look_now(&mut self) -> Option<&Broken> {
        self.next = Instant::now() + LOOK;
        if self.broken.is_none() {
            self.broken = self.ports.iter_mut().find_map(|(port, whole)| match port.fault() {
                None => {
                    *whole = true;
                    None
                }
                // One that never was whole has not broken.
                Some(why) => whole.then(|| Broken { port: port.name().to_owned(), why: why.to_string() }),
            });
        }
        self.broken.as_ref()
    }
}
