//! The workers, seen from the control thread: started, pinned, given orders, and started again when they fail.
//!
//! A worker that panics takes only itself down. Its thread unwinds, which closes its sockets; from then on the
//! program in the driver finds no socket for those queues and Linux gets their packets. The crew notices at its next
//! look ([`Crew::fallen`]), and whoever owns the ports gives the new worker fresh queues.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use fib::{PortId, View};
use graph::{Description, Environment, GraphCounters, NodeId, Program, Sinks};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use port::{Pool, Queue};
use tracing::{error, info, warn};

use crate::PlaneError;
use crate::meter::{QueueMeter, State, WorkerMeter};
use crate::police::Limits;
use crate::policy::{Policy, Prepared};
use crate::relay::Letterbox;
use crate::worker::{Desk, Linux, Order, Request, Worker};
use elements::router::SharedSeat;
use elements::router::standard::{Standard, instance};

/// How long a worker may take to obey before the control thread goes on without it.
const PATIENCE: Duration = Duration::from_secs(2);

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
}

/// One worker, seen from outside.
pub struct Member {
    /// The core that it is pinned to.
    pub core: usize,
    /// Times that it was started again.
    pub restarts: u64,
    /// What it says of itself.
    pub meter: Arc<WorkerMeter>,
    /// What its graph counted, in this life and in those before it.
    pub counters: Arc<GraphCounters>,
    orders: Sender<Order>,
    seat: SharedSeat,
    letterbox: Arc<Letterbox>,
    thread: Option<JoinHandle<()>>,
}

/// All workers.
pub struct Crew {
    blueprint: Blueprint,
    members: Vec<Member>,
    description: Arc<Description>,
}

impl Crew {
    /// Starts a worker on each core, with a pool each.
    pub fn start(
        blueprint: Blueprint,
        policy: &Policy,
        cores: &[usize],
        pools: Vec<Pool>,
    ) -> Result<Crew, PlaneError> {
        let description = instance(&blueprint.program, &blueprint.environment)?.graph.description();
        let mut crew = Crew { blueprint, members: Vec::new(), description };
        for (core, pool) in cores.iter().zip(pools) {
            let index = crew.members.len();
            let member = crew.hire(index, *core, pool, policy.seat(index)?, None)?;
            crew.members.push(member);
        }
        Ok(crew)
    }

    fn hire(
        &self,
        index: usize,
        core: usize,
        pool: Pool,
        seat: SharedSeat,
        fallen: Option<&Member>,
    ) -> Result<Member, PlaneError> {
        let program = &self.blueprint.program;
        let Standard { mut graph, entry } = instance(program, &self.environment_at(&seat))?;
        program.begin(&mut graph, &mut Sinks::new())?;
        let counters = graph.counters();
        if let Some(fallen) = fallen {
            counters.inherit(&fallen.counters);
        }
        let restarts = fallen.map_or(0, |fallen| fallen.restarts + 1);
        let meter = fallen.map_or_else(Arc::default, |fallen| fallen.meter.clone());
        let letterbox = Letterbox::new().map_err(PlaneError::Letterbox)?;
        let (orders, inbox) = channel();
        let desk = Desk {
            view: self.blueprint.view.clone(),
            graph,
            entry,
            orders: inbox,
            seat: seat.clone(),
            letterbox: letterbox.clone(),
            meter: meter.clone(),
            linux: self.blueprint.linux.clone(),
            limits: self.blueprint.limits.clone(),
        };
        meter.set_state(State::Polling);
        let failing = meter.clone();
        let thread = std::thread::Builder::new()
            .name(format!("worker-{index}"))
            .spawn(move || {
                pin(index, core);
                pool.install();
                let work = std::panic::AssertUnwindSafe(|| Worker::new(desk).run());
                if std::panic::catch_unwind(work).is_err() {
                    failing.set_state(State::Failed);
                }
            })
            .map_err(PlaneError::Thread)?;
        Ok(Member { core, restarts, meter, counters, orders, seat, letterbox, thread: Some(thread) })
    }

    /// What the elements of the worker at a seat share.
    fn environment_at(&self, seat: &SharedSeat) -> Environment {
        let mut environment = self.blueprint.environment.clone();
        environment.share(seat.clone());
        environment
    }

    /// Gives every worker access to the flows that are tracked from now on.
    pub fn track(&self, prepared: &Prepared) -> Result<(), PlaneError> {
        for member in &self.members {
            prepared.track(&member.seat)?;
        }
        Ok(())
    }

    /// Tells every worker whether packets are chosen for sFlow, and by what.
    pub fn sample(&self, policy: &Policy) {
        self.members.iter().for_each(|member| policy.sample(&member.seat));
    }

    /// How many workers there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Every worker, by index.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Times the elements of every worker's graph, or stops to.
    pub fn measure(&self, on: bool) {
        self.members.iter().for_each(|member| member.counters.measure(on));
    }

    /// The graph that each worker runs an instance of.
    pub fn description(&self) -> &Arc<Description> {
        &self.description
    }

    /// The router that the workers run.
    pub fn program(&self) -> &Program {
        &self.blueprint.program
    }

    /// What its elements share.
    pub fn environment(&self) -> &Environment {
        &self.blueprint.environment
    }

