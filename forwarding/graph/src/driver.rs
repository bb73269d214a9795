//! Running a graph until it is asked to stop, as Click's user-level driver does.
//!
//! The driver gives elements their turns, round after round. Now and then, and whenever there was
//! nothing to do, it looks at file descriptors and signals; with nothing to do it sleeps until the
//! next moment that anything asked for. Simulated time jumps to that moment instead. It never ends
//! by itself: a graph in which nothing can happen any more waits for a signal.
//!
//! Signals that elements want, and those that stop the program, are blocked and read from a
//! descriptor, so that they come between rounds and never in the middle of one. SIGINT and SIGTERM
//! stop the program for certain; the next one of its kind is not held back any more and kills.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use port::Memory;

use crate::{Graph, Sinks};

/// Rounds with work between two looks at file descriptors and signals.
const ROUNDS: u32 = 32;
/// Steps that a script which directs the run may go on after a signal has stopped it.
const LAST_STEPS: usize = 1000;

/// Makes the graph of a configuration that has changed; `None`, and it has said why, when that is
/// no use.
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
    /// A graph to change to.
    next: Option<Graph>,
    threads: usize,
    /// What each further thread takes a slice of, by its number.
    memory: Option<Arc<Memory>>,
    /// The core of the first thread; the others have those behind it.
    pinned: Option<usize>,
}

impl Driver {
    /// A driver of a graph that has been started.
    pub fn new(graph: Graph, sinks: Sinks) -> Driver {
        Driver {
            graph,
            sinks,
            signals: None,
            stops: false,
            reread: None,
            next: None,
            threads: 1,
            memory: None,
            pinned: None,
        }
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

    /// Runs tasks on so many threads, perhaps each on a core of its own, from this one on. Each has
    /// the packets of a slice of this memory, of which this thread, number 0, has its own installed
    /// already.
    pub fn use_threads(&mut self, threads: usize, memory: Arc<Memory>, pinned: Option<usize>) {
        (self.threads, self.memory, self.pinned) = (threads, Some(memory), pinned);
    }

    /// Runs until an element, a handler or a signal stops the graph. What is written to the
    /// `hotconfig` handler takes its place meanwhile.
    pub fn run(&mut self) {
        while let Some(next) = self.run_all() {
            self.change_to(next);
        }
    }

    /// Runs until the graph is stopped, or is to change to another.
    fn run_all(&mut self) -> Option<Graph> {
        // Simulated time is one for all.
        let threads = if self.graph.is_simulated() { 1 } else { self.threads };
        let others = if threads > 1 { self.graph.split(threads) } else { Vec::new() };
        let (memory, pinned) = (self.memory.clone(), self.pinned);
        if let Some(core) = pinned {
            pin(core);
        }
        std::thread::scope(|scope| {
            let part = |(number, graph): (usize, Graph)| {
                let pool = memory.as_ref().map(|memory| memory.pool(number + 1));
                scope.spawn(move || {
                    // Missing only where the memory is of fewer threads: then this one can make no
                    // packets.
                    if let Some(Ok(pool)) = pool {
                        pool.install();
                    }
                    if let Some(core) = pinned {
                        pin(core.saturating_add(number + 1));
                    }
                    let mut driver = Driver::new(graph, Sinks::new());
                    driver.run_part();
                    driver.graph
                })
            };
            let threads: Vec<_> = others.into_iter().enumerate().map(part).collect();
            let next = self.run_part();
            self.graph.end_others();
            let parts = threads.into_iter().map(|thread| match thread.join() {
                Ok(graph) => graph,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            let parts = parts.collect();
            self.graph.join(parts, &mut self.sinks);
            next
        })
    }

    /// Runs what is on this thread.
    fn run_part(&mut self) -> Option<Graph> {
        let mut rounds = 0;
        loop {
            // First: a script whose last step writes `hotconfig` stops its own graph, not the next
            // one.
            if let Some(next) = self.next.take().or_else(|| self.graph.take_next()) {
                return Some(next);
            }
            let over = self.graph.follows().unwrap_or_else(|| self.graph.stopping(&mut self.sinks));
            if over {
                return None;
            }
            let mut worked = self.graph.serve_others(&mut self.sinks);
            worked |= self.graph.work(&mut self.sinks);
            if self.graph.changes() {
                // Before anything else is asked of the present one.
                continue;
            }
            rounds += 1;
            // A signal comes before what its sender does next.
            if worked && rounds < ROUNDS && self.graph.caught_signals().next().is_none() {
                continue;
            }
            rounds = 0;
            let stop = if worked { self.look(Some(Duration::ZERO)) } else { self.idle() };
            if stop {
                self.graph.finish(LAST_STEPS, &mut self.sinks);
                return None;
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

    /// Nothing can be done now: waits, or lets simulated time jump. Whether a signal stops the
    /// graph.
    fn idle(&mut self) -> bool {
        let Some(next) = self.graph.next_event() else { return self.look(None) };
        if self.graph.is_simulated() {
            self.graph.jump(next);
            return self.look(Some(Duration::ZERO));
        }
        let now = self.graph.now();
        let machine_time = self.graph.machine.clock.machine_time(next.saturating_sub(now));
        self.look(Some(Duration::from_nanos(machine_time)))
    }

    /// Waits for file descriptors and signals, at most so long, and tells the elements. Whether a
    /// signal stops the graph.
    fn look(&mut self, patience: Option<Duration>) -> bool {
        self.listen();
        let mut fds: Vec<RawFd> = self.graph.watched().collect();
        let (bell, patience) = match self.graph.fall_asleep() {
            _ if patience == Some(Duration::ZERO) => (None, patience),
            Ok(bell) => (bell, patience),
            Err(()) => (None, Some(Duration::ZERO)),
        };
        fds.extend(bell);
        fds.extend(self.signals.as_ref().map(|(signals, _)| signals.as_raw_fd()));
        fds.sort_unstable();
        fds.dedup();
        let mut stop = false;
        let ready = port::wait(&fds, patience);
        self.graph.wake_up();
        for fd in ready.into_iter().filter(|fd| Some(*fd) != bell) {
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
                    self.next = reread();
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

/// Keeps this thread on a core; where there is no such core, or it is not allowed, it stays as it
/// is.
fn pin(core: usize) {
    let mut cores = CpuSet::new();
    if cores.set(core).is_ok() {
        let _ = sched_setaffinity(Pid::from_raw(0), &cores);
    }
}

/// Holds a signal back in this thread, and those it will begin, or lets it come again. One that
/// there is not stays as it is.
pub(crate) fn block(signal: i32, hold: bool) {
    let Ok(signal) = Signal::try_from(signal) else { return };
    let set: SigSet = [signal].into_iter().collect();
    // Fails only for numbers that are no signals.
    let _ = if hold { set.thread_block() } else { set.thread_unblock() };
}
