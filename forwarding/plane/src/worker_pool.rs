//! The workers, seen from the control thread: started, pinned, given orders, and started again when
//! they fail.
//!
//! A worker that panics takes only itself down. Its thread unwinds, which closes its sockets; from
//! then on the program in the driver finds no socket for those queues and Linux gets their packets.
//! The worker pool notices at its next look ([`WorkerPool::raise_fallen`]), and whoever owns the
//! ports gives the new worker fresh queues.
//!
//! A worker that hangs (`watch.rs`) is stopped for ever where it stands ([`port::Leash`]), its
//! sockets are closed, and it is started again like one that panicked, with new packet memory: the
//! old one, and its thread, are lost until the process ends. So that is not done for ever: what
//! keeps hanging its workers is left to Linux.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fib::{Counts, PortId, Presence, View};
use graph::{Description, Environment, GraphCounters, NodeId, Observer, Program, Sinks};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use port::driver::pulse::Pulse;
use port::{Leash, Pool, Queue};
use tracing::{error, info, warn};

use crate::PlaneError;
use crate::handoff::HandoffQueue;
use crate::meter::{QueueMeter, State, WorkerMeter};
use crate::police::Limits;
use crate::policy::{Policy, Prepared};
use crate::watch::{STILL, Seen, Watch};
use crate::worker::{Linux, Request, Worker, WorkerCommand, WorkerParts};
use elements::router::standard::{Standard, instance};
use elements::router::{RouterContext, SharedContext};

/// How long a worker may take to obey before the control thread goes on without it.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long it may take to end, or to close what is given up: less, since somebody waits for the
/// router's end.
const LEAVING: Duration = Duration::from_millis(300);
/// How long it may take to stop a thread that hangs, unless that is in a system call.
const HALTING: Duration = Duration::from_millis(50);
/// Threads that hung and are lost, at most: each keeps its packet memory.
const LOST: u64 = 16;

/// What every worker's instance of the graph is made from.
pub struct Blueprint {
    /// The tables.
    pub view: View,
    /// The router, checked.
    pub program: Arc<Program>,
    /// What its elements share.
    pub environment: Environment,
    /// Where packets go that Linux is to complete.
    pub linux: Arc<dyn Linux>,
    /// How many of them.
    pub limits: Arc<Limits>,
    /// Where they say that they are there.
    pub pulse: Pulse,
}

/// One worker, seen from outside.
pub struct WorkerHandle {
    /// The core that it is pinned to.
    pub core: usize,
    /// Times that it was started again.
    pub restarts: u64,
    /// What it says of itself.
    pub meter: Arc<WorkerMeter>,
    /// What its graph counted, in this life and in those before it.
    pub counters: Arc<GraphCounters>,
    /// What passed interfaces that are no port's own, in all its lives.
    pub interfaces: Counts,
    orders: Sender<WorkerCommand>,
    context: SharedContext,
    handoff_queue: Arc<HandoffQueue>,
    thread: Option<JoinHandle<()>>,
    leash: Arc<Leash>,
    presence: Presence,
    watch: Watch,
    /// It hangs, which has been told.
    hangs: bool,
    /// Its thread is lost, and its packet memory with it.
    lost: bool,
    /// Its rounds when it was last waited for in vain.
    mute: Cell<Option<u64>>,
}

/// A worker that has no queues any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallen {
    /// It hangs and could not be started again yet.
    Hangs(usize),
    /// It was started again.
    Raised(usize),
}

impl WorkerHandle {
    /// How long to wait for it: not again for one that has not moved since it was waited for in
    /// vain.
    fn patience(&self, patience: Duration) -> Duration {
        if self.mute.get() == Some(self.meter.rounds.value()) { Duration::ZERO } else { patience }
    }

    /// Notes that it was waited for in vain.
    fn set_mute(&self) {
        self.mute.set(Some(self.meter.rounds.value()));
    }

    /// Ends its sleep, or the one that it is about to begin.
    pub(crate) fn summon(&self) {
        self.handoff_queue.summon();
    }

    /// Whether nobody takes what its queues had.
    pub(crate) fn is_gone(&self) -> bool {
        self.hangs || self.lost || self.meter.state() == State::Failed
    }

    /// Whether it hangs, as far as can be seen.
    fn is_still(&mut self, now: Instant) -> bool {
        let seen = Seen { rounds: self.meter.rounds.value(), asleep: self.meter.state() == State::Asleep };
        self.hangs || self.watch.is_still(seen, &*self.leash, now)
    }

    /// Stops a worker that hangs for ever, unless it must be tried again.
    fn halt(&mut self) -> bool {
        if !self.leash.halt(HALTING) {
            return false;
        }
        self.presence.end();
        self.context.end();
        // What colleagues left for it goes home.
        while self.handoff_queue.take().is_some() {}
        (self.thread, self.lost) = (None, true);
        true
    }
}

