//! Ports that break while a trial uses them: a peer that leaves, a link that goes down. What is
//! lost then is neither the rate's fault nor the device's, so it is told. What is over before
//! anybody looks is known by the count that the kernel, or the port, keeps of it.

use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Port;
use crate::port::Epoch;

/// How often ports are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Ports that are looked after.
pub(crate) struct Outage {
    /// Each with its epoch, once it has been whole.
    ports: Vec<(Port, Option<Epoch>)>,
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

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the port {} broke meanwhile: {}", self.port, self.why)
    }
}

impl Outage {
    pub(crate) fn new(ports: impl IntoIterator<Item = Port>) -> Outage {
        let ports = ports.into_iter().map(|port| (port, None)).collect();
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
            self.broken = self.ports.iter_mut().find_map(|(port, known)| {
                let fault = match (port.epoch(), *known) {
                    (Ok(epoch), None) => {
                        *known = Some(epoch);
                        return None;
                    }
                    (Ok(epoch), Some(before)) if epoch == before => return None,
                    (Ok(_), Some(before)) => before.ended(),
                    // One that never was whole has not broken.
                    (Err(_), None) => return None,
                    (Err(fault), Some(_)) => fault,
                };
                Some(Broken { port: port.name().to_owned(), why: fault.to_string() })
            });
        }
        self.broken.as_ref()
    }
}
