//! Running a graph until it is asked to stop, as Click's user-level driver does.
//!
//! The driver gives elements their turns, round after round. Now and then, and whenever there was nothing to do, it
//! looks at file descriptors and signals; with nothing to do it sleeps until the next moment that anything asked for.
//! Simulated time jumps to that moment instead. It never ends by itself: a graph in which nothing can happen any
//! more waits for a signal.
//!
//! Signals that elements want, and those that stop the program, are blocked and read from a descriptor, so that they
//! come between rounds and never in the middle of one. SIGINT and SIGTERM stop the program for certain; the next one
//! of its kind is not held back any more and kills.

use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::{Graph, Sinks};

/// Rounds with work between two looks at file descriptors and signals.
const ROUNDS: u32 = 32;
/// Steps that a script which directs the run may go on after a signal has stopped it.
const LAST_STEPS: usize = 1000;

/// Makes the graph of a configuration that has changed; `None`, and it has said why, when that is no use.
pub type Reread = Box<dyn FnMut() -> Option<Graph>>;

/// A graph and what it needs to run by itself.
pub struct Driver {
    graph: Graph,
    sinks: Sinks,
    /// Where signals are read from, and which.
    signals: Option<(SignalFd, SigSet)>,
    /// Whether signals stop the run that no element wants.
    stops: bool,
    reread: Option<Reread>,
}

impl Driver {
    /// A driver of a graph that has been started.
    pub fn new(graph: Graph, sinks: Sinks) -> Driver {
        Driver { graph, sinks, signals: None, stops: false, reread: None }
    }

    /// Lets SIGINT and SIGTERM stop the graph, from now on.
    pub fn stop_on_signals(&mut self) {
        self.stops = true;
        block(Signal::SIGINT as i32, true);
        block(Signal::SIGTERM as i32, true);
    }

    /// Lets SIGHUP change to the graph that `reread` makes, from now on.
    pub fn reread_on_hangup(&mut self, reread: Reread) {
        self.reread = Some(reread);
        block(Signal::SIGHUP as i32, true);
    }

    /// The graph, and the sinks that it runs with.
    pub fn parts(&mut self) -> (&mut Graph, &mut Sinks) {
        (&mut self.graph, &mut self.sinks)
    }

    /// Runs until an element, a handler or a signal stops the graph. What is written to the `hotconfig` handler takes its
    /// place meanwhile.
    pub fn run(&mut self) {
        let mut rounds = 0;
        while !self.graph.stopping(&mut self.sinks) {
            if let Some(next) = self.graph.take_next() {
                self.change_to(next);
            }
            let worked = self.graph.work(&mut self.sinks);
            rounds += 1;
            // A signal comes before what its sender does next.
            let rounds_enough = rounds >= ROUNDS || self.graph.caught_signals().next().is_some();
            if worked && !rounds_enough {
                continue;
            }
            rounds = 0;
            let stop = if worked { self.look(Some(Duration::ZERO)) } else { self.idle() };
            if stop {
                self.graph.finish(LAST_STEPS, &mut self.sinks);
                return;
            }
        }
    }

    fn change_to(&mut self, next: Graph) {
        let description = next.description();
        for (node, reason) in self.graph.change_to(next, &mut self.sinks).err().into_iter().flatten() {
            let name = description.nodes.get(node.0).map_or("", |node| &node.name);
            self.graph.say(&format!("while initializing '{name}': {reason}"));
        }
    }

    /// Nothing can be done now: waits, or lets simulated time jump. Whether a signal stops the graph.
    fn idle(&mut self) -> bool {
        let Some(next) = self.graph.next_event() else { return self.look(None) };
        if self.graph.is_simulated() {
            self.graph.jump(next);
            return self.look(Some(Duration::ZERO));
        }
        let now = self.graph.now();
        self.look(Some(Duration::from_nanos(next.saturating_sub(now))))
    }

    /// Waits for file descriptors and signals, at most so long, and tells the elements. Whether a signal stops the
    /// graph.
    fn look(&mut self, patience: Option<Duration>) -> bool {
        self.listen();
        let mut fds: Vec<RawFd> = self.graph.watched().collect();
        fds.extend(self.signals.as_ref().map(|(signals, _)| signals.as_raw_fd()));
        fds.sort_unstable();
        fds.dedup();
        let mut stop = false;
        for fd in port::wait(&fds, patience) {
            if self.signals.as_ref().is_some_and(|(signals, _)| signals.as_raw_fd() == fd) {
                stop = self.read_signals();
            } else {
                self.graph.ready(fd, &mut self.sinks);
            }
        }
        stop
    }

    /// Listens to the signals that are wanted now.
    fn listen(&mut self) {
        let mut wanted = SigSet::empty();
        for signal in self.graph.caught_signals().filter_map(|signal| Signal::try_from(signal).ok()) {
            wanted.add(signal);
        }
        if self.stops {
            wanted.add(Signal::SIGINT);
            wanted.add(Signal::SIGTERM);
        }
        if self.reread.is_some() {
            wanted.add(Signal::SIGHUP);
        }
        match &mut self.signals {
            Some((_, set)) if *set == wanted => {}
            Some((signals, set)) => {
                if signals.set_mask(&wanted).is_ok() {
                    *set = wanted;
                }
            }
            None if wanted == SigSet::empty() => {}
            None => {
                let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
                self.signals = SignalFd::with_flags(&wanted, flags).ok().map(|signals| (signals, wanted));
            }
        }
    }

    /// Whether one of them stops the graph.
    fn read_signals(&mut self) -> bool {
        let mut stop = false;
        while let Some((signals, _)) = &self.signals
            && let Ok(Some(info)) = signals.read_signal()
        {
            let Ok(signal) = i32::try_from(info.ssi_signo) else { continue };
            if self.graph.signal(signal, &mut self.sinks) {
                continue;
            }
            match &mut self.reread {
                Some(reread) if signal == Signal::SIGHUP as i32 => {
                    if let Some(next) = reread() {
                        self.change_to(next);
                    }
                }
                _ => {
                    block(signal, false);
                    stop = true;
                }
            }
        }
        stop
    }
}

/// Holds a signal back in this thread, and those it will begin, or lets it come again. One that there is not stays
/// as it is.
pub(crate) fn block(signal: i32, hold: bool) {
    let Ok(signal) = Signal::try_from(signal) else { return };
    let set: SigSet = [signal].into_iter().collect();
    // Fails only for numbers that are no signals.
    let _ = if hold { set.thread_block() } else { set.thread_unblock() };
}
