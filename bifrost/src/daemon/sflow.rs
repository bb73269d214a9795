//! sFlow beside the control thread: workers choose packets, the agent's own thread sends them, and the control thread says from time to time
//! what the ports have counted.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use elements::router::Sampling;
use flowlog::settings::SflowPlan;
use flowlog::sflow::{Agent, DirectionCounters, InterfaceCounters};

use super::control::Control;
use super::flow_log::output;
use crate::control::status::{PortState, PortStatus, SflowStatus};

/// IANA's number for Ethernet interfaces.
const ETHERNET: u32 = 6;
/// How often the ports' counters are laid out for the agent.
const EVERY: Duration = Duration::from_secs(1);

/// The agent, and what it needs.
pub(super) struct Sflow {
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

    pub(super) fn plan(&self) -> &SflowPlan {
        &self.plan
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

impl Control {
    /// Lays out the ports' counters for the agent, if it is time.
    pub(super) fn tell_sflow(&mut self) {
        let due = |sflow: &Sflow| sflow.told.is_none_or(|told| told.elapsed() >= EVERY);
        if !self.sflow.as_ref().is_some_and(due) {
            return;
        }
        let found: Vec<InterfaceCounters> =
            self.port_statuses().iter().filter(|port| port.ifindex != 0).map(counters).collect();
        if let Some(sflow) = &mut self.sflow {
            sflow.told = Some(Instant::now());
            *sflow.counters.lock().unwrap_or_else(PoisonError::into_inner) = found;
        }
    }

    /// What the agent has done.
    pub(super) fn sflow_status(&self) -> Option<SflowStatus> {
        self.sflow.as_ref().map(Sflow::status)
    }
}
