//! The receiving half of a trial.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use ::port::traffic::Arrivals;

use crate::control::Remote;
use crate::outage::Broken;
use crate::port::{Kind, install_pool};
use crate::sink::{self, Arrived, Expected, Post};
use crate::{Port, TrafficError, live};

/// A port that is listened on. Dropping it ends that.
pub(crate) struct Receiving(Means);

enum Means {
    Thread {
        post: Arc<Post>,
        stop: Arc<AtomicBool>,
        thread: Mutex<Option<JoinHandle<Result<(), TrafficError>>>>,
    },
    Program(Arrivals),
    Remote(Box<Remote>, Mutex<u64>),
}

impl Receiving {
    /// Begins to receive by a port, on a core if one is named.
    pub(crate) fn start(
        to: &Port,
        expected: Expected,
        core: Option<usize>,
    ) -> Result<Receiving, TrafficError> {
        to.connected()?;
        let interface = match to.kind() {
            Kind::Live(interface) => interface,
            Kind::Queues(..) => {
                let (post, stop) = (Arc::new(Post::default()), Arc::new(AtomicBool::new(false)));
                let (to, told, stopped) = (to.clone(), post.clone(), stop.clone());
                let (listens, heard) = channel();
                let work = move || {
                    let Kind::Queues(queues, memory) = to.kind() else { return Ok(()) };
                    live::pin(core)?;
                    install_pool(memory.as_ref())?;
                    sink::receive(queues, expected, &stopped, &told, listens);
                    Ok(())
                };
                let thread = thread::Builder::new().name("sink".to_owned()).spawn(work);
                let thread = thread.map_err(TrafficError::io("starting a thread"))?;
                // Nobody ever says anything: the other end is dropped, also where the thread fails.
                let _dropped = heard.recv();
                return Ok(Receiving(Means::Thread { post, stop, thread: Mutex::new(Some(thread)) }));
            }
        };
        Ok(Receiving(Means::Program(live::receive(interface, expected)?)))
    }

    /// A sink on another machine, which has been told what to look for.
    pub(crate) fn remote(remote: Remote) -> Receiving {
        Receiving(Means::Remote(Box::new(remote), Mutex::new(0)))
    }

    /// How far latencies may be off because clocks disagree, in nanoseconds; known at the end.
    pub(crate) fn clock_uncertainty(&self) -> u64 {
        match &self.0 {
            Means::Remote(_, uncertainty) => *uncertainty.lock().unwrap_or_else(PoisonError::into_inner),
            _ => 0,
        }
    }

    /// How packets are received, in words.
    pub(crate) fn means(&self) -> String {
        match &self.0 {
            Means::Thread { .. } => "queue".to_owned(),
            Means::Program(arrivals) if arrivals.attachment().native => "program in the driver".to_owned(),
            Means::Program(_) => "program in the stack".to_owned(),
            Means::Remote(remote, _) => format!("{} of another machine", remote.means()),
        }
    }

    /// What arrived so far.
    pub(crate) fn arrived(&self) -> Arrived {
        match &self.0 {
            Means::Thread { post, .. } => post.get(),
            Means::Program(arrivals) => live::arrived(arrivals),
            Means::Remote(remote, _) => remote.arrived(),
        }
    }

    /// Whether it still receives; who does that elsewhere is asked.
    pub(crate) fn check(&self) -> Result<(), TrafficError> {
        match &self.0 {
            Means::Remote(remote, _) => remote.ask_again(),
            Means::Thread { .. } | Means::Program(_) => Ok(()),
        }
    }

    /// The port that has broken where somebody else looks after it, as far as is known from
    /// [`Receiving::check`].
    pub(crate) fn broken(&self) -> Option<Broken> {
        match &self.0 {
            Means::Remote(remote, _) => remote.broken(),
            Means::Thread { .. } | Means::Program(_) => None,
        }
    }

    /// Ends it: from now on [`Receiving::arrived`] gives the same.
    pub(crate) fn stop(&self) -> Result<(), TrafficError> {
        let (stop, thread) = match &self.0 {
            Means::Thread { stop, thread, .. } => (stop, thread),
            Means::Program(_) => return Ok(()),
            Means::Remote(remote, uncertainty) => {
                let mut known = uncertainty.lock().unwrap_or_else(PoisonError::into_inner);
                if *known == 0 {
                    *known = remote.finish()?.max(1);
                }
                return Ok(());
            }
        };
        stop.store(true, Ordering::Relaxed);
        match thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(thread) => thread.join().unwrap_or(Err(TrafficError::Panicked("receiving"))),
            None => Ok(()),
        }
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        // Its error has been told by `stop`, or nobody asks any more.
        let _nobody_asks = self.stop();
    }
}
