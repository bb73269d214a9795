//! Ports that one process hands to another, which forwards from then on.
//!
//! What the driver carries by itself it goes on carrying: its program, with the tables as they are,
//! stays until the other process has put its own in its place. What is for a worker is Linux's from
//! the moment that the one closes its sockets until the other has opened its own. Settings of the
//! devices that are the plane's for as long as it has them are handed over as well: nothing is put
//! back in between.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use fib::PortId;
use port::HandedLink;
use port::device::Offloads;
use tracing::warn;

use crate::Plane;
use crate::port::{Interface, Port};

/// How long the kernel may take to let go of another process's sockets.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long it is waited before the next try.
const PAUSE: Duration = Duration::from_millis(2);
/// How long the driver may still give frames to a socket after it was told of none.
const UNDER_WAY: Duration = Duration::from_millis(2);

/// A port, handed over.
#[derive(Debug)]
pub struct Handed {
    /// Its name.
    pub name: String,
    /// The program at its interface.
    pub link: HandedLink,
    /// What its device did to frames before it was taken, if that was turned off.
    pub offloads: Option<Offloads>,
    /// Its RSS table before that, if it was changed.
    pub rss: Option<Vec<u32>>,
}

/// What a process was handed.
#[derive(Default)]
pub(crate) struct Inheritance {
    ports: HashMap<String, Handed>,
    /// Those that were taken out.
    begun: Vec<String>,
    /// When that was.
    since: Option<Instant>,
}

impl Inheritance {
    /// What was handed over of an interface, once.
    pub fn take(&mut self, interface: &Interface) -> Option<Handed> {
        let handed = self.ports.remove(&interface.name)?;
        // One of this name that was made anew has no program.
        let handed = Some(handed).filter(|handed| handed.link.ifindex == interface.ifindex)?;
        self.begun.push(interface.name.clone());
        Some(handed)
    }

    /// Tries again what fails because another process has only just closed what is opened here.
    pub fn patiently<T, E>(
        &self,
        mut attempt: impl FnMut() -> Result<T, E>,
        is_busy: impl Fn(&E) -> bool,
    ) -> Result<T, E> {
        loop {
            let done = attempt();
            let may_wait = self.since.is_some_and(|since| since.elapsed() < PATIENCE);
            match &done {
                Err(error) if may_wait && is_busy(error) => std::thread::sleep(PAUSE),
                _ => return done,
            }
        }
    }
}

impl Plane {
    /// Closes all sockets, and says what another process needs to go on. The programs stay as they
    /// are. Afterwards every port is to be given back, unless the other process has them.
    pub fn hand_over(&mut self) -> Vec<Handed> {
        self.takes_long();
        let mut handed = Vec::new();
        for index in 0..self.ports.len() {
            let id = PortId(index as u16);
            if self.ports[index].shared.is_some() {
                self.close(id);
                // The other process opens it itself.
                let _ = self.share(id, None);
                continue;
            }
            let Some(taken) = &self.ports[index].taken else { continue };
            match self.driver.link_of(id, &taken.attachment) {
                Ok(Some(link)) => handed.push(Handed {
                    name: self.ports[index].name.clone(),
                    link,
                    offloads: taken.offloads,
                    rss: taken.rss.clone(),
                }),
                Ok(None) => {}
                Err(error) => warn!("{}: cannot be handed over: {error}", self.ports[index].name),
            }
            let queues: Vec<u32> = taken.queues.iter().map(|open| open.queue).collect();
            // Fails when the kernel has taken the socket out of the map.
            queues.iter().for_each(|queue| drop(self.driver.clear_socket(id, *queue)));
        }
        std::thread::sleep(UNDER_WAY);
        self.worker_pool.leave_all();
        handed
    }

    /// Takes these ports from another process when their turn comes.
    pub fn inherit(&mut self, handed: Vec<Handed>) {
        let ports = handed.into_iter().map(|handed| (handed.name.clone(), handed)).collect();
        self.handed = Inheritance { ports, begun: Vec::new(), since: Some(Instant::now()) };
    }

    /// A port that was handed over and could not be taken, with the reason. From now on what was
    /// not asked for is given up.
    pub fn lost(&mut self) -> Option<String> {
        let Inheritance { begun, .. } = std::mem::take(&mut self.handed);
        let lost = |name: &String| self.ports.iter().find(|port| port.name == *name && port.taken.is_none());
        let port: &Port = begun.iter().find_map(lost)?;
        Some(format!("{}: {}", port.name, port.refused.as_deref().unwrap_or("it was not taken")))
    }
}