    /// Changes every worker to another router, each between two of its batches. When an element cannot begin, the
    /// workers that have changed change back, and all is as it was.
    pub fn change(&mut self, program: Arc<Program>) -> Result<(), PlaneError> {
        let description = instance(&program, &self.blueprint.environment)?.graph.description();
        let before = std::mem::replace(&mut self.blueprint.program, program.clone());
        for worker in 0..self.members.len() {
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
        let Some(seat) = self.members.get(worker).map(|member| member.seat.clone()) else { return Ok(()) };
        let Standard { graph, entry } = instance(program, &self.environment_at(&seat))?;
        let (counters, description) = (graph.counters(), graph.description());
        let (done, changed) = sync_channel(1);
        self.order(worker, Order::Change(Box::new(graph), entry, done));
        match changed.recv_timeout(PATIENCE) {
            Ok(Ok(())) => {}
            Ok(Err(refused)) => {
                let name =
                    |node: NodeId| description.nodes.get(node.0).map_or("", |node| &node.name).to_owned();
                let reasons = refused.into_iter().map(|(node, message)| format!("{}: {message}", name(node)));
                return Err(PlaneError::Refused(reasons.collect::<Vec<_>>().join("; ")));
            }
            // It has failed, and is started again with the program that counts then.
            Err(_) => return Ok(()),
        }
        if let Some(member) = self.members.get_mut(worker) {
            member.counters = counters;
        }
        Ok(())
    }

    /// Reads or writes a handler of one worker's graph.
    pub fn handle(&self, worker: usize, request: Request) -> Result<String, PlaneError> {
        let (answer, answered) = sync_channel(1);
        self.order(worker, Order::Handle(request, answer));
        let result = answered.recv_timeout(PATIENCE).map_err(|_| PlaneError::Silent(worker))?;
        Ok(result?)
    }

    /// Gives a worker an order; one that has failed does not get it.
    pub fn order(&self, worker: usize, order: Order) {
        let Some(member) = self.members.get(worker) else { return };
        if member.orders.send(order).is_ok() {
            member.letterbox.summon();
        }
    }

    /// Gives a worker a queue, and waits until it is ready to receive; false when the worker has failed or is held up. Then it
    /// closes the queue, should it come to it later: kept open, the queue could never be opened again.
    pub fn serve(&self, worker: usize, queue: Box<dyn Queue>, meter: Arc<QueueMeter>) -> bool {
        // Without room: what is sent has been received.
        let (ready, served) = sync_channel(0);
        self.order(worker, Order::Serve(queue, meter, ready));
        served.recv_timeout(PATIENCE).is_ok()
    }

    /// Where things are left for a worker.
    pub(crate) fn letterbox(&self, worker: usize) -> Option<Arc<Letterbox>> {
        self.members.get(worker).map(|member| member.letterbox.clone())
    }

    /// Lets a worker send what leaves by `port` through its colleague `by`, or closes that way.
    pub fn relay(&self, worker: usize, port: PortId, by: Option<usize>) {
        let letterbox = by.and_then(|by| self.members.get(by)).map(|member| member.letterbox.clone());
        self.order(worker, Order::Relay(port, letterbox));
    }

    /// Makes every worker close its queues of a port, and waits until they have (a failed worker has anyway).
    pub fn leave(&self, port: PortId) {
        let (done, closed) = sync_channel(self.members.len());
        for worker in 0..self.members.len() {
            self.order(worker, Order::Leave(port, done.clone()));
        }
        drop(done);
        for _ in 0..self.members.len() {
            if closed.recv_timeout(PATIENCE).is_err() {
                break;
            }
        }
    }

    /// Starts the workers again that have failed, and returns their indices: they have no queues yet.
    /// `pool` leases the memory of a worker anew.
    pub fn raise_fallen(
        &mut self,
        policy: &Policy,
        mut pool: impl FnMut(usize) -> Option<Pool>,
    ) -> Vec<usize> {
        let mut raised = Vec::new();
        for index in 0..self.members.len() {
            let member = &mut self.members[index];
            if member.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
                continue;
            }
            if let Some(thread) = member.thread.take() {
                error!("worker {index} failed; Linux forwards for its queues until it is started again");
                // The panic's message was logged when it happened.
                let _ = thread.join();
            }
            let core = member.core;
            // No pool: somebody still holds it. The next look tries again.
            let Some(pool) = pool(index) else { continue };
            let hired = policy
                .seat(index)
                .and_then(|seat| self.hire(index, core, pool, seat, self.members.get(index)));
            match hired {
                Ok(hired) => {
                    warn!("worker {index} was started again (restart {})", hired.restarts);
                    self.members[index] = hired;
                    raised.push(index);
                }
                Err(error) => error!("worker {index} cannot be started again yet: {error}"),
            }
        }
        raised
    }

    /// Ends all workers and waits for them. Their sockets are closed afterwards.
    pub fn stop(&mut self) {
        for index in 0..self.members.len() {
            self.order(index, Order::Stop);
        }
        for member in &mut self.members {
            if let Some(thread) = member.thread.take() {
                // A worker that panicked while stopping has stopped.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Crew {
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