/// All workers.
pub struct WorkerPool {
    blueprint: Blueprint,
    handles: Vec<WorkerHandle>,
    description: Arc<Description>,
    /// Threads that hung.
    lost: u64,
}

impl WorkerPool {
    /// Starts a worker on each core, with a pool each.
    pub fn start(
        blueprint: Blueprint,
        policy: &Policy,
        cores: &[usize],
        pools: Vec<Pool>,
    ) -> Result<WorkerPool, PlaneError> {
        let description = instance(&blueprint.program, &blueprint.environment)?.graph.description();
        let mut worker_pool = WorkerPool { blueprint, handles: Vec::new(), description, lost: 0 };
        for (core, pool) in cores.iter().zip(pools) {
            let index = worker_pool.handles.len();
            let handle = worker_pool.spawn(index, *core, pool, policy.context(index)?, None)?;
            worker_pool.handles.push(handle);
        }
        Ok(worker_pool)
    }

    fn spawn(
        &self,
        index: usize,
        core: usize,
        pool: Pool,
        context: SharedContext,
        fallen: Option<&WorkerHandle>,
    ) -> Result<WorkerHandle, PlaneError> {
        let program = &self.blueprint.program;
        let interfaces = fallen.map_or_else(Counts::default, |fallen| fallen.interfaces.clone());
        let environment = self.environment_at(&context, &interfaces);
        let Standard { mut graph, entry } = instance(program, &environment)?;
        program.begin(&mut graph, &mut Sinks::new())?;
        let counters = graph.counters();
        if let Some(fallen) = fallen {
            counters.inherit(&fallen.counters);
        }
        let restarts = fallen.map_or(0, |fallen| fallen.restarts + 1);
        let meter = fallen.map_or_else(Arc::default, |fallen| fallen.meter.clone());
        let handoff_queue = HandoffQueue::new().map_err(PlaneError::HandoffQueue)?;
        let (orders, inbox) = channel();
        let reader = self.blueprint.view.reader();
        let presence = reader.presence();
        let parts = WorkerParts {
            view: self.blueprint.view.clone(),
            reader,
            graph,
            entry,
            orders: inbox,
            context: context.clone(),
            handoff_queue: handoff_queue.clone(),
            meter: meter.clone(),
            linux: self.blueprint.linux.clone(),
            limits: self.blueprint.limits.clone(),
            pulse: self.blueprint.pulse.clone(),
        };
        meter.set_state(State::Polling);
        let failing = meter.clone();
        let leash = Arc::<Leash>::default();
        let worn = leash.clone();
        let thread = std::thread::Builder::new()
            .name(format!("worker-{index}"))
            .spawn(move || {
                let _leash = worn.put_on();
                pin(index, core);
                pool.install();
                let work = std::panic::AssertUnwindSafe(|| Worker::new(parts).run());
                if std::panic::catch_unwind(work).is_err() {
                    failing.set_state(State::Failed);
                }
            })
            .map_err(PlaneError::Thread)?;
        let (thread, watch) = (Some(thread), Watch::new(Instant::now()));
        let (hangs, lost, mute) = (false, false, Cell::default());
        Ok(WorkerHandle {
            core,
            restarts,
            meter,
            counters,
            interfaces,
            orders,
            context,
            handoff_queue,
            thread,
            leash,
            presence,
            watch,
            hangs,
            lost,
            mute,
        })
    }

    /// What the elements of the worker at a context share.
    fn environment_at(&self, context: &SharedContext, counts: &Counts) -> Environment {
        let mut environment = self.blueprint.environment.clone();
        environment.share(context.clone());
        if let Some(shared) = environment.get::<RouterContext>() {
            let view = shared.view.counting(counts.clone());
            environment.share(RouterContext { view, ..(*shared).clone() });
        }
        environment
    }

    /// Gives every worker access to the flows that are tracked from now on.
    pub fn track(&self, prepared: &Prepared) -> Result<(), PlaneError> {
        for handle in &self.handles {
            prepared.track(&handle.context)?;
        }
        Ok(())
    }

    /// Tells every worker whether packets are chosen for sFlow, and by what.
    pub fn sample(&self, policy: &Policy) {
        self.handles.iter().for_each(|handle| policy.sample(&handle.context));
    }

