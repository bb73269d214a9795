//! sFlow beside the control thread: workers choose packets, the agent's own thread sends them, and
//! the control thread says from time to time what the ports have counted.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use elements::router::Sampling;
use flowlog::settings::SflowPlan;
use flowlog::sflow::{Agent, DirectionCounters, InterfaceCounters};

use super::flow_log::output;
use super::forwarding::Forwarding;
use super::section::{Change, Section};
use crate::control::status::{PortState, PortStatus, SflowStatus};
use crate::subject::statuses;

/// IANA's number for Ethernet interfaces.
const ETHERNET: u32 = 6;
/// How often the ports' counters are laid out for the agent.
const EVERY: Duration = Duration::from_secs(1);

/// The agent, and what it needs.
pub(crate) struct Sflow {
    plan: SflowPlan,
    agent: Arc<Agent>,
    counters: Arc<Mutex<Vec<InterfaceCounters>>>,
    told: Option<Instant>,
}

impl Sflow {
    pub(super) fn start(plan: SflowPlan) -> io::Result<Sflow> {
        let counters: Arc<Mutex<Vec<InterfaceCounters>>> = Arc::default();
        let laid_out = counters.clone();
        // Whoever panicked with it left whole counters behind.
        let read = move || laid_out.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let agent = Arc::new(Agent::start(plan.clone(), Box::new(read))?);
        Ok(Sflow { plan, agent, counters, told: None })
    }

    /// What workers choose packets by.
    pub(super) fn sampling(&self) -> Sampling {
        let agent = self.agent.clone();
        Sampling::new(move |ifindex| agent.sampler(ifindex))
    }

    fn status(&self) -> SflowStatus {
        let count = self.agent.count();
        SflowStatus {
            sample: self.plan.sample,
            seen: count.seen,
            lost: count.lost,
            collectors: count.collectors.into_iter().map(output).collect(),
        }
    }
}

fn counters(port: &PortStatus) -> InterfaceCounters {
    let direction = |lanes: &crate::control::status::Lanes, discards: u64| {
        let all = [&lanes.express, &lanes.worker, &lanes.linux];
        DirectionCounters {
            bytes: all.iter().map(|count| count.bytes).sum(),
            // The format counts in 32 bits, which wrap.
            unicast: all.iter().map(|count| count.packets).sum::<u64>() as u32,
            multicast: u32::MAX,
            broadcast: u32::MAX,
            discards: discards as u32,
            errors: 0,
        }
    };
    InterfaceCounters {
        index: port.ifindex,
        kind: ETHERNET,
        speed: port.speed_mbps.map_or(0, |speed| u64::from(speed) * 1_000_000),
        full_duplex: true,
        admin_up: port.state != PortState::Absent,
        oper_up: port.state == PortState::Up,
        promiscuous: false,
        input: direction(&port.received, port.drops),
        input_unknown_protocols: u32::MAX,
        output: direction(&port.sent, 0),
    }
}

/// `[sflow]`: the agent that runs, and one that will.
#[derive(Default)]
pub(crate) struct Sampler {
    running: Option<Sflow>,
    prepared: Option<Option<Sflow>>,
}

impl Sampler {
    pub(super) fn new(running: Option<Sflow>) -> Sampler {
        Sampler { running, prepared: None }
    }

    /// Lays out the ports' counters for the agent, if it is time.
    pub(super) fn tell(&mut self, forwarding: &Forwarding) {
        let due = |sflow: &&mut Sflow| sflow.told.is_none_or(|told| told.elapsed() >= EVERY);
        let Some(sflow) = self.running.as_mut().filter(due) else { return };
        let ports = statuses(forwarding);
        let found = ports.iter().filter(|port| port.ifindex != 0).map(counters).collect();
        sflow.told = Some(Instant::now());
        *sflow.counters.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    /// What the agent has done.
    pub(crate) fn status(&self) -> Option<SflowStatus> {
        self.running.as_ref().map(Sflow::status)
    }
}

impl Section for Sampler {
    fn effects(&self, change: &Change) -> Vec<String> {
        match (change.differs(|router| &router.sflow), &change.after.sflow) {
            (false, _) => Vec::new(),
            (true, Some(plan)) => vec![format!("[sflow]: one packet in {} is sampled", plan.sample)],
            (true, None) => vec!["[sflow]: no packet is sampled any more".to_owned()],
        }
    }

    fn prepare(&mut self, change: &mut Change, _: &mut Forwarding) -> Result<(), String> {
        let running = self.running.as_ref();
        self.prepared = match &change.after.sflow {
            Some(plan) if running.is_none_or(|sflow| sflow.plan != *plan) => {
                let started = Sflow::start(plan.clone());
                Some(Some(started.map_err(|error| format!("cannot start sFlow: {error}"))?))
            }
            None if running.is_some() => Some(None),
            _ => None,
        };
        let next = self.prepared.as_ref().map_or(running, Option::as_ref);
        change.sampling = next.map(Sflow::sampling);
        Ok(())
    }

    fn apply(&mut self, _: &Change, _: &mut Forwarding) {
        if let Some(prepared) = self.prepared.take() {
            self.running = prepared;
        }
    }

    fn abort(&mut self, _: &mut Forwarding) {
        self.prepared = None;
    }
}