    /// How many workers there are.
    pub fn len(&self) -> usize {
        self.handles.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// Every worker, by index.
    pub fn handles(&self) -> &[WorkerHandle] {
        &self.handles
    }

    /// Times the elements of every worker's graph, or stops to.
    pub fn measure(&self, on: bool) {
        self.handles.iter().for_each(|handle| handle.counters.measure(on));
    }

    /// The graph that each worker runs an instance of.
    pub fn description(&self) -> &Arc<Description> {
        &self.description
    }

    /// The router that the workers run.
    pub fn program(&self) -> &Arc<Program> {
        &self.blueprint.program
    }

    /// What its elements share.
    pub fn environment(&self) -> &Environment {
        &self.blueprint.environment
    }

    /// Changes every worker to another router, each between two of its batches. When an element
    /// cannot begin, the workers that have changed change back, and all is as it was.
    pub fn change(&mut self, program: Arc<Program>) -> Result<(), PlaneError> {
        let description = instance(&program, &self.blueprint.environment)?.graph.description();
        let before = std::mem::replace(&mut self.blueprint.program, program.clone());
        for worker in 0..self.handles.len() {
            if let Err(error) = self.change_one(worker, &program) {
                for changed in 0..worker {
                    // It ran this program before, so it can.
                    let _ = self.change_one(changed, &before);
                }
                self.blueprint.program = before;
                return Err(error);
            }
        }
        self.description = description;
        Ok(())
    }

    fn change_one(&mut self, worker: usize, program: &Program) -> Result<(), PlaneError> {
        let Some(handle) = self.handles.get(worker) else { return Ok(()) };
        let environment = self.environment_at(&handle.context, &handle.interfaces);
        let Standard { graph, entry } = instance(program, &environment)?;
        let (counters, description) = (graph.counters(), graph.description());
        let (done, changed) = sync_channel(1);
        self.order(worker, WorkerCommand::Change(Box::new(graph), entry, done));
        match changed.recv_timeout(self.patience(worker, PATIENCE)) {
            Ok(Ok(())) => {}
            Ok(Err(refused)) => {
                let name =
                    |node: NodeId| description.nodes.get(node.0).map_or("", |node| &node.name).to_owned();
                let reasons = refused.into_iter().map(|(node, message)| format!("{}: {message}", name(node)));
                return Err(PlaneError::Refused(reasons.collect::<Vec<_>>().join("; ")));
            }
            // It has failed, and is started again with the program that counts then.
            Err(_) => {
                self.handles.iter().skip(worker).take(1).for_each(WorkerHandle::set_mute);
                return Ok(());
            }
        }
        if let Some(handle) = self.handles.get_mut(worker) {
            handle.counters = counters;
        }
        Ok(())
    }

    /// Reads or writes a handler of one worker's graph.
    pub fn handle(&self, worker: usize, request: Request) -> Result<String, PlaneError> {
        let (answer, answered) = sync_channel(1);
        self.order(worker, WorkerCommand::Handle(request, answer));
        let result =
            answered.recv_timeout(self.patience(worker, PATIENCE)).map_err(|_| self.silent(worker))?;
        Ok(result?)
    }

    fn patience(&self, worker: usize, patience: Duration) -> Duration {
        self.handles.get(worker).map_or(Duration::ZERO, |handle| handle.patience(patience))
    }

    fn silent(&self, worker: usize) -> PlaneError {
        self.handles.get(worker).into_iter().for_each(WorkerHandle::set_mute);
        PlaneError::Silent(worker)
    }

    /// Gives a worker an order; one that has failed does not get it.
    pub fn order(&self, worker: usize, order: WorkerCommand) {
        let Some(handle) = self.handles.get(worker) else { return };
        if handle.orders.send(order).is_ok() {
            handle.handoff_queue.summon();
        }
    }

    /// Gives a worker a queue, and waits until it is ready to receive; false when the worker has
    /// failed or is held up. Then it closes the queue, should it come to it later: kept open, the
    /// queue could never be opened again.
    pub fn serve(&self, worker: usize, queue: Box<dyn Queue>, meter: Arc<QueueMeter>) -> bool {
        let Some(handle) = self.handles.get(worker).filter(|handle| handle.thread.is_some()) else {
            return false;
        };
        if let Some(recall) = queue.recall() {
            handle.leash.bind(recall);
        }
        // Without room: what is sent has been received.
        let (ready, served) = sync_channel(0);
        self.order(worker, WorkerCommand::Serve(queue, meter, ready));
        served.recv_timeout(self.patience(worker, PATIENCE)).map_err(|_| self.silent(worker)).is_ok()
    }

    /// Where things are left for a worker.
    pub(crate) fn handoff_queue(&self, worker: usize) -> Option<Arc<HandoffQueue>> {
        self.handles.get(worker).map(|handle| handle.handoff_queue.clone())
    }

    /// Lets a worker send what leaves by `port` through its colleague `by`, or closes that way.
    pub fn handoff(&self, worker: usize, port: PortId, by: Option<usize>) {
        let handoff_queue = by.and_then(|by| self.handles.get(by)).map(|handle| handle.handoff_queue.clone());
        self.order(worker, WorkerCommand::Handoff(port, handoff_queue));
    }

    /// Makes every worker close its queues of a port, and waits until they have (a failed worker
    /// has anyway).
    pub fn leave(&self, port: PortId) {
        self.order_all(|_, done| WorkerCommand::Leave(port, done));
    }

    /// Makes every worker close all its queues, and waits until they have.
    pub fn leave_all(&self) {
        self.order_all(|_, done| WorkerCommand::LeaveAll(done));
    }

    /// Gives every worker an observer of its graph or takes it away, and waits until they have it
    /// (a failed worker has none).
    pub fn observe(&self, mut observer: impl FnMut(usize) -> Option<Box<dyn Observer>>) {
        self.order_all(|worker, done| WorkerCommand::Observe(observer(worker), done));
    }

    /// Gives every worker an order, and waits until all have obeyed or stopped.
    fn order_all(&self, mut order: impl FnMut(usize, SyncSender<()>) -> WorkerCommand) {
        let waiting = (0..self.handles.len()).map(|worker| {
            let (done, obeyed) = sync_channel(1);
            self.order(worker, order(worker, done));
            (worker, obeyed)
        });
        for (worker, obeyed) in waiting.collect::<Vec<_>>() {
            if obeyed.recv_timeout(self.patience(worker, LEAVING)) == Err(RecvTimeoutError::Timeout) {
                self.silent(worker);
            }
        }
    }

    /// Starts the workers again that have failed or hang, and returns those that lost their queues.
    /// `pool` leases the memory of a worker anew; when it is lost, new memory.
    pub fn raise_fallen(
        &mut self,
        policy: &Policy,
        mut pool: impl FnMut(usize, bool) -> Option<Pool>,
    ) -> Vec<Fallen> {
        let mut fallen = Vec::new();
        let now = Instant::now();
        for index in 0..self.handles.len() {
            let handle = &mut self.handles[index];
            if handle.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
                if !handle.is_still(now) {
                    continue;
                }
                let halted = handle.halt();
                if !std::mem::replace(&mut handle.hangs, true) {
                    self.lost += 1;
                    error!(
                        "worker {index} hangs: no round in {} ms; Linux forwards for its queues until it is started again",
                        STILL.as_millis()
                    );
                    fallen.push(Fallen::Hangs(index));
                }
                if !halted {
                    continue;
                }
                if self.lost > LOST {
                    error!(
                        "worker {index} is not started again: {LOST} threads hang already; restart the router"
                    );
                }
            }
            let handle = &mut self.handles[index];
            if handle.lost && self.lost > LOST {
                continue;
            }
            if let Some(thread) = handle.thread.take() {
                error!("worker {index} failed; Linux forwards for its queues until it is started again");
                // The panic's message was logged when it happened.
                let _ = thread.join();
            }
            let (core, lost) = (handle.core, handle.lost);
            // No pool: somebody still holds it. The next look tries again.
            let Some(pool) = pool(index, lost) else { continue };
            let spawned = policy
                .context(index)
                .and_then(|context| self.spawn(index, core, pool, context, self.handles.get(index)));
            match spawned {
                Ok(spawned) => {
                    warn!("worker {index} was started again (restart {})", spawned.restarts);
                    self.handles[index] = spawned;
                    fallen.push(Fallen::Raised(index));
                }
                Err(error) => error!("worker {index} cannot be started again yet: {error}"),
            }
        }
        fallen
    }

    /// Ends all workers and waits for them. Their sockets are closed afterwards; those of one that
    /// hangs end with the process.
    pub fn stop(&mut self) {
        // What one still has may be for another to send, so none ends before all have looked.
        self.order_all(|_, done| WorkerCommand::Drain(done));
        for index in 0..self.handles.len() {
            self.order(index, WorkerCommand::Stop);
        }
        for (index, handle) in self.handles.iter_mut().enumerate() {
            let Some(thread) = handle.thread.take() else { continue };
            let deadline = Instant::now() + handle.patience(PATIENCE);
            while !thread.is_finished() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            if thread.is_finished() {
                // A worker that panicked while stopping has stopped.
                let _ = thread.join();
            } else {
                warn!("worker {index} does not end: it is left behind");
            }
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.stop();
    }
}

fn pin(index: usize, core: usize) {
    let mut set = CpuSet::new();
    let pinned = set.set(core).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    match pinned {
        Ok(()) => info!("worker {index} runs on core {core}"),
        Err(error) => {
            warn!("worker {index} cannot be pinned to core {core} ({error}); it runs where Linux puts it")
        }
    }
}
